import type { RequestBuffer } from "./request.js";

/** What of Node's process is used here; a browser has none. */
interface Host {
  on(signal: string, listener: (signal: string, number: number) => void): unknown;
  prependListener(signal: string, listener: (signal: string, number: number) => void): unknown;
  off(signal: string, listener: (signal: string, number: number) => void): unknown;
  listenerCount(signal: string): number;
  exit(code: number): never;
}

const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"];

/** The requests under way in this thread, as long as somebody holds them. */
const open = new Set<WeakRef<RequestBuffer>>();
const entries = new WeakMap<RequestBuffer, { entry: WeakRef<RequestBuffer>; close: () => Promise<void> }>();
let listening = false;

/** The process, where this is the main thread of one: only that gets signals. */
function host(): Host | undefined {
  const { process } = globalThis as { process?: Host & { versions?: { node?: string } } };
  return process?.versions?.node === undefined ? undefined : process;
}

/** Sees to it that a request is written when a signal ends the process: by `close`. @internal */
export function requestBegan(request: RequestBuffer, close: () => Promise<void>): void {
  const entry = new WeakRef(request);
  open.add(entry);
  entries.set(request, { entry, close });
  if (listening) return;
  const process = host();
  if (process === undefined) return;
  listening = true;
  // Before all others: one that listens once is no longer counted when it has been called.
  for (const signal of SIGNALS) process.prependListener(signal, onSignal);
}

/** The request is written. @internal */
export function requestEnded(request: RequestBuffer): void {
  const begun = entries.get(request);
  if (begun !== undefined) open.delete(begun.entry);
  for (const other of open) if (other.deref() === undefined) open.delete(other);
  if (open.size > 0 || !listening) return;
  listening = false;
  for (const signal of SIGNALS) host()?.off(signal, onSignal);
}

/**
 * The listeners of the package `signal-exit`, in its versions: they end the process only where nobody else listens, and so would wait
 * for ours, as ours would for theirs.
 */
function waitingListeners(process: object): number {
  const { [Symbol.for("signal-exit emitter")]: fourth } = globalThis as Record<symbol, unknown>;
  const { __signal_exit_emitter__: third } = process as { __signal_exit_emitter__?: unknown };
  const counts = [third, fourth].map((emitter) => Number((emitter as { count?: unknown } | undefined)?.count));
  return counts.reduce((sum, count) => sum + (count > 0 ? count : 0), 0);
}

/** A signal that nobody else listens to would have ended the process at once: what is open is written first. */
function onSignal(signal: string, number: number): void {
  const process = host();
  if (process === undefined || process.listenerCount(signal) > 1 + waitingListeners(process)) return;
  const exit = () => process.exit(128 + number);
  // Whoever asks again doesn't want to wait.
  for (const other of SIGNALS) process.on(other, exit);
  const requests = [...open].map((entry) => entry.deref()).filter((request) => request !== undefined);
  void Promise.allSettled(requests.map((request) => entries.get(request)?.close())).then(exit);
}
