import { readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import { type Store, open, openInMemory } from "#runlog";
import { freshFolder, places } from "#places";
import { describe, expect, onTestFinished, test } from "vitest";

import { failure } from "../code.js";

async function empty(): Promise<Store> {
  const store = await openInMemory();
  onTestFinished(() => store.close());
  return store;
}

/** A path beside a folder of the test's own. */
async function fresh(name: string): Promise<string> {
  return join(dirname(await freshFolder()), name);
}

async function bytesOf(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

/** A chat with messages, and a run with a tool call. */
async function fill(store: Store): Promise<{ chatId: string; runId: string; sessionId: string }> {
  const { chatId } = await store.chats.create({ chatId: "trip", assistantId: "travel" });
  await store.chats.saveMessages(chatId, [{ role: "user", type: "text", props: { content: "é" } }]);
  const { session, instance } = await store.startSession({ name: "work" }, "coder");
  const recorder = await store.runs.start({ instanceId: instance.id });
  const call = { id: "a", type: "function", function: { name: "ls", arguments: "{}" } };
  await recorder.recordMessage({ role: "assistant", content: null, tool_calls: [call] });
  await recorder.recordToolResult({ toolCallId: "a", status: "completed", output: "x" });
  await recorder.complete("done");
  return { chatId, runId: recorder.id, sessionId: session.id };
}

describe.each(places)("archives $name", ({ fresh: freshStore }) => {
  test("a chat that was deleted is exported by the id of its session, and comes back as one that was deleted", async () => {
    const store = await freshStore();
    const { chatId } = await fill(store);
    const sessionId = await store.chats.sessionId(chatId);
    await store.chats.delete(chatId);
    const bytes = await bytesOf(store.export({ sessions: [sessionId] }));
    expect(bytes.toString()).toContain("é");
    await failure(bytesOf(store.export({ sessions: [chatId] })), "not_found");
    const unknown = await store.newId();
    await failure(bytesOf(store.export({ sessions: [unknown] })), "not_found");
    // A name may look like an id.
    await store.createSession({ name: unknown, title: "named" });
    expect((await bytesOf(store.export({ sessions: [unknown] }))).toString()).toContain("named");
    const other = await empty();
    await other.import(bytes);
    expect((await other.chats.list()).total).toBe(0);
    expect((await other.chats.list({ deleted: true })).items.map((chat) => chat.chatId)).toEqual([chatId]);
    await other.chats.restore(chatId);
    expect(await other.chats.countMessages(chatId)).toBe(1);
  });

  test("a store comes back from its export, by bytes and by file", async () => {
    const store = await freshStore();
    const { runId, sessionId } = await fill(store);
    const bytes = await bytesOf(store.export());
    expect(bytes.toString().split("\n")[0]).toBe('{"runlog":"archive","version":2}');
    const path = await fresh("all.jsonl");
    const done = await store.exportTo(path);
    expect(done.sessions).toHaveLength(2);
    expect((await readFile(path)).equals(bytes)).toBe(true);
    await expect(stat(`${path}.partial`)).rejects.toThrow();
    await failure(store.exportTo(path), "already_exists");

    const [one, other, third] = [await empty(), await empty(), await empty()];
    const given = Buffer.from(bytes);
    const importing = one.import(given);
    // Copied before the call returned, as all bytes that a call is given.
    given.fill(" ");
    const imported = await importing;
    expect(imported.sessions.map((it) => it.outcome)).toEqual(["created", "created"]);
    expect(imported.conflicts).toEqual([]);
    expect([imported.messages, imported.toolCalls]).toEqual([2, 1]);
    expect(await other.importFrom(path)).toEqual(imported);
    // In pieces of any size, and in pieces that come later.
    const pieces = (async function* () {
      for (let at = 0; at < bytes.length; at += 100) yield bytes.subarray(at, at + 100);
    })();
    expect(await third.import(pieces)).toEqual(imported);
    const ofStream = [new Blob([bytes]), new Blob([bytes]).stream(), new Response(bytes).body as NonNullable<Response["body"]>];
    const streamed = await Promise.all(ofStream.map(async (source) => {
      const copy = await empty();
      expect(await copy.import(source)).toEqual(imported);
      return copy;
    }));
    for (const copy of [one, other, third, ...streamed]) {
      expect((await copy.runs.get(runId))?.summary).toBe("done");
      expect((await copy.chats.getMessages("trip"))[0]?.props).toEqual({ content: "é" });
      expect((await copy.getSession(sessionId))?.name).toBe("work");
      const again = await copy.import([bytes]);
      expect(again.sessions.map((it) => it.outcome)).toEqual(["unchanged", "unchanged"]);
      expect([again.messages, again.toolCalls, again.other]).toEqual([0, 0, 0]);
    }
  });

  test("chats and runs are chosen by their ids", async () => {
    const store = await freshStore();
    const { chatId, runId, sessionId } = await fill(store);
    const chat = await empty();
    await chat.import(store.export({ sessions: [chatId] }));
    expect(await chat.chats.getMessages(chatId)).toHaveLength(1);
    expect(await chat.getSession(sessionId)).toBeUndefined();
    const run = await empty();
    await run.import(store.export({ runs: [runId] }));
    expect((await run.runs.get(runId))?.status).toBe("completed");
    expect(await run.chats.get(chatId)).toBeUndefined();
    await failure(bytesOf(store.export({ sessions: ["nobody"] })), "not_found");
    await failure(bytesOf(store.export({ runs: [store.newId()] })), "not_found");
    await failure(bytesOf(store.export({ runs: ["junk"] })), "invalid_input");
    await failure(bytesOf(store.export({ sessions: [] })), "invalid_input");
    await failure(bytesOf(store.export({ chats: ["trip"] } as never)), "invalid_input");
    await failure(store.exportTo(""), "invalid_input");
  });

  test("what is no archive, breaks off or went another way is refused or told", async () => {
    const store = await freshStore();
    const { sessionId } = await fill(store);
    const bytes = await bytesOf(store.export());
    const other = await empty();
    await failure(other.import(bytes.subarray(0, bytes.length - 10)), "invalid_input");
    await failure(other.import(Buffer.from("hello")), "invalid_input");
    await failure(other.import([] as Uint8Array[]), "invalid_input");
    await failure(other.import("text" as never), "invalid_input");
    await failure(other.import(["text"] as never), "invalid_input");
    await failure(other.import(new Blob(["text"])), "invalid_input");
    const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new Error("offline")) });
    await expect(other.import(broken)).rejects.toThrow("offline");
    expect((await failure(other.import(null as never), "invalid_input")).message).toContain("not null");
    let why: unknown;
    const waits = new ReadableStream<Uint8Array>({ cancel: (reason) => void (why = reason ?? "cancelled") });
    await failure(other.import(waits, { signal: AbortSignal.timeout(20) }), "aborted");
    await expect.poll(() => why).toBe("cancelled");
    // One that never ends and is no archive is refused by its beginning.
    const endless = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(Buffer.from("xxxx")) });
    await failure(other.import(endless), "invalid_input");
    const locked = new Blob([bytes]).stream();
    locked.getReader();
    await failure(other.import(locked), "invalid_input");
    const whole = new Blob([bytes]).stream();
    await (await empty()).import(whole);
    expect(whole.locked).toBe(false);
    await failure(other.importFrom(await fresh("nothing.jsonl")), "not_found");
    expect(await other.getSession(sessionId)).toBeUndefined();

    await other.createSession({ name: "work" });
    const told = await other.import(bytes);
    expect(told.sessions.map((it) => it.outcome).sort()).toEqual(["conflict", "created"]);
    expect(told.conflicts).toHaveLength(1);
    const path = await fresh("strict.jsonl");
    await writeFile(path, bytes);
    await failure(other.importFrom(path, { strict: true }), "conflict");
  });

  test("an export that nobody reads any more ends, and so does the store", async () => {
    const store = await freshStore();
    const stream = store.newId();
    for (let part = 0; part < 20; part++) {
      await store.streams.append(stream, Array.from({ length: 50 }, () => "x".repeat(4000)));
    }
    for await (const piece of store.export()) {
      expect(piece.length).toBeGreaterThan(0);
      break;
    }
    await store.close();
  });
});

test("a damaged store is exported as far as it can be read, with what is missing named", async () => {
  const path = await freshFolder();
  const store = await open(path);
  const { instance, session } = await store.startSession({ name: "first" }, "coder");
  const context = await store.context(instance.id);
  await context.appendMessage({ role: "user", content: "the first thing" });
  await context.appendMessage({ role: "user", content: "the second" });
  await store.createSession({ name: "other" });
  expect((await store.exportTo(await fresh("sound.jsonl"), { skipDamaged: true })).lost).toEqual([]);
  await store.close();
  const file = join(path, "00000001.seg");
  const bytes = await readFile(file);
  const at = bytes.indexOf("the first thing");
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  await writeFile(file, bytes);

  const damaged = await open(path, { mode: "readOnly" });
  onTestFinished(() => damaged.close());
  const refused = await failure(damaged.exportTo(await fresh("none.jsonl")), "damaged");
  expect(refused.message).toContain("`skipDamaged`");
  await failure(bytesOf(damaged.export({ skipDamaged: false })), "damaged");
  await failure(damaged.exportTo(await fresh("none.jsonl"), { skipDamaged: "yes" as never }), "invalid_input");
  const archive = await fresh("rest.jsonl");
  const { lost, sessions } = await damaged.exportTo(archive, { skipDamaged: true });
  expect(lost).toEqual([{ stream: instance.id, of: "context", sessionId: session.id, first: 1, last: 1, isSnapshot: false }]);
  expect(sessions).toHaveLength(2);
  expect(await bytesOf(damaged.export({ skipDamaged: true }))).toEqual(await readFile(archive));
  expect((await damaged.exportTo(await fresh("one.jsonl"), { sessions: ["other"], skipDamaged: true })).lost).toEqual([]);

  const again = await empty();
  const imported = await again.importFrom(archive);
  expect(imported.conflicts.map((it) => it.what).join()).toContain("was lost before it was exported");
  expect((await again.getSession((await again.findSession("other")).id))?.name).toBe("other");
});
