// What agents were asked to do: of those with the same name it is what tells one from another.

import type { TreeRow } from "../protocol.js";
import { isObject, oneLine, saidBy } from "./content.js";
import type { LogIndex } from "./index.js";
import { Kind } from "./kinds.js";
import { firstWhere } from "./lists.js";
import { Flag, type Lane } from "./model.js";
import type { Payloads } from "./payloads.js";

/** Among so many events of an agent its task is looked for: before it there may be what the system says. */
const LOOKED_MAX = 8;
/** A message with more isn't read for its first words. */
const BYTES_MAX = 1 << 18;
/** So many characters of a task stand beside the name of one of several agents. */
const WORDS_CHARS = 60;
/** A line of agents that is so long is cut off anyway. */
const LINE_CHARS = 400;

/** What an agent was asked first from a row on, on one line; empty where that isn't known. */
export async function taskOf(index: LogIndex, payloads: Payloads, lane: Lane, from = -1): Promise<string> {
  if (lane.chat !== undefined || lane.flowStatus !== undefined) return "";
  const { rows } = index;
  const first = firstFrom(lane, from);
  for (let entry = first; entry < Math.min(lane.entries.length, first + LOOKED_MAX); entry++) {
    const row = lane.entries.at(entry);
    // What a resume adds to go on nobody asked.
    if (rows.kind.at(row) !== Kind.User || (rows.flags.at(row) & Flag.Continuation) !== 0) continue;
    if ((rows.flags.at(row) & Flag.Redacted) !== 0 || rows.bytes.at(row) > BYTES_MAX) return "";
    // One that can't be read is told where it is shown.
    const loaded = await payloads.at(rows.position.at(row)).catch(() => undefined);
    return loaded === undefined ? "" : cutLine(saidBy(loaded.json).text);
  }
  return "";
}

/** Rows of the tree, with their tasks: of agents that another spawned, and of those that began beside others in a session. */
export async function withTasks(page: { rows: TreeRow[]; total: number }, index: LogIndex, payloads: Payloads): Promise<{ rows: TreeRow[]; total: number }> {
  const withTask = async (row: TreeRow): Promise<TreeRow> => {
    const lane = row.kind === "agent" ? index.laneOf(row.id) : undefined;
    if (lane === undefined || (lane.parentId === undefined && row.siblings < 2) || (lane.parentId === undefined && lane.forkOf >= 0)) return row;
    return { ...row, task: await taskOf(index, payloads, lane) };
  };
  return { rows: await Promise.all(page.rows.map(withTask)), total: page.total };
}

/** What a run began with: the task is the first that its agent was asked from there on, and before its next run. */
export async function startedText(index: LogIndex, payloads: Payloads, row: number, text: string): Promise<string> {
  const lane = index.lanes[index.rows.lane.at(row)];
  if (lane === undefined) return text;
  const next = lane.runs.map((run) => index.runs[run]?.row ?? -1).find((start) => start > row) ?? Infinity;
  const first = firstFrom(lane, row);
  const isItsOwn = first < lane.entries.length && lane.entries.at(first) < next;
  return oneLine([text, isItsOwn ? await taskOf(index, payloads, lane, row) : ""].filter(Boolean).join(" · "));
}

/** The first of an agent's events from a row on, by its place among them. */
function firstFrom({ entries }: Lane, from: number): number {
  return firstWhere(entries.length, (at) => entries.at(at) >= from);
}

/** One line of a text, with a mark where that isn't all of it. */
function cutLine(text: string): string {
  const line = oneLine(text);
  return text.trim().length > LINE_CHARS ? `${line}…` : line;
}

/** The agents that a run spawned, each with the first words of its task. */
export async function spawnedText(index: LogIndex, payloads: Payloads, json: unknown): Promise<string> {
  const agents = isObject(json) && Array.isArray(json["agents"]) ? (json["agents"] as unknown[]).filter(isObject) : [];
  const told: string[] = [];
  for (let at = 0, chars = 0; at < agents.length && chars < LINE_CHARS; at++) {
    const { agent_name: name, run_id: id } = agents[at] as { agent_name?: unknown; run_id?: unknown };
    const lane = index.lanes[index.runOf(typeof id === "string" ? id : "")?.lane ?? -1];
    const task = lane === undefined ? "" : await taskOf(index, payloads, lane);
    const words = task.length > WORDS_CHARS ? `${task.slice(0, WORDS_CHARS).trimEnd()}…` : task;
    const one = [lane?.name ?? (typeof name === "string" ? name : ""), words].filter(Boolean).join(": ");
    chars += one.length;
    told.push(one);
  }
  return oneLine(`${agents.length > 1 ? `${agents.length} agents · ` : ""}${told.join(" · ")}`);
}
