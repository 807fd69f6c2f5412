import { messageOf } from "./error.js";

/** What of Node's process is used here; a browser has none. */
interface Host {
  on(signal: string, listener: (signal: string, number: number) => void): unknown;
  prependListener(signal: string, listener: (signal: string, number: number) => void): unknown;
  off(signal: string, listener: (signal: string, number: number) => void): unknown;
  listenerCount(signal: string): number;
  listeners(signal: string): unknown[];
  exit(code: number): never;
  readonly stderr: { write(text: string): unknown };
  kill(pid: number, signal: string): void;
  readonly pid: number;
}

const SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"];
/** For how long it listens on once no request is open any more. */
const LISTEN_ON_MS = 1000;

/** The requests of this thread. All copies of this package in it share them: each would take the listener of another for the program's own. */
interface Shared {
  /** Those that are under way, as long as somebody holds them. */
  readonly open: Set<WeakRef<object>>;
  /** What writes each. */
  readonly closes: WeakMap<object, { entry: WeakRef<object>; close: () => Promise<void> }>;
  /** Those that are being begun. */
  readonly beginning: Set<Promise<unknown>>;
  /** The stores that are being closed: that writes the requests which were open. */
  readonly closing: Set<Promise<unknown>>;
  /** Whether one was collected while it listened: the addon writes it then, which may be under way. */
  someCollected: boolean;
  /** Whether a signal ends the process. */
  isExiting: boolean;
  /** What listens to signals, where something does. */
  listener: ((signal: string, number: number) => void) | undefined;
  /** When the last request ended. */
  idleSince: number;
  /** Whether it is looked later whether a request has begun since. */
  isForgetting: boolean;
}

const SHARED = Symbol.for("runlog open requests");
const shared = ((globalThis as { [SHARED]?: Shared })[SHARED] ??= {
  open: new Set(),
  closes: new WeakMap(),
  beginning: new Set(),
  closing: new Set(),
  someCollected: false,
  isExiting: false,
  listener: undefined,
  idleSince: 0,
  isForgetting: false,
});
// Kept from the beginning: that of a test that makes up the time doesn't go on by itself.
const { setTimeout } = globalThis as unknown as { setTimeout: (call: () => void, ms: number) => { unref?: () => void } };

/** The process, where this is the main thread of one: only that gets signals. */
function host(): Host | undefined {
  const { process } = globalThis as { process?: Host & { versions?: { node?: string } } };
  return process?.versions?.node === undefined ? undefined : process;
}

/** What a signal that ends the process leaves waiting for that end. @internal */
export function untilExit(): Promise<never> {
  return new Promise<never>(() => {});
}

/** Begins a request, unless a signal ends the process: then it is written, and nobody gets it. @internal */
export async function beginning<T>(begin: () => Promise<T>): Promise<T> {
  if (shared.isExiting) await untilExit();
  listen();
  const begun = begin();
  shared.beginning.add(begun);
  try {
    const request = await begun;
    if (shared.isExiting) await untilExit();
    return request;
  } finally {
    shared.beginning.delete(begun);
    forgetWhereIdle();
  }
}

/** Closes a store, which a signal waits for: the requests that this writes refuse calls by then, and so aren't `open` any more. @internal */
export async function closing(work: Promise<void>): Promise<void> {
  shared.closing.add(work);
  try {
    await work;
  } finally {
    shared.closing.delete(work);
    forgetWhereIdle();
  }
}

/** Sees to it that a request is written when a signal ends the process: by `close`. @internal */
export function requestBegan(request: object, close: () => Promise<void>): void {
  const entry = new WeakRef(request);
  shared.open.add(entry);
  shared.closes.set(request, { entry, close });
  listen();
}

/** The request is written. @internal */
export function requestEnded(request: object): void {
  const begun = shared.closes.get(request);
  if (begun !== undefined) shared.open.delete(begun.entry);
  forgetWhereIdle();
}

function listen(): void {
  const process = host();
  if (process === undefined) return;
  const listener = (shared.listener ??= onSignal);
  // Somebody may have removed all there were. Before all others: one that listens once is no longer counted when it has been called.
  for (const signal of SIGNALS) if (!process.listeners(signal).includes(listener)) process.prependListener(signal, listener);
}

function isIdle(): boolean {
  for (const entry of shared.open) {
    if (entry.deref() !== undefined) continue;
    shared.open.delete(entry);
    shared.someCollected = true;
  }
  return shared.open.size === 0 && shared.beginning.size === 0 && shared.closing.size === 0;
}

/** Not at once: a signal that has come, and that Node hasn't handed over yet, would be nobody's, and the process would go on. */
function forgetWhereIdle(): void {
  shared.idleSince = performance.now();
  if (shared.listener === undefined || shared.isForgetting || !isIdle()) return;
  shared.isForgetting = true;
  forgetIn(LISTEN_ON_MS);
}

function forgetIn(ms: number): void {
  const look = () => {
    const left = shared.idleSince + LISTEN_ON_MS - performance.now();
    if (isIdle() && left > 0) {
      forgetIn(left);
      return;
    }
    shared.isForgetting = false;
    if (isIdle()) stopListening();
  };
  setTimeout(look, ms).unref?.();
}

function stopListening(): void {
  const { listener } = shared;
  shared.listener = undefined;
  shared.someCollected = false;
  if (listener !== undefined) for (const signal of SIGNALS) host()?.off(signal, listener);
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
  if (isIdle() && !shared.someCollected) {
    // It does what it always does.
    stopListening();
    process.kill(process.pid, signal);
    return;
  }
  shared.isExiting = true;
  const exit = () => process.exit(128 + number);
  // Whoever asks again doesn't want to wait.
  for (const other of SIGNALS) process.on(other, exit);
  void closeAll().then(exit);
}

/** Writes the requests, but for those that were collected, which the addon writes at the exit; also those that are being begun, or whose store is being closed. */
async function closeAll(): Promise<void> {
  const { open, closes, beginning: begun, closing: stores } = shared;
  while (open.size > 0 || begun.size > 0 || stores.size > 0) {
    const requests = [...open].map((entry) => entry.deref());
    const written = requests.map((request) => request && closes.get(request)?.close());
    open.clear();
    // Those that are being begun are open then.
    const made = [...begun];
    begun.clear();
    const closed = [...stores];
    stores.clear();
    const [lost, unclosed] = await Promise.all([failures(written), failures(closed), Promise.allSettled(made)]);
    // Nobody else is told: the process ends.
    if (lost.length > 0) tell(`${lost.length} of its requests could not be written: ${lost[0]}`);
    if (unclosed.length > 0) tell(`a store could not be closed: ${unclosed[0]}`);
  }
}

/** What those that fail say. */
async function failures(work: readonly unknown[]): Promise<string[]> {
  const settled = await Promise.allSettled(work);
  return settled.flatMap((it) => (it.status === "rejected" ? [messageOf(it.reason)] : []));
}

function tell(what: string): void {
  host()?.stderr.write(`runlog: as a signal ended the process, ${what}\n`);
}
