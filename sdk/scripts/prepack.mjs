// Refuses to pack a package that was never built, or built without the part for browsers: it would install, and lack it.

import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const dist = join(dirname(dirname(fileURLToPath(import.meta.url))), "dist");
for (const file of ["esm/index.js", "cjs/index.js", "browser/browser/index.js", "browser/wasm/runlog_wasm_bg.wasm"]) {
  if (existsSync(join(dist, file))) continue;
  console.error(`dist/${file} is missing: build the package first, with \`cargo xtask wasm-module\` and \`npm run build -w sdk -- --whole\``);
  process.exit(1);
}
