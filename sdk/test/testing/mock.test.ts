import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

import { type FixtureSet, createMockQuery, loadFixtures } from "../../src/testing/index.js";
import { failure } from "../code.js";
import { all } from "./claude.js";

const fixtures = loadFixtures(fileURLToPath(new URL("./fixtures/recordings/workflow-abc/", import.meta.url)));

describe("createMockQuery", () => {
  test("yields the recorded events, then the result", async () => {
    const mockQuery = createMockQuery({ fixtures });
    expect(await all(mockQuery({ prompt: "Analyze the task list..." }))).toEqual([
      { type: "agent:start", sessionId: "sess-fixture-1" },
      { type: "agent:text", content: "I've analyzed..." },
      { type: "agent:complete", result: "..." },
      {
        type: "result",
        subtype: "success",
        text: "I've analyzed the tasks...",
        usage: { inputTokens: 150, outputTokens: 200 },
        durationMs: 1234,
        sessionId: "sess-fixture-1",
      },
    ]);
  });

  test("counts the calls of each node, and throws where no fixture is", async () => {
    const mockQuery = createMockQuery({ fixtures });
    const last = async (nodeId: string) => (await all(mockQuery({ prompt: "", nodeId }))).at(-1);
    expect(await last("task-agent")).toMatchObject({ text: "I've analyzed the tasks..." });
    expect(await last("verifier-agent")).toMatchObject({ subtype: "error_max_turns" });
    expect(await last("task-agent")).toMatchObject({ text: "All done." });
    const gone = await failure(last("task-agent"), "not_found");
    expect(gone.message).toBe(
      "No fixture for task-agent call 2: its fixture has 2 calls, counted from 0; record it with recordFixtures",
    );
    const unknown = await failure(last("toString"), "not_found");
    expect(unknown.message).toContain('No fixture for toString call 0: there are fixtures for "task-agent", "verifier-agent"');
  });

  test("goes on where another process stopped", async () => {
    const mockQuery = createMockQuery({ fixtures, callsMade: { "task-agent": 1 } });
    expect((await all(mockQuery({ prompt: "", nodeId: "task-agent" }))).at(-1)).toMatchObject({ text: "All done." });
  });

  test("infers the node from what the call says, or tells that it can't", async () => {
    const last = async (params: Parameters<ReturnType<typeof createMockQuery>>[0], of: FixtureSet = fixtures) =>
      (await all(createMockQuery({ fixtures: of })(params))).at(-1);
    expect(await last({ prompt: "Verify the work." })).toMatchObject({ sessionId: "sess-fixture-2" });
    expect(await last({ prompt: "", options: { sessionId: "sess-fixture-2" } })).toMatchObject({ sessionId: "sess-fixture-2" });
    expect(await last({ prompt: "", options: { nodeId: "verifier-agent" } })).toMatchObject({ sessionId: "sess-fixture-2" });
    const one = { only: fixtures["task-agent"] } as FixtureSet;
    expect(await last({ prompt: "anything" }, one)).toMatchObject({ sessionId: "sess-fixture-1" });
    const error = await failure(last({ prompt: "anything" }), "ambiguous");
    expect(error.message).toContain('with the prompt "anything" is of, among "task-agent", "verifier-agent"; name it: query(');
  });

  test("is strict about prompts where it should be", async () => {
    const mockQuery = createMockQuery({ fixtures, strict: true });
    const error = await failure(all(mockQuery({ prompt: "Analyse it", nodeId: "task-agent" })), "invalid_input");
    expect(error.message).toContain('was recorded with the prompt "Analyze the task list...", not "Analyse it"');
  });

  test("throws what was thrown, stops when it is told to, and keeps the fixture as it is", async () => {
    const calls = [{ input: { prompt: "x" }, output: { text: "", error: "socket hang up" }, events: [{ type: "agent:text" as const, content: "a" }] }];
    const thrown = createMockQuery({ fixtures: { n: { calls } } })({ prompt: "x" });
    const first = (await thrown.next()).value as { content: string };
    first.content = "changed";
    await expect(thrown.next()).rejects.toThrow("socket hang up");
    expect(calls[0]?.events[0]?.content).toBe("a");
    const abortController = new AbortController();
    const stopped = createMockQuery({ fixtures })({ prompt: "", nodeId: "task-agent", options: { abortController } });
    await stopped.next();
    abortController.abort();
    await failure(stopped.next(), "aborted");
    await failure(all(createMockQuery({ fixtures })({ prompt: "", options: { abortController } })), "aborted");
  });
});
