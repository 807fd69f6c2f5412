import { type Store, deleteStore, listStores, open, persistence, storeFiles } from "#runlog";
import { freshName } from "#places";
import { commands } from "vitest/browser";
import { afterEach, expect, onTestFinished, test } from "vitest";

import { failure } from "../code.js";
import { answersOf } from "./answers.js";
import type {} from "./commands.js";

afterEach(() => commands.setQuota());

async function base64(files: ReadonlyMap<string, Blob>): Promise<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const [name, blob] of files) {
    const bytes = new Uint8Array(await blob.arrayBuffer());
    let text = "";
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    texts[name] = btoa(text);
  }
  return texts;
}

/** Tells what doesn't end, which the time-out of a test with many rounds doesn't. */
async function soon<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => (timer = setTimeout(() => reject(new Error(`${what} has not ended after 60 s`)), 60_000)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function work(store: Store): Promise<void> {
  const run = await store.runs.start({ session: { title: "Fix it" }, agentName: "coder" });
  await run.nextStep();
  await run.recordMessage({ role: "assistant", content: "I'll write a test first." });
  await run.complete("fixed");
  const stream = store.newId();
  for (let at = 0; at < 50; at += 1) await store.streams.append(stream, Array.from({ length: 20 }, (_, index) => `event ${at} ${index}`));
}

test("a store of the browser's is one that Node opens, with the same answers", async () => {
  const name = await freshName();
  const store = await open(name, { segmentBytesMax: 64 << 10 });
  await work(store);
  const answers = await answersOf(store);
  await failure(storeFiles(name), "locked");
  await store.close();
  expect(await commands.answersOfNode(await base64(await storeFiles(name)))).toEqual({ sound: true, answers });
});

/** Has a worker write to a store, terminates it, and looks at what is there, so many times; how many records are there then. */
async function terminated(rounds: number): Promise<number> {
  const name = await freshName();
  const stream = crypto.randomUUID();
  let written = 0;
  for (let round = 0; round < rounds; round += 1) {
    const worker = new Worker(new URL("./crasher.ts", import.meta.url), { type: "module" });
    let acknowledged = written;
    // While it opens what the one before left, or any time later.
    const moment = Math.random() * 500;
    const place = `${name}, terminated in round ${round} after ${moment} ms`;
    const up = new Promise<void>((resolve, reject) => {
      worker.addEventListener("error", (event) => reject(new Error(event.message)));
      worker.addEventListener("message", ({ data }: MessageEvent<{ opening?: true; count?: number }>) => {
        if (data.opening === true) setTimeout(resolve, moment);
        acknowledged = data.count ?? acknowledged;
      });
      worker.postMessage({ name, stream, from: written });
    });
    await soon(up, `${place}: the worker starts`);
    worker.terminate();
    // The first may not have come to make it.
    const store = await soon(open(name, { lockTimeoutMs: 10_000 }), `${place}: open`);
    const records = (await store.streams.get(stream)) === undefined ? [] : await soon(store.streams.read(stream).toArray(), `${place}: read`);
    expect(records.length, place).toBeGreaterThanOrEqual(acknowledged);
    expect(records.every((record, index) => record.text().startsWith(`event ${index + 1} x`))).toBe(true);
    expect((await soon(store.verify(), `${place}: verify`)).sound).toBe(true);
    written = records.length;
    await soon(store.close(), `${place}: close`);
  }
  return written;
}

test("what was acknowledged is there after the worker was terminated at 100 moments", { timeout: 600_000 }, async () => {
  // Browsers take longer to end a worker and begin the next than these work, so several stores have it at a time.
  const written = await Promise.all(Array.from({ length: 10 }, () => terminated(10)));
  // Most of them came to write, however much else the machine had to do.
  expect(written.reduce((sum, one) => sum + one)).toBeGreaterThan(50);
});

test("a full quota is told, loses nothing, and is gone on from when there is room", { timeout: 120_000 }, async () => {
  const store = await open(await freshName(), { segmentBytesMax: 1 << 20 });
  onTestFinished(() => store.close());
  const stream = store.newId();
  const { usedBytes = 0 } = await persistence();
  await commands.setQuota(usedBytes + (4 << 20));
  let acknowledged = 0;
  const full = async () => {
    for (; acknowledged < 1000; acknowledged += 1) await store.streams.append(stream, new Uint8Array(100_000).fill(acknowledged));
  };
  const error = await full().then(() => undefined, (error: Error) => error);
  expect(error).toMatchObject({ code: "storage_full" });
  expect(acknowledged).toBeLessThan(60);
  expect(await store.streams.get(stream)).toMatchObject({ lastSequence: acknowledged });
  await commands.setQuota();
  await store.streams.append(stream, "room again");
  const records = await store.streams.read(stream).toArray();
  expect(records.length).toBe(acknowledged + 1);
  expect(records.slice(0, -1).every((record, index) => record.payload.every((byte) => byte === index % 256))).toBe(true);
  expect((await store.verify()).sound).toBe(true);
});

/** The files below a folder, with those that the browser's file system has as a pool. */
async function* filesIn(folder: FileSystemDirectoryHandle): AsyncGenerator<File> {
  for await (const entry of folder.values()) {
    if (entry instanceof FileSystemDirectoryHandle) yield* filesIn(entry);
    else yield await (entry as FileSystemFileHandle).getFile();
  }
}

/** In how many files of the browser's file system a text stands. */
async function filesWith(text: string): Promise<number> {
  let count = 0;
  for await (const file of filesIn(await navigator.storage.getDirectory())) if ((await file.text()).includes(text)) count += 1;
  return count;
}

test("what was erased is in no file any more, also in those that are kept for later", async () => {
  const name = await freshName();
  const secret = `secret-${crypto.randomUUID()}`;
  const store = await open(name, { segmentBytesMax: 64 << 10 });
  const { session, instance } = await store.startSession({ title: secret }, "agent");
  const context = await store.context(instance.id);
  for (let at = 0; at < 100; at += 1) await context.appendMessage({ role: "user", content: `${secret} ${"x".repeat(3000)}` });
  expect(await filesWith(secret)).toBeGreaterThan(3);
  expect(await store.erase({ sessions: [session.id], reason: "asked to" })).toMatchObject({ isGone: true, records: 101 });
  expect(await filesWith(secret)).toBe(0);
  await store.close();
  expect(await filesWith(secret)).toBe(0);
  const again = await open(name);
  expect((await again.getSession(session.id))?.title).toBeUndefined();
  await again.close();
  expect(await filesWith(secret)).toBe(0);
});

test("a store that there is no room for is told as that, and can be made when there is", async () => {
  const name = await freshName();
  await commands.setQuota(1000);
  try {
    await failure(open(name), "storage_full");
  } finally {
    await commands.setQuota();
  }
  await (await open(name)).close();
});

test("an opening that is refused makes no store, and a store that was there stays", async () => {
  const name = await freshName();
  for (const options of [{ segmentBytesMax: 1 }, { flushMs: "soon" }, { lockTimeoutMs: -1 }, { lockTimeoutMs: "1s" }, { lockTimeoutMs: Number.NaN }, { mode: "ro" }, { missing: "make" }]) {
    await failure(open(name, options as never), "invalid_input");
    await expect.poll(listStores, { message: JSON.stringify(options) }).not.toContain(name);
  }
  const timeout = await failure(open(name, { lockTimeoutMs: -1 }), "invalid_input");
  expect(timeout.message).toBe("`lockTimeoutMs`: -1 is not a whole number, 0 or more");
  const store = await open(name);
  const session = await store.createSession();
  await store.close();
  await failure(open(name, { segmentBytesMax: 1 }), "invalid_input");
  const again = await open(name, { lockTimeoutMs: 10_000_000_000 });
  expect(await again.getSession(session.id)).toBeDefined();
  await again.close();
  await deleteStore(name);
  expect(await listStores()).not.toContain(name);
  for (const call of [deleteStore, storeFiles]) {
    await failure(call(undefined as never), "invalid_input");
    await failure(call(""), "invalid_input");
    await failure(call(name), "not_found");
  }
});

test("stores are listed and deleted by name, whatever is in it", async () => {
  const name = `test ${crypto.randomUUID()}/../ä %2F`;
  await (await open(name)).close();
  expect(await listStores()).toContain(name);
  const reader = await open(name, { mode: "readOnly" });
  await failure(reader.createSession(), "read_only");
  await failure(deleteStore(name), "locked");
  await reader.close();
  await deleteStore(name);
  expect(await listStores()).not.toContain(name);
  await failure(deleteStore(name), "not_found");
  await failure(open(name, { missing: "fail" }), "not_found");
  await failure(open(""), "invalid_input");
  await failure(open("half \ud800"), "invalid_input");
  await failure(open("é".repeat(100)), "invalid_input");
  for (const name of [".", "..", "../x", "a b/ü?%2E"]) {
    const store = await open(name);
    await store.createSession({ title: name });
    await store.close();
    expect(await listStores()).toContain(name);
    const again = await open(name, { mode: "readOnly" });
    expect((await again.listSessions()).items.map(({ title }) => title)).toEqual([name]);
    await again.close();
    await deleteStore(name);
    expect(await listStores()).not.toContain(name);
  }
});

test("an option that isn't known is told with those of a store in a browser", async () => {
  const { message } = await failure(open(await freshName(), { fallbak: "memory" } as never), "invalid_input");
  expect(message).toMatch(/`fallbak` is not a field that is known here; known are .*`lockTimeoutMs`.*`fallback`$/);
});
