import { RunlogError } from "../error.js";
import { ReadOnlyFiles, type Source, fileError } from "./files.js";

/** Where a store is served, and what its files are called where that is known. @internal */
export interface Served {
  /** Its folder, with a slash at the end. */
  url: string;
  names: readonly string[] | undefined;
}

/** The files of a store beside its segments, by docs/format-v1.md; all but the first may be missing. */
const SINGLE = ["RUNLOG", "END", "CHECKPOINT", "WATERMARK"];
/** So many segments are asked for at once. */
const AT_ONCE_MAX = 16;
/** A store has no more. */
const SEGMENTS_MAX = 100_000;
/** What is asked for of each file at first: the first block that is kept. */
const START_BYTES = 16 << 10;
/** How long the server may take for one answer while a store is opened. */
const TIMEOUT_MS = 60_000;
/** And later: a read waits without letting the worker's other stores go on. */
const READ_TIMEOUT_MS = 30_000;
/** For so long at least no answer is asked for after one that failed, nor for as long as that took. */
const PAUSE_MS = 2000;

/**
 * The files of a store that a web server has, read by range. Which there are is known from their names, or asked for: those of
 * a store have fixed names, and its segments are numbered without a gap.
 *
 * @internal
 */
export async function remoteFiles({ url, names }: Served): Promise<ReadOnlyFiles> {
  if (typeof FileReaderSync === "undefined") {
    throw new RunlogError("invalid_input", "an address can only be read in a worker; leave out `worker: false`");
  }
  const figures = { reads: 0, bytesRead: 0 };
  const server = new Server();
  const ask = async (name: string) => {
    const found = await begin(url, name, server);
    figures.reads += 1;
    figures.bytesRead += found?.start.length ?? 0;
    return found;
  };
  const given = names && (await all(names, ask));
  const missing = given?.findIndex((found) => found === undefined) ?? -1;
  if (missing >= 0) throw new RunlogError("not_found", `${url}${names?.[missing]} is not there`);
  const found = given ?? (await search(url, ask));
  return new ReadOnlyFiles(url, found.filter((file) => file !== undefined), figures);
}

async function search(url: string, ask: (name: string) => Promise<Remote | undefined>): Promise<(Remote | undefined)[]> {
  const first = await ask(SINGLE[0] as string);
  if (first === undefined) throw new RunlogError("not_found", `no runlog store at ${url}: ${SINGLE[0]} is not there; give the address of a store's folder`);
  const found = [first, ...(await all(SINGLE.slice(1), ask))];
  for (let from = 1, count = 2; from < SEGMENTS_MAX; from += count, count = Math.min(2 * count, AT_ONCE_MAX)) {
    const numbers = Array.from({ length: count }, (_, index) => `${String(from + index).padStart(8, "0")}.seg`);
    const segments = await all(numbers, ask);
    const end = segments.indexOf(undefined);
    found.push(...(end < 0 ? segments : segments.slice(0, end)));
    if (end >= 0) break;
  }
  return found;
}

/** A file's address: what the folder's has behind a question mark, such as a signature, goes for its files. */
function addressOf(folder: string, name: string): string {
  const address = new URL(encodeURIComponent(name), folder);
  address.search = new URL(folder).search;
  return address.href;
}

/** What each is, a few at once. */
async function all<T, U>(items: readonly T[], work: (item: T) => Promise<U>): Promise<U[]> {
  const done: U[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE_MAX) done.push(...(await Promise.all(items.slice(at, at + AT_ONCE_MAX).map(work))));
  return done;
}

/** What an answer has, unless it is more than so many bytes: then no more of it is read. */
async function atMost(response: Response, most: number): Promise<Uint8Array | undefined> {
  if (Number(response.headers.get("content-length") ?? 0) > most) return undefined;
  const pieces: Uint8Array[] = [];
  let length = 0;
  const reader = response.body?.getReader();
  for (let piece = await reader?.read(); piece?.value !== undefined; piece = await reader?.read()) {
    length += piece.value.length;
    if (length > most) return undefined;
    pieces.push(piece.value);
  }
  return new Uint8Array(await new Blob(pieces as BlobPart[]).arrayBuffer());
}

/** Looks for a file: its length, what tells whether it changes, and its first bytes; `undefined` when it isn't there. */
async function begin(folder: string, name: string, server: Server): Promise<Remote | undefined> {
  const url = addressOf(folder, name);
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), TIMEOUT_MS);
  try {
    const response = await fetch(url, { headers: rangeOf(0, START_BYTES), cache: "no-cache", signal: abort.signal });
    const { headers } = response;
    // Servers of single-page applications answer with their page for whatever isn't there.
    const isPage = /^text\/html\b/i.test(headers.get("content-type") ?? "");
    if (response.status === 404 || response.status === 410 || (response.ok && isPage)) return undefined;
    const version = versionOf((header) => headers.get(header));
    if (response.status === 416) return new Remote(name, url, 0, version, new Uint8Array(), server);
    if (response.status === 200) {
      // It may be small enough.
      const bytes = await atMost(response, START_BYTES);
      if (bytes === undefined) throw new RunlogError("unsupported", `${url}: the server gave the whole file for a part of it; it must answer requests for ranges (with 206)`);
      return new Remote(name, url, bytes.length, version, bytes, server);
    }
    if (response.status !== 206) throw new RunlogError("io", `${url}: the server answered ${response.status} ${response.statusText}`.trimEnd());
    const { start, end, total } = rangeIn(headers.get("content-range"), url);
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (start !== 0 || bytes.length !== end) throw otherBytes(url);
    return new Remote(name, url, total, version, bytes, server);
  } catch (cause) {
    if (cause instanceof RunlogError) throw cause;
    if (abort.signal.aborted) throw new RunlogError("io", `${url}: no answer in ${TIMEOUT_MS / 1000} seconds`, { cause });
    throw new RunlogError("io", `${url} can't be fetched: the server can't be reached, doesn't let pages of ${self.origin} read (CORS), or compresses what it gives a part of`, { cause });
  } finally {
    clearTimeout(timer);
    abort.abort();
  }
}

/**
 * The server of a store's files. One call of the core may read again and again what can't be read, and each of these waits: after
 * a failure they fail at once for a while, so that the worker has its other stores.
 */
class Server {
  #failure: { message: string; until: number } | undefined;

  /** Has it answer; a failure is kept. */
  ask(request: XMLHttpRequest, url: string): void {
    const before = performance.now();
    if (this.#failure !== undefined && before < this.#failure.until) {
      throw fileError("NotReadableError", `${this.#failure.message}; it isn't asked again before ${Math.ceil((this.#failure.until - before) / 1000)} s are over`);
    }
    this.#failure = undefined;
    try {
      request.send();
    } catch (error) {
      this.#failed(before, `${url} can't be fetched: ${error instanceof Error ? error.message : String(error)}`);
    }
    if (request.status >= 500) this.#failed(before, `${url}: the server answered ${request.status} ${request.statusText}`.trimEnd());
  }

  #failed(before: number, message: string): never {
    const now = performance.now();
    this.#failure = { message, until: now + Math.max(PAUSE_MS, now - before) };
    throw fileError("NotReadableError", message);
  }
}

/** A file on a web server. */
class Remote implements Source {
  constructor(
    readonly name: string,
    readonly url: string,
    readonly size: number,
    readonly version: string,
    readonly start: Uint8Array,
    readonly server: Server,
  ) {}

  read(start: number, end: number): Uint8Array {
    const request = new XMLHttpRequest();
    request.open("GET", this.url, false);
    request.responseType = "arraybuffer";
    request.timeout = READ_TIMEOUT_MS;
    for (const [header, value] of Object.entries(rangeOf(start, end))) request.setRequestHeader(header, value);
    this.server.ask(request, this.url);
    if (request.status === 404 || request.status === 410) throw fileError("NotReadableError", `${this.url} is not there any more`);
    const bytes = new Uint8Array((request.response as ArrayBuffer | null) ?? new ArrayBuffer());
    this.#check(request, start, end, bytes);
    return bytes;
  }

  #check(request: XMLHttpRequest, start: number, end: number, bytes: Uint8Array): void {
    if (request.status === 416) throw this.#changed();
    const isGiven = request.status === 206 || request.status === 200;
    if (isGiven && versionOf((header) => request.getResponseHeader(header)) !== this.version) throw this.#changed();
    if (request.status !== 206) {
      throw fileError("NotReadableError", `${this.url}: the server answered ${request.status} ${request.statusText} for bytes ${start} to ${end - 1}`);
    }
    const range = rangeIn(request.getResponseHeader("content-range"), this.url);
    if (range.total !== this.size) throw this.#changed();
    if (range.start !== start || range.end !== end || bytes.length !== end - start) throw otherBytes(this.url);
  }

  #changed(): DOMException {
    return fileError("NotReadableError", `${this.url} has changed since the store was opened; open it again, and serve a store that nobody writes, such as a backup`);
  }
}

/** A range without the header's quirks: its end is exclusive here. No other header is sent, so that CORS needs no preflight. */
function rangeOf(start: number, end: number): { range: string } {
  return { range: `bytes=${start}-${end - 1}` };
}

/** What a server says of a file's version; what it doesn't say, or doesn't let pages of other origins see, can't change. */
function versionOf(header: (name: string) => string | null): string {
  return JSON.stringify([header("etag"), header("last-modified")]);
}

function rangeIn(header: string | null, url: string): { start: number; end: number; total: number } {
  const found = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(header ?? "");
  if (found === null) {
    const why = header === null ? "it doesn't say which, or doesn't let other origins see it (Access-Control-Expose-Headers: Content-Range, ETag)" : `it says ${header}`;
    throw new RunlogError("unsupported", `${url}: the server gave a part of the file, but ${why}`);
  }
  const [start, last, total] = found.slice(1).map(Number) as [number, number, number];
  return { start, end: last + 1, total };
}

function otherBytes(url: string): RunlogError {
  return new RunlogError("io", `${url}: the server gave other bytes than it was asked for; it must not compress or change them`);
}
