// What is measured, each with its durable setting: what is awaited was handed to the browser's file system and flushed.
//
// Each has: append(stream, index) and appendBatch(stream, indexes), which are durable when they resolve unless it is kept in
// memory; first(stream), one event; events(stream), all of a stream as values; fold(), over all events; close().

import sqlite3InitModule from "/sqlite/index.mjs";
import { EVENTS, objects, texts } from "/events.mjs";
import { FILTERED_PATH, STREAMS, streamId } from "/workload.mjs";

const textOf = (index) => texts[index % EVENTS];

/** What a fold makes of events: how many are of one file, and how long they took. */
function folded(events, into = { count: 0, ms: 0 }) {
  for (const event of events) {
    if (event.toolInput.path === FILTERED_PATH) {
      into.count++;
      into.ms += event.durationMs;
    }
  }
  return into;
}

function runlogOn(store, RecordBatch) {
  const { streams } = store;
  const batch = new RecordBatch();
  return {
    append: (stream, index) => streams.append(streamId(stream), textOf(index)),
    appendBatch(stream, indexes) {
      batch.clear();
      for (const index of indexes) batch.add(textOf(index));
      return streams.append(streamId(stream), batch);
    },
    first: (stream) => streams.readValues(streamId(stream), { limit: 1 }).toArray(),
    events: (stream) => streams.readValues(streamId(stream)).toArray(),
    async fold() {
      const into = { count: 0, ms: 0 };
      for (let stream = 1; stream <= STREAMS; stream++) folded(await streams.readValues(streamId(stream)).toArray(), into);
      return into;
    },
    close: () => store.close(),
  };
}

async function runlog(name) {
  const { RecordBatch, open } = await import("/sdk/browser/browser/index.js");
  return runlogOn(await open(name), RecordBatch);
}

async function runlogInMemory() {
  const { RecordBatch, openInMemory } = await import("/sdk/browser/browser/index.js");
  return runlogOn(await openInMemory(), RecordBatch);
}

let sqlite;
let pool;

/** SQLite's own build, on the fastest of its places that keep anything: handles of files of the browser's file system. */
async function sqliteOf(name) {
  sqlite ??= await sqlite3InitModule({ print: () => {}, printErr: () => {} });
  if (name === undefined) return new sqlite.oo1.DB(":memory:");
  pool ??= await sqlite.installOpfsSAHPoolVfs({ name: "bench", initialCapacity: 16 });
  const database = new pool.OpfsSAHPoolDb(`/${name}`);
  // A write-ahead log is there for one connection alone, which all of them are here; FULL flushes at each commit.
  database.exec("PRAGMA locking_mode = exclusive; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
  return database;
}

async function sqliteStore(name) {
  const database = await sqliteOf(name);
  database.exec("CREATE TABLE IF NOT EXISTS events (stream INTEGER, sequence INTEGER, event TEXT, PRIMARY KEY (stream, sequence)) WITHOUT ROWID");
  const last = new Map();
  const insert = database.prepare("INSERT INTO events VALUES (?, ?, ?)");
  const select = database.prepare("SELECT event FROM events WHERE stream = ? ORDER BY sequence LIMIT ?");
  const put = (stream, index) => {
    const sequence = (last.get(stream) ?? 0) + 1;
    last.set(stream, sequence);
    insert.bind([stream, sequence, textOf(index)]).stepReset();
  };
  const read = (stream, limit) => {
    const events = [];
    select.bind([stream, limit]);
    while (select.step()) events.push(JSON.parse(select.getString(0)));
    select.reset();
    return events;
  };
  return {
    append: async (stream, index) => put(stream, index),
    async appendBatch(stream, indexes) {
      database.exec("BEGIN IMMEDIATE");
      for (const index of indexes) put(stream, index);
      database.exec("COMMIT");
    },
    first: async (stream) => read(stream, 1),
    events: async (stream) => read(stream, -1),
    async fold() {
      const sql = "SELECT count(*), sum(json_extract(event, '$.durationMs')) FROM events WHERE json_extract(event, '$.toolInput.path') = ?";
      const [count, ms] = database.selectArray(sql, [FILTERED_PATH]);
      return { count, ms };
    },
    async close() {
      insert.finalize();
      select.finalize();
      database.close();
    },
  };
}

const asked = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function indexedDb(name) {
  const opening = indexedDB.open(name, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore("events");
  const database = await asked(opening);
  const last = new Map();
  const written = (stream, indexes) => {
    // Without it Chromium doesn't flush.
    const transaction = database.transaction("events", "readwrite", { durability: "strict" });
    const events = transaction.objectStore("events");
    for (const index of indexes) {
      const sequence = (last.get(stream) ?? 0) + 1;
      last.set(stream, sequence);
      events.put(objects[index % EVENTS], [stream, sequence]);
    }
    transaction.commit();
    return new Promise((resolve, reject) => {
      transaction.oncomplete = () => resolve(undefined);
      transaction.onabort = () => reject(transaction.error);
    });
  };
  const read = (stream, count) =>
    asked(database.transaction("events").objectStore("events").getAll(IDBKeyRange.bound([stream, 0], [stream, Infinity]), count));
  return {
    append: (stream, index) => written(stream, [index]),
    appendBatch: written,
    first: (stream) => read(stream, 1),
    events: (stream) => read(stream),
    async fold() {
      const into = { count: 0, ms: 0 };
      for (let stream = 1; stream <= STREAMS; stream++) folded(await read(stream), into);
      return into;
    },
    close: async () => database.close(),
  };
}

/** A file of lines for each stream, in the browser's file system. */
async function jsonLines(name) {
  const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle(`lines-${name}`, { create: true });
  const files = new Map();
  const encoder = new TextEncoder();
  const decoder = new TextDecoder();
  const fileOf = (stream) => {
    let file = files.get(stream);
    if (file === undefined) {
      // Kept before it is there: others ask for it meanwhile.
      file = folder.getFileHandle(`${stream}.jsonl`, { create: true }).then((handle) => handle.createSyncAccessHandle());
      files.set(stream, file);
    }
    return file;
  };
  const written = async (stream, indexes) => {
    const file = await fileOf(stream);
    file.write(encoder.encode(indexes.map((index) => `${textOf(index)}\n`).join("")), { at: file.getSize() });
    file.flush();
  };
  const read = async (stream) => {
    const file = await fileOf(stream);
    const bytes = new Uint8Array(file.getSize());
    file.read(bytes, { at: 0 });
    return decoder.decode(bytes).trimEnd().split("\n");
  };
  const parsed = async (stream) => (await read(stream)).map((line) => JSON.parse(line));
  return {
    append: (stream, index) => written(stream, [index]),
    appendBatch: written,
    first: async (stream) => [JSON.parse((await read(stream))[0])],
    events: parsed,
    async fold() {
      const into = { count: 0, ms: 0 };
      for (let stream = 1; stream <= STREAMS; stream++) folded(await parsed(stream), into);
      return into;
    },
    async close() {
      for (const file of files.values()) (await file).close();
      files.clear();
    },
  };
}

/** What lasts, by name: each makes or opens a store of a name. */
export const kept = { runlog, "sqlite-wasm": sqliteStore, IndexedDB: indexedDb, "JSON lines": jsonLines };

/** What is in memory alone. */
export const inMemory = { runlog: runlogInMemory, "sqlite-wasm": () => sqliteStore() };
