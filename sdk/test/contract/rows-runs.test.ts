import type { MessageObject, RunRecorder, Store } from "#runlog";
import { lastingPlace, places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

// What was asked of agents' state (S0), row by row: what a user tries first, and what has gone wrong before.

const started = (store: Store): Promise<RunRecorder> => store.runs.start({ session: {}, agentName: "coder" });

/** A message that calls `ls` once for each of the ids. */
const calling = (...ids: string[]): MessageObject => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "ls", arguments: '{"path":"/"}' } })),
});

describe.each(places)("S0 rows $name", ({ fresh }) => {
  test.each([
    [
      "the Vercel AI SDK",
      { role: "assistant", content: [{ type: "tool-call", toolCallId: "a", toolName: "ls", input: { path: "/" } }] },
      { role: "tool", content: [{ type: "tool-result", toolCallId: "a", toolName: "ls", output: { type: "text", value: "x" } }] },
      "x",
    ],
    [
      "OpenAI's Responses",
      { type: "function_call", call_id: "a", name: "ls", arguments: '{"path":"/"}' },
      { type: "function_call_output", call_id: "a", output: "x" },
      "x",
    ],
    [
      "Gemini",
      { role: "model", parts: [{ functionCall: { name: "ls", args: { path: "/" } } }] },
      { role: "user", parts: [{ functionResponse: { name: "ls", response: { output: "x" } } }] },
      "x",
    ],
  ])("S0 row 3: a call in the form of %s is recorded with its result", async (_, call, result, output) => {
    const store = await fresh();
    const run = await started(store);
    await run.recordMessage(call as MessageObject);
    const [open] = (await store.runs.toolCalls(run.id)).items;
    expect([open?.status, open?.toolName, open?.input()]).toEqual(["pending", "ls", { path: "/" }]);
    await run.recordMessage(result as MessageObject);
    const [ended] = (await store.runs.toolCalls(run.id)).items;
    expect([ended?.status, ended?.output()]).toEqual(["completed", output]);
  });

  test("S0 row 4: an error that a tool threw is kept with its name, message and fields", async () => {
    const store = await fresh();
    const run = await started(store);
    await run.recordMessage(calling("a"));
    await run.recordToolResult({ toolCallId: "a", status: "error", output: Object.assign(new TypeError("boom"), { code: "E1" }) });
    const [call] = (await store.runs.toolCalls(run.id, { status: "error" })).items;
    expect(call?.output()).toEqual({ name: "TypeError", message: "boom", code: "E1" });
  });

  test("S0 row 16: calls are listed by status in pages, in the order of the calls, as among all of them", async () => {
    const store = await fresh();
    const run = await started(store);
    for (let turn = 0; turn < 12; turn++) {
      const ids = [0, 1, 2].map((place) => `${turn}-${place}`);
      await run.recordMessage(calling(...ids));
      // Results in another order than their calls.
      for (const [place, id] of [...ids.entries()].reverse()) {
        await run.recordToolResult({ toolCallId: id, output: id, status: (turn + place) % 4 === 0 ? "error" : "completed" });
      }
    }
    await run.recordMessage(calling("open", "late"));
    await run.pause();
    const resumed = await store.runs.resume(run.id, { dangling: "report" });
    await resumed.recorder.recordToolResult({ toolCallId: "late", output: "no", status: "error" });
    const all = (await store.runs.toolCalls(run.id, { limit: 100 })).items;
    expect(all).toHaveLength(38);
    for (const status of ["error", "completed", "pending"] as const) {
      const wanted = all.filter((call) => call.status === status).map((call) => call.toolCallId);
      for (const limit of [1, 4, 100]) {
        const listed = [];
        let cursor: string | undefined;
        do {
          const page = await store.runs.toolCalls(run.id, { status, limit, cursor });
          expect(page.items.length).toBeLessThanOrEqual(limit);
          listed.push(...page.items.map((call) => call.toolCallId));
          cursor = page.next;
        } while (cursor !== undefined);
        expect(listed).toEqual(wanted);
      }
    }
  });

  test("S0 row 19: a run has columns of the caller's own", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder", metadata: { ticket: 7, labels: ["x"] } });
    expect((await store.runs.get(run.id))?.metadata).toEqual({ ticket: 7, labels: ["x"] });
    expect((await store.runs.list()).items[0]?.metadata).toEqual({ ticket: 7, labels: ["x"] });
  });

  test("S0 row 23: what is wrong with an argument is told by the name that the caller gave it", async () => {
    const { runs } = await fresh();
    const told = async (promise: Promise<unknown>) => (await failure(promise, "invalid_input")).message;
    expect(await told(runs.list({ limit: "10" as never }))).toBe('`limit`: "10" is not a whole number, 0 or more');
    expect(await told(runs.list({ status: ["failed", "paused"] as never }))).toContain("`status`");
    expect(await told(runs.list({ sessionId: "chat" }))).toBe('`sessionId`: "chat" is not an id (a UUID)');
    expect(await told(runs.start({ session: {}, agentName: "a", ...{ lenghts: 3 } }))).toContain("`lenghts` is not a field that is known here");
  });

  test("S0 row 24: a list of more than there are gives all of them, in one page", async () => {
    const store = await fresh();
    for (let index = 0; index < 60; index++) await started(store);
    const page = await store.runs.list({ limit: 1_000_000_000 });
    expect([page.items.length, page.next]).toEqual([60, undefined]);
    expect((await store.runs.list()).items).toHaveLength(50);
  });

  test("S0 row 25: a run is started, told and listed by its agent's name, which has one word", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "planner" });
    expect(run.run.agentName).toBe("planner");
    // In an instance that is there it may be a run of another agent.
    const { instanceId } = run.run;
    await run.complete();
    const other = await store.runs.start({ instanceId, agentName: "critic" });
    await other.complete();
    const again = await store.runs.start({ instanceId });
    const of = async (agentName: string) => (await store.runs.list({ agentName })).items.map((it) => it.id);
    expect([await of("critic"), await of("planner"), await of("nobody")]).toEqual([[other.id], [again.id, run.id], []]);
    const refused = await failure(store.runs.list({ agentId: "critic" } as never), "invalid_input");
    expect(refused.message).toContain("`agentName`");
    const { sessionId } = run.run;
    for (const wrong of [
      { newInstance: { sessionId, agentName: "a" }, agentName: "b" },
      { session: {} },
      { instanceId, session: {}, agentName: "a" },
      { agentName: "a" },
      { instanceId, agentId: "a" },
    ])
      await failure(store.runs.start(wrong as never), "invalid_input");
  });
});

describe("S0 rows of a process that is gone", () => {
  test("S0 row 8: steps that left something are counted over all resumes, those that left nothing are not", async () => {
    const place = await lastingPlace();
    let store = await place.open();
    let run = await started(store);
    const counted: unknown[] = [];
    for (let life = 0; life < 3; life++) {
      await run.nextStep();
      await run.recordMessage({ role: "assistant", content: "ok" });
      await run.nextStep();
      await store.close();
      store = await place.open();
      counted.push((await store.runs.get(run.id))?.stepCount);
      run = (await store.runs.resume(run.id)).recorder;
    }
    expect(counted).toEqual([1, 2, 3]);
    await run.pause();
    await failure(store.runs.resume(run.id, { maxTotalSteps: 3 }), "limit_reached");
  });

  test("S0 row 9: a run that is resumed by a spawn has the budget that the spawn gives it", async () => {
    const store = await (await lastingPlace()).open();
    for (const name of ["lead", "worker"]) await store.agents.put({ name });
    const orchestrator = await store.orchestrator({
      agents: {
        worker: async (context) => {
          for (;;) await context.nextStep();
        },
        lead: async (context) => {
          const [first] = await context.spawnAgents([{ agentName: "worker", task: "Go.", maxSteps: 2 }]);
          const again = { agentName: "worker", task: "Go on.", resumeRunId: first?.runId as string, maxSteps: 5 };
          const [second] = await context.spawnAgents([again]);
          return JSON.stringify([first, second].map((result) => [result?.status, result?.steps]));
        },
      },
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    expect(JSON.parse((await lead.wait()).summary as string)).toEqual([["paused", 2], ["paused", 7]]);
  });
});
