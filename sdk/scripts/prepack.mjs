// Refuses to pack a package that was never built, or built without the part for browsers: it would install, and lack it. And one with
// a module that is older than what it is made of: it couldn't read what the addon of the same version writes.

import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const sdk = dirname(dirname(fileURLToPath(import.meta.url)));
const root = dirname(sdk);
const MODULE = "wasm/runlog_wasm_bg.wasm";
const BUILD = "`cargo xtask wasm-module` and `npm run build -w sdk -- --whole`";

function refuse(why) {
  console.error(`${why}: build the package first, with ${BUILD}`);
  process.exit(1);
}

for (const file of ["esm/index.js", "cjs/index.js", "browser/browser/index.js", `browser/${MODULE}`]) {
  if (!existsSync(join(sdk, "dist", file))) refuse(`dist/${file} is missing`);
}

// The one that was built, of which the package has a copy. A packed package that was built elsewhere has its copy alone.
const built = join(sdk, "src", MODULE);
if (existsSync(built)) {
  if (!readFileSync(built).equals(readFileSync(join(sdk, "dist", "browser", MODULE)))) refuse(`dist/browser/${MODULE} is another one than src/${MODULE}`);
  // What cargo compiled it from, if it was compiled here.
  const listed = join(process.env.CARGO_TARGET_DIR ?? join(root, "target"), "wasm32-unknown-unknown", "wasm", "runlog_wasm.d");
  const sources = existsSync(listed) ? readFileSync(listed, "utf8").split(/(?<!\\)\s+/).slice(1) : [];
  const { mtimeMs } = statSync(built);
  for (const source of sources) {
    const path = source.replaceAll("\\ ", " ");
    const changed = path === "" ? undefined : statSync(path, { throwIfNoEntry: false });
    if (changed !== undefined && changed.mtimeMs > mtimeMs) refuse(`${relative(root, path)} was changed after the module for browsers was built`);
  }
}
