import {
  APPEND_HEADER_BYTES,
  type AppendHead,
  recordRoom,
  textWriter,
  writeHead,
  writeRecord,
} from "./batch.js";

// The layouts of `core/bindings/src/appends.rs`, this side of the boundary. All numbers are little-endian.

/** What records became that were appended to one stream. */
export interface Appended {
  /** The position of the first. Of no records, that of what the log held last. */
  position: number;
  /** The position of the last. */
  lastPosition: number;
  /** The sequence of the first in its stream. */
  firstSequence: number;
  /** The sequence of the last in its stream. */
  lastSequence: number;
  /** Whether the same key had been used before: nothing was written anew. */
  repeated: boolean;
  /**
   * Of a repeat: whether what it had appended was truncated since, or its stream deleted. The positions are still its own; the
   * sequences may be those of other records by now.
   */
  truncated: boolean;
}

const HEADER_BYTES = 8;
const ANSWER_BYTES = 48;
const CAPACITY = 256 << 10;
/** What is longer is handed over by itself: copying it here first would only cost. */
const QUEUED_BYTES_MAX = CAPACITY / 4;

/** Who awaits an append. @internal */
export type Resolve = (appended: Appended | Promise<never>) => void;

/**
 * Appends that are made in one turn of the event loop: they go to the core with one call at its end, each for itself.
 *
 * @internal
 */
export class AppendQueue {
  readonly #bytes = new Uint8Array(CAPACITY);
  readonly #view = new DataView(this.#bytes.buffer);
  readonly #writeText = textWriter(this.#bytes);
  #end = 0;
  #count = 0;

  /** Whether there are none. */
  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /** Whether so many bytes have room; that there is none may be for ever, or until those that are there are taken. */
  room(bytes: number): "here" | "later" | "never" {
    if (bytes > QUEUED_BYTES_MAX) return "never";
    return this.#end + HEADER_BYTES + bytes <= CAPACITY ? "here" : "later";
  }

  /** Copies an append behind the others. There must be room. */
  addPacked(handle: number, packed: Uint8Array): void {
    this.#bytes.set(packed, this.#end + HEADER_BYTES);
    this.#add(handle, packed.length);
  }

  /** Packs an append of one record, without a key, behind the others. There must be {@link roomOfOne}. */
  addRecord(handle: number, stream: string, head: AppendHead, record: OneRecord): void {
    const { payload, kind = 0, meta } = record;
    const start = this.#end + HEADER_BYTES;
    writeHead(this.#bytes, this.#view, start, stream, head, 0);
    const at = start + APPEND_HEADER_BYTES;
    const end = writeRecord(this.#bytes, this.#view, this.#writeText, at, payload, kind, meta);
    this.#add(handle, end - start);
  }

  #add(handle: number, length: number): void {
    this.#view.setUint32(this.#end, handle, true);
    this.#view.setUint32(this.#end + 4, length, true);
    this.#end += HEADER_BYTES + length;
    this.#count += 1;
  }

  /** Takes all of them out: their bytes, which the next append overwrites. */
  take(): Uint8Array {
    const taken = this.#bytes.subarray(0, this.#end);
    this.#end = 0;
    this.#count = 0;
    return taken;
  }
}

/** A record that is appended alone. @internal */
export interface OneRecord {
  payload: Uint8Array | string;
  kind?: number | undefined;
  meta?: Uint8Array | undefined;
}

/** Checks a record that is appended alone; the most bytes that its append has. @internal */
export function roomOfOne({ payload, kind = 0, meta }: OneRecord): number {
  return APPEND_HEADER_BYTES + recordRoom(payload, kind, meta);
}

/** Who awaits which append. Tickets are numbers that follow each other, and are mostly answered in their order. @internal */
export class Awaited {
  #resolves: (Resolve | undefined)[] = [];
  /** The ticket of the first that is kept. */
  #first = 1;
  /** How many at the front are answered. */
  #answered = 0;
  #size = 0;

  /** How many are awaited. */
  get size(): number {
    return this.#size;
  }

  /** Adds those that were handed over together, under tickets from `first` on. */
  add(first: number, resolves: readonly Resolve[]): void {
    if (this.#size === 0) {
      this.#resolves = [];
      this.#first = first;
      this.#answered = 0;
    }
    // Of a handing over that failed, tickets may be used up that nobody awaits.
    while (this.#first + this.#resolves.length < first) this.#resolves.push(undefined);
    for (const resolve of resolves) this.#resolves.push(resolve);
    this.#size += resolves.length;
  }

  /** Takes one out. */
  take(ticket: number): Resolve | undefined {
    const at = ticket - this.#first;
    const resolve = this.#resolves[at];
    if (resolve === undefined) return undefined;
    this.#resolves[at] = undefined;
    this.#size -= 1;
    while (this.#answered < this.#resolves.length && this.#resolves[this.#answered] === undefined) this.#answered += 1;
    // Forgets those that are answered, once they are many, and most: each is moved about once.
    if (this.#answered >= 4096 && this.#answered * 2 >= this.#resolves.length) {
      this.#resolves = this.#resolves.slice(this.#answered);
      this.#first += this.#answered;
      this.#answered = 0;
    }
    return resolve;
  }

  /** Takes out all of them. */
  takeAll(): Resolve[] {
    const resolves = this.#resolves.filter((resolve) => resolve !== undefined);
    this.#resolves = [];
    this.#size = 0;
    return resolves;
  }
}

/**
 * Hands out what appends became: to each ticket what was appended, or the index of its failure.
 *
 * @internal
 */
export function eachOutcome(
  bytes: Uint8Array,
  appended: (ticket: number, appended: Appended) => void,
  failed: (ticket: number, failure: number) => void,
): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length; at += ANSWER_BYTES) {
    const ticket = view.getFloat64(at, true);
    // Below 0 it failed; 1 is a repeat, 2 one whose records were truncated since.
    const flag = view.getFloat64(at + 40, true);
    if (flag < 0) {
      failed(ticket, view.getFloat64(at + 8, true));
      continue;
    }
    appended(ticket, {
      position: view.getFloat64(at + 8, true),
      lastPosition: view.getFloat64(at + 16, true),
      firstSequence: view.getFloat64(at + 24, true),
      lastSequence: view.getFloat64(at + 32, true),
      repeated: flag >= 1,
      truncated: flag === 2,
    });
  }
}
