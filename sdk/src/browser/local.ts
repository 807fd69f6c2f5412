import type { Binding, Part } from "../binding.js";
import { RunlogError } from "../error.js";
import * as glue from "../wasm/runlog_wasm.js";
import { type Files, PickedFiles } from "./files.js";
import { OpfsFiles } from "./opfs.js";

/** What the module is made from: its address, its bytes, or the compiled module. */
export type WasmSource = string | URL | Response | BufferSource | WebAssembly.Module;

/** A folder to open a store in. @internal */
export type Mount =
  | { kind: "opfs"; name: string; create: boolean; isWriter: boolean; lockTimeoutMs: number }
  | { kind: "picked"; name: string; files: ReadonlyMap<string, Blob> };

/** How long the thread is kept from its other events at most. */
const TURN_MS = 4;

let loading: Promise<void> | undefined;

/** The module in this thread. It is there once, whoever asks for it. @internal */
export function load(source?: WasmSource): Promise<void> {
  loading ??= instantiate(source).catch((cause: unknown) => {
    // Another address may do better.
    loading = undefined;
    throw new RunlogError("io", `Runlog's WebAssembly module could not be loaded: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  });
  return loading;
}

async function instantiate(source: WasmSource = new URL("../wasm/runlog_wasm_bg.wasm", import.meta.url)): Promise<void> {
  await glue.default({ module_or_path: source });
}

/** Makes a folder reachable for the core, under the path that this gives. @internal */
export async function mountHere(mount: Mount): Promise<string> {
  return glue.mount(await filesOf(mount));
}

/** Lets go of a folder in which no store could be opened. @internal */
export function unmountHere(path: string): void {
  glue.unmount(path);
}

function filesOf(mount: Mount): Files | Promise<Files> {
  if (mount.kind === "opfs") return OpfsFiles.open(mount);
  if (typeof FileReaderSync === "undefined") {
    throw new RunlogError("invalid_input", "files can only be read in a worker; leave out `worker: false`");
  }
  return new PickedFiles(mount.name, mount.files);
}

/** The way to the core in this thread. Load it first. @internal */
export function localBinding(): Binding {
  let listener: (parts: Part[]) => void = () => {};
  let isScheduled = false;
  const poll = () => {
    isScheduled = false;
    listener(guarded(() => glue.poll()));
  };
  // Microtasks are soonest, but one after the other they let nothing else of the thread have its turn.
  const turns = new MessageChannel();
  let turnedAt = 0;
  turns.port1.onmessage = () => {
    turnedAt = performance.now();
    poll();
  };
  // It is called in the middle of a call.
  glue.start(() => {
    if (isScheduled) return;
    isScheduled = true;
    if (performance.now() - turnedAt < TURN_MS) queueMicrotask(poll);
    else turns.port2.postMessage(undefined);
  });
  return {
    call: (handle, method, args, data) => guarded(() => glue.call(handle, method, args, data)),
    append: (packed) => guarded(() => glue.append(packed)),
    cancel: (ticket) => glue.cancel(ticket),
    release: (handle) => glue.release(handle),
    isBusy: () => glue.isBusy(),
    onReplies: (to) => void (listener = to),
    keepAlive: () => {},
  };
}

/** A fault ends the instance, and all that it can say is `unreachable`; what it said before is left for us. */
function guarded<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    const { __runlogPanic: message } = globalThis as { __runlogPanic?: string };
    if (message === undefined) throw error;
    throw new Error(message, { cause: error });
  }
}
