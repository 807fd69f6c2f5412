import { Alive, Deaths, Entries, NONE } from "./entries.js";
import { f32, f64, firstWhere, i32, u32, u8 } from "./lists.js";
import type { Usage } from "./usage.js";

export { NONE } from "./entries.js";

export const Flag = {
  Error: 1,
  Redacted: 2,
  /** A message with nothing but tool calls in it. */
  Silent: 4,
  /** Told to go on by a resume; nobody said it. */
  Continuation: 8,
  /** A result whose message says something beside it, in a line of its own. */
  SaysMore: 16,
} as const;

export type Status = "running" | "paused" | "completed" | "failed" | "cancelled" | "none";

/** What is kept of every event: numbers in columns, so that a million of them fit and are gone through quickly. */
export class Columns {
  readonly position = f64();
  readonly time = f64();
  readonly sequence = u32();
  readonly kind = u8();
  readonly flags = u8();
  /** The lane it belongs to; -1 for none. */
  readonly lane = i32();
  readonly step = i32();
  /** The name of the tool, by its number; -1 for none. */
  readonly tool = i32();
  /** Of a call the row of the first result that its own lane has, and of a result that of its call; -1 for none. */
  readonly link = i32();
  /** Milliseconds of a tool call; NaN where it isn't known. */
  readonly duration = f32();
  readonly bytes = f64();

  readonly #all = [this.position, this.time, this.sequence, this.kind, this.flags, this.lane, this.step, this.tool, this.link, this.duration, this.bytes];

  get length(): number {
    return this.position.length;
  }

  /** Adds rows, to be written to at once: the first of them. */
  add(count = 1): number {
    const row = this.position.length;
    for (const column of this.#all) {
      column.reserve(count);
      column.length = row + count;
    }
    return row;
  }
}

export interface Session {
  id: string;
  title: string | undefined;
  name: string | undefined;
  copiedFrom: string | undefined;
  createdAt: number;
  /** The position of the record that made it; 0 where that is lost. */
  position: number;
  deleted: boolean;
  lanes: number[];
}

export interface Run {
  id: string;
  lane: number;
  instanceId: string;
  status: Status;
  createdAt: number;
  endedAt: number | undefined;
  steps: number;
  parentRunId: string | undefined;
  resumedFrom: string | undefined;
  /** The run that went on with it. */
  resumedBy: string | undefined;
  /** The row of its start; -1 where that isn't known. */
  row: number;
  /** The row of its last status; -1 before the first. */
  endRow: number;
  text: string | undefined;
}

/** A run of which nothing is known but whose it is. */
export function newRun(id: string, lane: number, instanceId: string): Run {
  const unknown = { endedAt: undefined, parentRunId: undefined, resumedFrom: undefined, resumedBy: undefined, text: undefined };
  return { id, lane, instanceId, status: "running", createdAt: 0, steps: 0, row: -1, endRow: -1, ...unknown };
}

/** How a request of a chat stood, as one of its records said, and what the one before that said. */
export interface Standing {
  row: number;
  status: Status;
  /** Why it failed, if it did. */
  error: string | undefined;
  before: Standing | undefined;
}

/** What a chat has beside what every lane has. */
export interface Chat {
  /** Its messages by their ids: entries. */
  entries: Map<string, number>;
  /** Of a copy whose original's messages aren't among these yet: ids are others in a copy, and seldom asked for. */
  original: Original | undefined;
  /** The changes of messages, by their entries: rows. */
  changes: Map<number, number[]>;
  deleted: number;
  /** What was said last of a request, also where it was redacted since. */
  standing: Standing | undefined;
}

/** What a copy of a chat is of. */
export interface Original {
  chat: Chat;
  /** The session of the copy. */
  copy: string;
  /** The entry in the copy of one of the original's; undefined for what the copy hasn't got. */
  entryOf: (entry: number) => number | undefined;
}

/** One agent's context, a chat, or a flow by itself: a lane of the timeline, a line of the tree. */
export interface Lane {
  index: number;
  /** The instance's id, which is its stream's; a chat has one of its own, since its stream's is its session's. */
  id: string;
  name: string;
  sessionId: string | undefined;
  parentId: string | undefined;
  forkOf: number;
  forkAt: number;
  /** The row of the fork; NONE where it is none. */
  forkRow: number;
  /** How many of its entries are another lane's. */
  inherited: number;
  entries: Entries;
  deaths: Deaths;
  alive: Alive;
  /** Rows of truncations; of a chat those of deletions. */
  truncations: number[];
  snapshots: number[];
  runs: number[];
  /** The rows of its own calls, by their ids, which may be used again; those without one together. */
  calls: Map<string | undefined, number[]>;
  /** The calls that it inherits and answers by itself: rows of its newest results, by those of the calls. */
  answers: Map<number, number>;
  /** Messages, results among them; of a flow its events. */
  messages: number;
  toolCalls: number;
  errors: number;
  tokensIn: number;
  tokensOut: number;
  cost: number;
  /** What its runs and requests said that they took, by their ids. */
  said: Map<string, Usage>;
  /** What it reported last of tokens and costs, and for which answer of a model. */
  usage: { answer: number; tokensIn: number; tokensOut: number; cost: number } | undefined;
  firstTime: number;
  lastTime: number;
  /** The status of a flow by itself, as its latest snapshot says it; undefined for what is none. */
  flowStatus: Status | undefined;
  /** What it has as a chat; undefined for what is none. */
  chat: Chat | undefined;
  /** How much later its records were written than they happened: those of an import have the times of the import. */
  skew: number;
  /** Rows of an import that don't say when they happened, of which nothing before them tells it either. */
  undated: number[];
}

export type ChatLane = Lane & { chat: Chat };

export function newLane(index: number, id: string): Lane {
  return {
    index,
    id,
    name: "agent",
    sessionId: undefined,
    parentId: undefined,
    forkOf: -1,
    forkAt: 0,
    forkRow: NONE,
    inherited: 0,
    entries: new Entries(),
    deaths: new Deaths(),
    alive: new Alive(),
    truncations: [],
    snapshots: [],
    runs: [],
    calls: new Map(),
    answers: new Map(),
    messages: 0,
    toolCalls: 0,
    errors: 0,
    tokensIn: 0,
    tokensOut: 0,
    cost: 0,
    said: new Map(),
    usage: undefined,
    firstTime: Number.NaN,
    lastTime: Number.NaN,
    flowStatus: undefined,
    chat: undefined,
    skew: 0,
    undated: [],
  };
}

/** How many events a lane has now: of what was truncated or deleted none. */
export function eventsIn(lane: Lane): number {
  return lane.chat === undefined ? lane.alive.length : lane.entries.length - lane.chat.deleted;
}

/** The entry of an event in a lane; -1 where it isn't one of it. */
export function entryOf(lane: Lane, row: number): number {
  const { entries } = lane;
  const entry = firstWhere(entries.length, (at) => entries.at(at) >= row);
  return entry < entries.length && entries.at(entry) === row ? entry : -1;
}
