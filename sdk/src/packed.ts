import { invalid } from "./error.js";
import { parseBytes, textOf } from "./json.js";
import { uuidAt } from "./uuid.js";

// The layouts of `core/bindings/src/packed`, this side of the boundary: what is read. All numbers are little-endian.

const PAGE_HEADER_BYTES = 16;
const HEAD_BYTES = 64;

/** One record of the log. Its contents are looked at when they are asked for. */
export class LogRecord {
  /** Its position in the log: the id of an event, never reused. */
  readonly position: number;
  /** Its place in its stream: 1, 2, 3, …. For an engine record, the sequence it speaks of. */
  readonly sequence: number;
  /** When it was appended: milliseconds since 1970-01-01 UTC. */
  readonly timeMs: number;
  /** What it is: 0 to 127 are the caller's, from 128 the engine's own. */
  readonly kind: number;
  /** Whether its contents were taken out of the store; they are then empty. */
  readonly redacted: boolean;
  readonly #page: DataView;
  readonly #head: number;
  #payload: Uint8Array | undefined;

  /** @internal */
  constructor(page: DataView, head: number) {
    this.position = page.getFloat64(head, true);
    this.sequence = page.getFloat64(head + 8, true);
    this.timeMs = page.getFloat64(head + 16, true);
    this.kind = page.getUint8(head + 24);
    this.redacted = page.getUint8(head + 25) === 1;
    this.#page = page;
    this.#head = head;
  }

  /** The small part beside the payload. */
  get meta(): Uint8Array {
    return part(this.#page, this.#head + 28);
  }

  /** The payload, byte for byte. */
  get payload(): Uint8Array {
    return (this.#payload ??= part(this.#page, this.#head + 36));
  }

  /** The stream it was appended to. For a record that a fork inherits, the stream it was first appended to. */
  get stream(): string {
    return uuidAt(new Uint8Array(this.#page.buffer, this.#page.byteOffset), this.#head + 48);
  }

  /**
   * The payload as text.
   *
   * @throws {@link RunlogError} `invalid_input` when it isn't UTF-8, as in records of bytes and those of the engine itself
   * ({@link kind} from 128).
   */
  text(): string {
    return textOf(this.payload);
  }

  /**
   * The payload as JSON, as a value. {@link text} is the text of it.
   *
   * @throws {@link RunlogError} `invalid_input` when it isn't.
   */
  json<T = unknown>(): T {
    return parseBytes<T>(this.payload);
  }
}

/** A page of records, as it came. @internal */
export interface RecordPage {
  records: LogRecord[];
  /** Where the next page begins; 0 at the end. */
  next: number;
}

/** The part of a page whose place and length stand at an offset. */
function part(page: DataView, at: number): Uint8Array {
  return new Uint8Array(page.buffer, page.byteOffset + page.getUint32(at, true), page.getUint32(at + 4, true));
}

/** Reads a page of records. @internal */
export function unpackRecords(bytes: Uint8Array): RecordPage {
  const page = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const records = new Array<LogRecord>(page.getUint32(0, true));
  for (let index = 0, head = PAGE_HEADER_BYTES; index < records.length; index++, head += HEAD_BYTES) {
    records[index] = new LogRecord(page, head);
  }
  return { records, next: page.getFloat64(8, true) };
}

/** The payloads of a page of records, as the values they are in JSON, read in one go. @internal */
export function unpackValues(page: Uint8Array): { values: unknown[]; next: number } {
  const view = new DataView(page.buffer, page.byteOffset, page.byteLength);
  const count = view.getUint32(0, true);
  // Before the first payload is the bracket of the array.
  const start = count === 0 ? PAGE_HEADER_BYTES : view.getUint32(PAGE_HEADER_BYTES + 36, true) - 1;
  const next = view.getFloat64(8, true);
  try {
    const values = parseBytes<unknown[]>(page.subarray(start));
    if (values.length === count) return { values, next };
  } catch {
    // Looked at one by one, to say which it is.
  }
  return { values: unpackRecords(page).records.map(valueOf), next };
}

function valueOf(record: LogRecord): unknown {
  if (record.redacted) return null;
  try {
    return record.json();
  } catch (cause) {
    throw invalid(`the payload of sequence ${record.sequence} isn't JSON: ${(cause as Error).message}`, cause);
  }
}

/** Contents beside their heads. @internal */
export interface Contents<T> {
  heads: T;
  /** The next content, which has so many bytes. */
  take(length: number): Uint8Array;
}

/** Reads heads, and the contents beside them. @internal */
export function unpackContents<T>(bytes: Uint8Array): Contents<T> {
  const { heads, take } = splitContents(bytes);
  return { heads: JSON.parse(textOf(heads)) as T, take };
}

/** Heads, as JSON, and the contents beside them. @internal */
export function splitContents(bytes: Uint8Array): Contents<Uint8Array> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = 4 + view.getUint32(0, true);
  // After the bracket of the array.
  let at = end + 1;
  return {
    heads: bytes.subarray(4, end),
    take(length) {
      const content = bytes.subarray(at, at + length);
      at += length + 1;
      return content;
    },
  };
}
