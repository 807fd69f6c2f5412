// A worker thread that uses the store of the thread that started it.

import { parentPort, workerData } from "node:worker_threads";
import { attach, open } from "runlog";

const { shared, path, instanceId, count, forever } = workerData;
const second = await open(path).catch((error) => error.code);
const store = await attach(shared);
const context = await store.context(instanceId);
parentPort.postMessage({ second });
for (let index = 0; index < count || forever; index++) await context.appendMessage({ role: "user", content: "worker" });
await store.close();
const closed = await context.getMessages().catch((error) => error.code);
parentPort.postMessage({ closed });
