// The packed package, as ES modules have it; both copies know each other's errors.
import { createRequire } from "node:module";
import process from "node:process";
import { RunlogError, open } from "runlog";

const require = createRequire(import.meta.url);
const path = process.argv[2];
const store = await open(path);
const other = require("runlog");
const error = await other.open(path).catch((error) => error);
if (!(error instanceof RunlogError) || error.code !== "locked") throw error;
await store.close();
console.log(await require("./smoke.cjs")(path));
