import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { afterEach, beforeEach, expect, test } from "vitest";

const root = fileURLToPath(new URL("../../../", import.meta.url));

let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "runlog-guide-"));
  await symlink(join(root, "node_modules"), join(folder, "node_modules"), "junction");
});

afterEach(() => rm(folder, { recursive: true, force: true }));

/** Writes the whole programs of a guide, in order, as files of these names. */
async function extract(guide: string, names: readonly string[]): Promise<void> {
  const text = await readFile(join(root, "docs/guides", guide), "utf8");
  const blocks = [...text.matchAll(/^```js\n([^]*?)^```$/gm)].map((found) => found[1] as string);
  const programs = blocks.filter((block) => /^import .* from "runlog";$/m.test(block));
  expect(programs).toHaveLength(names.length);
  await Promise.all(names.map((name, index) => writeFile(join(folder, name), programs[index] as string)));
}

async function said(program: string): Promise<string> {
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [program], { cwd: folder, timeout: 30_000 });
  expect(stderr).toBe("");
  return stdout;
}

function started(program: string): { child: ChildProcess; ended: Promise<string> } {
  const child = spawn(process.execPath, [program], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  let text = "";
  child.stdout?.on("data", (part) => (text += part));
  return { child, ended: once(child, "close").then(() => text) };
}

test("the programs of the guide of agents do what it says, with a kill in the middle", async () => {
  await extract("write-an-agent-node.md", ["agent.mjs", "fork.mjs", "spawn.mjs", "watch.mjs", "request.mjs"]);
  const first = started("agent.mjs");
  await once(first.child.stdout as NonNullable<ChildProcess["stdout"]>, "data");
  first.child.kill("SIGKILL");
  await first.ended;

  const second = started("agent.mjs");
  // Once it has gone on from where the first was killed, there is a run to watch.
  await once(second.child.stdout as NonNullable<ChildProcess["stdout"]>, "data");
  const [watched, rest] = await Promise.all([said("watch.mjs"), second.ended]);
  expect(rest).toContain('add {"a":4,"b":1} 5');
  expect(watched).toContain("All is added.");

  expect(await said("fork.mjs")).toMatch(/^\d+ messages are the same, then [1-9]\d* here and 1 there\n\+ That is enough\.$/m);
  const spawned = await said("spawn.mjs");
  expect(spawned).toContain("cccccccpcccccccccccc\n");
  expect(spawned).toContain("cancelled 0");
  expect(await said("request.mjs")).toContain("By train.\nundefined");
});
