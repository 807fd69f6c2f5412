// The command `runlog`, built with the viewer that is in dist.

import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const root = fileURLToPath(new URL("../..", import.meta.url));
const run = promisify(execFile);

/** Where the command is, once it is built. */
export async function command(): Promise<string> {
  const { stdout } = await run("cargo", ["build", "--quiet", "--package", "runlog-cli", "--bin", "runlog", "--features", "viewer", "--message-format", "json-render-diagnostics"], { cwd: root, maxBuffer: 64 << 20 });
  const messages = stdout.split("\n").filter((line) => line.includes('"executable":"'));
  const paths = messages.map((line) => (JSON.parse(line) as { executable: string }).executable);
  const [path] = paths.filter((path) => /runlog(\.exe)?$/.test(path));
  if (path === undefined) throw new Error("cargo built no command.");
  return path;
}

/** Runs the command, and gives what it said. */
export const runlog = async (path: string, ...args: string[]) => run(path, args, { cwd: root });
