import { inspect } from "node:util";

import { openInMemory } from "#runlog";
import { describe, expect, test } from "vitest";

describe("what is printed, or answered as JSON, shows what it holds:", () => {
  test("runs, messages, tool calls and events", async () => {
    const store = await openInMemory();
    const run = await store.runs.start({ session: { title: "x" }, agentName: "coder" });
    const call = { id: "c1", type: "function", function: { name: "read", arguments: '{"path":"a"}' } };
    await run.recordMessage({ role: "assistant", content: null, tool_calls: [call] });
    await run.recordToolResult({ toolCallId: "c1", status: "error", output: new TypeError("no such file") });
    expect(JSON.parse(JSON.stringify(run))).toMatchObject({ id: run.id, agentName: "coder", status: "running" });
    expect(inspect(run)).toMatch(/^RunRecorder \{[^]*status: 'running'/);

    const { items: messages } = await store.runs.messages(run.id);
    expect(JSON.parse(JSON.stringify(messages))[0]).toMatchObject({ role: "assistant", content: { tool_calls: [call] } });
    expect(inspect(messages)).toContain("no such file");

    const { items: calls } = await store.runs.toolCalls(run.id);
    const [shown] = JSON.parse(JSON.stringify(calls)) as Record<string, unknown>[];
    expect(shown).toMatchObject({ toolName: "read", input: { path: "a" }, status: "error" });
    expect(JSON.stringify(shown?.["output"])).toContain("no such file");

    const context = await store.context(run.run.instanceId);
    const events = await context.events().toArray();
    expect(JSON.stringify(events)).toContain("no such file");
    expect(inspect(events, { depth: 5 })).toMatch(/ContextEvent \{/);
    await store.close();
  });

  test("a promise in place of a value is told as one", async () => {
    const store = await openInMemory();
    const id = Promise.resolve("x");
    await expect(store.runs.get(id as never)).rejects.toMatchObject({
      code: "invalid_input",
      message: "`runId`: a promise was given; await it",
    });
    const run = await store.runs.start({ session: {}, agentName: "a" });
    await expect(run.recordMessage(Promise.resolve({ role: "user", content: "x" }) as never)).rejects.toMatchObject({
      message: "a promise was given; await it",
    });
    await store.close();
  });

  test("what is wrong with an argument is told of its field and its value", async () => {
    const store = await openInMemory();
    const says = (call: Promise<unknown>) => call.then(() => "nothing", (error: Error) => error.message);
    expect(await says(store.runs.get("junk"))).toBe('`runId`: "junk" is not an id (a UUID)');
    expect(await says(store.context(undefined as never))).toBe("`instanceId` is missing");
    expect(await says(store.flows.resume("junk"))).toBe('`runId`: "junk" is not an id (a UUID)');
    expect(await says(store.chats.getMessages(3 as never))).toBe("`chatId`: 3 is not a text");
    expect(await says(store.chats.updateStep(3 as never, {}))).toBe("`stepId`: 3 is not a text");
    expect(await says(store.chats.getStackPath(undefined as never))).toBe("`stackId` is missing");
    expect(await says(store.rootInstance("junk"))).toBe('`sessionId`: "junk" is not an id (a UUID)');
    expect(await says((await store.orchestrator()).cancel(undefined as never))).toBe("`runId` is missing");
    expect(await says(store.runs.list({ limit: -1 }))).toBe("`limit`: -1 is not a whole number, 0 or more");
    expect(await says(store.chats.list({ createdBy: "alice" } as never))).toMatch(/^`createdBy` is not a field .* `userId`/);
    const { chatId } = await store.chats.create({ assistantId: "a" });
    expect(await says(store.chats.getMessages(chatId, { thread: "t" } as never))).toMatch(/`thread` is not a field/);
    expect(await says(store.agents.put({ name: "a", maxStep: 3 } as never))).toMatch(/^`maxStep` is not a field/);
    await store.close();
  });

  test("a misspelt field of a run is told by its name, also where it leaves the run without a place", async () => {
    const store = await openInMemory();
    const says = (run: object) => store.runs.start(run as never).then(() => "nothing", (error: Error) => error.message);
    expect(await says({ session: {}, agent: "a" })).toMatch(/^`agent` is not a field that is known here; known are .*`agentName`.*`messages`$/);
    expect(await says({ session: {} })).toMatch(/^a run is started in an instance/);
    await store.close();
  });

  test("text, or nothing, in the place of an object is told as that", async () => {
    const store = await openInMemory();
    const says = (call: () => Promise<unknown>) => call().then(() => "nothing", (error: Error) => error.message);
    const { chatId } = await store.chats.create({ assistantId: "a" });
    const begin = (message: unknown) => says(() => store.chats.beginRequest(chatId, { assistantId: "a", message } as never));
    expect(await begin("hi")).toBe('`message` must be an object, not "hi"');
    expect(await begin(undefined)).toBe("a request needs a `message` of its user, or with `answers` the id of one that the chat has");
    expect(await begin(Promise.resolve({}))).toBe("`message` is a promise; await it");
    expect(await says(() => store.chats.create(undefined as never))).toBe("a chat must be an object, not undefined");
    expect(await says(() => store.agents.put("a" as never))).toBe('an agent must be an object, not "a"');
    const run = await store.runs.start({ session: {}, agentName: "a" });
    expect(await says(() => run.recordMessage(undefined as never))).toBe("a message must be an object, not undefined");
    expect(await says(() => store.orchestrator({ agents: { lead: 3 } } as never))).toBe("the work of lead must be a function, not 3");
    await store.close();
  });
});
