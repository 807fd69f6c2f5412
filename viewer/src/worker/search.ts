import type { LogIndex } from "./index.js";
import { u32, u8 } from "./lists.js";
import type { Source } from "./source.js";

const FIRST_MS = 150;
const LAST_MS = 2400;
/** So long nothing else is answered. */
const SLICE_MS = 30;

/** Finds a text in every payload of a log, and which rows these are. What comes later is looked through as well. */
export class Search {
  readonly hits = u32();
  done = false;
  readonly #isHit = u8();
  /** The position from which on nothing was looked through. */
  #next = 1;
  /** The first row that may be at it. */
  #row = 0;
  #isRunning = false;
  #stopped = false;

  /** `total` is how many records the source has. */
  constructor(
    readonly query: string,
    private readonly index: LogIndex,
    private source: Source,
    private total: number,
  ) {}

  has(row: number): boolean {
    return row >= 0 && row < this.#isHit.length && this.#isHit.at(row) === 1;
  }

  stop(): void {
    this.#stopped = true;
  }

  /** The log has more, which another source reads; what was found stays. It runs on, or is to be run again. */
  extend(source: Source, total: number): void {
    this.source = source;
    this.total = total;
    this.done = false;
  }

  /** Goes through the log from where it has come to; `onProgress` is called now and then. */
  async run(onProgress: () => void): Promise<void> {
    if (this.#isRunning) return;
    this.#isRunning = true;
    try {
      while (!this.#stopped && this.#next <= this.total) await this.#through(this.source, this.total, onProgress);
    } finally {
      this.#isRunning = false;
    }
    if (this.#stopped) return;
    this.done = true;
    onProgress();
  }

  /** Goes through what a source has, until there is another one. */
  async #through(source: Source, total: number, onProgress: () => void): Promise<void> {
    let toldAt = performance.now();
    let pausedAt = toldAt;
    // What is found is drawn, which takes its time in long recordings: first soon, then less and less often.
    let pause = FIRST_MS;
    try {
      for await (const { found, next } of source.search(this.query, this.#next)) {
        if (this.#stopped) return;
        this.#take(found);
        this.#next = next === 0 ? total + 1 : next;
        const now = performance.now();
        if (now - toldAt > pause) {
          onProgress();
          toldAt = performance.now();
          pause = Math.min(LAST_MS, pause * 2);
        }
        if (now - pausedAt > SLICE_MS) {
          // Whoever asks something meanwhile is answered.
          await new Promise((resolve) => setTimeout(resolve, 0));
          pausedAt = performance.now();
        }
        if (this.source !== source) return;
      }
    } catch (error) {
      // The one before is closed, whatever is read of it.
      if (this.source === source) throw error;
      return;
    }
    this.#next = Math.max(this.#next, total + 1);
  }

  #take(found: Float64Array): void {
    const { position } = this.index.rows;
    for (const at of found) {
      while (this.#row < position.length && position.at(this.#row) < at) this.#row += 1;
      // What isn't shown, such as lists of the store's own, is found too.
      if (this.#row >= position.length || position.at(this.#row) !== at) continue;
      this.hits.push(this.#row);
      const more = this.#row + 1 - this.#isHit.length;
      this.#isHit.reserve(Math.max(0, more));
      this.#isHit.length += Math.max(0, more);
      this.#isHit.set(this.#row, 1);
    }
  }
}
