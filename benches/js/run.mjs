// Builds what bench.mjs needs, and starts it on the Node that it needs: `cargo xtask bench-js [--rounds N] [--slice MS]
// [--quiet SECONDS] [--json] [words]`.

import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "../..");
const target = process.env.CARGO_TARGET_DIR ?? join(root, "target");

function run(command, args, cwd = root, env = {}) {
  // What is said on the way isn't the result.
  const stdio = command.endsWith("node") && args.includes("--expose-gc") ? "inherit" : ["inherit", 2, 2];
  const { status, error } = spawnSync(command, args, { cwd, stdio, env: { ...process.env, ...env } });
  if (error !== undefined) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

run("cargo", ["build", "--release", "--quiet", "--package", "runlog-node", "--package", "runlog-benches", "--bin", "in_flight", "--lib"]);
const library = { linux: "librunlog_node.so", darwin: "librunlog_node.dylib", win32: "runlog_node.dll" }[process.platform];
const isMusl = process.platform === "linux" && !process.report.getReport().header.glibcVersionRuntime;
const abi = { linux: isMusl ? "-musl" : "-gnu", darwin: "", win32: "" }[process.platform];
const addon = join(root, "bindings-node", `runlog.${process.platform}-${process.arch}${abi}.node`);
const built = join(target, "release", library);
// One that is older may be in use: it is written anew only when it isn't this one.
if (!existsSync(addon) || statSync(addon).mtimeMs < statSync(built).mtimeMs) copyFileSync(built, addon);
if (!existsSync(join(root, "node_modules"))) run("npm", ["ci"]);
run(process.execPath, ["sdk/scripts/build.mjs"]);
// Not `ci`: that wants every platform of optional packages in the lock file, which not every registry has.
if (!existsSync(join(here, "node_modules"))) run("npm", ["install", "--no-save"], here);

const node = join(here, "node_modules/.bin/node");
const suffix = process.platform === "win32" ? ".exe" : "";
run(node, ["--expose-gc", "--no-warnings", join(here, "bench.mjs"), ...process.argv.slice(2)], here, {
  RUNLOG_IN_FLIGHT: join(target, "release", `in_flight${suffix}`),
});
