import type { HeadsPage, SearchPage } from "runlog";

/** One record of a log, whatever it comes from. */
export interface SourceRecord {
  readonly position: number;
  readonly sequence: number;
  readonly timeMs: number;
  readonly kind: number;
  readonly redacted: boolean;
  readonly meta: Uint8Array;
  readonly payload: Uint8Array;
  /** The stream's id, a UUID. */
  readonly stream: string;
}

/** What the viewer reads. A store of files is one; what a server gives over HTTP can be another. */
export interface Source {
  /** What it is called, for people. */
  readonly name: string;
  /** What tells it from any other recording; undefined for what was imported. */
  readonly identity: string | undefined;
  /** Whether it was made of an export or a transcript when it was opened: its records have the time of that. */
  readonly isImported: boolean;
  /** Whether it is made of transcripts: their sessions were added in the order of the files, which says nothing. */
  readonly isTranscribed: boolean;
  /** How many records there are. */
  count(): Promise<number>;
  /** Why records can't be read that were passed over so far. */
  readonly damages: readonly string[];
  /** What of the files that were given isn't among the records, for people. */
  readonly leftOut: readonly string[];
  /** All records from a position on, in the order of positions, in pages: of events what lists show. Damaged ones are passed over. */
  heads(from: number): AsyncIterable<HeadsPage>;
  /** Where a text stands, in any case, from a position on. */
  search(text: string, from: number): AsyncIterable<SearchPage>;
  /** One record with its payload. */
  record(position: number): Promise<SourceRecord | undefined>;
  close(): Promise<void>;
}

/** What tells the record at a position from any other that could be there; undefined where it isn't known, as after a compaction. */
export async function markOf(source: Source, position: number): Promise<string | undefined> {
  // A record that is damaged is reported when it is read for what it says.
  const record = await source.record(position).catch(() => undefined);
  return record && [record.stream, record.sequence, record.kind, record.timeMs].join(" ");
}

/** What was picked, dropped, shipped or embedded. */
export interface GivenFile {
  name: string;
  blob: Blob;
}
