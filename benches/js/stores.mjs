// The stores that are measured, each the way its own manual says for this work, with its durable setting: what is awaited
// is on the device.
//
// Each has: append(stream, index), which is durable when it resolves; appendBatch(stream, indexes), all of it with one
// flush; fill(stream, count), which needn't be durable; readObjects(stream) and readBytes(stream), the events of a stream in
// order, as values and as one piece of memory each; close().

import { open as openFile, readFile } from "node:fs/promises";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { EVENTS, bytes, objects, streamId, texts } from "./workload.mjs";

/** The key of a stream's event, in the order of streams and sequences. */
function keyOf(stream, sequence) {
  const key = Buffer.allocUnsafe(8);
  key.writeUInt32BE(stream, 0);
  key.writeUInt32BE(sequence, 4);
  return key;
}

/** The last sequences of streams, as a writer knows them. */
class Sequences {
  #last = new Map();
  next(stream) {
    const next = (this.#last.get(stream) ?? 0) + 1;
    this.#last.set(stream, next);
    return next;
  }
}

async function runlog(folder, { durability } = {}) {
  const { RecordBatch, open } = await import("runlog");
  const store = await open(folder, durability === undefined ? {} : { durability });
  const { streams } = store;
  const batch = new RecordBatch();
  const filled = (indexes) => {
    batch.clear();
    for (const index of indexes) batch.add(bytes[index % EVENTS]);
    return batch;
  };
  return {
    append: (stream, index) => streams.append(streamId(stream), bytes[index % EVENTS]),
    appendBatch: (stream, indexes) => streams.append(streamId(stream), filled(indexes)),
    appendObject: (stream, index) => streams.append(streamId(stream), { json: objects[index % EVENTS] }),
    appendObjects(stream, indexes) {
      batch.clear();
      for (const index of indexes) batch.add(JSON.stringify(objects[index % EVENTS]));
      return streams.append(streamId(stream), batch);
    },
    fill: (stream, count) => streams.append(streamId(stream), filled(Array(count).keys()), { durability: "os" }),
    readObjects: (stream) => streams.readValues(streamId(stream)).toArray(),
    async readBytes(stream) {
      const records = await streams.read(streamId(stream)).toArray();
      return records.map((record) => record.payload);
    },
    close: () => store.close(),
  };
}

const TABLE =
  "CREATE TABLE IF NOT EXISTS events (stream INTEGER, sequence INTEGER, event, PRIMARY KEY (stream, sequence)) WITHOUT ROWID";

/** SQLite in WAL mode, where FULL is what makes a commit last through a loss of power. */
function sqlite(database) {
  for (const pragma of ["journal_mode = WAL", "synchronous = FULL"]) database.exec(`PRAGMA ${pragma}`);
  database.exec(TABLE);
  const insert = database.prepare("INSERT INTO events VALUES (?, ?, ?)");
  const select = database.prepare("SELECT event FROM events WHERE stream = ? ORDER BY sequence");
  const sequences = new Sequences();
  const put = (stream, index) => insert.run(stream, sequences.next(stream), bytes[index % EVENTS]);
  const batched = (stream, indexes) => {
    database.exec("BEGIN IMMEDIATE");
    for (const index of indexes) put(stream, index);
    database.exec("COMMIT");
  };
  return {
    append: async (stream, index) => void put(stream, index),
    appendBatch: async (stream, indexes) => batched(stream, indexes),
    fill: async (stream, count) => batched(stream, Array(count).keys()),
    readObjects: async (stream) => select.all(stream).map((row) => JSON.parse(Buffer.from(row.event.buffer, row.event.byteOffset, row.event.length).toString())),
    readBytes: async (stream) => select.all(stream).map((row) => row.event),
    close: async () => database.close(),
  };
}

async function betterSqlite3(folder) {
  const { default: Database } = await import("better-sqlite3");
  mkdirSync(folder, { recursive: true });
  return sqlite(new Database(join(folder, "events.db")));
}

async function nodeSqlite(folder) {
  const { DatabaseSync } = await import("node:sqlite");
  mkdirSync(folder, { recursive: true });
  return sqlite(new DatabaseSync(join(folder, "events.db")));
}

async function lmdb(folder) {
  const { open } = await import("lmdb");
  // Kept as bytes; objects are read with its own encoding, msgpackr, from a database of their own.
  const root = open({ path: folder, mapSize: 16 << 30 });
  const asBytes = root.openDB("bytes", { encoding: "binary", keyEncoding: "binary" });
  const asObjects = root.openDB("objects", { encoding: "msgpack", keyEncoding: "binary" });
  const sequences = new Sequences();
  const put = (stream, index) => asBytes.put(keyOf(stream, sequences.next(stream)), bytes[index % EVENTS]);
  const range = (stream) => ({ start: keyOf(stream, 0), end: keyOf(stream + 1, 0) });
  return {
    async append(stream, index) {
      await put(stream, index);
      await asBytes.flushed;
    },
    async appendBatch(stream, indexes) {
      await asBytes.transaction(() => {
        for (const index of indexes) put(stream, index);
      });
      await asBytes.flushed;
    },
    async fill(stream, count) {
      for (let index = 0; index < count; index++) {
        const key = keyOf(stream, sequences.next(stream));
        asBytes.put(key, bytes[index % EVENTS]);
        asObjects.put(key, objects[index % EVENTS]);
      }
      await root.flushed;
    },
    readObjects: async (stream) => asObjects.getRange(range(stream)).map(({ value }) => value).asArray,
    readBytes: async (stream) => asBytes.getRange(range(stream)).map(({ value }) => value).asArray,
    close: () => root.close(),
  };
}

async function classicLevel(folder) {
  const { ClassicLevel } = await import("classic-level");
  const level = new ClassicLevel(folder, { keyEncoding: "buffer", valueEncoding: "buffer" });
  await level.open();
  const sequences = new Sequences();
  const operation = (stream, index) => {
    return { type: "put", key: keyOf(stream, sequences.next(stream)), value: bytes[index % EVENTS] };
  };
  const range = (stream) => ({ gte: keyOf(stream, 0), lt: keyOf(stream + 1, 0) });
  return {
    append: (stream, index) => level.put(keyOf(stream, sequences.next(stream)), bytes[index % EVENTS], { sync: true }),
    appendBatch: (stream, indexes) => level.batch(Array.from(indexes, (index) => operation(stream, index)), { sync: true }),
    fill: (stream, count) => level.batch(Array.from({ length: count }, (_, index) => operation(stream, index))),
    readObjects: (stream) => level.values({ ...range(stream), valueEncoding: "json" }).all(),
    readBytes: (stream) => level.values(range(stream)).all(),
    close: () => level.close(),
  };
}

/** A file of JSON lines for each stream. */
async function jsonl(folder) {
  mkdirSync(folder, { recursive: true });
  const pathOf = (stream) => join(folder, `${stream}.jsonl`);
  const files = new Map();
  const fileOf = (stream) => {
    if (!files.has(stream)) files.set(stream, openFile(pathOf(stream), "a"));
    return files.get(stream);
  };
  const write = async (stream, text, isDurable = true) => {
    const file = await fileOf(stream);
    await file.appendFile(text);
    if (isDurable) await file.datasync();
  };
  const lines = (indexes) => Array.from(indexes, (index) => `${texts[index % EVENTS]}\n`).join("");
  return {
    append: (stream, index) => write(stream, `${texts[index % EVENTS]}\n`),
    appendBatch: (stream, indexes) => write(stream, lines(indexes)),
    fill: (stream, count) => write(stream, lines(Array(count).keys()), false),
    async readObjects(stream) {
      const text = await readFile(pathOf(stream), "utf8");
      const found = text.split("\n");
      found.pop();
      return found.map((line) => JSON.parse(line));
    },
    async readBytes(stream) {
      const file = await readFile(pathOf(stream));
      const found = [];
      for (let at = 0; at < file.length; ) {
        const end = file.indexOf(10, at);
        found.push(file.subarray(at, end));
        at = end + 1;
      }
      return found;
    },
    async close() {
      for (const file of files.values()) await (await file).close();
    },
  };
}

/** The stores by name: Runlog first. */
export const stores = {
  runlog,
  "better-sqlite3": betterSqlite3,
  "node:sqlite": nodeSqlite,
  lmdb,
  "classic-level": classicLevel,
  JSONL: jsonl,
};
