// Server code of an application, as it is given to Vite.
import { RunlogError, open } from "runlog";
import { createMockQuery } from "runlog/testing";

/** Records a run, resumes it in the store opened again, and says what is there. */
export async function answer(path) {
  const first = await open(path);
  const run = await first.runs.start({ session: { title: "Vite" }, agentName: "agent" });
  await run.recordMessage({ role: "user", content: "hi" });
  await first.close();
  const store = await open(path);
  const { messages } = await store.runs.resume(run.id);
  const error = await store.findSession("nobody").catch((error) => error);
  await store.close();
  return { first: messages[0], code: error instanceof RunlogError ? error.code : error, testing: typeof createMockQuery };
}

if (process.argv[2] === "run") answer(process.argv[3]).then((said) => console.log(JSON.stringify(said)));
