// Opens stores and lets go of them without closing any; run with --expose-gc.

import { open, openInMemory } from "runlog";

const [path] = process.argv.slice(2);

async function leak() {
  const store = await open(path);
  const run = await store.runs.start({ session: {}, agentName: "agent" });
  await run.recordMessage({ role: "user", content: "x" });
  void store.tail({ signal: AbortSignal.abort() });
}

await leak();
// Collected at some point; then another can have the folder.
let opened;
for (let tries = 0; opened === undefined && tries < 200; tries++) {
  globalThis.gc();
  await new Promise((resolve) => setTimeout(resolve, 10));
  opened = await open(path).catch((error) => {
    if (error.code !== "locked") throw error;
    return undefined;
  });
}
if (opened === undefined) throw new Error("the store that nobody holds was never closed");
console.log("clean:", opened.recovery.clean, (await opened.runs.list()).items.length);

// Many handles don't add up.
for (let round = 0; round < 60; round++) {
  const store = await openInMemory();
  await store.streams.append(store.newId(), new Uint8Array(256 << 10));
  if (round % 20 === 0) globalThis.gc();
}
globalThis.gc();
await new Promise((resolve) => setTimeout(resolve, 50));
globalThis.gc();
await new Promise((resolve) => setTimeout(resolve, 200));
console.log("memory:", process.memoryUsage().rss < 300 << 20);
