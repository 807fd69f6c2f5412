// Makes a WebAssembly module smaller, in place: `node optimize-wasm.mjs MODULE`.

import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";

const module = process.argv[2];
const optimizer = createRequire(import.meta.url).resolve("binaryen/bin/wasm-opt");
// What rustc uses of WebAssembly, and no more: the optimizer would write what browsers don't read yet.
const features = ["bulk-memory", "bulk-memory-opt", "call-indirect-overlong", "multivalue", "mutable-globals", "nontrapping-float-to-int", "reference-types", "sign-ext"];
// The second round works on what the first found out of types and constants; functions that are called most get the shortest numbers.
// No pointer is below 1024: rustc's linker puts the stack first, of which these are the last bytes. So a small constant that is added
// to an address can stand in the instruction that reads or writes there, as the sum can't have wrapped around.
const passes = ["-Os", "--low-memory-unused", "--gufa-optimizing", "-Os", "--reorder-functions"];
const options = [...passes, "--mvp-features", ...features.map((feature) => `--enable-${feature}`), "--strip-producers", module, "-o", module];
const { status } = spawnSync(process.execPath, [optimizer, ...options], { stdio: "inherit" });
process.exit(status ?? 1);
