// An agent, or a flow alone, that tells each command that it gets; the agent until it is stopped.

import { open } from "runlog";

const [path, how] = process.argv.slice(2);
const store = await open(path);
if (how === "flow") {
  const flow = await store.flows.create();
  console.log(flow.runId);
  for (let taken = []; taken.length === 0; ) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    await flow.refresh();
    taken = await flow.takeInbox(flow.runId);
    for (const command of taken) console.log(command.message);
  }
} else {
  await store.agents.put({ name: "worker" });
  const worker = async (context) => {
    for (;;) {
      const { message } = await context.nextCommand();
      await context.recordMessage({ role: "assistant", content: `I do: ${message}` });
      console.log(message);
    }
  };
  const orchestrator = await store.orchestrator({ agents: { worker } });
  const run = await orchestrator.start({ agentName: "worker", task: "x" });
  console.log(run.runId);
  const { status } = await run.wait();
  console.log(status);
}
await store.close();
