// A lead that spawns 100 sub-agents at once; one fails, one is too slow, and the others don't mind.
//
//   node examples/sub-agents.mjs

import { setTimeout as sleep } from "node:timers/promises";
import { openInMemory } from "runlog";

const store = await openInMemory();
await store.agents.put({ name: "lead", description: "Splits the work." });
await store.agents.put({ name: "reader", description: "Reads one chapter.", maxSteps: 10 });

const orchestrator = await store.orchestrator({
  concurrentMax: 20, // The others wait for their turn.
  agents: {
    async lead(context) {
      const results = await context.spawnAgents(
        Array.from({ length: 100 }, (_, index) => ({
          agentName: "reader",
          task: `Read chapter ${index + 1}.`,
          ...(index === 41 && { timeoutMs: 50 }),
        })),
      );
      const count = (status) => results.filter((result) => result.status === status).length;
      for (const result of results.filter((result) => result.status !== "completed")) {
        console.log(`${result.status}: ${result.error ?? result.pauseReason}`);
      }
      return `${count("completed")} read, ${count("paused")} paused, ${count("failed")} failed`;
    },
    async reader(context) {
      await context.nextStep();
      const chapter = Number(/\d+/.exec(context.task)[0]);
      if (chapter === 13) throw new Error("chapter 13 is missing");
      // A function that waits gives its signal on, so that it stops when it is to.
      if (chapter === 42) await sleep(60_000, undefined, { signal: context.signal });
      await context.recordMessage({ role: "assistant", content: `Chapter ${chapter} is about ${chapter ** 2}.` });
      return `chapter ${chapter}`;
    },
  },
});

const lead = await orchestrator.start({ agentName: "lead", task: "What is the book about?" });
console.log((await lead.wait()).summary);

// Every one of them is a run of its own, with its parent.
const { items } = await store.runs.children(lead.runId, { limit: 100 });
console.log(`${items.length} runs below ${lead.runId === items[0].parentRunId ? "the lead" : "nobody"}`);
const paused = items.find((run) => run.status === "paused");
await orchestrator.register("reader", async () => "read after all");
const again = await orchestrator.resume(paused.id);
console.log(`resumed: ${(await again.wait()).summary}`);
await store.close();
