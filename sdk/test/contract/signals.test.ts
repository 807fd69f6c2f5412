import { type AgentFunction, type FlowRun, type RunContext, type RunHandle, type Store, RunlogError } from "#runlog";
import { places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

interface World {
  store: Store;
  stream: string;
  flow: FlowRun;
  run: RunHandle;
  agent: RunContext;
}

/** Every call that takes a signal, and what it does when that is aborted: it fails with `aborted`, or ends. */
const CALLS: { name: string; waits: boolean; ends?: true; call(world: World, signal: AbortSignal): Promise<unknown> }[] = [
  { name: "store.read", waits: false, call: ({ store }, signal) => store.read({ signal }).toArray() },
  { name: "store.tail", waits: true, ends: true, call: ({ store }, signal) => store.tail({ from: 1e9, signal }).toArray() },
  { name: "streams.read", waits: false, call: ({ store, stream }, signal) => store.streams.read(stream, { signal }).toArray() },
  { name: "streams.readValues", waits: false, call: ({ store, stream }, signal) => store.streams.readValues(stream, { signal }).toArray() },
  { name: "contexts.events", waits: false, call: ({ store, agent }, signal) => store.contexts.events(agent.run.instanceId, { signal }).toArray() },
  {
    name: "context.follow",
    waits: true,
    ends: true,
    call: async ({ store, agent }, signal) => (await store.context(agent.run.instanceId)).follow({ from: 1e6, signal }).toArray(),
  },
  { name: "flows.follow", waits: true, ends: true, call: ({ store, flow }, signal) => store.flows.follow(flow.runId, { from: 1e6, signal }).toArray() },
  { name: "flows.playback", waits: false, call: ({ store, flow }, signal) => store.flows.playback(flow.runId, { signal }) },
  {
    name: "playing back",
    waits: true,
    call: async ({ store, flow }, signal) => {
      for await (const event of await store.flows.playback(flow.runId, { speed: 1e-9, signal })) void event;
    },
  },
  { name: "flow.nextCommands", waits: true, ends: true, call: ({ flow }, signal) => flow.nextCommands("r1", signal) },
  {
    name: "import",
    waits: true,
    call: ({ store }, signal) => store.import({ [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => {}) }) }, { signal }),
  },
  { name: "run.wait", waits: true, call: ({ run }, signal) => run.wait({ signal }) },
  { name: "context.nextCommand", waits: true, call: ({ agent }, signal) => agent.nextCommand({ signal }) },
  { name: "context.spawnAgents", waits: true, call: ({ agent }, signal) => agent.spawnAgents([{ agentName: "sub", task: "x" }], { signal }) },
  {
    name: "orchestrator.spawnAgents",
    waits: true,
    call: ({ run }, signal) => run.orchestrator.spawnAgents(run.runId, [{ agentName: "sub", task: "x" }], { signal }),
  },
];

async function world(store: Store): Promise<World> {
  const stream = store.newId();
  await store.streams.append(stream, ["1", "2"]);
  const flow = await store.flows.create();
  await flow.recordAll([{ type: "node:tick", timestamp: 1 }, { type: "node:tick", timestamp: 1e6 }]);
  for (const name of ["lead", "sub"]) await store.agents.put({ name });
  let begin: (context: RunContext) => void = () => {};
  const begun = new Promise<RunContext>((resolve) => (begin = resolve));
  const lead: AgentFunction = (context) => new Promise(() => begin(context));
  const orchestrator = await store.orchestrator({ agents: { lead, sub: () => new Promise(() => {}) }, stopGraceMs: 1 });
  const run = await orchestrator.start({ agentName: "lead", task: "x" });
  return { store, stream, flow, run, agent: await begun };
}

describe.each(places)("signals $name", ({ fresh }) => {
  test.each(CALLS)("of $name, aborted before, meanwhile and after", async ({ waits, ends, call }) => {
    const made = await world(await fresh());
    const reason = { why: "enough", toString: () => { throw new Error("no text"); }, toJSON: () => { throw new Error("no JSON"); } };
    const before = call(made, AbortSignal.abort(reason));
    if (ends) await before;
    else expect((await failure(before, "aborted")).cause).toBe(reason);

    const later = new AbortController();
    const meanwhile = call(made, later.signal);
    const outcome = meanwhile.then(() => "done", (error: RunlogError) => error.code);
    if (waits) expect(await Promise.race([outcome, new Promise((resolve) => setTimeout(resolve, 15, "waits"))])).toBe("waits");
    later.abort(reason);
    expect(await outcome).toBe(waits && !ends ? "aborted" : waits ? "done" : await outcome);

    if (!waits) {
      const after = new AbortController();
      await call(made, after.signal);
      after.abort();
      await made.store.stat();
    }
    // Whatever is no signal is told before anything is begun.
    for (const wrong of ["x", 1, {}, { aborted: false }]) await failure(call(made, wrong as never), "invalid_input");
    expect((await made.store.runs.get(made.run.runId))?.status).toBe("running");
  });

  test("aborted in the middle of a thousand calls at a time, and by an agent that appends when it is", async () => {
    const made = await world(await fresh());
    const { store, stream } = made;
    const stop = new AbortController();
    const appended: Promise<unknown>[] = [];
    stop.signal.addEventListener("abort", () => appended.push(store.streams.append(stream, "told")));
    const reads = Array.from({ length: 1000 }, () => store.streams.read(stream, { signal: stop.signal }).toArray());
    const waits = Array.from({ length: 1000 }, () => store.tail({ from: 1e9, signal: stop.signal }).toArray());
    const codes = Promise.all(reads.map((read) => read.then(() => "read", (error: RunlogError) => error.code)));
    setTimeout(() => stop.abort(), 1);
    for (const code of await codes) expect(["read", "aborted"]).toContain(code);
    await Promise.all(waits);
    await Promise.all(appended);
    expect((await store.streams.get(stream))?.lastSequence).toBe(3);
  });

  test("an agent that waits for a command with a signal of its own ends when its run is cancelled", async () => {
    const store = await fresh();
    await store.agents.put({ name: "lead" });
    const heard: string[] = [];
    let begin: () => void = () => {};
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const lead: AgentFunction = async (context) => {
      const waiting = context.nextCommand({ signal: new AbortController().signal });
      begin();
      heard.push((await failure(waiting, "aborted")).code);
    };
    const orchestrator = await store.orchestrator({ agents: { lead } });
    const run = await orchestrator.start({ agentName: "lead", task: "x" });
    await begun;
    await run.cancel();
    expect((await run.wait()).status).toBe("cancelled");
    expect(heard).toEqual(["aborted"]);
  });
});
