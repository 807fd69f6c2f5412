/** The error for a thread that isn't a dedicated worker. @internal */
export const NO_FILES_HERE = "files can't be opened here; use a dedicated worker";

/**
 * A flat folder of files for the core, as its `Storage` wants them. Every method is synchronous, since the core is; a
 * `DOMException` says why one failed.
 *
 * @internal
 */
export interface Files {
  /** What it is called in messages. */
  readonly name: string;
  list(): string[];
  /** Whether every file that there is can be opened: those that a writer elsewhere adds during a call can't until it has ended. */
  isWhole(): boolean;
  /** Makes an empty file, in the place of one of that name. */
  create(name: string): number;
  open(name: string, write: boolean): number;
  /** Gives a file another name, in the place of one of that name: whole or not at all. */
  rename(from: string, to: string): void;
  remove(name: string): void;
  /** Makes it durable which files there are. */
  flushNames(): void;
  /** Reads into `bytes`; how many there were. */
  read(file: number, offset: number, bytes: Uint8Array): number;
  write(file: number, offset: number, bytes: Uint8Array): void;
  flush(file: number): void;
  truncate(file: number, bytes: number): void;
  size(file: number): number;
  close(file: number): void;
  /** Whoever had the folder open for writing doesn't any more. */
  unlock(): void;
}

/** Something that a `DOMException` would say. @internal */
export function fileError(name: "NotFoundError" | "NoModificationAllowedError" | "QuotaExceededError" | "NotReadableError", message: string): DOMException {
  return new DOMException(message, name);
}

/** How much was read of the files of a store that is only read. */
export interface ReadFigures {
  /** How many times the files were asked for bytes. Of a store that was opened from an address these are its requests. */
  reads: number;
  /** How many bytes that gave. */
  bytesRead: number;
  /** How many bytes the files have together. */
  bytesTotal: number;
}

/** A file that can be read without waiting. @internal */
export interface Source {
  readonly name: string;
  readonly size: number;
  /** The bytes from `start` to `end`, which isn't beyond its end. */
  read(start: number, end: number): Uint8Array;
  /** Bytes that were read already, from its beginning, and which `read` gives again only once. */
  readonly start?: Uint8Array | undefined;
}

/** So much is read at least, and kept. */
const BLOCK_BYTES = 16 << 10;
/** So many of these are kept: 8 MiB. */
const BLOCKS_MAX = 512;
/** So many are read at once of a file that is read in order. */
const AHEAD_MAX = 64;

/**
 * Files that are only read, in blocks, when they are asked for: opening a store reads what it needs of them and no more. What
 * is read in order is read further ahead each time, so that a whole file doesn't take a read for each block.
 *
 * @internal
 */
export class ReadOnlyFiles implements Files {
  readonly name: string;
  readonly #sources: Source[];
  /** By file and block; those used last are at the end. */
  readonly #blocks = new Map<number, Uint8Array>();
  /** Where the last read of each file ended, and how many blocks it had. */
  readonly #last: { end: number; blocks: number }[];
  readonly figures: ReadFigures;

  constructor(name: string, sources: Source[], figures: { reads: number; bytesRead: number } = { reads: 0, bytesRead: 0 }) {
    this.name = name;
    this.#sources = sources;
    this.#last = sources.map(() => ({ end: 0, blocks: 0 }));
    this.figures = { ...figures, bytesTotal: sources.reduce((sum, source) => sum + source.size, 0) };
    sources.forEach(({ start }, file) => {
      if (start !== undefined) this.#keep(file, 0, start);
    });
  }

  list(): string[] {
    return this.#sources.map((source) => source.name);
  }

  isWhole(): boolean {
    return true;
  }

  open(name: string, write: boolean): number {
    const file = this.#sources.findIndex((source) => source.name === name);
    if (file < 0) throw fileError("NotFoundError", `there is no file ${name} in ${this.name}`);
    return write ? this.#refuse() : file;
  }

  read(file: number, offset: number, bytes: Uint8Array): number {
    const end = Math.min(offset + bytes.length, this.size(file));
    for (let at = offset; at < end; ) {
      const block = Math.floor(at / BLOCK_BYTES);
      const from = at - block * BLOCK_BYTES;
      const piece = this.#block(file, block, Math.ceil(end / BLOCK_BYTES)).subarray(from, from + end - at);
      if (piece.length === 0) return at - offset;
      bytes.set(piece, at - offset);
      at += piece.length;
    }
    return Math.max(end - offset, 0);
  }

  size(file: number): number {
    return this.#source(file).size;
  }

  close(): void {}
  unlock(): void {
    this.#blocks.clear();
  }

  create(): number {
    return this.#refuse();
  }
  rename(): void {
    this.#refuse();
  }
  remove(): void {
    this.#refuse();
  }
  flushNames(): void {
    this.#refuse();
  }
  write(): void {
    this.#refuse();
  }
  flush(): void {
    this.#refuse();
  }
  truncate(): void {
    this.#refuse();
  }

  #refuse(): never {
    throw fileError("NoModificationAllowedError", `the files of ${this.name} can only be read`);
  }

  #source(file: number): Source {
    const found = this.#sources[file];
    if (found === undefined) throw fileError("NotFoundError", `no file ${file} is open`);
    return found;
  }

  /** A block; where it has to be read, those up to `endBlock` that aren't kept are read with it. */
  #block(file: number, block: number, endBlock: number): Uint8Array {
    const key = this.#key(file, block);
    const kept = this.#blocks.get(key);
    if (kept !== undefined) {
      this.#blocks.delete(key);
      this.#blocks.set(key, kept);
      return kept;
    }
    this.#fetch(file, block, endBlock);
    const bytes = this.#blocks.get(key);
    if (bytes === undefined) throw new Error("a block that was read is kept");
    return bytes;
  }

  #fetch(file: number, block: number, endBlock: number): void {
    const source = this.#source(file);
    const last = this.#last[file] as { end: number; blocks: number };
    // One that goes on where the last one ended is likely to be followed by another.
    const ahead = last.end === block && last.blocks > 0 ? last.blocks * 2 : 1;
    const wanted = Math.min(Math.max(endBlock - block, ahead), AHEAD_MAX, Math.ceil(source.size / BLOCK_BYTES) - block);
    let blocks = 1;
    while (blocks < wanted && !this.#blocks.has(this.#key(file, block + blocks))) blocks += 1;
    const start = block * BLOCK_BYTES;
    const bytes = source.read(start, Math.min(start + blocks * BLOCK_BYTES, source.size));
    this.figures.reads += 1;
    this.figures.bytesRead += bytes.length;
    this.#last[file] = { end: block + blocks, blocks };
    // The first is the one that is needed: it is kept last, so that none of the others drops it.
    for (let at = blocks - 1; at >= 0; at -= 1) {
      const from = at * BLOCK_BYTES;
      this.#keep(file, block + at, bytes.subarray(from, from + BLOCK_BYTES));
    }
  }

  #keep(file: number, block: number, bytes: Uint8Array): void {
    const oldest = this.#blocks.keys().next();
    if (this.#blocks.size >= BLOCKS_MAX && oldest.done === false) this.#blocks.delete(oldest.value);
    this.#blocks.set(this.#key(file, block), bytes);
  }

  /** A number of its own for each block of each file: there are fewer blocks in a file than 2³². */
  #key(file: number, block: number): number {
    return file * 2 ** 32 + block;
  }
}
