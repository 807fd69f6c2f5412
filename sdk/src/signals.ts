import { abortedError, throwIfAborted } from "./error.js";

/** Who is called when a signal is aborted. */
const listeners = new WeakMap<AbortSignal, { callbacks: Set<() => void>; onAbort: () => void }>();

/**
 * Has a function called when a signal is aborted, until what this returns is called. However many wait for one signal, it
 * has one listener of ours: Node warns of a leak when there are more than ten.
 *
 * @internal
 */
export function whenAborted(signal: AbortSignal, callback: () => void): () => void {
  const entry = listeners.get(signal) ?? begin(signal);
  // A function of its own, so that one callback may wait twice.
  const own = () => callback();
  entry.callbacks.add(own);
  return () => {
    entry.callbacks.delete(own);
    if (entry.callbacks.size === 0 && listeners.get(signal) === entry) end(signal, entry.onAbort);
  };
}

function begin(signal: AbortSignal) {
  const callbacks = new Set<() => void>();
  const onAbort = () => {
    end(signal, onAbort);
    for (const callback of [...callbacks]) callback();
  };
  const entry = { callbacks, onAbort };
  listeners.set(signal, entry);
  signal.addEventListener("abort", onAbort, { once: true });
  return entry;
}

function end(signal: AbortSignal, onAbort: () => void): void {
  listeners.delete(signal);
  signal.removeEventListener("abort", onAbort);
}

/**
 * What an iteration gives until a signal is aborted: then an error, also while the next item is awaited. An iteration that
 * hangs is left behind. Nothing of it is kept by the signal, which may live for long.
 *
 * @internal
 */
export async function* unlessAborted<T>(items: AsyncIterable<T> | Iterable<T>, signal: AbortSignal | undefined): AsyncGenerator<T> {
  const iterator = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  let done = false;
  try {
    for (;;) {
      throwIfAborted(signal);
      const next = await settledUnlessAborted(iterator.next(), signal);
      done = next.done === true;
      if (next.done) return;
      yield next.value;
    }
  } catch (cause) {
    done = !signal?.aborted;
    throw cause;
  } finally {
    // Not awaited: one that doesn't heed its signal may never come to its end.
    if (!done) Promise.resolve(iterator.return?.()).then(undefined, () => {});
  }
}

async function settledUnlessAborted<T>(promise: T | Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await promise;
  let forget = () => {};
  const aborted = new Promise<never>((_, reject) => (forget = whenAborted(signal, () => reject(abortedError(signal)))));
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    forget();
  }
}
