import type { MessageObject, RunRecorder, Store } from "#runlog";
import { RawJson } from "#runlog";
import { places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

// What JSON.stringify would write as `{}` is refused, or kept, wherever it is in a value.

const called: MessageObject = {
  role: "assistant",
  content: null,
  tool_calls: [{ id: "c", type: "function", function: { name: "ls", arguments: "{}" } }],
};

async function outputs(store: Store, run: RunRecorder): Promise<unknown[]> {
  return (await store.runs.toolCalls(run.id)).items.map((call) => (call.status === "pending" ? "pending" : call.output()));
}

async function started(store: Store): Promise<RunRecorder> {
  const run = await store.runs.start({ session: {}, agentName: "coder" });
  await run.recordMessage(called);
  return run;
}

/** A value so many objects deep. */
function nested(depth: number, value: unknown): unknown {
  for (let level = 0; level < depth; level++) value = { d: value };
  return value;
}

describe.each(places)("values in JSON $name", ({ fresh }) => {
  test.each<[string, () => unknown, string]>([
    ["a promise", () => ({ rows: [{ body: Promise.resolve("x") }] }), "`rows[0].body`: a promise was given; await it"],
    ["a map", () => ({ byName: new Map([["a", 1]]) }), "`byName`: a Map was given"],
    ["a set", () => [[new Set([1])]], "`[0][0]`: a Set was given"],
    ["a map itself", () => new Map(), "a Map was given"],
    ["a map in a class of the caller's", () => new (class Row { cells = new Map(); })(), "`cells`: a Map was given"],
    ["a response", () => new Response("hello"), "a Response was given, which JSON has no form for; give what its text()"],
    ["headers", () => ({ headers: new Headers({ a: "b" }) }), "`headers`: Headers were given"],
    ["a query", () => [new URLSearchParams("a=b")], "`[0]`: URLSearchParams were given"],
    ["a blob", () => ({ file: new Blob(["x"]) }), "`file`: a Blob was given"],
    ["a pattern", () => ({ by: /x/ }), "`by`: a RegExp was given"],
    ["a generator", () => (function* () { yield 1; })(), "a generator was given"],
    ["an async generator", () => (async function* () { yield 1; })(), "an async generator was given"],
    ["an iterator", () => ({ rows: [1, 2].values() }), "`rows`: a value of the class Array Iterator was given, of which JSON keeps nothing"],
    ["a map below everything", () => nested(600, new Map()), ".d.d`: a Map was given"],
    ["a DataView", () => ({ view: new DataView(new ArrayBuffer(8)) }), "`view`: a DataView was given"],
    ["an ArrayBuffer", () => ({ data: new ArrayBuffer(8) }), "`data`: an ArrayBuffer was given"],
    ["bytes", () => ({ pages: [{ image: new Uint8Array([137, 80]) }] }), "`pages[0].image`: a Uint8Array was given, which JSON writes as an object of numbers"],
    ["a vector", () => ({ embedding: new Float32Array([0.5]) }), "`embedding`: a Float32Array was given"],
  ])("%s in what a tool gave is refused, and the call stays open", async (_, output, says) => {
    const store = await fresh();
    const run = await started(store);
    expect((await failure(run.recordToolResult({ toolCallId: "c", output: output() }), "invalid_input")).message).toContain(says);
    expect((await failure(run.tool("c", output), "invalid_input")).message).toContain(says);
    expect(await outputs(store, run)).toEqual(["pending"]);
    await run.recordToolResult({ toolCallId: "c", output: "at last" });
    expect(await outputs(store, run)).toEqual(["at last"]);
  });

  test("a function where a value belongs is refused, instead of passing for nothing", async () => {
    const store = await fresh();
    const run = await started(store);
    const { session, instance } = await store.startSession({}, "planner");
    const context = await store.context(instance.id);
    const wrong = {
      dryRun: () => store.retain({ olderThanMs: 1, dryRun: () => true } as never),
      project: () => store.retain({ olderThanMs: 1, project: () => "tmp" } as never),
      expectedLastSequence: () => context.appendMessage({ role: "user", content: "x" }, { expectedLastSequence: () => 1 } as never),
      upToSequence: () => store.copySession(session.id, { upToSequence: () => 2 } as never),
      status: () => run.recordToolResult({ toolCallId: "c", output: "x", status: () => "error" } as never),
      maxSteps: () => store.runs.start({ session: {}, agentName: "a", maxSteps: () => 1 } as never),
      name: () => store.createSession({ name: Symbol("x") } as never),
    };
    for (const [name, call] of Object.entries(wrong)) expect((await failure(call() as Promise<unknown>, "invalid_input")).message).toContain(name);
    expect((await store.listSessions()).items).toHaveLength(2);
  });

  test("a list where fields belong is refused, whose values would be taken for fields in their order", async () => {
    const store = await fresh();
    const run = await started(store);
    const context = await store.context(run.run.instanceId);
    const calls: [string, () => unknown][] = [
      ["createSession", () => store.createSession(["a title"] as never)],
      ["startSession", () => store.startSession(["a title"] as never, "coder")],
      ["copySession", () => store.copySession(run.run.sessionId, [1] as never)],
      ["listSessions", () => store.listSessions([null, 10] as never)],
      ["runs.list", () => store.runs.list(["p"] as never)],
      ["runs.start", () => store.runs.start([{}, "coder"] as never)],
      ["runs.messages", () => store.runs.messages(run.id, [1] as never)],
      ["describe", () => run.describe([{ a: 1 }] as never)],
      ["appendMessage", () => context.appendMessage({ role: "user", content: "x" }, [run.id] as never)],
      ["chats.create", () => store.chats.create(["c"] as never)],
      ["flows.list", () => store.flows.list([1] as never)],
      ["agents.put", () => store.agents.put(["greeter"] as never)],
      ["orchestrator", () => store.orchestrator([1] as never)],
      ["retain", () => store.retain([1_000] as never)],
      ["erase", () => store.erase([[run.run.sessionId], "asked for"] as never)],
    ];
    for (const [name, call] of calls) {
      const error = await failure(Promise.resolve().then(call), "invalid_input");
      expect(error.message, name).toMatch(/object|field/);
    }
    expect((await store.listSessions()).items).toHaveLength(1);
  });

  test("fields that a class has as getters are refused, and a getter that fails is told as an error of ours", async () => {
    const store = await fresh();
    const run = await started(store);
    class Policy {
      olderThanMs = 1;
      get dryRun(): boolean {
        return true;
      }
    }
    class Filter extends (class {
      get status() {
        return "completed" as const;
      }
    }) {}
    const refused: [string, () => unknown][] = [
      ["dryRun", () => store.retain(new Policy())],
      ["dryRun", () => store.compact(new Policy() as never)],
      ["status", () => store.runs.list(new Filter())],
      ["status", () => store.runs.messages(run.id, new Filter() as never)],
      ["status", () => store.read(new Filter() as never)],
    ];
    for (const [name, call] of refused) {
      const error = await failure(Promise.resolve().then(call), "invalid_input");
      expect(error.message).toContain(`\`${name}\` from its class`);
    }
    const failing = { get agentName(): string { throw new Error("not configured"); }, get toolCallId(): string { throw new Error("not configured"); } };
    const { chatId } = await store.chats.create({ assistantId: "a" });
    const request = await store.chats.beginRequest(chatId, { assistantId: "a", message: { type: "text", props: { content: "?" } } });
    const props = { get content(): string { throw new Error("not configured"); } };
    const told: (() => unknown)[] = [
      () => request.send({ role: "assistant", type: "text", get props(): never { throw new Error("not configured"); } }),
      () => request.send({ role: "assistant", type: "text", props }),
      () => request.replace("m", props),
      () => store.runs.start(failing as never),
      () => run.recordToolResult(failing as never),
      () => store.retain(failing as never),
      () => store.compact(failing as never),
      () => store.orchestrator(failing as never),
      () => store.runs.list(failing as never),
    ];
    for (const call of told) {
      const error = await failure(Promise.resolve().then(call), "invalid_input");
      expect(error.message).toContain("not configured");
    }
    // Of another realm, or without a class, they are objects as others.
    const plain = Object.assign(Object.create(null) as object, { limit: 1 });
    expect((await store.runs.list(plain)).items).toHaveLength(1);
  });

  test("messages, events of streams and metadata are looked into as well", async () => {
    const store = await fresh();
    const run = await started(store);
    const lost = { deep: { er: new Map([["a", 1]]) } };
    const recordMessage = run.recordMessage({ role: "assistant", content: [{ type: "text", text: "x", lost }] } as never);
    expect((await failure(recordMessage, "invalid_input")).message).toContain(".er`: a Map was given");
    const stream = store.newId();
    expect((await failure(store.streams.append(stream, { json: lost }), "invalid_input")).message).toContain(".er`: a Map was given");
    const events = [{ json: 1 }, , { json: 3 }] as never;
    await failure(store.streams.append(stream, events), "invalid_input");
    await failure((await store.flows.create()).recordAll([{ type: "node:tick" }, , { type: "node:tick" }] as never), "invalid_input");
    const describe = run.describe({ metadata: lost });
    expect((await failure(describe, "invalid_input")).message).toContain("deep.er`: a Map was given");
  });

  test("an error is kept with its name, its message and its fields, however deep it is, unless it has a form of its own", async () => {
    const store = await fresh();
    const run = await started(store);
    const own = Object.assign(new Error("404"), { config: { auth: "secret" }, toJSON: () => ({ says: "not found" }) });
    const output = { tried: [new TypeError("no fetch"), Object.assign(new Error("gone"), { code: "ENOENT" })], own, at: new Date(0) };
    await run.recordToolResult({ toolCallId: "c", output });
    const expected = {
      tried: [{ name: "TypeError", message: "no fetch" }, { name: "Error", message: "gone", code: "ENOENT" }],
      own: { says: "not found" },
      at: "1970-01-01T00:00:00.000Z",
    };
    expect(await outputs(store, run)).toEqual([expected]);
    await run.describe({ metadata: { last: new RangeError("too far") } });
    expect((await store.runs.get(run.id))?.metadata).toEqual({ last: { name: "RangeError", message: "too far" } });
  });

  test("what has a form of its own is taken as that, in values and in arguments", async () => {
    const store = await fresh();
    const run = await started(store);
    class Usage {
      counts = new Map([["a", 1]]);
      toJSON(): object {
        return Object.fromEntries(this.counts);
      }
    }
    await run.recordToolResult({ toolCallId: "c", output: { usage: new Usage() } });
    expect(await outputs(store, run)).toEqual([{ usage: { a: 1 } }]);
    await run.describe({ metadata: { usage: new Usage(), at: new Date(0) } });
    expect((await store.runs.get(run.id))?.metadata).toEqual({ usage: { a: 1 }, at: "1970-01-01T00:00:00.000Z" });
    const lost = { toJSON: () => ({ deep: new Map() }) };
    await failure(run.describe({ metadata: { lost } }), "invalid_input");
  });

  test("what is nested deep, contains itself or is shared is written, or refused, as before", async () => {
    const run = await started(await fresh());
    const cycle: Record<string, unknown> = { a: [] };
    (cycle.a as unknown[]).push(cycle);
    expect((await failure(run.recordToolResult({ toolCallId: "c", output: cycle }), "invalid_input")).message).toContain("no JSON form");
    const shared = { empty: {}, none: [] };
    expect(RawJson.from([shared, shared]).text).toBe('[{"empty":{},"none":[]},{"empty":{},"none":[]}]');
    let deep: unknown = 1;
    for (let i = 0; i < 1_500; i += 1) deep = { deep };
    expect(RawJson.from(deep).text).toHaveLength(1_500 * '{"deep":}'.length + 1);
  });
});
