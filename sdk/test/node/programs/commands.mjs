import { open } from "runlog";

// Waits for a command that never comes, with a signal that keeps no process alive.
const store = await open(process.argv[2]);
const run = await store.runs.start({ session: {}, agentName: "asker" });
const flow = await store.flows.create(run.id);
console.log(await flow.nextCommands(run.id, AbortSignal.timeout(300)));
await store.close();
