// The packed package in the page of an application of Next's, built by both of its bundlers.

import { cp, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import type { Browser } from "playwright";
import { afterAll, beforeAll, expect, test } from "vitest";

import { type Packed, pack, run } from "../package/packed.js";
import { answerOf, launch, serve } from "./pages.js";

const here = dirname(fileURLToPath(import.meta.url));
const ENV = { ...process.env, NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: "production" as const };

let packed: Packed;
let app: string;
let browser: Browser;

beforeAll(async () => {
  packed = await pack("next-page");
  app = packed.app;
  // The versions that the tests of server code have.
  for (const file of ["package.json", "package-lock.json"]) await cp(join(here, "../integrations/next", file), join(app, file));
  await cp(join(here, "next"), app, { recursive: true });
  // What is rendered on the server imports it too, where `runlog` is Node's.
  const main = await readFile(join(here, "app/main.js"), "utf8");
  await writeFile(join(app, "app/main.js"), main.replace('"runlog"', '"runlog/browser"'));
  await run("npm", ["ci", "--no-audit", "--no-fund", "--prefer-offline"], app);
  await packed.install();
  browser = await launch();
}, 240_000);

afterAll(async () => {
  await browser?.close();
  await packed?.remove();
});

test.each(["turbopack", "webpack"])("a page that %s built has a store, without any configuration", async (bundler) => {
  // A folder above may have a lock file too, which Next would take for the application's.
  const config = { output: "export", outputFileTracingRoot: app, turbopack: { root: app } };
  await writeFile(join(app, "next.config.mjs"), `export default ${JSON.stringify(config)};\n`);
  for (const folder of [".next", "out"]) await rm(join(app, folder), { recursive: true, force: true });
  // What hangs is ended, and fails.
  await run(process.execPath, [join(app, "node_modules/next/dist/bin/next"), "build", `--${bundler}`], app, ENV);
  expect(await answerOf(browser, await serve(join(app, "out")))).toEqual({ status: "completed", agentId: "coder", code: "not_found", persisted: false });
});
