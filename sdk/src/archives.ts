import { bytesOf, check } from "./binding.js";
import { bytesGiven, listOf, optionsOf, shown } from "./checks.js";
import { invalid } from "./error.js";
import { Handle } from "./handle.js";

/** What of a store to export; everything where nothing is named. */
export interface ExportSelection {
  /** These sessions or chats, by id, by name, or by the beginning of an id. */
  sessions?: readonly string[] | undefined;
  /** The sessions of these runs. */
  runs?: readonly string[] | undefined;
}

/** What an export wrote. */
export interface Exported {
  /** The sessions, in the order they were made: also those of runs that spawned one of what was asked for, or go on from it. */
  sessions: string[];
  /** How many streams. */
  streams: number;
  /** How many records. */
  records: number;
  /** How many snapshots. */
  snapshots: number;
}

/** How to import. */
export interface ImportOptions {
  /** Whether nothing is written, and it is a `conflict`, where something would be left out. */
  strict?: boolean | undefined;
}

/** What became of an archive. */
export interface Imported {
  /** Its sessions, in its order, and what became of each. */
  sessions: ImportedSession[];
  /** How many messages were added. */
  messages: number;
  /** How many tool calls were added. */
  toolCalls: number;
  /** How many other records were added, snapshots among them. */
  other: number;
  /** How many records and snapshots were there already. */
  skipped: number;
  /** What was left out, by its line, from 1, and why. */
  conflicts: ImportConflict[];
}

/** What an import left out. */
export interface ImportConflict {
  /** Its line in the archive, from 1. */
  line: number;
  /** Why it was left out. */
  what: string;
}

/** A session of an archive. */
export interface ImportedSession {
  /** Its id. */
  id: string;
  /** Its name elsewhere. */
  name?: string;
  /**
   * What became of it: it was made, got what was new, was completed after an import that broke off, had nothing new, or was
   * left out because the store has something else.
   */
  outcome: "created" | "continued" | "completed" | "unchanged" | "conflict";
}

/** The selection, looked at. @internal */
export function selectionOf(what: ExportSelection): ExportSelection {
  const { sessions, runs } = optionsOf(what, ["sessions", "runs"]);
  return {
    ...(sessions !== undefined && { sessions: listOf(sessions, "the sessions to export") }),
    ...(runs !== undefined && { runs: listOf(runs, "the runs to export") }),
  };
}

/** The pieces of an export, which ends when nobody reads it any more. @internal */
export async function* exported(handle: Handle, what: ExportSelection): AsyncGenerator<Uint8Array, void, undefined> {
  const reply = check(await handle.call("export", { what: selectionOf(what) }));
  const pieces = new Handle(handle.channel, reply.handle, "the export");
  try {
    for (;;) {
      const piece = bytesOf(await pieces.call("next"));
      if (piece.length === 0) return;
      yield piece;
    }
  } finally {
    pieces.release();
  }
}

/** Hands an archive over piece by piece. @internal */
export async function imported(
  handle: Handle,
  source: Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  options: ImportOptions,
): Promise<Imported> {
  const { strict } = optionsOf(options, ["strict"]);
  const pieces = piecesOf(source);
  const archive = new Handle(handle.channel, check(await handle.call("import")).handle, "the import");
  try {
    for await (const piece of pieces) await archive.done("write", undefined, bytesGiven(piece, "a piece of an archive"));
    return await archive.value<Imported>("finish", { strict: strict ?? false });
  } finally {
    archive.release();
  }
}

function piecesOf(source: unknown): Iterable<Uint8Array> | AsyncIterable<Uint8Array> {
  if (source instanceof Uint8Array) return [source];
  if (typeof source === "object" && source !== null) {
    if (Symbol.asyncIterator in source) return source as AsyncIterable<Uint8Array>;
    if (Symbol.iterator in source) return source as Iterable<Uint8Array>;
  }
  throw invalid(`an archive is a Uint8Array, or something that gives Uint8Arrays, not ${shown(source)}`);
}
