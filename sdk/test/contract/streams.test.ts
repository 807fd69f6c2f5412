import { CallFlag, HeadFlag, type LogRecord, NO_VALUE, RecordBatch, type Store } from "#runlog";
import { places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

const bytes = (...values: number[]) => new Uint8Array(values);

/** What a step of a batch says that is wrong, by the path of its field. */
const WRONG_STEPS: [string, (store: Store, id: string) => Promise<unknown>][] = [
  ["`after`: -1 is not a whole number, 0 or more", (store, id) => store.streams.truncate(id, -1)],
  ["`after`: NaN is not a whole number", (store, id) => store.streams.truncate(id, NaN)],
  ['`stream`: "x" is not an id (a UUID)', (store) => store.streams.truncate("x", 1)],
  ["`at`: 1.5 is not a whole number", (store, id) => store.streams.fork(id, 1.5, id)],
  ['`child`: "x" is not an id (a UUID)', (store, id) => store.streams.fork(id, 1, "x")],
  ["`sequence`: -1 is not a whole number", (store, id) => store.streams.snapshot(id, -1, "x")],
  ['`operations[1].after`: "1" is not a whole number', (store, id) => store.streams.commit([{ truncate: id, after: 0 }, { truncate: id, after: "1" as never }])],
  ["`operations[1].redact`: -1 is not a whole number", (store, id) => store.streams.commit([{ truncate: id, after: 0 }, { redact: -1, reason: "x" }])],
];

describe.each(places)("streams $name", ({ fresh }) => {
  test("a signal that is aborted stops a reader within a page: reading by an error, following by its end", async () => {
    const store = await fresh();
    const id = store.newId();
    await store.streams.append(id, Array.from({ length: 100 }, (_, index) => `${index}`));
    const readers = [
      (signal: AbortSignal) => store.streams.read(id, { signal }),
      (signal: AbortSignal) => store.read({ signal, limit: 100 }),
    ];
    for (const read of readers) {
      const stop = new AbortController();
      let given = 0;
      const reading = (async () => {
        for await (const _ of read(stop.signal)) if ((given += 1) === 2) stop.abort();
      })();
      await failure(reading, "aborted");
      expect(given).toBe(2);
    }
    const stop = new AbortController();
    let given = 0;
    for await (const _ of store.tail({ signal: stop.signal })) if ((given += 1) === 2) stop.abort();
    expect(given).toBe(2);
  });

  test.each(WRONG_STEPS)("what is wrong with a step of a batch is told by its field: %s", async (says, call) => {
    const store = await fresh();
    const id = store.newId();
    await store.streams.append(id, "x");
    expect((await failure(call(store, id), "invalid_input")).message).toContain(says);
    expect(await store.streams.read(id).toArray()).toHaveLength(1);
  });

  test("a field that a record hasn't is refused, and one that was read is appended again", async () => {
    const store = await fresh();
    const stream = store.newId();
    await store.streams.append(stream, [{ payload: "kept", kind: 7, meta: bytes(9) }, "redacted"]);
    const [kept, redacted] = await store.streams.read(stream).toArray();
    for (const [record, says] of [
      [{ payload: "x", metadata: bytes(1) }, "a record has no field \"metadata\", but payload, json, kind, meta"],
      [{ json: 1, Kind: 1 }, "no field \"Kind\""],
      [{ json: 1, payload: "x" }, "a payload or json, not both"],
    ] as const) {
      expect((await failure(store.streams.append(stream, record as never), "invalid_input")).message).toContain(says);
      const batch = store.streams.commit([{ append: stream, records: [record as never] }]);
      expect((await failure(batch, "invalid_input")).message).toContain(says);
    }
    await store.streams.append(stream, kept ?? []);
    await store.redact(redacted?.position as number, "a name");
    const read = await store.streams.read(stream).toArray();
    expect(read.map((record) => [record.kind, record.text(), [...record.meta]])).toEqual([[7, "kept", [9]], [0, "", []], [7, "kept", [9]]]);
    expect((await failure(store.streams.append(stream, read[1] ?? []), "invalid_input")).message).toContain("was redacted");
  });

  test("records are kept byte for byte, with their kind and metadata", async () => {
    const store = await fresh();
    const stream = store.newId();
    const appended = await store.streams.append(stream, [
      bytes(0, 255, 128),
      "tëxt",
      { payload: bytes(), kind: 7, meta: bytes(9, 8) },
      { json: { b: 1, a: [2] } },
    ]);
    expect(appended).toMatchObject({ firstSequence: 1, lastSequence: 4, repeated: false });
    const records = await store.streams.read(stream).toArray();
    expect(records.map((record) => [...record.payload])[0]).toEqual([0, 255, 128]);
    expect(records[1]?.text()).toBe("tëxt");
    expect(records[2]).toMatchObject({ kind: 7, sequence: 3, redacted: false });
    expect([...(records[2]?.meta as Uint8Array)]).toEqual([9, 8]);
    expect(records[3]?.json()).toEqual({ b: 1, a: [2] });
    expect(records[0]?.position).toBe(appended.position);
    expect(records[0]?.stream).toBe(stream);
    expect(records[3]?.position).toBe(appended.lastPosition);
    expect(await store.streams.get(stream)).toEqual({ id: stream, lastSequence: 4 });
    expect((await store.streams.list()).map((info) => info.id)).toContain(stream);
  });

  test("what contexts, chats, runs and flows are kept in is changed by no call for streams", async () => {
    const store = await fresh();
    const { instance } = await store.startSession({}, "agent");
    const { run: kept } = await store.runs.start({ session: {}, agentName: "agent" });
    const flow = await store.flows.create();
    await flow.saveSnapshot();
    for (const own of [instance.id, instance.sessionId, kept.id, flow.runId]) {
      const refused = await failure(store.streams.append(own, "a"), "invalid_input");
      expect(refused.message).toContain("use a stream of your own");
      await failure(store.streams.delete(own), "invalid_input");
      await failure(store.streams.truncate(own, 0), "invalid_input");
    }
    expect(await (await store.context(instance.id)).getMessages()).toEqual([]);
  });

  test("lists that the store keeps for itself are read, and changed by no call for streams", async () => {
    const store = await fresh();
    const { instance } = await store.startSession({ title: "kept" }, "agent");
    await store.runs.start({ instanceId: instance.id });
    await store.agents.put({ name: "agent" });
    await store.flows.create();
    const lists = (await store.streams.list()).map(({ id }) => id).filter((id) => id.startsWith("72756e6c-6f67-3a"));
    expect(lists.length).toBeGreaterThanOrEqual(4);
    for (const id of lists) {
      expect((await store.streams.read(id).toArray()).length).toBeGreaterThan(0);
      await failure(store.streams.append(id, "boo"), "invalid_input");
      await failure(store.streams.truncate(id, 0), "invalid_input");
      await failure(store.streams.delete(id), "invalid_input");
      await failure(store.streams.snapshot(id, 0, bytes(1)), "invalid_input");
      await failure(store.streams.fork(instance.id, 0, id), "invalid_input");
    }
    expect((await store.listSessions()).items.map(({ title }) => title)).toContain("kept");
  });

  test("heads tell of every event what its record says, and of everything else the record itself", async () => {
    const store = await fresh();
    const { instance } = await store.startSession({ title: "Heads" }, "agent");
    const context = await store.context(instance.id);
    const happened = 1_700_000_000_000;
    await context.appendMessage({ role: "user", content: "Look." }, { event: { createdAtMs: happened } });
    const call = { id: "cäll_1", type: "function", function: { name: "se\"arch", arguments: "{}" } };
    await context.appendMessage({ role: "assistant", content: null, tool_calls: [call], usage: { prompt_tokens: 12, completion_tokens: 3, cost: 0.5 } }, { event: { stepNumber: 4 } });
    await context.appendMessage({ role: "tool", tool_call_id: "cäll_1", content: "no" }, { event: { toolDurationMs: 60, toolIsError: true } });
    const records = await store.read().toArray();
    const pages = [];
    for await (const page of store.heads()) pages.push(page);
    const [page] = pages;
    expect(pages).toHaveLength(1);
    const { events, others } = page as NonNullable<typeof page>;
    const isEvent = (record: LogRecord) => record.kind >= 1 && record.kind <= 5;
    const wanted = records.filter(isEvent);
    expect(others.map((record) => [record.position, record.kind, record.stream, [...record.payload]])).toEqual(
      records.filter((record) => !isEvent(record)).map((record) => [record.position, record.kind, record.stream, [...record.payload]]),
    );
    expect(events.count).toBe(4);
    expect([...events.positions]).toEqual(wanted.map((record) => record.position));
    expect([...events.sequences]).toEqual([1, 2, 3, 4]);
    expect([...events.recorded]).toEqual(wanted.map((record) => record.timeMs));
    expect([...events.contentBytes]).toEqual(wanted.map((record) => record.payload.length));
    expect([...events.kinds]).toEqual(wanted.map((record) => record.kind));
    expect([...events.streams].map((stream) => events.streamIds[stream])).toEqual(wanted.map((record) => record.stream));
    expect(events.happened[0]).toBe(happened);
    const [user, answer, asked, result] = [0, 1, 2, 3] as const;
    expect([events.steps[user], events.steps[answer]]).toEqual([NO_VALUE, 4]);
    expect([...events.flags]).toEqual([0, HeadFlag.Silent, 0, 0]);
    expect(events.toolNames[events.tools[asked] as number]).toBe('se"arch');
    expect(events.tools[user]).toBe(NO_VALUE);
    expect([...events.callEnds]).toEqual([0, 0, 1, 2]);
    expect(events.callIds).toBe("cäll_1cäll_1");
    expect([...events.callIdEnds]).toEqual([6, 12]);
    expect([...events.callFlags]).toEqual([CallFlag.HasId, CallFlag.HasId | CallFlag.Failed]);
    expect([...events.callDurations]).toEqual([Number.NaN, 60]);
    expect([[...events.usages], [...events.inputTokens], [...events.outputTokens], [...events.costs]]).toEqual([[answer], [12], [3], [0.5]]);
    expect(events.kinds[result]).toBe(5);
  });

  test("a text is found in any case, also where JSON has it with backslashes, and not once it is redacted", async () => {
    const store = await fresh();
    const stream = store.newId();
    await store.streams.append(stream, [{ json: { text: 'Say "Ärger" now' } }, { json: { inner: JSON.stringify({ text: 'say "ärger"' }) } }, { json: "say" }]);
    const find = async (text: string, from?: number) => {
      const found: number[] = [];
      for await (const page of store.search(text, { from })) found.push(...page.found);
      return found;
    };
    const positions = (await store.streams.read(stream).toArray()).map((record) => record.position);
    expect(await find('SAY "ÄRGER"')).toEqual(positions.slice(0, 2));
    expect(await find("say")).toEqual(positions);
    expect(await find("say", positions[1])).toEqual(positions.slice(1));
    expect(await find("nowhere")).toEqual([]);
    await store.redact(positions[0] as number, "private");
    expect(await find('say "ärger"')).toEqual(positions.slice(1, 2));
    await failure(find(""), "invalid_input");
    await failure(find(7 as unknown as string), "invalid_input");
  });

  test("a range is read forward and backward, by kind, and up to a limit", async () => {
    const store = await fresh();
    const stream = store.newId();
    await store.streams.append(
      stream,
      Array.from({ length: 20 }, (_, index) => ({ payload: `${index + 1}`, kind: index % 2 })),
    );
    const read = async (options: object) => (await store.streams.read(stream, options).toArray()).map((it) => it.sequence);
    expect(await read({ first: 18 })).toEqual([18, 19, 20]);
    expect(await read({ first: 5, last: 7 })).toEqual([5, 6, 7]);
    expect(await read({ backward: true, limit: 3 })).toEqual([20, 19, 18]);
    expect(await read({ kinds: [1], last: 6 })).toEqual([2, 4, 6]);
    expect(await read({ first: 99 })).toEqual([]);
    await failure(store.streams.read(store.newId()).toArray(), "not_found");
  });

  test("JSON payloads are read as values", async () => {
    const store = await fresh();
    const stream = store.newId();
    const values = [{ a: 1 }, [2, "é"], null, "x", 3.5];
    await store.streams.append(stream, values.map((json) => ({ json })));
    expect(await store.streams.readValues(stream).toArray()).toEqual(values);
    const second = (await store.streams.read(stream).toArray())[1] as LogRecord;
    await store.redact(second.position, "private");
    expect(await store.streams.readValues(stream).toArray()).toEqual([{ a: 1 }, null, null, "x", 3.5]);
    const records = await store.streams.read(stream).toArray();
    expect(records.map((record) => record.redacted)).toEqual([false, true, false, false, false]);
    expect(records[4]?.json()).toBe(3.5);
  });

  test("a payload that isn't what it is read as is told by its sequence, and nothing is taken for damage", async () => {
    const store = await fresh();
    for (const wrong of [Uint8Array.of(255), "no JSON", "1,2", ""]) {
      const stream = store.newId();
      await store.streams.append(stream, [{ json: 1 }, wrong, { json: 3 }]);
      const error = await failure(store.streams.readValues(stream).toArray(), "invalid_input");
      expect(error.message).toContain("sequence 2");
      const [, record] = await store.streams.read(stream).toArray();
      await failure((async () => record?.json())(), "invalid_input");
      if (typeof wrong !== "string") await failure((async () => record?.text())(), "invalid_input");
    }
  });

  test("payloads that are no JSON are told, also those that pass for some inside of a list", async () => {
    const store = await fresh();
    for (const payloads of [[""], ["1", "2,3"], ["1", "", "3"], ["{"]]) {
      const stream = store.newId();
      await store.streams.append(stream, payloads);
      await failure(store.streams.readValues(stream).toArray(), "invalid_input");
      expect((await store.streams.read(stream).toArray()).map((record) => record.text())).toEqual(payloads);
    }
  });

  test("a signal ends a read between two pages, though the second was read ahead", async () => {
    const store = await fresh();
    const stream = store.newId();
    await store.streams.append(stream, Array.from({ length: 5000 }, () => "x"));
    const stop = new AbortController();
    const pages = store.streams.read(stream, { signal: stop.signal }).pages()[Symbol.asyncIterator]();
    const { value } = await pages.next();
    expect(value).toHaveLength(4096);
    // Answered after the page that was read ahead.
    await store.streams.read(stream).toArray();
    stop.abort();
    await failure(pages.next(), "aborted");
    expect((await pages.next()).done).toBe(true);
  });

  test("a batch is packed once and used again", async () => {
    const store = await fresh();
    const stream = store.newId();
    const batch = new RecordBatch(64);
    for (let round = 0; round < 3; round++) {
      batch.clear();
      for (let index = 0; index < 1000; index++) batch.add(`${round}:${index}`, 1, bytes(index % 256));
      await store.streams.append(stream, batch);
    }
    expect(batch.count).toBe(1000);
    const records = await store.streams.read(stream, { first: 2001, limit: 2 }).toArray();
    expect(records.map((record) => record.text())).toEqual(["2:0", "2:1"]);
    expect((await store.streams.get(stream))?.lastSequence).toBe(3000);
    expect(() => batch.add("x", 128)).toThrow("kind");
    expect(() => batch.add("x", 0, new Uint8Array(40_000))).toThrow("metadata");
    expect(() => batch.add("\ud800")).toThrow("surrogate");
  });

  test("what a stream is expected to be is checked, and a key is used once", async () => {
    const store = await fresh();
    const stream = store.newId();
    await failure(store.streams.append(stream, "x", { expected: "exists" }), "not_found");
    const first = await store.streams.append(stream, "x", { expected: "absent", key: "first" });
    expect(await store.streams.append(stream, "x", { expected: "absent", key: "first" })).toEqual({
      ...first,
      repeated: true,
    });
    await failure(store.streams.append(stream, "x", { expected: 0 }), "conflict");
    await store.streams.append(stream, "y", { expected: 1, durability: "os" });
    await store.streams.append(stream, "z", { durability: { intervalMs: 50 } });
    await failure(store.streams.append(stream, "x", { expected: 1.5 }), "invalid_input");
    await failure(store.streams.append("not-a-uuid", "x"), "invalid_input");
    await failure(store.streams.append(stream, "x", { key: "k".repeat(256) }), "invalid_input");
    expect((await store.streams.get(stream))?.lastSequence).toBe(3);
  });

  test("a repeat with another number of records is told which are there", async () => {
    const store = await fresh();
    const stream = store.newId();
    await store.streams.append(stream, "before");
    const first = await store.streams.append(stream, ["a", "b"], { key: "k" });
    expect(first).toMatchObject({ firstSequence: 2, lastSequence: 3 });
    expect(await store.streams.append(stream, "a", { key: "k" })).toEqual({ ...first, repeated: true });
    expect(await store.streams.append(stream, ["a", "b", "c"], { key: "k" })).toEqual({ ...first, repeated: true });
  });

  test("a position tells a record from another that has its sequence", async () => {
    const store = await fresh();
    const [stream, child] = [store.newId(), store.newId()];
    await failure(store.streams.append(stream, "x", { expected: { position: 1 } }), "conflict");
    const first = await store.streams.append(stream, ["a", "b"], { expected: { position: 0 } });
    await store.streams.truncate(stream, 1);
    const second = await store.streams.append(stream, "c", { expected: { position: first.position } });
    expect(second.lastSequence).toBe(first.lastSequence);
    await failure(store.streams.append(stream, "x", { expected: { position: first.lastPosition } }), "conflict");
    const at = (position: number) => ({ position });
    const fork = (position: number) => ({ fork: stream, at: 1, child, expected: at(position) });
    const save = (position: number) => ({ snapshot: stream, sequence: 2, payload: "s", expected: at(position) });
    await failure(store.streams.commit([fork(first.lastPosition)]), "conflict");
    await failure(store.streams.commit([save(first.lastPosition)]), "conflict");
    await store.streams.commit([fork(second.lastPosition), save(second.lastPosition)]);
    await store.streams.append(child, "d", { expected: { position: first.position } });
    await failure(store.streams.append(stream, "x", { expected: { position: 1.5 } }), "invalid_input");
    await failure(store.streams.append(stream, "x", { expected: {} as { position: number } }), "invalid_input");
  });

  test("a repeat tells that what it had appended was truncated", async () => {
    const store = await fresh();
    const stream = store.newId();
    const first = await store.streams.append(stream, "x", { key: "k" });
    expect(await store.streams.append(stream, "x", { key: "k" })).toMatchObject({ repeated: true, truncated: false });
    await store.streams.truncate(stream, 0);
    await store.streams.append(stream, "y");
    const again = await store.streams.append(stream, "x", { key: "k" });
    expect(again).toEqual({ ...first, repeated: true, truncated: true });
    await store.streams.delete(stream);
    await failure(store.streams.append(stream, "x", { key: "k" }), "not_found");
  });

  test("a batch of several steps over several streams is atomic", async () => {
    const store = await fresh();
    const [one, two, three] = [store.newId(), store.newId(), store.newId()];
    const done = await store.streams.commit([
      { append: one, records: ["a", "b", "c"], expected: "absent" },
      { append: two, records: new RecordBatch().add("d") },
      { truncate: one, after: 2 },
      { fork: one, at: 1, child: three },
      { snapshot: one, sequence: 2, payload: "state", meta: bytes(1) },
    ]);
    expect(done.operations.map((it) => it.lastSequence)).toEqual([3, 1, 2, 1, 2]);
    const texts = async (stream: string) => (await store.streams.read(stream).toArray()).map((it) => it.text());
    expect(await texts(one)).toEqual(["a", "b"]);
    expect(await texts(three)).toEqual(["a"]);
    const snapshot = await store.streams.latestSnapshot(one);
    expect(snapshot).toMatchObject({ sequence: 2 });
    expect(new TextDecoder().decode(snapshot?.payload)).toBe("state");
    expect([...(snapshot?.meta as Uint8Array)]).toEqual([1]);
    expect(await store.streams.latestSnapshot(one, 1)).toBeUndefined();
    const wrong = store.streams.commit([{ append: two, records: "e" }, { append: one, records: "f", expected: 9 }]);
    await failure(wrong, "conflict");
    expect(await texts(two)).toEqual(["d"]);
  });

  test("a fork keeps what it shares when its parent is truncated or deleted", async () => {
    const store = await fresh();
    const [parent, child] = [store.newId(), store.newId()];
    await store.streams.append(parent, ["a", "b", "c"]);
    await store.streams.fork(parent, 2, child);
    await store.streams.truncate(parent, 0);
    await store.streams.delete(parent);
    await store.streams.append(child, "x");
    expect((await store.streams.read(child).toArray()).map((it) => it.text())).toEqual(["a", "b", "x"]);
    expect(await store.streams.get(parent)).toBeUndefined();
    await failure(store.streams.append(parent, "y"), "not_found");
  });

  test("the log is read in order of position, and followed", async () => {
    const store = await fresh();
    const stream = store.newId();
    await store.streams.append(stream, ["a", "b"]);
    const from = (await store.lastPosition()) - 1;
    const stop = new AbortController();
    const seen: string[] = [];
    const tailing = (async () => {
      for await (const record of store.tail({ from, signal: stop.signal })) {
        seen.push(record.text());
        if (seen.length === 5) stop.abort();
      }
    })();
    for (const text of ["c", "d", "e"]) await store.streams.append(stream, text);
    await tailing;
    expect(seen).toEqual(["a", "b", "c", "d", "e"]);
    const log = await store.read({ from, limit: 2 }).toArray();
    expect(log.map((record) => record.position)).toEqual([from, from + 1]);
    expect((await store.record(from))?.text()).toBe("a");
    expect(await store.record(1_000_000)).toBeUndefined();
  });

  test("statistics and a verification tell what is there", async () => {
    const store = await fresh();
    await store.streams.append(store.newId(), ["a", "b"]);
    const stat = await store.stat();
    expect(stat).toMatchObject({ streams: 1, streamsDeleted: 0 });
    expect(stat.lastPosition).toBe(await store.lastPosition());
    const found = await store.verify();
    expect(found).toMatchObject({ sound: true, problems: [], problemsCount: 0 });
    expect(found.records).toBeGreaterThanOrEqual(2);
    await store.sync();
  });
});
