// A request that is open when its process ends in one of several ways.
import { createRequire } from "node:module";
import { open } from "runlog";

const [path, how] = process.argv.slice(2);
const store = await open(path);
const chat = await store.chats.create({ chatId: "c", assistantId: "a" });
const request = await store.chats.beginRequest(chat.chatId, { assistantId: "a", message: { type: "text", props: { content: "?" } } });
await request.startStep("llm", {});
const said = await request.send({ role: "assistant", type: "text", props: { content: "half" } });
if (how === "close") {
  await store.close();
} else if (how === "exit within a character") {
  await request.append(said, "\ud83d");
  process.exit(7);
} else if (how === "collected within a character") {
  // In a function of its own: nothing here holds the request that it begins.
  await (async () => {
    const other = await store.chats.beginRequest(chat.chatId, { assistantId: "a", message: { type: "text", props: { content: "!" } } });
    await other.send({ role: "assistant", type: "text", props: { content: "let go of \ud83d" } });
  })();
  while ((await store.chats.listRequests({ status: "interrupted" })).items.length === 0) {
    gc();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  await request.finish("completed");
  await store.close();
} else if (how === "exit") {
  process.exit(7);
} else if (how === "listener" || how === "once") {
  process[how === "once" ? "once" : "on"]("SIGTERM", async () => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    await request.finish("completed");
    await store.close();
  });
} else if (how.startsWith("signal-exit")) {
  const { default: third, onExit = third } = await import(how);
  onExit(() => console.log("hooks"));
}
if (how === "listeners removed") {
  process.removeAllListeners("SIGTERM");
  const { chatId } = await store.chats.create({ assistantId: "a" });
  globalThis.next = await store.chats.beginRequest(chatId, { assistantId: "a", message: { type: "text", props: { content: "?" } } });
}
if (how !== "close" && !how.startsWith("collected")) {
  console.log("ready");
  // Whatever it calls when the signal has come says nothing of that.
  if (how === "streams") for (const pause = () => new Promise((resolve) => setTimeout(resolve, 1)); ; await pause()) await request.append(said, "");
  if (how === "flushes") for (;;) await Promise.all([request.space.set("at", Date.now()), request.flush()]);
  if (how === "begins others") {
    const next = { assistantId: "a", message: { type: "text", props: { content: "!" } } };
    for (await request.close(); ; ) await store.chats.withRequest(chat.chatId, next, async () => {});
  }
  if (how === "ends it") {
    process.kill(process.pid, "SIGTERM");
    for (const begun = Date.now(); Date.now() - begun < 100; );
    await request.finish("completed");
  }
  if (how === "has the package twice") {
    const other = createRequire(import.meta.url)("runlog");
    const beside = await other.open(`${path}-2`);
    await beside.chats.create({ chatId: "c", assistantId: "a" });
    globalThis.beside = await beside.chats.beginRequest("c", { assistantId: "a", message: { type: "text", props: { content: "?" } } });
    console.log("both");
  }
  if (how === "never pauses") for (;;) await request.append(said, "");
  setTimeout(() => {}, 60_000).unref();
  if (how === "ended") await request.finish("completed");
  const timer = setInterval(() => {}, 1_000);
  process.once("beforeExit", () => clearInterval(timer));
  if (how === "listener" || how === "once") process.once("SIGTERM", () => clearInterval(timer));
}
