// A process that is killed in the middle of a run, and the run that goes on in the next one.
//
//   node examples/crash-and-resume.mjs

import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { open } from "runlog";

const [path, role] = process.argv.slice(2);

if (role === "victim") await work();
else await main();

/** Works until it is killed, and says how far it is. */
async function work() {
  const store = await open(path);
  const run = await store.runs.start({ session: { title: "Count" }, agentName: "counter" });
  await run.recordMessage({ role: "user", content: "Count as far as you can." });
  console.log(run.id);
  for (;;) {
    const step = await run.nextStep();
    await run.recordMessage({ role: "assistant", content: `${step}` });
    console.log(step); // Said only once it is durable.
  }
}

async function main() {
  const path = join(mkdtempSync(join(tmpdir(), "runlog-example-")), "store");
  const victim = spawn(process.execPath, [fileURLToPath(import.meta.url), path, "victim"]);
  victim.stderr.pipe(process.stderr);
  let said = "";
  for await (const data of victim.stdout) {
    said += data;
    if (said.split("\n").length > 25) victim.kill("SIGKILL");
  }
  const lines = said.slice(0, said.lastIndexOf("\n")).split("\n");
  const [runId, acknowledged] = [lines[0], Number(lines.at(-1))];
  console.log(`killed after it had said step ${acknowledged}`);

  const store = await open(path); // What the crash left is recovered, and the run is paused.
  const paused = await store.runs.get(runId);
  console.log(`the run is ${paused.status} at step ${paused.stepCount}: ${paused.pauseReason.split(":")[0]}`);

  const { recorder, messages } = await store.runs.resume(runId, { message: "Go on counting." });
  const steps = messages.filter((message) => message.role === "assistant").map((message) => Number(message.content));
  const whole = steps.length >= acknowledged && steps.every((step, index) => step === index + 1);
  console.log(`its context has all ${steps.length} steps, in order: ${whole}`);
  const next = await recorder.nextStep();
  await recorder.recordMessage({ role: "assistant", content: `${next}` });
  await recorder.complete(`counted to ${next}`);
  console.log(`went on with step ${next}`);
  await store.close();
  console.log(`kept in ${path}: runlog --store ${path} runs`);
  if (!whole) process.exitCode = 1;
}
