import { spawnSync } from "node:child_process";
import { chmod, mkdir, mkdtemp, open as openFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { type RequestBuffer, RunlogError, open } from "#runlog";
import { expect, onTestFinished, test } from "vitest";

import { failure } from "../code.js";
import { freshFolder } from "../places.node.js";
import { start } from "./child.js";

const isRoot = process.getuid?.() === 0;

test("a path that is no folder, no store, or of no right form is refused by name", async () => {
  const path = await freshFolder();
  await mkdir(path, { recursive: true });
  const file = join(path, "file");
  await writeFile(file, "not a store");
  for (const wrong of [file, join(file, "below")]) {
    const error = await open(wrong).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(RunlogError);
    expect(["not_a_store", "io", "not_found"]).toContain((error as RunlogError).code);
    expect((error as RunlogError).message).toContain("file");
  }
  await failure(open(path), "not_a_store");
  await failure(open(join(path, "x".repeat(300))), "io");
  await symlink(join(path, "loop"), join(path, "loop"));
  await failure(open(join(path, "loop")), "io");
  for (const wrong of ["", "a\0b", "\ud800", undefined, 5, null, {}, new URL("file:///tmp"), Buffer.from("x")]) {
    await failure(open(wrong as never), "invalid_input");
  }
  await failure(open("/proc/runlog"), "io");
});

test("thousands of openings at a time: one has the store, the others are told, and it opens again", async () => {
  const path = await freshFolder();
  const opened = await Promise.allSettled(Array.from({ length: 2000 }, () => open(path)));
  const stores = opened.flatMap((it) => (it.status === "fulfilled" ? [it.value] : []));
  const codes = opened.flatMap((it) => (it.status === "rejected" ? [(it.reason as RunlogError).code] : []));
  expect(stores).toHaveLength(1);
  expect(new Set(codes)).toEqual(new Set(["locked"]));
  const readers = await Promise.all(Array.from({ length: 100 }, () => open(path, { mode: "readOnly" })));
  await stores[0]?.createSession({ title: "one" });
  for (const reader of readers) expect((await reader.listSessions()).items.length).toBeLessThanOrEqual(1);
  await Promise.all([...readers, ...stores].map((store) => store.close()));
  await (await open(path)).close();
});

test("a store that another process has open is locked until that process is gone", async () => {
  const path = await freshFolder();
  const store = await open(path);
  const { instance } = await store.startSession({}, "a");
  await store.close();
  const child = start("appender.mjs", [path, instance.id]);
  while (!child.said().includes("ready\n")) await new Promise((resolve) => setTimeout(resolve, 5));
  await failure(open(path), "locked");
  const reader = await open(path, { mode: "readOnly" });
  await failure(reader.createSession(), "read_only");
  child.process.kill("SIGKILL");
  await child.ended;
  await (await open(path)).close();
  expect((await reader.verify()).sound).toBe(true);
  await reader.close();
});

test("a damaged segment is told, by every way of reading, and nothing is written over", async () => {
  const path = await freshFolder();
  const store = await open(path, { segmentBytesMax: 64 << 10 });
  const stream = store.newId();
  for (let index = 0; index < 40; index++) await store.streams.append(stream, new Uint8Array(8 << 10).fill(index));
  await store.close();
  const [first] = (await readdir(path, { recursive: true })).filter((name) => /seg|\.log|0000/.test(name)).sort();
  const file = await openFile(join(path, first as string), "r+");
  await file.write(Buffer.from("damaged!"), 0, 8, 20_000);
  await file.close();
  const again = await open(path).catch((error: RunlogError) => error);
  if (again instanceof RunlogError) expect(again.code).toBe("damaged");
  else {
    await failure(again.streams.read(stream).toArray(), "damaged");
    await failure(again.read().toArray(), "damaged");
    const found = await again.verify();
    expect(found.sound).toBe(false);
    expect(found.problems[0]?.message).not.toBe("");
    // What is sound can be read, and written on.
    await again.streams.append(stream, "after");
    expect((await again.streams.read(stream, { backward: true, limit: 1 }).toArray())[0]?.text()).toBe("after");
    await again.close();
  }
});

test.skipIf(isRoot)("a folder without rights is refused", async () => {
  const path = await freshFolder();
  await (await open(path)).close();
  await chmod(path, 0o500);
  const error = await open(path).catch((error: RunlogError) => error);
  await chmod(path, 0o700);
  expect((error as RunlogError).code).toBe("permission_denied");
});

const canMount = isRoot && process.platform === "linux" && spawnSync("unshare", ["-m", "true"]).status === 0;

async function mounted(options: string): Promise<string | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "runlog-disk-"));
  if (spawnSync("mount", ["-t", "tmpfs", "-o", options, "tmpfs", folder]).status !== 0) return undefined;
  onTestFinished(async () => {
    spawnSync("umount", ["-l", folder]);
    await rm(folder, { recursive: true, force: true });
  });
  return folder;
}

test.runIf(canMount)("a full disk is told, nothing acknowledged is lost, and it goes on when there is space", async (context) => {
  const folder = await mounted("size=3m");
  if (folder === undefined) return context.skip("no file system can be mounted here");
  const ballast = join(folder, "ballast");
  const store = await open(join(folder, "store"), { segmentBytesMax: 256 << 10, preallocation: "none" });
  const stream = store.newId();
  await writeFile(ballast, new Uint8Array(512 << 10));
  let acknowledged = 0;
  let full: unknown;
  while (full === undefined && acknowledged < 1000) {
    full = await store.streams.append(stream, new Uint8Array(16 << 10)).then(() => void acknowledged++, (error: unknown) => error);
  }
  expect(full).toBeInstanceOf(RunlogError);
  expect(["storage_full", "outcome_unknown", "poisoned"]).toContain((full as RunlogError).code);
  if ((full as RunlogError).code === "storage_full") expect((full as RunlogError).message).toMatch(/; free some space on the disk, then try again$/);
  // Reading goes on.
  expect((await store.streams.read(stream).toArray()).length).toBe(acknowledged);
  await store.close().catch(() => {});
  await rm(ballast);
  const again = await open(join(folder, "store"), { segmentBytesMax: 256 << 10, preallocation: "none" });
  expect((await again.streams.get(stream))?.lastSequence).toBeGreaterThanOrEqual(acknowledged);
  await again.streams.append(stream, "there is space again");
  expect((await again.verify()).sound).toBe(true);
  await again.close();
});

test.runIf(canMount)("a disk that fills up while close() waits for writes loses nothing acknowledged", async (context) => {
  const folder = await mounted("size=3m");
  if (folder === undefined) return context.skip("no file system can be mounted here");
  const options = { segmentBytesMax: 256 << 10, preallocation: "none" } as const;
  const ballast = join(folder, "ballast");
  const store = await open(join(folder, "store"), options);
  const { instance } = await store.startSession({}, "a");
  const run = await store.runs.start({ instanceId: instance.id });
  await writeFile(ballast, new Uint8Array(512 << 10));
  // They wait for each other, and close() for all of them; the disk takes about half.
  const texts = Array.from({ length: 300 }, (_, index) => `${index} ${"x".repeat(16 << 10)}`);
  const writes = texts.map((content) => run.recordMessage({ role: "user", content }));
  const closing = store.close().catch((error: unknown) => error);
  const ended = await Promise.allSettled(writes);
  const failed = await closing;
  if (failed !== undefined) expect(failed).toBeInstanceOf(RunlogError);
  const reasons = ended.flatMap((it) => (it.status === "rejected" ? [(it.reason as RunlogError).code] : []));
  expect(reasons.length).toBeGreaterThan(0);
  expect(reasons.length).toBeLessThan(texts.length);
  expect(["storage_full", "outcome_unknown"]).toContain(reasons[0]);
  for (const code of reasons) expect(["storage_full", "outcome_unknown", "poisoned"]).toContain(code);
  await rm(ballast);
  const again = await open(join(folder, "store"), options);
  const there = new Set((await (await again.context(instance.id)).getMessages()).map((message) => message.content));
  for (const [index, it] of ended.entries()) if (it.status === "fulfilled") expect(there.has(texts[index])).toBe(true);
  expect((await again.verify()).sound).toBe(true);
  await again.close();
});

test.runIf(canMount).each([false, true])("a request that a full disk keeps from being written is told of by close(), and not ended (flushed: %s)", async (isFlushed) => {
  const folder = await mounted("size=24m");
  if (folder === undefined) return;
  const path = join(folder, "store");
  const store = await open(path, { segmentBytesMax: 256 << 10, preallocation: "none" });
  const { chatId } = await store.chats.create({ assistantId: "a" });
  const request = await store.chats.beginRequest(chatId, { assistantId: "a", message: { type: "text", props: { content: "?" } } });
  await request.send({ role: "assistant", type: "text", props: { content: "x".repeat(5 << 20) } });
  const other = await store.chats.create({ assistantId: "a" });
  const second = await store.chats.beginRequest(other.chatId, { assistantId: "a", message: { type: "text", props: { content: "?" } } });
  await second.send({ role: "assistant", type: "text", props: { content: "x".repeat(5 << 20) } });
  const ballast = join(folder, "ballast");
  const filled = await writeFile(ballast, new Uint8Array(32 << 20)).catch((error: NodeJS.ErrnoException) => error.code);
  expect(filled).toBe("ENOSPC");
  if (isFlushed) await failure(request.flush(), "storage_full");
  const refused = await failure(store.close(), "storage_full");
  expect(refused.message).toContain(`request "${request.requestId}" of chat "${chatId}" could not be written`);
  expect(refused.message).toMatch(/; 1 more could not be written$/);
  await rm(ballast);
  const again = await open(path);
  expect(await again.chats.getRequests(chatId)).toMatchObject([{ status: "running" }]);
  expect(await again.chats.countMessages(chatId)).toBe(1);
  await again.close();
});

test.runIf(canMount)("a request that a full disk keeps from being written as a signal ends the process is told of there", async (context) => {
  const folder = await mounted("size=24m");
  if (folder === undefined) return context.skip("no file system can be mounted here");
  const program = `
    import { writeFileSync } from "node:fs";
    import { open } from "runlog";
    const store = await open(${JSON.stringify(join(folder, "store"))});
    const { chatId } = await store.chats.create({ assistantId: "a" });
    globalThis.request = await store.chats.beginRequest(chatId, { assistantId: "a", message: { type: "text", props: { content: "?" } } });
    await request.send({ role: "assistant", type: "text", props: { content: "x".repeat(5 << 20) } });
    try { writeFileSync(${JSON.stringify(join(folder, "ballast"))}, new Uint8Array(32 << 20)); } catch {}
    process.kill(process.pid, "SIGTERM");
    setTimeout(() => {}, 60_000);
  `;
  const cwd = fileURLToPath(new URL("../..", import.meta.url));
  const { status, stderr } = spawnSync(process.execPath, ["--input-type=module", "--eval", program], { cwd, encoding: "utf8", timeout: 50_000 });
  expect(stderr).toMatch(/^runlog: as a signal ended the process, 1 of its requests could not be written: .+\n$/);
  expect(status).toBe(143);
});

test.runIf(canMount)("a file system that is read-only is told, and read", async (context) => {
  const folder = await mounted("size=64m");
  if (folder === undefined) return context.skip("no file system can be mounted here");
  const path = join(folder, "store");
  const store = await open(path);
  await store.createSession({ title: "kept" });
  await store.close();
  // The system refuses it while a file is open for writing, which a process that was started meanwhile may have inherited.
  await expect.poll(() => spawnSync("mount", ["-o", "remount,ro", folder]).status, { timeout: 20_000 }).toBe(0);
  await failure(open(path), "read_only");
  await expect(open(path)).rejects.toThrow(/; open it for reading only, or make it writable for this user$/);
  await failure(open(join(folder, "other")), "read_only");
  const reader = await open(path, { mode: "readOnly" });
  expect((await reader.listSessions()).items[0]?.title).toBe("kept");
  await reader.close();
});

test.runIf(canMount)("a request whose end the disk has no room for is left to be ended again, by whoever comes to it", async (context) => {
  const folder = await mounted("size=24m");
  if (folder === undefined) return context.skip("no file system can be mounted here");
  let store = await open(join(folder, "store"), { preallocation: "none" });
  await store.chats.create({ chatId: "c", assistantId: "a" });
  const asked = (requestId: string) => ({ requestId, assistantId: "a", message: { type: "text", props: { content: "q" } } });
  const large = { role: "assistant", type: "text", props: { content: "x".repeat(2 << 20) } } as const;
  const begun = async (requestId: string) => {
    const request = await store.chats.beginRequest("c", asked(requestId));
    await request.send(large);
    return request;
  };
  const [closed, finished, disposed] = [await begun("closed"), await begun("finished"), await begun("disposed")];
  const ballast = join(folder, "ballast");
  const full = async () => {
    const file = await openFile(ballast, "w");
    const piece = new Uint8Array(64 << 10);
    await expect((async () => { for (;;) await file.write(piece); })()).rejects.toThrow("ENOSPC");
    await file.close();
  };
  let held: RequestBuffer | undefined;
  const working = store.chats.withRequest("c", asked("worked on"), async (request) => {
    held = request;
    await request.send(large);
    await full();
  });
  await failure(working, "storage_full");
  await failure(held?.close() as Promise<void>, "storage_full");
  await failure(closed.close(), "storage_full");
  await failure(closed.close(), "storage_full");
  await failure(finished.close(), "storage_full");
  await failure(disposed[Symbol.asyncDispose](), "storage_full");
  expect([closed, finished, disposed].map((request) => request.hasEnded)).toEqual([false, false, false]);
  await rm(ballast);
  await closed.close();
  await finished.finish("completed");
  await store.close();
  store = await open(join(folder, "store"), { preallocation: "none" });
  const statuses = (await store.chats.getRequests("c")).map(({ requestId, status }) => [requestId, status]);
  const interrupted = ["closed", "disposed", "worked on"].map((requestId) => [requestId, "interrupted"]);
  expect(statuses).toEqual([interrupted[0], ["finished", "completed"], interrupted[1], interrupted[2]]);
  const said = await store.chats.getMessages("c", { role: "assistant" });
  expect(said.map(({ props }) => (props.content as string).length)).toEqual(Array(4).fill(2 << 20));
  await store.close();
});
