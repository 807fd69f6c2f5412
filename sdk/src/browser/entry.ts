// What the entries for browsers have in common.

import { type ToolDefinition, toolsOf } from "../agent-types.js";
import { check } from "../binding.js";
import { checkText, fieldsOf, listOf, optionsOf, shown } from "../checks.js";
import { RunlogError, invalid, messageOf, withKnownFields } from "../error.js";
import type { OpenOptions } from "../generated/types.js";
import { type Store, openedStore } from "../store.js";
import { type ExportSource, type OpenExportOptions, importInto } from "./archive.js";
import { type Picked, filesIn, filesOfStore } from "./dropped.js";
import { NO_FILES_HERE, type ReadFigures } from "./files.js";
import type { Mount } from "./local.js";
import { NO_FILE_SYSTEM, checkName } from "./opfs-stores.js";
import { begin } from "./setup.js";

export * from "../api.js";
export { deleteStore, listStores, storeFiles } from "./opfs-stores.js";
export { type Picked, filesIn } from "./dropped.js";
export type { ExportSource, OpenExportOptions } from "./archive.js";
export type { ReadFigures } from "./files.js";
export type { WasmSource } from "./compile.js";
export { type InitOptions, init } from "./setup.js";

/** How a store of this origin is opened. */
export interface OpenHereOptions extends OpenOptions {
  /**
   * What happens where there is no file system of the browser's: `fail`, which is the default, or a store in `memory`, which
   * {@link placeOf} tells of.
   */
  fallback?: "fail" | "memory" | undefined;
}

/** Where a store is kept. */
export interface StorePlace {
  /**
   * `origin`: in the browser's own file system; `memory`: nowhere else; `files`, `url`: where it is read from; `export`: in
   * memory, a copy of what it was opened from.
   */
  kind: "origin" | "memory" | "files" | "url" | "export";
  /** Why it is in memory, where it was asked for elsewhere. */
  reason?: string | undefined;
}

/** What is known of stores here that isn't theirs to know. */
const places = new WeakMap<Store, { place: StorePlace; figures?: () => Promise<ReadFigures | undefined> }>();

/**
 * Where an open store is kept; whether it lasts, where `open` was asked to fall back to memory.
 *
 * @example
 * ```ts
 * const store = await open("agents", { fallback: "memory" });
 * const { kind, reason } = placeOf(store);
 * if (kind === "memory") warn(`Nothing is kept: ${reason}`);
 * ```
 */
export function placeOf(store: Store): StorePlace {
  return { ...known(store).place };
}

/**
 * How much was read so far of the files of a store that {@link openFiles} or {@link openUrl} gave; `undefined` for other stores,
 * and once it is closed.
 *
 * @example
 * ```ts
 * const { reads, bytesRead, bytesTotal } = await readFigures(store);
 * ```
 */
export async function readFigures(store: Store): Promise<ReadFigures | undefined> {
  return known(store).figures?.();
}

function known(store: Store) {
  const found = places.get(store);
  if (found === undefined) throw new RunlogError("invalid_input", "that is no store that was opened here");
  return found;
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
export async function open(name: string, options: OpenHereOptions = {}): Promise<Store> {
  checkName(name);
  const { mode, missing, lockTimeoutMs = 0, fallback = "fail", ...rest } = fieldsOf(options, "how a store is opened") as OpenHereOptions;
  if (fallback !== "fail" && fallback !== "memory") throw invalid(`\`fallback\` is ${shown(fallback)}; give "fail" or "memory"`);
  if (!(Number.isSafeInteger(lockTimeoutMs) && lockTimeoutMs >= 0)) throw invalid(`\`lockTimeoutMs\`: ${shown(lockTimeoutMs)} is not a whole number, 0 or more`);
  const isWriter = mode !== "readOnly";
  // Room that is reserved counts against the origin's quota.
  const how = { preallocation: "none", ...rest, mode, missing };
  const { segmentBytesMax } = rest;
  const mount: Mount = isWriter ? { kind: "opfs", name, isWriter, create: missing !== "fail", lockTimeoutMs, segmentBytesMax } : { kind: "opfs", name, isWriter };
  if (fallback === "fail") return await openMounted(mount, how, { kind: "origin" });
  if (await hasFileSystem()) {
    try {
      return await openMounted(mount, how, { kind: "origin" });
    } catch (error) {
      // A page that was set up with `worker: false` has the file system, and none of its files.
      if (!messageOf(error).endsWith(NO_FILES_HERE)) throw error;
    }
  }
  return await openedInMemory(segmentBytesMax === undefined ? {} : { segmentBytesMax }, NO_FILE_SYSTEM);
}

/** Whether the browser has a file system of its own here, in whatever thread. */
async function hasFileSystem(): Promise<boolean> {
  try {
    const storage = navigator.storage as StorageManager | undefined;
    return typeof storage?.getDirectory === "function" && navigator.locks !== undefined && (await storage.getDirectory()) !== undefined;
  } catch {
    // A page of no origin, such as one opened from a file, is refused.
    return false;
  }
}

/** How often a store is opened again that another tab's writer changed in the middle of it. */
const OPENINGS_MAX = 20;

/**
 * Opens the store of a folder.
 *
 * A writer in another tab may take a file for a segment that isn't open here yet, in the middle of the opening; then a segment
 * seems to be missing. What is damaged is so at the next opening too, which has all files that this one could speak of.
 */
async function openMounted(folder: Mount, how: object, place: StorePlace): Promise<Store> {
  let before: string | undefined;
  for (let opening = 1; ; opening += 1) {
    try {
      return await openMountedOnce(folder, how, place);
    } catch (error) {
      const mayBeWritten = folder.kind === "opfs" && !folder.isWriter && error instanceof RunlogError && error.code === "damaged";
      if (!mayBeWritten || error.message === before || opening === OPENINGS_MAX) throw error;
      before = error.message;
    }
  }
}

/** The same, as it is found, and lets go of the folder where that fails. */
async function openMountedOnce(folder: Mount, how: object, place: StorePlace): Promise<Store> {
  const { channel, mount, unmount, figures } = await begin();
  const path = await mount(folder);
  try {
    const opened = openedStore(channel, "open", { path, options: how }, () => unmount(path));
    const store = await withKnownFields({ of: "options", also: place.kind === "origin" ? ["fallback"] : [] }, opened);
    places.set(store, { place, ...(place.kind !== "origin" && { figures: () => figures(path) }) });
    return store;
  } catch (error) {
    unmount(path);
    throw error;
  }
}

/** Opens a store in memory, gone when it is closed or its page is. */
export async function openInMemory(options: Pick<OpenOptions, "segmentBytesMax"> = {}): Promise<Store> {
  return openedInMemory(fieldsOf(options, "how a store is opened"));
}

async function openedInMemory(options: object, reason?: string, kind: "memory" | "export" = "memory"): Promise<Store> {
  const store = await openedStore((await begin()).channel, "openInMemory", options);
  places.set(store, { place: reason === undefined ? { kind } : { kind, reason } });
  return store;
}

/** How a store is opened that is among files. */
export interface OpenFilesOptions {
  /** The path of the store's folder, where there are several stores among the files. */
  folder?: string | undefined;
}

/**
 * Opens a store for reading from its files: those of a folder that the user picked (`<input type="file" webkitdirectory>`, or
 * `showDirectoryPicker()`) or dropped, or that were fetched. No more of them is read than is asked for, which
 * {@link readFigures} tells. The store may lie in a folder below, with other files beside it. Call it in the event's turn for
 * what was dropped.
 *
 * @throws {@link RunlogError} `not_found`, `not_a_store` when there is no store among them; `damaged`; `invalid_input` when
 * there are several and `folder` names none, when two files have one path, and in a page with `worker: false`; `io` when a
 * file was changed or removed since it was picked.
 *
 * @example
 * ```ts
 * input.addEventListener("change", async () => {
 *   const store = await openFiles(input.files);
 *   const { items } = await store.runs.list();
 * });
 * zone.addEventListener("drop", async (event) => {
 *   event.preventDefault();
 *   const store = await openFiles(event.dataTransfer, { folder: "projects/agents" });
 * });
 * ```
 */
export async function openFiles(files: Picked, options: OpenFilesOptions = {}): Promise<Store> {
  // Before anything is awaited: what was dropped is gone after its event.
  const finding = filesIn(files);
  const { folder } = optionsOf(options, ["folder"]);
  if (folder !== undefined) checkText(folder, "the folder of a store");
  const named = filesOfStore(await finding, folder);
  return openMounted({ kind: "picked", name: "the files given", files: named }, { mode: "readOnly" }, { kind: "files" });
}

/** How a store is opened that a web server has. */
export interface OpenUrlOptions {
  /**
   * What the files of the store are called. Not needed where the server says 404 for what isn't there: the names are known, and
   * segments are asked for until one is missing.
   */
  files?: readonly string[] | undefined;
}

/**
 * Opens a store for reading that a web server has as files: the address is that of its folder. The server must answer
 * requests for ranges, as those of static files do, and let pages of this origin read, with the header
 * `Access-Control-Expose-Headers: Content-Range, ETag`, where it is another origin. No more is read than is asked for, which
 * {@link readFigures} tells. Redirects are followed. Nobody may write to the store: serve one that is closed, or a backup.
 *
 * @throws {@link RunlogError} `not_found` when there is no store; `unsupported` when the server doesn't answer ranges, or doesn't
 * say which it gave; `io` when it can't be reached, refuses, or when a file has changed since the store was opened, which any
 * call may say; `invalid_input` for an address that isn't one, and in a page with `worker: false`.
 *
 * @example
 * ```ts
 * const store = await openUrl("/recorded/2026-11-22/");
 * const { items } = await store.runs.list();
 * ```
 */
export async function openUrl(url: string | URL, options: OpenUrlOptions = {}): Promise<Store> {
  const { files } = optionsOf(options, ["files"]);
  const names = files === undefined ? undefined : [...listOf(files, "`files`")];
  for (const name of names ?? []) checkText(name, "the name of a store's file");
  return openMounted({ kind: "served", url: folderAddress(url), names }, { mode: "readOnly" }, { kind: "url" });
}

/** The absolute address of a folder, by a page's own. */
function folderAddress(url: string | URL): string {
  let address: URL;
  try {
    address = new URL(url, globalThis.document?.baseURI ?? globalThis.location?.href);
  } catch (cause) {
    throw new RunlogError("invalid_input", `${JSON.stringify(String(url))} is no address`, { cause });
  }
  if (!/^https?:$/.test(address.protocol)) throw new RunlogError("invalid_input", `${address.href} is no address of a web server`);
  if (!address.pathname.endsWith("/")) address.pathname += "/";
  address.hash = "";
  return address.href;
}

/**
 * Opens what `runlog export` or {@link Store.export} wrote: a store in memory, which has what the export has. It is a copy: what
 * is written to it isn't in the export, and is gone when it is closed. It takes a few times the export's size of memory;
 * a store's folder doesn't, with {@link openFiles}. One that was compressed by gzip is unpacked before.
 *
 * @throws {@link RunlogError} `too_large` over `bytesMax`; `invalid_input` when it isn't an export, or is damaged or cut off.
 *
 * @example
 * ```ts
 * const store = await openExport(input.files[0]);
 * const other = await openExport(await fetch("/trip.jsonl"));
 * const packed = await openExport(file.stream().pipeThrough(new DecompressionStream("gzip"))); // trip.jsonl.gz
 * ```
 */
export async function openExport(source: ExportSource, options: OpenExportOptions = {}): Promise<Store> {
  const given = optionsOf(options, ["bytesMax"]);
  const store = await openedInMemory({}, undefined, "export");
  try {
    await importInto(store, source, given);
    return store;
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** The definitions of the tools `list_available_agents` and `spawn_agents`, for the tools that a model is given. */
export async function toolDefinitions(): Promise<ToolDefinition[]> {
  return toolsOf(check(await (await begin()).channel.call(0, "toolDefinitions")));
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

/**
 * What the browser says of this origin's room.
 *
 * @throws {@link RunlogError} `io` in a page without an origin, such as a sandboxed frame.
 */
export async function persistence(): Promise<Persistence> {
  return asked(async (storage) => {
    const { usage, quota } = (await storage?.estimate?.()) ?? {};
    return { persisted: (await storage?.persisted?.()) ?? false, usedBytes: usage, quotaBytes: quota };
  });
}

/**
 * Asks the browser that only the user clears what this origin keeps; whether it agreed. In a page only.
 *
 * @throws {@link RunlogError} as {@link persistence}.
 */
export async function persist(): Promise<boolean> {
  return asked(async (storage) => (await storage?.persist?.()) ?? false);
}

async function asked<T>(ask: (storage: StorageManager | undefined) => Promise<T>): Promise<T> {
  try {
    return await ask(navigator.storage as StorageManager | undefined);
  } catch (cause) {
    throw new RunlogError("io", `the browser says nothing of this page's room: ${messageOf(cause)}`, { cause });
  }
}
