import { type AgentEvent, type ListFlows, RawJson, type RunlogError } from "#runlog";
import { lastingPlace, places } from "#places";
import { describe, expect, test, vi } from "vitest";

import { failure } from "../code.js";

const base = { nodeId: "plan", runId: "r1" };
const AGENT_EVENTS: AgentEvent[] = [
  { ...base, type: "agent:start", timestamp: 1, sessionId: "s1", model: "m", prompt: "Plan it." },
  { ...base, type: "agent:thinking:delta", timestamp: 2, content: "Hm", tokenCount: 1 },
  { ...base, type: "agent:thinking", timestamp: 3, content: "Hm." },
  { ...base, type: "agent:text:delta", timestamp: 4, content: "I'll" },
  { ...base, type: "agent:text", timestamp: 5, content: "I'll start." },
  { ...base, type: "agent:tool", timestamp: 6, toolName: "read", toolInput: { a: 1 }, toolOutput: "x", durationMs: 1.5 },
  { ...base, type: "agent:error", timestamp: 7, errorType: "error_max_turns", message: "too many", details: [1] },
  {
    ...base,
    type: "agent:complete",
    timestamp: 8,
    result: "Done.",
    usage: { inputTokens: 1, outputTokens: 2 },
    durationMs: 7,
    numTurns: 1,
  },
];

/** The code of what a promise fails with. */
const failureOf = (promise: Promise<unknown>) => promise.then(() => undefined, (error: RunlogError) => error.code);

describe.each(places)("flows $name", ({ fresh }) => {
  test("the eight agent events, and those of the flow, are recorded and played back", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    await flow.record({ type: "flow:started", runId: flow.runId, timestamp: 0 });
    expect(await flow.recordAll(AGENT_EVENTS)).toBe(9);
    const raw = RawJson.parse('{ "type":"node:done",  "nodeId":"plan", "score":1.0 }');
    await flow.record(raw);
    await flow.record({ type: "edge:fired", from: "plan", to: "check" });
    const playback = await store.flows.playback(flow.runId, { speed: Infinity });
    const played = await playback.events().toArray();
    expect(played.slice(1, 9).map((it) => it.event)).toEqual(AGENT_EVENTS);
    expect(played[9]?.json).toBe(raw.text);
    expect(played.map((it) => it.sequence)).toEqual(Array.from({ length: 11 }, (_, index) => index + 1));
    const texts = await store.flows.playback(flow.runId, { types: ["agent:text*"], first: 2, last: 5, speed: Infinity });
    expect((await texts.events().toArray()).map((it) => it.event.type)).toEqual(["agent:text:delta"]);
    const said = { type: "agent:text", nodeId: "plan", timestamp: 1, content: "Hi" } as const;
    const refused = await failure(flow.record(said as never), "invalid_input");
    expect(refused.message).toMatch(/^the agent:text event has no `runId`: .*which execution/);
    const which = await failure(flow.recordAll([{ ...said, runId: "r1" }, said as never]), "invalid_input");
    expect(which.message).toMatch(/^`events\[1\]`: the agent:text event has no `runId`/);
    await failure(flow.record({ type: "party:started" } as never), "invalid_input");
    await failure(store.flows.playback(store.newId()), "not_found");
    await failure(store.flows.playback(flow.runId, { speed: -1 }), "invalid_input");
  });

  test("of two that go through a playback at once each event is given to one", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    for (let content = 0; content < 300; content += 1) await flow.record({ type: "node:start", nodeId: "n", content });
    for (const whole of [true, false]) {
      const playback = await store.flows.playback(flow.runId, { speed: Infinity });
      const events = whole ? playback : playback.events();
      const given: number[] = [];
      const going = async (): Promise<void> => {
        for await (const { sequence } of events) given.push(sequence);
      };
      await Promise.all([going(), going(), going()]);
      expect(given.sort((one, other) => one - other)).toEqual(Array.from({ length: 300 }, (_, at) => at + 1));
    }
  });

  test("a playback jumps, turns round and is filtered by node and run", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    for (let index = 0; index < 300; index++) {
      await flow.record({ type: "node:ticked", nodeId: index % 2 ? "b" : "a", runId: `r${index % 3}`, timestamp: index });
    }
    const playback = await store.flows.playback(flow.runId, { speed: Infinity });
    const some = async (count: number) => {
      const sequences: number[] = [];
      for await (const { sequence } of playback) {
        sequences.push(sequence);
        if (sequences.length === count) break;
      }
      return sequences;
    };
    expect(await some(3)).toEqual([1, 2, 3]);
    await playback.seek(299);
    expect(await some(9)).toEqual([299, 300]);
    await playback.seek(2, { backward: true });
    expect(await some(9)).toEqual([2, 1]);
    const filtered = await store.flows.playback(flow.runId, { speed: Infinity, nodes: ["b"], runs: ["r0"], last: 12, backward: true });
    const found: number[] = [];
    for await (const { sequence } of filtered) found.push(sequence);
    expect(found).toEqual([10, 4]);
  });

  test("a playback lets the time pass, and stops when it is told to", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    for (const timestamp of [1000, 1400, 1800]) await flow.record({ type: "node:tick", timestamp });
    const delays: number[] = [];
    const began = Date.now();
    for await (const event of await store.flows.playback(flow.runId, { speed: 20 })) delays.push(event.delayMs);
    expect(delays).toEqual([0, 20, 20]);
    expect(Date.now() - began).toBeGreaterThanOrEqual(38);
    const stop = new AbortController();
    const slow = await store.flows.playback(flow.runId, { speed: 0.001, signal: stop.signal });
    const playing = (async () => {
      for await (const event of slow) if (event.sequence === 1) setTimeout(() => stop.abort(), 5);
    })();
    await failure(playing, "aborted");
  });

  test("a playback that is left goes on where it was, however long it is", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    await flow.recordAll(Array.from({ length: 600 }, (_, index) => ({ type: "node:tick", timestamp: 1000 + index, index })));
    const playback = await store.flows.playback(flow.runId, { speed: Infinity });
    const seen: number[] = [];
    for (const until of [2, 3, 255, 256, 257, 599, 600, 1000]) {
      // By turns with and without its delays.
      for await (const event of until % 2 === 0 ? playback : playback.events()) {
        seen.push(event.sequence);
        if (event.sequence === until) break;
      }
    }
    expect(seen).toEqual(Array.from({ length: 600 }, (_, index) => index + 1));
    // One that is aborted in the time before an event gives that event later.
    const slow = await store.flows.playback(flow.runId, { speed: 0.001, first: 5 });
    const first = slow[Symbol.asyncIterator]();
    expect((await first.next()).value?.sequence).toBe(5);
    const waiting = first.next();
    await first.return?.();
    await waiting.catch(() => {});
    expect((await slow.events()[Symbol.asyncIterator]().next()).value?.sequence).toBe(6);
  });

  test("what a flow is resumed from is saved before the agent is called", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    expect(flow.state).toMatchObject({ status: "running", agentSessions: {}, inbox: [], outputs: {} });
    flow.state.state["tasks"] = ["a", "b"];
    flow.state.loopCounters["retry"] = 2;
    flow.state.edgeStatus["plan->check"] = "fired";
    flow.state["colour"] = "red";
    await flow.startAgent("plan", "sess-1");
    await flow.finishNode("plan", { text: "planned" });
    await flow.startAgent("check", "sess-2");

    const { flow: again, resumed } = await store.flows.resume(flow.runId);
    expect(resumed.running).toEqual([{ nodeId: "check", sessionId: "sess-2", prompt: "continue" }]);
    expect(again.state).toMatchObject({
      state: { tasks: ["a", "b"] },
      loopCounters: { retry: 2 },
      edgeStatus: { "plan->check": "fired" },
      nodeStatus: { plan: "done", check: "running" },
      outputs: { plan: { text: "planned" } },
      agentSessions: { plan: "sess-1", check: "sess-2" },
      colour: "red",
    });
    await again.close();
    const asked = await store.flows.resume(flow.runId, "Hurry!");
    expect(asked.resumed.running[0]?.prompt).toBe("Hurry!");
    const playback = await store.flows.playback(flow.runId, { speed: Infinity });
    expect(playback.snapshot?.nodeStatus).toEqual({ plan: "done", check: "running" });
    const types = (await playback.events().toArray()).map((it) => it.event.type);
    expect(types).toEqual(["flow:resumed", "command:received", "flow:resumed"]);
    await failure(store.flows.resume(store.newId()), "not_found");
    await failure(store.flows.create(flow.runId), "already_exists");
  });

  test("flows are listed by filter, in pages with cursors", async () => {
    const store = await fresh();
    const parent = await store.runs.start({ session: { title: "lead" }, agentName: "lead" });
    const run = await store.runs.start({ session: {}, agentName: "worker", parentRunId: parent.id });
    const first = await store.flows.create();
    const ofRun = await store.flows.create(run.id);
    const last = await store.flows.create();
    last.state.status = "waiting for a person";
    await last.saveSnapshot();
    const ids = async (options: ListFlows) => (await store.flows.list(options)).items.map((flow) => flow.runId);
    const page = await store.flows.list({ limit: 2 });
    expect(page.items.map((flow) => flow.runId)).toEqual([last.runId, ofRun.runId]);
    expect(await ids({ limit: 2, cursor: page.next })).toEqual([first.runId]);
    expect(await ids({ status: "waiting for a person" })).toEqual([last.runId]);
    expect(await ids({ parentRunId: parent.id })).toEqual([run.id]);
    expect(await store.flows.get(run.id)).toMatchObject({
      runId: run.id,
      status: "running",
      runStatus: "running",
      parentRunId: parent.id,
      isOver: false,
      isLive: true,
    });
    expect((await store.flows.get(first.runId))?.runStatus).toBeUndefined();
    expect(await store.flows.get(store.newId())).toBeUndefined();
    await failure(store.flows.list({ limit: 0 }), "invalid_input");
    await failure(store.flows.list({ limit: 2, cursor: page.next, resumable: true }), "invalid_input");

    // Whoever has a handle of it is at work on it.
    expect(await ids({ resumable: true })).toEqual([]);
    await first.close();
    expect(await ids({ resumable: true })).toEqual([first.runId]);
  });

  test("the flow of a run goes on with the run, and takes nothing while that is paused", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    const flow = await store.flows.create(run.id);
    await flow.startAgent("plan", "sess-1");
    await flow.command({ type: "send", runId: run.id, message: "Hurry!" });
    await run.pause("lunch");
    await failure(flow.record({ type: "node:tick" }), "wrong_status");
    await failure(flow.saveSnapshot(), "wrong_status");
    await failure(store.flows.resume(run.id), "wrong_status");
    const { recorder } = await store.runs.resume(run.id);
    const { flow: again, resumed } = await store.flows.resume(recorder.id);
    expect(resumed.running).toEqual([{ nodeId: "plan", sessionId: "sess-1", prompt: "continue" }]);
    expect(await again.takeInbox(recorder.id)).toMatchObject([{ type: "send", message: "Hurry!" }]);
    const [newer, older] = (await store.flows.list()).items;
    expect(newer).toMatchObject({ runId: recorder.id, resumedFrom: run.id, isOver: false });
    expect(older).toMatchObject({ runId: run.id, resumedBy: recorder.id, isOver: true });
    await recorder.complete();
    await failure(again.record({ type: "node:tick" }), "wrong_status");
  });

  test("calls at the same time all have what they changed saved, and one that is refused leaves nothing", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const nodes = Array.from({ length: 20 }, (_, index) => `n${index}`).concat("__proto__", "constructor");
    const starting = nodes.map((node) => flow.startAgent(node, `session of ${node}`));
    flow.state.loopCounters["meanwhile"] = 1;
    await Promise.all(starting);
    expect(flow.state.loopCounters["meanwhile"]).toBe(1);
    const finishing = nodes.slice(0, 10).map((node, index) => flow.finishNode(node, index));
    await failure(flow.startAgent("late", 1 as never), "invalid_input");
    await failure(flow.finishNode("late", () => {}), "invalid_input");
    await failure(flow.startAgent(Symbol("late") as never, "s"), "invalid_input");
    await Promise.all([...finishing, flow.saveSnapshot()]);
    const kept = (await store.flows.resume(flow.runId)).flow.state;
    expect(Object.keys(kept.nodeStatus).sort()).toEqual([...nodes].sort());
    expect(Object.keys(kept.agentSessions).sort()).toEqual([...nodes].sort());
    expect(kept.outputs).toEqual(Object.fromEntries(nodes.slice(0, 10).map((node, index) => [node, index])));
    expect(kept.nodeStatus["n9"]).toBe("done");
    expect(kept.nodeStatus["n10"]).toBe("running");
    expect(kept.loopCounters).toEqual({ meanwhile: 1 });
    for (const part of ["nodeStatus", "agentSessions", "outputs"] as const) {
      expect(Object.entries(flow.state[part]).sort()).toEqual(Object.entries(kept[part]).sort());
    }
  });

  test("a page of a playback that was given up, or asked for twice at a time, is still played once", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    await flow.recordAll(Array.from({ length: 700 }, (_, index) => ({ type: "node:tick", timestamp: index })));
    const stop = new AbortController();
    const playback = await store.flows.playback(flow.runId, { speed: Infinity, signal: stop.signal });
    const [first, second] = [playback.events()[Symbol.asyncIterator](), playback.events()[Symbol.asyncIterator]()];
    const [one, other] = await Promise.all([first.next(), second.next()]);
    expect([one.value?.sequence, other.value?.sequence]).toEqual([1, 2]);
    const third = failureOf(playback.events().toArray());
    stop.abort();
    expect(["aborted", undefined]).toContain(await third);
  });

  test("a command reaches the inbox of its run only, and one to nobody is refused and recorded", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const error = await failure(flow.command({ type: "send", message: "to nobody" } as never), "invalid_input");
    expect(error.message).toContain("runId");
    const blocks = failure(flow.command({ type: "send", runId: "r1", message: [{ type: "text", text: "x" }] } as never), "invalid_input");
    expect((await blocks).message).toContain("the `message` of a \"send\" command must be text, not a list");
    await flow.command({ type: "send", runId: "r1", message: "one" });
    await flow.command({ type: "reply", runId: "r2", message: "two" });
    await flow.command({ type: "resume" });
    expect(flow.state.inbox).toHaveLength(3);
    expect(await flow.takeInbox("r1")).toEqual([{ type: "send", runId: "r1", message: "one" }]);
    expect(await flow.takeInbox("r1")).toEqual([]);
    expect(await flow.takeInbox()).toEqual([{ type: "resume" }]);
    expect(flow.state.inbox).toHaveLength(1);
    const playback = await store.flows.playback(flow.runId, { speed: Infinity });
    const commands = (await playback.events().toArray()).map((it) => it.event as unknown as Record<string, unknown>);
    expect(commands[0]).toMatchObject({ type: "command:received", command: { type: "send", message: "to nobody" } });
    expect(commands[0]?.["error"]).toContain("runId");
    // Those taken since the latest snapshot come back: they are delivered at least once.
    const { flow: again } = await store.flows.resume(flow.runId);
    expect(again.state.inbox).toHaveLength(3);
  });

  test("of ten that resume a flow at once one does, and its message is delivered once", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const resuming = Array.from({ length: 10 }, (_, index) => store.flows.resume(flow.runId, `message ${index}`));
    const told = await Promise.allSettled(resuming);
    const won = told.filter((it) => it.status === "fulfilled");
    const lost = told.filter((it) => it.status === "rejected");
    expect([won.length, lost.length]).toEqual([1, 9]);
    for (const { reason } of lost) expect(reason).toMatchObject({ code: "conflict" });
    const winner = won[0]?.value.flow;
    expect(await winner?.takeInbox(flow.runId)).toHaveLength(1);
    expect(await winner?.takeInbox(flow.runId)).toEqual([]);
    await winner?.close();
    await (await store.flows.resume(flow.runId)).flow.close();
  });

  test("commands that another handle receives are taken in, once, and wake who waits for them", async () => {
    const store = await fresh();
    const other = await store.flows.create();
    const { flow } = await store.flows.resume(other.runId);
    await other.command({ type: "send", runId: "r1", message: "one" });
    expect(flow.state.inbox).toEqual([]);
    await flow.refresh();
    expect(flow.state.inbox).toEqual([{ type: "send", runId: "r1", message: "one" }]);
    await other.command({ type: "send", runId: "r1", message: "two" });
    expect((await flow.takeInbox("r1")).map((command) => command["message"])).toEqual(["one", "two"]);
    const waiting = flow.nextCommands("r1", new AbortController().signal);
    await new Promise((resolve) => setTimeout(resolve, 20));
    await other.command({ type: "send", runId: "r1", message: "three" });
    expect((await waiting)?.map((command) => command["message"])).toEqual(["three"]);
    expect(await flow.takeInbox("r1")).toEqual([]);
  });

  test("who drove a flow before it was resumed saves nothing and takes nothing, but may send", async () => {
    const store = await fresh();
    const created = await store.flows.create();
    await created.startAgent("plan", "s1");
    const waiting = failure(created.nextCommands("r1", new AbortController().signal), "conflict");
    const { flow } = await store.flows.resume(created.runId);
    await flow.finishNode("plan", "done");
    await failure(created.saveSnapshot(), "conflict");
    await failure(created.finishNode("plan", "again"), "conflict");
    expect(created.state.outputs["plan"]).toBeUndefined();
    await created.command({ type: "send", runId: "r1", message: "one" });
    expect(await created.takeInbox("r1")).toEqual([]);
    await waiting;
    await flow.refresh();
    expect(await flow.takeInbox("r1")).toHaveLength(1);
    await flow.saveSnapshot();
    await flow.close();
    const { resumed } = await store.flows.resume(created.runId);
    expect(resumed.running).toEqual([]);
  });

  test("a place that is gone to while it is played is played from, awaited or not", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    await flow.recordAll(Array.from({ length: 3000 }, (_, index) => ({ ...base, type: "agent:text" as const, timestamp: index, content: `${index}` })));
    const unawaited = await store.flows.playback(flow.runId, { speed: Infinity });
    const seeking = unawaited.seek(5);
    for await (const { sequence } of unawaited.events()) {
      expect(sequence).toBe(5);
      break;
    }
    await seeking;
    for (let round = 0; round < 20; round++) {
      const playback = await store.flows.playback(flow.runId, { speed: Infinity });
      const target = 2000 + round;
      const given: number[] = [];
      const playing = (async () => {
        for await (const { sequence } of playback.events()) if (given.push(sequence) > 2900) return;
      })();
      while (given.length < 20 * round) await new Promise((resolve) => setTimeout(resolve, 0));
      await playback.seek(target);
      await playing;
      expect(given).toContain(target);
    }
    const playback = await store.flows.playback(flow.runId, { speed: Infinity });
    for (const wrong of [[-1], [NaN], ["5"], [5, { backward: 1 }], [5, { bakward: true }]]) await failure(playback.seek(...(wrong as [number])), "invalid_input");
    expect((await playback.events().toArray()).length).toBe(3000);
  });

  test("a flow is told what waits for it, and not its whole state, by every call", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    flow.state.outputs["plan"] = "x".repeat(1 << 20);
    const parse = vi.spyOn(JSON, "parse");
    try {
      await flow.saveSnapshot();
      await flow.startAgent("plan", "s1");
      await flow.command({ type: "send", runId: "r1", message: "one" });
      await flow.refresh();
      expect(await flow.nextCommands("r1", new AbortController().signal)).toHaveLength(1);
      await flow.finishNode("build", "done");
      const lengths = parse.mock.calls.map(([text]) => text.length);
      expect(lengths.length).toBeGreaterThan(5);
      expect(Math.max(...lengths)).toBeLessThan(10_000);
    } finally {
      parse.mockRestore();
    }
  });

  test("what couldn't be saved takes nothing back that another call saved", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const big = "x".repeat(17 << 20);
    flow.state.state["big"] = big;
    const failing = flow.startAgent("a", "s1");
    delete flow.state.state["big"];
    const saving = flow.startAgent("a", "s1");
    await failure(failing, "too_large");
    await saving;
    expect(flow.state.agentSessions).toEqual({ a: "s1" });
    flow.state.state["big"] = big;
    const both = [flow.startAgent("a", "s2"), flow.startAgent("a", "s3"), flow.startAgent("d", "1"), flow.startAgent("d", "2")];
    for (const each of both) await failure(each, "too_large");
    delete flow.state.state["big"];
    expect(flow.state.agentSessions).toEqual({ a: "s1" });
    expect(flow.state.nodeStatus).toEqual({ a: "running" });
    await flow.saveSnapshot();
    await flow.close();
    expect((await store.flows.resume(flow.runId)).resumed.running).toMatchObject([{ nodeId: "a", sessionId: "s1" }]);
  });

  test("events that aren't awaited are recorded in order, and followed", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const stop = new AbortController();
    const seen: unknown[] = [];
    const following = (async () => {
      for await (const { event } of store.flows.follow(flow.runId, { signal: stop.signal })) {
        seen.push((event as { content?: string }).content);
        if (seen.length === 200) stop.abort();
      }
    })();
    const deltas = Array.from({ length: 200 }, (_, index) =>
      flow.record({ ...base, type: "agent:text:delta", timestamp: index, content: `${index}` }),
    );
    const sequences = await Promise.all(deltas);
    await following;
    expect(sequences.at(-1)).toBe(200);
    expect(seen).toEqual(Array.from({ length: 200 }, (_, index) => `${index}`));
  });
});

describe("a flow of a process that is gone", () => {
  test("is resumed from what was saved", async () => {
    const place = await lastingPlace();
    const store = await place.open();
    const flow = await store.flows.create();
    await flow.startAgent("plan", "sess-1");
    await flow.command({ type: "send", runId: "r1", message: "kept" });
    await store.close();
    const again = await place.open();
    const { items } = await again.flows.list({ resumable: true });
    expect(items).toMatchObject([{ runId: flow.runId, isLive: false, isOver: false }]);
    const { flow: resumed } = await again.flows.resume(flow.runId);
    expect(resumed.state.agentSessions).toEqual({ plan: "sess-1" });
    expect(await resumed.takeInbox("r1")).toHaveLength(1);
  });
});
