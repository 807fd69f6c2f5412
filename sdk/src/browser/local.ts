import type { Binding, Part } from "../binding.js";
import { RunlogError } from "../error.js";
import * as glue from "../wasm/runlog_wasm.js";
import { type WasmSource, compiled } from "./compile.js";
import { type Files, type ReadFigures, ReadOnlyFiles } from "./files.js";
import { OpfsFiles } from "./opfs.js";
import { OpfsReader } from "./opfs-reader.js";
import { pickedFiles } from "./picked.js";
import { remoteFiles } from "./remote-files.js";

/** A folder to open a store in. @internal */
export type Mount =
  | { kind: "opfs"; name: string; isWriter: false }
  | { kind: "opfs"; name: string; isWriter: true; create: boolean; lockTimeoutMs: number; segmentBytesMax: number | undefined }
  | { kind: "picked"; name: string; files: ReadonlyMap<string, Blob> }
  | { kind: "served"; url: string; names: readonly string[] | undefined };

/** How long the thread is kept from its other events at most. */
const TURN_MS = 4;

let loading: Promise<void> | undefined;

/** The module in this thread. It is there once, whoever asks for it. @internal */
export function load(source?: WasmSource): Promise<void> {
  loading ??= instantiate(source).catch((error: unknown) => {
    // Another address may do better.
    loading = undefined;
    throw error;
  });
  return loading;
}

async function instantiate(source: WasmSource | undefined): Promise<void> {
  if (source === undefined) throw new RunlogError("io", "Runlog's WebAssembly module could not be loaded: nothing says where it is; give it to init() as `wasm`");
  const module = await compiled(source);
  try {
    await glue.default({ module_or_path: module });
  } catch (cause) {
    throw new RunlogError("io", `Runlog's WebAssembly module could not be started: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** The folders that are only read, by their paths. */
const readOnly = new Map<string, ReadOnlyFiles>();
/** Those of the browser's own file system. */
const opfs = new Map<string, OpfsFiles | OpfsReader>();

/** Makes a folder reachable for the core, under the path that this gives. @internal */
export async function mountHere(mount: Mount): Promise<string> {
  const files = await filesOf(mount);
  const path = guarded(() => glue.mount(files));
  if (files instanceof ReadOnlyFiles) readOnly.set(path, files);
  else opfs.set(path, files as OpfsFiles | OpfsReader);
  return path;
}

/** Lets go of a folder, in which no store could be opened or whose store is closed. @internal */
export function unmountHere(path: string): void {
  readOnly.delete(path);
  opfs.delete(path);
  if (ended === undefined) glue.unmount(path);
}

/**
 * Opens files of the browser's own file system that the next call may need, since a call can't wait for them: those that a writer
 * elsewhere has added, and spare ones for so many bytes. `undefined` when they are open; it never fails, for a call that lacks
 * one says so itself.
 *
 * @internal
 */
export function readyHere(bytes: number): Promise<unknown> | undefined {
  let waits: Promise<void>[] | undefined;
  for (const files of opfs.values()) {
    try {
      const wait = files.ready(bytes);
      if (wait !== undefined) (waits ??= []).push(wait);
    } catch {
      // As above.
    }
  }
  return waits && Promise.allSettled(waits);
}

/** How much was read of a folder that is only read, so far. @internal */
export function figuresHere(path: string): ReadFigures | undefined {
  return readOnly.get(path)?.figures;
}

function filesOf(mount: Mount): Files | Promise<Files> {
  switch (mount.kind) {
    case "opfs":
      return mount.isWriter ? OpfsFiles.open(mount) : OpfsReader.open(mount.name);
    case "picked":
      return pickedFiles(mount.name, mount.files);
    case "served":
      return remoteFiles(mount);
  }
}

/** The way to the core in this thread. Load it first. @internal */
export function localBinding(): Binding {
  let listener: (parts: Part[]) => void = () => {};
  let isScheduled = false;
  const poll = () => {
    isScheduled = false;
    let parts: Part[];
    try {
      parts = guarded(() => glue.poll());
    } catch {
      // Who listens to its end is called.
      return;
    }
    listener(parts);
  };
  const next = turnsBetween(poll);
  // It is called in the middle of a call.
  glue.start(() => {
    if (isScheduled) return;
    isScheduled = true;
    next();
  });
  return {
    call: (handle, method, args, data) => guarded(() => glue.call(handle, method, args, data)),
    append: (packed) => guarded(() => glue.append(packed)),
    cancel: (ticket) => ended === undefined && glue.cancel(ticket),
    release: (handle) => {
      if (ended === undefined) guarded(() => glue.release(handle));
    },
    isBusy: () => ended === undefined && glue.isBusy(),
    onReplies: (to) => void (listener = to),
    onEnded: (to) => void (endListener = to),
    keepAlive: () => {},
  };
}

/**
 * What has `work` done soon. Microtasks are soonest, but one after the other they let nothing else of the thread have its turn.
 *
 * @internal
 */
export function turnsBetween(work: () => void): () => void {
  let turnedAt = 0;
  const nextTurn = turns(() => {
    turnedAt = performance.now();
    work();
  });
  return () => {
    if (performance.now() - turnedAt < TURN_MS) queueMicrotask(work);
    else nextTurn();
  };
}

/** What has `work` done in the next turn of the event loop. Timers would wait longer. */
function turns(work: () => void): () => void {
  // In workerd a channel belongs to the request that it was made in.
  if (typeof Worker === "undefined") return () => void setTimeout(work, 0);
  const { port1, port2 } = new MessageChannel();
  port1.onmessage = work;
  return () => port2.postMessage(undefined);
}

/** Why the module can't be used any more. */
let ended: string | undefined;
let endListener: (why: string) => void = () => {};

/**
 * Calls the module. A fault in it ends it: nothing is unwound, so that whatever it had in hand stays in its hand, and all that
 * the error says is `unreachable`; what was said before is left for us.
 */
function guarded<T>(work: () => T): T {
  if (ended !== undefined) throw new Error(ended);
  try {
    return work();
  } catch (cause) {
    const { __runlogPanic: panic } = globalThis as { __runlogPanic?: string };
    // What else it throws, it throws on purpose.
    const isFault = cause instanceof WebAssembly.RuntimeError || cause instanceof RangeError || panic !== undefined;
    if (!isFault) throw cause;
    ended = `Runlog's module has ended, from a fault or because the memory ran out (${panic ?? String(cause)}); what was acknowledged is kept where it was written: open the store again`;
    const why = ended;
    // Not in the middle of the call that failed, which has an answer of its own.
    queueMicrotask(() => endListener(why));
    throw new Error(why, { cause });
  }
}
