// A run that is followed live from a second process: any number of processes read while one writes.
//
//   node examples/follow-live.mjs

import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { open } from "runlog";

const [path, runId] = process.argv.slice(2);

if (runId !== undefined) await follow();
else await main();

/** The second process: reads what is there, then what comes, until the run is over. */
async function follow() {
  const store = await open(path, { mode: "readOnly" });
  const { instanceId } = await store.runs.get(runId);
  const context = await store.context(instanceId);
  const stop = new AbortController();
  for await (const event of context.follow({ signal: stop.signal })) {
    // What was seen may be taken back: here nobody truncates.
    if (event.eventType === "truncated" || event.eventType === "deleted") continue;
    const { role, content } = event.content();
    console.log(`saw ${event.sequenceNumber}: ${role}: ${content}`);
    if (content === "Done.") stop.abort();
  }
  await store.close();
}

/** The first process: an agent that takes its time. */
async function main() {
  const path = join(mkdtempSync(join(tmpdir(), "runlog-example-")), "store");
  const store = await open(path);
  const run = await store.runs.start({ session: {}, agentName: "slow" });
  await run.recordMessage({ role: "user", content: "Count to three." });
  const follower = spawn(process.execPath, [fileURLToPath(import.meta.url), path, run.id], { stdio: "inherit" });
  const ended = new Promise((resolve) => follower.on("close", resolve));
  for (const content of ["One.", "Two.", "Three.", "Done."]) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    await run.recordMessage({ role: "assistant", content });
  }
  await run.complete("counted");
  process.exitCode = await ended;
  await store.close();
  console.log(`kept in ${path}: runlog --store ${path} show @last`);
}
