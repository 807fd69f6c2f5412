// A program that makes up the time, as tests do, and answers at once again and again.
import { mock } from "node:test";

const [path, how] = process.argv.slice(2);
const { setTimeout } = globalThis;
const stopped = () => (performance.now = () => 0);
if (how === "timers before") mock.timers.enable();
if (how === "clock before") stopped();
const { open } = await import("runlog");
if (how === "timers between") mock.timers.enable();
const store = await open(path);
if (how === "timers after") mock.timers.enable();
if (how === "clock after") stopped();
await store.chats.create({ chatId: "c", assistantId: "a" });
const request = await store.chats.beginRequest("c", { assistantId: "a", message: { type: "text", props: { content: "?" } } });
const said = await request.send({ role: "assistant", type: "text", props: { content: "" } });
let isOver = false;
setTimeout(() => (isOver = true), 100);
// Twice what the event loop waits for, in calls.
for (let calls = 0; calls < 20_000 || !isOver; calls++) await request.append(said, "x");
// What the core does meanwhile wakes this thread.
await Promise.all(Array.from({ length: 2000 }, () => store.chats.saveMessages("c", [{ role: "user", type: "text", props: {} }])));
await request.finish("completed");
await store.close();
console.log("over");
