// A program that ends while its store is being closed, with requests that are open.
import { setTimeout } from "node:timers/promises";
import { open } from "runlog";

const [path, how] = process.argv.slice(2);
const store = await open(path);
await store.chats.create({ chatId: "c", assistantId: "a" });
// In a function of its own: nothing else here holds the requests.
async function begun() {
  const request = await store.chats.beginRequest("c", { assistantId: "a", message: { type: "text", props: { content: "?" } } });
  await request.send({ role: "assistant", type: "text", props: { content: "half" } });
  return request;
}
globalThis.requests = [];
for (let at = 0; at < 20; at++) globalThis.requests.push(await begun());
const stop = () => store.close().then(() => process.exit(0));
if (how === "twice") await Promise.all([stop(), stop()]);
if (how === "exit") {
  void store.close();
  process.exit(0);
}
if (how === "signal") {
  void store.close();
  process.kill(process.pid, "SIGTERM");
}
if (how === "refused") {
  // Their own ends are refused, so that none is under way but that of the store.
  void store.close();
  await Promise.allSettled(globalThis.requests.map((request) => request.close()));
  process.kill(process.pid, "SIGTERM");
}
if (how === "throw") {
  void store.close();
  throw new Error("elsewhere");
}
if (how.startsWith("collected")) {
  globalThis.requests = undefined;
  await setTimeout(0);
  globalThis.gc();
  // What writes them hasn't begun yet, or is under way.
  if (!how.startsWith("collected just now")) await setTimeout(0);
  if (how.endsWith("closes")) await store.close();
  if (how.endsWith("closes and exits")) void store.close();
  if (how.endsWith("exits")) process.exit(0);
  if (how.endsWith("signal")) {
    process.kill(process.pid, "SIGTERM");
    await setTimeout(10_000);
  }
}
