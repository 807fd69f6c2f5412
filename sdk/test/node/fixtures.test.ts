import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { type FlowRun, type RecordedEvent, openInMemory } from "#runlog";
import {
  type Query,
  type QueryInput,
  type QueryMessage,
  checkFixture,
  createClaudeNode,
  createMockQuery,
  loadFixtures,
  recordFixtures,
} from "#testing";
import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, onTestFinished, test } from "vitest";

import { failure } from "../code.js";
import { freshFolder } from "../places.node.js";

const RECORDINGS = fileURLToPath(new URL("../fixtures/recordings/workflow-abc/", import.meta.url));
const SCHEMA = fileURLToPath(new URL("../../schemas/fixture.schema.json", import.meta.url));

async function flowOf(): Promise<{ flow: FlowRun; events(): Promise<RecordedEvent[]> }> {
  const store = await openInMemory();
  onTestFinished(() => store.close());
  const flow = await store.flows.create();
  const events = async () => (await store.flows.playback(flow.runId, { speed: Infinity })).events().toArray();
  return { flow, events };
}

async function all(messages: AsyncIterable<QueryMessage>): Promise<QueryMessage[]> {
  const found: QueryMessage[] = [];
  for await (const message of messages) found.push(message);
  return found;
}

/** What the Claude Agent SDK says, in short. */
const SDK_MESSAGES: QueryMessage[] = [
  { type: "system", subtype: "init", session_id: "sdk-1", model: "claude-x" },
  { type: "stream_event", event: { type: "content_block_delta", delta: { type: "thinking_delta", thinking: "Hm" } } },
  { type: "stream_event", event: { type: "content_block_delta", delta: { type: "text_delta", text: "I'll " } } },
  { type: "stream_event", event: { type: "message_stop" } },
  {
    type: "assistant",
    message: {
      content: [
        { type: "thinking", thinking: "Hm" },
        { type: "text", text: "I'll look." },
        { type: "tool_use", id: "t1", name: "read_file", input: { path: "a" } },
        { type: "tool_use", id: "t2", name: "rm", input: {} },
      ],
    },
  },
  {
    type: "user",
    message: {
      content: [
        { type: "tool_result", tool_use_id: "t1", content: "text" },
        { type: "tool_result", tool_use_id: "t2", content: "no", is_error: true },
      ],
    },
  },
  { type: "assistant", message: { content: [{ type: "text", text: "Done." }] } },
  {
    type: "result",
    subtype: "success",
    session_id: "sdk-1",
    result: "Done.",
    duration_ms: 12,
    num_turns: 2,
    total_cost_usd: 0.5,
    usage: { input_tokens: 3, output_tokens: 4, cache_read_input_tokens: 5 },
    modelUsage: { "claude-x": { inputTokens: 3, outputTokens: 4 } },
    structured_output: { ok: true },
  },
];

async function* sdk(input: QueryInput, messages = SDK_MESSAGES): AsyncGenerator<QueryMessage> {
  void input;
  yield* messages;
}

describe("fixtures", () => {
  test("are loaded by node, from a folder or a file", () => {
    const fixtures = loadFixtures(RECORDINGS);
    expect(Object.keys(fixtures)).toEqual(["task-agent", "verifier-agent"]);
    expect(fixtures["task-agent"]?.calls).toHaveLength(2);
    expect(Object.keys(loadFixtures(join(RECORDINGS, "task-agent.json")))).toEqual(["task-agent"]);
    expect(() => loadFixtures(join(RECORDINGS, "nowhere"))).toThrow("there are no fixtures");
  });

  const call = { input: { prompt: "x" }, output: { text: "y" }, events: [{ type: "agent:text", content: "y" }] };
  const wrong: [unknown, string][] = [
    [undefined, "at its root, expected an object, found nothing"],
    [[], "at its root, expected an object"],
    [{}, "at /calls, expected an array, found nothing"],
    [{ calls: [call, 7] }, "at /calls/1, expected an object, found 7"],
    [{ calls: [{ ...call, input: {} }] }, "at /calls/0/input/prompt, expected a string or an array of messages"],
    [{ calls: [{ ...call, input: { prompt: ["x"] } }] }, "at /calls/0/input/prompt/0, expected an object"],
    [{ calls: [{ ...call, input: { prompt: "x", options: [] } }] }, "/input/options"],
    [{ calls: [{ ...call, output: {} }] }, "at /calls/0/output/text, expected a string"],
    [{ calls: [{ ...call, output: { text: "x", sessionId: 1 } }] }, "/output/sessionId, expected a string, found 1"],
    [{ calls: [{ ...call, output: { text: "x", durationMs: -1 } }] }, "/output/durationMs, expected a number from 0"],
    [{ calls: [{ ...call, output: { text: "x", usage: { inputTokens: 1 } } }] }, "/output/usage/outputTokens"],
    [{ calls: [{ ...call, events: [{ type: "agent:party" }] }] }, 'expected one of agent:start, '],
    [{ calls: [{ ...call, events: [{}] }] }, "at /calls/0/events/0/type"],
  ];
  test.each(wrong)("that are wrong are told where: %j", (value, says) => {
    expect(() => checkFixture(value, "f.json")).toThrow(`f.json: `);
    expect(() => checkFixture(value, "f.json")).toThrow(says);
  });

  test("the published schema admits what is loaded, and nothing else", async () => {
    const admits = new Ajv2020().compile(JSON.parse(await readFile(SCHEMA, "utf8")));
    for (const fixture of Object.values(loadFixtures(RECORDINGS))) expect(admits(fixture)).toBe(true);
    expect(admits({ calls: [call] })).toBe(true);
    for (const [value] of wrong) expect(admits(value)).toBe(false);
  });
});

describe("createMockQuery", () => {
  test("yields the events of each call in turn, then its result", async () => {
    const mockQuery = createMockQuery({ fixtures: loadFixtures(RECORDINGS) });
    const first = await all(mockQuery({ prompt: "anything", nodeId: "task-agent" }));
    expect(first).toHaveLength(7);
    expect(first.at(-1)).toMatchObject({ type: "result", subtype: "success", text: "I've analyzed the tasks..." });
    expect(await all(mockQuery({ prompt: "anything", options: { nodeId: "task-agent" } }))).toHaveLength(2);
    const error = await failure(all(mockQuery({ prompt: "x", nodeId: "task-agent" })), "not_found");
    expect(error.message).toContain("No fixture for task-agent call 2".replace("No", "no"));
  });

  test("finds the node by its prompt, or is told that it can't", async () => {
    const mockQuery = createMockQuery({ fixtures: loadFixtures(RECORDINGS) });
    const prompt = [{ role: "user", content: "Verify it." }];
    expect((await all(mockQuery({ prompt }))).at(-1)).toMatchObject({ text: "It holds." });
    await failure(all(mockQuery({ prompt: "unknown" })), "not_found");
    await failure(all(mockQuery({ prompt: "x", nodeId: "nobody" })), "not_found");
  });
});

describe("createClaudeNode", () => {
  test("replays fixtures as the agent's events, with node, run and time", async () => {
    const { flow, events } = await flowOf();
    const claudeNode = createClaudeNode({ queryFn: createMockQuery({ fixtures: loadFixtures(RECORDINGS) }) });
    const output = await claudeNode(flow, { nodeId: "task-agent", prompt: "Analyze the task list...", runId: "r1" });
    expect(output).toMatchObject({
      text: "I've analyzed the tasks...",
      usage: { inputTokens: 150, outputTokens: 200 },
      durationMs: 1234,
      sessionId: "sess-fixture-1",
    });
    const told = (await events()).map((it) => it.event as Record<string, unknown>);
    expect(told.map((event) => event["type"])).toEqual([
      "agent:start",
      "agent:thinking:delta",
      "agent:thinking:delta",
      "agent:tool",
      "agent:text",
      "agent:complete",
    ]);
    expect(told.every((event) => event["nodeId"] === "task-agent" && event["runId"] === "r1")).toBe(true);
    expect(told[0]).toMatchObject({ prompt: "Analyze the task list..." });
    expect(told.at(-1)).toMatchObject({ result: "I've analyzed the tasks...", durationMs: 1234 });
    expect(flow.state).toMatchObject({
      nodeStatus: { "task-agent": "done" },
      agentSessions: { "task-agent": "sess-fixture-1" },
      outputs: { "task-agent": { text: "I've analyzed the tasks..." } },
    });
  });

  test("makes the eight events of what the Claude Agent SDK says", async () => {
    const { flow, events } = await flowOf();
    const output = await createClaudeNode({ queryFn: sdk })(flow, { nodeId: "n", prompt: "x" });
    expect(output).toMatchObject({ text: "Done.", totalCostUsd: 0.5, structuredOutput: { ok: true }, sessionId: "sdk-1" });
    const told = (await events()).map((it) => it.event as Record<string, unknown>);
    expect(told.map((event) => event["type"])).toEqual([
      "agent:start",
      "agent:thinking:delta",
      "agent:text:delta",
      "agent:tool",
      "agent:tool",
      "agent:text",
      "agent:complete",
    ]);
    expect(told[3]).toMatchObject({ toolName: "read_file", toolInput: { path: "a" }, toolOutput: "text" });
    expect(told[4]).toMatchObject({ toolName: "rm", error: "no" });
    expect(told.at(-1)).toMatchObject({
      usage: { inputTokens: 3, outputTokens: 4, cacheReadInputTokens: 5 },
      modelUsage: { "claude-x": { inputTokens: 3, outputTokens: 4 } },
      numTurns: 2,
      totalCostUsd: 0.5,
      structuredOutput: { ok: true },
    });
    // The library chose another session than the one it was given: that is what is resumed.
    expect(flow.state.agentSessions).toEqual({ n: "sdk-1" });
  });

  test("saves the session before the agent is called, and goes on with it after a crash", async () => {
    const store = await openInMemory();
    onTestFinished(() => store.close());
    const flow = await store.flows.create();
    const asked: QueryInput[] = [];
    const crashing: Query = async function* (input) {
      asked.push(input);
      const { flow: seen } = await store.flows.resume(flow.runId);
      expect(seen.state.agentSessions["n"]).toBe(input.options?.["sessionId"]);
      await new Promise(() => {});
      yield { type: "never" };
    };
    void createClaudeNode({ queryFn: crashing })(flow, { nodeId: "n", prompt: "Begin.", options: { maxTurns: 3 } });
    while (asked.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(asked[0]?.options).toMatchObject({ maxTurns: 3 });

    const { flow: again, resumed } = await store.flows.resume(flow.runId);
    const node = createClaudeNode({
      queryFn: (input) => {
        asked.push(input);
        return sdk(input);
      },
    });
    for (const running of resumed.running) await node(again, running);
    expect(asked[1]).toMatchObject({ prompt: "continue", options: { sessionId: asked[0]?.options?.["sessionId"] } });
    const renamed = createClaudeNode({ resumeOption: "resume", queryFn: (input) => (asked.push(input), sdk(input)) });
    await renamed(again, { nodeId: "n", prompt: "x", sessionId: "s9" });
    expect(asked[2]?.options).toEqual({ resume: "s9" });
  });

  test("tells of errors, and the node has failed", async () => {
    const { flow, events } = await flowOf();
    const turns = [{ type: "result", subtype: "error_max_turns", errors: ["too many turns"], session_id: "s" }];
    const node = createClaudeNode({ queryFn: (input) => sdk(input, turns) });
    const error = await failure(node(flow, { nodeId: "n", prompt: "x" }), "io");
    expect(error.message).toContain("too many turns");
    const broken = createClaudeNode({
      queryFn: async function* () {
        yield { type: "system" };
        throw Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
      },
    });
    await failure(broken(flow, { nodeId: "m", prompt: "x" }), "io");
    const told = (await events()).map((it) => it.event as Record<string, unknown>);
    const errors = told.filter((event) => event["type"] === "agent:error");
    expect(errors[0]).toMatchObject({ nodeId: "n", errorType: "error_max_turns", message: "too many turns" });
    expect(errors[1]).toMatchObject({ nodeId: "m", errorType: "network_error", message: "connect ECONNREFUSED" });
    expect(flow.state.nodeStatus).toEqual({ n: "failed", m: "failed" });
    const signal = AbortSignal.abort();
    await failure(node(flow, { nodeId: "k", prompt: "x", signal }), "aborted");
  });

  test("gives the agent what is sent to it while it works", async () => {
    const { flow } = await flowOf();
    const got: unknown[] = [];
    const listening: Query = async function* ({ prompt }) {
      for await (const message of prompt as AsyncIterable<Record<string, unknown>>) {
        got.push((message["message"] as { content: unknown }).content);
        if (got.length === 1) await flow.command({ type: "send", runId: "r1", message: "Hurry!" });
        if (got.length === 2) break;
      }
      yield { type: "result", subtype: "success", result: "ok" };
    };
    const node = createClaudeNode({ queryFn: listening });
    await flow.command({ type: "send", runId: "r2", message: "for another" });
    await node(flow, { nodeId: "n", prompt: "Begin.", runId: "r1", inject: true });
    expect(got).toEqual(["Begin.", "Hurry!"]);
    expect(flow.state.inbox).toHaveLength(1);
  });
});

describe("recordFixtures", () => {
  test("writes fixtures that replay as what was recorded", async () => {
    const output = await freshFolder();
    const first = await flowOf();
    const node = createClaudeNode({ queryFn: recordFixtures((input) => sdk(input), { output }) });
    for (const prompt of ["one", "two"]) await node(first.flow, { nodeId: "n", prompt, runId: "r", options: { a: 1 } });
    const fixtures = loadFixtures(output);
    expect(fixtures["n"]?.calls.map((call) => call.input.prompt)).toEqual(["one", "two"]);
    expect(fixtures["n"]?.calls[0]?.events[0]).toEqual({ type: "agent:start", sessionId: "sdk-1", model: "claude-x" });

    const second = await flowOf();
    const replayed = createClaudeNode({ queryFn: createMockQuery({ fixtures }) });
    for (const prompt of ["one", "two"]) await replayed(second.flow, { nodeId: "n", prompt, runId: "r" });
    const told = async ({ events }: typeof first) =>
      (await events()).map(({ event }) => ({ ...event, timestamp: 0, sessionId: "", durationMs: 0 }));
    expect(await told(second)).toEqual(await told(first));
    expect(second.flow.state.outputs).toEqual(first.flow.state.outputs);
  });

  test("is done by createClaudeNode where `runlog record-fixtures` asks for it", async () => {
    const output = await freshFolder();
    process.env["RUNLOG_RECORD_FIXTURES"] = output;
    try {
      const { flow } = await flowOf();
      await createClaudeNode({ queryFn: sdk })(flow, { nodeId: "asked", prompt: "one" });
    } finally {
      delete process.env["RUNLOG_RECORD_FIXTURES"];
    }
    expect(loadFixtures(output)["asked"]?.calls[0]?.output.text).toBe("Done.");
  });

  test("refuses names that are no names of files, and needs a folder", async () => {
    const record = recordFixtures((input) => sdk(input), { output: await freshFolder() });
    for (const nodeId of ["../x", "a/b", ".hidden", ""]) {
      await failure(all(record({ prompt: "x", nodeId })), "invalid_input");
    }
    expect(() => recordFixtures((input) => sdk(input))).toThrow("record-fixtures");
    const file = join(await freshFolder(), "..", "n.json");
    await writeFile(file, "{}");
    expect(() => loadFixtures(file)).toThrow("/calls");
  });
});
