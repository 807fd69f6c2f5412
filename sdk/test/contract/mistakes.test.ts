import { type AgentFunction, type MessageObject, RawJson, type RunRecorder, type Store } from "#runlog";
import { places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

// What callers get wrong, by accident: awaits that were forgotten, ends that aren't any, text that was cut within a character.

/** Text that was cut within an emoji, as by `text.slice(0, 200)`. */
const cut = "All is done 😀".slice(0, -1);
const mended = "All is done \ufffd";

const calling = (...ids: string[]): MessageObject => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "ls", arguments: "{}" } })),
});

const started = (store: Store): Promise<RunRecorder> => store.runs.start({ session: {}, agentName: "coder" });

async function ends(store: Store, work: AgentFunction): Promise<[string, string | undefined]> {
  await store.agents.put({ name: "a" });
  const orchestrator = await store.orchestrator({ agents: { a: work } });
  const { status, summary, error } = await (await orchestrator.start({ agentName: "a", task: "t" })).wait();
  return [status, summary ?? error];
}

describe.each(places)("mistakes $name", ({ fresh }) => {
  test("what isn't awaited is recorded in its order, and in its step", async () => {
    const store = await fresh();
    const run = await started(store);
    const say = (content: string) => run.recordMessage({ role: "assistant", content });
    await Promise.all([
      run.nextStep(),
      say("1"),
      run.recordMessage(calling("a")),
      run.recordToolResult({ toolCallId: "a", output: "x" }),
      run.nextStep(),
      say("2"),
      run.nextStep(),
      say("3"),
      run.complete("done"),
    ]);
    const { items } = await store.runs.messages(run.id);
    expect(items.map((message) => message.stepNumber)).toEqual([1, 1, 1, 2, 3]);
    expect((await store.runs.toolCalls(run.id)).items.map((call) => call.output())).toEqual(["x"]);
    expect(await store.runs.get(run.id)).toMatchObject({ status: "completed", stepCount: 3 });
  });

  test("sub-agents that a function doesn't await end with it, and it is told why", async () => {
    const store = await fresh();
    let refused: Promise<Error> | undefined;
    const ended = await ends(store, async (context) => {
      // The one below runs this function, too, and may do so until the store is closed. It doesn't end before the one above has.
      if (refused !== undefined) await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
      refused ??= failure(context.spawnAgents([{ agentName: "a", task: "below" }]), "wrong_status");
      return "early";
    });
    expect(ended).toEqual(["completed", "early"]);
    expect((await refused)?.message).toContain("its function returned before it had awaited them");
    expect((await store.runs.list()).items.map((run) => run.status)).not.toContain("running");
  });

  test("what is no end of a request doesn't end it", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "a" });
    const request = await chats.beginRequest(chatId, { assistantId: "a", message: { type: "text", props: { content: "q" } } });
    for (const [end, says] of [
      [new Error("rate limited"), "and an Error was given"],
      [Promise.resolve("completed"), "is a promise; await it"],
      [{}, "no error was given"],
      [new Map(), "and a Map was given"],
      [{ failed: Promise.reject(new Error("x")) }, "a promise was given; await it"],
      [{ failed: "x", faild: "y" }, '"faild" is not known'],
      [["completed"], "must be an object, not a list"],
      ["done", '"done" is not known'],
    ] as const) {
      if (typeof end === "object" && "failed" in end && end.failed instanceof Promise) end.failed.catch(() => {});
      expect((await failure(request.finish(end as never), "invalid_input")).message).toContain(says);
    }
    await request.finish({ failed: new Error("rate limited") });
    expect(await chats.getRequest(request.requestId)).toMatchObject({ status: "failed", error: "rate limited" });
  });

  test("why a run is paused, or failed, isn't lost", async () => {
    const run = await started(await fresh());
    expect((await failure(run.pause(new Error("overloaded") as never), "invalid_input")).message).toContain("an Error was given");
    expect((await failure(run.pause(Promise.resolve("x") as never), "invalid_input")).message).toContain("is a promise; await it");
    expect((await failure(run.fail(Promise.resolve("x")), "invalid_input")).message).toContain("a promise was given");
    expect(await run.fail(new Error(cut))).toMatchObject({ status: "failed", errorMessage: mended });
  });

  test("answers at a resume are kept, or refused, as those of a recorder", async () => {
    const store = await fresh();
    const run = await started(store);
    await run.recordMessage(calling("k1", "k2"));
    await run.pause();
    const answer = (outcomes: unknown) => store.runs.resume(run.id, { dangling: { answer: outcomes } } as never);
    await failure(answer([{ toolCallId: "k1" }]), "invalid_input");
    await failure(answer([{ toolCallId: "k1", output: { rows: Promise.resolve(1) } }]), "invalid_input");
    await failure(answer([{ toolCallId: "k1", output: Number.NaN }]), "invalid_input");
    await failure(answer("x"), "invalid_input");
    const message = { role: "user", content: "Go on." };
    expect((await failure(store.runs.resume(run.id, { message } as never), "invalid_input")).message).toContain("a whole message was given");
    await answer([{ toolCallId: "k1", output: new Error("payment declined"), status: "error" }]);
    const [first] = (await store.runs.toolCalls(run.id)).items;
    expect([first?.status, first?.output()]).toEqual(["error", { name: "Error", message: "payment declined" }]);
  });

  test("a tool's error is thrown on and recorded, whatever it has in it", async () => {
    const store = await fresh();
    const run = await started(store);
    const response: { request?: object } = {};
    response.request = { response };
    const errors = [
      Object.assign(new Error("cycle"), { response }),
      Object.assign(new Error("big"), { size: 1n }),
      Object.assign(new Error("map"), { headers: new Map() }),
      Object.defineProperty(new Error("getter"), "status", { enumerable: true, get: () => { throw new Error("no"); } }),
      Object.assign(new Error("nothing"), { toJSON: () => undefined }),
    ];
    await run.recordMessage(calling(...Array.from(errors.keys(), String)));
    for (const [id, error] of errors.entries()) {
      await expect(run.tool(String(id), () => { throw error; })).rejects.toBe(error);
    }
    const { items } = await store.runs.toolCalls(run.id);
    expect(items.map((call) => [call.status, call.output()])).toEqual(
      errors.map(({ message }) => ["error", { name: "Error", message }]),
    );
  });

  test("an agent that returns what is no end has failed, and says so", async () => {
    const store = await fresh();
    for (const [returned, says] of [
      [new Error("the build is broken"), "an Error, which is to be thrown: the build is broken"],
      [new Map([["summary", "x"]]), "but a Map"],
      [new Date(), "but a Date"],
      [/x/, "but a RegExp"],
      [{}, "but an object without fields"],
      [[], "but a list"],
      [5, "but 5"],
      [{ summary: 5 }, "neither text nor"],
      [{ sumary: "x" }, "neither text nor"],
    ] as const) {
      const [status, error] = await ends(store, (async () => returned) as never);
      expect([status, error]).toEqual(["failed", expect.stringContaining(says)]);
    }
    expect(await ends(store, (async () => ({ sumary: "x" })) as never)).toEqual(["failed", expect.stringMatching(/known are `summary`, `paused`$/)]);
    const generator = (async function* () { yield 1; }) as never;
    expect(await ends(store, generator)).toEqual(["failed", expect.stringContaining("whose body never ran")]);
    expect(await ends(store, async () => {})).toEqual(["completed", undefined]);
    expect(await ends(store, async () => ({ summary: undefined }))).toEqual(["completed", undefined]);
  });

  test("a request whose work throws what is no error has failed, and is let go of", async () => {
    const store = await fresh();
    const { chatId } = await store.chats.create({ assistantId: "a" });
    const message = { type: "text", props: { content: "?" } };
    const revoked = Proxy.revocable({}, {});
    revoked.revoke();
    for (const thrown of [undefined, null, Symbol("s"), revoked.proxy, Object.create(null), 10n]) {
      const requestId = store.newId();
      const work = store.chats.withRequest(chatId, { assistantId: "a", requestId, message }, async (request) => {
        await request.startStep("llm", {});
        throw thrown;
      });
      expect(await work.then(() => "returned", (error: unknown) => Object.is(error, thrown))).toBe(true);
      expect((await store.chats.getRequest(requestId))?.status).toBe("failed");
      expect((await store.chats.getSteps(requestId)).map(({ status }) => status)).toEqual(["failed"]);
    }
  });

  test("what a store couldn't be read without is not redacted", async () => {
    const store = await fresh();
    const run = await started(store);
    await run.recordMessage({ role: "user", content: "my PIN" });
    await run.complete();
    await store.agents.put({ name: "coder" });
    const copied = await store.chats.create({ assistantId: "a" });
    await store.copySession((await store.findSession(copied.chatId))?.id as string);
    let refused = 0;
    for await (const { position, kind } of store.read()) {
      const what = await store.redact(position, "asked for").then(() => "redacted", (error: { code: string }) => error.code);
      if (what !== "redacted") expect([kind, what]).toEqual([kind, "invalid_input"]);
      refused += what === "redacted" ? 0 : 1;
    }
    expect(refused).toBeGreaterThan(5);
    expect((await store.runs.get(run.id))?.status).toBe("completed");
    expect(JSON.stringify(await (await store.context(run.run.instanceId)).getMessages())).not.toContain("PIN");
    expect((await store.agents.list()).items).toHaveLength(1);
    expect((await store.runs.list()).items).toHaveLength(1);
  });

  test("half a surrogate pair in what is told of work doesn't lose the rest", async () => {
    const store = await fresh();
    expect(await ends(store, async () => cut)).toEqual(["completed", mended]);
    expect(await ends(store, async () => ({ summary: cut }))).toEqual(["completed", mended]);
    expect(await ends(store, async () => { throw new Error(cut); })).toEqual(["failed", mended]);

    await store.agents.put({ name: "w" });
    const tasks = [cut, "fine"];
    const lead: AgentFunction = async (context) => {
      const results = await context.spawnAgents(tasks.map((task) => ({ agentName: "w", task })));
      return results.map((result) => result.summary).join("; ");
    };
    await store.agents.put({ name: "lead" });
    const orchestrator = await store.orchestrator({ agents: { lead, w: async (context) => context.task } });
    expect((await (await orchestrator.start({ agentName: "lead", task: "t" })).wait()).summary).toBe(`${mended}; fine`);

    const { chatId } = await store.chats.create({ assistantId: "a" });
    const asked = { assistantId: "a", message: { type: "text", props: { content: "q" } } } as const;
    let requestId = "";
    const failed = store.chats.withRequest(chatId, asked, async (request) => {
      ({ requestId } = request);
      throw new Error(cut);
    });
    await expect(failed).rejects.toThrow(cut);
    expect(await store.chats.getRequest(requestId)).toMatchObject({ status: "failed", error: mended });

    const request = await store.chats.beginRequest(chatId, asked);
    const id = await request.send({ role: "assistant", type: "text", props: { content: "" } });
    for (const unit of "Hi 😀!".split("")) await request.append(id, unit);
    const other = await request.send({ role: "assistant", type: "text", props: { content: "" } });
    await request.append(other, "x\ud83d");
    const begun = await request.send({ role: "assistant", type: "text", props: { content: "a\ud83d" } });
    await request.append(begun, "\ude00b");
    await request.replace(begun, { content: "b\ud83d" });
    await request.append(begun, "\ude00c");
    await request.send({ role: "assistant", type: "text", props: { content: "y\ud83d" } });
    await request.finish("completed");
    const messages = await store.chats.getMessages(chatId, { requestId: request.requestId, role: "assistant" });
    expect(messages.map((message) => message.props.content)).toEqual(["Hi 😀!", "x\ufffd", "b😀c", "y\ufffd"]);

    // What a half was for is gone: nothing is added to what came instead, and the request ends.
    const third = await store.chats.beginRequest(chatId, asked);
    const replaced = await third.send({ role: "assistant", type: "text", props: { content: "" } });
    await third.append(replaced, "half \ud83d");
    await third.replace(replaced, { content: "Whole." });
    await failure(third.append("nope", "x\ud83d"), "not_found");
    await third.finish("completed");
    const whole = await store.chats.getMessages(chatId, { requestId: third.requestId, role: "assistant" });
    expect(whole.map((message) => message.props.content)).toEqual(["Whole."]);

    // Nothing is awaited, and what was refused has taken no half away.
    const fourth = await store.chats.beginRequest(chatId, asked);
    const text = (messageId: string, content: string) => ({ messageId, role: "assistant", type: "text", props: { content } }) as const;
    const called = [fourth.send(text("m1", "x\ud83d")), fourth.append("m1", "\ude00y\ud83d")];
    called.push(fourth.replace("m1", { content: "z\ud83d" }), fourth.append("m1", "\ude00"), fourth.append("m1", "\ud83d"));
    const refused = [failure(fourth.replace("m1", "no object" as never), "invalid_input"), failure(fourth.send(text("m1", "w\ud83d")), "already_exists")];
    called.push(fourth.append("m1", "\ude00"), fourth.append("m1", "!\ud83d"));
    // The end is called before what is called after it.
    called.push(fourth.finish("completed"));
    const late = failure(fourth.append("m1", "\ude00"), "invalid_input");
    const seen = store.chats.updateMessage("m1", { metadata: { seen: true } });
    called.push(fourth.close());
    await Promise.all([...called, ...refused, late, seen]);
    expect(await store.chats.getRequest(fourth.requestId)).toMatchObject({ status: "completed" });
    const said = await store.chats.getMessages(chatId, { requestId: fourth.requestId, role: "assistant" });
    expect(said).toMatchObject([{ messageId: "m1", props: { content: "z😀😀!\ufffd" }, metadata: { seen: true } }]);

    // Two ends that are both refused leave it to be ended.
    const { chatId: gone } = await store.chats.create({ assistantId: "a" });
    const fifth = await store.chats.beginRequest(gone, asked);
    await fifth.send(text("m2", "A"));
    await store.chats.delete(gone);
    const twice = await Promise.allSettled([1, 2].map(() => fifth.finish("completed")));
    expect(twice.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(fifth.hasEnded).toBe(false);
    await store.chats.restore(gone);
    await fifth.close();
    expect(await store.chats.getRequest(fifth.requestId)).toMatchObject({ status: "interrupted" });
    expect(await store.chats.countMessages(gone)).toBe(2);

    // The event loop has its turn after 50 ms, and the place is that of the core nevertheless.
    const sixth = await store.chats.beginRequest(chatId, asked);
    const root = sixth.stackId;
    for (const begun = performance.now(); performance.now() - begun < 60; ) await sixth.space.get("k");
    const left = sixth.space.get("k").then(() => sixth.leave());
    await Promise.all([sixth.enter("b"), left]);
    expect([sixth.stackId, sixth.assistantId]).toEqual([root, "a"]);
    await sixth.close();

    const flow = await store.flows.create();
    // Raw JSON may have whole pairs as escapes, as Python writes them.
    const event = { type: "agent:text:delta", nodeId: "n", runId: "r", timestamp: 1 };
    const pairs = JSON.stringify({ ...event, content: "!" }).replace("!", "\\ud83d\\ude00 \\uD83D\\uDE00 \\\\ud83d");
    await flow.record(RawJson.parse(pairs));
    const [first] = await (await store.flows.playback(flow.runId, { speed: Infinity })).events().toArray();
    expect(JSON.stringify(first)).toContain("😀 😀 \\\\ud83d");
    await flow.record({ type: "agent:text:delta", nodeId: "n", runId: "r", timestamp: 1, content: `\\ud83d ${cut}` });
    await flow.finishNode("n", { text: cut });
    expect(flow.state.outputs.n).toEqual({ text: mended });
    const playback = await store.flows.playback(flow.runId, { speed: Infinity });
    expect(JSON.stringify(await playback.events().toArray())).toContain(JSON.stringify(`\\ud83d ${mended}`).slice(1, -1));
  });

  test("a flow whose state was set to nothing says so", async () => {
    const flow = await (await fresh()).flows.create();
    flow.state = undefined as never;
    await failure(flow.saveSnapshot(), "invalid_input");
    await failure(flow.command({ type: "send", runId: flow.runId, message: "x" } as never), "invalid_input");
    await failure(flow.takeInbox(), "invalid_input");
  });

  test("a durability that isn't one is told with its place", async () => {
    const store = await fresh();
    const context = await store.context((await started(store)).run.instanceId);
    const told = async (durability: unknown) => {
      const options = { durability: durability as "os" };
      return (await failure(context.appendMessages([{ role: "user", content: "Oslo?" }], options), "invalid_input")).message;
    };
    const wanted = 'is not "sync", "os", or an object with `intervalMs`';
    expect(await told("never")).toBe(`\`options.durability\`: "never" ${wanted}`);
    expect(await told(7)).toBe(`\`options.durability\`: 7 ${wanted}`);
    expect(await told({ intervalMs: -1 })).toBe("`options.durability.intervalMs`: -1 is not a whole number, 0 or more");
    expect(await told({ interval: 5 })).toContain("`options.durability`: `interval` is not a field that is known here");
  });

  test("a promise that nobody awaited is told as one", async () => {
    const store = await fresh();
    const forgotten = Promise.resolve(new Uint8Array()) as never;
    const run = await started(store);
    const calls = [
      () => store.import(forgotten),
      () => store.streams.commit(forgotten),
      () => store.runs.start(forgotten),
      () => store.retain(forgotten),
      () => run.complete(forgotten),
      () => run.recordToolResults(forgotten),
    ];
    for (const call of calls) expect((await failure(call(), "invalid_input")).message).toMatch(/a promise.*; await it/);
  });

  test("a BigInt is told by its field", async () => {
    const store = await fresh();
    const run = await started(store);
    const told = async (call: Promise<unknown>) => (await failure(call, "invalid_input")).message;
    const wanted = "is a BigInt, which JSON has no form for; give a number, or its text";
    expect(await told(run.recordMessage({ role: "user", content: [{ type: "text", of: 1n }] as never }))).toBe(`\`content[0].of\` ${wanted}`);
    expect(await told(run.describe({ usage: { cost: { all: 1n } } as never }))).toBe(`\`usage.cost.all\` ${wanted}`);
    expect(await told(store.runs.start({ session: {}, agentName: "a", metadata: { ticket: 7n } as never }))).toBe(`\`metadata.ticket\` ${wanted}`);
    expect(await told(run.recordMessage(1n as never))).toBe(`the value ${wanted}`);
  });

  test("how a run ended is told by the field that it is given as", async () => {
    const run = await started(await fresh());
    for (const call of [run.complete({ summary: "x" } as never), run.cancel({ summary: "x" } as never)]) {
      expect((await failure(call, "invalid_input")).message).toBe('`summary`: {"summary":"x"} is not a text');
    }
    expect((await run.refresh()).status).toBe("running");
  });

  test("options that have no fields are refused", async () => {
    const store = await fresh();
    await failure(store.runs.start({ session: new Map(), agentName: "a" } as never), "invalid_input");
    await failure(store.runs.list(Promise.resolve({}) as never), "invalid_input");
    await failure(store.listSessions(new Map() as never), "invalid_input");
    const run = await started(store);
    const getter = Object.defineProperty({ role: "user" }, "content", { enumerable: true, get: () => { throw new Error("no"); } });
    await failure(run.recordMessage(getter as never), "invalid_input");
    const project = Object.defineProperty({}, "project", { enumerable: true, get: () => { throw new Error("no"); } });
    for (const call of [store.agents.get("a", project), store.agents.delete("a", project), store.agents.update("a", {}, project)]) await failure(call, "invalid_input");
    await failure(store.agents.get("a", { name: "b" } as never), "invalid_input");
  });
});
