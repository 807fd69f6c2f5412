import { shown } from "../checks.js";
import { RunlogError, invalid } from "../error.js";
import type { Store } from "../store.js";

/** How an export is opened. */
export interface OpenExportOptions {
  /** Larger ones are refused, since they are held in memory: 256 MiB unless given. */
  bytesMax?: number | undefined;
}

/** An export: what `runlog export` or {@link Store.export} wrote. */
export type ExportSource = Blob | Response | ReadableStream<Uint8Array> | Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

const BYTES_MAX = 256 << 20;

/** Fills an empty store with an export. @internal */
export async function importInto(store: Store, source: ExportSource, { bytesMax = BYTES_MAX }: OpenExportOptions): Promise<void> {
  if (!Number.isSafeInteger(bytesMax) || bytesMax < 1) throw new RunlogError("invalid_input", `\`bytesMax\` is ${String(bytesMax)}; give a whole number of bytes`);
  const tooLarge = (bytes: number) => new RunlogError("too_large", `the export has ${bytes} bytes or more, and is held in memory: at most ${bytesMax} are opened so (\`bytesMax\`); open a store's folder instead, which is read as it is looked at`);
  if (source instanceof Blob && source.size > bytesMax) throw tooLarge(source.size);
  await store.import(bounded(piecesOf(source), bytesMax, tooLarge), { strict: true });
}

function piecesOf(source: ExportSource): Iterable<Uint8Array> | AsyncIterable<Uint8Array> {
  if (source instanceof Uint8Array) return [source];
  if (source instanceof Blob) return streamed(source.stream());
  if (typeof Response !== "undefined" && source instanceof Response) {
    if (!source.ok) throw new RunlogError(source.status === 404 ? "not_found" : "io", `${source.url}: the server answered ${source.status} ${source.statusText}`.trimEnd());
    return source.body === null ? [] : streamed(source.body);
  }
  if (typeof ReadableStream !== "undefined" && source instanceof ReadableStream) return streamed(source);
  const isIterable = typeof source === "object" && source !== null && (Symbol.iterator in source || Symbol.asyncIterator in source);
  if (!isIterable) throw invalid(`an export must be a File, a Response, a stream, a Uint8Array, or something that gives Uint8Arrays, not ${shown(source)}`);
  return source;
}

/** Not every browser has streams that can be iterated over. */
async function* streamed(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } catch (cause) {
    throw new RunlogError("io", `the export can't be read to its end: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  } finally {
    // Whoever sends it need not go on.
    await reader.cancel().catch(() => {});
  }
}

async function* bounded(pieces: Iterable<Uint8Array> | AsyncIterable<Uint8Array>, bytesMax: number, tooLarge: (bytes: number) => RunlogError): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0;
  for await (const piece of pieces) {
    // What isn't bytes is refused where it is handed over.
    bytes += (piece as Partial<Uint8Array> | null)?.length ?? 0;
    if (bytes > bytesMax) throw tooLarge(bytes);
    yield piece;
  }
}
