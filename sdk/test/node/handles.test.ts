import { Worker } from "node:worker_threads";
import { fileURLToPath } from "node:url";

import { describe, expect, test } from "vitest";

import { freshFolder } from "../places.node.js";
import { run } from "./child.js";

// As the workers import it: threads of one process share a store only through one copy of the addon.
const { attach, open } = await import("runlog");

describe("handles that nobody holds any more", () => {
  test("take no memory, however many there were, of every class", async () => {
    const ended = await run("handles.mjs", [await freshFolder(), "all"], { node: ["--expose-gc"], seconds: 120 });
    expect(ended).toEqual({ code: 0, signal: null, stderr: "", stdout: "{}\n" });
  }, 120_000);

  test("take little where they are stores in memory, before anything is collected", async () => {
    const ended = await run("stores.mjs");
    expect(ended).toMatchObject({ code: 0, signal: null, stderr: "" });
    // Each has a segment of 4 MiB, of which it takes what it has written.
    expect(Number(ended.stdout)).toBeLessThan(200);
  });

  test("close their store, also where agents' functions hold it, once its runs have ended", async () => {
    const ended = await run("handles.mjs", [await freshFolder(), "orchestrator"], { node: ["--expose-gc"] });
    expect(ended).toEqual({ code: 0, signal: null, stderr: "", stdout: "completed\n" });
  });
});

test("a node keeps none of the messages of its agent, however long it works, with a signal and without", async () => {
  const ended = await run("node-memory.mjs", [], { node: ["--expose-gc"], seconds: 60 });
  expect(ended).toMatchObject({ code: 0, signal: null, stderr: "" });
  for (const most of ended.stdout.trim().split("\n").map(Number)) expect(most).toBeLessThan(250);
});

test("two worker threads that are ended in the middle of appends, reads and agents leave the store to the others", async () => {
  const path = await freshFolder();
  const store = await open(path);
  const { instance } = await store.startSession({}, "a");
  for (const name of ["lead", "sub"]) await store.agents.put({ name });
  const shared = await store.share();
  const program = fileURLToPath(new URL("./programs/agent-worker.mjs", import.meta.url));
  const threads = [1, 2].map(() => new Worker(program, { workerData: { shared, instanceId: instance.id } }));
  await Promise.all(threads.map((thread) => new Promise((resolve) => thread.on("message", resolve))));
  // The main thread is in the middle of things too.
  const context = await store.context(instance.id);
  const appends = Array.from({ length: 500 }, () => context.appendMessage({ role: "user", content: "main" }));
  await Promise.all(threads.map((thread) => thread.terminate()));
  await Promise.all(appends);
  const before = await context.getLastSequence();
  expect((await context.appendMessage({ role: "user", content: "after" })).firstSequence).toBe(before + 1);
  expect((await store.verify()).sound).toBe(true);
  const attached = await attach(shared);
  expect(await (await attached.context(instance.id)).getLastSequence()).toBe(before + 1);
  await attached.close();
  await store.close();
  const again = await open(path);
  const { items } = await again.runs.list({ limit: 100 });
  for (const item of items) expect(["paused", "failed"]).toContain(item.status);
  expect(items.length).toBeGreaterThanOrEqual(2);
  await again.close();
});

test("a store can't be posted to a thread, or cloned, as if it were one", async () => {
  const store = await open(await freshFolder());
  const cloned = structuredClone({ handle: await store.share() });
  expect(Object.keys(cloned.handle)).toEqual(["runlogStore"]);
  // What comes out has no calls, and disturbs nothing.
  let copy: object | undefined;
  try {
    copy = structuredClone(store) as object;
  } catch (error) {
    expect((error as Error).name).toBe("DataCloneError");
  }
  if (copy !== undefined) expect("close" in copy).toBe(false);
  await store.createSession();
  await store.close();
});
