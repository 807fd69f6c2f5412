// Makes of events the rows that lists show.

import type { EventStatus, Outcome, Row } from "../protocol.js";
import type { Answer } from "./answers.js";
import { changesBy, messageAt } from "./chats.js";
import { type Said, argumentsOf, beginning, besideResults, callsIn, eventText, isObject, oneLine, saidBy, shown, tellingArgument } from "./content.js";
import type { Family } from "./family.js";
import type { LogIndex } from "./index.js";
import { Kind, type TypeName, kindName, typeOf } from "./kinds.js";
import { Flag, type Lane } from "./model.js";
import type { Payloads } from "./payloads.js";
import { spawnedText, startedText } from "./tasks.js";
import { titleOf } from "./titles.js";

/** How a call ended, or what a result says, as far as that is known at a moment; undefined for what is neither. */
export function outcomeOf(index: LogIndex, family: Family, row: number, moment: number, lane: Lane | undefined): Outcome | undefined {
  const { rows } = index;
  const kind = rows.kind.at(row);
  if (kind === Kind.ToolCall) return outcomeBy(index.answerOf(row, lane, { rank: family.rank, moment }));
  const isError = (rows.flags.at(row) & Flag.Error) !== 0;
  return isError ? "error" : kind === Kind.ToolResult ? "ok" : undefined;
}

function outcomeBy(answer: Answer | undefined): Outcome {
  return answer === undefined ? "pending" : answer.isError ? "error" : "ok";
}

/** Whether nobody is at work in a lane at a moment: its latest run has ended, though it may be resumed, or there never is one. */
export function isAtRest(index: LogIndex, family: Family, lane: Lane, moment: number): boolean {
  const isBy = (row: number) => row >= 0 && (family.rank[row] as number) < moment;
  const at = lane.runs.findLast((one) => isBy(index.runs[one]?.row ?? -1));
  const run = at === undefined ? undefined : index.runs[at];
  if (run === undefined) return moment >= family.length && (index.isImported || lane.forkOf >= 0) && lane.runs.length === 0;
  return run.status !== "running" && isBy(run.endRow);
}

/** How an event is shown in a lane, by default its own, at a moment. */
export function statusAt(index: LogIndex, family: Family, row: number, moment: number, lane: Lane | undefined): EventStatus | undefined {
  const outcome = outcomeOf(index, family, row, moment, lane);
  const owner = lane ?? index.lanes[index.rows.lane.at(row)];
  return outcome === "pending" && owner !== undefined && isAtRest(index, family, owner, moment) ? "unanswered" : outcome;
}

/** Which step begins, and where: a step is written together with its first message, and stands behind that and what belongs to it. */
function beginningOf({ rows }: LogIndex, row: number): string {
  const [lane, step] = [rows.lane.at(row), rows.step.at(row)];
  let first = row;
  while (first > 0 && rows.lane.at(first - 1) === lane && rows.step.at(first - 1) === step) first -= 1;
  return first === row ? `step ${step}` : `step ${step}, from position ${rows.position.at(first)} on`;
}

/** What an event says that has nothing to be read: which step begins, what a fork is of, and what a truncation takes away. */
function withoutPayload(index: LogIndex, row: number): string {
  switch (index.rows.kind.at(row)) {
    case Kind.StepStarted:
      return beginningOf(index, row);
    case Kind.Fork: {
      const lane = index.lanes[index.rows.lane.at(row)];
      const source = index.lanes[lane?.forkOf ?? -1];
      return lane === undefined || source === undefined ? "" : oneLine(`of ${source.name} in “${titleOf(index, source)}”, up to #${lane.forkAt}`);
    }
    case Kind.Truncate:
      return `what came after #${index.rows.sequence.at(row)}`;
    default:
      return "";
  }
}

/** The part with the text of a message as it was after its changes. */
const partOf = (changes: number[]) => (changes.length === 0 ? "text" : `text@${changes.at(-1)}`);

/** The message before a call that has nothing but calls, of which this is the first; -1 for any other call. */
export function messageOf({ rows }: LogIndex, call: number): number {
  const before = call - 1;
  if (before < 0 || rows.kind.at(call) !== Kind.ToolCall || rows.lane.at(before) !== rows.lane.at(call)) return -1;
  return (rows.flags.at(before) & Flag.Silent) === 0 ? -1 : before;
}

/** A row without what its payload says. */
export function bareRow(index: LogIndex, family: Family, row: number, moment: number, lane: Lane | undefined): Row {
  const { rows } = index;
  const kind = rows.kind.at(row);
  const flags = rows.flags.at(row);
  const owner = lane ?? index.lanes[rows.lane.at(row)];
  const isCall = kind === Kind.ToolCall;
  const answer = isCall ? index.answerOf(row, lane, { rank: family.rank, moment }) : undefined;
  const duration = isCall ? (answer?.durationMs ?? Number.NaN) : rows.duration.at(row);
  const tool = rows.tool.at(row);
  const status = statusAt(index, family, row, moment, lane);
  return {
    row,
    kind: "event",
    position: rows.position.at(row),
    sequence: rows.sequence.at(row),
    rank: family.rank[row] ?? -1,
    type: typeOf(kind),
    label: kindName(kind),
    laneId: owner?.id ?? "",
    agent: owner?.name ?? "",
    time: rows.time.at(row),
    step: rows.step.at(row),
    part: partOf(changesBy(family, lane, row, moment)),
    text: (flags & Flag.Redacted) === 0 ? withoutPayload(index, row) : "",
    lines: 1,
    chars: 0,
    bytes: rows.bytes.at(row),
    tool: index.tools[tool] ?? "",
    status,
    durationMs: Number.isNaN(duration) || (isCall && answer === undefined) ? undefined : duration,
    inherited: undefined,
    forgotten: false,
    continuation: (flags & Flag.Continuation) !== 0,
    redacted: (flags & Flag.Redacted) !== 0,
    gone: false,
    result: answer?.row ?? -1,
    message: messageOf(index, row),
    beside: (flags & Flag.SaysMore) !== 0 && rows.link.at(row) >= 0,
    thinking: "",
    images: 0,
    hit: false,
    members: 0,
    open: false,
  };
}

/** Adds what the payload says. One that can't be shown says why in its row: the others are there all the same. */
export async function withPayload(row: Row, index: LogIndex, lane: Lane | undefined, payloads: Payloads, asMessage: boolean): Promise<Row> {
  const kind = index.rows.kind.at(row.row);
  try {
    const isChat = asMessage && kind === Kind.ChatMessage;
    const full = isChat ? await chatRow(row, index, lane, payloads) : await filled(row, kind, payloads, asMessage);
    if (!row.redacted && !row.gone && kind === Kind.RunCreated) full.text = await startedText(index, payloads, row.row, full.text);
    if (!row.redacted && !row.gone && kind === Kind.Spawned) full.text = await spawnedText(index, payloads, (await payloads.at(row.position))?.json);
    const words = index.words.get(row.row);
    if (words !== undefined) full.text = oneLine([full.text, words].filter(Boolean).join(" · "));
    return full;
  } catch (error) {
    row.text = `can't be shown: ${error instanceof Error ? error.message : String(error)}`;
    if (asMessage) row.kind = kind === Kind.ToolCall ? "call" : "message";
    return row;
  }
}

/** Adds what the payload says: a message with its lines, a call with the argument that matters. */
async function filled(row: Row, kind: number, payloads: Payloads, asMessage: boolean): Promise<Row> {
  const loaded = await payloads.at(row.position);
  if (loaded === undefined) {
    row.gone = true;
    if (asMessage && kind === Kind.ToolCall) row.kind = "call";
    return row;
  }
  if (row.redacted) return row;
  const { json } = loaded;
  if (kind === Kind.ToolCall) {
    row.kind = asMessage ? "call" : "event";
    row.text = tellingArgument(argumentsOf(json));
    if (isObject(json) && typeof json["name"] === "string") row.tool = json["name"].slice(0, 200);
    return row;
  }
  if (kind > Kind.ToolResult) {
    if (row.text === "" && (kind < 128 || kind === Kind.Snapshot)) row.text = eventText(kind, json);
    return row;
  }
  const said = saidBy(asMessage && row.beside ? besideResults(json) : json);
  row.images = said.images.length;
  if (!asMessage) {
    row.text = oneLine(said.text || callsIn(json) || said.thinking);
    return row;
  }
  // Whoever gave the results says it: in these forms they are messages of the user's.
  if (row.beside) [row.type, row.label] = [typeOf(Kind.User), kindName(Kind.User)];
  const saysNothing = said.text === "" && said.thinking === "" && said.images.length === 0;
  return asSaid(row, said, saysNothing ? callsIn(json) : said.text);
}

/** Adds what a message says, to be shown as one. */
function asSaid(row: Row, said: Said, text: string): Row {
  row.kind = "message";
  row.images = said.images.length;
  const begin = beginning(text);
  row.text = begin.text;
  row.lines = begin.lines;
  row.chars = begin.chars;
  row.thinking = beginning(said.thinking, 3).text;
  return row;
}

const ROLES: readonly TypeName[] = ["user", "assistant", "system"];

/** A message of a chat, as its changes left it. */
async function chatRow(row: Row, index: LogIndex, lane: Lane | undefined, payloads: Payloads): Promise<Row> {
  row.kind = "message";
  const saved = await payloads.at(row.position);
  row.gone = saved === undefined;
  if (!isObject(saved?.json) || row.redacted) return row;
  const until = Number(/@(\d+)$/.exec(row.part)?.[1] ?? -1);
  const { message, isChanged } = await messageAt(index, payloads, row.row, saved.json, lane, until);
  if (!isObject(message)) return row;
  const [role, type] = [shown(message["role"]), message["type"]];
  row.type = ROLES.find((known) => known === role) ?? "chat";
  row.label = [role, type === "text" ? "" : shown(type), isChanged ? "changed" : ""].filter((word) => word !== "").join(" · ");
  const said = saidBy(message);
  return asSaid(row, said, said.text);
}
