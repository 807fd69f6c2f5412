/// <reference lib="esnext.disposable" preserve="true" />

/**
 * An embedded event log for AI-agent runs, in the browser: the same stores, files and calls as in Node, over WebAssembly.
 *
 * - {@link open}: a store of this origin, kept in the browser's own file system (OPFS)
 * - {@link openInMemory}: gone with the page
 * - {@link openFiles}: a store that Node or the command wrote, read only, from files that the user picks or drops
 *
 * The work is done in a worker of its own, so that the page stays responsive; inside of a worker it is done there.
 *
 * @module
 */

import { Channel, check } from "../binding.js";
import { checkText, objectOf } from "../checks.js";
import { RunlogError } from "../error.js";
import { type ToolDefinition, toolsOf } from "../orchestrator.js";
import type { OpenOptions } from "../generated/types.js";
import { type Store, openedStore } from "../store.js";
import { type Mount, type WasmSource, load, localBinding, mountHere, unmountHere } from "./local.js";
import { spawnWorker } from "./spawn.js";

export * from "../api.js";
export { deleteStore, listStores, storeFiles } from "./opfs.js";
export type { WasmSource } from "./local.js";

/** How Runlog is set up in this thread. */
export interface InitOptions {
  /** Where the WebAssembly module is, or what it is. Beside the package's own files unless given. */
  wasm?: WasmSource | undefined;
  /**
   * The worker that does the work: one that was made from `runlog/worker`, or `false` to do it in this thread, where files
   * and the browser's file system are there in workers only. A worker of its own is started unless given; in a worker it is
   * `false`.
   */
  worker?: Worker | false | undefined;
}

interface Core {
  channel: Channel;
  mount(mount: Mount): Promise<string>;
  unmount(path: string): void;
}

let core: Promise<Core> | undefined;

/**
 * Sets Runlog up in this thread. The first call that opens a store does it by itself; call it before to say where the
 * module or the worker is, or to load both ahead of need.
 *
 * @throws {@link RunlogError} `invalid_input` when it was set up already; `io` when the module can't be loaded.
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
  await begin(objectOf(options, "how Runlog is set up"));
}

/** What is under way, or begun. One that failed may be tried again. */
function begin(options: InitOptions): Promise<Core> {
  core ??= setUp(options).catch((error: unknown) => {
    core = undefined;
    throw error;
  });
  return core;
}

async function setUp({ wasm, worker = isWorker() ? false : undefined }: InitOptions): Promise<Core> {
  if (worker === false) {
    await load(wasm);
    return { channel: new Channel(localBinding()), mount: mountHere, unmount: unmountHere };
  }
  const remote = await spawnWorker(worker ?? new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "runlog" }), wasm);
  return { channel: new Channel(remote.binding), mount: remote.mount, unmount: remote.unmount };
}

function isWorker(): boolean {
  return "WorkerGlobalScope" in globalThis;
}

/**
 * Opens a store of this origin, or makes one: files of the browser's own file system, which only this origin sees and
 * which stay until the user or the browser clears them ({@link persistence} tells, and {@link persist} asks for more). What
 * a crash or a closed tab left is recovered, and runs that were left running are paused.
 *
 * One tab or worker at a time has it open for writing; what resolves is flushed. Others may read it meanwhile, with
 * `mode: "readOnly"`, and follow it (in browsers that open a file more than once, as Chromium does since 121).
 *
 * @throws {@link RunlogError} `locked` when another tab or worker has it open for writing; `not_found` with `missing: "fail"`;
 * `io` in a page without such a file system (not https or localhost, or a private window), where {@link openInMemory} works;
 * else as in Node.
 *
 * @example
 * ```ts
 * await using store = await open("agents");
 * const run = await store.runs.start({ session: { title: "Fix the parser" }, agentName: "coder" });
 * ```
 */
export async function open(name: string, options: OpenOptions = {}): Promise<Store> {
  checkText(name, "the name of a store");
  if (name === "") throw new RunlogError("invalid_input", "the name of a store is empty");
  const { mode, missing, lockTimeoutMs = 0, ...rest } = objectOf(options, "how a store is opened") as OpenOptions;
  const isWriter = mode !== "readOnly";
  // Room that is reserved counts against the origin's quota.
  const how = { preallocation: "none", ...rest, mode, missing };
  return openMounted({ kind: "opfs", name, isWriter, create: isWriter && missing !== "fail", lockTimeoutMs }, how);
}

/** Opens the store of a folder, and lets go of the folder where that fails. */
async function openMounted(folder: Mount, how: object): Promise<Store> {
  const { channel, mount, unmount } = await begin({});
  const path = await mount(folder);
  try {
    return await openedStore(channel, "open", { path, options: how }, () => unmount(path));
  } catch (error) {
    unmount(path);
    throw error;
  }
}

/** Opens a store in memory, gone when it is closed or its page is. */
export async function openInMemory(options: Pick<OpenOptions, "segmentBytesMax"> = {}): Promise<Store> {
  const given = objectOf(options, "how a store is opened");
  return openedStore((await begin({})).channel, "openInMemory", given);
}

/**
 * Opens a store for reading from its files: those of a folder that the user picked (`<input type="file" webkitdirectory>`)
 * or dropped, or that were fetched. No more of them is read than is asked for. A folder may have more files than the
 * store's; of two stores in one choice of files, give one.
 *
 * @throws {@link RunlogError} `not_found`, `not_a_store` when there is no store among them; `damaged`; `invalid_input` when
 * two files have one name.
 *
 * @example
 * ```ts
 * input.addEventListener("change", async () => {
 *   const store = await openFiles(input.files);
 *   const { items } = await store.runs.list();
 * });
 * ```
 */
export async function openFiles(files: Iterable<File> | ReadonlyMap<string, Blob>): Promise<Store> {
  const named = new Map<string, Blob>();
  const entries: Iterable<readonly [string, Blob]> =
    files instanceof Map ? (files as ReadonlyMap<string, Blob>) : Array.from(files as Iterable<File>, (file) => [file.name, file] as const);
  for (const [name, blob] of entries) {
    if (named.has(name)) throw new RunlogError("invalid_input", `two of the files are called ${name}: choose the folder of one store`);
    if (!(blob instanceof Blob)) throw new RunlogError("invalid_input", `${name} is no File or Blob`);
    named.set(name, blob);
  }
  return openMounted({ kind: "picked", name: "the files given", files: named }, { mode: "readOnly" });
}

/** The definitions of the tools `list_available_agents` and `spawn_agents`, for the tools that a model is given. */
export async function toolDefinitions(): Promise<ToolDefinition[]> {
  return toolsOf(check(await (await begin({})).channel.call(0, "toolDefinitions")));
}

/** What the browser says of this origin's room. */
export interface Persistence {
  /** Whether only the user clears it; else the browser may, when the device runs full. */
  persisted: boolean;
  /** Bytes used by this origin, by all that it keeps. */
  usedBytes: number | undefined;
  /** About how many bytes this origin may use. */
  quotaBytes: number | undefined;
}

/** What the browser says of this origin's room. */
export async function persistence(): Promise<Persistence> {
  const storage = navigator.storage as StorageManager | undefined;
  const { usage, quota } = (await storage?.estimate?.()) ?? {};
  return { persisted: (await storage?.persisted?.()) ?? false, usedBytes: usage, quotaBytes: quota };
}

/** Asks the browser that only the user clears what this origin keeps; whether it agreed. In a page only. */
export async function persist(): Promise<boolean> {
  const storage = navigator.storage as StorageManager | undefined;
  return (await storage?.persist?.()) ?? false;
}
