import { type Files, fileError } from "./files.js";
import { HEAD_BYTES, type Pooled, SLOT_BYTES, addSome, addTo, closeAll, cut, noRoom, slotOf, writeAll, writeState } from "./opfs-pool.js";
import { errorOfOpening, folderOf, lock, removeFolder } from "./opfs-stores.js";

/**
 * A folder of files in the browser's own file system (OPFS), for one writer in a worker; `OpfsReader` is for those beside it.
 *
 * The core asks for files without waiting, and browsers open and rename them only with. So there is a pool of files that
 * are open all the time, named by numbers; which file of the store each one is says its head. A file is made by taking a
 * spare one, and renamed by writing its head.
 *
 * @internal
 */

/** So many files are there to be taken; when fewer are left, more are made. */
const SPARES = 16;
const SPARES_MIN = 8;
/** So many spare files are made at most for what is to be written at once. */
const SPARES_MAX = 2048;
/** Unless another size of segments is given; the least that the core takes, which refuses others when it opens the store. */
const SEGMENT_BYTES = 32 << 20;
const SEGMENT_BYTES_MIN = 64 << 10;
/** So many are opened at once at most. */
const FILES_AT_ONCE = 16;

export class OpfsFiles implements Files {
  readonly name: string;
  readonly #id: string;
  readonly #folder: FileSystemDirectoryHandle;
  readonly #segmentBytesMax: number;
  readonly #pool: Pooled[] = [];
  readonly #unlock: () => void;
  /** The last generation that was given. */
  #generation = 0;
  /** So many of the pool's files have been taken ever. */
  #used = 0;
  #growing: Promise<void> | undefined;
  #isOpen = true;

  private constructor(name: string, folder: FileSystemDirectoryHandle, segmentBytesMax: number | undefined, unlock: () => void) {
    this.name = `the browser's file system, store ${name}`;
    this.#id = name;
    this.#folder = folder;
    // Nothing has looked yet at what was given.
    this.#segmentBytesMax = Math.max(Number(segmentBytesMax) || SEGMENT_BYTES, SEGMENT_BYTES_MIN);
    this.#unlock = unlock;
  }

  /**
   * Opens the folder, or makes it.
   *
   * @throws {@link RunlogError} `locked` when another tab or worker has it open; `not_found` when it isn't there and isn't
   * to be made; `io` where there is no such file system.
   */
  static async open(which: { name: string; create: boolean; lockTimeoutMs: number; segmentBytesMax: number | undefined }): Promise<OpfsFiles> {
    const { name, create, segmentBytesMax } = which;
    const unlock = await lock(name, which.lockTimeoutMs);
    try {
      const folder = await folderOf(name, create);
      const files = new OpfsFiles(name, folder, segmentBytesMax, unlock);
      try {
        await files.#load();
        return files;
      } catch (error) {
        files.#closeAll();
        // What was just made is no store, and isn't listed as one.
        if (create && (await hasNothing(folder).catch(() => false))) await removeFolder(name).catch(() => {});
        throw error;
      }
    } catch (error) {
      unlock();
      throw errorOfOpening(error, name);
    }
  }

  async #load(): Promise<void> {
    await addTo(this.#pool, this.#folder, () => this.#isOpen);
    const named = new Map<string, Pooled>();
    for (const file of this.#pool) {
      this.#generation = Math.max(this.#generation, file.generation);
      if (file.generation > 0) this.#used = this.#pool.indexOf(file) + 1;
      if (file.name === "") {
        // A crash came between taking its name and what is in it.
        if (file.generation > 0 && file.handle.getSize() > HEAD_BYTES) cut(file);
        continue;
      }
      const other = named.get(file.name);
      const [kept, dropped] = other === undefined || other.generation < file.generation ? [file, other] : [other, file];
      named.set(file.name, kept);
      if (dropped !== undefined) this.#free(dropped);
    }
    await this.#grow();
    this.#tellReaders();
  }

  /**
   * Waits until there are files for what is to be written in one turn, in which none can be opened; `undefined` when there are.
   */
  ready(bytes: number): Promise<void> | undefined {
    const wanted = Math.min(Math.ceil(bytes / this.#segmentBytesMax) + SPARES_MIN, SPARES_MAX);
    if (!this.#isOpen || this.#spares() >= wanted) return undefined;
    return this.#growTo(Math.max(wanted, SPARES));
  }

  list(): string[] {
    return this.#pool.filter((file) => file.name !== "").map((file) => file.name);
  }

  isWhole(): boolean {
    return true;
  }

  create(name: string): number {
    const replaced = this.#find(name);
    const index = this.#pool.findIndex((file) => file.name === "" && file.users === 0);
    const file = this.#pool[index];
    if (file === undefined) {
      throw fileError("QuotaExceededError", "more files were made at once than the browser opens; await something, and try again");
    }
    file.handle.truncate(HEAD_BYTES);
    this.#rename(file, name);
    this.#replace(replaced, file);
    this.#growLater();
    file.users += 1;
    return index;
  }

  open(name: string): number {
    const file = this.#find(name);
    if (file === undefined) throw fileError("NotFoundError", `there is no file ${name} in ${this.name}`);
    file.users += 1;
    return this.#pool.indexOf(file);
  }

  rename(from: string, to: string): void {
    const file = this.#find(from);
    if (file === undefined) throw fileError("NotFoundError", `there is no file ${from} in ${this.name}`);
    const replaced = this.#find(to);
    this.#rename(file, to);
    this.#replace(replaced === file ? undefined : replaced, file);
  }

  remove(name: string): void {
    const file = this.#find(name);
    if (file === undefined) throw fileError("NotFoundError", `there is no file ${name} in ${this.name}`);
    this.#free(file, true);
  }

  flushNames(): void {
    for (const file of this.#pool) {
      if (!file.isHeadDirty) continue;
      file.handle.flush();
      file.isHeadDirty = false;
    }
  }

  read(file: number, offset: number, bytes: Uint8Array): number {
    return this.#at(file).handle.read(bytes, { at: HEAD_BYTES + offset });
  }

  write(file: number, offset: number, bytes: Uint8Array): void {
    writeAll(this.#at(file).handle, HEAD_BYTES + offset, bytes);
  }

  flush(file: number): void {
    const pooled = this.#at(file);
    pooled.handle.flush();
    pooled.isHeadDirty = false;
  }

  truncate(file: number, bytes: number): void {
    const { handle } = this.#at(file);
    handle.truncate(HEAD_BYTES + bytes);
    // As with writes, nothing else says so.
    if (handle.getSize() !== HEAD_BYTES + bytes) throw noRoom();
  }

  size(file: number): number {
    return Math.max(this.#at(file).handle.getSize() - HEAD_BYTES, 0);
  }

  close(file: number): void {
    const pooled = this.#pool[file];
    if (pooled === undefined) return;
    pooled.users -= 1;
    // A removed file that was still open: its room is given back now.
    if (pooled.users === 0 && pooled.name === "") cut(pooled);
  }

  unlock(): void {
    if (!this.#isOpen) return;
    // What could not be opened, as with options that are refused, is no store, and isn't listed as one.
    const isEmpty = this.list().length === 0;
    this.#closeAll();
    // One that is being opened must not stay open.
    void Promise.resolve(this.#growing)
      .then(() => (isEmpty ? removeFolder(this.#id) : undefined))
      // It is there, empty, as after a crash: the next opening makes a store of it.
      .catch(() => {})
      .finally(this.#unlock);
  }

  #closeAll(): void {
    this.#isOpen = false;
    closeAll(this.#pool);
  }

  #find(name: string): Pooled | undefined {
    if (name === "") return undefined;
    return this.#pool.find((file) => file.name === name);
  }

  #at(file: number): Pooled {
    const pooled = this.#pool[file];
    if (pooled === undefined) throw fileError("NotFoundError", `no file ${file} is open in ${this.name}`);
    return pooled;
  }

  #rename(file: Pooled, name: string): void {
    this.#generation += 1;
    writeAll(file.handle, file.slot * SLOT_BYTES, slotOf(name, this.#generation));
    file.slot = file.slot === 0 ? 1 : 0;
    file.generation = this.#generation;
    file.name = name;
    file.isHeadDirty = true;
    this.#used = Math.max(this.#used, this.#pool.indexOf(file) + 1);
    this.#tellReaders();
  }

  /** Says in the first file how the pool stands, for readers in other tabs. */
  #tellReaders(): void {
    const [first] = this.#pool;
    if (first === undefined) return;
    try {
      writeState(first, { generation: this.#generation, files: this.#used });
    } catch {
      // What was renamed is so nevertheless; readers see it after the next one.
    }
  }

  /** Frees the file that another has taken the name of: never before the device knows of that one. */
  #replace(replaced: Pooled | undefined, by: Pooled): void {
    if (replaced === undefined) return;
    by.handle.flush();
    by.isHeadDirty = false;
    this.#free(replaced);
  }

  /**
   * Takes a file's name and what is in it: what was erased must not stay on the disk. A reader that still reads it sees by its head
   * that it is another file now. Unless another file has its name, with a later head, the device has to know that it lost it before it
   * is empty.
   */
  #free(file: Pooled, isRemoved = false): void {
    this.#rename(file, "");
    if (file.users > 0) return;
    if (isRemoved) file.handle.flush();
    cut(file);
  }

  #growLater(): void {
    if (this.#growing === undefined && this.#spares() < SPARES_MIN) void this.#growTo(SPARES);
  }

  /** Makes spare files, one growth after the other: the next file has the next number. */
  #growTo(wanted: number): Promise<void> {
    const growing: Promise<void> = Promise.resolve(this.#growing)
      .then(() => this.#grow(wanted))
      // The disk may be full: what is there serves until there is room, and whoever needs one more gets an error.
      .catch(() => {})
      .finally(() => {
        if (this.#growing === growing) this.#growing = undefined;
      });
    this.#growing = growing;
    return growing;
  }

  #spares(): number {
    return this.#pool.filter((file) => file.name === "" && file.users === 0).length;
  }

  async #grow(wanted = SPARES): Promise<void> {
    for (let left: number; this.#isOpen && (left = wanted - this.#spares()) > 0; ) {
      await addSome(this.#pool, this.#folder, () => this.#isOpen, Math.min(left, FILES_AT_ONCE), true);
    }
  }
}

/** Whether nothing was ever written into the files of a folder: a file of a store has a head at least. */
async function hasNothing(folder: FileSystemDirectoryHandle): Promise<boolean> {
  for await (const entry of folder.values()) {
    if (entry.kind !== "file" || (await entry.getFile()).size > 0) return false;
  }
  return true;
}
