import { bytesGiven, listOf, optionsOf, shown } from "./checks.js";
import { RunlogError, invalid, messageOf, throwIfAborted } from "./error.js";
import type { ExportCalls, ImportCalls, StoreCalls } from "./generated/calls.js";
import type { ExportSelection, Imported } from "./generated/types.js";
import type { Handle } from "./handle.js";
import { unlessAborted } from "./signals.js";

/** Bytes in memory that nobody else has, as a `Blob` or a `Response` takes them. */
export type OwnBytes = ReturnType<typeof Uint8Array.from>;

/** A stream of bytes: a `ReadableStream<Uint8Array>`, such as a response's `body`. */
export interface ByteStream {
  /** What reads it, and nobody else meanwhile. */
  getReader(): ByteReader;
}

/** What reads a stream of bytes: a `ReadableStreamDefaultReader<Uint8Array>`. */
export interface ByteReader {
  /** The next piece, or that there is none. */
  read(): Promise<BytesRead>;
  /** Lets others read the stream. */
  releaseLock?(): void;
  /** Says that nobody reads it any more. */
  cancel(): Promise<unknown>;
}

/** What was read of a stream of bytes. */
export interface BytesRead {
  /** Whether it was at its end. */
  done: boolean;
  /** The piece. */
  value?: Uint8Array | undefined;
}

/** What an archive is read from: all of its bytes, pieces of them, a stream of them, or a `Blob` such as a file that was picked. */
export type ArchiveSource = Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array> | ByteStream | StreamedBytes;

/** What has a stream of its bytes: a `Blob`. */
export interface StreamedBytes {
  /** Another stream of all of them with each call. */
  stream(): ByteStream;
}

/** How to import. */
export interface ImportOptions {
  /** Whether nothing is written, and it is a `conflict`, where something would be left out. */
  strict?: boolean | undefined;
}

/** How to import what comes in pieces. */
export interface ImportPiecesOptions extends ImportOptions {
  /** Gives up while pieces are waited for: nothing is written then. Once all are there it isn't heeded any more. */
  signal?: AbortSignal | undefined;
}

/** The selection, looked at. @internal */
export function selectionOf(what: ExportSelection): ExportSelection {
  const { sessions, runs, skipDamaged } = optionsOf(what, ["sessions", "runs", "skipDamaged"]);
  return {
    ...(skipDamaged !== undefined && { skipDamaged }),
    ...(sessions !== undefined && { sessions: listOf(sessions, "the sessions to export") }),
    ...(runs !== undefined && { runs: listOf(runs, "the runs to export") }),
  };
}

/** The pieces of an export, which ends when nobody reads it any more. @internal */
export async function* exported(handle: Handle<StoreCalls>, what: ExportSelection): AsyncGenerator<OwnBytes, void, undefined> {
  const made = await handle.made("export", { what: selectionOf(what) });
  const pieces = made.handle<ExportCalls>("the export");
  try {
    for (;;) {
      const piece = await pieces.bytes("next");
      if (piece.length === 0) return;
      yield piece as OwnBytes;
    }
  } finally {
    pieces.release();
  }
}

/** What an archive may begin with: a brace, white space, or the mark of UTF-8. */
const BEGINNINGS = new Set([0x7b, 0x20, 0x09, 0x0a, 0x0d, 0xef]);

/** Hands an archive over piece by piece, until the store is closed, which `closing` says. @internal */
export async function imported(
  handle: Handle<StoreCalls>,
  source: ArchiveSource,
  options: ImportPiecesOptions,
  closing: AbortSignal,
): Promise<Imported> {
  const { strict, signal } = optionsOf(options, ["strict", "signal"]);
  throwIfAborted(signal);
  const pieces = piecesOf(source);
  const archive = (await handle.made("import")).handle<ImportCalls>("the import");
  try {
    const ended = signal === undefined ? closing : AbortSignal.any([signal, closing]);
    let first: number | undefined;
    for await (const piece of unlessAborted(pieces, ended)) {
      const bytes = bytesGiven(piece, "a piece of an archive");
      await archive.value("write", undefined, bytes);
      first ??= bytes[0];
      // What is no archive is told by its beginning: all of it would be kept until its end, which may never come.
      if (first !== undefined && !BEGINNINGS.has(first)) break;
    }
    return await archive.value("finish", { strict: strict ?? false });
  } catch (error) {
    // Who waits for a piece isn't told by a call that it is in vain.
    if (closing.aborted) handle.check();
    throw error;
  } finally {
    archive.release();
  }
}

function piecesOf(source: unknown): Iterable<Uint8Array> | AsyncIterable<Uint8Array> {
  // Copied, as all bytes that a call is given; whoever has too many for that gives pieces.
  if (source instanceof Uint8Array) return [new Uint8Array(bytesGiven(source, "an archive"))];
  if (typeof source === "object" && source !== null) {
    // Before it is iterated over: not every browser can, and an iterator that waits can't be told to stop.
    if (isStream(source)) return streamed(source);
    if (Symbol.asyncIterator in source) return source as AsyncIterable<Uint8Array>;
    if (Symbol.iterator in source) return source as Iterable<Uint8Array>;
    if ("stream" in source && typeof source.stream === "function") return piecesOf(source.stream());
  }
  throw invalid(`an export must be a Uint8Array, a Blob, or something that gives Uint8Arrays, not ${shown(source)}`);
}

function isStream(source: object): source is ByteStream {
  return "getReader" in source && typeof source.getReader === "function";
}

function streamed(stream: ByteStream): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const reader = readerOf(stream);
      return {
        async next() {
          const { done, value } = await reader.read();
          if (done) reader.releaseLock?.();
          return done ? { done, value: undefined } : { done: false, value: value as Uint8Array };
        },
        async return() {
          await reader.cancel();
          reader.releaseLock?.();
          return { done: true, value: undefined };
        },
      };
    },
  };
}

function readerOf(stream: ByteStream): ByteReader {
  try {
    return stream.getReader();
  } catch (cause) {
    throw new RunlogError("invalid_input", `the stream of an archive can't be read: ${messageOf(cause)}`, { cause });
  }
}
