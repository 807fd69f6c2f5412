// Makes a WebAssembly module smaller, in place: `node optimize-wasm.mjs MODULE`.

import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";

const module = process.argv[2];
const optimizer = createRequire(import.meta.url).resolve("binaryen/bin/wasm-opt");
const { status } = spawnSync(process.execPath, [optimizer, "-Os", "--all-features", "--strip-producers", module, "-o", module], { stdio: "inherit" });
process.exit(status ?? 1);
