import { Kind, typeOf } from "./kinds.js";
import { firstWhere } from "./lists.js";
import type { LogIndex } from "./index.js";
import type { Lane, Session } from "./model.js";

/** Nothing happens for so long: the time is folded. */
const IDLE_MS = 2000;
/** Clocks of one store differ by no more: the order of the log says more then. */
const ASIDE_MS = 1000;
/** An event of a transcript is read in less, on a busy machine too; one of a conversation takes more. */
const READ_MS = 20;
/** A call whose result comes within so many events is found by looking back. */
export const NEAR_RANKS = 64;
/** How long a folded gap seems, at most. */
const FOLDED_MS = 400;
/** At most such a part of the time that isn't folded, and all of them together: a gap in a short run would have all of the width. */
const FOLDED_PART = 0.1;
const ALL_FOLDED_PART = 0.5;

/** A gap in which nothing happened, in folded time, with its real length. */
export interface Fold {
  at: number;
  end: number;
  ms: number;
  /** How far folded time is behind from its end on. */
  skipped: number;
}

/** A session with the sessions that were copied from it: what is looked at together. Its events have ranks, in order of time. */
export class Family {
  readonly lanes: Lane[];
  readonly depths: number[];
  /** Rows by rank. */
  readonly order: Uint32Array;
  /** Ranks by row; -1 for rows of others. */
  readonly rank: Int32Array;
  /** When, in time without idle gaps: milliseconds from 0, by rank. */
  readonly folded: Float64Array;
  readonly folds: Fold[] = [];
  /** When, by row, where clocks contradict the order in which a lane's events came; else undefined, and the rows' own times count. */
  readonly #times: Float64Array | undefined;

  constructor(
    readonly index: LogIndex,
    readonly sessions: Session[],
    lanes: Lane[],
  ) {
    const ordered = inTreeOrder(index, lanes);
    this.lanes = ordered.map(([lane]) => lane);
    this.depths = ordered.map(([, depth]) => depth);
    const isMember = new Uint8Array(index.lanes.length);
    for (const lane of lanes) isMember[lane.index] = 1;
    [this.order, this.#times] = orderOf(index, isMember, lanes);
    this.rank = new Int32Array(index.rows.length).fill(-1);
    for (let rank = 0; rank < this.order.length; rank++) this.rank[this.order[rank] as number] = rank;
    this.folded = this.#fold();
  }

  get length(): number {
    return this.order.length;
  }

  #long: number[] | undefined;

  /** The ranks of calls that many events come within, before their results: of a stretch of time they may fill all. */
  get longCalls(): readonly number[] {
    if (this.#long === undefined) {
      const { rows } = this.index;
      this.#long = [];
      for (let rank = 0; rank < this.length; rank++) {
        const row = this.order[rank] as number;
        const result = rows.kind.at(row) === Kind.ToolCall ? rows.link.at(row) : -1;
        if (result >= 0 && (this.rank[result] as number) - rank > NEAR_RANKS) this.#long.push(rank);
      }
    }
    return this.#long;
  }

  /** Whether a lane has what a flow recorded: of a run there is nothing else before its first message. */
  hasFlowEvents(lane: Lane): boolean {
    const { rows } = this.index;
    return this.order.some((row) => rows.lane.at(row) === lane.index && typeOf(rows.kind.at(row)) === "flow");
  }

  /** Whether its times are those of one moment, in which a transcript was read. */
  get hasNoTimes(): boolean {
    if (this.length === 0 || this.lanes.some(isTimed)) return false;
    const timeOf = (rank: number) => this.index.rows.time.at(this.order[rank] as number);
    return isAtOnce(timeOf(0), timeOf(this.length - 1), this.length);
  }

  /** Milliseconds of folded time in all. */
  get duration(): number {
    return this.folded[this.length - 1] ?? 0;
  }

  /** How many events have happened at a moment of folded time. */
  momentAt(folded: number): number {
    return firstWhere(this.length, (rank) => (this.folded[rank] as number) > folded);
  }

  #fold(): Float64Array {
    const { rows } = this.index;
    const folded = new Float64Array(this.length);
    // A transcript without times has those at which it was read, which say nothing: one event is as long as the other.
    if (this.hasNoTimes) return folded.map((_, rank) => rank * FOLDED_MS);
    let at = 0;
    let busyUntil = 0;
    let before = -Infinity;
    /** The ranks before which there is a gap, and how long these are. */
    const gaps: [rank: number, ms: number][] = [];
    for (let rank = 0; rank < this.length; rank++) {
      const row = this.order[rank] as number;
      const time = this.#times?.[row] ?? rows.time.at(row);
      if (rank > 0) {
        const gap = Math.max(0, time - before);
        // Somebody may wait for a tool, which is no idleness.
        const isIdle = gap > IDLE_MS && before >= busyUntil;
        if (isIdle) gaps.push([rank, gap]);
        else at += gap;
      }
      before = Math.max(before, time);
      folded[rank] = at;
      const result = rows.link.at(row);
      if (rows.kind.at(row) === Kind.ToolCall && result >= 0) busyUntil = Math.max(busyUntil, rows.time.at(result));
    }
    this.#addFolds(folded, gaps, at);
    return folded;
  }

  /** Gives each gap its room in times that have none of it, which are so long in all. */
  #addFolds(folded: Float64Array, gaps: [rank: number, ms: number][], total: number): void {
    const size = total === 0 ? FOLDED_MS : Math.min(FOLDED_MS, total * FOLDED_PART, (total * ALL_FOLDED_PART) / gaps.length);
    let skipped = 0;
    for (const [gap, [rank, ms]] of gaps.entries()) {
      const at = folded[rank - 1] as number;
      this.folds.push({ at, end: at + size, ms, skipped: (skipped += ms - size) });
      const next = gaps[gap + 1]?.[0] ?? this.length;
      for (let later = rank; later < next; later++) folded[later] = (folded[later] as number) + size * (gap + 1);
    }
  }
}

const isTimed = (lane: Lane) => lane.runs.length > 0 || lane.flowStatus !== undefined;
const isAtOnce = (first: number, last: number, count: number) => last - first < READ_MS * count;

/** How long a lane took; undefined where its times are those at which it was read. */
export function durationOf(lane: Lane): number | undefined {
  const { firstTime, lastTime } = lane;
  if (Number.isNaN(firstTime) || lastTime === firstTime) return undefined;
  return !isTimed(lane) && isAtOnce(firstTime, lastTime, lane.entries.length) ? undefined : lastTime - firstTime;
}

/** Rows in the order in which they happened; with the times that this order goes by, where those aren't the rows' own. */
function orderOf(index: LogIndex, isMember: Uint8Array, lanes: Lane[]): [Uint32Array, Float64Array | undefined] {
  const { rows } = index;
  const order = new Uint32Array(rows.length);
  let count = 0;
  let isOrdered = true;
  let last = -Infinity;
  for (let row = 0; row < rows.length; row++) {
    const lane = rows.lane.at(row);
    if (lane < 0 || isMember[lane] !== 1) continue;
    const time = rows.time.at(row);
    if (time < last - ASIDE_MS) isOrdered = false;
    last = Math.max(last, time);
    order[count++] = row;
  }
  const members = order.subarray(0, count);
  if (isOrdered) return [members, undefined];
  // What was imported has the times at which it happened, in the order of the import.
  const times = timesOf(index, members, lanes);
  return [members.sort((a, b) => (times[a] as number) - (times[b] as number) || a - b), times];
}

/**
 * When each row happened, so that a lane's events are in the order in which they came, whatever the clock of whoever wrote them: a
 * conversation is what was given to a model, in that order. What a fork has of its own comes after what it inherits.
 */
function timesOf(index: LogIndex, members: Uint32Array, lanes: Lane[]): Float64Array {
  const times = new Float64Array(index.rows.length);
  const rowsOf = new Map<number, number[]>(lanes.map((lane) => [lane.index, []]));
  for (const row of members) {
    times[row] = index.rows.time.at(row);
    rowsOf.get(index.rows.lane.at(row))?.push(row);
  }
  // The lane that a fork is of was there before it.
  for (const lane of [...lanes].sort((a, b) => a.index - b.index)) {
    const own = rowsOf.get(lane.index) ?? [];
    straighten(times, own);
    let floor = lane.inherited === 0 ? -Infinity : (times[lane.entries.at(lane.inherited - 1)] as number);
    for (const row of own) times[row] = floor = Math.max(floor, times[row] as number);
  }
  return times;
}

/** Makes the times of rows ascend, by changing as few of them as one of two ways does: later ones up, or earlier ones down. */
function straighten(times: Float64Array, rows: number[]): void {
  let up = 0;
  let highest = -Infinity;
  for (const row of rows) {
    const time = times[row] as number;
    if (time < highest) up += 1;
    else highest = time;
  }
  if (up === 0) return;
  let down = 0;
  let lowest = Infinity;
  for (const row of rows.toReversed()) {
    const time = times[row] as number;
    if (time > lowest) down += 1;
    else lowest = time;
  }
  // Up is what the caller does with all of them.
  if (up <= down) return;
  lowest = Infinity;
  for (const row of rows.toReversed()) times[row] = lowest = Math.min(lowest, times[row] as number);
}

/** Each lane after the one that it comes from, with its depth. */
function inTreeOrder(index: LogIndex, lanes: Lane[]): [Lane, number][] {
  const children = new Map<number, Lane[]>();
  const members = new Set(lanes.map((lane) => lane.index));
  for (const lane of lanes) {
    const parent = parentOf(index, lane);
    const key = parent !== undefined && members.has(parent.index) ? parent.index : -1;
    const list = children.get(key);
    if (list === undefined) children.set(key, [lane]);
    else list.push(lane);
  }
  const ordered: [Lane, number][] = [];
  // As deep as agents spawn agents, and forks are of forks: a stack of our own.
  const stack: [Lane, number][] = [];
  const add = (key: number, depth: number) => {
    for (const lane of children.get(key)?.toReversed() ?? []) stack.push([lane, depth]);
  };
  add(-1, 0);
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const [lane, depth] = next;
    ordered.push(next);
    add(lane.index, depth + 1);
  }
  return ordered;
}

/** The lane that another one comes from: whose agent spawned it, or what it is a fork of. */
export function parentOf(index: LogIndex, lane: Lane): Lane | undefined {
  if (lane.parentId !== undefined) return index.laneOf(lane.parentId);
  if (lane.forkOf >= 0) return index.lanes[lane.forkOf];
  const run = index.runs[lane.runs[0] ?? -1];
  const parent = run?.parentRunId === undefined ? undefined : index.runOf(run.parentRunId);
  return parent === undefined || parent.lane === lane.index ? undefined : index.lanes[parent.lane];
}

/** The session that others were copied from, through all of them; `known` are those of sessions that were looked at before. */
export function rootSession(index: LogIndex, id: string, known: Map<string, string>): string {
  const seen = new Set<string>();
  let at = id;
  for (;;) {
    seen.add(at);
    const from = index.sessions.get(at)?.copiedFrom;
    if (known.has(at) || from === undefined || seen.has(from) || !index.sessions.has(from)) break;
    at = from;
  }
  const root = known.get(at) ?? at;
  for (const one of seen) known.set(one, root);
  return root;
}

/** The lanes that are still there, 1 for each: those of sessions that weren't deleted, and those that these are forks of. */
export function livingLanes(index: LogIndex): Uint8Array {
  const living = new Uint8Array(index.lanes.length);
  for (const lane of index.lanes) {
    if (index.sessions.get(lane.sessionId ?? "")?.deleted === true) continue;
    for (let at: Lane | undefined = lane; at !== undefined && living[at.index] === 0; at = index.lanes[at.forkOf]) living[at.index] = 1;
  }
  return living;
}

/** The family of a lane, without what was deleted, unless the lane was so itself. */
export function familyOf(index: LogIndex, lane: Lane): Family {
  if (lane.sessionId === undefined) return new Family(index, [], [lane]);
  const living = livingLanes(index);
  const isShown = (one: number) => living[lane.index] === 0 || living[one] === 1;
  const known = new Map<string, string>();
  const root = rootSession(index, lane.sessionId, known);
  const sessions = [...index.sessions.values()].filter((session) => rootSession(index, session.id, known) === root);
  return new Family(
    index,
    sessions,
    sessions.flatMap((session) => session.lanes.filter(isShown).map((one) => index.lanes[one] as Lane)),
  );
}
