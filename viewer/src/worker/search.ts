import type { LogIndex } from "./index.js";
import { u32 } from "./lists.js";
import type { Source } from "./source.js";

const FIRST_MS = 150;
const LAST_MS = 2400;
/** So long nothing else is answered. */
const SLICE_MS = 30;

/** Finds a text in every payload of a log, and which rows these are. */
export class Search {
  readonly hits = u32();
  done = false;
  readonly #isHit: Uint8Array;
  #stopped = false;

  constructor(
    readonly query: string,
    private readonly index: LogIndex,
    private readonly source: Source,
  ) {
    this.#isHit = new Uint8Array(index.rows.length);
  }

  has(row: number): boolean {
    return this.#isHit[row] === 1;
  }

  stop(): void {
    this.#stopped = true;
  }

  /** Goes through the log; `told` is called now and then. */
  async run(told: () => void): Promise<void> {
    const positions = this.index.rows.position;
    let toldAt = performance.now();
    let pausedAt = toldAt;
    // What is told is drawn, which takes its time in long recordings: first soon, then less and less often.
    let pause = FIRST_MS;
    let row = 0;
    for await (const { found } of this.source.search(this.query)) {
      if (this.#stopped) return;
      for (const position of found) {
        while (row < positions.length && positions.at(row) < position) row += 1;
        // What isn't shown, such as lists of the store's own, is found too.
        if (row >= this.#isHit.length || positions.at(row) !== position) continue;
        this.hits.push(row);
        this.#isHit[row] = 1;
      }
      const now = performance.now();
      if (now - toldAt > pause) {
        told();
        toldAt = performance.now();
        pause = Math.min(LAST_MS, pause * 2);
      }
      if (now - pausedAt > SLICE_MS) {
        // Whoever asks something meanwhile is answered.
        await new Promise((resolve) => setTimeout(resolve, 0));
        pausedAt = performance.now();
      }
    }
    this.done = true;
    told();
  }
}
