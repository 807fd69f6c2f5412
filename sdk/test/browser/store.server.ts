// What the tests in the browser ask of Node: a store that Node has written, its files, and what Node answers about it.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import type { BrowserCommand } from "vitest/node";
import type {} from "@vitest/browser-playwright";
import type { CDPSession } from "playwright";

import { type OpenOptions, type Store, open } from "../../src/index.js";
import { answersOf } from "./answers.js";

/** A folder with a store of a run, a chat and many events, its files in base64, and what Node answers about it. */
export async function storeOfNode(_: unknown, events: number): Promise<{ files: Record<string, string>; answers: unknown }> {
  const folder = await mkdtemp(join(tmpdir(), "runlog-browser-"));
  try {
    await withStore(folder, (store) => fill(store, events));
    return { files: await filesOf(folder), answers: await withStore(folder, answersOf) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Reads the format by its page alone. `cargo xtask browser` builds it. */
const CHECKER = join(process.env["CARGO_TARGET_DIR"] ?? fileURLToPath(new URL("../../../target", import.meta.url)), "debug/checker");

/** What the independent checker of the format and Node say about a store that a browser has written. */
export async function answersOfNode(_: unknown, files: Record<string, string>): Promise<unknown> {
  const folder = await mkdtemp(join(tmpdir(), "runlog-browser-"));
  try {
    for (const [name, base64] of Object.entries(files)) await writeFile(join(folder, name), Buffer.from(base64, "base64"));
    const { stdout } = await promisify(execFile)(CHECKER, [folder]);
    if (!/^[1-9]\d* records in [1-9]\d* segments/.test(stdout)) throw new Error(`the checker says: ${stdout}`);
    const sound = await withStore(folder, (store) => store.verify());
    return { sound: sound.sound, answers: await withStore(folder, answersOf) };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Has the browser give the tests' origin no more than that; as much as ever when left out. */
export const setQuota: BrowserCommand<[bytes?: number]> = async ({ page, context }, bytes) => {
  const { origin } = new URL(page.url());
  // With the session ends what it has set.
  sessions[origin] ??= await context.newCDPSession(page);
  await sessions[origin].send("Storage.overrideQuotaForOrigin", { origin, ...(bytes === undefined ? {} : { quotaSize: bytes }) });
};

const sessions: Record<string, CDPSession> = {};

/** A file of this folder, as it is. */
async function filesOf(folder: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for (const name of await readdir(folder)) files[name] = (await readFile(join(folder, name))).toString("base64");
  return files;
}

export async function withStore<T>(folder: string, work: (store: Store) => Promise<T>, options?: OpenOptions): Promise<T> {
  const store = await open(folder, options);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** A run, a chat and many events. */
export async function fill(store: Store, events: number): Promise<void> {
  const run = await store.runs.start({ session: { title: "Fix it", project: "parser" }, agentName: "coder" });
  await run.nextStep();
  await run.recordMessage({ role: "user", content: "The parser drops the last line." });
  await run.recordMessage({ role: "assistant", content: "", tool_calls: [{ id: "c1", type: "function", function: { name: "read_file", arguments: '{"path":"parser.ts"}' } }] });
  await run.recordMessage({ role: "tool", tool_call_id: "c1", content: "const lines = text.split('\\n');" });
  await run.complete("fixed");
  const chat = await store.chats.create({ assistantId: "a", title: "Weather" });
  const request = await store.chats.beginRequest(chat.chatId, { assistantId: "a", message: { type: "text", props: { content: "Rain?" } } });
  await request.finish("completed");
  await store.agents.define({ name: "coder", description: "writes code", systemPrompt: "Write code." });
  const flow = await store.flows.create();
  await flow.record({ type: "flow:started", runId: flow.runId, timestamp: 0 });
  await flow.close();
  const streams = Array.from({ length: 10 }, () => store.newId());
  for (let at = 0; at < events; at += 1000) {
    const records = Array.from({ length: Math.min(1000, events - at) }, (_, index) => `event ${at + index} ${"x".repeat(200)}`);
    await store.streams.append(streams[(at / 1000) % 10] as string, records);
  }
  const [first = "", second = "", third = ""] = streams;
  await store.streams.snapshot(first, 100, "the state at 100");
  await store.streams.truncate(second, 500);
  await store.streams.fork(third, 300, store.newId());
  const { position } = (await store.streams.read(third, { first: 2, limit: 1 }).toArray())[0] as { position: number };
  await store.redact(position, "a secret");
}
