import type { Durability } from "./generated/types.js";
import { bytesGiven, shown } from "./checks.js";
import { RunlogError, invalid } from "./error.js";
import { utf8 } from "./json.js";
import { uuidBytes } from "./uuid.js";

// The layouts of `core/bindings/src/packed`, this side of the boundary: what is appended. All numbers are little-endian.

/** The header of an append. @internal */
export const APPEND_HEADER_BYTES = 32;
const RECORD_HEADER_BYTES = 8;
const KIND_END = 128;
const META_BYTES_MAX = 32 << 10;
const PAYLOAD_BYTES_MAX = 64 << 20;
const BATCH_BYTES_MAX = 128 << 20;

const encoder = new TextEncoder();

/**
 * What a writer believes of a stream; a mismatch is a `conflict`. A number is the last sequence. A stream that was truncated
 * and then appended to can have the same last sequence with another record: a {@link LastRecord} tells them apart.
 */
export type Expected = "any" | "exists" | "absent" | number | LastRecord;

/** The stream's last record is the one at a position, which no other ever has. */
export interface LastRecord {
  /** Its position in the log, as an append or a read gave it; 0 for a stream that is empty or isn't there. */
  position: number;
}

/** What an append asks for beside its records. @internal */
export interface AppendHead {
  expected?: Expected | undefined;
  key?: string | undefined;
  durability?: Durability | undefined;
}

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
  #writeText: WriteText;
  #end = APPEND_HEADER_BYTES;
  #count = 0;

  /** A batch with room for so many bytes; it grows. */
  constructor(capacity = 64 << 10) {
    if (!Number.isInteger(capacity) || capacity < 0 || capacity > BATCH_BYTES_MAX) {
      throw invalid(`the capacity of a batch must be a whole number from 0 to ${BATCH_BYTES_MAX}, not ${shown(capacity)}`);
    }
    this.#bytes = new Uint8Array(Math.max(capacity, 256));
    this.#view = new DataView(this.#bytes.buffer);
    this.#writeText = textWriter(this.#bytes);
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
   * @throws {@link RunlogError} `invalid_input` for a kind out of range or what is neither bytes nor text, `too_large`
   * for metadata over 32 KiB, a payload over 64 MiB, or a batch over 128 MiB.
   */
  add(payload: Uint8Array | string, kind = 0, meta?: Uint8Array): this {
    const room = recordRoom(payload, kind, meta);
    if (this.#end + room > this.#bytes.length) this.#grow(this.#end + room);
    this.#end = writeRecord(this.#bytes, this.#view, this.#writeText, this.#end, payload, kind, meta);
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
    const { key } = options;
    if (key === undefined) {
      writeHead(this.#bytes, this.#view, 0, stream, options, 0);
      return this.#bytes.subarray(0, this.#end);
    }
    if (typeof key !== "string") throw invalid(`an idempotency key must be text, not ${shown(key)}`);
    const keyBytes = utf8(key);
    if (keyBytes.length === 0 || keyBytes.length > 255) {
      throw invalid(`an idempotency key has 1 to 255 bytes, not ${keyBytes.length}`);
    }
    const bytes = new Uint8Array(this.#end + keyBytes.length);
    writeHead(bytes, new DataView(bytes.buffer), 0, stream, options, keyBytes.length);
    bytes.set(keyBytes, APPEND_HEADER_BYTES);
    bytes.set(this.records(), APPEND_HEADER_BYTES + keyBytes.length);
    return bytes;
  }

  #grow(end: number): void {
    if (this.#end > BATCH_BYTES_MAX) {
      throw new RunlogError("too_large", `a batch has ${this.#end} bytes, at most ${BATCH_BYTES_MAX} are allowed`);
    }
    const larger = new Uint8Array(Math.max(end, this.#bytes.length * 2));
    larger.set(this.#bytes.subarray(0, this.#end));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
    this.#writeText = textWriter(larger);
  }
}

/** Writes text as UTF-8 to where there is room for it; how many bytes that took. @internal */
export type WriteText = (text: string, at: number) => number;

/** What is used of Node's `Buffer`; browsers have none. */
interface NodeBuffer {
  from(memory: ArrayBufferLike): { write(text: string, at: number): number };
}

/** The fastest way to write text into these bytes, all of a buffer. @internal */
export function textWriter(bytes: Uint8Array): WriteText {
  const { Buffer } = globalThis as { Buffer?: NodeBuffer };
  // Where there is one, it takes a tenth of the time.
  if (Buffer !== undefined) {
    const buffer = Buffer.from(bytes.buffer);
    return (text, at) => buffer.write(text, at);
  }
  return (text, at) => encoder.encodeInto(text, bytes.subarray(at)).written;
}

/** Checks a record; the most bytes that it has. @internal */
export function recordRoom(payload: Uint8Array | string, kind: number, meta: Uint8Array | undefined): number {
  if (!Number.isInteger(kind) || kind < 0 || kind >= KIND_END) {
    throw invalid(`the kind of a record must be a whole number from 0 to 127, not ${shown(kind)}`);
  }
  const metaLength = meta === undefined ? 0 : bytesGiven(meta, "the metadata of a record").length;
  if (metaLength > META_BYTES_MAX) {
    throw new RunlogError("too_large", `metadata has ${metaLength} bytes, at most ${META_BYTES_MAX} are allowed`);
  }
  if (typeof payload !== "string") bytesGiven(payload, "the payload of a record that isn't text");
  const length = payload.length;
  if (length > PAYLOAD_BYTES_MAX) {
    throw new RunlogError("too_large", `a payload has ${length} bytes, at most ${PAYLOAD_BYTES_MAX} are allowed`);
  }
  if (typeof payload === "string" && !payload.isWellFormed()) {
    throw invalid("the text has half a surrogate pair, which UTF-8 has no form for; give bytes");
  }
  // A character takes at most three bytes of UTF-8.
  return RECORD_HEADER_BYTES + metaLength + (typeof payload === "string" ? length * 3 : length);
}

/** Writes a record that was checked to where there is room for it; where it ends. @internal */
export function writeRecord(
  bytes: Uint8Array,
  view: DataView,
  writeText: WriteText,
  at: number,
  payload: Uint8Array | string,
  kind: number,
  meta: Uint8Array | undefined,
): number {
  let body = at + RECORD_HEADER_BYTES;
  let metaLength = 0;
  if (meta !== undefined) {
    bytes.set(meta, body);
    metaLength = meta.length;
    body += metaLength;
  }
  let length = payload.length;
  if (typeof payload === "string") length = writeText(payload, body);
  else bytes.set(payload, body);
  // Kind, nothing, and the length of the metadata.
  view.setUint32(at, kind | (metaLength << 16), true);
  view.setUint32(at + 4, length, true);
  return body + length;
}

/** Writes the header of an append to a stream. @internal */
export function writeHead(
  bytes: Uint8Array,
  view: DataView,
  at: number,
  stream: string,
  head: AppendHead,
  keyLength: number,
): void {
  bytes.set(uuidBytes(stream), at);
  const { expected = "any", durability } = head;
  const interval = typeof durability === "object" ? checkedInterval(durability?.intervalMs) : 0;
  view.setUint8(at + 16, expectedTag(expected));
  view.setUint8(at + 17, durabilityTag(durability));
  view.setUint16(at + 18, keyLength, true);
  view.setUint32(at + 20, interval, true);
  view.setFloat64(at + 24, expectedNumber(expected), true);
}

function expectedNumber(expected: Expected): number {
  if (typeof expected === "number") return expected;
  return typeof expected === "object" ? expected.position : 0;
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
      if (typeof expected === "object" && typeof expected?.position === "number") return 4;
      throw invalid(
        `a stream is expected to be "any", "exists", "absent", a last sequence or { position }, not ${shown(expected)}`,
      );
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
  throw invalid(`an interval must be a whole number of milliseconds from 1, not ${shown(ms)}`);
}
