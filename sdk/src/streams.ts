import { bytesOf } from "./binding.js";
import type { Appended, OneRecord } from "./appends.js";
import { type AppendHead, type Expected, RecordBatch } from "./batch.js";
import { bytesGiven, checkLimit, fieldsOf, listOf, objectOf, optionsOf, shown, withOptions } from "./checks.js";
import { invalid, throwIfAborted, withKnownFields } from "./error.js";
import type { StoreCalls } from "./generated/calls.js";
import type { Durability, GivenOp, StreamInfo } from "./generated/types.js";
import type { Handle } from "./handle.js";
import { concat, stringify, utf8 } from "./json.js";
import { LogRecord, type RecordPage, unpackRecords, unpackValues } from "./packed.js";
import { Pages } from "./pages.js";

/**
 * A record to append: bytes, text, or with a kind and metadata; `json` is a value that is kept as JSON. One that was read is appended again, as
 * a new one with the same kind, metadata and payload.
 */
export type NewRecord = Uint8Array | string | PayloadRecord | JsonRecord | LogRecord;

/** What an append asks for beside its records. */
export interface AppendRecordsOptions {
  /** What the stream is expected to be; anything else is a `conflict`, and nothing is written. */
  expected?: Expected | undefined;
  /** A key of 1 to 255 bytes: the same key again in this stream returns the first result, and appends nothing. */
  key?: string | undefined;
  /** How durable it is when acknowledged; left out, the store's own setting. */
  durability?: Durability | undefined;
}

/** One operation of an atomic batch. */
export type StreamOperation =
  | AppendOperation
  | TruncateOperation
  | ForkOperation
  | SnapshotOperation
  | DeleteOperation
  | RedactOperation;

/** What a batch became. */
export interface Committed {
  /** The position of the batch's last record. */
  lastPosition: number;
  /** One for each operation, in order: where it is, and the stream's last sequence after it. */
  operations: CommittedOperation[];
  /** Whether an earlier batch had the same key, so that nothing was written now. */
  repeated: boolean;
  /**
   * Of a repeat: whether what it had appended was truncated since, or its stream deleted. The positions are still its own; the
   * sequences may be those of other records by now.
   */
  truncated: boolean;
}

/** Which records of a stream to read, and in which order. */
export interface ReadOptions {
  /** The first sequence, inclusive. */
  first?: number | undefined;
  /** The last sequence, inclusive. */
  last?: number | undefined;
  /** From the last down, instead of from the first up. */
  backward?: boolean | undefined;
  /** Only records of these kinds. */
  kinds?: readonly number[] | undefined;
  /** At most so many. */
  limit?: number | undefined;
  /** Gives up reading. */
  signal?: AbortSignal | undefined;
}

/** A state that was saved at a sequence of a stream. */
export interface StreamSnapshot {
  /** The last sequence that the state covers. */
  sequence: number;
  /** The place of the snapshot's own record in the log. */
  position: number;
  /** When it was saved: milliseconds since 1970-01-01 UTC. */
  timeMs: number;
  /** The small part beside the payload. */
  meta: Uint8Array;
  /** The state. */
  payload: Uint8Array;
}

/** What a record says beside its payload. */
export interface RecordHead {
  /** What it is: 0 to 127, the caller's own; 0 when left out. */
  kind?: number | undefined;
  /** A small part beside the payload, at most 32 KiB. */
  meta?: Uint8Array | undefined;
}

/** A record whose payload is bytes or text. */
export interface PayloadRecord extends RecordHead {
  /** The payload, kept byte for byte; text as its UTF-8. */
  payload: Uint8Array | string;
}

/** A record whose payload is a value, kept as JSON. */
export interface JsonRecord extends RecordHead {
  /** The value; a {@link RawJson} is kept byte for byte. */
  json: unknown;
}

/** Appends records to a stream, as {@link Streams.append}. */
export interface AppendOperation {
  /** The stream. */
  append: string;
  /** The records. */
  records: NewRecord | readonly NewRecord[] | RecordBatch;
  /** What the stream is expected to be; `any` when left out. */
  expected?: Expected | undefined;
}

/** Forgets a stream's records after a sequence, as {@link Streams.truncate}. */
export interface TruncateOperation {
  /** The stream. */
  truncate: string;
  /** The last sequence that stays; 0 for none. */
  after: number;
  /** What the stream is expected to be; `any` when left out. */
  expected?: Expected | undefined;
}

/** Makes a stream that shares another's records, as {@link Streams.fork}. */
export interface ForkOperation {
  /** The stream whose records are shared. */
  fork: string;
  /** The last sequence that is shared. */
  at: number;
  /** The id of the new stream. */
  child: string;
  /** What the stream whose records are shared is expected to be; `any` when left out. */
  expected?: Expected | undefined;
}

/** Saves a state at a sequence of a stream, as {@link Streams.snapshot}. */
export interface SnapshotOperation {
  /** The stream. */
  snapshot: string;
  /** The last sequence that the state covers. */
  sequence: number;
  /** The state. */
  payload: Uint8Array | string;
  /** A small part beside the payload, at most 32 KiB. */
  meta?: Uint8Array | undefined;
  /** What the stream is expected to be; `any` when left out. */
  expected?: Expected | undefined;
}

/** Deletes a stream, as {@link Streams.delete}. */
export interface DeleteOperation {
  /** The stream. */
  delete: string;
  /** What the stream is expected to be; `any` when left out. */
  expected?: Expected | undefined;
}

/** Takes the content of a record out of every read, as {@link Store.redact}. */
export interface RedactOperation {
  /** The position of the record. */
  redact: number;
  /** Why; it is kept. */
  reason: string;
}

/** The result of one operation of a batch. */
export interface CommittedOperation {
  /** The position of the operation's last record. */
  position: number;
  /** The stream's last sequence after it; 0 for a redaction. */
  lastSequence: number;
}

const ALL = Number.MAX_SAFE_INTEGER;
const NO_OPTIONS: AppendHead = {};
/** Memory for larger appends isn't kept. */
const SCRATCH_BYTES_MAX = 1 << 20;

/**
 * Streams of opaque records, without any notion of agents: the engine that everything else is kept in. Got from
 * {@link Store.streams}.
 *
 * A stream is named by a UUID and made by its first append. Sessions, instances, runs and flows have streams of their own under
 * their ids, and their lists are streams too (of ids that begin with `72756e6c-6f67-3a`): they can be read here, and snapshots of
 * your own saved at them; to append to them, or to truncate or delete them, is `invalid_input`.
 */
export class Streams {
  readonly #handle: Handle<StoreCalls>;
  /** Used for one append after the other: what it holds is copied before the call returns. */
  #scratch: RecordBatch | undefined;

  /** @internal */
  constructor(handle: Handle<StoreCalls>) {
    this.#handle = handle;
  }

  /**
   * Appends records to a stream, which is made if it doesn't exist: all of them or none. Appends are done in the order
   * of the calls, and those that wait at the same time share one flush.
   *
   * @throws {@link RunlogError} `conflict`, `invalid_input`, `too_large`, `storage_full`: nothing was written.
   * `outcome_unknown`: it may or may not be written; a `key` makes it safe to try again after reopening.
   */
  append(
    stream: string,
    records: NewRecord | readonly NewRecord[] | RecordBatch,
    options?: AppendRecordsOptions,
  ): Promise<Appended> {
    try {
      return this.#append(stream, records, options);
    } catch (error) {
      return Promise.reject(error as Error);
    }
  }

  #append(
    stream: string,
    records: NewRecord | readonly NewRecord[] | RecordBatch,
    options?: AppendRecordsOptions,
  ): Promise<Appended> {
    const head = options === undefined ? NO_OPTIONS : headOf(options);
    if (records instanceof RecordBatch) return this.#handle.append(records.packed(stream, head));
    if (!Array.isArray(records) && head.key === undefined) {
      const appended = this.#handle.appendRecord(stream, head, oneRecord(records as NewRecord));
      if (appended !== undefined) return appended;
    }
    // Taken while it is in use: reading a record may run caller's code, which may append.
    const scratch = this.#scratch?.clear() ?? new RecordBatch();
    this.#scratch = undefined;
    const appending = this.#handle.append(filled(scratch, records).packed(stream, head));
    if (scratch.byteLength <= SCRATCH_BYTES_MAX) this.#scratch = scratch;
    return appending;
  }

  /**
   * Does several operations, over any streams, as one atomic batch.
   *
   * @throws {@link RunlogError} as {@link append}; `not_found`, `already_exists` where a stream isn't as a step needs it.
   */
  async commit(
    operations: readonly StreamOperation[],
    options: { key?: string | undefined; durability?: Durability | undefined } = {},
  ): Promise<Committed> {
    const contents: Uint8Array[] = [];
    const add = (content: Uint8Array): number => {
      // Copied, since the memory of a batch is used again.
      contents.push(content.slice());
      return content.length;
    };
    const wired = listOf(operations, "the steps of a batch").map((operation, index) =>
      wireOperation(operation, add, operations.length === 1 ? "" : `operations[${index}].`),
    );
    const committed = this.#handle.value("commit", withOptions({ ops: wired }, options, "the options"), concat(contents));
    const done = await withKnownFields({ not: ["ops"] }, committed);
    const { lastPosition, ops, repeated, truncated } = done;
    return { lastPosition, operations: ops, repeated, truncated };
  }

  /**
   * Forgets a stream's records after a sequence; later ones continue there. However many: it takes the same time.
   *
   * @throws {@link RunlogError} as {@link commit}.
   */
  async truncate(stream: string, after: number, expected?: Expected): Promise<void> {
    await this.commit([{ truncate: stream, after, ...(expected !== undefined && { expected }) }]);
  }

  /**
   * Makes a stream that shares another's records up to a sequence, without copying them.
   *
   * @throws {@link RunlogError} as {@link commit}; `not_found` when the parent isn't there, `already_exists` when the
   * child's id was used before.
   */
  async fork(parent: string, at: number, child: string): Promise<void> {
    await this.commit([{ fork: parent, at, child }]);
  }

  /**
   * Saves a state at a sequence of a stream. That of a flow has states of its own there, of which none is replaced.
   *
   * @throws {@link RunlogError} as {@link commit}.
   */
  async snapshot(stream: string, sequence: number, payload: Uint8Array | string, meta?: Uint8Array): Promise<void> {
    await this.commit([{ snapshot: stream, sequence, payload, ...(meta && { meta }) }]);
  }

  /** The newest state that was saved at or before a sequence. */
  async latestSnapshot(stream: string, atOrBefore?: number): Promise<StreamSnapshot | undefined> {
    const { value: head, bytes } = await this.#handle.beside("latestSnapshot", { stream, atOrBefore });
    if (head === undefined || bytes === undefined) return undefined;
    const { metaLength, ...rest } = head;
    return { ...rest, meta: bytes.subarray(0, metaLength), payload: bytes.subarray(metaLength) };
  }

  /**
   * Deletes a stream. Forks of it keep what they share; its id can't be used again.
   *
   * @throws {@link RunlogError} as {@link commit}.
   */
  async delete(stream: string): Promise<void> {
    await this.commit([{ delete: stream }]);
  }

  /** A stream in short; `undefined` when it isn't there. */
  async get(stream: string): Promise<StreamInfo | undefined> {
    return await this.#handle.value("stream", { stream });
  }

  /** Every stream, in the order they were made. */
  async list(): Promise<StreamInfo[]> {
    return await this.#handle.value("streams");
  }

  /**
   * Reads a stream. A stream that isn't there is an error at the first read. The next page is read while one is used:
   * what changes meanwhile, a redaction too, shows on the page after it.
   *
   * @throws {@link RunlogError} `not_found` at the first read when the stream isn't there; `aborted` when the signal
   * is.
   */
  read(stream: string, options: ReadOptions = {}): Pages<LogRecord> {
    return new Pages(() => this.#pages(stream, options, unpackRecords, (page) => page.records), options?.signal);
  }

  /**
   * Reads a stream whose payloads are JSON, as values: the fastest way to them. A redacted one is `null`.
   *
   * @throws {@link RunlogError} as {@link read}. A payload that isn't JSON fails the page that it is in: `invalid_input`,
   * with its sequence.
   */
  readValues<T = unknown>(stream: string, options: ReadOptions = {}): Pages<T> {
    return new Pages(() => this.#pages(stream, options, unpackValues, (page) => page.values as T[]), options?.signal);
  }

  async *#pages<P extends { next: number }, T>(
    stream: string,
    options: ReadOptions,
    unpack: (bytes: Uint8Array) => P,
    itemsOf: (page: P) => T[],
  ): AsyncGenerator<T[], void, undefined> {
    const { signal, limit = ALL, ...range } = fieldsOf(options, "what is to be read");
    checkLimit(limit);
    const wire = withOptions({ stream }, range, "what is to be read");
    let left = Math.min(limit, ALL);
    const read = async () => await this.#handle.call("read", { ...wire, limit: left }, undefined, { signal });
    let reading = left > 0 ? read() : undefined;
    while (reading !== undefined) {
      const page: P = unpack(await withKnownFields({ also: ["signal"], not: ["stream"] }, reading.then(bytesOf)));
      const items = itemsOf(page);
      left -= items.length;
      if (range.backward) wire.last = page.next;
      else wire.first = page.next;
      // The next page is read while this one is used; its failure is thrown when it is asked for.
      reading = page.next > 0 && left > 0 ? read() : undefined;
      reading?.catch(() => {});
      if (items.length > 0) yield items;
      // What was read ahead doesn't outlive the store, nor the wish to read.
      if (reading === undefined) return;
      this.#handle.check();
      throwIfAborted(signal);
    }
  }
}

/** The records of the whole log, from a position on. @internal */
export async function scanPage(
  handle: Handle<StoreCalls>,
  from: number,
  limit: number | undefined,
  signal: AbortSignal | undefined,
): Promise<RecordPage> {
  return unpackRecords(await handle.bytes("scan", { from, limit }, undefined, { signal }));
}

function filled(batch: RecordBatch, records: NewRecord | readonly NewRecord[]): RecordBatch {
  if (Array.isArray(records)) for (const record of records as readonly NewRecord[]) addRecord(batch, record);
  else addRecord(batch, records as NewRecord);
  return batch;
}

function addRecord(batch: RecordBatch, record: NewRecord): void {
  const { payload, kind, meta } = oneRecord(record);
  batch.add(payload, kind, meta);
}

/** Options, each of them looked at once and before anything is packed: looking may run a caller's code, which may append. */
function headOf(options: AppendRecordsOptions): AppendHead {
  const { expected, key, durability } = optionsOf(options, ["expected", "key", "durability"]);
  if (typeof durability !== "object" || durability === null) return { expected, key, durability };
  return { expected, key, durability: { intervalMs: durability.intervalMs } };
}

/** A record, each part of it looked at once: looking may run a caller's code. */
function oneRecord(record: NewRecord): OneRecord {
  if (typeof record === "string" || record instanceof Uint8Array) return { payload: record };
  if (typeof record !== "object" || record === null) {
    throw invalid(`a record is bytes, text, or an object with payload or json, not ${shown(record)}`);
  }
  if (record instanceof LogRecord) {
    if (record.redacted) throw invalid(`the record at position ${record.position} was redacted: there is nothing left of it to append`);
    return { payload: record.payload, kind: record.kind, meta: record.meta };
  }
  for (const name of Object.keys(record)) {
    if (!RECORD_FIELDS.includes(name)) throw invalid(`a record has no field ${shown(name)}, but ${RECORD_FIELDS.join(", ")}`);
  }
  if ("json" in record && "payload" in record) throw invalid("a record has a payload or json, not both");
  if ("json" in record) return { payload: stringify(record.json), kind: record.kind, meta: record.meta };
  if ("payload" in record) return { payload: record.payload, kind: record.kind, meta: record.meta };
  throw invalid("a record is bytes, text, or an object with payload or json");
}

const RECORD_FIELDS: readonly string[] = ["payload", "json", "kind", "meta"] satisfies (keyof PayloadRecord | keyof JsonRecord)[];

function bytesOrText(value: Uint8Array | string): Uint8Array {
  return typeof value === "string" ? utf8(value) : bytesGiven(value, "what is saved");
}

/** What the core takes for an id, in any of the forms of a UUID. */
const UUID = /^(?:urn:uuid:)?\{?[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\}?$/i;

/** The fields of each step of a batch. */
const FIELDS_OF_STEPS: Record<string, readonly string[]> = {
  append: ["append", "records", "expected"] satisfies (keyof AppendOperation)[],
  truncate: ["truncate", "after", "expected"] satisfies (keyof TruncateOperation)[],
  fork: ["fork", "at", "child", "expected"] satisfies (keyof ForkOperation)[],
  snapshot: ["snapshot", "sequence", "payload", "meta", "expected"] satisfies (keyof SnapshotOperation)[],
  delete: ["delete", "expected"] satisfies (keyof DeleteOperation)[],
  redact: ["redact", "reason"] satisfies (keyof RedactOperation)[],
};

/** Checks each step of a batch, because the core reads them all as one. */
function wireOperation(operation: StreamOperation, add: (content: Uint8Array) => number, place: string): GivenOp {
  const given = objectOf(operation, "a step of a batch");
  const known = Object.entries(FIELDS_OF_STEPS).find(([step]) => step in given)?.[1];
  if (known === undefined) throw invalid("a step of a batch is one of append, truncate, fork, snapshot, delete, redact");
  for (const name of Object.keys(given)) {
    // One that is left out unsaid may be the guard of the step.
    if (!known.includes(name)) throw invalid(`\`${place}${name}\` is not a field that is known here; known are ${known.map((field) => `\`${field}\``).join(", ")}`);
  }
  const id = (name: string, value: string): string => {
    if (typeof value === "string" && UUID.test(value)) return value;
    throw invalid(`\`${place}${name}\`: ${shown(value)} is not an id (a UUID)`);
  };
  // Those that do one step alone call it so.
  const streamOf = (name: string, value: string): string => id(place === "" ? "stream" : name, value);
  const whole = (name: string, value: number): number => {
    if (Number.isSafeInteger(value) && value >= 0) return value;
    throw invalid(`\`${place}${name}\`: ${shown(value)} is not a whole number, 0 or more`);
  };
  if ("append" in operation) {
    const { append, records, expected } = operation;
    const stream = streamOf("append", append);
    const batch = records instanceof RecordBatch ? records : filled(new RecordBatch(), records);
    return { op: "append", stream, expected, length: add(batch.records()) };
  }
  if ("truncate" in operation) {
    const { truncate, after, expected } = operation;
    return { op: "truncate", stream: streamOf("truncate", truncate), after: whole("after", after), expected };
  }
  if ("fork" in operation) {
    const { fork, at, child, expected } = operation;
    return { op: "fork", parent: id(place === "" ? "parent" : "fork", fork), at: whole("at", at), child: id("child", child), expected };
  }
  if ("snapshot" in operation) {
    const { snapshot, sequence, payload, meta, expected } = operation;
    const stream = streamOf("snapshot", snapshot);
    whole("sequence", sequence);
    const metaLength = add(meta === undefined ? new Uint8Array() : bytesGiven(meta, "the metadata"));
    return { op: "snapshot", stream, expected, sequence, metaLength, payloadLength: add(bytesOrText(payload)) };
  }
  if ("delete" in operation) return { op: "delete", stream: streamOf("delete", operation.delete), expected: operation.expected };
  return { op: "redact", position: whole(place === "" ? "position" : "redact", operation.redact), reason: operation.reason };
}
