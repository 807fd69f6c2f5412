import { open } from "#runlog";
import { describe, expect, test } from "vitest";

import { freshFolder } from "../places.node.js";
import { run } from "./child.js";

/** The events of the only context of a store, after the process that wrote them is gone. */
async function found(path: string): Promise<{ clean: boolean; events: number }> {
  const store = await open(path);
  const [session] = (await store.listSessions()).items;
  const { id } = await store.rootInstance(session?.id as string);
  const events = await store.contexts.lastSequence(id);
  const { clean } = store.recovery;
  await store.close();
  return { clean, events };
}

describe("a process with an open store", () => {
  test("ends when it has nothing left to do, and closes the store", async () => {
    const path = await freshFolder();
    expect(await run("endings.mjs", [path, "leave"])).toMatchObject({ code: 0, stderr: "" });
    expect(await found(path)).toEqual({ clean: true, events: 1 });
  });

  test("waits for appends that nobody awaits", async () => {
    const path = await freshFolder();
    expect(await run("endings.mjs", [path, "pending"])).toMatchObject({ code: 0, stderr: "" });
    expect(await found(path)).toEqual({ clean: true, events: 101 });
  });

  test("may exit in the middle of appends, and what was acknowledged is there", async () => {
    const path = await freshFolder();
    expect(await run("endings.mjs", [path, "exit"])).toMatchObject({ code: 7, stderr: "" });
    expect((await found(path)).events).toBeGreaterThanOrEqual(1);
  });

  test("may exit in the turn of its appends, which are written", async () => {
    const path = await freshFolder();
    expect(await run("endings.mjs", [path, "exit-in-turn"])).toMatchObject({ code: 7, stderr: "" });
    const store = await open(path);
    const [stream] = (await store.streams.list()).filter((it) => it.lastSequence >= 100);
    expect(stream).toBeDefined();
    await store.close();
  });

  test("may exit in the middle of a reading loop", async () => {
    const path = await freshFolder();
    expect(await run("endings.mjs", [path, "exit-in-loop"])).toMatchObject({ code: 8, stderr: "" });
    expect((await found(path)).events).toBe(1);
  });

  test("ends by an exception as any other", async () => {
    const path = await freshFolder();
    const ended = await run("endings.mjs", [path, "throw"]);
    expect(ended).toMatchObject({ code: 1, signal: null });
    expect(ended.stderr).toContain("on purpose");
    expect((await found(path)).events).toBeGreaterThanOrEqual(1);
  });

  test("ends by a rejected promise as any other", async () => {
    const path = await freshFolder();
    const ended = await run("endings.mjs", [path, "reject"]);
    expect(ended).toMatchObject({ code: 1, signal: null });
    expect(ended.stderr).toContain("on purpose");
  });

  test("is told of a failed call that nobody looked at", async () => {
    const ended = await run("endings.mjs", [await freshFolder(), "unhandled"]);
    expect(ended).toMatchObject({ code: 1, signal: null });
    expect(ended.stderr).toContain("not_found");
  });

  test("isn't kept by a promise that never settles", async () => {
    const path = await freshFolder();
    const ended = await run("endings.mjs", [path, "never"]);
    // Node's own code for a module that never finishes.
    expect(ended.code).toBe(13);
    expect((await found(path)).clean).toBe(true);
  });

  test("is kept by a reader that waits", async () => {
    expect(await run("endings.mjs", [await freshFolder(), "tail"])).toMatchObject({ code: 9, stderr: "" });
  });
});
