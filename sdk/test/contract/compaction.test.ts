import { lastingPlace, places } from "#places";
import type { CompactProgress, Store } from "#runlog";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

const TEXT = "It rains in Oslo, and it will rain tomorrow. ".repeat(200);

/** A context with messages of which the later ones are taken back, more than a segment of the least size has room for. */
async function furnished(store: Store): Promise<string> {
  const { instance } = await store.startSession({ title: "Weather" }, "planner");
  const context = await store.context(instance.id);
  for (let at = 0; at < 20; at += 1) await context.appendMessage({ role: "user", content: `${at}: ${TEXT}` });
  await context.truncateAfterSequence(4);
  return instance.id;
}

describe.each(places)("compaction $name", ({ fresh }) => {
  test("what was truncated is given up, and every answer is as before", async () => {
    const store = await fresh();
    const instance = await furnished(store);
    const context = await store.context(instance);
    const before = await context.getRawMessages();
    const told = await store.compact({ dryRun: true });
    expect(told).toMatchObject({ recordsDropped: 16, payloadsErased: 0, isCancelled: false });
    expect((await store.compact({ dryRun: true })).recordsDropped).toBe(16);
    const done = await store.compact({ codec: "lz4" });
    expect(done).toMatchObject({ recordsDropped: 16, isCancelled: false });
    expect(done.bytesAfter).toBeLessThan(done.bytesBefore / 4);
    expect(await context.getRawMessages()).toEqual(before);
    expect(await store.verify()).toMatchObject({ sound: true });
    await context.appendMessage({ role: "user", content: "and tomorrow?" });
    expect(await context.getLastSequence()).toBe(5);
  });

  test("it tells how far it is, the last time at its end", async () => {
    const store = await fresh();
    await furnished(store);
    const told: CompactProgress[] = [];
    await store.compact({ onProgress: (progress) => void told.push(progress) });
    const last = told.at(-1);
    expect(last?.bytesTotal).toBeGreaterThan(TEXT.length);
    expect(last?.bytesDone).toBe(last?.bytesTotal);
    const stages = new Set<string>();
    await store.retain({ olderThanMs: 1e9, compact: true, onProgress: ({ stage }) => void stages.add(stage) });
    expect([...stages].at(-1)).toBe("compacting");
  });

  test("who can't be told how far it is has the work fail, and the store goes on", async () => {
    const store = await fresh();
    const instance = await furnished(store);
    const fault = new Error("no terminal");
    const onProgress = () => {
      throw fault;
    };
    await expect(store.compact({ onProgress })).rejects.toBe(fault);
    await expect(store.compact({ onProgress: async () => onProgress() })).rejects.toBe(fault);
    await failure(store.compact({ onProgress: "yes" } as never), "invalid_input");
    await failure(store.compact({ codec: "gzip", onProgress: () => undefined } as never), "invalid_input");
    await failure(store.compact({ signal: 1 } as never), "invalid_input");
    await failure(store.compact({ signal: AbortSignal.abort() }), "aborted");
    await failure(store.retain({ keepLast: 1, signal: AbortSignal.abort(), onProgress: () => undefined }), "aborted");
    expect(await (await store.context(instance)).getLastSequence()).toBe(4);
    expect(await store.verify()).toMatchObject({ sound: true });
  });

  test("what isn't known of a compaction is refused, and a closed store has none", async () => {
    const store = await fresh();
    for (const wrong of [{ dryrun: true }, { codec: "gzip" }, { scope: "some" }, { dryRun: 1 }, { bytesPerSecond: -1 }, null, "all"])
      await failure(store.compact(wrong as never), "invalid_input");
    await store.close();
    await failure(store.compact(), "closed");
  });
});

test("a reader can't compact", async () => {
  const place = await lastingPlace();
  await furnished(await place.open());
  const reader = await place.open({ mode: "readOnly" });
  await failure(reader.compact(), "read_only");
});

test("a store opened without compaction by itself keeps what was given up until it is asked", async () => {
  const place = await lastingPlace();
  const store = await place.open({ autoCompact: false, segmentBytesMax: 65_536 });
  const { instance } = await store.startSession({}, "planner");
  const context = await store.context(instance.id);
  const passed = await store.lastPosition();
  for (let at = 0; at < 40; at += 1) await context.appendMessage({ role: "user", content: `${at}: ${TEXT}` });
  await context.truncateAfterSequence(0);
  for (let at = 0; at < 10; at += 1) await context.appendMessage({ role: "user", content: TEXT });
  expect(await store.record(passed + 20)).toBeDefined();
  await store.compact();
  expect(await store.record(passed + 20)).toBeUndefined();
  await store.close();
  await failure(place.open({ autoCompact: "no" } as never), "invalid_input");
});
