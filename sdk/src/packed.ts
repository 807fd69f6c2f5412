import { bytesGiven, optionsOf, shown } from "./checks.js";
import { RunlogError, invalid } from "./error.js";
import { textOf } from "./json.js";
import { uuidAt, uuidBytes } from "./uuid.js";

// The layouts of `core/bindings/src/packed`, this side of the boundary. All numbers are little-endian.

const APPEND_HEADER_BYTES = 32;
const RECORD_HEADER_BYTES = 8;
const PAGE_HEADER_BYTES = 16;
const HEAD_BYTES = 56;
const KIND_END = 128;
const META_BYTES_MAX = 32 << 10;
const PAYLOAD_BYTES_MAX = 64 << 20;
const BATCH_BYTES_MAX = 128 << 20;

const encoder = new TextEncoder();

/** How durable an append is when it is acknowledged. `sync` is on the device; `os` is with the operating system. */
export type Durability = "sync" | "os" | { intervalMs: number };

/** What a writer believes of a stream; a mismatch is a `conflict`. A number is the last sequence. */
export type Expected = "any" | "exists" | "absent" | number;

/**
 * Records to append, packed into one piece of memory, which is the fastest way into the log: encode each event yourself,
 * add it, append the batch, clear it, and use it again.
 *
 * @example
 * ```ts
 * const batch = new RecordBatch();
 * for (const event of events) batch.add(event.bytes);
 * await store.streams.append(stream, batch);
 * batch.clear();
 * ```
 */
export class RecordBatch {
  #bytes: Uint8Array;
  #view: DataView;
  #end = APPEND_HEADER_BYTES;
  #count = 0;

  /** A batch with room for so many bytes; it grows. */
  constructor(capacity = 64 << 10) {
    if (!Number.isInteger(capacity) || capacity < 0 || capacity > BATCH_BYTES_MAX) {
      throw invalid(`the capacity of a batch is a whole number from 0 to ${BATCH_BYTES_MAX}, not ${shown(capacity)}`);
    }
    this.#bytes = new Uint8Array(Math.max(capacity, 256));
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** How many records it has. */
  get count(): number {
    return this.#count;
  }

  /** How many bytes it has. */
  get byteLength(): number {
    return this.#end - APPEND_HEADER_BYTES;
  }

  /**
   * Adds a record: its payload, as bytes or as text, its kind (0 to 127), and a small part beside the payload.
   *
   * @throws {@link RunlogError} `invalid_input` for a kind out of range, `too_large` for metadata over 32 KiB.
   */
  add(payload: Uint8Array | string, kind = 0, meta?: Uint8Array): this {
    if (!Number.isInteger(kind) || kind < 0 || kind >= KIND_END) {
      throw invalid(`the kind of a record is a whole number from 0 to 127, not ${shown(kind)}`);
    }
    if (typeof payload !== "string") bytesGiven(payload, "the payload of a record that isn't text");
    if (payload.length > PAYLOAD_BYTES_MAX) {
      throw new RunlogError("too_large", `a payload has ${payload.length} bytes, at most ${PAYLOAD_BYTES_MAX} are allowed`);
    }
    if (meta !== undefined) bytesGiven(meta, "the metadata of a record");
    const metaLength = meta?.length ?? 0;
    if (metaLength > META_BYTES_MAX) {
      throw new RunlogError("too_large", `metadata has ${metaLength} bytes, at most ${META_BYTES_MAX} are allowed`);
    }
    if (typeof payload === "string" && !payload.isWellFormed()) {
      throw invalid("the text has half a surrogate pair, which UTF-8 has no form for; give bytes");
    }
    // A character takes at most three bytes of UTF-8.
    const room = typeof payload === "string" ? payload.length * 3 : payload.length;
    const start = this.#end;
    const body = start + RECORD_HEADER_BYTES + metaLength;
    if (body > BATCH_BYTES_MAX) {
      throw new RunlogError("too_large", `a batch has over ${body} bytes, at most ${BATCH_BYTES_MAX} are allowed`);
    }
    this.#reserve(body + room);
    if (meta !== undefined) this.#bytes.set(meta, start + RECORD_HEADER_BYTES);
    let length = room;
    if (typeof payload === "string") length = encoder.encodeInto(payload, this.#bytes.subarray(body)).written;
    else this.#bytes.set(payload, body);
    // Kind, nothing, and the length of the metadata.
    this.#view.setUint32(start, kind | (metaLength << 16), true);
    this.#view.setUint32(start + 4, length, true);
    this.#end = body + length;
    this.#count += 1;
    return this;
  }

  /** Forgets the records, and keeps the memory. */
  clear(): this {
    this.#end = APPEND_HEADER_BYTES;
    this.#count = 0;
    return this;
  }

  /** The records alone. @internal */
  records(): Uint8Array {
    return this.#bytes.subarray(APPEND_HEADER_BYTES, this.#end);
  }

  /** The records with the header of an append to a stream. @internal */
  packed(stream: string, options: AppendHead = {}): Uint8Array {
    optionsOf(options, ["expected", "key", "durability"]);
    const { key } = options;
    if (key !== undefined) return this.#withKey(stream, options, key);
    this.#writeHead(this.#bytes, this.#view, stream, options, 0);
    return this.#bytes.subarray(0, this.#end);
  }

  #withKey(stream: string, options: AppendHead, key: string): Uint8Array {
    if (typeof key !== "string") throw invalid(`an idempotency key is text, not ${shown(key)}`);
    const keyBytes = encoder.encode(key);
    if (keyBytes.length === 0 || keyBytes.length > 255) {
      throw invalid(`an idempotency key has 1 to 255 bytes, not ${keyBytes.length}`);
    }
    const bytes = new Uint8Array(this.#end + keyBytes.length);
    this.#writeHead(bytes, new DataView(bytes.buffer), stream, options, keyBytes.length);
    bytes.set(keyBytes, APPEND_HEADER_BYTES);
    bytes.set(this.records(), APPEND_HEADER_BYTES + keyBytes.length);
    return bytes;
  }

  #writeHead(bytes: Uint8Array, view: DataView, stream: string, options: AppendHead, keyLength: number): void {
    bytes.set(uuidBytes(stream), 0);
    const { expected = "any", durability } = options;
    const interval = typeof durability === "object" ? checkedInterval(durability?.intervalMs) : 0;
    view.setUint8(16, expectedTag(expected));
    view.setUint8(17, durabilityTag(durability));
    view.setUint16(18, keyLength, true);
    view.setUint32(20, interval, true);
    view.setFloat64(24, typeof expected === "number" ? expected : 0, true);
  }

  #reserve(end: number): void {
    if (end <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(end, this.#bytes.length * 2));
    larger.set(this.#bytes.subarray(0, this.#end));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }
}

/** What an append asks for beside its records. */
interface AppendHead {
  expected?: Expected | undefined;
  key?: string | undefined;
  durability?: Durability | undefined;
}

function expectedTag(expected: Expected): number {
  switch (expected) {
    case "any":
      return 0;
    case "exists":
      return 2;
    case "absent":
      return 3;
    default:
      if (typeof expected === "number") return 1;
      throw invalid(`a stream is expected to be "any", "exists", "absent" or a last sequence, not ${shown(expected)}`);
  }
}

function durabilityTag(durability: Durability | undefined): number {
  if (durability === undefined) return 0;
  if (durability === "sync") return 1;
  if (durability === "os") return 2;
  if (typeof durability === "object") return 3;
  throw invalid(`a durability is "sync", "os" or { intervalMs }, not ${shown(durability)}`);
}

function checkedInterval(ms: number): number {
  if (Number.isInteger(ms) && ms >= 1 && ms <= 0xffff_ffff) return ms;
  throw invalid(`an interval is a whole number of milliseconds from 1, not ${shown(ms)}`);
}

/** One record of the log. Its contents are looked at when they are asked for. */
export class LogRecord {
  /** Its place in the log: the id of an event, never reused. */
  readonly position: number;
  /** Its place in its stream: 1, 2, 3, …. For an engine record, the sequence it speaks of. */
  readonly sequence: number;
  /** When it was appended: milliseconds since 1970-01-01 UTC. */
  readonly timeMs: number;
  /** What it is: 0 to 127 are the caller's, from 128 the engine's own. */
  readonly kind: number;
  /** Whether its contents were taken out of the store; they are then empty. */
  readonly redacted: boolean;
  readonly #page: Uint8Array;
  readonly #head: number;
  readonly #metaAt: number;
  readonly #payloadAt: number;
  readonly #payloadLength: number;
  #payload: Uint8Array | undefined;

  /** @internal */
  constructor(page: Uint8Array, view: DataView, head: number, metaAt: number, payloadAt: number) {
    this.position = view.getFloat64(head, true);
    this.sequence = view.getFloat64(head + 8, true);
    this.timeMs = view.getFloat64(head + 16, true);
    this.kind = view.getUint8(head + 32);
    this.redacted = view.getUint8(head + 33) === 1;
    this.#page = page;
    this.#head = head;
    this.#metaAt = metaAt;
    this.#payloadAt = payloadAt;
    this.#payloadLength = view.getUint32(head + 28, true);
  }

  /** The small part beside the payload. */
  get meta(): Uint8Array {
    const { buffer, byteOffset } = this.#page;
    const view = new DataView(buffer, byteOffset);
    return new Uint8Array(buffer, byteOffset + this.#metaAt, view.getUint32(this.#head + 24, true));
  }

  /** The payload, byte for byte. */
  get payload(): Uint8Array {
    return (this.#payload ??= new Uint8Array(
      this.#page.buffer,
      this.#page.byteOffset + this.#payloadAt,
      this.#payloadLength,
    ));
  }

  /** The stream it was appended to. For a record that a fork inherits, the stream it was first appended to. */
  get stream(): string {
    return uuidAt(this.#page, this.#head + 40);
  }

  /** The payload as text. */
  text(): string {
    return textOf(this.payload);
  }

  /** The payload as JSON. */
  json<T = unknown>(): T {
    return JSON.parse(this.text()) as T;
  }
}

/** A page of records, as it came. @internal */
export interface RecordPage {
  records: LogRecord[];
  /** Where the next page begins; 0 at the end. */
  next: number;
}

/** Reads a page of records. @internal */
export function unpackRecords(page: Uint8Array): RecordPage {
  const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
  const count = view.getUint32(0, true);
  const next = view.getFloat64(8, true);
  let meta = PAGE_HEADER_BYTES + count * HEAD_BYTES;
  let payload = meta;
  for (let index = 0; index < count; index++) payload += view.getUint32(PAGE_HEADER_BYTES + index * HEAD_BYTES + 24, true);
  // After the bracket of the array.
  payload += 1;
  const records = new Array<LogRecord>(count);
  for (let index = 0; index < count; index++) {
    const head = PAGE_HEADER_BYTES + index * HEAD_BYTES;
    const record = new LogRecord(page, view, head, meta, payload);
    records[index] = record;
    meta += view.getUint32(head + 24, true);
    payload += (record.redacted ? 4 : view.getUint32(head + 28, true)) + 1;
  }
  return { records, next };
}

/** The payloads of a page of records, as the values they are in JSON, read in one go. @internal */
export function unpackValues(page: Uint8Array): { values: unknown[]; next: number } {
  const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
  const count = view.getUint32(0, true);
  let start = PAGE_HEADER_BYTES + count * HEAD_BYTES;
  for (let index = 0; index < count; index++) start += view.getUint32(PAGE_HEADER_BYTES + index * HEAD_BYTES + 24, true);
  return { values: JSON.parse(textOf(page.subarray(start))) as unknown[], next: view.getFloat64(8, true) };
}

/** Contents beside their heads. @internal */
export interface Contents<T> {
  heads: T;
  /** The next content, which has so many bytes. */
  take(length: number): Uint8Array;
}

/** Reads heads, and the contents beside them. @internal */
export function unpackContents<T>(bytes: Uint8Array): Contents<T> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = 4 + view.getUint32(0, true);
  const heads = JSON.parse(textOf(bytes.subarray(4, end))) as T;
  // After the bracket of the array.
  let at = end + 1;
  return {
    heads,
    take(length) {
      const content = bytes.subarray(at, at + length);
      at += length + 1;
      return content;
    },
  };
}
