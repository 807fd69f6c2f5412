// Builds the package into dist/: once as ES modules, once as CommonJS, each with its types.

import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");

rmSync(join(root, "dist"), { recursive: true, force: true });
for (const [project, type] of [
  ["esm", "module"],
  ["cjs", "commonjs"],
]) {
  const { status } = spawnSync(process.execPath, [compiler, "-p", join(root, `tsconfig.${project}.json`)], {
    stdio: "inherit",
  });
  if (status !== 0) process.exit(status ?? 1);
  // Says how the files of this folder are to be read, whatever the package says.
  mkdirSync(join(root, "dist", project), { recursive: true });
  writeFileSync(join(root, "dist", project, "package.json"), `${JSON.stringify({ type })}\n`);
}
// What fixtures are checked by, for editors.
const { fixtureSchema } = await import(pathToFileURL(join(root, "dist/esm/testing/schema.js")).href);
writeFileSync(join(root, "dist/fixture.schema.json"), `${JSON.stringify(fixtureSchema, undefined, 2)}\n`);
for (const license of ["LICENSE-MIT", "LICENSE-APACHE"]) cpSync(join(root, "..", license), join(root, license));
