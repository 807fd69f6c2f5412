// Moments: between two events of a family, as a number of those before it. What is at one, and which comes next.

import type { Moment } from "../protocol.js";
import type { Family } from "./family.js";
import type { LogIndex } from "./index.js";
import { Kind, kindName } from "./kinds.js";
import { Flag, type Lane } from "./model.js";

/** Where to go: the next event of the lane, the next step of it, or the next error of anyone. */
export type Target = "event" | "step" | "error";

/** What begins or saves a step of a chat. */
const STEPS_OF_CHATS: readonly number[] = [Kind.ChatStep, Kind.ChatStepDifference];

/** The event right before a moment; none before the first. */
export function momentOf(index: LogIndex, family: Family, at: number): Moment | undefined {
  const { rows } = index;
  const rank = Math.min(at, family.length) - 1;
  if (rank < 0) return undefined;
  const row = family.order[rank] as number;
  const lane = index.lanes[rows.lane.at(row)];
  return {
    rank,
    position: rows.position.at(row),
    time: rows.time.at(row),
    folded: family.folded[rank] ?? 0,
    laneId: lane?.id ?? "",
    agent: lane?.name ?? "",
    step: rows.step.at(row),
    label: kindName(rows.kind.at(row)),
  };
}

/**
 * The moment after or before one that is right behind what is looked for. Where there is none it is the last or the first, and of
 * errors none at all: whoever looks for one would take the last event for it.
 */
export function nextMoment(index: LogIndex, family: Family, lane: Lane, at: number, what: Target, forward: boolean): number | undefined {
  const { rows } = index;
  const isOfLane = (row: number) => rows.lane.at(row) === lane.index || (lane.forkOf >= 0 && rows.lane.at(row) === lane.forkOf && (family.rank[row] as number) < (family.rank[lane.forkRow] ?? 0));
  const isIt = (row: number) => {
    if (what === "error") return (rows.flags.at(row) & Flag.Error) !== 0 && rows.kind.at(row) !== Kind.ToolCall;
    if (!isOfLane(row)) return false;
    if (lane.flowStatus !== undefined) return what === "event";
    if (lane.chat !== undefined) return what === "event" || STEPS_OF_CHATS.includes(rows.kind.at(row));
    return what === "event" ? rows.kind.at(row) <= Kind.ToolResult : rows.kind.at(row) === Kind.StepStarted;
  };
  for (let rank = forward ? at : at - 2; rank >= 0 && rank < family.length; rank += forward ? 1 : -1) {
    if (isIt(family.order[rank] as number)) return rank + 1;
  }
  if (what === "error") return undefined;
  return forward ? family.length : 0;
}
