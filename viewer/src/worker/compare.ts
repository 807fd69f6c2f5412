import { diffArrays, diffWordsWithSpace } from "diff";

import type { ComparedRow, Comparison, Row, TextPiece, Totals } from "../protocol.js";
import { saidAt } from "./chats.js";
import { argumentsOf, beginning, readable, saidBy, shown } from "./content.js";
import { isWithCall } from "./conversation.js";
import { crc32 } from "./crc.js";
import { durationOf, familyOf } from "./family.js";
import type { LogIndex } from "./index.js";
import { Kind } from "./kinds.js";
import { Flag, type Lane, NONE, eventsIn } from "./model.js";
import type { Payloads } from "./payloads.js";
import { bareRow, withPayload } from "./rows.js";
import { titleOf } from "./titles.js";
import { statusOf } from "./tree.js";
import { usageOf } from "./usage.js";

/** So many events of each side are aligned; the others are put side by side as they come. */
const ALIGNED_MAX = 3000;
const WORDS_MAX = 20_000;
const utf8 = new TextEncoder();

interface Side {
  lane: Lane;
  rows: number[];
}

/** Two conversations beside each other: how much they share, and from there on what differs. */
export async function compare(index: LogIndex, payloads: Payloads, left: Lane, right: Lane, count: number, withShared: boolean): Promise<Comparison> {
  const sides: [Side, Side] = [sideOf(index, left), sideOf(index, right)];
  const shared = await sharedBy(index, payloads, sides);
  const different = await pairsOf(index, payloads, sides, shared);
  const pairs = withShared ? [...sides[0].rows.slice(0, shared).map((row, at): Pair => [row, sides[1].rows[at]]), ...different] : different;
  const rows: ComparedRow[] = [];
  for (const [a, b] of pairs.slice(0, count)) rows.push(await comparedRow(index, payloads, sides, a, b));
  return { left: totalsOf(index, left), right: totalsOf(index, right), shared, rows, total: pairs.length };
}

/** What a lane has now, without what is shown with something else. */
function sideOf(index: LogIndex, lane: Lane): Side {
  const { rows } = index;
  const kept = Array.from(lane.alive).filter((entry) => lane.deaths.at(entry) === NONE).map((entry) => lane.entries.at(entry)).filter((row) => (rows.flags.at(row) & Flag.Silent) === 0 && !isWithCall(index, row));
  return { lane, rows: kept };
}

async function sharedBy(index: LogIndex, payloads: Payloads, [left, right]: [Side, Side]): Promise<number> {
  let shared = 0;
  const end = Math.min(left.rows.length, right.rows.length);
  while (shared < end && (await isSame(index, payloads, [left, right], left.rows[shared] as number, right.rows[shared] as number))) shared += 1;
  return shared;
}

async function isSame(index: LogIndex, payloads: Payloads, sides: [Side, Side], a: number, b: number): Promise<boolean> {
  if (!(await hasSameResult(index, payloads, sides, a, b))) return false;
  const { kind, bytes } = index.rows;
  if (kind.at(a) !== kind.at(b)) return false;
  // A message of a chat may have been changed in one of them.
  const isOfChat = kind.at(a) === Kind.ChatMessage;
  if (a === b && !isOfChat) return true;
  if (bytes.at(a) !== bytes.at(b) && !isOfChat) return false;
  return saysSame(index, payloads, sides, a, b);
}

/** Whether two calls have results that say the same; what is no call has none. A call that a fork shares may have another result there. */
async function hasSameResult(index: LogIndex, payloads: Payloads, [left, right]: [Side, Side], a: number, b: number): Promise<boolean> {
  const isCall = (row: number) => index.rows.kind.at(row) === Kind.ToolCall;
  if (!isCall(a) || !isCall(b)) return true;
  const [one, other] = [index.answerOf(a, left.lane)?.row, index.answerOf(b, right.lane)?.row];
  if (one === other) return true;
  return one !== undefined && other !== undefined && (await saysSame(index, payloads, [left, right], one, other));
}

async function saysSame(index: LogIndex, payloads: Payloads, [left, right]: [Side, Side], a: number, b: number): Promise<boolean> {
  return (await signature(index, payloads, a, left.lane)) === (await signature(index, payloads, b, right.lane));
}

async function signature(index: LogIndex, payloads: Payloads, row: number, lane: Lane): Promise<string> {
  const json = await saidAt(index, payloads, row, lane);
  const kind = index.rows.kind.at(row);
  const tool = `${kind} ${index.rows.tool.at(row)}`;
  if (kind === Kind.ToolCall) return `${tool} ${shown(argumentsOf(json))}`;
  const { text, thinking, images } = saidBy(json);
  return [tool, text, thinking, ...images.map(({ data }) => `${data.length} ${crc32(utf8.encode(data))}`)].join("\n");
}

type Pair = [a: number | undefined, b: number | undefined];

async function pairsOf(index: LogIndex, payloads: Payloads, [left, right]: [Side, Side], shared: number): Promise<Pair[]> {
  const signed = async (side: Side) => Promise.all(side.rows.slice(shared, shared + ALIGNED_MAX).map((row) => signature(index, payloads, row, side.lane)));
  const [a, b] = [await signed(left), await signed(right)];
  const pairs: Pair[] = [];
  let [i, j] = [shared, shared];
  let removed: number[] = [];
  const flush = () => {
    for (const row of removed) pairs.push([row, undefined]);
    removed = [];
  };
  for (const part of diffArrays(a, b)) {
    if (part.removed) {
      flush();
      for (const _ of part.value) removed.push(left.rows[i++] as number);
    } else if (part.added) {
      const added = part.value.map(() => right.rows[j++] as number);
      pairs.push(...together(index, removed, added));
      removed = [];
    } else {
      flush();
      for (const _ of part.value) pairs.push([left.rows[i++], right.rows[j++]]);
    }
  }
  flush();
  for (; i < left.rows.length || j < right.rows.length; i++, j++) pairs.push([left.rows[i], right.rows[j]]);
  return pairs;
}

/** What one side has in the place of the other's: those of one kind, and one tool, beside each other. */
function together(index: LogIndex, left: number[], right: number[]): Pair[] {
  const pairs: Pair[] = [];
  let at = 0;
  for (const row of left) {
    const like = right.findIndex((other, place) => place >= at && index.rows.kind.at(other) === index.rows.kind.at(row) && index.rows.tool.at(other) === index.rows.tool.at(row));
    if (like < 0) {
      pairs.push([row, undefined]);
      continue;
    }
    for (; at < like; at++) pairs.push([undefined, right[at]]);
    pairs.push([row, right[at++]]);
  }
  for (; at < right.length; at++) pairs.push([undefined, right[at]]);
  return pairs;
}

async function comparedRow(index: LogIndex, payloads: Payloads, [left, right]: [Side, Side], a: number | undefined, b: number | undefined): Promise<ComparedRow> {
  const make = async (row: number | undefined, lane: Lane): Promise<Row | undefined> => {
    if (row === undefined) return undefined;
    const family = familyOnce(index, lane);
    return withPayload(bareRow(index, family, row, family.length, lane), index, lane, payloads, true);
  };
  const [one, other] = [await make(a, left.lane), await make(b, right.lane)];
  if (a === undefined || b === undefined) return { kind: a === undefined ? "right" : "left", left: one, right: other, pieces: [] };
  const sides: [Side, Side] = [left, right];
  if ((await saysSame(index, payloads, sides, a, b)) && (await hasSameResult(index, payloads, sides, a, b))) return { kind: "same", left: one, right: other, pieces: [] };
  return { kind: "changed", left: one, right: other, pieces: await piecesOf(index, payloads, sides, a, b) };
}

async function piecesOf(index: LogIndex, payloads: Payloads, [left, right]: [Side, Side], a: number, b: number): Promise<TextPiece[]> {
  const textOf = async (row: number, lane: Lane) => {
    const json = await saidAt(index, payloads, row, lane);
    return index.rows.kind.at(row) === Kind.ToolCall ? readable(argumentsOf(json)) : beginning(saidBy(json).text, 40).text;
  };
  const [before, after] = [await textOf(a, left.lane), await textOf(b, right.lane)];
  if (before.length + after.length > WORDS_MAX) return [];
  return diffWordsWithSpace(before, after).map((part) => ({ text: part.value, kind: part.added ? "added" : part.removed ? "removed" : "same" }));
}

let last: { index: LogIndex; lane: Lane; family: ReturnType<typeof familyOf> } | undefined;

function familyOnce(index: LogIndex, lane: Lane): ReturnType<typeof familyOf> {
  if (last?.index === index && (last.lane === lane || last.family.lanes.includes(lane))) return last.family;
  last = { index, lane, family: familyOf(index, lane) };
  return last.family;
}

function totalsOf(index: LogIndex, lane: Lane): Totals {
  const { rows } = index;
  const usage = usageOf(lane);
  const failedRuns = lane.runs.filter((run) => index.runs[run]?.status === "failed").length;
  const now = Array.from(lane.alive, (entry) => lane.entries.at(entry));
  const calls = now.filter((row) => rows.kind.at(row) === Kind.ToolCall);
  return {
    id: lane.id,
    name: lane.name,
    session: titleOf(index, lane),
    status: statusOf(index, lane),
    events: eventsIn(lane),
    steps: now.reduce((most, row) => Math.max(most, rows.step.at(row)), 0),
    toolCalls: calls.length,
    // A call that a fork shares counts too.
    errors: lane.chat === undefined ? failedRuns + calls.filter((row) => index.answerOf(row, lane)?.isError === true).length : lane.errors,
    tokens: usage.tokens,
    cost: usage.cost,
    isFork: lane.forkOf >= 0,
    // As in the tree: of a fork since it was made.
    durationMs: durationOf(lane),
  };
}
