// Agents that end in the way that is asked for.

import { open } from "runlog";

const [path, how] = process.argv.slice(2);
const store = await open(path);
await store.agents.put({ name: "lead" });
await store.agents.put({ name: "worker" });

const agents = {
  lead: async (context) => {
    const results = await context.spawnAgents([
      { agentName: "worker", task: "a" },
      { agentName: "worker", task: "b" },
    ]);
    return results.map((result) => result.summary ?? result.status).join();
  },
  worker: async (context) => {
    await context.recordMessage({ role: "assistant", content: "working" });
    if (how === "never") await new Promise(() => {});
    if (how === "exit" && context.task === "b") process.exit(5);
    if (how === "uncaught") setTimeout(() => { throw new Error("on purpose"); }, 1);
    if (how === "uncaught") await new Promise((resolve) => setTimeout(resolve, 1000));
    return `done ${context.task}`;
  },
};
const orchestrator = await store.orchestrator({ agents });

if (how === "resume") {
  const report = await orchestrator.resumeAll();
  console.log(report.resumed.length, report.resumed.map(({ result }) => result.summary).sort((a, b) => a.length - b.length).at(-1), report.left.length);
} else if (how === "timeout") {
  agents.worker = undefined;
  await orchestrator.register("worker", () => new Promise(() => {}));
  const run = await orchestrator.start({ agentName: "worker", task: "x", timeoutMs: 300 });
  const { status, pauseReason } = await run.wait();
  console.log(status, pauseReason);
} else if (how === "patience") {
  agents.worker = undefined;
  await orchestrator.register("worker", () => new Promise(() => {}));
  const run = await orchestrator.start({ agentName: "worker", task: "x" });
  console.log(await run.wait({ signal: AbortSignal.timeout(300) }).catch((error) => error.code));
} else if (how === "closed") {
  // At work for an hour, when the store is closed.
  agents.worker = undefined;
  await orchestrator.register("worker", () => new Promise(() => {}));
  const run = await orchestrator.start({ agentName: "worker", task: "x", timeoutMs: 3_600_000 });
  const waiting = run.wait().catch((error) => error.code);
  await new Promise((resolve) => setTimeout(resolve, 50));
  await store.close();
  console.log(await waiting);
} else if (how === "throws") {
  // One of each way to fail; none of them is the process's.
  const ways = [
    () => { throw new Error("an exception"); },
    () => Promise.reject(new Error("a rejection")),
    () => { throw null; },
    () => Promise.reject({ toString() { throw new Error("no text"); }, toJSON() { throw new Error("no JSON"); } }),
    () => Promise.reject(Object.create(null)),
    () => ({ then() { throw new Error("a thenable"); } }),
    () => new Proxy({}, { get(_, name) { throw new Error(`a proxy`); } }),
    () => 5n,
    () => ({ summary: 5 }),
    () => { const cyclic = {}; return (cyclic.self = cyclic); },
    (context) => { context.signal.dispatchEvent(new Event("abort")); throw new Error("an event"); },
  ];
  const said = [];
  for (const way of ways) {
    await orchestrator.register("worker", way);
    const result = await (await orchestrator.start({ agentName: "worker", task: "x" })).wait();
    said.push(`${result.status}: ${result.error}`);
  }
  console.log(said.join("\n"));
} else if (how === "forget") {
  // Started, and nobody waits for it.
  await orchestrator.start({ agentName: "lead", task: "x" });
} else {
  const run = await orchestrator.start({ agentName: "lead", task: "x" });
  console.log((await run.wait()).summary);
}
