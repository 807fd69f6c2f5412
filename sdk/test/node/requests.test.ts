import { open } from "#runlog";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";
import { freshFolder } from "../places.node.js";
import { run, start } from "./child.js";

/** What a chat says, and how far its step came, after the process that wrote it is gone. */
async function left(path: string): Promise<{ says: unknown[]; step: string | undefined }> {
  const store = await open(path);
  const says = (await store.chats.getMessages("c")).map((message) => message.props["content"]);
  const { items } = await store.chats.listSteps({ chatId: "c" });
  await store.close();
  return { says, step: items[0]?.status };
}

async function signalled(path: string, how: string, signal: NodeJS.Signals) {
  const child = start("requests.mjs", [path, how]);
  while (!child.said().includes("ready")) await new Promise((resolve) => setTimeout(resolve, 10));
  child.process.kill(signal);
  return child.ended;
}

describe("a request that is open", () => {
  test("is written as interrupted when its store is closed", async () => {
    const path = await freshFolder();
    expect(await run("requests.mjs", [path, "close"])).toMatchObject({ code: 0, stderr: "" });
    expect(await left(path)).toEqual({ says: ["?", "half"], step: "interrupted" });
  });

  // More than once: what is left to a thread that nobody waits for is written now and then.
  test.each([1, 2, 3, 4])("is written when process.exit() ends the process (%i)", async () => {
    const path = await freshFolder();
    expect(await run("requests.mjs", [path, "exit"])).toMatchObject({ code: 7, stderr: "" });
    expect(await left(path)).toEqual({ says: ["?", "half"], step: "interrupted" });
  });

  test("says where a character is missing when process.exit() ends the process", async () => {
    const path = await freshFolder();
    expect(await run("requests.mjs", [path, "exit within a character"])).toMatchObject({ code: 7, stderr: "" });
    expect(await left(path)).toEqual({ says: ["?", "half\ufffd"], step: "interrupted" });
  });

  test("says where a character is missing when it is collected", async () => {
    const path = await freshFolder();
    const ended = await run("requests.mjs", [path, "collected within a character"], { node: ["--expose-gc"] });
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    expect((await left(path)).says).toEqual(["?", "!", "let go of \ufffd", "half"]);
  });

  test.each([
    ["SIGTERM", 143],
    ["SIGINT", 130],
  ] as const)("is written when %s ends the process", async (signal, code) => {
    const path = await freshFolder();
    expect(await signalled(path, "wait", signal)).toMatchObject({ code, stderr: "" });
    expect(await left(path)).toEqual({ says: ["?", "half"], step: "interrupted" });
  });

  test.each([
    ["streams", "SIGTERM", 143],
    ["flushes", "SIGTERM", 143],
    ["never pauses", "SIGINT", 130],
  ] as const)("is written when a signal ends a process that %s meanwhile, which says nothing of it", async (how, signal, code) => {
    const path = await freshFolder();
    expect(await signalled(path, how, signal)).toMatchObject({ code, stderr: "" });
    expect(await left(path)).toEqual({ says: ["?", "half"], step: "interrupted" });
  });

  test("is left to nobody unanswered when a signal ends a process that begins one after the other", async () => {
    for (let round = 0; round < 5; round++) {
      const path = await freshFolder();
      expect(await signalled(path, "begins others", "SIGTERM")).toMatchObject({ code: 143, stderr: "" });
      const store = await open(path, { mode: "readOnly" });
      expect((await store.chats.listRequests({ status: "running" })).items).toEqual([]);
      await store.close();
    }
  });

  test("that ends before Node hands over a signal doesn't keep the process from ending", async () => {
    const path = await freshFolder();
    const { code, signal, stderr } = await run("requests.mjs", [path, "ends it"]);
    // Handed over before the end is written, it ends the process after that, and behind it, at once.
    expect([{ code: 143, signal: null }, { code: null, signal: "SIGTERM" }]).toContainEqual({ code, signal });
    expect(stderr).toBe("");
    expect(await left(path)).toEqual({ says: ["?", "half"], step: "completed" });
  });

  test("is written when a signal ends a process that has the package as a module and in CommonJS", async () => {
    const path = await freshFolder();
    const child = start("requests.mjs", [path, "has the package twice"]);
    while (!child.said().includes("both")) await new Promise((resolve) => setTimeout(resolve, 10));
    child.process.kill("SIGTERM");
    expect(await child.ended).toMatchObject({ code: 143, stderr: "" });
    expect(await left(path)).toEqual({ says: ["?", "half"], step: "interrupted" });
    const beside = await open(`${path}-2`);
    expect(await beside.chats.listRequests()).toMatchObject({ items: [{ status: "interrupted" }] });
    await beside.close();
  });

  test.each(["listener", "once"])("is left to a listener of the program's own: %s", async (how) => {
    const path = await freshFolder();
    expect(await signalled(path, how, "SIGTERM")).toMatchObject({ code: 0, stderr: "" });
    expect(await left(path)).toEqual({ says: ["?", "half"], step: "completed" });
  });

  // Each of the two would wait for the other.
  test.each([
    ["signal-exit", "SIGTERM", 143],
    ["signal-exit-3", "SIGINT", 130],
  ] as const)("is written where %s is loaded, whose hooks are called", async (name, signal, code) => {
    const path = await freshFolder();
    const ended = await signalled(path, name, signal);
    expect(ended).toMatchObject({ code, stderr: "" });
    expect(ended.stdout).toContain("hooks");
    expect(await left(path)).toEqual({ says: ["?", "half"], step: "interrupted" });
  });

  test("is written when a signal ends a process whose listeners were all removed before it began", async () => {
    const path = await freshFolder();
    expect(await signalled(path, "listeners removed", "SIGTERM")).toMatchObject({ code: 143, stderr: "" });
    expect(await left(path)).toEqual({ says: ["?", "half"], step: "interrupted" });
    const store = await open(path, { mode: "readOnly" });
    expect((await store.chats.listRequests({ status: "running" })).items).toEqual([]);
    await store.close();
  });

  test("once it has ended, a signal does what it always does", async () => {
    const path = await freshFolder();
    const child = start("requests.mjs", [path, "ended"]);
    while (!child.said().includes("ready")) await new Promise((resolve) => setTimeout(resolve, 10));
    await new Promise((resolve) => setTimeout(resolve, 200));
    child.process.kill("SIGTERM");
    expect(await child.ended).toMatchObject({ signal: "SIGTERM" });
    expect(await left(path)).toEqual({ says: ["?", "half"], step: "completed" });
  });
});

test.each([
  ["twice", 0],
  ["exit", 0],
  ["signal", 143],
  ["throw", 1],
  ["refused", 143],
  ["collected, closes", 0],
  ["collected, closes and exits", 0],
  ["collected, exits", 0],
  ["collected, ends", 0],
  ["collected, signal", 143],
  ["collected just now, signal", 143],
  ["collected just now, exits", 0],
] as const)("requests that are open when a store is closed are written, though the process ends meanwhile: %s", async (how, code) => {
  const path = await freshFolder();
  const ended = await run("closing.mjs", [path, how], { node: ["--expose-gc"] });
  expect(ended.signal === "SIGTERM" ? 143 : ended.code).toBe(code);
  const store = await open(path);
  expect(await store.chats.countMessages("c", { role: "assistant" })).toBe(20);
  expect((await store.chats.getRequests("c")).map((request) => request.status)).toEqual(Array(20).fill("interrupted"));
  await store.close();
});

test("a store that can't be closed as a signal ends the process is told of there", async () => {
  expect(await run("unclosed.mjs", [])).toMatchObject({
    code: 143,
    stderr: "runlog: as a signal ended the process, a store could not be closed: the disk is full\n",
  });
});

test.each(["timers before", "timers between", "timers after", "clock before", "clock after"])("a program that makes up the time has its turns: %s it loads the package", async (how) => {
  const ended = await run("faked.mjs", [await freshFolder(), how], { node: ["--no-warnings"], seconds: 20 });
  expect(ended).toMatchObject({ code: 0, stderr: "", stdout: "over\n" });
});

test("a request whose end can't be written is let go of, and may be resumed or dismissed", async () => {
  const store = await open(await freshFolder());
  const { chatId } = await store.chats.create({ assistantId: "a" });
  const say = (text: string) => ({ messageId: "m1", role: "assistant", type: "text", props: { content: text } }) as const;
  const request = { assistantId: "a", requestId: "r1", message: { type: "text", props: { content: "?" } } };
  const work = store.chats.withRequest(chatId, request, async (it) => {
    await it.startStep("llm", {});
    await it.send(say("a"));
    await store.chats.delete(chatId);
  });
  await failure(work, "not_found");
  await store.chats.restore(chatId);
  // It is let go of by a thread of its own.
  const unattended = async () => (await store.chats.listRequests({ unattended: true })).items.map((it) => it.requestId);
  await expect.poll(unattended).toEqual(["r1"]);
  await store.chats.dismiss("r1");
  expect(await unattended()).toEqual([]);
  await store.close();
});

test("a request whose message's id is taken meanwhile ends as its work did, with a fresh one", async () => {
  const store = await open(await freshFolder());
  const { chatId } = await store.chats.create({ assistantId: "a" });
  const say = (text: string) => ({ messageId: "m1", role: "assistant", type: "text", props: { content: text } }) as const;
  const request = { assistantId: "a", requestId: "r1", message: { type: "text", props: { content: "?" } } };
  await store.chats.withRequest(chatId, request, async (it) => {
    await it.send(say("a"));
    await store.chats.saveMessages(chatId, [say("b")]);
  });
  expect((await store.chats.getRequest("r1"))?.status).toBe("completed");
  const said = (await store.chats.getMessages(chatId)).map(({ messageId, props }) => [messageId === "m1", props]);
  expect(said).toContainEqual([true, { content: "b" }]);
  expect(said).toContainEqual([false, { content: "a" }]);
  await store.close();
});

test("a request whose message's id is taken meanwhile is closed with a fresh one", async () => {
  const store = await open(await freshFolder());
  const { chatId } = await store.chats.create({ assistantId: "a" });
  const say = (text: string) => ({ messageId: "m1", role: "assistant", type: "text", props: { content: text } }) as const;
  const request = await store.chats.beginRequest(chatId, { assistantId: "a", message: { type: "text", props: { content: "?" } } });
  await request.send(say("a"));
  await store.chats.saveMessages(chatId, [say("b")]);
  await request.close();
  expect(await store.chats.getRequest(request.requestId)).toMatchObject({ status: "interrupted" });
  const said = await store.chats.getMessages(chatId, { role: "assistant" });
  expect(said.map(({ props }) => props["content"]).sort()).toEqual(["a", "b"]);
  await store.close();
});

test("withRequest ends a request as its work ended", async () => {
  const store = await open(await freshFolder());
  const { chatId } = await store.chats.create({ assistantId: "a" });
  const request = { assistantId: "a", message: { type: "text", props: { content: "?" } } };
  expect(await store.chats.withRequest(chatId, request, async (it) => it.startStep("llm", {}))).toBeTypeOf("string");
  const work = store.chats.withRequest(chatId, request, async (it) => {
    await it.startStep("llm", {});
    await it.send({ role: "assistant", type: "text", props: { content: "half" } });
    throw new Error("LLM timeout");
  });
  await expect(work).rejects.toThrow("LLM timeout");
  await expect(store.chats.withRequest(chatId, request, () => Promise.reject(new Error("at once")))).rejects.toThrow("at once");
  await store.chats.withRequest(chatId, request, (it) => it.finish({ failed: new TypeError("told") }));
  const steps = (await store.chats.listSteps({ chatId })).items.map((step) => [step.status, step.error]);
  expect(steps).toEqual([
    ["completed", undefined],
    ["failed", "LLM timeout"],
    ["failed", "at once"],
    ["failed", "told"],
  ]);
  await store.close();
});

test("what no provider takes is refused in the words of the argument", async () => {
  const store = await open(await freshFolder());
  const run = await store.runs.start({ session: {}, agentName: "coder" });
  const record = (message: unknown) => failure(run.recordMessage(message as { role: "user" }), "invalid_input");
  for (const [message, says] of [
    [{ role: "user" }, "the user message has no content"],
    [{ role: "user", content: undefined }, "`content` is undefined"],
    [{ role: "user", content: Number.NaN }, "`content` is NaN"],
    [{ role: "user", content: 3 }, "the content of the user message is 3"],
    [{ role: "user", content: Promise.resolve("x") }, "`content`: a promise was given; await it"],
    [{ role: "bot", content: "x" }, 'unknown role "bot"'],
    [{ id: "1", role: "user", parts: [{ type: "text", text: "x" }] }, "convertToModelMessages"],
    [{ role: "tool", tool_call_id: "nope", content: "x" }, 'no tool call "nope"'],
  ] as const) {
    expect((await record(message)).message).toContain(says);
  }
  const call = { role: "assistant", content: [{ type: "tool-call", toolCallId: "a", toolName: "ls", input: { path: "/" } }] };
  await run.recordMessage(call as never);
  for (const durationMs of [-5, Number.NaN]) {
    await failure(run.recordToolResult({ toolCallId: "a", output: "x", durationMs }), "invalid_input");
  }
  await run.recordToolResult({ toolCallId: "a", output: { files: 2 } });
  await failure(run.recordToolResult({ toolCallId: "a", output: "x" }), "already_exists");
  expect((await store.runs.toolCalls(run.id)).items.map((call) => [call.toolName, call.status, call.output()])).toEqual([
    ["ls", "completed", { files: 2 }],
  ]);
  await failure(store.runs.start({ instanceId: run.run.instanceId }), "wrong_status");
  await (await store.runs.start({ instanceId: run.run.instanceId, concurrent: true })).complete();
  await run.recordMessage({ ...call, content: [{ ...call.content[0], toolCallId: "b" }] } as never);
  await run.pause();

  const left = await store.runs.resume(run.id, { dangling: "report" });
  expect(left.messages).toHaveLength(3);
  await left.recorder.pause();
  const again = await store.runs.resume(left.run.id);
  const events = [];
  for await (const event of (await store.context(run.run.instanceId)).events()) events.push(event);
  expect(events.slice(-2).map((event) => [event.eventType, event.isContinuation])).toEqual([
    ["tool_result", false],
    ["user_message", true],
  ]);
  await again.recorder.pause();
  expect((await store.runs.resume(again.run.id, { message: null })).messages).toHaveLength(again.messages.length);
  await store.close();
});

test("an opening waits for the lock as long as it is told to", async () => {
  const path = await freshFolder();
  const first = await open(path);
  const locked = await failure(open(path), "locked");
  expect(locked.message).toMatch(/since 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC/);
  await failure(open(path, { lockTimeoutMs: 60 }), "locked");
  setTimeout(() => void first.close(), 100);
  const second = await open(path, { lockTimeoutMs: 10_000 });
  await second.close();
});
