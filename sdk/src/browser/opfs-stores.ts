import { checkText } from "../checks.js";
import { RunlogError, invalid, messageOf } from "../error.js";
import { answered } from "./answered.js";
import { HEAD_BYTES, SLOT_BYTES, headIn } from "./opfs-pool.js";

/** @internal */
export const NO_FILE_SYSTEM = "this page has no file system of the browser's (it needs https or localhost); openInMemory() works without, and so does open() with `fallback: \"memory\"`";

/** Where the stores of this origin are. */
const ROOT = "runlog";

/** The most characters of a name of a folder: as many as the file systems of most devices take. */
const NAME_MAX = 255;

/** What the folder of a store is called: letters of file names, from which the store's name can be read back. */
function folderName(name: string): string {
  if (!name.isWellFormed()) throw invalid("the name of a store has half of a surrogate pair, which no folder can be called");
  // `.` and `..` are folders already.
  const escaped = encodeURIComponent(name).replace(/^\.+$/, (dots) => "%2E".repeat(dots.length));
  if (escaped.length <= NAME_MAX) return escaped;
  throw invalid(`the name of a store is too long: ${escaped.length} characters with those that are escaped, and at most ${NAME_MAX}`);
}

/** Refuses what can't be the name of a store. @internal */
export function checkName(name: string): void {
  checkText(name, "the name of a store");
  if (name === "") throw invalid("the name of a store is empty");
}

/** The folder of a store. @internal */
export async function folderOf(name: string, create: boolean): Promise<FileSystemDirectoryHandle> {
  const storage = navigator.storage as StorageManager | undefined;
  if (typeof storage?.getDirectory !== "function") {
    throw new RunlogError("io", NO_FILE_SYSTEM);
  }
  const folder = folderName(name);
  return answered(`for the folder of the store ${name}`, async () => {
    const root = await storage.getDirectory();
    return (await root.getDirectoryHandle(ROOT, { create })).getDirectoryHandle(folder, { create });
  });
}

/**
 * The stores of this origin, by name.
 *
 * @throws {@link RunlogError} `io` where there is no file system of the browser's.
 */
export async function listStores(): Promise<string[]> {
  const names: string[] = [];
  try {
    const root = await (await navigator.storage.getDirectory()).getDirectoryHandle(ROOT);
    for await (const entry of root.values()) if (entry.kind === "directory") names.push(decodeURIComponent(entry.name));
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "NotFoundError")) throw errorOfOpening(error, "");
  }
  return names.sort();
}

/**
 * The files of a store of this origin, by their names in a folder that Node or the command opens. They are read when they
 * are asked for; a writer that opens the store meanwhile makes them unreadable.
 *
 * @throws {@link RunlogError} `not_found` when there is none of that name; `locked` while it is open for writing.
 *
 * @example
 * ```ts
 * const folder = await showDirectoryPicker({ mode: "readwrite" });
 * for (const [name, blob] of await storeFiles("agents")) {
 *   const file = await (await folder.getFileHandle(name, { create: true })).createWritable();
 *   await blob.stream().pipeTo(file);
 * }
 * ```
 */
export async function storeFiles(name: string): Promise<Map<string, Blob>> {
  checkName(name);
  const unlock = await lock(name);
  try {
    const found = new Map<string, { generation: number; blob: Blob }>();
    for await (const entry of (await folderOf(name, false)).values()) {
      if (entry.kind !== "file") continue;
      const file = await entry.getFile();
      const head = headIn(new Uint8Array(await file.slice(0, 2 * SLOT_BYTES).arrayBuffer()));
      const isNewest = (found.get(head.name)?.generation ?? -1) < head.generation;
      if (head.name !== "" && isNewest) found.set(head.name, { generation: head.generation, blob: file.slice(HEAD_BYTES) });
    }
    return new Map(Array.from(found, ([name, { blob }]) => [name, blob]));
  } catch (error) {
    throw errorOfOpening(error, name);
  } finally {
    unlock();
  }
}

/**
 * Deletes a store of this origin, with all that is in it.
 *
 * @throws {@link RunlogError} `not_found` when there is none of that name; `locked` when it is open somewhere.
 */
export async function deleteStore(name: string): Promise<void> {
  checkName(name);
  const unlock = await lock(name);
  try {
    await folderOf(name, false);
    for (const end = Date.now() + HAND_OVER_MS; ; ) {
      try {
        return await removeFolder(name);
      } catch (error) {
        // A reader that was closed a moment ago.
        if (!isRefused(error) || Date.now() > end) throw error;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  } catch (error) {
    throw errorOfOpening(error, name);
  } finally {
    unlock();
  }
}

/** Removes the folder of a store, which is there. @internal */
export async function removeFolder(name: string): Promise<void> {
  const root = await (await navigator.storage.getDirectory()).getDirectoryHandle(ROOT);
  await root.removeEntry(folderName(name), { recursive: true });
}

/** A store that was closed a moment ago is let go of a moment later. */
const HAND_OVER_MS = 500;

/** Timers that are longer fire at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Takes the store's lock, which the browser gives back when this worker ends, however it does. @internal */
export async function lock(name: string, timeoutMs = 0): Promise<() => void> {
  const locks = navigator.locks as LockManager | undefined;
  if (locks === undefined) throw new RunlogError("io", "this page has no locks (it needs https or localhost)");
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(Math.min(Math.max(timeoutMs, HAND_OVER_MS), TIMER_MS_MAX));
    const held = locks.request(`runlog:${name}`, { signal }, () => new Promise<void>((release) => resolve(release)));
    held.catch((cause: unknown) => {
      reject(signal.aborted ? new RunlogError("locked", `the store ${name} is open for writing in another tab or worker, or in this one, where it isn't closed yet; close it there first (open() waits with \`lockTimeoutMs\`, and reads beside it with \`mode: "readOnly"\`)`, { cause }) : errorOfOpening(cause, name));
    });
  });
}

/** Whether another has a file open. */
function isRefused(error: unknown): boolean {
  return error instanceof DOMException && error.name === "NoModificationAllowedError";
}

/** What opening a store failed with, in the words of the store's errors. @internal */
export function errorOfOpening(error: unknown, name: string): Error {
  if (error instanceof RunlogError) return error;
  const kind = error instanceof DOMException ? error.name : "";
  const message = messageOf(error);
  if (kind === "NotFoundError") return new RunlogError("not_found", `this origin has no store ${name}`, { cause: error });
  if (isRefused(error)) return new RunlogError("locked", `the store ${name} is open, or being deleted, in this or another tab or worker`, { cause: error });
  if (kind === "QuotaExceededError") return new RunlogError("storage_full", `there is no room for the store ${name}: ${message}`, { cause: error });
  if (typeof (navigator.storage as StorageManager | undefined)?.getDirectory !== "function") return new RunlogError("io", NO_FILE_SYSTEM, { cause: error });
  return new RunlogError("io", kind === "SecurityError" ? NO_FILE_SYSTEM : `the browser's file system: ${message}`, { cause: error });
}
