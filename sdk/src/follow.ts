import type { StoreCalls } from "./generated/calls.js";
import type { Mark, Watched } from "./generated/types.js";
import type { Handle } from "./handle.js";
import { RunlogError, abortedError, throwIfAborted } from "./error.js";
import { Pages } from "./pages.js";
import { whenAborted } from "./signals.js";

/** What there was to read from a place on, and where to go on: the same place, as `===` has it, where there was nothing. */
interface Read<T, Place> {
  items: T[];
  next: Place;
  /** Whether nothing can come any more. */
  isEnd?: boolean;
}

/**
 * What is there from a place on, then what comes: without a gap or a repeat, and without asking while nothing comes of what is
 * watched.
 * It ends without an error when the signal is aborted or the store is closed.
 *
 * @internal
 */
export function follow<T, Place = number>(
  store: Handle<StoreCalls>,
  given: AbortSignal | undefined,
  from: Place,
  read: (from: Place, signal: AbortSignal, mark: Mark) => Promise<Read<T, Place>>,
  watches: Watched | (() => Promise<Watched>) = "store",
): Pages<T> {
  async function* pages(stop: AbortSignal): AsyncGenerator<T[], void, undefined> {
    let next = from;
    let isEnd = false;
    let watched = typeof watches === "function" ? undefined : watches;
    const readOrWait = async (signal: AbortSignal): Promise<T[]> => {
      watched ??= await (watches as () => Promise<Watched>)();
      // Made before the page is read, so that a record that comes in between ends the wait at once.
      const mark = await store.value("mark", { watched }, undefined, { signal });
      const page = await read(next, signal, mark);
      // A page may have nothing to give and yet not be the last: one of records that were all redacted.
      const isAtEnd = page.items.length === 0 && page.next === next;
      next = page.next;
      isEnd = page.isEnd ?? false;
      if (isAtEnd && !isEnd) await store.value("changed", { mark }, undefined, { signal });
      return page.items;
    };
    try {
      for (;;) {
        const items = await withEither(stop, given, readOrWait);
        if (items.length > 0) yield items;
        if (isEnd) return;
      }
    } catch (error) {
      if (error instanceof RunlogError && (error.code === "aborted" || error.code === "closed")) return;
      throw error;
    }
  }
  return new Pages(pages, given, { ends: true });
}

/**
 * Does something with a signal that is aborted with either of two. They hold nothing of it afterwards, so that a reader may
 * be let go of without a call. Throws when one is aborted already, or is no signal.
 *
 * @internal
 */
export async function withEither<T>(
  one: AbortSignal,
  other: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (other === undefined) return await work(one);
  throwIfAborted(one);
  throwIfAborted(other);
  const controller = new AbortController();
  const forget = [one, other].map((signal) => whenAborted(signal, () => controller.abort(signal.reason)));
  try {
    return await work(controller.signal);
  } finally {
    for (const each of forget) each();
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
