import { RunlogError } from "../error.js";

/**
 * What a user picks or drops: files of an `<input type="file">` (a folder's, with `webkitdirectory`), what a `drop` event has, a
 * folder of `showDirectoryPicker()`, or blobs by their paths. Nothing (`null`, as the types of these have it) is refused.
 */
export type Picked = null | Iterable<File> | ReadonlyMap<string, Blob> | DataTransfer | FileSystemDirectoryHandle;

/** More files than these are no store's folder. */
const FILES_MAX = 100_000;

/**
 * The files of what a user has picked or dropped, by their paths: folders are named with slashes, the dropped one first.
 * Nothing of them is read. Call it in the event's turn: later a browser gives nothing of what was dropped.
 *
 * @throws {@link RunlogError} `invalid_input` for anything else, for two files of one path, and for more than 100,000 files.
 *
 * @example
 * ```ts
 * zone.addEventListener("drop", async (event) => {
 *   event.preventDefault();
 *   const files = await filesIn(event.dataTransfer);
 *   const stores = [...files.keys()].filter((path) => path.endsWith("/RUNLOG"));
 * });
 * ```
 */
export async function filesIn(picked: Picked): Promise<Map<string, Blob>> {
  const found = new Map<string, Blob>();
  const add = (path: string, blob: Blob) => {
    if (!(blob instanceof Blob)) throw new RunlogError("invalid_input", `${path} is no File or Blob`);
    if (found.has(path)) throw new RunlogError("invalid_input", `two of the files are called ${path}: choose the folder of one store`);
    if (found.size === FILES_MAX) throw new RunlogError("invalid_input", `more than ${FILES_MAX} files: choose the folder of one store`);
    found.set(path, blob);
  };
  if (typeof DataTransfer !== "undefined" && picked instanceof DataTransfer) {
    // All of them at once, before anything is awaited.
    const entries = Array.from(picked.items, (item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
    const files = entries.length > 0 ? [] : Array.from(picked.files);
    for (const entry of entries) await walkEntry(entry, add);
    for (const file of files) add(file.name, file);
  } else if (typeof FileSystemDirectoryHandle !== "undefined" && picked instanceof FileSystemDirectoryHandle) {
    await walkHandle(picked, picked.name, add);
  } else if (picked instanceof Map) {
    for (const [path, blob] of picked as ReadonlyMap<string, Blob>) add(path, blob);
  } else if (typeof picked === "object" && picked !== null && Symbol.iterator in picked) {
    for (const file of picked as Iterable<File>) add(pathOf(file), file);
  } else {
    throw new RunlogError("invalid_input", "give files, a Map of files by their paths, what was dropped, or a folder's handle");
  }
  return found;
}

function pathOf(file: File): string {
  if (!(file instanceof File)) throw new RunlogError("invalid_input", `${String(file)} is no File`);
  return file.webkitRelativePath === "" ? file.name : file.webkitRelativePath;
}

async function walkEntry(entry: FileSystemEntry, add: (path: string, blob: Blob) => void): Promise<void> {
  const path = entry.fullPath.replace(/^\//, "");
  if (entry.isFile) {
    add(path, await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, (error) => reject(unreadable(path, error)))));
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, (error) => reject(unreadable(path, error))));
    // They come in pieces; the last is empty.
    if (some.length === 0) return;
    for (const each of some) await walkEntry(each, add);
  }
}

async function walkHandle(folder: FileSystemDirectoryHandle, path: string, add: (path: string, blob: Blob) => void): Promise<void> {
  try {
    for await (const entry of folder.values()) {
      const below = path === "" ? entry.name : `${path}/${entry.name}`;
      if (entry.kind === "file") add(below, await (entry as FileSystemFileHandle).getFile());
      else await walkHandle(entry as FileSystemDirectoryHandle, below, add);
    }
  } catch (error) {
    throw error instanceof RunlogError ? error : unreadable(path, error);
  }
}

function unreadable(path: string, cause: unknown): RunlogError {
  return new RunlogError("io", `${path} can't be read: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
}

/** The file that a folder with a store has: see docs/format-v1.md. */
const IDENTITY = "RUNLOG";

/** The files of the one store among these, by their names in its folder. @internal */
export function filesOfStore(files: ReadonlyMap<string, Blob>, wanted: string | undefined): Map<string, Blob> {
  const folders = [...files.keys()].filter((path) => path === IDENTITY || path.endsWith(`/${IDENTITY}`)).map(folderOf);
  const folder = wanted?.replace(/\/$/, "") ?? folders[0] ?? shallowest(files);
  if (wanted === undefined && folders.length > 1) {
    throw new RunlogError("invalid_input", `there are ${folders.length} stores among the files; give one as \`folder\`: ${folders.slice(0, 10).map((path) => JSON.stringify(path)).join(", ")}`);
  }
  if (wanted !== undefined && !folders.includes(folder)) {
    throw new RunlogError("not_found", `no runlog store in ${JSON.stringify(folder)}; stores are in: ${folders.slice(0, 10).map((path) => JSON.stringify(path)).join(", ") || "none of the folders"}`);
  }
  return new Map(Array.from(files).filter(([path]) => folderOf(path) === folder).map(([path, blob]) => [path.slice(folder === "" ? 0 : folder.length + 1), blob]));
}

function folderOf(path: string): string {
  return path.slice(0, Math.max(path.lastIndexOf("/"), 0));
}

/** Where there is no store, the error names the first folder. */
function shallowest(files: ReadonlyMap<string, Blob>): string {
  const [first = ""] = Array.from(files.keys(), folderOf).sort((one, other) => one.length - other.length);
  return first;
}
