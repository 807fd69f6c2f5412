import { open } from "#runlog";
import { describe, expect, test } from "vitest";

import { freshFolder } from "../places.node.js";
import { run } from "./child.js";

async function statuses(path: string): Promise<string[]> {
  const store = await open(path, { mode: "readOnly" });
  const { items } = await store.runs.list();
  await store.close();
  return items.map((item) => item.status).sort();
}

describe("a process with agents", () => {
  test("ends when they have", async () => {
    const path = await freshFolder();
    const ended = await run("agents.mjs", [path, "complete"]);
    expect(ended).toMatchObject({ code: 0, stderr: "", stdout: "done a,done b\n" });
    expect(await statuses(path)).toEqual(["completed", "completed", "completed"]);
  });

  test("lives until what nobody awaits is done and written", async () => {
    const path = await freshFolder();
    expect(await run("agents.mjs", [path, "forget"])).toMatchObject({ code: 0, stderr: "" });
    expect(await statuses(path)).toEqual(["completed", "completed", "completed"]);
  });

  test("isn't kept by one that never settles, and goes on with it the next time", async () => {
    const path = await freshFolder();
    // Node's own code for a module that never finishes.
    expect((await run("agents.mjs", [path, "never"])).code).toBe(13);
    expect(await statuses(path)).toEqual(["running", "running", "running"]);
    const resumed = await run("agents.mjs", [path, "resume"]);
    expect(resumed).toMatchObject({ code: 0, stderr: "", stdout: "3 done a,done b 0\n" });
  });

  test("is kept by one that never settles until its time is up", async () => {
    const ended = await run("agents.mjs", [await freshFolder(), "timeout"]);
    expect(ended).toMatchObject({ code: 0, stderr: "", stdout: "paused timeout\n" });
  });

  test("is kept by one that never settles until who waits for it has no more patience", async () => {
    // A timer of Node's own doesn't keep a process; who waits with its signal would never be told that it has passed.
    const ended = await run("agents.mjs", [await freshFolder(), "patience"]);
    expect(ended).toMatchObject({ stderr: "", stdout: "aborted\n" });
  });

  test("isn't kept by one whose store is closed, however long it may take", async () => {
    const path = await freshFolder();
    expect(await run("agents.mjs", [path, "closed"])).toMatchObject({ code: 0, stderr: "", stdout: "closed\n" });
    expect(await statuses(path)).toEqual(["running"]);
  });

  test("outlives whatever a function throws, rejects with or returns, and its run has failed", async () => {
    const ended = await run("agents.mjs", [await freshFolder(), "throws"]);
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    const lines = ended.stdout.trim().split("\n");
    expect(lines).toHaveLength(11);
    for (const line of lines) expect(line).toMatch(/^failed: .+/);
    for (const [at, said] of ["an exception", "a rejection", "null"].entries()) expect(lines[at]).toContain(said);
  });

  test("may exit in the middle of one, and goes on with it the next time", async () => {
    const path = await freshFolder();
    expect(await run("agents.mjs", [path, "exit"])).toMatchObject({ code: 5, stderr: "" });
    expect(await statuses(path)).toContain("running");
    expect(await run("agents.mjs", [path, "resume"])).toMatchObject({ code: 0, stderr: "" });
    expect(await statuses(path)).not.toContain("running");
  });

  test("ends by an exception that no agent catches as any other", async () => {
    const path = await freshFolder();
    const ended = await run("agents.mjs", [path, "uncaught"]);
    expect(ended).toMatchObject({ code: 1, signal: null });
    expect(ended.stderr).toContain("on purpose");
    expect(await run("agents.mjs", [path, "resume"])).toMatchObject({ code: 0, stderr: "" });
  });
});
