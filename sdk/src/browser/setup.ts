import { Channel } from "../binding.js";
import { optionsOf, shown } from "../checks.js";
import { RunlogError, invalid } from "../error.js";
import type { ReadFigures } from "./files.js";
import { type WasmSource, compiled } from "./compile.js";
import { type Mount, figuresHere, load, localBinding, mountHere, unmountHere } from "./local.js";
import { ownWorker } from "./own-worker.js";
import { spawnWorker } from "./spawn.js";

/** How Runlog is set up in this thread. */
export interface InitOptions {
  /** Where the WebAssembly module is, or what it is. Beside the package's own files unless given. */
  wasm?: WasmSource | undefined;
  /**
   * The worker that does the work: one that was made from `runlog/worker`, or `false` to do it in this thread, where files
   * and the browser's file system are there in workers only. A worker of its own is started unless given; in a worker it is
   * `false`. Its script may take its time to load, so one that isn't of `runlog/worker`, and answers nothing, is given up only after 30 s.
   */
  worker?: Worker | false | undefined;
}

/** What an entry of the package has of its own. @internal */
export interface Entry {
  wasm(): WasmSource | Promise<WasmSource>;
  /** Starts a worker, where there are any. */
  worker?: () => Worker;
  /** Whether a worker that is started has to be given the module. */
  givesModule?: boolean;
}

/** The core, where it is. @internal */
export interface Core {
  channel: Channel;
  mount(mount: Mount): Promise<string>;
  unmount(path: string): void;
  figures(path: string): Promise<ReadFigures | undefined>;
}

/** How long a worker that was given may take to load its scripts. */
const SILENT_MS = 30_000;

let entry: Entry | undefined;
let core: Promise<Core> | undefined;

/** Says what the entry has that was loaded. Of two entries the one that needs nothing beside it is used. @internal */
export function useEntry(one: Entry): void {
  if (entry?.givesModule !== true) entry = one;
}

/**
 * Sets Runlog up in this thread. The first call that opens a store does it by itself; call it before to say where the
 * module or the worker is, or to load both ahead of need.
 *
 * @throws {@link RunlogError} `invalid_input` when it was set up already; `io` when the module or the worker can't be loaded, or the
 * worker isn't one of `runlog/worker`.
 *
 * @example
 * ```ts
 * import { init, open } from "runlog";
 * import wasm from "runlog/runlog.wasm?url"; // Vite
 *
 * await init({ wasm });
 * const store = await open("agents");
 * ```
 */
export async function init(options: InitOptions = {}): Promise<void> {
  if (core !== undefined) throw new RunlogError("invalid_input", "Runlog is set up already; call init() once, before anything is opened");
  const given = optionsOf(options, ["wasm", "worker"]);
  const { worker = false } = given;
  if (worker !== false && !isPort(worker)) throw invalid(`\`worker\` is ${shown(worker)}; give a Worker, or false`);
  await begin(given);
}

/** What is under way, or begun. One that failed or has ended may be begun again. @internal */
export function begin(options: InitOptions = {}): Promise<Core> {
  core ??= setUp(options, () => (core = undefined)).catch((error: unknown) => {
    core = undefined;
    throw error;
  });
  return core;
}

async function setUp(options: InitOptions, onEnded: () => void): Promise<Core> {
  // Where there are no workers there are no files to wait for, and what one request waits for may not answer another.
  const isOwn = isWorker() && entry?.worker !== undefined && !options.worker;
  const started = options.worker ?? (isOwn ? false : entry?.worker?.());
  if (isOwn) {
    const wasm = options.wasm ?? (await entry?.wasm());
    const { binding, ...rest } = await spawnWorker(ownWorker(wasm), Promise.resolve(undefined), onEnded);
    return { channel: new Channel(binding), ...rest };
  }
  if (!started) {
    await load(options.wasm ?? (await entry?.wasm()));
    return { channel: new Channel(localBinding()), mount: mountHere, unmount: unmountHere, figures: async (path) => figuresHere(path) };
  }
  // One that was given may be anybody's; one of ours says why it can't be loaded.
  const silentMs = options.worker ? SILENT_MS : undefined;
  const { binding, ...rest } = await spawnWorker(started, moduleFor(options), onEnded, silentMs);
  return { channel: new Channel(binding), ...rest };
}

/** The module for a worker, compiled by the page while the worker starts; none where the worker loads its own. */
async function moduleFor({ wasm, worker }: InitOptions): Promise<WebAssembly.Module | undefined> {
  if (wasm !== undefined) return compiled(wasm);
  if (entry?.givesModule === true) return compiled(await entry.wasm());
  // The worker of an application may have its own beside it, somewhere else.
  if (worker !== undefined || entry === undefined) return undefined;
  // Should it not be there for the page, the worker tries, and says why it can't.
  return compiled(await entry.wasm()).catch(() => undefined);
}

/** Whether a value is a worker; also one of another frame's. */
function isPort(value: unknown): boolean {
  const { postMessage, addEventListener, terminate } = Object(value) as Partial<Worker>;
  return [postMessage, addEventListener, terminate].every((method) => typeof method === "function");
}

function isWorker(): boolean {
  return "WorkerGlobalScope" in globalThis;
}
