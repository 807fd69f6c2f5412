import type { Absence, Filter } from "../protocol.js";
import type { Family } from "./family.js";
import type { LogIndex } from "./index.js";
import { Kind, typeOf } from "./kinds.js";
import { firstWhere, i32 } from "./lists.js";
import { Flag, type Lane, NONE, entryOf } from "./model.js";
import { messageOf, outcomeOf } from "./rows.js";

/** Which events a filter lets pass. */
export type Passes = (row: number) => boolean;

/** Of a lane's conversation, calls have the results that the lane has. */
export function passesOf(index: LogIndex, family: Family, filter: Filter, hits: (row: number) => boolean, lane?: Lane): Passes | undefined {
  const { types, status, tools, agents, onlyHits, range } = filter;
  if (types.length + status.length + tools.length + agents.length === 0 && !onlyHits && range === undefined) return undefined;
  const { rows } = index;
  const typeSet = new Set(types);
  const byKind = Uint8Array.from({ length: 256 }, (_, kind) => (types.length === 0 || typeSet.has(typeOf(kind)) ? 1 : 0));
  const toolSet = new Set(tools.map((tool) => index.tools.indexOf(tool)));
  const laneSet = new Set(agents.map((id) => index.laneOf(id)?.index ?? -2));
  const ranks = range?.map((position) => family.rank[index.rowAt(position)] ?? -1) as [number, number] | undefined;
  return (row) => {
    if (byKind[rows.kind.at(row)] !== 1) return false;
    if (toolSet.size > 0 && !toolSet.has(rows.tool.at(row))) return false;
    if (laneSet.size > 0 && !laneSet.has(rows.lane.at(row))) return false;
    if (status.length > 0) {
      const outcome = outcomeOf(index, family, row, family.length, lane);
      if (outcome === undefined || !status.includes(outcome)) return false;
    }
    if (ranks !== undefined) {
      const rank = family.rank[row] as number;
      if (rank < ranks[0] || rank > ranks[1]) return false;
    }
    if (!onlyHits || hits(row)) return true;
    const answer = rows.kind.at(row) === Kind.ToolCall ? index.answerOf(row, lane) : undefined;
    return answer !== undefined && hits(answer.row);
  };
}

/** The lines of a conversation: entries of a lane (from 0), or folded groups of what was forgotten (`~` the first entry). */
export interface Lines {
  items: Int32Array;
  /** How many of them there are by a moment. */
  until(moment: number): number;
}

/** When an entry was said: of what a fork inherits, before there was the fork. */
export function birthOf(family: Family, lane: Lane, entry: number): number {
  return family.rank[lane.entries.at(entry)] as number;
}

/** Whether an entry is forgotten at a moment. */
export function isForgotten(family: Family, lane: Lane, entry: number, moment: number): boolean {
  const death = lane.deaths.at(entry);
  return death !== NONE && (family.rank[death] as number) < moment;
}

/** How many truncations or deletions a lane has had by a moment: what decides which lines there are. */
export function truncationsBy(family: Family, lane: Lane, moment: number): number {
  return lane.truncations.filter((row) => (family.rank[row] as number) < moment).length;
}

/** The lines of a lane's conversation as it was at a moment. */
export function linesOf(index: LogIndex, family: Family, lane: Lane, moment: number, passes: Passes | undefined, open: ReadonlySet<number>): Lines {
  const { rows } = index;
  const items = i32();
  const shows = (row: number) => {
    if (isWithCall(index, row)) return false;
    if ((rows.flags.at(row) & Flag.Silent) !== 0) return false;
    return passes === undefined || passes(row);
  };
  for (let entry = 0; entry < lane.entries.length; ) {
    if (isForgotten(family, lane, entry, moment)) {
      const first = entry;
      const death = lane.deaths.at(entry);
      while (entry < lane.entries.length && lane.deaths.at(entry) === death) entry += 1;
      if (passes === undefined) items.push(~first);
      if (passes !== undefined || open.has(first)) for (let at = first; at < entry; at++) if (shows(lane.entries.at(at))) items.push(at);
      continue;
    }
    if (shows(lane.entries.at(entry))) items.push(entry);
    entry += 1;
  }
  const all = items.view();
  const entryAt = (at: number) => {
    const item = all[at] as number;
    return item < 0 ? ~item : item;
  };
  return { items: all, until: (at) => firstWhere(all.length, (item) => birthOf(family, lane, entryAt(item)) >= at) };
}

/** The first entry of the group that an entry was forgotten with. */
export function groupOf(lane: Lane, entry: number): number {
  let first = entry;
  while (first > 0 && lane.deaths.at(first - 1) === lane.deaths.at(entry)) first -= 1;
  return first;
}

/** Whether an event has no line of its own: a result is shown with its call, unless its message says more. */
export function isWithCall({ rows }: LogIndex, row: number): boolean {
  return rows.kind.at(row) === Kind.ToolResult && rows.link.at(row) >= 0 && (rows.flags.at(row) & Flag.SaysMore) === 0;
}

/** What stands in a conversation for an event: a call for its result, and the first call for a message that has nothing but calls. */
export function lineOf(index: LogIndex, row: number): number {
  if (isWithCall(index, row)) return index.rows.link.at(row);
  return row + 1 < index.rows.length && messageOf(index, row + 1) === row ? row + 1 : row;
}

/** Why an event isn't in a lane's conversation as it is shown at a moment; undefined where it is. */
export function absenceOf(index: LogIndex, family: Family, lane: Lane, row: number, moment: number, passes: Passes | undefined, open: ReadonlySet<number>): Absence | undefined {
  const { rows } = index;
  const line = lineOf(index, row);
  const kind = rows.kind.at(line);
  if ((kind > Kind.ToolResult && kind !== Kind.ChatMessage) || (rows.flags.at(line) & Flag.Silent) !== 0) return "kind";
  // A result that another agent has of the same call is that one's.
  const isOther = line !== row && rows.lane.at(row) !== lane.index && entryOf(lane, row) < 0;
  const entry = isOther ? -1 : entryOf(lane, line);
  if (entry < 0) return "agent";
  if (passes !== undefined && !passes(line)) return "filter";
  if (birthOf(family, lane, entry) >= moment) return "later";
  return passes === undefined && isForgotten(family, lane, entry, moment) && !open.has(groupOf(lane, entry)) ? "forgotten" : undefined;
}

/** How many entries a folded group has. */
export function groupLength(lane: Lane, first: number): number {
  const death = lane.deaths.at(first);
  let end = first;
  while (end < lane.entries.length && lane.deaths.at(end) === death) end += 1;
  return end - first;
}

/** The events of a family that pass, by rank. */
export function eventsOf(family: Family, passes: Passes | undefined): Uint32Array | undefined {
  if (passes === undefined) return undefined;
  const found = new Uint32Array(family.length);
  let count = 0;
  for (let rank = 0; rank < family.length; rank++) if (passes(family.order[rank] as number)) found[count++] = rank;
  return found.subarray(0, count);
}
