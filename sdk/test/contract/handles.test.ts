import { openInMemory } from "#runlog";
import { lastingPlace, places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

describe.each(places)("handles $name", ({ fresh }) => {
  test("a closed store refuses every call, by name, and closing twice does nothing", async () => {
    const store = await fresh();
    const { session, instance } = await store.startSession({}, "a");
    const context = await store.context(instance.id);
    const run = await store.runs.start({ instanceId: instance.id });
    const flow = await store.flows.create();
    await store.close();
    await store.close();
    await failure(store.getSession(session.id), "closed");
    await failure(store.createSession(), "closed");
    await failure(context.appendMessage({ role: "user", content: "x" }), "closed");
    await failure(context.getMessages(), "closed");
    await failure(run.recordMessage({ role: "user", content: "x" }), "closed");
    await failure(flow.record({ type: "node:tick" }), "closed");
    await failure(store.streams.append(store.newId(), "x"), "closed");
    await failure(store.runs.list(), "closed");
    await failure(store.stat(), "closed");
    await store[Symbol.asyncDispose]();
  });

  test("what was begun before the store is closed is finished", async () => {
    const store = await fresh();
    const stream = store.newId();
    const appends = Array.from({ length: 100 }, (_, index) => store.streams.append(stream, `${index}`));
    await store.close();
    const results = await Promise.all(appends);
    expect(results.at(-1)?.lastSequence).toBe(100);
  });

  test("a store is closed at the end of its scope", async () => {
    const scoped = await (async () => {
      await using store = await fresh();
      await store.createSession();
      return store;
    })();
    await failure(scoped.listSessions(), "closed");
  });

  test("a recorder that is let go of is closed", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "a" });
    await run[Symbol.asyncDispose]();
    await failure(run.nextStep(), "closed");
    expect((await store.runs.get(run.id))?.status).toBe("running");
  });

  test("a signal that is aborted already stops a call before it begins", async () => {
    const store = await fresh();
    const stream = store.newId();
    await store.streams.append(stream, ["a", "b"]);
    const reason = new Error("enough");
    const signal = AbortSignal.abort(reason);
    const error = await failure(store.streams.read(stream, { signal }).toArray(), "aborted");
    expect(error.cause).toBe(reason);
    expect(error.message).toContain("enough");
    await failure(store.read({ signal }).toArray(), "aborted");
    await failure(store.flows.playback(stream, { signal }), "aborted");
    expect(await store.tail({ signal }).toArray()).toEqual([]);
  });

  test("a reader that waits is stopped by its signal, and by the store's end", async () => {
    const store = await fresh();
    const stop = new AbortController();
    const stopped = store.tail({ signal: stop.signal }).toArray();
    const closed = store.tail().toArray();
    setTimeout(() => stop.abort(), 20);
    await stopped;
    setTimeout(() => void store.close(), 20);
    await closed;
  });

  test("an error names what, and comes from where it was awaited", async () => {
    const store = await fresh();
    async function aFunctionOfTheCallers() {
      await store.findSession("nobody");
    }
    const error = await failure(aFunctionOfTheCallers(), "not_found");
    expect(error.message).toContain('"nobody"');
    expect(error.stack).toContain("aFunctionOfTheCallers");
    async function aLoopOfTheCallers() {
      for await (const record of store.streams.read(store.newId())) void record;
    }
    expect((await failure(aLoopOfTheCallers(), "not_found")).stack).toContain("aLoopOfTheCallers");
    async function anAppendOfTheCallers() {
      await store.streams.append(store.newId(), "x", { expected: 7 });
    }
    expect((await failure(anAppendOfTheCallers(), "conflict")).stack).toContain("anAppendOfTheCallers");
    expect(error).toBeInstanceOf(Error);
    expect(String(error)).toMatch(/^RunlogError: /);
  });
});

describe("stores that last", () => {
  test("hold what they were told, and have one writer and any number of readers", async () => {
    const place = await lastingPlace();
    const store = await place.open();
    const stream = store.newId();
    await store.streams.append(stream, "a");
    const locked = await failure(place.open(), "locked");
    expect(locked.message).toContain("open for writing");
    const reader = await place.open({ mode: "readOnly" });
    expect(await reader.streams.get(stream)).toEqual({ id: stream, lastSequence: 1 });
    await failure(reader.streams.append(stream, "b"), "read_only");
    await failure(reader.createSession(), "read_only");
    const seen: string[] = [];
    const stop = new AbortController();
    const from = (await reader.lastPosition()) + 1;
    const tailing = (async () => {
      for await (const record of reader.tail({ from, signal: stop.signal })) {
        seen.push(record.text());
        if (seen.length === 3) stop.abort();
      }
    })();
    for (const text of ["b", "c", "d"]) await store.streams.append(stream, text);
    await tailing;
    expect(seen).toEqual(["b", "c", "d"]);
    await store.close();
    const again = await place.open();
    expect(again.recovery.clean).toBe(true);
    expect(await again.streams.get(stream)).toEqual({ id: stream, lastSequence: 4 });
  });

  test("are followed by a reader until that is closed", async () => {
    const place = await lastingPlace();
    const store = await place.open();
    const { session, instance } = await store.startSession({}, "agent");
    const { run } = await store.runs.start({ session: {}, agentName: "agent" });
    const flow = await store.flows.create(run.id);
    for (const isWriterThere of [true, false]) {
      const reader = await place.open({ mode: "readOnly" });
      const context = await reader.context(instance.id);
      const seen = new Set<string>();
      const follow = async (what: string, following: AsyncIterable<unknown>) => {
        for await (const _ of following) seen.add(what);
        return what;
      };
      const ends = [follow("tail", reader.tail({ from: 1 })), follow("context", context.follow()), follow("flow", reader.flows.follow(flow.runId))];
      await expect.poll(() => seen.has("tail")).toBe(true);
      await reader.close();
      expect(await Promise.all(ends)).toEqual(["tail", "context", "flow"]);
      if (isWriterThere) {
        // The writer isn't touched by it.
        await store.updateSession(session.id, { title: "on" });
        await store.close();
      }
    }
  });

  test("are told apart from what isn't there", async () => {
    const place = await lastingPlace();
    await failure(place.open({ mode: "readOnly" }), "not_found");
    await failure(place.open({ missing: "fail" }), "not_found");
    await failure(place.open({ segmentBytesMax: 1 }), "invalid_input");
    await failure(place.open({ durability: "maybe" as never }), "invalid_input");
    await failure(openInMemory({ path: "x" } as never), "invalid_input");
  });
});
