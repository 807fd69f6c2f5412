import type { GivenFile } from "../worker/source.js";

// `runlog serve` gives this page, and the store that it serves: its files, and a stream that says how far the log has come.

/** What the store that is served is called. */
export const STORE = location.host || "store";
const FILES = "v1/store/files";
/** Larger stores than this are opened from their folder, where no more of them is read than is looked at. */
const BYTES_MAX = 512 << 20;

interface ServedFile {
  name: string;
  size?: number;
  bytes?: number;
}

/**
 * Up to so many bytes before the end of what a file had, it may have more than was seen: what is written while it is read is
 * there in any order. Of records that the server has announced it is not so, and each has a CRC.
 */
const UNSURE_BYTES = 64 << 10;
/** Behind so many zeros there is nothing but the room that was made for records to come. */
const ROOM_BYTES = 16 << 10;

interface Kept {
  tag: string;
  blob: Blob;
  /** Where records end that were seen in it, 0 where it is no file of records: these only grow, into room that was made before. */
  end: number;
}

/** The server doesn't give its store now, and may give it again. */
export class NotGiven extends Error {}

/** Files as they were sent last, by their names: what is as it was isn't sent again. */
const kept = new Map<string, Kept>();

/** Has all files sent again as a whole. */
export function forgetServed(): void {
  kept.clear();
}

/** The files of the store that is served beside this page; undefined where none is. Once it is known that there is one, `found` is called. */
export async function servedFiles(found = () => {}): Promise<GivenFile[] | undefined> {
  if (!/^https?:$/.test(location.protocol)) return undefined;
  const response = await fetch(new URL(FILES, document.baseURI)).catch(() => undefined);
  if (response?.headers.get("content-type")?.includes("problem+json") === true) {
    // The page takes no token: it would be in reach of scripts, and what follows the log sends none. A link of the server's lets a
    // browser in, by a cookie.
    if (response.status === 401) throw new Error("This server has a token, which a page can't give: a browser is let in by a link. End the server and start it again with `runlog serve --open`: it opens the link, and prints it. Programs give the token as `Authorization: Bearer`.");
    const { detail } = (await response.json()) as { detail?: string };
    throw new NotGiven(detail ?? `The server doesn't give its store: ${response.status} ${response.statusText}.`);
  }
  const type = response?.headers.get("content-type") ?? "";
  if (response?.ok !== true || !type.includes("json")) return undefined;
  const { files } = (await response.json()) as { files: ServedFile[] };
  const total = files.reduce((sum, file) => sum + (file.size ?? file.bytes ?? 0), 0);
  if (total > BYTES_MAX) throw new Error(`The store that is served has ${Math.round(total / 1e6)} MB, which is too much to be sent to a page. Open its folder here instead.`);
  found();
  const names = new Set(files.map((file) => file.name));
  for (const name of kept.keys()) if (!names.has(name)) kept.delete(name);
  return Promise.all(files.map(async ({ name }) => ({ name, blob: await blobOf(name) })));
}

async function blobOf(name: string): Promise<Blob> {
  const known = kept.get(name);
  const { end = 0 } = known ?? {};
  const from = Math.max(0, end - UNSURE_BYTES);
  const file = await asked(name, known?.tag, known !== undefined && end > 0 ? [from, Math.min(known.blob.size, end + 2 * ROOM_BYTES)] : undefined);
  if (file.status === 304 && known !== undefined) return known.blob;
  if (file.status === 416) {
    // It is shorter than before, which is another file.
    kept.delete(name);
    return blobOf(name);
  }
  if (!file.ok) throw new Error(`The server doesn't give the file ${name} of the store: ${file.status} ${file.statusText}. Load the page again.`);
  const isRest = file.status === 206 && known !== undefined;
  const { pieces, total } = isRest ? await restOf(name, file, from) : { pieces: [await file.blob()], total: 0 };
  const seen = new Blob(isRest ? [known.blob.slice(0, from), ...pieces] : pieces);
  const blob = seen.size < total ? new Blob([seen, new Uint8Array(total - seen.size)]) : seen;
  const tag = file.headers.get("etag");
  if (tag === null) kept.delete(name);
  else kept.set(name, { tag, blob, end: name.endsWith(".seg") ? await endOf(seen) : 0 });
  return blob;
}

/** Asks for a file, or a range of it, the first byte and the one after the last; not for the one with a tag. */
function asked(name: string, tag: string | undefined, range: [number, number] | undefined): Promise<Response> {
  const headers: Record<string, string> = {};
  if (tag !== undefined) headers["if-none-match"] = tag;
  if (range !== undefined) headers["range"] = `bytes=${range[0]}-${range[1] - 1}`;
  return fetch(new URL(`${FILES}/${encodeURIComponent(name)}`, document.baseURI), { headers, cache: "no-store" });
}

/** What a file has from a byte on, of which the beginning was given, up to the room that it has; and how large it is. */
async function restOf(name: string, given: Response, from: number): Promise<{ pieces: Blob[]; total: number }> {
  let piece = await given.blob();
  const pieces = [piece];
  let at = from + piece.size;
  const total = Number(/\/(\d+)$/.exec(given.headers.get("content-range") ?? "")?.[1] ?? at);
  for (let size = 4 * ROOM_BYTES; at < total && (await endOf(piece)) > piece.size - ROOM_BYTES; size *= 2) {
    const next = await asked(name, undefined, [at, Math.min(total, at + size)]);
    if (next.status !== 206) throw new Error(`The server doesn't give the rest of the file ${name} of the store: ${next.status} ${next.statusText}. Load the page again.`);
    piece = await next.blob();
    pieces.push(piece);
    at += piece.size;
  }
  return { pieces, total };
}

/** Where the last byte of a file ends that is no zero. */
async function endOf(blob: Blob): Promise<number> {
  for (let end = blob.size; end > 0; ) {
    const start = Math.max(0, end - UNSURE_BYTES);
    const bytes = new Uint8Array(await blob.slice(start, end).arrayBuffer());
    const last = bytes.findLastIndex((byte) => byte !== 0);
    if (last >= 0) return start + last + 1;
    end = start;
  }
  return 0;
}

interface Stat {
  /** Where the log ends for the server. */
  last_position?: number;
  /** Whether a process has the store open for writing; null where the server can't tell. */
  has_writer?: boolean | null;
}

/** What the server says of the store as a whole: nothing where it can't be reached. */
export async function servedStat(): Promise<Stat> {
  try {
    const response = await fetch(new URL("v1/store", document.baseURI));
    return (await response.json()) as Stat;
  } catch {
    return {};
  }
}

/** Called as a store that is still written changes. */
export interface Following {
  /** The log has come to a position. */
  moved(position: number): void;
  /** Whether the server can be reached. */
  connected(isConnected: boolean): void;
  /** The server answers, but not with its log: asking for the store says why. */
  refused(): void;
  /** How many records are shown. */
  shown(): number;
}

/** So long after a refusal the server is asked again. */
const AGAIN_MS = 2000;

/** What one page tells the others. */
interface News {
  position?: number;
  isConnected?: boolean;
  isRefused?: boolean;
}
/** What a page says that wants to hear where the log is. */
const HELLO = "hello";

/**
 * Follows the log of the store that is served, until it is stopped. A browser connects again by itself where a connection is lost, and
 * misses nothing; not where it was answered by something else, as by a proxy whose server is away, or by another server.
 *
 * A browser has six connections to a server for all of its pages, and a page that follows keeps one: so one page follows, and tells the
 * others of the same store. Another store may be served at an address after that, which each page finds by itself.
 */
export function follow(identity: string | undefined, on: Following): () => void {
  let last = on.shown();
  let isConnected = false;
  let isLeading = false;
  let timer = 0;
  let events: EventSource | undefined;
  const stopped = new AbortController();
  const { href } = new URL("v1/tail", document.baseURI);
  const name = `runlog ${href} ${identity ?? ""}`;
  const channel = new BroadcastChannel(name);

  const hear = (news: News) => {
    if (news.isConnected !== undefined) on.connected((isConnected = news.isConnected));
    if (news.isRefused === true) on.refused();
    if (news.position === undefined) return;
    last = Math.max(last, news.position);
    on.moved(news.position);
  };
  const tell = (news: News) => {
    hear(news);
    channel.postMessage(news);
  };
  const listen = () => {
    events = new EventSource(`${href}?after=${last}`);
    const moved = ({ data }: MessageEvent<string>) => {
      const { position } = JSON.parse(data) as { position?: number };
      if (typeof position === "number") tell({ position });
    };
    for (const topic of ["position", "context", "run", "flow", "chat", "log"]) events.addEventListener(topic, moved);
    events.addEventListener("open", () => tell({ isConnected: true }));
    events.addEventListener("error", () => {
      tell({ isConnected: false });
      if (events?.readyState !== EventSource.CLOSED || stopped.signal.aborted) return;
      tell({ isRefused: true });
      timer = window.setTimeout(() => void connect(), AGAIN_MS);
    });
  };
  const connect = async () => {
    const { last_position: end = last } = await servedStat();
    if (stopped.signal.aborted) return;
    // It may be another store with less, as a backup has, which reading it tells: what was heard of before isn't in it. Or one whose
    // writer was killed: what that one had written and not yet acknowledged is in the files, and for the server behind the end.
    if (end < last) tell({ isRefused: true });
    last = Math.min(last, on.shown(), end);
    listen();
  };
  const lead = () => {
    isLeading = true;
    void connect();
    return new Promise<void>((resolve) => stopped.signal.addEventListener("abort", () => resolve()));
  };
  channel.addEventListener("message", ({ data }: MessageEvent<News | typeof HELLO>) => {
    if (data !== HELLO) hear(data);
    else if (isLeading) channel.postMessage({ position: last, isConnected } satisfies News);
  });
  // Pages of an address that isn't secure have no locks, and follow each by itself.
  const locks = navigator.locks as LockManager | undefined;
  if (locks === undefined) void lead();
  else locks.request(name, { signal: stopped.signal }, lead).catch(() => {});
  channel.postMessage(HELLO);
  return () => {
    stopped.abort();
    clearTimeout(timer);
    events?.close();
    channel.close();
  };
}
