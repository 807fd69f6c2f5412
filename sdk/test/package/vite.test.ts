// The packed package in server code that Vite builds, or loads in development.

import { cp, mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { afterAll, beforeAll, expect, test } from "vitest";

import { type Packed, pack, run } from "./packed.js";

const here = dirname(fileURLToPath(import.meta.url));
const vite = dirname(createRequire(import.meta.url).resolve("vite/package.json"));
const cli = join(vite, "bin/vite.js");
const ANSWER = { first: { role: "user", content: "hi" }, code: "not_found", testing: "function" };

let packed: Packed;
let app: string;

beforeAll(async () => {
  packed = await pack("vite");
  app = packed.app;
  await writeFile(join(app, "package.json"), JSON.stringify({ name: "app", private: true, type: "module" }));
  await packed.install();
  for (const file of ["server.js", "dev.mjs"]) await cp(join(here, "vite", file), join(app, file));
}, 180_000);

afterAll(() => packed?.remove());

async function built(out: string, config: object): Promise<string> {
  await writeFile(join(app, "vite.config.js"), `export default ${JSON.stringify(config)};\n`);
  await run(process.execPath, [cli, "build", "--ssr", "server.js", "--outDir", out, "--logLevel", "warn"], app);
  return join(app, out, "server.js");
}

test("what `vite build --ssr` builds runs", async () => {
  const server = await built("out", {});
  expect(JSON.parse(await run(process.execPath, [server, "run", join(app, "built")], app))).toEqual(ANSWER);
});

test("the development server loads it", async () => {
  const node = pathToFileURL(join(vite, "dist/node/index.js")).href;
  expect(JSON.parse(await run(process.execPath, ["dev.mjs", node, join(app, "loaded")], app))).toEqual(ANSWER);
});

test("a bundle that has the package in it finds the addon, or says why not", async () => {
  const server = await built("all", { ssr: { noExternal: true } });
  expect(JSON.parse(await run(process.execPath, [server, "run", join(app, "bundled")], app))).toEqual(ANSWER);

  const elsewhere = join(packed.folder, "elsewhere");
  await mkdir(elsewhere);
  await cp(server, join(elsewhere, "server.mjs"));
  const program = [join(elsewhere, "server.mjs"), "run", join(elsewhere, "store")];
  const said = await run(process.execPath, program, elsewhere).catch((error: { stderr: string }) => error.stderr);
  expect(said).toContain("could not be loaded");
  expect(said).toContain("keep runlog out of the bundle");
});
