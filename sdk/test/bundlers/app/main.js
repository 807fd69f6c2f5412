// An application's page: it opens a store of the browser's, writes, and says what it read.
import { init, open, persistence, RunlogError } from "runlog";

const options = globalThis.runlogOptions;
if (options !== undefined) await init(options);

const name = `page ${crypto.randomUUID()}`;
const store = await open(name);
const run = await store.runs.start({ session: { title: "Fix it" }, agentName: "coder" });
await run.nextStep();
await run.recordMessage({ role: "assistant", content: "I'll write a test first." });
await run.complete("fixed");
await store.close();

const again = await open(name);
const { items } = await again.runs.list();
const code = await again.findSession("nobody").catch((error) => (error instanceof RunlogError ? error.code : String(error)));
const { persisted } = await persistence();
document.title = JSON.stringify({ status: items[0].status, agentName: items[0].agentName, code, persisted });
