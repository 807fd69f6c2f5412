import { type Files, fileError } from "./files.js";
import { HEAD_BYTES, type Pooled, SLOT_BYTES, contentsOf, cut, headOf, noRoom, openPooled, slotOf, writeAll } from "./opfs-pool.js";
import { errorOfOpening, folderOf, lock } from "./opfs-stores.js";

/**
 * A folder of files in the browser's own file system (OPFS), for one writer in a worker, and for readers beside it.
 *
 * The core asks for files without waiting, and browsers open and rename them only with. So there is a pool of files that
 * are open all the time, named by numbers; which file of the store each one is says its head. A file is made by taking a
 * spare one, and renamed by writing its head.
 *
 * A reader in another tab can't open without waiting what the writer has just made. So it sees the folder as it was when it
 * looked last, the watermark included, up to which the core reads: first it takes the watermark, then it opens what there
 * is, then it shows both. What the watermark speaks of is there by then.
 *
 * @internal
 */

/** The file that says up to where readers may read: see docs/format-v1.md. */
const WATERMARK = "WATERMARK";
/** So many files are there to be taken; when fewer are left, more are made. */
const SPARES = 16;
const SPARES_MIN = 8;
/** Opening one takes the browser's processes a few rounds, whatever the others do. */
const FILES_AT_ONCE = 16;
/** What a reader may still be reading keeps its contents until another takes the file; what is larger is cut at once. */
const KEPT_BYTES_MAX = 4 << 20;

export class OpfsFiles implements Files {
  readonly name: string;
  readonly #folder: FileSystemDirectoryHandle;
  readonly #isWriter: boolean;
  readonly #pool: Pooled[] = [];
  readonly #unlock: () => void;
  /** Of a reader: the watermark as it was when it looked last. */
  #watermark: Uint8Array | undefined;
  #looking: Promise<void> | undefined;
  /** The last generation that was given. */
  #generation = 0;
  #growing: Promise<void> | undefined;
  #isOpen = true;

  private constructor(name: string, folder: FileSystemDirectoryHandle, isWriter: boolean, unlock: () => void) {
    this.name = name;
    this.#folder = folder;
    this.#isWriter = isWriter;
    this.#unlock = unlock;
  }

  /**
   * Opens the folder, or makes it.
   *
   * @throws {@link RunlogError} `locked` when another tab or worker has it open; `not_found` when it isn't there and isn't
   * to be made; `io` where there is no such file system.
   */
  static async open(which: { name: string; create: boolean; isWriter: boolean; lockTimeoutMs: number }): Promise<OpfsFiles> {
    const { name, create, isWriter } = which;
    const unlock = isWriter ? await lock(name, which.lockTimeoutMs) : () => {};
    try {
      const folder = await folderOf(name, create);
      const files = new OpfsFiles(`the browser's file system, store ${name}`, folder, isWriter, unlock);
      try {
        await files.#load();
        return files;
      } catch (error) {
        files.#closeAll();
        throw error;
      }
    } catch (error) {
      unlock();
      throw errorOfOpening(error, name);
    }
  }

  async #load(): Promise<void> {
    if (!this.#isWriter) {
      // Before the first look nobody knows which file is the watermark: it is taken by the second, before what it speaks of.
      await this.#look();
      return this.#look();
    }
    await this.#addAll();
    const named = new Map<string, Pooled>();
    for (const file of this.#pool) {
      this.#generation = Math.max(this.#generation, file.generation);
      if (file.name === "") continue;
      const other = named.get(file.name);
      const [kept, dropped] = other === undefined || other.generation < file.generation ? [file, other] : [other, file];
      named.set(file.name, kept);
      if (dropped !== undefined) this.#free(dropped);
    }
    await this.#grow();
  }

  /** Opens the files of the pool that aren't open yet. */
  async #addAll(): Promise<void> {
    while ((await this.#add(FILES_AT_ONCE, false)) === FILES_AT_ONCE);
  }

  /** Opens the next so many files of the pool, at the same time; how many there were, or were made. */
  async #add(count: number, create: boolean): Promise<number> {
    const first = this.#pool.length;
    const opening = Array.from({ length: count }, (_, at) => openPooled(this.#folder, String(first + at), create));
    const opened = await Promise.allSettled(opening);
    // A file has its place in the pool by its number: what comes after one that couldn't be opened stays closed.
    const end = opened.findIndex((one) => one.status === "rejected" || one.value === undefined || !this.#isOpen);
    const added = end === -1 ? count : end;
    opened.forEach((one, at) => {
      if (one.status === "rejected" || one.value === undefined) return;
      if (at < added) this.#pool.push(one.value);
      else one.value.handle.close();
    });
    const refused = opened[added];
    if (refused?.status === "rejected") throw refused.reason;
    return added;
  }

  list(): string[] {
    this.#lookAgain();
    return this.#pool.filter((file) => file.name !== "").map((file) => file.name);
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
    this.#lookAgain();
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
    this.#free(file);
  }

  flushNames(): void {
    for (const file of this.#pool) {
      if (!file.isHeadDirty) continue;
      file.handle.flush();
      file.isHeadDirty = false;
    }
  }

  read(file: number, offset: number, bytes: Uint8Array): number {
    const seen = this.#seenOf(file);
    if (seen !== undefined) {
      const piece = seen.subarray(offset, offset + bytes.length);
      bytes.set(piece);
      return piece.length;
    }
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
    return this.#seenOf(file)?.length ?? Math.max(this.#at(file).handle.getSize() - HEAD_BYTES, 0);
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
    this.#closeAll();
    // One that is being opened must not stay open.
    void Promise.all([this.#growing, this.#looking]).finally(this.#unlock);
  }

  #closeAll(): void {
    this.#isOpen = false;
    for (const file of this.#pool.splice(0)) file.handle.close();
  }

  #find(name: string): Pooled | undefined {
    if (name === "") return undefined;
    const found = this.#pool.filter((file) => file.name === name);
    // A reader may look in the middle of a rename.
    return found.sort((one, other) => other.generation - one.generation)[0];
  }

  /** Has a reader see soon what the writer has made, renamed and removed meanwhile. */
  #lookAgain(): void {
    if (this.#isWriter || !this.#isOpen) return;
    this.#looking ??= this.#look()
      // The writer may be making a file: the next look sees it.
      .catch(() => {})
      .finally(() => (this.#looking = undefined));
  }

  async #look(): Promise<void> {
    const watermark = this.#find(WATERMARK);
    const seen = watermark === undefined ? undefined : contentsOf(watermark);
    await this.#addAll();
    if (!this.#isOpen) return;
    for (const file of this.#pool) Object.assign(file, headOf(file.handle));
    this.#watermark = seen;
  }

  /** What a reader sees of a file that isn't read from the file itself. */
  #seenOf(file: number): Uint8Array | undefined {
    if (this.#isWriter || this.#at(file).name !== WATERMARK) return undefined;
    this.#lookAgain();
    return this.#watermark;
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
  }

  /** Frees the file that another has taken the name of: never before the device knows of that one. */
  #replace(replaced: Pooled | undefined, by: Pooled): void {
    if (replaced === undefined) return;
    by.handle.flush();
    by.isHeadDirty = false;
    this.#free(replaced);
  }

  #free(file: Pooled): void {
    this.#rename(file, "");
    if (file.users === 0 && file.handle.getSize() > KEPT_BYTES_MAX) cut(file);
  }

  #growLater(): void {
    if (this.#growing !== undefined || this.#spares() >= SPARES_MIN) return;
    this.#growing = this.#grow()
      // The disk may be full: what is there serves until there is room.
      .catch(() => {})
      .finally(() => (this.#growing = undefined));
  }

  #spares(): number {
    return this.#pool.filter((file) => file.name === "" && file.users === 0).length;
  }

  async #grow(): Promise<void> {
    while (this.#isOpen && this.#spares() < SPARES) await this.#add(SPARES - this.#spares(), true);
  }
}
