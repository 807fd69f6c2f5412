// An agent whose last await is no call of Runlog's, in a process that nothing else keeps alive.

import { createServer } from "node:http";

import { open } from "runlog";

const [path, how] = process.argv.slice(2);
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const store = await open(path);
for (const name of ["lead", "worker"]) await store.agents.put({ name });

/** What the worker awaits last. */
const lasts = {
  timer: () => sleep(50),
  immediate: () => new Promise((resolve) => setImmediate(resolve)),
  nothing: () => undefined,
  async socket() {
    const server = createServer((_, response) => setTimeout(() => response.end("ok"), 20)).listen(0);
    await new Promise((resolve) => server.once("listening", resolve));
    await (await fetch(`http://127.0.0.1:${server.address().port}`, { headers: { connection: "close" } })).text();
    server.close();
  },
};
const [last, call] = how.split("-");
const orchestrator = await store.orchestrator({
  agents: {
    lead: async (context) => {
      const results = await context.spawnAgents([{ agentName: "worker", task: "a" }]);
      await lasts[last]();
      return results.map((result) => result.status).join();
    },
    worker: async (context) => {
      await context.recordMessage({ role: "assistant", content: "working" });
      await lasts[last]();
      return "done";
    },
  },
});

switch (call) {
  case "start":
    console.log((await (await orchestrator.start({ agentName: "lead", task: "x" })).wait()).summary);
    break;
  case "alone":
    console.log((await (await orchestrator.start({ agentName: "worker", task: "x" })).wait()).summary);
    break;
  case "unawaited": {
    await orchestrator.start({ agentName: "lead", task: "x" });
    break;
  }
  case "spawn": {
    const { instance } = await store.startSession({}, "lead");
    const run = await store.runs.start({ instanceId: instance.id });
    const results = await orchestrator.spawnAgents(run.id, [{ agentName: "worker", task: "a" }]);
    console.log(results.map((result) => result.status).join());
    break;
  }
  case "crash":
    await orchestrator.start({ agentName: "lead", task: "x" });
    await sleep(20);
    process.exit(3);
    break;
  case "resume": {
    const { resumed } = await orchestrator.resumeAll();
    console.log(resumed.map(({ result }) => result.status).join());
    break;
  }
  default:
    throw new Error(`no call ${call}`);
}
