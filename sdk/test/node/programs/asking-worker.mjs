// A worker thread with requests that are open as the store is closed by the thread that shared it: one goes on, as well as it may, and
// some are nobody's any more.

import { setTimeout } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { parentPort, workerData } from "node:worker_threads";
import { attach } from "runlog";

const { shared, chatId, letGo } = workerData;
const store = await attach(shared);
// In a function of its own: nothing else here holds the request.
async function begun() {
  const request = await store.chats.beginRequest(chatId, { assistantId: "a", message: { type: "text", props: { content: "?" } } });
  await request.send({ role: "assistant", type: "text", props: { content: "half" } });
  return request;
}
const request = await begun();
for (let at = 0; at < letGo; at++) await begun();
setFlagsFromString("--expose-gc");
await setTimeout(0);
runInNewContext("gc")();
await setTimeout(0);
parentPort.postMessage("ready");
for (;;) {
  try {
    await request.send({ role: "assistant", type: "text", props: { content: "more" } });
  } catch (error) {
    const end = await request.finish("completed").catch((error) => error.code);
    const flush = await request.flush().catch((error) => error.code);
    await store.close();
    parentPort.postMessage([error.code, end, flush]);
    break;
  }
  await setTimeout(1);
}
