import { type AgentFunction, RunlogError, type SpawnedAgent, StopError, type Store, toolDefinitions } from "#runlog";
import { lastingPlace, places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

const forever: AgentFunction = () => new Promise(() => {});

async function world(store: Store, agents: Record<string, AgentFunction>, options: object = {}) {
  for (const name of Object.keys(agents)) await store.agents.put({ name, description: `does ${name}` });
  return store.orchestrator({ agents, stopGraceMs: 50, ...options });
}

describe.each(places)("agents $name", ({ fresh }) => {
  test("a spawn that no model asked for is written in the form of the context, and so are tasks", async () => {
    const store = await fresh();
    const forms = {
      openai: [{ role: "assistant", content: null, tool_calls: [{ id: "a", type: "function", function: { name: "ls", arguments: "{}" } }] }, "tool_calls", '{"role":"user","content":"t"}'],
      anthropic: [{ role: "assistant", content: [{ type: "tool_use", id: "a", name: "ls", input: {} }] }, '"tool_use"', '{"role":"user","content":"t"}'],
      gemini: [{ role: "model", parts: [{ functionCall: { id: "a", name: "ls", args: {} } }] }, "functionCall", '{"role":"user","parts":[{"text":"t"}]}'],
      bedrock: [{ role: "assistant", content: [{ toolUse: { toolUseId: "a", name: "ls", input: {} } }] }, "toolUse", '{"role":"user","content":[{"text":"t"}]}'],
    } as const;
    for (const [form, [call, spawned, task]] of Object.entries(forms)) {
      let lead = "";
      const orchestrator = await world(store, {
        worker: async () => "done",
        lead: async (context) => {
          lead = context.run.instanceId;
          await context.recordMessage(call as never);
          await context.recordToolResults([{ toolCallId: "a", output: "x" }]);
          await context.spawnAgents([{ agentName: "worker", task: "t" }]);
        },
      });
      const { status, runId } = await (await orchestrator.start({ agentName: "lead", task: "Lead." })).wait();
      expect([form, status]).toEqual([form, "completed"]);
      const messages = await (await store.context(lead)).getRawMessages();
      expect(messages.at(-2)?.json).toContain(spawned);
      const [child] = (await store.runs.children(runId as string)).items;
      const first = await (await store.context((await store.runs.get(child?.id as string))?.instanceId as string)).getRawMessages();
      expect(first.map((message) => message.json)).toEqual([task]);
    }
    // As it is said, also where nothing tells it yet.
    const orchestrator = await world(store, { worker: async () => "done" }, { toolStyle: "gemini" });
    const { runId } = await (await orchestrator.start({ agentName: "worker", task: "t" })).wait();
    const context = await store.context((await store.runs.get(runId as string))?.instanceId as string);
    expect((await context.getRawMessages())[0]?.json).toBe(forms.gemini[2]);
  });

  test("are started under an id that is known before, and with whose they are", async () => {
    const store = await fresh();
    const sinks = new Map<string, string[]>();
    const orchestrator = await world(store, {
      lead: async ({ run }) => {
        sinks.get(run.id)?.push("Hello");
        return "Hello";
      },
    });
    const runId = await store.newId();
    sinks.set(runId, []);
    const start = { agentName: "lead", task: "Greet.", runId, metadata: { user: "ann" } };
    const started = await Promise.allSettled([orchestrator.start(start), orchestrator.start(start)]);
    expect(started.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
    await expect.poll(async () => (await store.runs.get(runId))?.status).toBe("completed");
    await failure(orchestrator.start(start), "already_exists");
    expect(await store.runs.get(runId)).toMatchObject({ agentName: "lead", metadata: { user: "ann" } });
    expect(sinks.get(runId)).toEqual(["Hello"]);
  });

  test("begin no work of a tool whose result they couldn't record, as once they are stopped", async () => {
    const store = await fresh();
    const call = (id: string) => ({ id, type: "function", function: { name: "pay", arguments: "{}" } }) as const;
    let paid = 0;
    const codes: (string | undefined)[] = [];
    const pay = async () => ++paid;
    const told = (error: RunlogError) => void codes.push(error.code);
    const orchestrator = await world(store, {
      payer: async (context) => {
        await context.recordMessage({ role: "assistant", content: null, tool_calls: [call("a"), call("b")] });
        expect(await context.tool("a", pay)).toBe(1);
        await context.tool("a", pay).catch(told);
        await store.runs.recorder(context.run.id).then((run) => run.pause());
        await context.tool("b", pay).catch(told);
      },
    }, { stopGraceMs: 10_000 });
    const started = await orchestrator.start({ agentName: "payer", task: "Pay." });
    await started.wait().catch(() => {});
    expect(paid).toBe(1);
    expect(codes[0]).toBe("already_exists");
    expect(codes[1]).toMatch(/wrong_status|aborted/);
  });

  test("are defined, changed, listed, and told of without their prompts", async () => {
    const { agents } = await fresh();
    const made = await agents.define({
      name: "researcher",
      project: "papers",
      description: "Finds papers.",
      systemPrompt: "THE WHOLE PROMPT",
      tools: ["search"],
      visibility: "internal",
      defaultTimeoutMs: 60_000,
      maxSteps: 9,
      metadata: { model: "m" },
    });
    expect(made).toMatchObject({ flowType: "single", maxSteps: 9, defaultTimeoutMs: 60_000, metadata: { model: "m" } });
    await failure(agents.define({ name: "researcher", project: "papers" }), "already_exists");
    const changed = await agents.update("researcher", { maxSteps: null, description: "Finds." }, { project: "papers" });
    expect(changed.maxSteps).toBeUndefined();
    expect(await agents.get("researcher", { project: "papers" })).toEqual(changed);
    expect(await agents.get("researcher")).toBeUndefined();
    await agents.put({ name: "writer", project: "papers" });
    const page = await agents.list({ project: "papers", limit: 1 });
    expect(page.items.map((agent) => agent.name)).toEqual(["researcher"]);
    const rest = await agents.list({ project: "papers", cursor: page.next as string });
    expect(rest.items.map((agent) => agent.name)).toEqual(["writer"]);
    const told = await agents.listAvailable({ project: "papers" });
    expect(told[0]).toEqual({
      name: "researcher",
      description: "Finds.",
      tools: ["search"],
      flowType: "single",
      visibility: "internal",
    });
    expect(JSON.stringify(told)).not.toContain("PROMPT");
    await failure(agents.update("nobody", {}), "not_found");
  });

  test("are started, record what they do, and end with their text", async () => {
    const store = await fresh();
    const orchestrator = await world(store, {
      coder: async (context) => {
        expect(context.task).toBe("Fix it.");
        expect(context.depth).toBe(0);
        expect(context.definition.name).toBe("coder");
        expect(await context.getMessages()).toEqual([{ role: "user", content: "Fix it." }]);
        await context.nextStep();
        await context.recordMessage({
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c1", type: "function", function: { name: "ls", arguments: "{}" } }],
        });
        await context.recordToolResult({ toolCallId: "c1", output: "parser.ts", durationMs: 1.2 });
        await context.recordEvent({ type: "node:started", nodeId: "n" });
        await context.recordEvents([
          { type: "agent:text", nodeId: "n", content: "a" },
          { type: "agent:text", nodeId: "n", content: "b", runId: "of-the-agent", timestamp: 7 },
        ]);
        await failure(context.recordEvent({ type: "agent:text", nodeId: "n" } as never), "invalid_input");
        await failure(context.recordEvent(null as never), "invalid_input");
        expect(await context.nextStep()).toBe(2);
        expect((await context.refresh()).stepCount).toBe(2);
        await context.recordMessage({ role: "assistant", content: "Fixed." });
        return "fixed";
      },
    });
    const run = await orchestrator.start({ agentName: "coder", task: "Fix it.", session: { title: "Fix" } });
    const result = await run.wait();
    expect(result).toEqual({ runId: run.runId, agentName: "coder", status: "completed", summary: "fixed", steps: 2 });
    expect((await store.runs.toolCalls(run.runId)).items[0]?.durationMs).toBe(1);
    expect(await store.runs.get(run.runId)).toMatchObject({ status: "completed", summary: "fixed" });
    expect(await run.wait()).toEqual(result);
    await failure(orchestrator.start({ agentName: "nobody", task: "x" }), "not_found");
    const playback = await store.flows.playback(run.runId, { speed: Infinity });
    const told = [];
    for await (const { event } of playback) told.push([event.type, event.runId, event.timestamp]);
    expect(told).toEqual([
      ["node:started", undefined, undefined],
      ["agent:text", run.runId, expect.any(Number)],
      ["agent:text", "of-the-agent", 7],
    ]);
    const wrong = { agentName: "coder", task: "x", sessionId: store.newId(), instanceId: store.newId() };
    await failure(orchestrator.start(wrong as never), "invalid_input");
  });

  test("fail by what they throw or reject with, whatever that is", async () => {
    const store = await fresh();
    const orchestrator = await world(store, {
      throws: () => {
        throw new TypeError("x is not a function");
      },
      rejects: async () => Promise.reject("just text"),
      rejectsObject: async () => Promise.reject({ code: 7 }),
      rejectsUndefined: async () => Promise.reject(),
      returnsNonsense: async () => 7 as never,
      returnsNothing: async () => {},
      pauses: async () => ({ paused: "asks for leave" }),
      summary: async () => ({ summary: "done" }),
    });
    const end = async (agentName: string) => (await orchestrator.start({ agentName, task: "x" })).wait();
    expect(await end("throws")).toMatchObject({ status: "failed", error: "x is not a function" });
    expect(await end("rejects")).toMatchObject({ status: "failed", error: "just text" });
    expect(await end("rejectsObject")).toMatchObject({ status: "failed", error: '{"code":7}' });
    expect(await end("rejectsUndefined")).toMatchObject({ status: "failed", error: "undefined" });
    expect(await end("returnsNonsense")).toMatchObject({ status: "failed" });
    expect(await end("returnsNothing")).toMatchObject({ status: "completed" });
    expect(await end("pauses")).toMatchObject({ status: "paused", pauseReason: "asks for leave" });
    expect(await end("summary")).toMatchObject({ status: "completed", summary: "done" });
  });

  test("spawn others, all at once, with results in the order asked", async () => {
    const store = await fresh();
    let atWork = 0;
    let most = 0;
    const orchestrator = await world(store, {
      lead: async (context) => {
        const listed = await context.listAvailableAgents();
        expect(listed.map((agent) => agent.name)).toEqual(["fails", "lead", "worker"]);
        const results = await context.spawnAgents([
          { agentName: "worker", task: "30" },
          { agentName: "nobody", task: "x" },
          { agentName: "fails", task: "x" },
          { agentName: "worker", task: "5" },
        ]);
        return JSON.stringify(results.map(({ status, summary, error }) => summary ?? error?.slice(0, 8) ?? status));
      },
      worker: async (context) => {
        most = Math.max(most, ++atWork);
        await new Promise((resolve) => setTimeout(resolve, Number(context.task)));
        atWork -= 1;
        expect(context.depth).toBe(1);
        return context.task;
      },
      fails: async () => Promise.reject(new Error("on purpose")),
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "Build it." });
    const { summary } = await lead.wait();
    expect(JSON.parse(summary as string)).toEqual(["30", "no agent", "on purpo", "5"]);
    expect(most).toBe(2);
    const children = await store.runs.children(lead.runId);
    expect(children.items).toHaveLength(3);
    const calls = await store.runs.toolCalls(lead.runId);
    expect(calls.items[0]).toMatchObject({ toolName: "spawn_agents", status: "completed" });
    expect(calls.items[0]?.input()).toMatchObject({ requests: [{ agent_name: "worker" }, {}, {}, {}] });
  });

  test("answer a model's calls of the tools they are given", async () => {
    const store = await fresh();
    const tools = await toolDefinitions();
    expect(tools.map((tool) => tool.name)).toEqual(["list_available_agents", "spawn_agents"]);
    expect(tools[1]?.openai).toMatchObject({ type: "function", function: { name: "spawn_agents" } });
    expect(tools[1]?.anthropic).toMatchObject({ name: "spawn_agents", input_schema: { required: ["requests"] } });
    const orchestrator = await world(store, {
      lead: async (context) => {
        const call = (id: string, name: string, args: string) => ({ id, type: "function", function: { name, arguments: args } });
        const args = JSON.stringify({ requests: [{ agent_name: "worker", task: "a" }] });
        await context.recordMessage({
          role: "assistant",
          content: null,
          tool_calls: [call("c1", "spawn_agents", args), call("c2", "spawn_agents", "{}"), call("c3", "other", "{}")],
        });
        const spawned = await context.answerToolCall("c1", "spawn_agents", args);
        expect(spawned).toMatchObject({ isError: false, output: [{ summary: "done", status: "completed" }] });
        expect(await context.answerToolCall("c2", "spawn_agents", {})).toMatchObject({ isError: true });
        expect(await context.answerToolCall("c3", "other", {})).toBeUndefined();
        await context.recordToolResult({ toolCallId: "c3", output: "x" });
        return "ok";
      },
      worker: async () => "done",
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    expect(await lead.wait()).toMatchObject({ status: "completed", summary: "ok" });
    const context = await store.context((await store.runs.get(lead.runId))?.instanceId as string);
    expect(await context.danglingToolCalls()).toEqual([]);
  });

  test("take the lower of two bounds of steps, and are deleted", async () => {
    const store = await fresh();
    const orchestrator = await world(store, {
      worker: async (context) => {
        for (let step = 0; step < 5; step += 1) {
          await context.nextStep();
          await context.recordMessage({ role: "assistant", content: `step ${step}` });
        }
      },
      lead: async (context) => {
        const results = await context.spawnAgents([
          { agentName: "worker", task: "x", maxSteps: 2 },
          { agentName: "worker", task: "x" },
          { agentName: "worker", task: "x", maxSteps: 0 },
        ]);
        return JSON.stringify(results.map(({ status, steps }) => [status, steps]));
      },
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    const { summary } = await lead.wait();
    expect(JSON.parse(summary as string)).toEqual([["paused", 2], ["completed", 5], ["failed", 0]]);
    const project = (await store.runs.get(lead.runId))?.project;
    await store.agents.delete("worker", { project });
    expect((await store.agents.listAvailable({ project })).map((agent) => agent.name)).toEqual(["lead"]);
    await failure(store.agents.delete("worker", { project }), "not_found");
    const again = await orchestrator.start({ agentName: "lead", task: "x" });
    expect(JSON.parse((await again.wait()).summary as string)).toEqual(Array(3).fill(["failed", 0]));
  });

  test("are stopped by their time, their budget, and whoever cancels them, with their signal told", async () => {
    const store = await fresh();
    const told: string[] = [];
    let late: Promise<unknown> | undefined;
    const orchestrator = await world(store, {
      slow: async (context) => {
        await context.recordMessage({ role: "assistant", content: "working" });
        await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
        told.push((context.signal.reason as StopError).kind);
        await context.recordMessage({ role: "assistant", content: "what I have" });
        return "too late to count";
      },
      forever,
      ignores: async (context) => {
        await new Promise((resolve) => setTimeout(resolve, 200));
        late = context.recordMessage({ role: "assistant", content: "late" });
        await late.catch(() => {});
      },
      lead: async (context) => {
        await context.spawnAgents([{ agentName: "slow", task: "x" }, { agentName: "forever", task: "x" }]);
      },
    });
    const slow = await orchestrator.start({ agentName: "slow", task: "x", timeoutMs: 30 });
    expect(await slow.wait()).toMatchObject({ status: "paused", pauseReason: "timeout" });
    expect((await store.runs.messages(slow.runId)).items).toHaveLength(3);
    const ignores = await orchestrator.start({ agentName: "ignores", task: "x", timeoutMs: 20 });
    expect(await ignores.wait()).toMatchObject({ status: "paused" });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    while ((await orchestrator.liveCount()) < 3) await new Promise((resolve) => setTimeout(resolve, 5));
    await new Promise((resolve) => setTimeout(resolve, 20));
    await orchestrator.cancel(lead.runId);
    expect(await lead.wait()).toMatchObject({ status: "cancelled" });
    const children = await store.runs.children(lead.runId);
    expect(children.items.map((run) => run.status)).toEqual(["cancelled", "cancelled"]);
    expect(told).toEqual(["timeout", "parent"]);
    while (late === undefined) await new Promise((resolve) => setTimeout(resolve, 10));
    await failure(late, "wrong_status");
    await store.agents.put({ name: "slow", maxSteps: 1 });
    await orchestrator.register("slow", async (context) => {
      await context.nextStep();
      await context.nextStep();
    });
    const spent = await orchestrator.start({ agentName: "slow", task: "x" });
    expect(await spent.wait()).toMatchObject({ status: "paused", pauseReason: "step budget spent" });
  });

  test("are told by their signals what stops them, and whether they can be resumed", async () => {
    const store = await fresh();
    const told: unknown[] = [];
    const orchestrator = await world(store, {
      waits: async (context) => {
        if (context.task === "spawns") void context.spawnAgents([{ agentName: "waits", task: "below" }]).catch(() => {});
        await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
        const reason: StopError = context.signal.reason;
        expect(reason).toBeInstanceOf(StopError);
        expect(reason).toBeInstanceOf(RunlogError);
        told.push([context.task, reason.code, reason.kind, reason.resumable, reason.message]);
      },
    });
    const start = (task: string, timeoutMs?: number) => orchestrator.start({ agentName: "waits", task, timeoutMs });
    await (await start("times out", 10)).wait();
    expect(told.splice(0)).toEqual([["times out", "aborted", "timeout", true, "timeout"]]);
    for (const [stop, kind, resumable] of [["pause", "shutdown", true], ["cancel", "cancelled", false]] as const) {
      const lead = await start("spawns");
      while ((await orchestrator.liveCount()) < 2) await new Promise((resolve) => setTimeout(resolve, 2));
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (stop === "pause") await orchestrator.pause(lead.runId, { kind: "shutdown", reason: "SIGTERM" });
      else await lead.cancel();
      const words = stop === "pause" ? "SIGTERM" : "cancelled";
      expect((told.splice(0) as string[][]).sort()).toEqual([
        ["below", "aborted", "parent", resumable, `the run above it is to stop: ${words}`],
        ["spawns", "aborted", kind, resumable, words],
      ]);
      expect(await store.runs.get(lead.runId)).toMatchObject({ stopKind: kind });
    }
  });

  test("are spawned without waiting: ids at once, results as they come, then all in order", async () => {
    const store = await fresh();
    let goOn = (): void => {};
    const slow = new Promise<void>((resolve) => (goOn = resolve));
    const orchestrator = await world(store, {
      lead: async (context) => {
        const spawned = await context.spawn([
          { agentName: "worker", task: "slow" },
          { agentName: "nobody", task: "x" },
          { agentName: "worker", task: "quick" },
          { agentName: "worker", task: "commanded" },
        ]);
        const ids = spawned.agents.map((agent) => agent.runId);
        expect(ids[1]).toBeUndefined();
        expect((await store.runs.children(context.runId)).items).toHaveLength(3);
        expect((await spawned.agents[1]?.wait())?.status).toBe("failed");
        const refused = await failure((spawned.agents[1] as SpawnedAgent).send({ type: "send", message: "x" }), "wrong_status");
        expect(refused.message).toContain("was refused");
        const order: number[] = [];
        for await (const { agent, result } of spawned) {
          order.push(agent.index);
          expect(await agent.wait()).toBe(result);
          if (agent.index === 2) await spawned.agents[3]?.send({ type: "send", message: "go" });
          if (agent.index === 3) goOn();
        }
        expect(order).toEqual([1, 2, 3, 0]);
        const results = await spawned.results();
        expect(results.map((result) => result.runId)).toEqual(ids);
        expect(results.map((result) => result.summary)).toEqual(["slow", undefined, "quick", "go"]);
        const again: number[] = [];
        for await (const { agent } of spawned) again.push(agent.index);
        expect(again).toEqual(order);
        await spawned.agents[0]?.cancel();
        expect(await (await context.spawn([])).results()).toEqual([]);
        return "done";
      },
      worker: async (context) => {
        if (context.task === "slow") await slow;
        if (context.task === "commanded") return (await context.nextCommand())["message"] as string;
        return context.task;
      },
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    expect(await lead.wait()).toMatchObject({ status: "completed", summary: "done" });
    expect((await store.runs.toolCalls(lead.runId)).items[0]).toMatchObject({ status: "completed" });
  });

  test("that can't be read are refused alone, with what is wrong with them", async () => {
    const store = await fresh();
    const wrong = [
      { agentName: "worker", resumeRunId: "run_7" },
      { agentName: "worker", timeoutMs: -1 },
      { agentName: "worker", timeoutMs: "30s" },
      { agentName: "worker", prompt: "x" },
      { task: "nobody's" },
      null,
    ];
    const orchestrator = await world(store, {
      lead: async (context) => {
        const results = await context.spawnAgents([...(wrong as never[]), { agentName: "worker", task: "fine" }]);
        return JSON.stringify(results.map(({ status, summary, error }) => summary ?? `${status}: ${error}`));
      },
      worker: async (context) => context.task,
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    const told = JSON.parse((await lead.wait()).summary as string) as string[];
    expect(told).toHaveLength(7);
    expect(told[6]).toBe("fine");
    for (const [index, names] of ["resumeRunId", "timeoutMs", "timeoutMs", "prompt", "agentName", ""].entries()) {
      expect(told[index]).toMatch(/^failed: /);
      expect(told[index]).toContain(names);
    }
  });

  test("are stopped by a recorder that ends or pauses their run, with those below", async () => {
    const store = await fresh();
    const reasons: string[] = [];
    const orchestrator = await world(store, {
      leaf: forever,
      lead: async (context) => {
        context.signal.addEventListener("abort", () => reasons.push((context.signal.reason as StopError).kind));
        await context.spawnAgents([{ agentName: "leaf", task: "t" }]);
      },
    });
    const ends = [
      ["cancelled", "cancelled", "cancelled"],
      ["paused", "requested", "paused"],
      ["completed", "requested", "cancelled"],
    ] as const;
    for (const [status, kind, below] of ends) {
      const lead = await orchestrator.start({ agentName: "lead", task: "t" });
      let children = await store.runs.children(lead.runId);
      while (children.items.length === 0) children = await store.runs.children(lead.runId);
      const recorder = await store.runs.recorder(lead.runId);
      if (status === "cancelled") await recorder.cancel();
      else if (status === "paused") await recorder.pause("a person is asked");
      else await recorder.complete("enough");
      expect(await lead.wait()).toMatchObject({ status });
      expect((await store.runs.children(lead.runId)).items.map((run) => run.status)).toEqual([below]);
      expect(reasons.pop()).toBe(kind);
    }
  });

  test("are cancelled one by one, and all of them with their signal", async () => {
    const store = await fresh();
    const stop = new AbortController();
    const orchestrator = await world(store, {
      lead: async (context) => {
        const first = await context.spawn([{ agentName: "forever", task: "x" }, { agentName: "worker", task: "x" }]);
        for await (const { agent } of first) if (agent.index === 1) await first.agents[0]?.cancel();
        expect((await first.results()).map((result) => result.status)).toEqual(["cancelled", "completed"]);
        const second = await context.spawn([{ agentName: "forever", task: "x" }], { signal: stop.signal });
        stop.abort();
        await failure(second.results(), "aborted");
        await failure(second.agents[0]?.wait() as Promise<unknown>, "aborted");
        return (await store.runs.children(context.runId)).items.length.toString();
      },
      worker: async () => "done",
      forever,
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    expect(await lead.wait()).toMatchObject({ status: "completed", summary: "3" });
    const children = await store.runs.children(lead.runId);
    expect(children.items.map((run) => run.status).sort()).toEqual(["cancelled", "cancelled", "completed"]);
  });

  test("are cancelled when nobody wants what they were spawned for", async () => {
    const store = await fresh();
    const stop = new AbortController();
    const orchestrator = await world(store, {
      lead: async (context) => {
        setTimeout(() => stop.abort(), 30);
        const spawned = context.spawnAgents([{ agentName: "forever", task: "x" }], { signal: stop.signal });
        await failure(spawned, "aborted");
        return "gave up";
      },
      forever,
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    expect(await lead.wait()).toMatchObject({ status: "completed", summary: "gave up" });
    expect((await store.runs.children(lead.runId)).items[0]?.status).toBe("cancelled");
    const aborted = orchestrator.spawnAgents(lead.runId, [], { signal: AbortSignal.abort() });
    await failure(aborted, "aborted");
    const again = await orchestrator.start({ agentName: "forever", task: "x" });
    await failure(again.wait({ signal: AbortSignal.timeout(20) }), "aborted");
    expect((await store.runs.get(again.runId))?.status).toBe("running");
    await again.cancel();
  });

  test("share a space with their tree, and get the commands that are sent to them", async () => {
    const store = await fresh();
    const orchestrator = await world(store, {
      lead: async (context) => {
        await context.space.set("topic", { of: "rain" });
        await context.spawnAgents([{ agentName: "worker", task: "x" }]);
        const command = await context.nextCommand();
        expect(await context.takeCommand()).toMatchObject({ type: "send", message: "two" });
        expect(await context.takeCommand()).toBeUndefined();
        await context.saveSnapshot({ ...empty, state: { seen: command["message"] } });
        expect((await context.snapshot())?.state).toEqual({ seen: "one" });
        return String(await context.space.get("answer"));
      },
      worker: async (context) => {
        expect(await context.space.getAndDelete("topic")).toEqual({ of: "rain" });
        await context.space.set("answer", 42);
      },
    });
    const empty = {
      status: "running",
      outputs: {},
      state: {},
      nodeStatus: {},
      edgeStatus: {},
      loopCounters: {},
      inbox: [],
      agentSessions: {},
    };
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    await lead.send({ type: "send", runId: lead.runId, message: "one" });
    await orchestrator.send(lead.runId, { type: "send", runId: lead.runId, message: "two" });
    expect((await orchestrator.handle(lead.runId))?.runId).toBe(lead.runId);
    expect((await lead.wait()).summary).toBe("42");
    expect(await lead.space.get("answer")).toBe(42);
    expect(await orchestrator.handle(lead.runId)).toBeUndefined();
    await failure(lead.send({ type: "send", runId: lead.runId }), "wrong_status");
  });

  test("go on after a pause, and no more of them work at a time than allowed", async () => {
    const store = await fresh();
    let atWork = 0;
    let most = 0;
    const orchestrator = await world(
      store,
      {
        worker: async (context) => {
          most = Math.max(most, ++atWork);
          // Long enough for others to begin, however slow a start is.
          for (let waited = 0; atWork < 3 && waited < 50; waited += 1) await new Promise((resolve) => setTimeout(resolve, 2));
          atWork -= 1;
          const messages = await context.getMessages<{ content: string }>();
          return messages.length > 1 ? `again: ${messages.at(-1)?.content}` : { paused: "for now" };
        },
      },
      { concurrentMax: 3 },
    );
    const runs = await Promise.all(
      Array.from({ length: 20 }, (_, index) => orchestrator.start({ agentName: "worker", task: `${index}` })),
    );
    const ends = await Promise.all(runs.map((run) => run.wait()));
    expect(ends.every((end) => end.status === "paused")).toBe(true);
    expect(most).toBe(3);
    const resumed = await orchestrator.resume(runs[0]?.runId as string, { message: "Go on." });
    expect(await resumed.wait()).toMatchObject({ status: "completed", summary: "again: Go on." });
    await failure(orchestrator.resume(runs[0]?.runId as string), "wrong_status");
  });

  test("that paused are resumed by whoever spawns them again", async () => {
    const store = await fresh();
    const orchestrator = await world(store, {
      lead: async (context) => {
        const [first] = await context.spawnAgents([{ agentName: "worker", task: "Begin." }]);
        expect(first).toMatchObject({ status: "paused", pauseReason: "for now", agentName: "worker" });
        const again = { agentName: "worker", task: "Go on.", resumeRunId: first?.runId as string };
        const [second] = await context.spawnAgents([again]);
        expect(second).toMatchObject({ status: "completed", summary: "2 steps" });
        const [third] = await context.spawnAgents([again]);
        return `${third?.status}: ${third?.error}`;
      },
      worker: async (context) => {
        const step = await context.nextStep();
        await context.recordMessage({ role: "assistant", content: `${step}` });
        return step === 1 ? { paused: "for now" } : `${step} steps`;
      },
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    expect((await lead.wait()).summary).toMatch(/^failed: .*resumed already/);
  });

  test("a thousand sub-agents are spawned in one call", async () => {
    const store = await fresh();
    const orchestrator = await world(store, {
      lead: async (context) => {
        const requests = Array.from({ length: 1000 }, (_, index) => ({ agentName: "worker", task: `${index}` }));
        const results = await context.spawnAgents(requests);
        return `${results.reduce((sum, result) => sum + Number(result.summary), 0)}`;
      },
      worker: async (context) => context.task,
    });
    const lead = await orchestrator.start({ agentName: "lead", task: "x" });
    expect((await lead.wait()).summary).toBe("499500");
  });
});

describe("agents that a crash cut off", () => {
  test("go on when they are resumed, each once, with what their sub-agents gave", async () => {
    const place = await lastingPlace();
    const store = await place.open();
    const first = await world(store, {
      lead: async (context) => {
        const results = await context.spawnAgents([{ agentName: "quick", task: "a" }, { agentName: "stuck", task: "b" }]);
        return `first: ${results.length}`;
      },
      quick: async () => "quick",
      stuck: forever,
    });
    const lead = await first.start({ agentName: "lead", task: "x" });
    while ((await store.runs.children(lead.runId)).items.every((run) => run.status !== "completed")) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await store.close();

    const again = await place.open();
    expect((await again.runs.get(lead.runId))?.status).toBe("paused");
    const second = await world(again, {
      lead: async (context) => {
        const messages = await context.getMessages();
        return `second: ${JSON.stringify(messages).includes("unstuck")}`;
      },
      quick: async () => "must not run again",
      stuck: async () => "unstuck",
    });
    const report = await second.resumeAll();
    expect(report.left).toEqual([]);
    expect(report.resumed).toHaveLength(2);
    const ended = report.resumed.find(({ runId }) => runId === lead.runId);
    expect(ended?.result).toMatchObject({ status: "completed", summary: "second: true" });
    expect(await second.resumeAll()).toEqual({ resumed: [], left: [] });
  });

  test("are left as they are where no function does their work", async () => {
    const place = await lastingPlace();
    const store = await place.open();
    const first = await world(store, { stuck: forever });
    const run = await first.start({ agentName: "stuck", task: "x" });
    await store.close();
    const again = await place.open();
    const second = await again.orchestrator();
    const report = await second.resumeAll();
    expect(report.resumed).toEqual([]);
    expect((await again.runs.get(run.runId))?.status).toBe("paused");
  });
});
