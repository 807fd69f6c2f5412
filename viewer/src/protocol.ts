import type { TypeName } from "./worker/kinds.js";

export type { TypeName };
export type Outcome = "ok" | "error" | "pending";
/** How an event is shown: of a call that nobody is at work on any more there comes no result. */
export type EventStatus = Outcome | "unanswered";
export type LaneStatus = "running" | "paused" | "completed" | "failed" | "cancelled" | "none";

/** What is shown, and what isn't. Everything that is left empty lets all pass. */
export interface Filter {
  types: TypeName[];
  status: Outcome[];
  tools: string[];
  /** Ids of lanes. */
  agents: string[];
  /** Only what the search has found. */
  onlyHits: boolean;
  /** Positions of the first event and the last: these stay, also where an event comes between others. */
  range: [number, number] | undefined;
}

export interface TreeRow {
  id: string;
  kind: "session" | "agent";
  depth: number;
  title: string;
  /** What an agent was asked to do, on one line, where others may have its name. */
  task?: string | undefined;
  status: LaneStatus;
  /** How many events an agent or a chat has; of a session how many agents, without its chat. */
  count: number;
  errors: number;
  durationMs: number | undefined;
  tokens: number;
  cost: number;
  /** The sequence at which it was forked. */
  forkAt: number | undefined;
  children: number;
  /** How many of the agents below it failed, however deep. */
  failedBelow: number;
  open: boolean;
  /** Which one it is of those shown below the same one, from 1, and how many these are. */
  place: number;
  siblings: number;
  /** The lane to open for it. */
  laneId: string | undefined;
}

/** One line of a list. What long texts have more than this is asked for when it is looked at. */
export interface Row {
  /** Which event it is, by its row; a folded group has the row of its first event. */
  row: number;
  kind: "message" | "call" | "group" | "event";
  position: number;
  sequence: number;
  rank: number;
  type: TypeName;
  label: string;
  laneId: string;
  agent: string;
  time: number;
  step: number;
  text: string;
  /** How many lines the whole text has. */
  lines: number;
  chars: number;
  bytes: number;
  tool: string;
  status: EventStatus | undefined;
  durationMs: number | undefined;
  /** Where it is inherited from. */
  inherited: string | undefined;
  /** Forgotten by a truncation. */
  forgotten: boolean;
  continuation: boolean;
  redacted: boolean;
  /** Whether the store doesn't have it any more: what was truncated or deleted may be taken out of its files. */
  gone: boolean;
  /** Of a call the row of what answers it at the moment that is shown; -1 for none. */
  result: number;
  /** Of the first call of a message that has nothing but calls, and no line therefore, the row of that message; -1 for none. */
  message: number;
  /** Whether it is what a message says beside the results of calls, which are shown with these. */
  beside: boolean;
  /** The part that has the whole text. */
  part: string;
  thinking: string;
  images: number;
  hit: boolean;
  /** Of a group: how many events are in it, and whether they are shown. */
  members: number;
  open: boolean;
}

export interface Rows {
  from: number;
  rows: Row[];
  total: number;
}

/**
 * Why an event isn't in the list that is shown: it doesn't pass the filter; it is of another agent's conversation; it is nothing that
 * conversations show; it comes later than the scrubber; it was forgotten, and is folded.
 */
export type Absence = "filter" | "agent" | "kind" | "later" | "forgotten";

export interface StepRow {
  step: number;
  row: number;
  rank: number;
  position: number;
  time: number;
  durationMs: number;
  messages: number;
  calls: number;
  errors: number;
  text: string;
}

export interface LaneInfo {
  id: string;
  name: string;
  depth: number;
  status: LaneStatus;
  isFork: boolean;
  session: string;
}

export interface Gap {
  at: number;
  end: number;
  ms: number;
}

export interface OpenedLane {
  id: string;
  name: string;
  session: string;
  sessionId: string;
  status: LaneStatus;
  statusText: string;
  events: number;
  /** How many events it ever had, with those that were truncated. */
  said: number;
  /** Whether its session was deleted while it was looked at. */
  isDeleted: boolean;
  /** Whether it has no conversation, but events of a flow. */
  isFlow: boolean;
  /** Whether it is a chat, whose steps are among its events. */
  isChat: boolean;
  /** How many events the family has: the moments of the scrubber go from 0 to this. */
  moments: number;
  lanes: LaneInfo[];
  tools: string[];
  /** Gaps in which nothing happened: from when until when in folded time, and their real length. */
  folds: Gap[];
  duration: number;
  firstTime: number;
  lastTime: number;
  /** What it is a fork of, up to which of its events, and the moment at which it was made. */
  forkOf: { id: string; name: string; at: number; moment: number } | undefined;
  steps: number;
  snapshots: number;
  /** All of them; how many went in and came out may not be known of each. */
  tokens: number;
  tokensIn: number;
  tokensOut: number;
  cost: number;
}

export interface StoreInfo {
  name: string;
  /** What tells it from any other store; undefined where nothing does. */
  identity: string | undefined;
  records: number;
  events: number;
  sessions: number;
  agents: number;
  firstLane: string;
  /** What of it couldn't be read, for people; undefined where all could. */
  lost: string | undefined;
}

/** What a store that is followed has got since; or why it is another one than that. */
export type Grown = { store: StoreInfo; lane: OpenedLane } | { other: string };

/** A recording without any agent: there is nothing to show, and what was open stays. */
export interface EmptyStore {
  isEmpty: true;
  records: number;
}

export interface Progress {
  done: number;
  total: number;
}

/** How far playing has come, in a store that has so many records. */
export interface Played {
  records: number;
  moment: number;
  /** Folded time since the last event that has happened. */
  since: number;
  isOver: boolean;
}

/** Where the scrubber is. */
export interface Moment {
  rank: number;
  position: number;
  time: number;
  folded: number;
  laneId: string;
  agent: string;
  step: number;
  label: string;
}

export interface TimelineRequest {
  width: number;
  /** Folded milliseconds. */
  from: number;
  to: number;
  firstLane: number;
  lanes: number;
}

/** What to draw: for each lane and pixel how much happened, and what stands alone. */
export interface TimelineData extends TimelineRequest {
  /** Events by lane and pixel, at most 255. */
  density: Uint8Array;
  /** Of these how many failed. */
  failed: Uint8Array;
  /** 1 where the search found something, by pixel. */
  hits: Uint8Array;
  /** lane, from pixel, to pixel, status: 0 ok, 1 error, 2 pending, 3 unanswered; row. */
  bars: Float64Array;
  /** lane, pixel, what: 0 step, 1 fork, 2 truncation, 3 snapshot. */
  marks: Float64Array;
  /** Pixel, and milliseconds since the beginning: what the ruler says. */
  ticks: Float64Array;
  /** Milliseconds between two of the ruler's times. */
  tickStep: number;
  /** From when until when each lane was there, in pixels. */
  spans: Float64Array;
}

export type NodeKind = "object" | "array" | "string" | "number" | "boolean" | "null";

/** One value of a payload, as a tree shows it. */
export interface JsonNode {
  key: string;
  path: string;
  kind: NodeKind;
  text: string;
  /** Characters, entries or fields. */
  size: number;
}

export interface Part {
  id: string;
  label: string;
  /** The beginning of it. */
  text: string;
  lines: number;
  chars: number;
  isJson: boolean;
  images: { type: string; url: string; bytes: number }[];
}

/** A run, and the row of its start; -1 where that isn't known. */
export interface RunLink {
  id: string;
  row: number;
}

export interface Details {
  row: number;
  title: string;
  type: TypeName;
  agent: string;
  laneId: string;
  position: number;
  sequence: number;
  time: number;
  recordedAt: number | undefined;
  stream: string;
  kind: number;
  bytes: number;
  step: number;
  runId: string | undefined;
  /** The run that its run goes on with, and the one that went on with it. */
  resumedFrom: RunLink | undefined;
  resumedBy: RunLink | undefined;
  toolCallId: string | undefined;
  status: EventStatus | undefined;
  durationMs: number | undefined;
  redacted: boolean;
  /** Whether its content isn't in the store any more. */
  gone: boolean;
  rank: number;
  linked: number;
  parts: Part[];
}

export interface SnapshotInfo {
  row: number;
  rank: number;
  position: number;
  sequence: number;
  time: number;
  bytes: number;
  label: string;
}

export interface Change {
  path: string;
  kind: "added" | "removed" | "changed";
  before: string;
  after: string;
}

export interface SnapshotView {
  all: SnapshotInfo[];
  /** The one at the moment, and the one that it is compared with. */
  at: number;
  against: number;
  changes: Change[];
  /** Whether there are more than these. */
  more: boolean;
}

export interface TextPiece {
  text: string;
  kind: "same" | "added" | "removed";
}

export interface ComparedRow {
  kind: "same" | "changed" | "left" | "right";
  left: Row | undefined;
  right: Row | undefined;
  /** The differences of the two texts, where both are there and differ. */
  pieces: TextPiece[];
}

export interface Totals {
  id: string;
  name: string;
  session: string;
  status: LaneStatus;
  events: number;
  steps: number;
  toolCalls: number;
  errors: number;
  tokens: number;
  cost: number;
  isFork: boolean;
  /** Of a fork since it was made; undefined where its times are those at which it was read. */
  durationMs: number | undefined;
}

export interface Comparison {
  left: Totals;
  right: Totals;
  shared: number;
  rows: ComparedRow[];
  /** Of how many rows these are the first. */
  total: number;
}

/** A piece of what was stored of an event, as it was stored. */
export interface RawPiece {
  text: string;
  /** Where the next piece begins; -1 where there is none. */
  next: number;
  /** Whether it is text; what isn't is shown as hexadecimal numbers. */
  isText: boolean;
  /** How many bytes there are in all, and their CRC-32. */
  bytes: number;
  crc: string;
}

export interface SearchState {
  query: string;
  hits: number;
  /** Of them in what is looked at. */
  here: number;
  done: boolean;
  problem: string | undefined;
}

export type LaneState = "there" | "deleted" | "none";

export interface LaneChoice {
  id: string;
  title: string;
}

/** What the worker says by itself. */
export type Pushed = { progress: Progress } | { search: SearchState };

/** What the page says, and what it is answered. */
export interface Asked {
  id: number;
  method: string;
  args: unknown[];
}
export type Answered = { id: number; value: unknown } | { id: number; error: string };
