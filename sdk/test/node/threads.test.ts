import { Worker } from "node:worker_threads";
import { fileURLToPath } from "node:url";

import { expect, test } from "vitest";

import { failure } from "../code.js";
import { freshFolder } from "../places.node.js";
import { run } from "./child.js";

// As the workers import it: threads of one process share a store only through one copy of the addon.
const { attach, open } = await import("runlog");

function worker(data: object): Worker {
  return new Worker(fileURLToPath(new URL("./programs/worker.mjs", import.meta.url)), { workerData: data });
}

test("worker threads write to one store, and a second opening is refused", async () => {
  const path = await freshFolder();
  const store = await open(path);
  const { instance } = await store.startSession({}, "agent");
  const shared = await store.share();
  const told: Record<string, unknown>[] = [];
  const workers = [1, 2, 3].map(
    () =>
      new Promise<number>((resolve, reject) => {
        const thread = worker({ shared, path, instanceId: instance.id, count: 50 });
        thread.on("message", (message: Record<string, unknown>) => told.push(message));
        thread.on("error", reject);
        thread.on("exit", resolve);
      }),
  );
  const context = await store.context(instance.id);
  for (let index = 0; index < 50; index++) await context.appendMessage({ role: "user", content: "main" });
  expect(await Promise.all(workers)).toEqual([0, 0, 0]);
  expect(await context.getLastSequence()).toBe(200);
  expect(told.filter((message) => message["second"] === "locked")).toHaveLength(3);
  expect(told.filter((message) => message["closed"] === "closed")).toHaveLength(3);
  await store.close();
  await failure(attach(shared), "closed");
});

test("a worker thread that is ended in the middle leaves the store as it is", async () => {
  const path = await freshFolder();
  const store = await open(path);
  const { instance } = await store.startSession({}, "agent");
  const thread = worker({ shared: await store.share(), path, instanceId: instance.id, forever: true });
  await new Promise((resolve) => thread.on("message", resolve));
  await new Promise((resolve) => setTimeout(resolve, 50));
  await thread.terminate();
  const context = await store.context(instance.id);
  const before = await context.getLastSequence();
  expect(before).toBeGreaterThan(0);
  await context.appendMessage({ role: "user", content: "main" });
  await store.close();
  const again = await open(path);
  expect(await (await again.context(instance.id)).getLastSequence()).toBeGreaterThan(before);
  await again.close();
});

test.each([0, 20])("requests of a worker thread are written when the thread that shared the store closes it, with %i that were let go of", async (letGo) => {
  const path = await freshFolder();
  const store = await open(path);
  const { chatId } = await store.chats.create({ assistantId: "a" });
  const data = { shared: await store.share(), chatId, letGo };
  const thread = new Worker(fileURLToPath(new URL("./programs/asking-worker.mjs", import.meta.url)), { workerData: data });
  const ended = new Promise((resolve) => thread.on("exit", resolve));
  const told: unknown[] = [];
  await new Promise((resolve) => thread.on("message", (message) => resolve(told.push(message))));
  await store.close();
  expect(await ended).toBe(0);
  expect(told).toEqual(["ready", ["closed", "closed", "closed"]]);
  const again = await open(path);
  const requests = await again.chats.getRequests(chatId);
  expect(requests.map((request) => request.status)).toEqual(Array(letGo + 1).fill("interrupted"));
  expect(await again.chats.countMessages(chatId, { role: "assistant" })).toBeGreaterThanOrEqual(letGo + 1);
  await again.close();
});

test("a store that nobody holds any more is closed", async () => {
  const ended = await run("leaks.mjs", [await freshFolder()], { node: ["--expose-gc"] });
  expect(ended).toMatchObject({ code: 0, stderr: "" });
  expect(ended.stdout).toBe("clean: true 1\nmemory: true\n");
});

test("a large stream is read in little memory, however slow the reader", async () => {
  const megabytes = process.env["RUNLOG_BIG_MB"] ?? (process.env["RUNLOG_TORTURE"] === undefined ? "96" : "1024");
  const ended = await run("big.mjs", [await freshFolder(), megabytes], { node: ["--expose-gc"], seconds: 300 });
  expect(ended).toMatchObject({ code: 0, stderr: "" });
  const { read, heap, outside, resident } = JSON.parse(ended.stdout) as Record<string, number>;
  expect(read).toBe(Number(megabytes) << 20);
  expect(heap).toBeLessThan(32);
  expect(outside).toBeLessThan(64);
  expect(resident).toBeLessThan(200);
}, 300_000);
