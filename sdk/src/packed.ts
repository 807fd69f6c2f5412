import { textOf } from "./json.js";
import { uuidAt } from "./uuid.js";

// The layouts of `core/bindings/src/packed`, this side of the boundary: what is read. All numbers are little-endian.

const PAGE_HEADER_BYTES = 16;
const HEAD_BYTES = 56;

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
