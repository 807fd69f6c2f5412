// Makes thousands of handles of every class and lets go of them; run with --expose-gc. Says how much memory stays.

import { open, openInMemory } from "runlog";

const [path, mode] = process.argv.slice(2);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
async function collect() {
  for (let round = 0; round < 6; round++) {
    globalThis.gc();
    await pause(15);
  }
  return process.memoryUsage();
}

if (mode === "orchestrator") {
  // Its functions hold the store and the orchestrator itself, as they do.
  const leak = async () => {
    const store = await open(path);
    await store.agents.put({ name: "a" });
    const orchestrator = await store.orchestrator({ agents: { a: async () => `${(await store.stat()).streams} ${typeof orchestrator}` } });
    // Nobody waits for this one: it is done all the same.
    await orchestrator.start({ agentName: "a", task: "x" });
  };
  await leak();
  let again;
  for (let tries = 0; again === undefined && tries < 200; tries++) {
    await collect();
    again = await open(path).catch((error) => (error.code === "locked" ? undefined : Promise.reject(error)));
  }
  const { items } = await again.runs.list();
  console.log(items.map((run) => run.status).join());
  process.exit(0);
}

const store = await openInMemory();
const { session, instance } = await store.startSession({}, "a");
const context = await store.context(instance.id);
await context.appendMessages(Array.from({ length: 600 }, (_, index) => ({ role: "user", content: `${index}` })));
const run = await store.runs.start({ instanceId: instance.id });
const chat = await store.chats.create({ assistantId: "a" });
const flow = await store.flows.create();
await flow.record({ type: "node:tick" });
await store.agents.put({ name: "a" });
const shared = new AbortController();
const makes = {
  context: () => store.context(instance.id),
  recorder: () => store.runs.recorder(run.id),
  flow: async () => store.flows.resume(flow.runId).catch(() => {}),
  playback: () => store.flows.playback(flow.runId, { speed: Infinity }),
  orchestrator: () => store.orchestrator({ agents: { a: () => store } }),
  iterator: () => context.events({ from: 598, signal: shared.signal })[Symbol.asyncIterator]().next(),
  tail: async () => void store.tail({ from: 600, signal: shared.signal })[Symbol.asyncIterator]().next(),
  store: () => openInMemory(),
  resumption: () => store.chats.resume(chat.chatId),
  session: () => store.getSession(session.id),
};
const grown = {};
for (const [name, make] of Object.entries(makes)) {
  const some = name === "flow" || name === "store" ? 50 : 300;
  for (let index = 0; index < some; index++) await make();
  // Handles that stay are seen in every round; what the engine compiles or sizes anew, only in some.
  let least = Infinity;
  for (let round = 0; round < 3 && least > 300; round++) {
    const before = await collect();
    for (let index = 0; index < 2 * some; index++) await make();
    const after = await collect();
    const bytes = after.heapUsed + after.external - before.heapUsed - before.external;
    least = Math.min(least, bytes / (2 * some));
  }
  // A handle takes some hundred bytes: those that stay are seen.
  if (least > 300) grown[name] = Math.round(least);
}
console.log(JSON.stringify(grown));
