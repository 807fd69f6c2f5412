import { RawJson, RecordBatch, RunlogError } from "#runlog";
import { places } from "#places";
import { afterEach, describe, expect, test } from "vitest";

import { failure } from "../code.js";

describe.each(places)("attacks $name", ({ fresh }) => {
  test("what is appended may append: every record is there once, in the stream it was given to", async () => {
    const store = await fresh();
    const [stream, other] = [store.newId(), store.newId()];
    const inner: Promise<unknown>[] = [];
    const record = (name: string) => ({
      json: {
        toJSON() {
          inner.push(store.streams.append(other, `in ${name}`));
          return name;
        },
      },
    });
    await store.streams.append(stream, [record("a"), "between", record("b")]);
    await store.streams.commit([{ append: stream, records: [record("c")] }]);
    await Promise.all(inner);
    const texts = async (id: string) => (await store.streams.read(id).toArray()).map((it) => it.text());
    expect(await texts(stream)).toEqual(['"a"', "between", '"b"', '"c"']);
    expect(await texts(other)).toEqual(["in a", "in b", "in c"]);
    const context = await store.context((await store.startSession({}, "a")).instance.id);
    const message = { role: "user" as const, toJSON: () => (void context.appendMessage({ role: "user", content: "inner" }), { role: "user", content: "outer" }) };
    await context.appendMessage(message);
    expect((await context.getMessages()).map((it) => it["content"]).sort()).toEqual(["inner", "outer"]);
  });

  test("options may append, too, or end the store", async () => {
    const store = await fresh();
    const [stream, other] = [store.newId(), store.newId()];
    const inner: Promise<unknown>[] = [];
    const within = <T>(value: T): T => {
      inner.push(store.streams.append(other, `in ${inner.length}, which is longer`));
      if (inner.length % 3 === 0) inner.push(store.streams.commit([{ append: other, records: `in ${inner.length}` }]));
      return value;
    };
    const batch = new RecordBatch(0).add("d");
    const grown = { get expected() { return within(batch.add("e".repeat(1000))).count; } };
    const outer = [
      store.streams.append(stream, "a", { get expected() { return within("any" as const); } }),
      store.streams.append(stream, "b", { get durability() { return within("os" as const); } }),
      store.streams.append(stream, ["c"], { durability: { get intervalMs() { return within(5); } } }),
      failure(store.streams.append(stream, batch, grown), "conflict"),
      store.streams.append(stream, batch, { get key() { return within("key"); } }),
    ];
    await Promise.all(outer);
    const done = (await Promise.all(inner)).length;
    const texts = async (id: string) => (await store.streams.read(id).toArray()).map((it) => it.text());
    expect(await texts(stream)).toEqual(["a", "b", "c", "d", "e".repeat(1000)]);
    expect(await texts(other)).toEqual(Array.from({ length: done }, (_, at) => expect.stringMatching(`^in ${at}\\b`)));
    const closing: Promise<void>[] = [];
    const closes = { get expected() { return closing.push(store.close()), "any" as const; } };
    await failure(store.streams.append(stream, "f", closes), "closed");
    await Promise.all(closing);
  });

  test("text is kept to the last character, also where the queue of appends ends", async () => {
    const store = await fresh();
    const stream = store.newId();
    const texts = ["", "\0", "\uFEFF", "\uFEFF{}", "é\u00ff\u0080", "\uffff\ufffe€", "\u{10ffff}😀", "\u07ff\u0800"];
    // Around what is queued at most, as bytes and by the bound of three bytes a character, and what fills the queue.
    for (const length of [21_823, 21_832, 21_845, 43_690, 65_488, 65_536]) {
      for (const by of [-2, -1, 0, 1, 2]) for (const it of ["a", "é", "€"]) texts.push(it.repeat(length + by));
    }
    const alone = texts.map((text) => store.streams.append(stream, text));
    const bytes = texts.map((text) => {
      const payload = new TextEncoder().encode(text);
      const appended = store.streams.append(stream, payload);
      payload.fill(0);
      return appended;
    });
    const appended = await Promise.all([...alone, ...bytes]);
    expect(appended.map((it) => it.firstSequence)).toEqual(appended.map((_, index) => index + 1));
    const found = (await store.streams.read(stream).toArray()).map((it) => it.text());
    expect(found.every((text, at) => text === texts[at % texts.length])).toBe(true);
    expect(found).toHaveLength(2 * texts.length);
    expect(await store.streams.read(stream, { limit: Infinity, last: 1 }).toArray()).toHaveLength(1);
  });

  test("the id of a stream is told when it is none, whatever it is", async () => {
    const store = await fresh();
    const circular: Record<string, unknown> = {};
    circular["self"] = circular;
    const ids = [1n, circular, Symbol("id"), undefined, null, () => 1, { toJSON: () => store.close() }, ""];
    for (const id of ids) await failure(store.streams.append(id as never, "x"), "invalid_input");
    await store.streams.append(store.newId(), "x");
  });

  test("a refused record leaves nothing of its append behind", async () => {
    const store = await fresh();
    const stream = store.newId();
    await failure(store.streams.append(stream, ["good", 5 as never]), "invalid_input");
    await failure(store.streams.append(stream, ["good", "\ud800"]), "invalid_input");
    await failure(store.streams.append(stream, []), "invalid_input").catch(() => {});
    await store.streams.append(stream, "alone");
    expect((await store.streams.read(stream).toArray()).map((it) => it.text())).toEqual(["alone"]);
  });

  test("an iterator that is asked for several items at a time gives each once, and stops while it waits", async () => {
    const store = await fresh();
    const stream = store.newId();
    await store.streams.append(stream, Array.from({ length: 9000 }, (_, index) => `${index}`));
    const iterator = store.streams.read(stream)[Symbol.asyncIterator]();
    const asked = await Promise.all(Array.from({ length: 9002 }, () => iterator.next()));
    expect(asked.slice(0, 9000).map((it) => it.value?.text())).toEqual(Array.from({ length: 9000 }, (_, index) => `${index}`));
    expect(asked.slice(9000).map((it) => it.done)).toEqual([true, true]);
    const flow = await store.flows.create();
    await flow.recordAll([{ type: "node:tick", timestamp: 1 }, { type: "node:tick", timestamp: 1e12 }]);
    const waiting = [store.tail({ from: 1e9 }), store.flows.follow(flow.runId, { from: 1e9 }), await store.flows.playback(flow.runId)];
    for (const pages of waiting) {
      const read = pages[Symbol.asyncIterator]();
      if (pages === waiting[2]) await read.next();
      const next = read.next();
      await new Promise((resolve) => setTimeout(resolve, 5));
      await read.return?.();
      expect((await next).done).toBe(true);
      expect((await read.next()).done).toBe(true);
    }
  });

  test("fields and keys may have any name: __proto__, constructor, toString", async () => {
    const store = await fresh();
    const odd = JSON.parse('{"__proto__":{"polluted":1},"constructor":2,"toString":3,"hasOwnProperty":4}') as object;
    const chat = await store.chats.create({ assistantId: "a", metadata: odd, ...({ toString: 3, constructor: 2 } as object) });
    expect(JSON.stringify(chat.metadata)).toBe(JSON.stringify(odd));
    expect(chat).toMatchObject({ toString: 3, constructor: 2 });
    const context = await store.context((await store.startSession({ metadata: odd as never }, "a")).instance.id);
    await context.appendMessage({ role: "user", content: odd });
    expect(JSON.stringify((await context.getMessages())[0]?.["content"])).toBe(JSON.stringify(odd));
    const message = { type: "text", props: {} };
    const request = await store.chats.beginRequest(chat.chatId, { assistantId: "a", message });
    for (const key of ["__proto__", "constructor", "", "a\0b", "\n", "x".repeat(10_000)]) {
      await request.space.set(key, odd);
      expect(JSON.stringify(await request.space.get(key))).toBe(JSON.stringify(odd));
    }
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  test("names may have any character but half a pair, and none is a path", async () => {
    const store = await fresh();
    for (const name of ["a\0b", "a\nb", "../../etc/passwd", "💾".repeat(50), " "]) {
      const { session, instance } = await store.startSession({ title: name }, "agent");
      expect((await store.getSession(session.id))?.title).toBe(name);
      expect((await store.rootInstance(session.id)).id).toBe(instance.id);
    }
    await failure(store.createSession({ title: "\ud800" }), "invalid_input");
    for (const id of ["", "\0", "x".repeat(1 << 20), "../x", "00000000-0000-0000-0000-00000000000g", "\ud800"]) {
      await failure(store.context(id), "invalid_input");
      await failure(store.getSession(id).then((found) => found === undefined && Promise.reject(new RunlogError("invalid_input", "none"))), "invalid_input");
      await failure(store.streams.append(id, "x"), "invalid_input");
    }
    const key = "k".repeat(255);
    const stream = store.newId();
    expect((await store.streams.append(stream, "x", { key })).repeated).toBe(false);
    expect((await store.streams.append(stream, "x", { key })).repeated).toBe(true);
    for (const wrong of ["", `${key}k`, 1]) await failure(store.streams.append(stream, "x", { key: wrong as never }), "invalid_input");
  });

  test("an option that is misspelt or no number is told by name", async () => {
    const store = await fresh();
    const { session, instance } = await store.startSession({}, "a");
    const context = await store.context(instance.id);
    const stream = store.newId();
    await store.streams.append(stream, "x");
    const wrong: [string, () => Promise<unknown>][] = [
      ["expcted", () => store.streams.append(stream, "x", { expcted: 1 } as never)],
      ["limt", () => store.streams.read(stream, { limt: 1 } as never).toArray()],
      ["limt", async () => store.read({ limt: 1 } as never)],
      ["frm", async () => store.tail({ frm: 1 } as never)],
      ["frm", async () => context.events({ frm: 1 } as never)],
      ["frm", async () => store.flows.follow(stream, { frm: 1 } as never)],
      ["sped", () => store.flows.playback(stream, { sped: 1 } as never)],
      ["id", () => store.updateSession(session.id, { id: instance.id, title: "x" } as never)],
      ["run", () => store.runs.children(stream, { run: stream } as never)],
      ["ops", () => store.streams.commit([{ truncate: stream, after: 0 }], { ops: [] } as never)],
      ["stream", () => store.streams.read(stream, { stream: store.newId() } as never).toArray()],
      ["titel", () => store.createSession({ titel: "x" } as never)],
      ["statsu", () => store.runs.list({ statsu: "paused" } as never)],
      ["expectedLast", () => context.appendMessage({ role: "user" }, { expectedLast: 1 } as never)],
      ["depthmax", () => store.orchestrator({ depthmax: 1 } as never)],
      ["expectedLastSequence", () => context.appendMessage({ role: "user", content: "" }, { expectedLastSequence: NaN })],
      ["maxSteps", () => store.runs.start({ instanceId: instance.id, maxSteps: Infinity })],
      ["limit", () => store.listSessions({ limit: NaN })],
      ["updates.sort", () => store.chats.update(session.id, { sort: NaN })],
      ["updates.stackDepth", () => store.chats.updateStep("s", { stackDepth: NaN })],
      ["message.props.score", () => store.chats.beginRequest(session.id, { assistantId: "a", message: { type: "text", props: { score: Infinity } } })],
      ["limit", () => store.streams.read(stream, { limit: -1 }).toArray()],
      ["afterSequence", () => store.truncateSession(session.id, NaN)],
      ["from", () => store.read({ from: NaN }).toArray()],
      ["atOrBefore", () => store.streams.latestSnapshot(stream, NaN)],
      ["kind", () => store.streams.append(stream, { payload: "x", kind: Symbol("k") as never })],
      ["durability", () => store.streams.append(stream, "x", { durability: "maybe" as never })],
    ];
    for (const [name, call] of wrong) expect((await failure(call(), "invalid_input")).message).toContain(name);
    expect(await store.streams.get(stream)).toMatchObject({ lastSequence: 1 });
    expect(await context.getLastSequence()).toBe(0);
  });

  test("what is wrong with a run to start is told by the names that it was given under", async () => {
    const store = await fresh();
    const { id: sessionId } = await store.createSession({});
    const { id: instanceId } = await store.createInstance({ sessionId, agentName: "a" });
    const wrong: [string, object][] = [
      ["`maxSteps`: -1 ", { instanceId, maxSteps: -1 }],
      ["`maxSteps` is Infinity", { instanceId, maxSteps: Infinity }],
      [
        "`maxStps` is not a field that is known here; known are `instanceId`, `newInstance`, `session`, `agentName`, `id`",
        { instanceId, maxStps: 1 },
      ],
      ["`metadata.deep` is NaN", { instanceId, metadata: { deep: NaN } }],
      ["`instanceId`: \"x\" is not an id", { instanceId: "x" }],
      ["`newInstance`: `sesionId` is not a field", { newInstance: { sesionId: sessionId, agentName: "a" } }],
      ["`newInstance.sessionId`: 4 is not an id", { newInstance: { sessionId: 4, agentName: "a" } }],
      ["`session`: `titel` is not a field", { session: { titel: "x" }, agentName: "a" }],
      ["`session.title`: 4 is not a text", { session: { title: 4 }, agentName: "a" }],
      ["`session.title` is NaN", { session: { title: NaN }, agentName: "a" }],
      ["`agentName`: 5 is not a text", { session: {}, agentName: 5 }],
    ];
    for (const [told, run] of wrong) {
      const { message } = await failure(store.runs.start(run as never), "invalid_input");
      expect(message.slice(0, told.length)).toBe(told);
    }
    const orchestrator = await store.orchestrator({});
    const places: [string, object][] = [
      ["`session.title`: 4 is not a text", { session: { title: 4 } }],
      ["`sessionId`: 5 is not an id", { sessionId: 5 }],
      ["`instanceId`: 6 is not an id", { instanceId: 6 }],
    ];
    for (const [told, place] of places) {
      const started = orchestrator.start({ agentName: "a", task: "x", ...place } as never);
      const { message } = await failure(started, "invalid_input");
      expect(message.slice(0, told.length)).toBe(told);
    }
  });

  test("bytes are taken as they are from any memory, and refused from none", async () => {
    const store = await fresh();
    const stream = store.newId();
    const whole = Uint8Array.from({ length: 300 }, (_, index) => index);
    const shared = new Uint8Array(new SharedArrayBuffer(4)).fill(7);
    const resizable = new Uint8Array(new (ArrayBuffer as never as new (n: number, o: object) => ArrayBuffer)(4, { maxByteLength: 8 })).fill(8);
    const good = [whole.subarray(3, 5), shared, resizable, new Uint8Array()];
    for (const bytes of good) {
      await store.streams.append(stream, bytes);
      const { lastSequence } = (await store.streams.get(stream)) ?? { lastSequence: 0 };
      const [record] = await store.streams.read(stream, { first: lastSequence }).toArray();
      expect([...(record?.payload ?? [])]).toEqual([...bytes]);
    }
    const gone = new Uint8Array(4);
    structuredClone(gone.buffer, { transfer: [gone.buffer] });
    for (const bytes of [gone, new DataView(new ArrayBuffer(4)), new ArrayBuffer(4), new Float64Array(1), [1, 2]]) {
      await failure(store.streams.append(stream, { payload: bytes as never }), "invalid_input");
      await failure(store.streams.append(stream, { payload: "x", meta: bytes as never }), "invalid_input");
      await failure(store.streams.snapshot(stream, 1, bytes as never), "invalid_input");
      if (!Array.isArray(bytes)) await failure(store.runs.start({ session: {}, agentName: "a", messages: [bytes as never] }), "invalid_input");
    }
  });

  test("what is nested 100,000 deep comes back as it is, or is refused", async () => {
    const store = await fresh();
    const text = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
    const stream = store.newId();
    await store.streams.append(stream, { json: RawJson.parse(text) });
    expect((await store.streams.read(stream).toArray())[0]?.text()).toBe(text);
    let deep: unknown = [];
    for (let level = 0; level < 100_000; level++) deep = [deep];
    // How deep JSON.stringify goes depends on the stack that there is.
    await store.streams.append(stream, { json: deep }).then(() => {}, (error: RunlogError) => expect(error.code).toBe("invalid_input"));
    const context = await store.context((await store.startSession({}, "a")).instance.id);
    const message = RawJson.parse(`{"role":"user","content":${text}}`);
    const appended = await context.appendMessage(message).then(() => true, (error: RunlogError) => error.code);
    if (appended === true) expect((await context.getRawMessages())[0]?.json).toBe(message.text);
    else expect(appended).toBe("invalid_input");
    const flow = await store.flows.create();
    for (const call of [flow.finishNode("n", RawJson.parse(text)), store.createSession({ metadata: RawJson.parse(text) as never })]) {
      await call.then(() => {}, (error: RunlogError) => expect(error.code).toBe("invalid_input"));
    }
    await store.flows.resume(flow.runId);
  });
});

// Slow enough for one place.
describe.each(places.slice(-1))("attacks $name", ({ fresh }) => {
  test("the limits of size are told before anything is written, and nothing is empty by chance", async () => {
    const store = await fresh();
    const stream = store.newId();
    const large = new Uint8Array(100 << 20);
    await failure(store.streams.append(stream, large), "too_large");
    await failure(store.streams.append(stream, "x".repeat(100 << 20)), "too_large");
    await failure(store.streams.commit([{ append: stream, records: large }]), "too_large");
    await failure(store.streams.append(stream, Array.from({ length: 5 }, () => large.subarray(0, 40 << 20))), "too_large");
    expect(() => new RecordBatch().add("x", 0, new Uint8Array(40 << 10))).toThrow(/32768/);
    await store.streams.append(stream, "");
    expect((await store.streams.read(stream).toArray()).map((it) => it.text())).toEqual([""]);
    const batch = new RecordBatch();
    for (let index = 0; index < 1_000_000; index++) batch.add("");
    expect((await store.streams.append(stream, batch)).lastSequence).toBe(1_000_001);
    for (let index = 0; index < 50_000; index++) batch.add("");
    await failure(store.streams.append(stream, batch), "too_large");
  });
});

describe("a polluted prototype", () => {
  const polluted = Object.prototype as unknown as Record<string, unknown>;
  const names = ["signal", "expected", "key", "durability", "limit", "from", "payload", "json", "cursor", "then"];
  afterEach(() => names.forEach((name) => delete polluted[name]));

  test.each(places)("ends no call $name but with an answer or an error of its own", async ({ fresh }) => {
    const store = await fresh();
    const stream = store.newId();
    await store.streams.append(stream, "before");
    for (const name of names.filter((name) => name !== "then")) {
      for (const value of ["x", -1, {}, null]) {
        Object.defineProperty(polluted, name, { value, configurable: true, enumerable: true, writable: true });
        const calls: (() => Promise<unknown>)[] = [
          () => store.streams.append(stream, "x", {}),
          () => store.streams.append(stream, {} as never),
          () => store.streams.read(stream).toArray(),
          async () => store.read({}).toArray(),
          () => store.createSession(),
          () => store.runs.list(),
          () => store.stat(),
        ];
        for (const call of calls) {
          const error: unknown = await call().catch((error: unknown) => error);
          if (error instanceof Error) expect(error, `${name} ${String(value)}: ${error.stack}`).toBeInstanceOf(RunlogError);
        }
        delete polluted[name];
      }
    }
    await store.streams.append(stream, "after");
  });
});
