// Builds the package into dist/: as ES modules, as CommonJS, and for browsers, each with its types. What browsers need
// holds the WebAssembly module that `cargo xtask wasm-module` builds. Where that is missing, the part for browsers is left
// out; with `--whole`, which tests and releases say, it is an error.

import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";

import { rolldown } from "rolldown";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");

rmSync(join(root, "dist"), { recursive: true, force: true });
const module = ["runlog_wasm.js", "runlog_wasm_bg.wasm"];
const forBrowsers = module.every((file) => existsSync(join(root, "src/wasm", file)));
if (!forBrowsers) {
  console.error("Nothing is built for browsers: `cargo xtask wasm-module` builds the WebAssembly module that they load.");
  if (process.argv.includes("--whole")) process.exit(1);
}
for (const [project, type] of [
  ["esm", "module"],
  ["cjs", "commonjs"],
  ...(forBrowsers ? [["browser-build", "module"]] : []),
]) {
  const { status } = spawnSync(process.execPath, [compiler, "-p", join(root, `tsconfig.${project}.json`)], {
    stdio: "inherit",
  });
  if (status !== 0) process.exit(status ?? 1);
  // Says how the files of this folder are to be read, whatever the package says.
  const folder = join(root, "dist", project.replace("-build", ""));
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), `${JSON.stringify({ type })}\n`);
}
// TypeScript leaves declarations and what isn't its own where they are.
if (forBrowsers) {
  mkdirSync(join(root, "dist/browser/wasm"), { recursive: true });
  for (const file of [...module, "runlog_wasm.d.ts"]) cpSync(join(root, "src/wasm", file), join(root, "dist/browser/wasm", file));
  await embed(join(root, "dist/browser"));
  await bundleWorker(join(root, "dist/browser/browser/worker.js"));
}
// What fixtures are checked by, for editors.
const { fixtureSchema } = await import(pathToFileURL(join(root, "dist/esm/testing/schema.js")).href);
writeFileSync(join(root, "dist/fixture.schema.json"), `${JSON.stringify(fixtureSchema, undefined, 2)}\n`);
for (const license of ["LICENSE-MIT", "LICENSE-APACHE"]) cpSync(join(root, "..", license), join(root, license));

/** Makes one file of the worker and what it imports: otherwise pages without a bundler would load one after the other. */
async function bundleWorker(input) {
  const bundle = await rolldown({ input, experimental: { resolveNewUrlToAsset: false } });
  const { output } = await bundle.generate({ format: "es" });
  await bundle.close();
  if (output.length !== 1) throw new Error(`the worker is ${output.length} files: ${output.map((file) => file.fileName).join(", ")}`);
  // What loads the module looks for it beside itself, where bundlers of applications would look for it now.
  const beside = 'new URL("runlog_wasm_bg.wasm", import.meta.url)';
  if (!output[0].code.includes(beside)) throw new Error("the worker's script doesn't name the module where it did");
  writeFileSync(input, output[0].code.replace(beside, 'new URL("../wasm/runlog_wasm_bg.wasm", import.meta.url)'));
  rmSync(`${input}.map`, { force: true });
}

/** Makes what `runlog/inline` has inside of it: the module, and its worker as one script. */
async function embed(folder) {
  const input = join(folder, "browser/inline-worker.js");
  // The module comes from the page: its address beside the script is never asked for.
  const onLog = (level, log, tell) => log.code === "EMPTY_IMPORT_META" || tell(level, log);
  const bundle = await rolldown({ input, onLog });
  const { output } = await bundle.generate({ format: "iife", minify: true });
  await bundle.close();
  const packed = gzipSync(readFileSync(join(folder, "wasm/runlog_wasm_bg.wasm")), { level: 9 }).toString("base64");
  const lines = [`export const MODULE = "${packed}";`, `export const WORKER = ${JSON.stringify(output[0].code)};`];
  writeFileSync(join(folder, "browser/embedded.js"), `${lines.join("\n")}\n`);
  for (const file of ["inline-worker.js", "inline-worker.d.ts"]) rmSync(join(folder, "browser", file));
}
