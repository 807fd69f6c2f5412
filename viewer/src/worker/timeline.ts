import type { TimelineData, TimelineRequest } from "../protocol.js";
import { type Family, NEAR_RANKS } from "./family.js";
import type { LogIndex } from "./index.js";
import { Kind } from "./kinds.js";
import { firstWhere, f64 } from "./lists.js";
import { Flag, type Lane } from "./model.js";
import { isAtRest } from "./rows.js";

/** So many calls are drawn as bars of their own at most. */
const BARS_MAX = 4000;
const MARKS_MAX = 4000;

const MARKS: Partial<Record<number, number>> = { [Kind.StepStarted]: 0, [Kind.Fork]: 1, [Kind.Truncate]: 2, [Kind.Snapshot]: 3, [Kind.SpaceSaved]: 3 };

/** What a timeline of so many pixels shows of a family. */
export function timelineOf(index: LogIndex, family: Family, request: TimelineRequest, isHit: (row: number) => boolean): TimelineData {
  const { width, from, to, firstLane } = request;
  const lanes = Math.max(0, Math.min(request.lanes, family.lanes.length - firstLane));
  const density = new Uint8Array(width * lanes);
  const failed = new Uint8Array(width * lanes);
  const hits = new Uint8Array(width);
  const bars = f64();
  const marks = f64();
  const { rows } = index;
  const scale = width / Math.max(1e-9, to - from);
  const lineOf = new Int32Array(index.lanes.length).fill(-1);
  for (let line = 0; line < lanes; line++) lineOf[(family.lanes[firstLane + line] as { index: number }).index] = line;
  const { folded, order } = family;
  // A call that began before may reach into it.
  const first = firstWhere(family.length, (rank) => (folded[rank] as number) >= from);
  const last = firstWhere(family.length, (rank) => (folded[rank] as number) > to);
  const atRest = Array.from({ length: lanes }, (_, line) => isAtRest(index, family, family.lanes[firstLane + line] as Lane, family.length));
  const addBar = (line: number, row: number, startRank: number, result: number, hasFailed: boolean) => {
    const start = folded[startRank] as number;
    const end = result < 0 ? start : (folded[family.rank[result] as number] ?? start);
    if (bars.length >= BARS_MAX * 5 || end < from || start > to) return;
    // Of many those that can be seen as bars; how dense the others are says enough.
    if (last - first > BARS_MAX && (end - start) * scale < 2) return;
    for (const value of [line, (start - from) * scale, (end - from) * scale, result < 0 ? (atRest[line] === true ? 3 : 2) : hasFailed ? 1 : 0, row]) bars.push(value);
  };
  const addCall = (rank: number, row: number, line: number) => addBar(line, row, rank, rows.link.at(row), (rows.flags.at(row) & Flag.Error) !== 0);
  const addBefore = (rank: number) => {
    const row = order[rank] as number;
    const line = lineOf[rows.lane.at(row)] as number;
    if (line >= 0 && rows.kind.at(row) === Kind.ToolCall) addCall(rank, row, line);
  };
  const near = Math.max(0, first - NEAR_RANKS);
  for (const rank of family.longCalls) {
    if (rank >= near) break;
    addBefore(rank);
  }
  for (let rank = near; rank < first; rank++) addBefore(rank);
  for (let rank = first; rank < last; rank++) {
    const row = order[rank] as number;
    const pixel = Math.min(width - 1, Math.floor(((folded[rank] as number) - from) * scale));
    if (isHit(row)) hits[pixel] = 1;
    const line = lineOf[rows.lane.at(row)] as number;
    if (line < 0) continue;
    const cell = line * width + pixel;
    if ((density[cell] as number) < 255) density[cell] = (density[cell] as number) + 1;
    if ((rows.flags.at(row) & Flag.Error) !== 0 && (failed[cell] as number) < 255) failed[cell] = (failed[cell] as number) + 1;
    const kind = rows.kind.at(row);
    if (kind === Kind.ToolCall) addCall(rank, row, line);
    const mark = MARKS[kind];
    if (mark !== undefined && marks.length < MARKS_MAX * 3) {
      marks.push(line);
      marks.push(pixel);
      marks.push(mark);
    }
  }
  // A call that a fork inherits without a result, and has one of by itself, waits in its lane since there is the fork.
  for (let line = 0; line < lanes; line++) {
    const lane = family.lanes[firstLane + line] as Lane;
    for (const [call, result] of lane.answers) {
      if (rows.lane.at(result) === lane.index) addBar(line, call, family.rank[lane.forkRow] as number, result, (rows.flags.at(result) & Flag.Error) !== 0);
    }
  }
  return { ...request, lanes, density, failed, hits, bars: bars.view().slice(), marks: marks.view().slice(), ...ticksOf(family, request), spans: spansOf(family, firstLane, lanes, from, scale) };
}

/** Times on the ruler are at least so far apart: their labels need the room. */
const TICK_PIXELS = 90;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...[1, 2, 5, 10, 15, 30].flatMap((of) => [of * SECOND, of * MINUTE]), ...[1, 2, 3, 6, 12].map((of) => of * HOUR), DAY, 2 * DAY, 7 * DAY, 30 * DAY].sort((a, b) => a - b);

/** Round times since the beginning, each with its pixel. Within a gap that is folded, whose length is given, there are none. */
function ticksOf(family: Family, { width, from, to }: TimelineRequest): Pick<TimelineData, "ticks" | "tickStep"> {
  const ticks = f64();
  const scale = width / (to - from);
  const step = STEPS.find((ms) => ms * scale >= TICK_PIXELS) ?? 365 * DAY;
  if (family.length === 0 || family.hasNoTimes || !Number.isFinite(scale)) return { ticks: ticks.view().slice(), tickStep: step };
  const { folds } = family;
  let lastPixel = 0;
  // Between two gaps time passes as it did.
  for (let next = firstWhere(folds.length, (fold) => (folds[fold]?.at ?? 0) > from); next <= folds.length; next++) {
    const before = folds[next - 1];
    const skipped = before?.skipped ?? 0;
    const start = Math.max(from, before?.end ?? 0);
    const end = Math.min(to, folds[next]?.at ?? family.duration);
    if (start >= to) break;
    for (let time = Math.ceil((start + skipped) / step) * step; time - skipped <= end; time += step) {
      const pixel = (time - skipped - from) * scale;
      if (pixel < lastPixel + TICK_PIXELS / 2 || pixel > width - 20) continue;
      lastPixel = pixel;
      ticks.push(pixel);
      ticks.push(time);
    }
  }
  return { ticks: ticks.view().slice(), tickStep: step };
}

/** From when until when each lane was there. */
function spansOf(family: Family, firstLane: number, lanes: number, from: number, scale: number): Float64Array {
  const spans = new Float64Array(lanes * 2);
  const momentOf = (time: number) => firstWhere(family.length, (rank) => family.index.rows.time.at(family.order[rank] as number) >= time);
  for (let line = 0; line < lanes; line++) {
    const lane = family.lanes[firstLane + line];
    if (lane === undefined || Number.isNaN(lane.firstTime)) continue;
    const ends = [lane.firstTime, lane.lastTime].map((time) => ((family.folded[Math.min(momentOf(time), family.length - 1)] ?? 0) - from) * scale);
    spans.set(ends, line * 2);
  }
  return spans;
}
