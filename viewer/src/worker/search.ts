import type { LogIndex } from "./index.js";
import { u32 } from "./lists.js";
import type { Source } from "./source.js";

const utf8 = new TextDecoder();

const FIRST_MS = 150;
const LAST_MS = 2400;

/** Finds a text in every payload of a log, in any case, also where JSON has it with backslashes. */
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
    const forms = formsOf(this.query);
    let toldAt = performance.now();
    // What is told is drawn, which takes its time in long recordings: first soon, then less and less often.
    let pause = FIRST_MS;
    for await (const page of this.source.records(1)) {
      if (this.#stopped) return;
      for (const record of page) {
        if (record.payload.length === 0) continue;
        const text = utf8.decode(record.payload).toLowerCase();
        if (!forms.some((form) => text.includes(form))) continue;
        const row = this.index.rowAt(record.position);
        if (row < 0) continue;
        this.hits.push(row);
        this.#isHit[row] = 1;
      }
      if (performance.now() - toldAt > pause) {
        told();
        toldAt = performance.now();
        pause = Math.min(LAST_MS, pause * 2);
        // Whoever asks something meanwhile is answered.
        await new Promise((resolve) => setTimeout(resolve, 0));
      }
    }
    this.done = true;
    told();
  }
}

/** The query as it may stand in JSON: as it is, and inside of a string of JSON inside of JSON. */
function formsOf(query: string): string[] {
  const once = JSON.stringify(query.toLowerCase()).slice(1, -1);
  const twice = JSON.stringify(once).slice(1, -1);
  return [...new Set([once, twice])];
}
