import type { Appended } from "./streams.js";

// The layouts of `core/bindings/src/appends.rs`, this side of the boundary. All numbers are little-endian.

const HEADER_BYTES = 8;
const ANSWER_BYTES = 48;
const CAPACITY = 256 << 10;

/** What an append became, or its failure as JSON. @internal */
export type Outcome = Appended | string;

/** Who is told what an append became. @internal */
export type Settle = (outcome: Outcome) => void;

/**
 * Appends that are made in one turn of the event loop: they go to the core with one call at its end, each for itself.
 *
 * @internal
 */
export class AppendQueue {
  readonly #bytes = new Uint8Array(CAPACITY);
  readonly #view = new DataView(this.#bytes.buffer);
  #end = 0;
  #settles: Settle[] = [];

  /** Whether there are any. */
  get isEmpty(): boolean {
    return this.#settles.length === 0;
  }

  /** Whether so many bytes have room behind those that are there. */
  hasRoomFor(packed: Uint8Array): boolean {
    return this.#end + HEADER_BYTES + packed.length <= CAPACITY;
  }

  /** Copies an append behind the others. */
  add(handle: number, packed: Uint8Array, settle: Settle): void {
    this.#view.setUint32(this.#end, handle, true);
    this.#view.setUint32(this.#end + 4, packed.length, true);
    this.#bytes.set(packed, this.#end + HEADER_BYTES);
    this.#end += HEADER_BYTES + packed.length;
    this.#settles.push(settle);
  }

  /** Takes all of them out: their bytes, which the next append overwrites, and who is told, in the same order. */
  take(): { bytes: Uint8Array; settles: Settle[] } {
    const taken = { bytes: this.#bytes.subarray(0, this.#end), settles: this.#settles };
    this.#end = 0;
    this.#settles = [];
    return taken;
  }
}

/** Hands out what appends became, by ticket. @internal */
export function eachOutcome(bytes: Uint8Array, settle: (ticket: number, appended: Appended) => void): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at < bytes.length; at += ANSWER_BYTES) {
    settle(view.getFloat64(at, true), {
      position: view.getFloat64(at + 8, true),
      lastPosition: view.getFloat64(at + 16, true),
      firstSequence: view.getFloat64(at + 24, true),
      lastSequence: view.getFloat64(at + 32, true),
      repeated: view.getFloat64(at + 40, true) === 1,
    });
  }
}
