import type { Handle } from "./handle.js";
import { RunlogError, abortedError, throwIfAborted } from "./error.js";
import { Pages } from "./pages.js";
import { whenAborted } from "./signals.js";

/** What there was to read from a place on, and where to go on. */
interface Read<T> {
  items: T[];
  next: number;
}

/**
 * What is there from a place on, then what comes: without a gap or a repeat, and without asking while nothing comes.
 * It ends without an error when the signal is aborted or the store is closed.
 *
 * @internal
 */
export function follow<T>(
  store: Handle,
  given: AbortSignal | undefined,
  from: number,
  read: (from: number, signal: AbortSignal) => Promise<Read<T>>,
): Pages<T> {
  async function* pages(stop: AbortSignal): AsyncGenerator<T[], void, undefined> {
    let next = from;
    const either = new Either(stop);
    try {
      either.watch(given);
      const { signal } = either;
      for (;;) {
        // Asked for before reading, so that nothing that comes in between is slept through.
        const seen = await store.value<number>("lastPosition", undefined, undefined, { signal });
        const page = await read(next, signal);
        next = page.next;
        if (page.items.length > 0) yield page.items;
        else await store.value<number>("waitPast", { position: seen }, undefined, { signal });
      }
    } catch (error) {
      if (error instanceof RunlogError && (error.code === "aborted" || error.code === "closed")) return;
      throw error;
    } finally {
      either.end();
    }
  }
  return new Pages(pages);
}

/** A signal that is aborted with either of two, and lets go of them at its end. @internal */
export class Either {
  readonly #controller = new AbortController();
  readonly #forget: (() => void)[] = [];

  constructor(stop: AbortSignal) {
    this.watch(stop);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Watches another signal, unless there is none. Throws when it is aborted already, or is none. */
  watch(signal: AbortSignal | undefined): void {
    throwIfAborted(signal);
    if (signal === undefined) return;
    this.#forget.push(whenAborted(signal, () => this.#controller.abort(signal.reason)));
  }

  end(): void {
    for (const forget of this.#forget) forget();
  }
}

/** Lets some time pass. @internal */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  throwIfAborted(signal);
  return new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer);
      if (signal) reject(abortedError(signal));
    };
    const forget = signal && whenAborted(signal, onAbort);
    // Longer ones would overflow, and fire at once.
    const timer = setTimeout(
      () => {
        forget?.();
        resolve();
      },
      Math.min(ms, 2 ** 31 - 1),
    );
  });
}
