import { RunlogError } from "../error.js";
import { ReadOnlyFiles, type Source, fileError } from "./files.js";

/**
 * Files as a user picks or drops them, read without waiting. In a worker only: nowhere else can a file be read so.
 *
 * @internal
 */
export function pickedFiles(name: string, files: ReadonlyMap<string, Blob>): ReadOnlyFiles {
  if (typeof FileReaderSync === "undefined") {
    throw new RunlogError("invalid_input", "files can only be read in a worker; leave out `worker: false`");
  }
  const reader = new FileReaderSync();
  return new ReadOnlyFiles(name, Array.from(files, ([name, blob]) => new BlobSource(name, blob, reader)));
}

class BlobSource implements Source {
  readonly name: string;
  readonly #blob: Blob;
  readonly #reader: FileReaderSync;

  constructor(name: string, blob: Blob, reader: FileReaderSync) {
    this.name = name;
    this.#blob = blob;
    this.#reader = reader;
  }

  get size(): number {
    return this.#blob.size;
  }

  read(start: number, end: number): Uint8Array {
    try {
      return new Uint8Array(this.#reader.readAsArrayBuffer(this.#blob.slice(start, end)));
    } catch (error) {
      // The browser's message is about permissions, whatever it was.
      throw fileError("NotReadableError", `${this.name} can't be read any more: it was changed, moved or removed since it was picked; pick it again (${String(error)})`);
    }
  }
}
