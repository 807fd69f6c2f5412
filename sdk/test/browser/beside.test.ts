// Readers beside a writer in another worker, which rotates segments and compacts, and what they and it leave to others.

import { open } from "#runlog";
import { freshName } from "#places";
import { expect, onTestFinished, test } from "vitest";

import { failure } from "../code.js";
import { pause, toldWorker } from "./told.js";

/** A writer whose `more` writes some records that stay, and as much again that goes, in small segments. */
async function written() {
  const name = await freshName();
  const writer = toldWorker();
  const stream = await writer.run(async ({ api, state }, name) => {
    const store = (state.store = await api.open(name, { segmentBytesMax: 64 << 10 }));
    state.stream = store.newId();
    state.count = 0;
    state.more = async (count: number) => {
      const gone = store.newId();
      for (let at = 0; at < count; at += 1) {
        await store.streams.append(state.stream, `${state.count++} ${"x".repeat(2000)}`);
        await store.streams.append(gone, "y".repeat(6000));
        await new Promise((resolve) => setTimeout(resolve, 2));
      }
      await store.streams.delete(gone);
      return state.count as number;
    };
    await state.more(60);
    return state.stream as string;
  }, name);
  onTestFinished(() => writer.run(({ state }) => state.store.close()));
  return { name, writer, stream };
}

async function reading(name: string) {
  const reader = await open(name, { mode: "readOnly" });
  onTestFinished(() => reader.close());
  return reader;
}

test("a reader that was there before compactions reads on, also when the files were taken for others", { timeout: 60_000 }, async () => {
  const { name, writer, stream } = await written();
  const reader = await reading(name);
  expect(await reader.streams.read(stream).toArray()).toHaveLength(60);
  for (let round = 0; round < 4; round += 1) {
    await writer.run(({ state }, scope) => state.store.compact({ scope }), ["sparse", "all"][round % 2]);
    expect(await reader.streams.read(stream).toArray()).toHaveLength(60 * (round + 1));
    const count = await writer.run(({ state }) => state.more(60) as number);
    expect(await reader.streams.read(stream).toArray()).toHaveLength(count);
  }
});

test("readers follow over compactions without a gap or a repeat", { timeout: 60_000 }, async () => {
  const { name, writer, stream } = await written();
  const stop = new AbortController();
  const following = [1, 2, 3].map(async () => {
    const reader = await reading(name);
    let next = 0;
    for await (const record of reader.tail({ signal: stop.signal })) {
      if (record.stream !== stream || record.kind !== 0) continue;
      expect(record.text()).toMatch(new RegExp(`^${next} `));
      next += 1;
    }
    return next;
  });
  let count = 0;
  for (const scope of ["sealed", "all", "sealed"]) {
    count = await writer.run(({ state }) => state.more(60) as number);
    await writer.run(({ state }, scope) => state.store.compact({ scope }), scope);
  }
  await pause(2000);
  stop.abort();
  expect(await Promise.all(following)).toEqual([count, count, count]);
});

test("the first answer of a reader that was idle has what was acknowledged before", async () => {
  const { name, writer, stream } = await written();
  const reader = await reading(name);
  const id = await writer.run(async ({ state }) => {
    await state.more(60);
    return (await state.store.createSession({ title: "T" })).id as string;
  });
  expect(await reader.getSession(id)).toMatchObject({ title: "T" });
  expect(await reader.streams.get(stream)).toMatchObject({ lastSequence: 120 });
});

test("as many segments as are written at once have files", { timeout: 60_000 }, async () => {
  const name = await freshName();
  const store = await open(name, { segmentBytesMax: 64 << 10 });
  const stream = store.newId();
  await Promise.all(Array.from({ length: 2000 }, () => store.streams.append(stream, "x".repeat(2000))));
  expect(await store.streams.get(stream)).toMatchObject({ lastSequence: 2000 });
  await store.close();
  // In a worker of an application's, which waits for each.
  const last = await toldWorker().run(async ({ api }, name) => {
    await using store = await api.open(name, { segmentBytesMax: 64 << 10 });
    const stream = store.newId();
    for (let at = 0; at < 800; at += 1) await store.streams.append(stream, "x".repeat(2000));
    return (await store.streams.get(stream))?.lastSequence;
  }, name);
  expect(last).toBe(800);
});

test("a store is sound for a reader that verifies it while segments are begun", { timeout: 60_000 }, async () => {
  const name = await freshName();
  const writer = toldWorker();
  await writer.run(async ({ api, state }, name) => {
    const store = (state.store = await api.open(name, { segmentBytesMax: 64 << 10 }));
    state.stream = store.newId();
    await store.streams.append(state.stream, "first");
  }, name);
  onTestFinished(() => writer.run(({ state }) => state.store.close()));
  const reader = await open(name, { mode: "readOnly" });
  onTestFinished(() => reader.close());
  let isOver = false;
  const writing = writer
    .run(async ({ state }) => {
      for (let count = 0; count < 800; count += 1) {
        await state.store.streams.append(state.stream, "x".repeat(3000));
        if (count % 4 === 0) await new Promise((resolve) => setTimeout(resolve, 8));
      }
    })
    .finally(() => (isOver = true));
  while (!isOver) {
    const { sound, problems } = await reader.verify();
    expect({ sound, problems }).toEqual({ sound: true, problems: [] });
    await pause(20);
  }
  await writing;
});

test("what is no size of segments is refused, and makes no files for it", async () => {
  for (const segmentBytesMax of [0, -1, Number.NaN, "large", 1e300]) {
    await failure(open(await freshName(), { segmentBytesMax: segmentBytesMax as number }), "invalid_input");
  }
});

test("bytes that a worker gives to a call are those at the time of the call", async () => {
  const kept = await toldWorker().run(async ({ api }, name) => {
    await using store = await api.open(name);
    const { instance } = await store.startSession({}, "coder");
    const context = await store.context(instance.id);
    const json = new TextEncoder().encode('{"role":"user","content":"as it was"}');
    const saved = context.appendEvent("user_message", json);
    json.fill(32);
    return (await context.event((await saved).sequenceNumber))?.content();
  }, await freshName());
  expect(kept).toEqual({ role: "user", content: "as it was" });
});

test("a worker that awaits call after call has its other events, and news of another worker's", async () => {
  const { name, writer, stream } = await written();
  const asker = toldWorker();
  await asker.run(async ({ api, state }, name) => void (state.reader = await api.open(name, { mode: "readOnly" })), name);
  const asking = asker.run(async ({ state }, stream) => {
    let fired = 0;
    const timer = setInterval(() => (fired += 1), 10);
    let last = 0;
    for (const end = performance.now() + 20_000; performance.now() < end && last < 61; ) last = (await state.reader.streams.get(stream)).lastSequence;
    clearInterval(timer);
    await state.reader.close();
    return { last, hasFired: fired > 3 };
  }, stream);
  await pause(200);
  await writer.run(({ state }) => state.more(1));
  expect(await asking).toEqual({ last: 61, hasFired: true });
});
