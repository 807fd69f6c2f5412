/** Who is told when a signal is aborted. */
const told = new WeakMap<AbortSignal, { callbacks: Set<() => void>; onAbort: () => void }>();

/**
 * Has a function called when a signal is aborted, until what this returns is called. However many wait for one signal, it
 * has one listener of ours: Node warns of a leak when there are more than ten.
 *
 * @internal
 */
export function whenAborted(signal: AbortSignal, callback: () => void): () => void {
  const entry = told.get(signal) ?? begin(signal);
  // A function of its own, so that one callback may wait twice.
  const own = () => callback();
  entry.callbacks.add(own);
  return () => {
    entry.callbacks.delete(own);
    if (entry.callbacks.size === 0 && told.get(signal) === entry) end(signal, entry.onAbort);
  };
}

function begin(signal: AbortSignal) {
  const callbacks = new Set<() => void>();
  const onAbort = () => {
    end(signal, onAbort);
    for (const callback of [...callbacks]) callback();
  };
  const entry = { callbacks, onAbort };
  told.set(signal, entry);
  signal.addEventListener("abort", onAbort, { once: true });
  return entry;
}

function end(signal: AbortSignal, onAbort: () => void): void {
  told.delete(signal);
  signal.removeEventListener("abort", onAbort);
}
