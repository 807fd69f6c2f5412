// Agents that spawn agents, as the requirements have them, row by row of what was once found wanting.

import { type AgentFunction, type Store } from "#runlog";
import { lastingPlace, places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";
import { wrongForAnthropic, wrongForOpenAi } from "../contexts.js";

const forever: AgentFunction = () => new Promise(() => {});

async function world(store: Store, agents: Record<string, AgentFunction>, options: object = {}) {
  for (const name of Object.keys(agents)) await store.agents.put({ name });
  return store.orchestrator({ agents, stopGraceMs: 50, ...options });
}

async function contextOf(store: Store, runId: string) {
  return store.context((await store.runs.get(runId))?.instanceId as string);
}

describe.each(places)("agents $name", ({ fresh }) => {
  test("A2, C25: a command that names another run is refused, and reaches neither", async () => {
    const store = await fresh();
    const heard: string[] = [];
    const orchestrator = await world(store, {
      listens: async (context) => {
        for (;;) heard.push(`${context.task}: ${String((await context.nextCommand({ signal: context.signal }))["message"])}`);
      },
    });
    const [a, b] = [await orchestrator.start({ agentName: "listens", task: "a" }), await orchestrator.start({ agentName: "listens", task: "b" })];
    const astray = { type: "send", runId: b.runId, message: "for b" } as const;
    await failure(orchestrator.send(a.runId, astray), "invalid_input");
    await failure(a.send(astray), "invalid_input");
    await orchestrator.send(b.runId, astray);
    while (heard.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(heard).toEqual(["b: for b"]);
    await a.cancel();
    await b.cancel();
  });

  test("A3, G1: run and flow have one inbox, whoever sends, and each command is taken once", async () => {
    const store = await fresh();
    const heard: unknown[] = [];
    const orchestrator = await world(store, {
      listens: async (context) => {
        while (heard.length < 3) heard.push((await context.nextCommand())["message"]);
        await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
      },
    });
    const run = await orchestrator.start({ agentName: "listens", task: "x" });
    const flow = await store.flows.create(run.runId);
    const send = (message: string) => ({ type: "send", runId: run.runId, message }) as const;
    await flow.command(send("by its flow"));
    await orchestrator.send(run.runId, send("by the orchestrator"));
    await run.send(send("by its handle"));
    while (heard.length < 3) await new Promise((resolve) => setTimeout(resolve, 5));
    expect(heard).toEqual(["by its flow", "by the orchestrator", "by its handle"]);
    expect(await flow.takeInbox(run.runId)).toEqual([]);
    // The agent takes no more: its flow does, and is woken by whoever sends.
    const waiting = flow.nextCommands(run.runId, new AbortController().signal);
    await orchestrator.send(run.runId, send("for whoever asks"));
    expect((await waiting)?.map((command) => command["message"])).toEqual(["for whoever asks"]);
    await flow.command(send("left"));
    expect(flow.state.inbox).toMatchObject([send("left")]);
    await run.cancel();
  });

  test("A7: a parent whose time is up keeps its tree, is told what its sub-agents did, and goes on with them", async () => {
    const store = await fresh();
    let goesOn = false;
    let spawned: string[] = [];
    const orchestrator = await world(store, {
      lead: async (context) => {
        if (goesOn) {
          const again = spawned.map((runId) => ({ agentName: "slow", task: "Go on.", resumeRunId: runId }));
          const [result] = await context.spawnAgents(again);
          return `${result?.status}: ${result?.summary}`;
        }
        const results = await context.spawnAgents([{ agentName: "quick", task: "q" }, { agentName: "slow", task: "s" }]);
        return `${results.length}`;
      },
      quick: async () => "quick done",
      slow: async (context) => {
        if (goesOn) return "slow done";
        await context.recordMessage({ role: "assistant", content: "half of it" });
        return forever(context);
      },
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x", timeoutMs: 150 });
    expect(await lead.wait()).toMatchObject({ status: "paused", stopKind: "timeout" });
    const children = (await store.runs.children(lead.runId)).items;
    const kinds = await Promise.all(children.map(async ({ id }) => (await store.runs.get(id))?.stopKind));
    expect(children.map((run, index) => [run.agentName, run.status, kinds[index]]).sort()).toEqual([
      ["quick", "completed", undefined],
      ["slow", "paused", "parent"],
    ]);
    spawned = children.filter((run) => run.status === "paused").map((run) => run.id);
    const messages = await (await contextOf(store, lead.runId)).getMessages();
    expect(wrongForOpenAi(messages as never)).toBeUndefined();
    const told = JSON.stringify(messages);
    for (const word of ["quick done", ...children.map((run) => run.id)]) expect(told).toContain(word);
    goesOn = true;
    const again = await orchestrator.resume(lead.runId);
    expect(await again.wait()).toMatchObject({ status: "completed", summary: "completed: slow done" });
  });

  test("C23: a model's call is answered once, and one that it didn't make isn't", async () => {
    const store = await fresh();
    const orchestrator = await world(store, {
      lead: async (context) => {
        const input = { requests: [{ agent_name: "worker", task: "a" }] };
        await context.recordMessage({ role: "assistant", content: [{ type: "tool_use", id: "c1", name: "spawn_agents", input }] });
        await failure(context.answerToolCall("nobody's", "spawn_agents", input), "invalid_input");
        expect(await context.answerToolCall("c1", "spawn_agents", input)).toMatchObject({ isError: false });
        await failure(context.answerToolCall("c1", "spawn_agents", input), "already_exists");
        return "ok";
      },
      worker: async () => "done",
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    expect(await lead.wait()).toMatchObject({ status: "completed", summary: "ok" });
    expect((await store.runs.children(lead.runId)).items).toHaveLength(1);
    const messages = await (await contextOf(store, lead.runId)).getMessages<Record<string, unknown>>();
    expect(wrongForAnthropic(messages)).toBeUndefined();
  });

  test("F4: a call that the model makes itself is the only one in the context of its run", async () => {
    const store = await fresh();
    const orchestrator = await world(store, {
      lead: async (context) => {
        const input = { requests: [{ agent_name: "worker", task: "a" }] };
        await context.recordMessage({ role: "assistant", content: [{ type: "tool_use", id: "c1", name: "spawn_agents", input }] });
        await context.answerToolCall("c1", "spawn_agents", input);
      },
      worker: async () => "done",
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    await lead.wait();
    expect((await store.runs.toolCalls(lead.runId)).items).toHaveLength(1);
  });
});

describe("agents of a process that is gone", () => {
  test("C24: a store that is closed while a tree is at work leaves all of it to be resumed", async () => {
    for (let round = 0; round < 15; round += 1) {
      const place = await lastingPlace();
      const store = await place.open();
      const first = await world(store, {
        lead: async (context) => {
          await context.spawnAgents([{ agentName: "worker", task: "x" }]);
        },
        worker: forever,
      });
      const lead = await first.start({ agentName: "lead", task: "x" });
      while ((await store.runs.children(lead.runId)).items.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
      await store.close();
      const again = await place.open();
      expect((await again.runs.list()).items.map((run) => run.status)).toEqual(["paused", "paused"]);
      await again.close();
    }
  });

  test("F3: a run that a crash cut off has its task when it goes on", async () => {
    const place = await lastingPlace();
    const store = await place.open();
    const first = await world(store, {
      lead: async (context) => {
        await context.spawnAgents([{ agentName: "worker", task: "task 7" }]);
      },
      worker: forever,
    });
    const lead = await first.start({ agentName: "lead", task: "the whole of it" });
    while ((await store.runs.children(lead.runId)).items.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    await store.close();

    const again = await place.open();
    const tasks: string[] = [];
    const tells: AgentFunction = async (context) => {
      tasks.push(context.task);
    };
    const second = await world(again, { lead: tells, worker: tells });
    expect((await second.resumeAll()).left).toEqual([]);
    expect(tasks).toEqual(["task 7", "the whole of it"]);
  });
});
