// A worker thread in the middle of everything, with the store of the thread that started it.

import { parentPort, workerData } from "node:worker_threads";
import { attach } from "runlog";

const store = await attach(workerData.shared);
const context = await store.context(workerData.instanceId);
const agents = {
  lead: async (context) => {
    await context.spawnAgents(Array.from({ length: 20 }, (_, index) => ({ agentName: "sub", task: `${index}` })));
  },
  sub: async (context) => {
    for (;;) await context.recordMessage({ role: "assistant", content: "working" });
  },
};
const orchestrator = await store.orchestrator({ agents });
await orchestrator.start({ agentName: "lead", task: "x", timeoutMs: 60_000 });
const read = async () => {
  for (;;) for await (const record of store.read()) void record;
};
const append = async () => {
  for (let index = 0; ; index++) {
    if (index === 20) parentPort.postMessage("in the middle");
    await Promise.all(Array.from({ length: 50 }, () => context.appendMessage({ role: "user", content: "worker" })));
  }
};
void read();
void append();
for await (const record of store.tail()) void record;
