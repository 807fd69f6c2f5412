import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

/** Builds what the processes that tests start import. */
export default function setup(): void {
  const script = fileURLToPath(new URL("../scripts/build.mjs", import.meta.url));
  const { status } = spawnSync(process.execPath, [script, "--whole"], { stdio: "inherit" });
  if (status !== 0) throw new Error("the package could not be built");
}
