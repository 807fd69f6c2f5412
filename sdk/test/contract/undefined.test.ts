import { places } from "#places";
import { describe, expect, test } from "vitest";

// A caller passes on what it perhaps has: `{ status: query.status }`. Undefined is the same as left out.

describe.each(places)("undefined $name", ({ fresh }) => {
  test("filters that are undefined let everything pass", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: { title: undefined, name: undefined }, agentName: "coder", maxSteps: undefined });
    const all = { status: undefined, agentName: undefined, project: undefined, limit: undefined, cursor: undefined };
    expect((await store.runs.list(all)).items.map((item) => item.id)).toEqual([run.id]);
    expect((await store.listSessions({ status: undefined, deleted: undefined, limit: undefined })).items).toHaveLength(1);
    expect((await store.agents.list({ project: undefined, visibility: undefined, cursor: undefined })).items).toEqual([]);
    expect(await store.streams.read(run.id, { first: undefined, last: undefined, kinds: undefined }).toArray()).not.toEqual([]);
  });

  test("a chat, its message and its steps get what the store gives", async () => {
    const { chats } = await fresh();
    const chat = await chats.create({ assistantId: "a", chatId: undefined, title: undefined, mode: undefined, status: undefined });
    expect(chat).toMatchObject({ mode: "chat", status: "active" });
    expect(chat.chatId).not.toBe("");
    const message = { role: undefined, type: "text", props: { content: "Hi." }, messageId: undefined, blockId: undefined };
    const request = await chats.beginRequest(chat.chatId, { assistantId: "a", requestId: undefined, stackId: undefined, message });
    await request.finish("completed");
    const all = { requestId: undefined, role: undefined, limit: undefined, offset: undefined };
    expect((await chats.getMessages(chat.chatId, all)).map((it) => it.role)).toEqual(["user"]);
    const [step] = await chats.saveSteps([
      { chatId: chat.chatId, requestId: "r", assistantId: "a", stackId: "s", type: "llm", status: "pending", stackDepth: undefined },
    ]);
    expect(step?.stackDepth).toBe(0);
    expect((await chats.updateStep(step?.stepId as string, { status: undefined, error: undefined })).status).toBe("pending");
    expect((await chats.list({ status: undefined, order: undefined, page: undefined, pageSize: undefined })).total).toBe(1);
  });

  test("a run is resumed as when nothing is said", async () => {
    const { runs } = await fresh();
    const run = await runs.start({ id: undefined, session: {}, agentName: "coder", messages: undefined });
    await run.recordMessage(
      { role: "assistant", content: null, tool_calls: [{ id: "c", type: "function", function: { name: "ls", arguments: "{}" } }] },
      { expectedLastSequence: undefined, idempotencyKey: undefined, durability: undefined, event: undefined },
    );
    await run.pause("looked at");
    const answer = [{ toolCallId: "c", output: "parser.ts", status: undefined, durationMs: undefined }];
    const options = { message: undefined, maxSteps: undefined, dangling: { answer }, id: undefined };
    const { recorder } = await runs.resume(run.id, options);
    const { items } = await runs.toolCalls(run.id, { toolName: undefined, status: undefined });
    expect(items.map((item) => [item.status, item.output()])).toEqual([["completed", "parser.ts"]]);
    await recorder.complete("done");

    const other = await runs.start({ session: {}, agentName: "coder" });
    await other.pause("at once");
    const { messages } = await runs.resume(other.id, { message: undefined, dangling: undefined });
    expect(messages).toMatchObject([{ role: "user", content: expect.stringContaining("Continue") }]);
  });
});
