import { optionsOf, shown } from "./checks.js";
import { invalid, throwIfAborted } from "./error.js";
import type { RecordedEvent, RunSnapshot, RuntimeEvent } from "./flow-types.js";
import { sleep, withEither } from "./follow.js";
import type { PlaybackCalls } from "./generated/calls.js";
import type { Handle } from "./handle.js";
import { textOf } from "./json.js";
import { unpackContents } from "./packed.js";
import { Pages } from "./pages.js";

/** So much of the time that a timer fired too late is made up for with the next events. */
const LATE_MAX_MS = 50;

/**
 * A flow played back: its events in order, each after the time to let pass before it. Going through it again goes on
 * where it was.
 */
export class Playback implements AsyncIterable<RecordedEvent> {
  /** The latest state of the flow, up to the last sequence asked for. For looking at, not for running. */
  readonly snapshot: RunSnapshot | undefined;
  readonly #handle: Handle<PlaybackCalls>;
  readonly #signal: AbortSignal | undefined;
  /** Events that were read and not given yet, in order. */
  #rest: RecordedEvent[] = [];
  #reading: Promise<boolean> | undefined;
  /** How often it was sent elsewhere: what was read before counts no more. */
  #jumps = 0;

  /** @internal */
  constructor(handle: Handle<PlaybackCalls>, snapshot: RunSnapshot | undefined, signal: AbortSignal | undefined) {
    this.#handle = handle;
    this.snapshot = snapshot;
    this.#signal = signal;
  }

  /**
   * Goes on with the event at a sequence, or with the nearest behind it in the direction of play, which can be another from
   * then on. It may be called while it is gone through. To pause, stop going through it: going through it again goes on.
   *
   * @example
   * ```ts
   * await playback.seek(40, { backward: true }); // 40, 39, 38, …
   * for await (const { sequence } of playback) console.log(sequence);
   * ```
   */
  async seek(sequence: number, options: { backward?: boolean | undefined } = {}): Promise<void> {
    const { backward } = optionsOf(options, ["backward"]);
    // Checked here, since what was read is given up before the core is asked.
    if (!Number.isSafeInteger(sequence) || sequence < 0) throw invalid(`\`sequence\` must be a whole number of at least 0, not ${shown(sequence)}`);
    if (backward !== undefined && typeof backward !== "boolean") throw invalid(`\`backward\` must be true or false, not ${shown(backward)}`);
    // Pages that were asked for before are of the old place, those from now on of the new one: the core answers in order.
    this.#jumps += 1;
    this.#rest = [];
    await this.#handle.value("seek", { sequence, backward });
  }

  /** The events, after their delays. */
  [Symbol.asyncIterator](): AsyncIterator<RecordedEvent, void, undefined> & AsyncIterable<RecordedEvent> {
    return new Pages((stop) => this.#paced(stop))[Symbol.asyncIterator]();
  }

  async *#paced(stop: AbortSignal): AsyncGenerator<RecordedEvent[], void, undefined> {
    // What is to be waited for: less than nothing where a timer fired late, as each does by up to a millisecond or two.
    let owedMs = 0;
    try {
      for await (const event of this.events()) {
        const jumps = this.#jumps;
        owedMs += event.delayMs;
        try {
          if (owedMs > 0) {
            const began = performance.now();
            await withEither(stop, this.#signal, (signal) => sleep(owedMs, signal));
            // A machine that slept isn't made up for.
            owedMs = jumps === this.#jumps ? Math.max(owedMs - (performance.now() - began), -LATE_MAX_MS) : 0;
          }
        } catch (error) {
          // Whoever goes on gets it.
          if (jumps === this.#jumps) this.#rest.unshift(event);
          throw error;
        }
        if (jumps === this.#jumps) yield [event];
      }
    } catch (error) {
      // Nobody waits for what is left.
      if (!stop.aborted) throw error;
    }
  }

  /** The events without waiting: each says its delay. */
  events(): Pages<RecordedEvent> {
    return new Pages(() => this.#pages());
  }

  async *#pages(): AsyncGenerator<RecordedEvent[], void, undefined> {
    for (;;) {
      // One at a time: what a reader leaves is for the next.
      while (this.#rest.length > 0) {
        throwIfAborted(this.#signal);
        yield this.#rest.splice(0, 1);
      }
      // Of several that go through it at once, one reads, and each event is given to one of them.
      this.#reading ??= this.#read().finally(() => (this.#reading = undefined));
      if (!(await this.#reading)) return;
    }
  }

  /** Reads the next events; whether there may be more. */
  async #read(): Promise<boolean> {
    const jumps = this.#jumps;
    const bytes = await this.#handle.bytes("nextPage", undefined, undefined, { signal: this.#signal });
    if (jumps !== this.#jumps) return true;
    const { heads, take } = unpackContents<[number, number, number, number, number][]>(bytes);
    this.#rest = heads.map(([delayMs, sequence, position, recordedAtMs, length]) => {
      const json = textOf(take(length));
      return { delayMs, sequence, position, recordedAtMs, event: JSON.parse(json) as RuntimeEvent, json };
    });
    return heads.length > 0;
  }
}
