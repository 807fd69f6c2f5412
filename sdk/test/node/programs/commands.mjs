// Waits for a command that never comes, in a process that nothing else keeps alive.

import { open } from "runlog";

const [path, how] = process.argv.slice(2);
const store = await open(path);
/** A signal that keeps no process alive. */
const soon = () => AbortSignal.timeout(300);

if (how === "flow") {
  const run = await store.runs.start({ session: {}, agentName: "asker" });
  const flow = await store.flows.create(run.id);
  console.log(await flow.nextCommands(run.id, soon()));
  await store.close();
} else {
  await store.agents.put({ name: "asker" });
  const ways = {
    "its signal": async (context) => await context.nextCommand({ signal: soon() }).catch(({ code }) => code),
    "a cancellation": (context) => {
      soon().addEventListener("abort", () => void orchestrator.cancel(context.runId));
      return context.nextCommand().then(() => "a command", ({ code }) => code);
    },
    async "its end"(context) {
      void context.nextCommand().catch(({ code }) => console.log(code));
      await new Promise((resolve) => setTimeout(resolve, 50));
      return "it has returned";
    },
    async "its orchestrator"(context) {
      setTimeout(() => void orchestrator.close(), 50);
      await context.nextCommand().catch(({ code }) => console.log("told:", code));
    },
  };
  const orchestrator = await store.orchestrator({ agents: { asker: ways[how] } });
  const run = await orchestrator.start({ agentName: "asker", task: "x" });
  const ended = await run.wait().catch(({ code }) => ({ status: code }));
  console.log(ended.status, ended.summary);
}
