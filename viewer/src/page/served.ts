import type { GivenFile } from "../worker/source.js";

// `runlog serve` gives this page, and the store that it serves: its files, and a stream that says how far the log has come.

const FILES = "v1/store/files";
/** Larger stores than this are opened from their folder, where no more of them is read than is looked at. */
const BYTES_MAX = 512 << 20;

interface ServedFile {
  name: string;
  size?: number;
  bytes?: number;
}

/** Files as they were sent last, by their names: those that are as they were aren't sent again. */
const kept = new Map<string, { tag: string; blob: Blob }>();

/** The files of the store that is served beside this page; undefined where none is. */
export async function servedFiles(): Promise<GivenFile[] | undefined> {
  if (!/^https?:$/.test(location.protocol)) return undefined;
  const response = await fetch(new URL(FILES, document.baseURI)).catch(() => undefined);
  const type = response?.headers.get("content-type") ?? "";
  if (response?.ok !== true || !type.includes("json")) return undefined;
  const { files } = (await response.json()) as { files: ServedFile[] };
  const total = files.reduce((sum, file) => sum + (file.size ?? file.bytes ?? 0), 0);
  if (total > BYTES_MAX) throw new Error(`The store that is served has ${Math.round(total / 1e6)} MB, which is too much to be sent to a page. Open its folder here instead.`);
  const names = new Set(files.map((file) => file.name));
  for (const name of kept.keys()) if (!names.has(name)) kept.delete(name);
  return Promise.all(files.map(async ({ name }) => ({ name, blob: await blobOf(name) })));
}

async function blobOf(name: string): Promise<Blob> {
  const known = kept.get(name);
  const address = new URL(`${FILES}/${encodeURIComponent(name)}`, document.baseURI);
  const file = await fetch(address, known === undefined ? {} : { headers: { "if-none-match": known.tag } });
  if (file.status === 304 && known !== undefined) return known.blob;
  if (!file.ok) throw new Error(`The server doesn't give the file ${name} of the store: ${file.status} ${file.statusText}. Load the page again.`);
  const blob = await file.blob();
  const tag = file.headers.get("etag");
  if (tag === null) kept.delete(name);
  else kept.set(name, { tag, blob });
  return blob;
}

/** What is told of a store that is still written. */
export interface Following {
  /** The log has come to a position. */
  moved(position: number): void;
  /** Whether the server can be reached. */
  connected(isConnected: boolean): void;
}

/** Follows the log of the store that is served, until it is stopped. The browser connects again by itself, and misses nothing. */
export function follow(after: number, told: Following): () => void {
  const events = new EventSource(new URL(`v1/tail?after=${after}`, document.baseURI));
  const moved = ({ data }: MessageEvent<string>) => {
    const { position } = JSON.parse(data) as { position?: number };
    if (typeof position === "number") told.moved(position);
  };
  for (const topic of ["position", "context", "run", "flow", "chat", "log"]) events.addEventListener(topic, moved);
  events.addEventListener("open", () => told.connected(true));
  events.addEventListener("error", () => told.connected(false));
  return () => events.close();
}
