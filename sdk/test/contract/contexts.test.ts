import { type MessageObject, RawJson } from "#runlog";
import { places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

describe.each(places)("contexts $name", ({ fresh }) => {
  async function context() {
    const store = await fresh();
    const { session, instance } = await store.startSession({ title: "Trip" }, "planner");
    return { store, session, instance, context: await store.context(instance.id) };
  }

  test("a time after the year 9999 is refused, and the last one before it taken", async () => {
    const store = await fresh();
    const { instance } = await store.startSession({ title: "t" }, "planner");
    const context = await store.context(instance.id);
    const at = (createdAtMs: number) => context.appendMessage({ role: "user", content: "x" }, { event: { createdAtMs } });
    const last = Date.UTC(9999, 11, 31, 23, 59, 59, 999);
    expect((await failure(at(last + 1), "invalid_input")).message).toContain("after the year 9999");
    await at(last);
    expect((await context.getEvents())[0]?.createdAtMs).toBe(last);
    await failure(store.createSession({ createdAtMs: last + 1 }), "invalid_input");
  });

  test.each(["read", "written"])("others have their turn where what is %s again and again is answered at once", async (how) => {
    const { context: it } = await context();
    let fired = false;
    setTimeout(() => (fired = true), 1);
    let calls = 0;
    for (; !fired && calls < 100_000; calls++) await (how === "read" ? it.getMessages() : it.appendMessage({ role: "user", content: "x" }));
    expect(fired).toBe(true);
  });

  test("a message is kept byte for byte", async () => {
    const { context: it } = await context();
    const text = '{ "role":"user",\t"content":"h\\u00e9llo \\ud83d\\ude00", "score": 1.0, "big": 12345678901234567890 }';
    await it.appendMessage(RawJson.parse(text));
    await it.appendMessage(new TextEncoder().encode(text));
    await it.appendMessage({ role: "user", content: "héllo 😀" });
    const [raw, bytes, plain] = await it.getRawMessages();
    expect(raw?.json).toBe(text);
    expect(bytes?.json).toBe(text);
    expect(plain?.json).toBe('{"role":"user","content":"héllo 😀"}');
    expect(plain?.value()).toEqual({ role: "user", content: "héllo 😀" });
    expect(await it.getMessages()).toHaveLength(3);
  });

  test("what a model is sent is what was recorded, in order", async () => {
    const { context: it } = await context();
    const sent: MessageObject[] = [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Weather in Oslo?" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c1", type: "function", function: { name: "forecast", arguments: '{"city":"Oslo"}' } }],
      },
      { role: "tool", tool_call_id: "c1", content: "rain" },
      { role: "assistant", content: [{ type: "tool_use", id: "t1", name: "map", input: { zoom: 3 } }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "t1", content: "…" }] },
    ];
    for (const message of sent) await it.appendMessage(message);
    expect(await it.getMessages()).toEqual(sent);
    expect(await it.getLastSequence()).toBe(8);
    const events = await it.getEvents();
    expect(events.map((event) => event.eventType)).toEqual([
      "system_message",
      "user_message",
      "assistant_message",
      "tool_call",
      "tool_result",
      "assistant_message",
      "tool_call",
      "tool_result",
    ]);
    expect(events[3]?.content()).toEqual({ id: "c1", name: "forecast", arguments: '{"city":"Oslo"}' });
    expect(events[4]?.toolResults).toEqual([{ toolCallId: "c1", isError: false }]);
    expect((await it.getRawMessages(8)).map((message) => message.role)).toEqual(["tool"]);
    expect(await it.replayFromSequence(6)).toEqual(sent.slice(4));
    expect(await it.replayFromSequence(99)).toEqual([]);
  });

  test("appends that aren't awaited are done in the order of the calls", async () => {
    const { context: it } = await context();
    const results = await Promise.all(
      Array.from({ length: 500 }, (_, index) => it.appendMessage({ role: "user", content: `${index}` })),
    );
    expect(results.map((result) => result.firstSequence)).toEqual(Array.from({ length: 500 }, (_, index) => index + 1));
    const messages = await it.getMessages<{ content: string }>();
    expect(messages.map((message) => message.content)).toEqual(Array.from({ length: 500 }, (_, index) => `${index}`));
  });

  test("several messages are one atomic batch", async () => {
    const { context: it } = await context();
    const result = await it.appendMessages([
      { role: "user", content: "a" },
      { role: "assistant", content: "b" },
    ]);
    expect(result).toMatchObject({ firstSequence: 1, lastSequence: 2, repeated: false });
    const error = await failure(it.appendMessages([{ role: "user", content: "c" }, { role: "nobody" as "user" }]), "invalid_input");
    expect(error.message).toContain("message 2 of the batch");
    expect(await it.getLastSequence()).toBe(2);
  });

  test("an event is appended, and read by its sequence", async () => {
    const { context: it, instance } = await context();
    const event = await it.appendEvent("tool_call", { id: "c1", name: "ls", arguments: {} });
    expect(event).toMatchObject({ sequenceNumber: 1, eventType: "tool_call", toolCallId: "c1", instanceId: instance.id });
    const options = { toolCallId: "c1", event: { toolIsError: true, toolDurationMs: 7, createdAtMs: 1_700_000_000_000 } };
    await it.appendEvent("tool_result", { content: "no such folder" }, options);
    const found = await it.event(2);
    expect(found?.toolResults).toEqual([{ toolCallId: "c1", isError: true, durationMs: 7 }]);
    expect(found?.createdAtMs).toBe(1_700_000_000_000);
    expect(found?.json).toBe('{"content":"no such folder"}');
    expect(await it.event(3)).toBeUndefined();
    await failure(it.appendEvent("user_message", { role: "assistant", content: "" }), "invalid_input");
  });

  test("an expectation that is wrong is a conflict, and a key is used once", async () => {
    const { context: it } = await context();
    const message = { role: "user", content: "once" } as const;
    const first = await it.appendMessage(message, { expectedLastSequence: 0, idempotencyKey: "k1" });
    const again = await it.appendMessage(message, { expectedLastSequence: 0, idempotencyKey: "k1" });
    expect(again).toEqual({ ...first, repeated: true });
    await failure(it.appendMessage(message, { expectedLastSequence: 0 }), "conflict");
    expect(await it.getLastSequence()).toBe(1);
  });

  test("a context is copied, truncated, and goes on apart", async () => {
    const { context: it, session, store } = await context();
    for (const content of ["a", "b", "c"]) await it.appendMessage({ role: "user", content });
    const other = await store.createInstance({ sessionId: session.id, agentName: "copy" });
    expect(await it.copyToNewInstance(other.id, 2)).toBe(2);
    const copy = await store.context(other.id);
    expect(await copy.truncateAfterSequence(1)).toBe(1);
    await copy.appendMessage({ role: "user", content: "x" });
    const contents = async (of: typeof it) => (await of.getMessages<{ content: string }>()).map(({ content }) => content);
    expect(await contents(it)).toEqual(["a", "b", "c"]);
    expect(await contents(copy)).toEqual(["a", "x"]);
    await failure(it.copyToNewInstance(other.id), "already_exists");
    await failure(it.truncateAfterSequence(4), "invalid_input");
  });

  test("events are copied and deleted by the ids of their instances", async () => {
    const { context: it, session, store } = await context();
    for (const content of ["a", "b", "c"]) await it.appendMessage({ role: "user", content });
    const other = await store.createInstance({ sessionId: session.id, agentName: "copy" });
    expect(await store.contexts.copyEvents(it.instanceId, other.id)).toBe(await it.getLastSequence());
    expect(await store.contexts.deleteEventsAfter(it.instanceId, 1)).toBe(2);
    expect(await store.contexts.lastSequence(it.instanceId)).toBe(1);
    expect(await store.contexts.getEvents(other.id)).toHaveLength(3);
    await failure(store.contexts.deleteEventsAfter(it.instanceId, 4), "invalid_input");
    await failure(store.contexts.copyEvents(it.instanceId, store.newId()), "not_found");
  });

  test("calls without a result are found and closed", async () => {
    const { context: it } = await context();
    await it.appendMessage({
      role: "assistant",
      content: null,
      tool_calls: [{ id: "c1", type: "function", function: { name: "ls", arguments: "{}" } }],
    });
    expect(await it.danglingToolCalls()).toEqual([
      { id: "c1", name: "ls", arguments: "{}", sequenceNumber: 2, style: "openai" },
    ]);
    expect(await it.closeDanglingToolCalls("the process died")).toHaveLength(1);
    expect(await it.danglingToolCalls()).toEqual([]);
    expect((await it.getMessages()).at(-1)).toEqual({ role: "tool", tool_call_id: "c1", content: "the process died" });
  });

  test("many events come in pages, and a reader may stop anywhere", async () => {
    const { context: it } = await context();
    const content = "x".repeat(1000);
    for (let index = 0; index < 30; index++) {
      await it.appendMessages(Array.from({ length: 100 }, () => ({ role: "user", content })));
    }
    let pages = 0;
    let count = 0;
    for await (const page of it.events().pages()) {
      pages += 1;
      count += page.length;
    }
    expect(count).toBe(3000);
    expect(pages).toBeGreaterThan(2);
    let seen = 0;
    for await (const event of it.events({ from: 11 })) {
      expect(event.sequenceNumber).toBe(11 + seen);
      seen += 1;
      if (seen === 1500) break;
    }
    expect(seen).toBe(1500);
  });

  test("what comes is followed, without a gap or a repeat", async () => {
    const { context: it } = await context();
    await it.appendMessage({ role: "user", content: "0" });
    const stop = new AbortController();
    const seen: number[] = [];
    const following = (async () => {
      for await (const event of it.follow({ signal: stop.signal })) {
        seen.push(event.sequenceNumber);
        if (event.sequenceNumber === 50) stop.abort();
      }
    })();
    for (let index = 1; index < 50; index++) await it.appendMessage({ role: "user", content: `${index}` });
    await following;
    expect(seen).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
  });

  test("a follower is told of a truncation between its look at what it gave and its reading on", async () => {
    const { store, context: it } = await context();
    const say = (content: string) => it.appendMessage({ role: "user", content });
    for (const text of ["old1", "old2", "old3"]) await say(text);
    const contexts = Object.getPrototypeOf(store.contexts) as typeof store.contexts;
    const read = contexts.eventPage;
    let pages = 0;
    contexts.eventPage = async function (...args) {
      pages += 1;
      if (pages === 2) {
        await it.truncateAfterSequence(0);
        for (const text of ["new1", "new2", "new3", "new4"]) await say(text);
      }
      return read.apply(this, args);
    };
    const told: string[] = [];
    for await (const event of it.follow()) {
      told.push("position" in event ? event.content<{ content: string }>().content : `${event.eventType} ${event.sequenceNumber}`);
      if (told.length === 3) void say("old4");
      if (told.at(-1) === "new4" || told.length > 9) break;
    }
    contexts.eventPage = read;
    expect(told.slice(0, 4)).toEqual(["old1", "old2", "old3", "truncated 0"]);
    expect(told.filter((text) => text.startsWith("new"))).toEqual(["new1", "new2", "new3", "new4"]);
  });

  test("a follower is told what is taken back, and when nothing comes any more", async () => {
    const { store, context: it } = await context();
    const say = (content: string) => it.appendMessage({ role: "user", content });
    for (const word of ["one", "two", "three", "four"]) await say(word);
    const seen: string[] = [];
    let changed = () => {};
    const until = async (count: number) => {
      while (seen.length < count) await new Promise<void>((resolve) => (changed = resolve));
    };
    const following = (async () => {
      for await (const event of it.follow()) {
        const said = "position" in event ? event.content<{ content: string }>().content : event.eventType;
        seen.push(`${event.sequenceNumber}:${said}`);
        changed();
      }
    })();
    await until(4);
    await it.truncateAfterSequence(2);
    await say("THREE");
    await until(6);
    await say("FOUR");
    await until(7);
    // As long as before by the time that it looks.
    await it.truncateAfterSequence(0);
    await until(8);
    for (const word of ["a", "b"]) await say(word);
    await until(10);
    const { sessionId } = (await store.getInstance(it.instanceId)) ?? {};
    await store.deleteSession(sessionId as string);
    await following;
    expect(seen).toEqual([
      ...["1:one", "2:two", "3:three", "4:four", "2:truncated", "3:THREE", "4:FOUR", "0:truncated", "1:a", "2:b"],
      "2:deleted",
    ]);
  });

  test("what has no JSON form is refused before anything is written", async () => {
    const { context: it } = await context();
    const circular: Record<string, unknown> = { role: "user" };
    circular["content"] = circular;
    await failure(it.appendMessage(circular as { role: "user" }), "invalid_input");
    await failure(it.appendMessage({ role: "user", content: 1n }), "invalid_input");
    await failure(it.appendMessage(new TextEncoder().encode("{} {}")), "invalid_input");
    await failure(it.appendMessage(new Uint8Array([0xff])), "invalid_input");
    await failure(it.appendMessage(undefined as never), "invalid_input");
    await failure(it.appendMessage("hello" as never), "invalid_input");
    expect(() => RawJson.parse("{} {}")).toThrow("not valid JSON");
    expect(() => RawJson.parse('"\ud800"')).toThrow("surrogate");
    expect(await it.getLastSequence()).toBe(0);
  });

  test("there is no context of an instance that isn't there", async () => {
    const { store } = await context();
    await failure(store.context("0198c7e0-0000-7000-8000-000000000000"), "not_found");
    await failure(store.context("nobody"), "invalid_input");
    await failure(store.contexts.getEvents("0198c7e0-0000-7000-8000-000000000000"), "not_found");
  });
});
