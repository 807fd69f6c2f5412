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
    expect(JSON.parse(JSON.stringify(run))).toMatchObject({ id: run.id, agentId: "coder", status: "running" });
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
      message: "`run`: a promise was given; await it",
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
    expect(await says(store.runs.get("junk"))).toBe('`run`: "junk" is not an id (a UUID)');
    expect(await says(store.runs.list({ limit: -1 }))).toBe("`limit`: -1 is not a whole number, 0 or more");
    expect(await says(store.chats.list({ createdBy: "alice" } as never))).toMatch(/^`createdBy` is not a field .* `userId`/);
    const { chatId } = await store.chats.create({ assistantId: "a" });
    expect(await says(store.chats.getMessages(chatId, { thread: "t" } as never))).toMatch(/`thread` is not a field/);
    expect(await says(store.agents.put({ name: "a", maxStep: 3 } as never))).toMatch(/^`maxStep` is not a field/);
    await store.close();
  });
});
