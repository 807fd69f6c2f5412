// The packed package beside the published Claude Agent SDK: what takes and stands in for its `query` has its types.

import { cp } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, beforeAll, expect, test } from "vitest";

import { type Packed, pack, run } from "../package/packed.js";

const here = dirname(fileURLToPath(import.meta.url));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

let packed: Packed;

beforeAll(async () => {
  packed = await pack("claude");
  await cp(join(here, "claude"), packed.app, { recursive: true });
  // Without the programs of its platforms, which are large, and that nothing here runs.
  await run("npm", ["ci", "--omit=optional", "--no-audit", "--no-fund", "--prefer-offline"], packed.app);
  await packed.install();
}, 240_000);

afterAll(() => packed?.remove());

test("query, recorded queries and mock queries fit each other, and the nodes of flows", async () => {
  const said = await run(process.execPath, [tsc, "-p", "."], packed.app).catch((error: { stdout: string }) => error.stdout);
  expect(said).toBe("");
});
