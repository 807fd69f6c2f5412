// A tree of agents that is killed in the middle of its work, and gone on with by whoever opens the store next.

import { setTimeout as sleep } from "node:timers/promises";

import { open } from "runlog";

const [path, how] = process.argv.slice(2);
const store = await open(path);
for (const name of ["lead", "part", "leaf"]) await store.agents.put({ name });

/** What each agent began, and by whom: one that is begun twice at a time shows. */
const begun = [];
const spawns = (agentName, of) => async (context) => {
  begun.push(context.runId);
  const messages = await context.getMessages();
  const last = messages.findLast((message) => message.role === "tool");
  // What a crash cut off is told where the call stands; else the agents are spawned now.
  const results = last === undefined
    ? await context.spawnAgents([0, 1, 2].map((index) => ({ agentName, task: `${of}${context.task} ${index}` })))
    : JSON.parse(last.content);
  await context.recordMessage({ role: "assistant", content: "all are done" });
  return results.map((result) => result.summary).join(", ");
};
const agents = {
  lead: spawns("part", ""),
  part: spawns("leaf", ""),
  leaf: async (context) => {
    begun.push(context.runId);
    await context.nextStep();
    await context.recordMessage({ role: "assistant", content: "at work" });
    if (how === "work") console.log("a leaf");
    await sleep(how === "work" ? 20 + 30 * Math.random() : 1);
    return `leaf${context.task}`;
  },
};
const orchestrator = await store.orchestrator({ agents });

if (how === "work") {
  const run = await orchestrator.start({ agentName: "lead", task: "" });
  await run.wait();
} else {
  // Twice at once, and by another orchestrator of the same store.
  const other = await store.orchestrator({ agents });
  const reports = await Promise.all([orchestrator.resumeAll(), orchestrator.resumeAll(), ...(how === "both" ? [other.resumeAll()] : [])]);
  const resumed = reports.flatMap((report) => report.resumed.map(({ runId }) => runId));
  const left = (await orchestrator.resumeAll()).resumed.length;
  const listed = (await store.runs.list({ limit: 500 })).items;
  const items = await Promise.all(listed.map((run) => store.runs.get(run.id)));
  const lead = items.find((run) => run.agentName === "lead" && run.resumedBy === undefined);
  const contexts = await Promise.all(items.map(async (run) => (await store.context(run.instanceId)).getMessages()));
  console.log(JSON.stringify({
    twice: begun.length - new Set(begun).size,
    resumedTwice: resumed.length - new Set(resumed).size,
    left,
    statuses: items.filter((run) => run.resumedBy === undefined).map((run) => run.status),
    forks: items.filter((run) => run.resumedFrom !== undefined).length - new Set(items.map((run) => run.resumedFrom).filter(Boolean)).size,
    summary: lead.summary,
    contexts,
  }));
}
await store.close();
