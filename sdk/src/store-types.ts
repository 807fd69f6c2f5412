// What a store is opened with, and what it tells of itself.

import type { Durability } from "./batch.js";

/** How a store is opened. The defaults suit an agent: durable appends, made if it isn't there. */
export interface OpenOptions {
  /** How durable an append is when acknowledged, unless it says otherwise; `sync` when left out. */
  durability?: Durability | undefined;
  /**
   * `write` (the one writer, refused with `locked` while another has the store; when left out), or `readOnly`: a
   * reader, beside a writer in another process or without one, which changes no file.
   */
  mode?: "write" | "readOnly" | undefined;
  /** What a missing store means: it is made (when left out), or the error `not_found`. */
  missing?: "create" | "fail" | undefined;
  /** The largest size of a segment file in bytes, from 64 KiB to 1 GiB; 32 MiB when left out. */
  segmentBytesMax?: number | undefined;
  /** Whether the space of segments is made ahead of need, so that a flush is faster; `auto` when left out. */
  preallocation?: "auto" | "none" | undefined;
  /**
   * How long to wait for another writer to let go of the store, in milliseconds, before it is refused with `locked`; 0 when
   * left out. A service that is restarted waits for the one before it to end.
   */
  lockTimeoutMs?: number | undefined;
}

/** How to make a backup. */
export interface BackupOptions {
  /**
   * Whether all bytes that an earlier backup has are compared with the store's, and what is damaged is copied again, and whether the
   * store's own are checked that the backup has already. Left out,
   * a segment's length, header and end are compared, and samples of its records.
   */
  verify?: boolean | undefined;
}

/** What a backup did. */
export interface Backup {
  /** How many segments were copied. */
  segmentsCopied: number;
  /** How many segments the backup had already, as they are. */
  segmentsKept: number;
  /** The bytes that were copied. */
  bytesCopied: number;
  /** The last position that the backup has. */
  lastPosition: number;
}

/** What opening found. */
export interface Recovery {
  /** Whether the store was closed, not left by a crash. */
  clean: boolean;
  /** How many records were read because no checkpoint covered them. */
  recordsScanned: number;
  /** How many index blocks were read because no checkpoint covered them. */
  indexBlocksRead: number;
  /** How many bytes were a write that a crash cut off, never acknowledged. */
  tornBytes: number;
}

/** How large a store is and what is in it. */
export interface Stat {
  /** The id of the store, given when it was made. */
  store: string;
  /** When it was made: milliseconds since 1970-01-01 UTC. */
  createdMs: number;
  /** How many segments it has. */
  segments: number;
  /** How many streams it has, without those deleted. */
  streams: number;
  /** How many streams were deleted. */
  streamsDeleted: number;
  /** The last position, which is also how many records were ever appended. */
  lastPosition: number;
  /** The time of the last record; 0 when there is none. */
  lastTimeMs: number;
  /** How many bytes the segment files take, the space made ahead of need included. */
  segmentBytes: number;
  /** How many of these are records and their indexes. */
  usedBytes: number;
  /**
   * Why readers in other processes don't see newer records, when this writer can't write the file by which they follow; `null`
   * when all is well. The records are safe all the same.
   */
  readersBehind: string | null;
}

/** A damage that a verification found. */
export interface Problem {
  /** The file, by its name in the store's folder. */
  file: string;
  /** Where in it, in bytes from its beginning. */
  offset: number;
  /** What was expected there, and what was found. */
  message: string;
}

/** What a verification found. */
export interface Verification {
  /** Whether nothing is damaged. */
  sound: boolean;
  /** How many segments there are. */
  segments: number;
  /** How many records were read and found whole. */
  records: number;
  /** How many bytes were read. */
  bytes: number;
  /** Bytes that a crash cut off, never acknowledged: no damage. */
  tornBytes: number;
  /** Each damage, at most 1,000 of them: the file, where in it, and what was expected and found. */
  problems: Problem[];
  /** How many problems there are. */
  problemsCount: number;
}

/** From where on, and until when, to read the log. */
export interface LogOptions {
  /** The first position; 1 when left out. */
  from?: number | undefined;
  /** At most so many records. */
  limit?: number | undefined;
  /** Gives up reading. */
  signal?: AbortSignal | undefined;
}

/** Names an open store to another thread of this process; it can be posted there. */
export interface SharedStore {
  /** Opaque. */
  readonly runlogStore: number;
}
