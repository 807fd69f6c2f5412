// A page that wants a store which lasts, and goes on without.
import { open, placeOf, RunlogError } from "runlog";

const name = `page ${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
const store = await open(name, { fallback: "memory" });
const run = await store.runs.start({ session: { title: "Fix it" }, agentName: "coder" });
await run.recordMessage({ role: "assistant", content: "I'll write a test first." });
await run.complete("fixed");
const { items } = await store.runs.list();
await store.close();
const code = await open(name).then((again) => again.close(), (error) => (error instanceof RunlogError ? error.code : String(error)));
document.title = JSON.stringify({ status: items[0].status, ...placeOf(store), code });
