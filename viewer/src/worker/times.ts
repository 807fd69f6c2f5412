// When events of chats and flows happened, in what was imported: their records have the time of the import there.

import { isObject, jsonOf } from "./content.js";
import { Kind, isOfFlow } from "./kinds.js";
import type { Columns, Lane } from "./model.js";
import type { SourceRecord } from "./source.js";

const utf8 = new TextDecoder();

/** The field with the time of each kind of record of a chat. A message that is changed has another record for that. */
const FIELDS: Record<number, string> = {
  [Kind.ChatMessage]: "created_at",
  [Kind.ChatMessageChanged]: "at",
  [Kind.ChatMessagesDeleted]: "at",
  [Kind.ChatStep]: "updated_at",
  [Kind.ChatStepChanged]: "at",
  [Kind.ChatRequest]: "updated_at",
  [Kind.ChatStepDifference]: "updated_at",
};

/** When a record of a chat or a flow was written, as it says itself; undefined where it doesn't, as one that was redacted. */
function saidIn(record: SourceRecord): number | undefined {
  const field = isOfFlow(record.kind) ? "timestamp" : FIELDS[record.kind];
  if (field === undefined || record.redacted) return undefined;
  const json = jsonOf(utf8.decode(record.payload));
  const said = record.kind === Kind.ChatStepDifference && isObject(json["step"]) ? json["step"] : json;
  const value = said[field];
  // Builds before wrote the times of chats as text.
  const time = typeof value === "string" ? Date.parse(value) : value;
  return typeof time === "number" && time > 0 ? time : undefined;
}

/** When what is a row of a lane happened. What doesn't say so is as near what came before it as their records are, or else it
 * happened at the time that is said first behind it. */
export function timeInImport(rows: Columns, lane: Lane, record: SourceRecord, row: number): number {
  const said = saidIn(record);
  if (said !== undefined) {
    dated(rows, lane, record.timeMs, said);
    return said;
  }
  if (lane.skew === 0 || record.kind === Kind.ChatCopied) lane.undated.push(row);
  return record.timeMs - lane.skew;
}

/** What was recorded in a lane at one time happened at another: so did what is in it without a time of its own, but in a fork, which
 * has that from when it was made. */
export function dated(rows: Columns, lane: Lane, recorded: number, time: number): void {
  lane.skew = recorded - time;
  if (lane.undated.length === 0 || lane.forkOf >= 0) return;
  for (const row of lane.undated) rows.time.set(row, time);
  lane.undated = [];
  if (lane.chat === undefined && lane.flowStatus === undefined) return;
  lane.firstTime = lane.lastTime = time;
}
