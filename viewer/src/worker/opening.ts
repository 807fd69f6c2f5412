// Makes a store of what was given. The only module here that needs the package's build for browsers: folds know a `Source` alone.

import { type HeadsPage, RunlogError, type SearchPage, type Store, openFiles, openInMemory } from "runlog";

import type { GivenFile, Source, SourceRecord } from "./source.js";
import { isTranscript, transcriptInto } from "./transcripts.js";

/** So many places of damage are passed over. */
const DAMAGES_MAX = 1000;

class StoreSource implements Source {
  readonly damages: string[] = [];

  constructor(
    readonly name: string,
    private readonly store: Store,
    readonly identity: string | undefined = undefined,
    readonly leftOut: readonly string[] = [],
    readonly isImported = false,
    readonly isTranscribed = false,
  ) {}

  count(): Promise<number> {
    return this.store.lastPosition();
  }

  heads(from: number): AsyncIterable<HeadsPage> {
    return this.#pages(from, (next) => this.store.heads({ from: next }));
  }

  search(text: string, from: number): AsyncIterable<SearchPage> {
    return this.#pages(from, (next) => this.store.search(text, { from: next }));
  }

  /** The pages that can be read: behind a damaged record it is resumed. */
  async *#pages<Page>(from: number, read: (from: number) => AsyncIterable<Page>): AsyncGenerator<Page> {
    for (let next: number | undefined = from; next !== undefined; ) {
      try {
        yield* read(next);
        return;
      } catch (error) {
        const behind = behindDamage(error);
        if (behind === undefined || behind <= next || this.damages.length >= DAMAGES_MAX) throw error;
        const message = (error as Error).message;
        if (!this.damages.includes(message)) this.damages.push(message);
        next = behind;
      }
    }
  }

  record(position: number): Promise<SourceRecord | undefined> {
    return this.store.record(position);
  }

  close(): Promise<void> {
    return this.store.close();
  }
}

/** The id of a store and when it was made, as its file RUNLOG says (docs/format-v1.md); the rest of that may change. */
async function identityIn(file: Blob): Promise<string> {
  const bytes = new Uint8Array(await file.slice(16, 40).arrayBuffer());
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Where reading goes on behind a damaged record, as the error of reading it says. */
function behindDamage(error: unknown): number | undefined {
  if (!(error instanceof RunlogError) || error.code !== "damaged") return undefined;
  const found = /the next position that can be read is (\d+)/.exec(error.message);
  return found === null ? undefined : Number(found[1]);
}

/** Opens what was given: the files of a store, an export of `runlog export`, or transcripts of other tools. */
export async function openGiven(name: string, given: GivenFile[]): Promise<Source> {
  if (given.length === 0) throw new Error("There is no file in what was given. Drop the folder of a store, a bundle, or a transcript.");
  const files = await Promise.all(given.map(unzipped));
  const stores = files.filter((file) => baseName(file.name) === "RUNLOG");
  const [identity] = stores;
  const folderOf = ({ name }: GivenFile) => name.slice(0, -"RUNLOG".length);
  if (stores.length > 1) throw new Error(`There are ${stores.length} stores in what was given: ${stores.slice(0, 5).map((one) => `“${folderOf(one)}”`).join(", ")}${stores.length > 5 ? ", …" : ""}. Drop the folder of one of them.`);
  if (identity !== undefined) {
    const folder = folderOf(identity);
    const inFolder = files.filter((file) => file.name.startsWith(folder) && !file.name.slice(folder.length).includes("/"));
    return new StoreSource(name, await openFiles(new Map(inFolder.map((file) => [baseName(file.name), file.blob]))), await identityIn(identity.blob));
  }
  const image = files.length === 1 && files[0] !== undefined ? await imageOf(files[0].blob) : undefined;
  if (image !== undefined) return new StoreSource(name, await openFiles(image));
  const { store, leftOut, isTranscribed } = await imported(files);
  return new StoreSource(name, store, undefined, leftOut, true, isTranscribed);
}

/** A store in memory with what files have, and what they have beside that isn't in it, for people. */
async function imported(files: GivenFile[]): Promise<{ store: Store; leftOut: string[]; isTranscribed: boolean }> {
  const store = await openInMemory();
  const leftOut: string[] = [];
  let count = 0;
  let isTranscribed = false;
  for (const { name, blob } of files) {
    const head = await blob.slice(0, 4096).text();
    if (/^\s*\{"runlog":"archive"/.test(head)) {
      await store.import(blob);
      count += 1;
    } else if (isTranscript(baseName(name), head)) {
      const transcript = await transcriptInto(store, baseName(name), await blob.text());
      count += transcript.made;
      isTranscribed ||= transcript.made > 0;
      leftOut.push(...transcript.leftOut);
    }
  }
  if (count > 0) return { store, leftOut, isTranscribed };
  await store.close();
  const what = "a store (a folder with a file RUNLOG), an export of “runlog export”, or a transcript (lines of JSON with messages)";
  throw new Error(files.length === 1 ? `“${baseName(files[0]?.name ?? "")}” can't be shown. What can is ${what}.` : `None of the ${files.length} files is ${what}.`);
}

const MAGIC = "RUNLOGIMAGE1\n";

/** A bundle of a store's files: a line that says what it is, a line of JSON with names and lengths, then the bytes. */
async function imageOf(blob: Blob): Promise<Map<string, Blob> | undefined> {
  if ((await blob.slice(0, MAGIC.length).text()) !== MAGIC) return undefined;
  const head = await blob.slice(MAGIC.length, MAGIC.length + 65536).text();
  const line = head.slice(0, head.indexOf("\n"));
  let at = MAGIC.length + new TextEncoder().encode(line).length + 1;
  const files = new Map<string, Blob>();
  for (const [name, length] of namesIn(line)) files.set(name, blob.slice(at, (at += length)));
  if (at !== blob.size) throw new Error(`The bundle has ${blob.size} bytes, and says that it has ${at}. Get it again.`);
  return files;
}

function namesIn(line: string): [string, number][] {
  try {
    const names = JSON.parse(line) as unknown;
    const isPair = (pair: unknown) => Array.isArray(pair) && typeof pair[0] === "string" && Number.isSafeInteger(pair[1]) && (pair[1] as number) >= 0;
    if (Array.isArray(names) && names.every(isPair)) return names as [string, number][];
  } catch {
    // Told below.
  }
  throw new Error("The bundle is damaged: its second line doesn't name its files. Get it again.");
}

async function unzipped(file: GivenFile): Promise<GivenFile> {
  const head = new Uint8Array(await file.blob.slice(0, 2).arrayBuffer());
  if (head[0] !== 0x1f || head[1] !== 0x8b) return file;
  const stream = file.blob.stream().pipeThrough(new DecompressionStream("gzip"));
  try {
    return { name: file.name.replace(/\.gz$/, ""), blob: await new Response(stream).blob() };
  } catch (cause) {
    throw new Error(`“${baseName(file.name)}” is damaged, or isn't whole: it can't be unpacked. Get the file again.`, { cause });
  }
}

function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}
