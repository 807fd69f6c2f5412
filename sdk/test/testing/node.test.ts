import type { AgentEvent, RuntimeEvent, Store } from "#runlog";
import { lastingPlace, places } from "#places";
import { getEventListeners } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

import { ClaudeNodeError, type QueryFn, type QueryMessage, createClaudeNode, createMockQuery, loadFixtures } from "../../src/testing/index.js";
import { failure } from "../code.js";
import { all, assistant, init, streamed, success, telling, toolResult } from "./claude.js";

const folder = fileURLToPath(new URL("./fixtures/recordings/workflow-abc/", import.meta.url));

async function eventsOf(store: Store, runId: string): Promise<RuntimeEvent[]> {
  const playback = await store.flows.playback(runId, { speed: Infinity });
  return (await playback.events().toArray()).map(({ event }) => event);
}

const timeless = (events: RuntimeEvent[]) => events.map(({ timestamp: _, ...event }) => event);
const now = () => 1_700_000_000_000;

describe.each(places)("createClaudeNode $name", ({ fresh }) => {
  test("takes a mock query in the place of the real one", async () => {
    const store = await fresh();
    const mockQuery = createMockQuery({
      fixtures: loadFixtures(folder),
    });
    const claudeNode = createClaudeNode({ queryFn: mockQuery, now });
    const flow = await store.flows.create();
    const done = await claudeNode.run(flow, { nodeId: "task-agent", prompt: "Analyze the task list..." });
    expect(done).toEqual({
      text: "I've analyzed the tasks...",
      sessionId: "sess-fixture-1",
      usage: { inputTokens: 150, outputTokens: 200 },
      durationMs: 1234,
      numTurns: 1,
    });
    const base = { nodeId: "task-agent", runId: flow.runId, timestamp: now() };
    expect(await eventsOf(store, flow.runId)).toEqual([
      { ...base, type: "agent:start", sessionId: "sess-fixture-1", prompt: "Analyze the task list..." },
      { ...base, type: "agent:text", content: "I've analyzed..." },
      {
        ...base,
        type: "agent:complete",
        result: "...",
        usage: { inputTokens: 150, outputTokens: 200 },
        durationMs: 1234,
        numTurns: 1,
      },
    ]);
    expect(flow.state).toMatchObject({
      nodeStatus: { "task-agent": "done" },
      outputs: { "task-agent": "I've analyzed the tasks..." },
      agentSessions: { "task-agent": "sess-fixture-1" },
    });
  });

  test("records the eight events of an agent as they are typed", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const queryFn = telling(
      [
        init("sess-1"),
        ...streamed({ type: "thinking", thinking: "Let me analyze..." }, { type: "text", text: "I'll start by..." }),
        assistant({ type: "thinking", thinking: "Hm." }, { type: "text", text: "Reading." }),
        assistant({ type: "tool_use", id: "t1", name: "read_file", input: { path: "a" } }),
        assistant({ type: "tool_use", id: "t2", name: "write_file", input: {} }),
        toolResult("t2", [{ type: "text", text: "denied" }], true),
        toolResult("t1", "A"),
        { ...assistant({ type: "text", text: "Too fast." }), error: "rate_limit" } as QueryMessage,
        success("I've updated...", { structured_output: { ok: true } }),
      ],
    );
    const done = await createClaudeNode({ queryFn, now }).run(flow, {
      nodeId: "task-agent",
      prompt: [{ role: "user", content: "Do it." }],
      runId: "r1",
      options: { maxTurns: 10 },
    });
    expect(done).toMatchObject({ text: "I've updated...", structuredOutput: { ok: true }, totalCostUsd: 0.25, numTurns: 3 });
    expect(flow.state.outputs).toEqual({ "task-agent": { ok: true } });
    expect(queryFn.called[0]?.options["maxTurns"]).toBe(10);
    const messages = await all(queryFn.called[0]?.prompt as AsyncIterable<unknown>);
    expect(messages).toMatchObject([{ type: "user", message: { role: "user", content: "Do it." } }]);

    const base = { nodeId: "task-agent", runId: "r1", timestamp: now() };
    const expected: AgentEvent[] = [
      { ...base, type: "agent:start", sessionId: "sess-1", model: "claude-x", prompt: [{ role: "user", content: "Do it." }] },
      { ...base, type: "agent:thinking:delta", content: "Let " },
      { ...base, type: "agent:thinking:delta", content: "me " },
      { ...base, type: "agent:thinking:delta", content: "analyze..." },
      { ...base, type: "agent:text:delta", content: "I'll " },
      { ...base, type: "agent:text:delta", content: "start " },
      { ...base, type: "agent:text:delta", content: "by..." },
      { ...base, type: "agent:thinking", content: "Hm." },
      { ...base, type: "agent:text", content: "Reading." },
      {
        ...base,
        type: "agent:tool",
        toolName: "write_file",
        toolInput: {},
        toolOutput: [{ type: "text", text: "denied" }],
        durationMs: 0,
        error: "denied",
      },
      { ...base, type: "agent:tool", toolName: "read_file", toolInput: { path: "a" }, toolOutput: "A", durationMs: 0 },
      { ...base, type: "agent:text", content: "Too fast." },
      { ...base, type: "agent:error", errorType: "rate_limit", message: "Too fast." },
      {
        ...base,
        type: "agent:complete",
        result: "I've updated...",
        usage: { inputTokens: 10, outputTokens: 20, cacheReadInputTokens: 5 },
        modelUsage: { "claude-x": { inputTokens: 10, outputTokens: 20 } },
        structuredOutput: { ok: true },
        totalCostUsd: 0.25,
        durationMs: 4523,
        numTurns: 3,
      },
    ];
    expect(await eventsOf(store, flow.runId)).toEqual(expected);
  });

  test("of a block that says more than what streamed the rest is recorded, and one that says something else is whole", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const blocks = (first: string, second: string) => [{ type: "text" as const, text: first }, { type: "text" as const, text: second }] as const;
    const streaming = streamed(...blocks("One ", "two "));
    const pieces = streaming.slice(0, -1);
    const whole = streaming.at(-1) as ReturnType<typeof assistant>;
    const told = (content: readonly object[]) => ({ ...whole, message: { ...whole.message, content } });
    const queryFn = telling(
      [...pieces, told(blocks("One ", "two three.")), success("done")],
      [...pieces, told(blocks("One ", "another.")), success("done")],
      [...pieces, told([{ type: "text", text: "One " }]), told([{ type: "text", text: "two " }]), success("done")],
    );
    const node = createClaudeNode({ queryFn });
    for (const nodeId of ["more", "other", "apart"]) await node.run(flow, { nodeId, prompt: "x" });
    const said = (await eventsOf(store, flow.runId)).flatMap((event) =>
      event.type === "agent:text" || event.type === "agent:text:delta" ? [[event.nodeId, event.type.slice("agent:".length), event.content]] : [],
    );
    const deltas = (node: string) => [[node, "text:delta", "One "], [node, "text:delta", "two "]];
    expect(said).toEqual([
      ...deltas("more"),
      ["more", "text:delta", "three."],
      ...deltas("other"),
      ["other", "text", "another."],
      ...deltas("apart"),
    ]);
  });

  test("saves the session before the agent is called", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    let saved: unknown;
    let asked: unknown;
    const queryFn: QueryFn = async function* ({ options }) {
      asked = (options as { sessionId?: string }).sessionId;
      const { snapshot } = await store.flows.playback(flow.runId);
      saved = [snapshot?.nodeStatus, snapshot?.agentSessions];
      yield success("x");
    };
    const { sessionId } = await createClaudeNode({ queryFn }).run(flow, { nodeId: "plan", prompt: "Plan." });
    expect(sessionId).toMatch(/^[0-9a-f-]{36}$/);
    expect(asked).toBe(sessionId);
    expect(saved).toEqual([{ plan: "running" }, { plan: sessionId }]);
  });

  test("an agent that fails leaves an agent:error, and its node failed", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const failing = async (nodeId: string, queryFn: QueryFn) => {
      const error = await createClaudeNode({ queryFn })
        .run(flow, { nodeId, prompt: "x" })
        .catch((error: unknown) => error);
      expect(error).toBeInstanceOf(ClaudeNodeError);
      expect(flow.state.nodeStatus[nodeId]).toBe("failed");
      return error as ClaudeNodeError;
    };
    const turns = await failing("a", telling([init("s1"), { type: "result", subtype: "error_max_turns", errors: ["10 turns"] } as never]));
    expect(turns).toMatchObject({ errorType: "error_max_turns", nodeId: "a", sessionId: "s1" });
    expect(turns.message).toContain("10 turns");
    const cause = Object.assign(new TypeError("fetch failed"), { code: "ECONNRESET" });
    const thrown = await failing("b", () => {
      throw cause;
    });
    expect(thrown).toMatchObject({ errorType: "network_error", cause });
    expect(await failing("c", telling([assistant({ type: "tool_use", id: "t", name: "ls", input: {} })]))).toMatchObject({
      errorType: "error_during_execution",
    });
    const recorded = await failing("verifier-agent", createMockQuery({ fixtures: loadFixtures(folder) }));
    expect(recorded).toMatchObject({ errorType: "error_max_turns" });
    expect(timeless(await eventsOf(store, flow.runId)).map(({ type, nodeId }) => `${nodeId} ${type}`)).toEqual([
      "a agent:start",
      "a agent:error",
      "b agent:start",
      "b agent:error",
      "c agent:start",
      "c agent:tool",
      "c agent:error",
      "verifier-agent agent:start",
      "verifier-agent agent:error",
    ]);
  });

  test("an error that is told with an answer and again with the result is one, of the kind that was told first", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const said = "Not logged in · Please run /login";
    const answer = { ...assistant({ type: "text", text: said }), error: "authentication_failed" } as QueryMessage;
    const queryFn = telling([init("s1"), answer, success(said, { is_error: true })]);
    const failed = createClaudeNode({ queryFn, now }).run(flow, { nodeId: "plan", prompt: "Plan." });
    await expect(failed).rejects.toMatchObject({ errorType: "authentication_failed", message: expect.stringContaining(said) });
    const errors = (await eventsOf(store, flow.runId)).filter(({ type }) => type === "agent:error");
    expect(errors).toMatchObject([{ errorType: "authentication_failed", message: said }]);
  });

  test("an error that another answer followed isn't what the agent failed of later", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const busy = { ...assistant({ type: "text", text: "Too fast." }), error: "rate_limit" } as QueryMessage;
    const queryFn = telling([init("s1"), busy, assistant({ type: "text", text: "Again." })]);
    const failed = createClaudeNode({ queryFn, now }).run(flow, { nodeId: "plan", prompt: "Plan." });
    await expect(failed).rejects.toMatchObject({ errorType: "error_during_execution" });
  });

  test("a signal of many nodes keeps nothing of those that are over", async () => {
    const store = await (places[0] as (typeof places)[0]).fresh();
    const flow = await store.flows.create();
    const { signal } = new AbortController();
    for (const nodeId of ["one", "two"]) {
      await createClaudeNode({ queryFn: telling([success("Done.")]) }).run(flow, { nodeId, prompt: "x", signal });
    }
    const failing = createClaudeNode({ queryFn: telling([{ type: "result", subtype: "error_max_turns" } as never]) });
    await expect(failing.run(flow, { nodeId: "three", prompt: "x", signal })).rejects.toThrow("error_max_turns");
    expect(getEventListeners(signal, "abort")).toEqual([]);
  });

  test("a signal stops the agent, also one that doesn't heed it, and the node can be resumed", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const stop = new AbortController();
    let seen: AbortSignal | undefined;
    const queryFn: QueryFn = async function* ({ options }) {
      seen = (options as { abortController: AbortController }).abortController.signal;
      yield init("sess-9");
      yield assistant({ type: "text", text: "Working" });
      setTimeout(() => stop.abort(), 5);
      await new Promise(() => {});
    };
    const running = createClaudeNode({ queryFn }).run(flow, { nodeId: "plan", prompt: "x", signal: stop.signal });
    await failure(running, "aborted");
    expect(seen?.aborted).toBe(true);
    const { resumed } = await store.flows.resume(flow.runId, "Go on, please.");
    expect(resumed.running).toEqual([{ nodeId: "plan", sessionId: "sess-9", prompt: "Go on, please." }]);
    const none = telling();
    await failure(createClaudeNode({ queryFn: none }).run(flow, { nodeId: "b", prompt: "x", signal: stop.signal }), "aborted");
    expect(none.called).toEqual([]);
  });

  test("nodes of one flow work at the same time, each with its own session", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const nodes = Array.from({ length: 20 }, (_, index) => `n${index}`);
    const runs = nodes.map((nodeId) => {
      const queryFn = telling([init(`s-${nodeId}`), ...streamed({ type: "text", text: "one two three" }), success(nodeId)]);
      return createClaudeNode({ queryFn }).run(flow, { nodeId, prompt: nodeId });
    });
    await Promise.all(runs);
    const { snapshot } = await store.flows.playback(flow.runId);
    expect(snapshot?.agentSessions).toEqual(Object.fromEntries(nodes.map((nodeId) => [nodeId, `s-${nodeId}`])));
    expect(snapshot?.outputs).toEqual(Object.fromEntries(nodes.map((nodeId) => [nodeId, nodeId])));
    const events = timeless(await eventsOf(store, flow.runId)).filter(({ nodeId }) => nodeId === "n7");
    expect(events.map(({ type }) => type)).toEqual(["agent:start", "agent:text:delta", "agent:text:delta", "agent:text:delta", "agent:complete"]);
  });

  test("messages that are sent to the run are given to the agent while it works, where that is asked for", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const heard: unknown[] = [];
    const queryFn: QueryFn = async function* ({ prompt }) {
      for await (const message of prompt as AsyncIterable<{ message: { content: unknown } }>) {
        heard.push(message.message.content);
        if (heard.length === 1) {
          await flow.command({ type: "send", runId: "another", message: "not for it" });
          await flow.command({ type: "send", runId: "r1", message: "Hurry!" });
        }
        if (heard.length === 2) yield success("Hurried.");
      }
    };
    const input = { nodeId: "a", prompt: "Do it.", runId: "r1", inject: true };
    const { text } = await createClaudeNode({ queryFn }).run(flow, input);
    expect(text).toBe("Hurried.");
    expect(heard).toEqual(["Do it.", "Hurry!"]);
    expect(flow.state.inbox).toEqual([{ type: "send", runId: "another", message: "not for it" }]);
  });

  test("messages that the agent doesn't take any more go on waiting, and so does what is no message", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const send = (message: string) => ({ type: "send", runId: flow.runId, message });
    const heard: unknown[] = [];
    const queryFn: QueryFn = async function* ({ prompt }) {
      for await (const message of prompt as AsyncIterable<{ message: { content: unknown } }>) {
        heard.push(message.message.content);
        if (heard.length === 1) {
          await flow.command({ type: "rate", runId: flow.runId, stars: 5 });
          for (const text of ["one", "two", "three"]) await flow.command(send(text));
        } else break;
      }
      yield success("Done.");
    };
    await createClaudeNode({ queryFn }).run(flow, { nodeId: "a", prompt: "Do it.", inject: true });
    expect(heard).toEqual(["Do it.", "one"]);
    const { flow: again } = await store.flows.resume(flow.runId);
    const waiting = [{ type: "rate", runId: flow.runId, stars: 5 }, send("two"), send("three")];
    expect(await again.takeInbox(flow.runId)).toEqual(waiting);
  });

  test("a message that comes while its agent ends waits for the next one", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    for (let round = 0; round < 30; round++) {
      const heard: unknown[] = [];
      let reading: Promise<void> | undefined;
      const queryFn: QueryFn = async function* ({ prompt }) {
        // As a library does that hands on what comes, until it is told that there is no more.
        reading = (async () => {
          for await (const message of prompt as AsyncIterable<{ message: { content: unknown } }>) heard.push(message.message.content);
        })();
        void flow.command({ type: "send", runId: flow.runId, message: "late" });
        for (let turn = 0; turn < round; turn++) await Promise.resolve();
        yield success("Done.");
      };
      await createClaudeNode({ queryFn }).run(flow, { nodeId: "a", prompt: "x", inject: true });
      await reading;
      await flow.refresh();
      const waiting = await flow.takeInbox(flow.runId);
      expect([...heard.slice(1), ...waiting.map((command) => command["message"])]).toEqual(["late"]);
    }
  });

  test("an agent that throws what has no text fails as any other", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const queryFn: QueryFn = async function* () {
      yield init("s");
      throw Object.create(null);
    };
    await expect(createClaudeNode({ queryFn }).run(flow, { nodeId: "a", prompt: "x" })).rejects.toBeInstanceOf(ClaudeNodeError);
    expect(flow.state.nodeStatus).toEqual({ a: "failed" });
  });

  test("a store that is closed meanwhile is told, and nothing hangs", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const queryFn: QueryFn = async function* () {
      yield init("s");
      await store.close();
      yield assistant({ type: "text", text: "x" });
      yield success("x");
    };
    await failure(createClaudeNode({ queryFn }).run(flow, { nodeId: "a", prompt: "x" }), "closed");
  });
});

describe("a flow of a process that is gone", () => {
  test("goes on with the saved session and the prompt to resume with", async () => {
    const place = await lastingPlace();
    const store = await place.open();
    const flow = await store.flows.create();
    const stop = new AbortController();
    const cutOff: QueryFn = async function* () {
      yield init("sess-123");
      stop.abort();
    };
    await failure(createClaudeNode({ queryFn: cutOff }).run(flow, { nodeId: "task-agent", prompt: "Do it.", signal: stop.signal }), "aborted");
    await store.close();

    const again = await place.open();
    const { flow: resumedFlow, resumed } = await again.flows.resume(flow.runId);
    const queryFn = telling([success("Done.")]);
    const claudeNode = createClaudeNode({ queryFn });
    for (const node of resumed.running) await claudeNode.run(resumedFlow, node);
    expect(queryFn.called).toEqual([{ prompt: "continue", options: { sessionId: "sess-123" } }]);
    expect(resumedFlow.state.nodeStatus).toEqual({ "task-agent": "done" });

    const withResume = telling([success("Done.")]);
    await createClaudeNode({ queryFn: withResume, resumeWith: "resume" }).run(resumedFlow, resumed.running[0] as never);
    expect(withResume.called[0]?.options).toEqual({ resume: "sess-123" });
  });
});

test("in production no query is given, and the package that has it is asked for", async () => {
  const store = await (places[0] as (typeof places)[0]).fresh();
  const flow = await store.flows.create();
  const claudeNode = createClaudeNode();
  const error = await failure(claudeNode.run(flow, { nodeId: "a", prompt: "x" }), "not_found");
  expect(error.message).toContain("install it, or give a queryFn");
  expect(flow.state.nodeStatus).toEqual({});
});
