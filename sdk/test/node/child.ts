import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

import { onTestFinished } from "vitest";

/** How a process ended, and what it said. */
export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** A process that runs one of the programs beside this file. */
export interface Running {
  process: ChildProcess;
  /** What it has said so far. */
  said(): string;
  ended: Promise<Ended>;
}

/** Starts one of the programs, with the package as users have it. One that hangs is killed, and told as such. */
export function start(program: string, args: string[] = [], options: { node?: string[]; seconds?: number } = {}): Running {
  const path = fileURLToPath(new URL(`./programs/${program}`, import.meta.url));
  const child = spawn(process.execPath, [...(options.node ?? []), path, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  let stderr = "";
  child.stdout?.on("data", (data: Buffer) => (stdout += data.toString()));
  child.stderr?.on("data", (data: Buffer) => (stderr += data.toString()));
  const timeout = setTimeout(() => {
    stderr += "\nit hung, and was killed";
    child.kill("SIGKILL");
  }, (options.seconds ?? 30) * 1000);
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = new Promise<Ended>((resolve) => {
    child.on("close", (code, signal) => {
      clearTimeout(timeout);
      resolve({ code, signal, stdout, stderr });
    });
  });
  return { process: child, said: () => stdout, ended };
}

/** Runs one of the programs to its end. */
export function run(program: string, args: string[] = [], options: { node?: string[]; seconds?: number } = {}): Promise<Ended> {
  return start(program, args, options).ended;
}
