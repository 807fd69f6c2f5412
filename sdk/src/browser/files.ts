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

/** So much of a file is read at once, and kept. */
const BLOCK_BYTES = 64 << 10;
/** Where reading goes on from the block before, so many blocks are read at once: each reading is a way to another process. */
const BLOCKS_AHEAD = 16;
/** So many of these are kept: 8 MiB. */
const BLOCKS_MAX = 128;

/**
 * Files that are only read, as a user picks or drops them. They are read in blocks when they are asked for: opening a
 * store reads what it needs of them and no more. In a worker only: nowhere else can a file be read without waiting.
 *
 * @internal
 */
export class PickedFiles implements Files {
  readonly name: string;
  readonly #files: { name: string; blob: Blob }[];
  /** By file and block; those used last are at the end. */
  readonly #blocks = new Map<string, Uint8Array>();
  #reader: FileReaderSync | undefined;
  /** The block that was asked for last, by file. */
  readonly #last = new Map<number, number>();
  /** How many bytes were read of the files. */
  bytesRead = 0;

  constructor(name: string, files: ReadonlyMap<string, Blob>) {
    this.name = name;
    this.#files = Array.from(files, ([name, blob]) => ({ name, blob }));
  }

  list(): string[] {
    return this.#files.map((file) => file.name);
  }

  open(name: string, write: boolean): number {
    const file = this.#files.findIndex((file) => file.name === name);
    if (file < 0) throw fileError("NotFoundError", `there is no file ${name} in ${this.name}`);
    return write ? this.#refuse() : file;
  }

  read(file: number, offset: number, bytes: Uint8Array): number {
    const end = Math.min(offset + bytes.length, this.size(file));
    for (let at = offset; at < end; ) {
      const block = Math.floor(at / BLOCK_BYTES);
      const from = at - block * BLOCK_BYTES;
      const piece = this.#block(file, block).subarray(from, from + end - at);
      if (piece.length === 0) return at - offset;
      bytes.set(piece, at - offset);
      at += piece.length;
    }
    return Math.max(end - offset, 0);
  }

  size(file: number): number {
    return this.#blob(file).size;
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

  #blob(file: number): Blob {
    const found = this.#files[file];
    if (found === undefined) throw fileError("NotFoundError", `no file ${file} is open`);
    return found.blob;
  }

  #block(file: number, block: number): Uint8Array {
    const key = `${file}:${block}`;
    let bytes = this.#blocks.get(key);
    if (bytes === undefined) {
      this.#reader ??= new FileReaderSync();
      const start = block * BLOCK_BYTES;
      const many = this.#last.get(file) === block - 1 ? BLOCKS_AHEAD : 1;
      const read = new Uint8Array(this.#reader.readAsArrayBuffer(this.#blob(file).slice(start, start + many * BLOCK_BYTES)));
      this.bytesRead += read.length;
      for (let at = many - 1; at > 0; at--) {
        const ahead = read.subarray(at * BLOCK_BYTES, (at + 1) * BLOCK_BYTES);
        if (ahead.length > 0) this.#keep(`${file}:${block + at}`, ahead);
      }
      bytes = read.subarray(0, BLOCK_BYTES);
    }
    this.#last.set(file, block);
    this.#keep(key, bytes);
    return bytes;
  }

  /** Keeps a block as the one that was used last. */
  #keep(key: string, bytes: Uint8Array): void {
    this.#blocks.delete(key);
    const oldest = this.#blocks.keys().next();
    if (this.#blocks.size >= BLOCKS_MAX && oldest.done === false) this.#blocks.delete(oldest.value);
    this.#blocks.set(key, bytes);
  }
}
