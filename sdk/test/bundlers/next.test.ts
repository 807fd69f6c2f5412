// The packed package in the page of an application of Next's, built by both of its bundlers.

import { cp, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

import { run } from "../package/packed.js";
import { answerOf, prepared, serve } from "./pages.js";

const here = dirname(fileURLToPath(import.meta.url));
const ENV = { ...process.env, NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: "production" as const };

const all = prepared("next-page", async (packed) => {
  const { app } = packed;
  // The versions that the tests of server code have.
  for (const file of ["package.json", "package-lock.json"]) await cp(join(here, "../integrations/next", file), join(app, file));
  await cp(join(here, "next"), app, { recursive: true });
  // What is rendered on the server imports it too, where `runlog` is Node's.
  const main = await readFile(join(here, "app/main.js"), "utf8");
  await writeFile(join(app, "app/main.js"), main.replace('"runlog"', '"runlog/browser"'));
  await run("npm", ["ci", "--no-audit", "--no-fund", "--prefer-offline"], app);
  await packed.install();
});

test.each(["turbopack", "webpack"])("a page that %s built has a store, without any configuration", async (bundler) => {
  const { app } = all.packed;
  // A folder above may have a lock file too, which Next would take for the application's.
  const config = { output: "export", outputFileTracingRoot: app, turbopack: { root: app } };
  await writeFile(join(app, "next.config.mjs"), `export default ${JSON.stringify(config)};\n`);
  for (const folder of [".next", "out"]) await rm(join(app, folder), { recursive: true, force: true });
  // What hangs is ended, and fails.
  await run(process.execPath, [join(app, "node_modules/next/dist/bin/next"), "build", `--${bundler}`], app, ENV);
  expect(await answerOf(all.browser, await serve(join(app, "out")))).toEqual({ status: "completed", agentName: "coder", code: "not_found", persisted: false });
});
