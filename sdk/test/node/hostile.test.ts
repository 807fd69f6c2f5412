import { expect, test } from "vitest";

import { freshFolder } from "../places.node.js";
import { run } from "./child.js";

const TORTURE = process.env["RUNLOG_TORTURE"] !== undefined;

test("every call answers whatever it is given, with a value or an error that names what is wrong", async () => {
  const args = [await freshFolder(), ...(TORTURE ? ["both"] : [])];
  expect(await run("hostile.mjs", args, { seconds: 300 })).toEqual({ code: 0, signal: null, stdout: "found 0\n", stderr: "" });
}, 300_000);
