import { open } from "#runlog";
import { describe, expect, test } from "vitest";

import { freshFolder } from "../places.node.js";
import { run } from "./child.js";

/** What an agent awaits last, besides calls of Runlog's. */
const LASTS = ["timer", "socket", "immediate", "nothing"];

async function statuses(path: string): Promise<string[]> {
  const store = await open(path);
  const { items } = await store.runs.list();
  await store.close();
  return items.map((item) => item.status);
}

describe.each(LASTS)("a process that nothing else keeps alive, whose agents await a %s last,", (last) => {
  test("waits for a run and what it spawned", async () => {
    const path = await freshFolder();
    const ended = await run("waits.mjs", [path, `${last}-start`]);
    expect(ended).toEqual({ code: 0, signal: null, stdout: "completed\n", stderr: "" });
    expect(await statuses(path)).toEqual(["completed", "completed"]);
  });

  test("waits for a run alone", async () => {
    const ended = await run("waits.mjs", [await freshFolder(), `${last}-alone`]);
    expect(ended).toEqual({ code: 0, signal: null, stdout: "done\n", stderr: "" });
  });

  test("waits for what a recorder's run spawned", async () => {
    const ended = await run("waits.mjs", [await freshFolder(), `${last}-spawn`]);
    expect(ended).toEqual({ code: 0, signal: null, stdout: "completed\n", stderr: "" });
  });

  test("waits for runs that nobody awaits", async () => {
    const path = await freshFolder();
    expect(await run("waits.mjs", [path, `${last}-unawaited`])).toMatchObject({ code: 0, stderr: "" });
    expect(await statuses(path)).toEqual(["completed", "completed"]);
  });

  test("waits for what a crash had cut off", async () => {
    const path = await freshFolder();
    expect(await run("waits.mjs", [path, "timer-crash"])).toMatchObject({ code: 3, stderr: "" });
    const ended = await run("waits.mjs", [path, `${last}-resume`]);
    expect(ended).toMatchObject({ code: 0, signal: null, stderr: "" });
    expect(ended.stdout).toMatch(/^completed(,completed)?\n$/);
    expect(await statuses(path)).not.toContain("running");
  });
});

test("a process that waits for a command of a flow stays until the signal is aborted", async () => {
  const ended = await run("commands.mjs", [await freshFolder(), "flow"]);
  expect(ended).toEqual({ code: 0, signal: null, stdout: "undefined\n", stderr: "" });
});

test.each([
  ["its signal", "completed aborted\n"],
  ["a cancellation", "cancelled undefined\n"],
  ["its end", "completed it has returned\nclosed\n"],
  ["its orchestrator", "closed undefined\ntold: closed\n"],
])("a process whose agent waits for a command stays until %s ends that, and no longer", async (what, says) => {
  const ended = await run("commands.mjs", [await freshFolder(), what]);
  expect({ ...ended, stdout: ended.stdout.split("\n").sort() }).toEqual({ code: 0, signal: null, stdout: says.split("\n").sort(), stderr: "" });
});
