import { type MessageObject, RawJson } from "#runlog";
import { lastingPlace, places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

const CALL: MessageObject = {
  role: "assistant",
  content: null,
  tool_calls: [
    { id: "a", type: "function", function: { name: "ls", arguments: '{"path":"/"}' } },
    { id: "b", type: "function", function: { name: "cat", arguments: '{"file":"x"}' } },
  ],
};

describe.each(places)("runs $name", ({ fresh }) => {
  test("the items of an answer are recorded together, or none of them", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: { title: "t" }, agentName: "coder", messages: [{ role: "user", content: "q" }] });
    const items = [
      { type: "reasoning", id: "rs_1", summary: [] },
      { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "oslo" } },
      { type: "custom_tool_call", call_id: "c", name: "sql", input: "select 1" },
    ] as const;
    await failure(run.recordMessages([...items, { role: "user", content: "between" }]), "invalid_input");
    await failure(run.recordMessages([]), "invalid_input");
    await failure(run.recordMessages(items[0] as never), "invalid_input");
    const recorded = await run.recordMessages(items, { idempotencyKey: "k" });
    expect([recorded.sequenceNumber, recorded.lastSequence]).toEqual([2, 5]);
    expect((await run.recordMessages(items, { idempotencyKey: "k" })).repeated).toBe(true);
    await run.recordToolResult({ toolCallId: "c", output: "1 row" });
    const messages = await (await store.context(run.run.instanceId)).getMessages();
    expect(messages.slice(1)).toEqual([...items, { type: "custom_tool_call_output", call_id: "c", output: "1 row" }]);
  });

  test("a run that has ended is resumed where that is asked for", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder", messages: [{ role: "user", content: "fix it" }] });
    await run.complete("done");
    await failure(store.runs.resume(run.id), "wrong_status");
    const { recorder, messages } = await store.runs.resume(run.id, { ended: true });
    expect(messages).toHaveLength(2);
    expect(recorder.run).toMatchObject({ resumedFrom: run.id, status: "running" });
    expect(await recorder.pause()).toMatchObject({ stopKind: "requested" });
    expect(await store.runs.get(run.id)).toMatchObject({ status: "completed", resumedBy: recorder.id });
    const { items } = await store.runs.list();
    expect(items.map((it) => [it.id, it.resumedBy])).toEqual([
      [recorder.id, undefined],
      [run.id, recorder.id],
    ]);
  });

  test("a run is described at any time, and a resumed one goes on with its metadata", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder", metadata: { user_id: 7 } });
    expect(run.run.metadata).toEqual({ user_id: 7 });
    const usage = { input_tokens: 812, byModel: { "gpt-x": { cost: 0.5 } } };
    expect((await run.describe({ usage })).usage).toEqual(usage);
    const wrong = JSON.parse('{"usage":7}') as { usage: Record<string, unknown> };
    await failure(run.describe(wrong), "invalid_input");
    await failure(run.describe(JSON.parse('{"tokens":7}') as object), "invalid_input");
    await run.pause();
    const { recorder } = await store.runs.resume(run.id);
    expect([recorder.run.usage, recorder.run.metadata]).toEqual([undefined, { user_id: 7 }]);
    await recorder.complete();
    expect(await store.runs.describe(recorder.id, { metadata: ["late"] })).toMatchObject({ status: "completed" });
    const { items } = await store.runs.list();
    expect(items.map((it) => [it.usage, it.metadata])).toEqual([
      [undefined, ["late"]],
      [usage, { user_id: 7 }],
    ]);
    expect((await store.runs.describe(run.id, { metadata: null })).metadata).toBeUndefined();
    expect(await store.runs.describe(run.id, { usage: null })).not.toHaveProperty("usage");
  });

  test("a run is recorded as it happens, and looked back on", async () => {
    const store = await fresh();
    const run = await store.runs.start({
      session: { title: "Fix it", project: "parser" },
      agentName: "coder",
      maxSteps: 5,
      messages: [{ role: "system", content: "Be careful." }],
    });
    expect(run.run).toMatchObject({ agentName: "coder", status: "running", project: "parser", stepCount: 0, maxSteps: 5 });
    await run.recordMessage({ role: "user", content: "The parser drops the last line." });
    expect(await run.nextStep()).toBe(1);
    const recorded = await run.recordMessage(CALL);
    expect(recorded).toMatchObject({ stepNumber: 1, sequenceNumber: 3, lastSequence: 5, repeated: false });
    await run.recordToolResult({ toolCallId: "a", output: "parser.ts", durationMs: 12.4 });
    await run.recordToolResult({ toolCallId: "b", output: { error: "no such file" }, status: "error" });
    expect(await run.nextStep()).toBe(2);
    await run.recordMessage({ role: "assistant", content: "Done." });
    const ended = await run.complete("fixed");
    expect(ended).toMatchObject({ status: "completed", summary: "fixed", stepCount: 2 });
    expect(ended.completedAtMs).toBeGreaterThan(0);

    expect(await store.runs.get(run.id)).toEqual(ended);
    expect(await store.runs.get(store.newId())).toBeUndefined();
    const messages = await store.runs.messages(run.id);
    expect(messages.items.map((message) => [message.role, message.stepNumber])).toEqual([
      ["system", 0],
      ["user", 0],
      ["assistant", 1],
      ["tool", 1],
      ["tool", 1],
      ["assistant", 2],
    ]);
    expect(messages.items[2]?.json).toBe(JSON.stringify(CALL));
    expect((await store.runs.messages(run.id, { stepNumber: 2 })).items).toHaveLength(1);
    const one = await store.runs.message(run.id, messages.items[2]?.id as number);
    expect(one?.content()).toEqual(CALL);

    const calls = await store.runs.toolCalls(run.id);
    expect(calls.items.map((call) => [call.toolName, call.status, call.durationMs])).toEqual([
      ["ls", "completed", 12],
      ["cat", "error", undefined],
    ]);
    expect(calls.items[0]?.input()).toEqual({ path: "/" });
    expect(calls.items[0]?.output()).toBe("parser.ts");
    expect(calls.items[1]?.output()).toEqual({ error: "no such file" });
    expect(calls.items[0]?.messageId).toBe(messages.items[2]?.id);
    expect((await store.runs.toolCalls(run.id, { status: "error" })).items).toHaveLength(1);
    const call = await store.runs.toolCall(run.id, calls.items[1]?.id as number);
    expect(call?.inputJson).toBe('{"file":"x"}');
  });

  test("the work of a tool is recorded with what it gave, or threw, and how long it took", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    await run.recordMessage(CALL);
    expect(await run.tool("a", async () => ["parser.ts"])).toEqual(["parser.ts"]);
    const thrown = new TypeError("no such file");
    await expect(run.tool("b", () => { throw thrown; })).rejects.toBe(thrown);
    const calls = await store.runs.toolCalls(run.id);
    expect(calls.items.map((call) => [call.status, call.output()])).toEqual([
      ["completed", ["parser.ts"]],
      ["error", { name: "TypeError", message: "no such file" }],
    ]);
    expect(calls.items.every((call) => Number.isInteger(call.durationMs))).toBe(true);
    await failure(run.tool("a", () => 1), "already_exists");
    await failure(run.tool("c", 5 as never), "invalid_input");
    await failure(run.tool(5 as never, () => 1), "invalid_input");
    const last = await store.runs.messages(run.id, { newestFirst: true, limit: 1 });
    expect(last.items[0]?.role).toBe("tool");
  });

  test("the work of a tool isn't begun where its result couldn't be recorded", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    await run.recordMessage(CALL);
    let done = 0;
    const work = () => new Promise((resolve) => setTimeout(() => resolve(++done), 20));
    const [first, second] = await Promise.allSettled([run.tool("a", work), run.tool("a", work)]);
    expect(first.status).toBe("fulfilled");
    expect(second).toMatchObject({ reason: { code: "conflict" } });
    await failure(run.tool("a", work), "already_exists");
    await failure(run.tool("none", work), "invalid_input");
    const between = await failure(run.recordMessage({ role: "user", content: "And?" }), "invalid_input");
    expect(between.message).toContain("close them with the context's `closeDanglingToolCalls`");
    await run.pause();
    await failure(run.tool("b", work), "wrong_status");
    expect(done).toBe(1);
    // Calls without ids are named by their tools: of one that was asked twice both are done, also at once.
    const nameless = await store.runs.start({ session: {}, agentName: "coder" });
    const parts = [1, 2].map((n) => ({ functionCall: { name: "search", args: { n } } }));
    await nameless.recordMessage({ role: "model", parts });
    expect(await Promise.all([nameless.tool("search", work), nameless.tool("search", work)])).toHaveLength(2);
    await failure(nameless.tool("search", work), "invalid_input");
    expect(done).toBe(3);
  });

  test("a resume with an empty message is refused", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    await run.pause();
    expect((await failure(store.runs.resume(run.id, { message: "" }), "invalid_input")).message).toContain("give null for none");
    expect((await store.runs.resume(run.id, { message: null })).messages).toEqual([]);
  });

  test("a message, its calls and their results are one batch", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    await run.nextStep();
    const raw = RawJson.parse(JSON.stringify(CALL, null, 1));
    const recorded = await run.recordToolCall(raw, [
      { toolCallId: "a", output: "1", durationMs: 3 },
      { toolCallId: "b", output: [{ type: "text", text: "2" }] },
    ]);
    expect(recorded).toMatchObject({ sequenceNumber: 1, lastSequence: 5, stepNumber: 1 });
    const { items } = await store.runs.toolCalls(run.id);
    expect(items.map((item) => item.output())).toEqual(["1", [{ type: "text", text: "2" }]]);
    await failure(run.recordToolCall(CALL, [{ toolCallId: "zz", output: "" }]), "invalid_input");
  });

  test("results of several calls are one batch, also of calls without an id, which name their tool", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    await run.recordMessage(CALL);
    await failure(run.recordToolResults([]), "invalid_input");
    await failure(run.recordToolResults([{ toolCallId: "a", output: 1 }, { toolCallId: "zz", output: 2 }]), "invalid_input");
    await failure(run.recordToolResults([{ toolCallId: "a", output: 1 }, { toolCallId: "a", output: 2 }]), "already_exists");
    await failure(run.recordToolResults([{ toolCallId: "a", output: undefined }]), "invalid_input");
    await failure(run.recordToolResults({ toolCallId: "a", output: 1 } as never), "invalid_input");
    const recorded = await run.recordToolResults([
      { toolCallId: "b", output: "2", status: "error" },
      { toolCallId: "a", output: ["1"], durationMs: 3 },
    ]);
    expect(recorded.lastSequence - recorded.sequenceNumber).toBe(1);
    const listed = async () => (await store.runs.toolCalls(run.id)).items.map((item) => [item.status, item.output(), item.durationMs]);
    expect(await listed()).toEqual([["completed", ["1"], 3], ["error", "2", undefined]]);

    const ask = (name: string) => ({ functionCall: { name, args: {} } });
    await run.recordMessage({ role: "model", parts: [ask("ls"), ask("rm")] });
    await run.recordToolResults([{ toolCallId: "rm", output: "gone" }, { toolCallId: "ls", output: "a.txt" }]);
    expect((await listed()).slice(2)).toEqual([["completed", "a.txt", undefined], ["completed", "gone", undefined]]);
    const context = await store.context(run.run.instanceId);
    expect((await context.getMessages()).at(-1)).toEqual({
      role: "user",
      parts: [
        { functionResponse: { name: "rm", response: { output: "gone" } } },
        { functionResponse: { name: "ls", response: { output: "a.txt" } } },
      ],
    });
  });

  test("nothing gets into a run that has ended", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    const other = await store.runs.recorder(run.id);
    await run.cancel("nobody wants it");
    await failure(run.recordMessage({ role: "user", content: "late" }), "wrong_status");
    await failure(other.recordMessage({ role: "user", content: "late" }), "wrong_status");
    await failure(other.nextStep(), "wrong_status");
    expect((await other.refresh()).status).toBe("cancelled");
    expect((await store.runs.messages(run.id)).items).toEqual([]);
    const failed = await store.runs.start({ instanceId: run.run.instanceId });
    expect((await failed.fail(new TypeError("x is not a function"))).errorMessage).toBe("x is not a function");
  });

  test("a paused run is resumed with its context, its steps go on and its budget is fresh", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder", maxSteps: 2 });
    await run.recordMessage({ role: "user", content: "Go." });
    await run.nextStep();
    await run.recordMessage(CALL);
    await run.nextStep();
    const spent = await failure(run.nextStep(), "limit_reached");
    expect(spent.message).toContain("paused");
    expect(await store.runs.get(run.id)).toMatchObject({ status: "paused", pauseReason: "step budget spent" });
    expect(run.run).toMatchObject({ status: "paused", pauseReason: "step budget spent" });

    const resumed = await store.runs.resume(run.id, { message: "Now the tests.", maxSteps: 3 });
    expect(resumed.run).toMatchObject({ status: "running", resumedFrom: run.id, stepCount: 2, maxSteps: 3 });
    expect(resumed.dangling.map((call) => call.id)).toEqual(["a", "b"]);
    expect(resumed.messages.map((message) => message["role"])).toEqual(["user", "assistant", "tool", "tool", "user"]);
    expect(resumed.rawMessages[1]?.json).toBe(JSON.stringify(CALL));
    expect(resumed.messages.at(-1)).toEqual({ role: "user", content: "Now the tests." });
    expect(await resumed.recorder.nextStep()).toBe(3);
    expect(await store.runs.get(run.id)).toMatchObject({ status: "paused", resumedBy: resumed.run.id });
    await failure(store.runs.resume(run.id), "wrong_status");
    await resumed.recorder.complete();
    const error = await failure(store.runs.resume(resumed.run.id), "wrong_status");
    expect(error.message).toContain("only paused runs can be resumed");
  });

  test("the total of steps has a maximum", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    for (let step = 0; step < 3; step++) await run.nextStep();
    await run.pause();
    expect(await store.runs.get(run.id)).toMatchObject({ pauseReason: "requested", stepCount: 3 });
    await failure(store.runs.resume(run.id, { maxTotalSteps: 3 }), "limit_reached");
    const report = await store.runs.resume(run.id, { maxTotalSteps: 4, dangling: "report" });
    expect(report.messages.at(-1)).toMatchObject({ role: "user" });
  });

  test("runs are listed by filter, in pages with cursors", async () => {
    const store = await fresh();
    const parent = await store.runs.start({ session: { project: "p" }, agentName: "boss" });
    const { sessionId, instanceId } = parent.run;
    for (let index = 0; index < 5; index++) {
      const child = await store.runs.start({
        newInstance: { sessionId, agentName: "worker", parentInstanceId: instanceId },
        parentRunId: parent.id,
      });
      if (index % 2 === 0) await child.complete();
    }
    expect((await store.runs.list({ agentName: "worker" })).items).toHaveLength(5);
    expect((await store.runs.list({ status: "completed" })).items).toHaveLength(3);
    expect((await store.runs.list({ project: "p", sessionId })).items).toHaveLength(6);
    const first = await store.runs.children(parent.id, { limit: 3 });
    const second = await store.runs.children(parent.id, { limit: 3, cursor: first.next as string });
    expect(first.items).toHaveLength(3);
    expect(second.items).toHaveLength(2);
    expect(second.next).toBeUndefined();
    expect(first.items.every((item) => item.parentRunId === parent.id)).toBe(true);
    await failure(store.runs.list({ cursor: first.next as string }), "invalid_input");
    await failure(store.runs.children(store.newId()), "not_found");
    await failure(store.runs.start({ session: {} } as never), "invalid_input");
  });
});

describe("runs of a process that is gone", () => {
  test("are paused when the store is opened next, with their work intact", async () => {
    const place = await lastingPlace();
    const store = await place.open();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    await run.nextStep();
    await run.recordMessage({ role: "assistant", content: "Half way." });
    await store.close();
    const again = await place.open();
    const found = await again.runs.get(run.id);
    expect(found).toMatchObject({ status: "paused", stepCount: 1 });
    expect(found?.pauseReason).toContain("orphaned");
    const resumed = await again.runs.resume(run.id);
    expect(resumed.messages[0]).toEqual({ role: "assistant", content: "Half way." });
    expect(await again.runs.recover()).toEqual([]);
  });
});
