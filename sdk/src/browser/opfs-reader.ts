import { crc32 } from "./crc32.js";
import { type Files, fileError } from "./files.js";
import { HEAD_BYTES, type Pooled, SLOT_BYTES, addTo, closeAll, contentsOf, headOf, stateOf } from "./opfs-pool.js";
import { errorOfOpening, folderOf } from "./opfs-stores.js";

/** The file that says up to where readers may read: see docs/format-v1.md. */
const WATERMARK = "WATERMARK";
const WATERMARK_BYTES_MIN = 96;
/** What is written over in the middle of a look is looked at again, so often at most. */
const LOOKS_MAX = 10;

/** A file that the core has open. */
interface Opened {
  readonly file: Pooled;
  readonly name: string;
  /** The slot of the head that is written when the file becomes another's, as it was. */
  readonly next: Uint8Array;
  /** All of a file that a writer replaces while it is read. */
  readonly contents: Uint8Array | undefined;
}

/**
 * The folder of a store in the browser's own file system, for a reader beside the tab or worker that writes.
 *
 * The core asks for files without waiting, and browsers open them only with. What the writer makes of files that are open here,
 * spare ones among them, is seen at once; of those that it has added since, later. So the watermark, up to which the core reads,
 * is shown once the segment that it speaks of is there.
 *
 * A file of the pool that nothing is in any more is soon another file of the store: what was read of it is reported to be gone,
 * and the core looks for what took its place.
 *
 * @internal
 */
export class OpfsReader implements Files {
  readonly name: string;
  readonly #folder: FileSystemDirectoryHandle;
  readonly #pool: Pooled[] = [];
  readonly #opened: (Opened | undefined)[] = [];
  #watermark: Uint8Array | undefined;
  /** Of the last rename that was seen. */
  #generation = -1;
  #adding: Promise<void> | undefined;
  #isOpen = true;

  private constructor(name: string, folder: FileSystemDirectoryHandle) {
    this.name = `the browser's file system, store ${name}`;
    this.#folder = folder;
  }

  /**
   * Opens the folder of a store.
   *
   * @throws {@link RunlogError} `not_found` when it isn't there; `io` where there is no such file system.
   */
  static async open(name: string): Promise<OpfsReader> {
    try {
      const files = new OpfsReader(name, await folderOf(name, false));
      try {
        await files.#add();
        files.#look();
        await files.ready();
        return files;
      } catch (error) {
        files.unlock();
        throw error;
      }
    } catch (error) {
      throw errorOfOpening(error, name);
    }
  }

  /** Waits until all files are open that the writer has taken before the call; `undefined` when they are. */
  ready(): Promise<void> | undefined {
    if (!this.#isOpen || !this.#isBehind()) return undefined;
    return this.#addOnce().then(() => this.#lookAtHeads());
  }

  /** Sees what the writer has made of the files that are open here; whether it has taken others. */
  #isBehind(): boolean {
    const [first] = this.#pool;
    if (first === undefined) return false;
    const { generation, files } = stateOf(first);
    if (generation === this.#generation) return false;
    if (files > this.#pool.length) return true;
    this.#generation = generation;
    this.#lookAtHeads();
    return false;
  }

  list(): string[] {
    this.#look();
    return this.#pool.filter((file) => file.name !== "").map((file) => file.name);
  }

  /** A segment that the writer has begun may lie in any file that it has taken. */
  isWhole(): boolean {
    const [first] = this.#pool;
    return first !== undefined && stateOf(first).files <= this.#pool.length;
  }

  open(name: string): number {
    for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
      const file = this.#find(name);
      const opened = file === undefined ? undefined : openedOf(file, name);
      if (opened !== undefined) {
        const free = this.#opened.indexOf(undefined);
        const at = free === -1 ? this.#opened.length : free;
        this.#opened[at] = opened;
        return at;
      }
      this.#look();
      if (this.#find(name) === undefined) break;
    }
    throw fileError("NotFoundError", `there is no file ${name} in ${this.name}`);
  }

  read(at: number, offset: number, bytes: Uint8Array): number {
    const opened = this.#at(at);
    const { file, name, contents, next } = opened;
    const seen = name === WATERMARK ? this.#shownWatermark() : contents;
    if (seen !== undefined) {
      const piece = seen.subarray(offset, offset + bytes.length);
      bytes.set(piece);
      return piece.length;
    }
    const count = file.handle.read(bytes, { at: HEAD_BYTES + offset });
    // Looked at behind the read: whoever takes the file says so in its head before anything is written to it.
    if (!isSame(nextSlotOf(file), next)) throw fileError("NotFoundError", `${name} in ${this.name} was removed`);
    return count;
  }

  size(at: number): number {
    const { file, name, contents } = this.#at(at);
    const seen = name === WATERMARK ? this.#shownWatermark() : contents;
    return seen?.length ?? Math.max(file.handle.getSize() - HEAD_BYTES, 0);
  }

  close(at: number): void {
    this.#opened[at] = undefined;
  }

  unlock(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    closeAll(this.#pool);
  }

  create(name: string): number {
    return refused(name);
  }
  rename(from: string): void {
    refused(from);
  }
  remove(name: string): void {
    refused(name);
  }
  write(at: number): void {
    refused(this.#at(at).name);
  }
  flush(at: number): void {
    refused(this.#at(at).name);
  }
  truncate(at: number): void {
    refused(this.#at(at).name);
  }
  flushNames(): void {
    // Nothing was named.
  }

  #at(at: number): Opened {
    const opened = this.#opened[at];
    if (opened === undefined || !this.#isOpen) throw fileError("NotFoundError", `no file ${at} is open in ${this.name}`);
    return opened;
  }

  #find(name: string): Pooled | undefined {
    let found: Pooled | undefined;
    // In the middle of a rename there are two of them.
    for (const file of this.#pool) if (file.name === name && (found === undefined || file.generation > found.generation)) found = file;
    return found;
  }

  /** Sees what the writer has made of the files that are open here, and has those opened that it has added. */
  #look(): void {
    this.#lookAtHeads();
    const newest = this.#newestWatermark();
    if (newest !== undefined) this.#show(newest);
    if (this.#isOpen) void this.#addOnce();
  }

  #lookAtHeads(): void {
    for (const file of this.#pool) Object.assign(file, headOf(file.handle));
  }

  /** The watermark as it is, whole where it can be had so. */
  #newestWatermark(): Uint8Array | undefined {
    let newest: Uint8Array | undefined;
    for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
      const file = this.#find(WATERMARK);
      if (file === undefined) return undefined;
      newest = contentsOf(file);
      if (segmentOf(newest) !== undefined) return newest;
    }
    return newest;
  }

  /** The watermark up to which everything is there. */
  #shownWatermark(): Uint8Array | undefined {
    const newest = this.#newestWatermark();
    // The files that it adds are there for the next look.
    if (newest !== undefined && !this.#show(newest)) void this.#addOnce();
    return this.#watermark;
  }

  /** Shows a watermark to the core if the segment that it speaks of is there; whether it is. */
  #show(watermark: Uint8Array): boolean {
    if (this.#watermark !== undefined && isSame(watermark, this.#watermark)) return true;
    const segment = segmentOf(watermark);
    // One that isn't whole is none, of a store whose writer has published nothing yet.
    const isThere = segment === undefined ? this.#watermark === undefined : this.isWhole() && (this.#has(segment) || (this.#lookAtHeads(), this.#has(segment)));
    if (isThere) this.#watermark = watermark;
    return isThere || segment === undefined;
  }

  #has(segment: number): boolean {
    if (segment === 0) return true;
    const name = `${String(segment).padStart(8, "0")}.seg`;
    return this.#pool.some((file) => file.name === name || holds(file.name, segment));
  }

  async #add(): Promise<void> {
    await addTo(this.#pool, this.#folder, () => this.#isOpen);
  }

  #addOnce(): Promise<void> {
    return (this.#adding ??= this.#add()
      // The writer may be making a file: the next look sees it.
      .catch(() => {})
      .finally(() => (this.#adding = undefined)));
  }
}

function refused(name: string): never {
  throw fileError("NoModificationAllowedError", `${name} is only read here`);
}

/** A file as it is opened; `undefined` when it has become another's meanwhile. */
function openedOf(file: Pooled, name: string): Opened | undefined {
  const next = nextSlotOf(file);
  const isOfLog = name.endsWith(".seg") || name.endsWith(".pack") || name === WATERMARK;
  const contents = isOfLog ? undefined : contentsOf(file);
  const { name: now, generation } = headOf(file.handle);
  return now === name && generation === file.generation && isSame(nextSlotOf(file), next) ? { file, name, next, contents } : undefined;
}

/** The beginning of the slot that is written when the file is renamed: magic, CRC, generation, length of the name. */
function nextSlotOf({ handle, slot }: Pooled): Uint8Array {
  const bytes = new Uint8Array(18);
  handle.read(bytes, { at: slot * SLOT_BYTES });
  return bytes;
}

function isSame(one: Uint8Array, other: Uint8Array): boolean {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

/** The segment that a watermark speaks of; `undefined` for one that is not whole. */
function segmentOf(watermark: Uint8Array): number | undefined {
  const view = new DataView(watermark.buffer, watermark.byteOffset, watermark.byteLength);
  if (view.byteLength < WATERMARK_BYTES_MIN) return undefined;
  const length = view.getUint32(12, true);
  if (length < WATERMARK_BYTES_MIN || length > view.byteLength) return undefined;
  return view.getUint32(length - 4, true) === crc32(watermark.subarray(0, length - 4)) ? view.getUint32(52, true) : undefined;
}

/** Whether a file is a pack with the records of a segment. */
function holds(name: string, segment: number): boolean {
  const pack = /^(\d+)-(\d+)\.\d+\.pack$/.exec(name);
  return pack !== null && Number(pack[1]) <= segment && segment <= Number(pack[2]);
}
