// Which result answers a call: in a lane, at a moment.

import { CallFlag, type EventHeads } from "runlog";

import { Kind } from "./kinds.js";
import { type Columns, Flag, type Lane, NONE, entryOf } from "./model.js";

/** A result of a call. */
export interface Answer {
  row: number;
  isError: boolean;
  /** NaN where it isn't known. */
  durationMs: number;
  /** Which of the results of its message it is, where the call's id doesn't tell. */
  place: number | undefined;
}

/** So many calls are looked at, at most, for one that a result answers. */
const LOOKED_AT_MAX = 4096;
/** And so many messages, where calls have no ids. */
const MESSAGES_MAX = 16;

/** A moment, with the ranks that moments are counted by. */
export interface When {
  rank: Int32Array;
  moment: number;
}

/** Joins results to their calls as they are taken in. */
export class Answers {
  /** Results of calls beside the first that their own lanes have: in a fork, or after that was truncated. In the order of the log. */
  readonly #others = new Map<number, Answer[]>();
  /** The places of the first results in their messages, by the rows of their calls, where the ids of these don't tell. */
  readonly #places = new Map<number, number>();
  /** How many failures results are, by their rows. */
  readonly #failures = new Map<number, number>();

  constructor(
    private readonly rows: Columns,
    private readonly lanes: readonly Lane[],
  ) {}

  /** Joins a result to its calls. Of those without ids it names the tools, as far as they are known. */
  take(lane: Lane, row: number, events: EventHeads, first: number, end: number, tools: readonly (number | undefined)[] = []): void {
    const { rows } = this;
    let withoutId = 0;
    for (let mark = first; mark < end; mark++) {
      const isError = ((events.callFlags[mark] as number) & CallFlag.Failed) !== 0;
      if (isError) rows.flags.set(row, rows.flags.at(row) | Flag.Error);
      const id = idOf(events, mark);
      // One that was truncated since isn't answered any more: the result stands by itself.
      const call = this.#callOf(lane, id, id === undefined ? tools[withoutId++] : undefined);
      if (call === undefined) continue;
      rows.link.set(row, call);
      rows.tool.set(row, rows.tool.at(call));
      if (isError) {
        lane.errors += 1;
        this.#failures.set(row, (this.#failures.get(row) ?? 0) + 1);
      }
      const durationMs = events.callDurations[mark] as number;
      const isToldById = end - first === 1 || (id !== undefined && this.lanes[rows.lane.at(call)]?.calls.get(id)?.length === 1);
      const place = isToldById ? undefined : mark - first;
      if (rows.lane.at(call) !== lane.index || rows.link.at(call) >= 0) {
        if (rows.lane.at(call) !== lane.index) lane.answers.set(call, row);
        // A fork answers a call that it inherits by itself, and a call is answered anew after its result was truncated.
        const others = this.#others.get(call);
        if (others === undefined) this.#others.set(call, [{ row, isError, durationMs, place }]);
        else others.push({ row, isError, durationMs, place });
        continue;
      }
      rows.link.set(call, row);
      if (place !== undefined) this.#places.set(call, place);
      if (!Number.isNaN(durationMs)) rows.duration.set(call, durationMs);
      if (isError) rows.flags.set(call, rows.flags.at(call) | Flag.Error);
    }
  }

  /** What answers a call in a lane that has it, else in its own, at a moment, by default now; undefined where nothing does. */
  of(call: number, lane: Lane | undefined, when?: When): Answer | undefined {
    const { rows } = this;
    const owner = rows.lane.at(call);
    const own = lane !== undefined && lane.index !== owner && entryOf(lane, call) >= 0 ? lane : this.lanes[owner];
    if (own === undefined) return undefined;
    const other = this.#others.get(call)?.findLast((answer) => this.#hasResult(own, call, answer.row, when));
    if (other !== undefined) return other;
    const row = rows.link.at(call);
    if (row < 0) return undefined;
    // Of most lanes nothing was ever taken back, and a filter asks for a million.
    const isThere = own.index === owner && own.truncations.length === 0 ? when === undefined || (when.rank[row] as number) < when.moment : this.#hasResult(own, call, row, when);
    if (!isThere) return undefined;
    return { row, isError: (rows.flags.at(call) & Flag.Error) !== 0, durationMs: rows.duration.at(call), place: this.#places.get(call) };
  }

  /** Which of the results of a message answers a call, where its id doesn't tell. */
  placeOf(call: number, result: number): number | undefined {
    if (this.rows.link.at(call) === result) return this.#places.get(call);
    return this.#others.get(call)?.find(({ row }) => row === result)?.place;
  }

  /** The call with an id that a lane has now, by itself or from the lanes that it is a fork of; without an id, an open one. */
  #callOf(lane: Lane, id: string | undefined, tool: number | undefined): number | undefined {
    for (let at: Lane | undefined = lane; at !== undefined; at = this.lanes[at.forkOf]) {
      const calls = at.calls.get(id) ?? [];
      // One that is answered already is answered anew.
      const call = this.#openOf(lane, calls, id, tool) ?? (id === undefined ? undefined : calls.findLast((row) => this.#isAlive(lane, row)));
      if (call !== undefined) return call;
    }
    return undefined;
  }

  /**
   * As the store takes it: of the newest message with open calls the first, rather one of the tool that is named. Of an id it is the
   * newest message that uses it, whose calls it means.
   */
  #openOf(lane: Lane, calls: readonly number[], id: string | undefined, tool: number | undefined): number | undefined {
    const { rows } = this;
    const last = Math.max(0, calls.length - LOOKED_AT_MAX);
    let [first, ofTool]: [number | undefined, number | undefined] = [undefined, undefined];
    let [message, messages] = [Infinity, 0];
    for (let at = calls.length - 1; at >= last; at--) {
      const call = calls[at] as number;
      if (!this.#isAlive(lane, call)) continue;
      if (rows.sequence.at(call) < message) {
        if (first !== undefined || messages === (id === undefined ? MESSAGES_MAX : 1)) break;
        messages += 1;
        message = at === last ? 0 : this.#messageOf(lane, call);
      }
      if (this.of(call, lane) !== undefined) continue;
      first = call;
      if (rows.tool.at(call) === tool) ofTool = call;
    }
    return ofTool ?? first;
  }

  /** The sequence of the message that a call is of, or of what stands before it: the calls of one stand behind it. */
  #messageOf(lane: Lane, call: number): number {
    const sequence = this.rows.sequence.at(call);
    let before = sequence - 1;
    for (; before > 0 && sequence - before < LOOKED_AT_MAX; before--) {
      const entry = lane.alive.at(before - 1);
      if (entry === undefined || this.rows.kind.at(lane.entries.at(entry)) !== Kind.ToolCall) break;
    }
    return before;
  }

  /** How many calls a result says that failed. */
  failuresIn(row: number): number {
    return this.#failures.get(row) ?? 0;
  }

  /** Whether a lane has an event now. */
  #isAlive(lane: Lane, row: number): boolean {
    const entry = lane.alive.at(this.rows.sequence.at(row) - 1);
    return entry !== undefined && lane.entries.at(entry) === row;
  }

  /** Whether a lane has a result at a moment. What was taken back together with its call is still the result of that. */
  #hasResult(lane: Lane, call: number, result: number, when: When | undefined): boolean {
    const entry = entryOf(lane, result);
    if (entry < 0) return false;
    const death = lane.deaths.at(entry);
    if (when === undefined) return death === NONE || death === this.#deathOf(lane, call);
    const rankOf = (row: number) => when.rank[row] as number;
    if (rankOf(result) >= when.moment) return false;
    return death === NONE || rankOf(death) >= when.moment || death === this.#deathOf(lane, call);
  }

  #deathOf(lane: Lane, row: number): number | undefined {
    const entry = entryOf(lane, row);
    return entry < 0 ? undefined : lane.deaths.at(entry);
  }
}

/** The id of a call, where it has one. */
export function idOf(events: EventHeads, call: number): string | undefined {
  if (((events.callFlags[call] as number) & CallFlag.HasId) === 0) return undefined;
  return events.callIds.slice(call === 0 ? 0 : events.callIdEnds[call - 1], events.callIdEnds[call]);
}
