// A chat is a lane of its session: its messages are the entries, with what was changed in them and what was deleted.

import { chatMessage, isObject, jsonOf } from "./content.js";
import { Alive, Entries, NONE } from "./entries.js";
import type { Family } from "./family.js";
import type { LogIndex } from "./index.js";
import { Kind } from "./kinds.js";
import { firstWhere, u32 } from "./lists.js";
import { type Chat, type ChatLane, type Columns, Flag, type Lane, type Standing, type Status, entryOf } from "./model.js";
import type { Payloads } from "./payloads.js";
import type { SourceRecord } from "./source.js";
import { takeUsage } from "./usage.js";

type Json = Record<string, unknown>;

const utf8 = new TextDecoder();
const ascii = new TextEncoder();

/** The id of a message stands first in its record: a long one needn't be read whole. */
const HEAD_BYTES = 512;

/** Takes in a record of a chat that has this row. */
export function takeOfChat(lane: ChatLane, record: SourceRecord, row: number): void {
  const { chat } = lane;
  if (record.kind === Kind.ChatMessage) {
    const entry = lane.entries.length;
    lane.entries.push(row);
    lane.alive.put(entry, entry);
    lane.messages += 1;
    const id = record.redacted ? undefined : idIn(record.payload);
    if (id !== undefined && !chat.entries.has(id)) chat.entries.set(id, entry);
  } else if (record.kind === Kind.ChatMessageChanged && !record.redacted) {
    const entry = entryNamed(chat, jsonOf(utf8.decode(record.payload))["message_id"]);
    if (entry === undefined) return;
    const others = chat.changes.get(entry);
    if (others === undefined) chat.changes.set(entry, [row]);
    else others.push(row);
  } else if (record.kind === Kind.ChatMessagesDeleted && !record.redacted) {
    const ids = jsonOf(utf8.decode(record.payload))["message_ids"];
    lane.truncations.push(row);
    for (const id of Array.isArray(ids) ? ids : []) {
      const entry = entryNamed(chat, id);
      if (entry === undefined || lane.deaths.at(entry) !== NONE) continue;
      lane.deaths.set(entry, row);
      chat.deleted += 1;
    }
  }
}

/** A request that was dismissed isn't resumed. */
const STATUS_OF_REQUESTS: Record<string, Status> = { running: "running", completed: "completed", failed: "failed", interrupted: "paused", dismissed: "cancelled" };

/** Takes in how the newest request stands, as a row says. */
export function takeRequest(lane: ChatLane, row: number, request: Json): void {
  const { status, error, request_id: id } = request;
  const known = STATUS_OF_REQUESTS[String(status)];
  const { standing: before } = lane.chat;
  if (known !== undefined) lane.chat.standing = { row, status: known, error: status === "failed" && typeof error === "string" ? error : undefined, before };
  if (typeof id === "string") takeUsage(lane, id, request["usage"]);
}

/** What is known of how a chat's newest request stands: a record that was redacted says nothing any more, whenever it was read. */
export function standingOf(rows: Columns, { standing }: Chat): Standing | undefined {
  let at = standing;
  while (at !== undefined && (rows.flags.at(at.row) & Flag.Redacted) !== 0) at = at.before;
  return at;
}

/** Gives a copy what its original had at a sequence: of what was deleted by then nothing. */
export function inheritChat(rows: Columns, parent: ChatLane, lane: ChatLane, at: number, copy: string): void {
  const { entries, chat: original } = parent;
  const { chat } = lane;
  const count = firstWhere(entries.length, (entry) => rows.sequence.at(entries.at(entry)) > at);
  const entryOf = parent.truncations.length === 0 ? (entry: number) => (entry < count ? entry : undefined) : leaveDeleted(rows, parent, count, at, lane);
  if (parent.truncations.length === 0) lane.entries = new Entries(entries.first(count));
  lane.alive = new Alive(lane.entries.length);
  for (const [entry, changes] of original.changes) {
    const inCopy = entryOf(entry);
    const before = changes.filter((row) => rows.sequence.at(row) <= at);
    if (inCopy !== undefined && before.length > 0) chat.changes.set(inCopy, before);
  }
  chat.standing = original.standing;
  chat.original = { chat: original, copy, entryOf };
}

/** Gives a copy the first entries of its original, without those that were deleted at a sequence. */
function leaveDeleted(rows: Columns, parent: ChatLane, count: number, at: number, lane: ChatLane): (entry: number) => number | undefined {
  const own = u32();
  const inCopy = new Map<number, number>();
  for (let entry = 0; entry < count; entry++) {
    const death = parent.deaths.at(entry);
    if (death !== NONE && rows.sequence.at(death) <= at) continue;
    inCopy.set(entry, own.length);
    own.push(parent.entries.at(entry));
  }
  lane.entries = new Entries(own.view().slice());
  return (entry) => inCopy.get(entry);
}

/** The changes of a message that a lane has by a moment: their rows. None for what is no message of a chat. */
export function changesBy(family: Family, lane: Lane | undefined, row: number, moment: number): number[] {
  const changes = lane?.chat?.changes.get(entryOf(lane, row)) ?? [];
  return changes.filter((change) => (family.rank[change] as number) < moment);
}

/** What an event says, as JSON; of a message of a chat the message, with the changes that it has in a lane up to a row. */
export async function saidAt(index: LogIndex, payloads: Payloads, row: number, lane: Lane | undefined, until = Infinity): Promise<unknown> {
  const json = (await payloads.at(index.rows.position.at(row)))?.json;
  if (index.rows.kind.at(row) !== Kind.ChatMessage || !isObject(json)) return json;
  return (await messageAt(index, payloads, row, json, lane, until)).message;
}

/** A message of a chat with the changes that it has in a lane up to a row, and whether any of them is more than text that was appended. One that was redacted changes nothing any more. */
export async function messageAt(index: LogIndex, payloads: Payloads, row: number, message: Json, lane: Lane | undefined, until: number): Promise<{ message: unknown; isChanged: boolean }> {
  const changes = lane?.chat?.changes.get(entryOf(lane, row)) ?? [];
  const now = { ...message };
  let isChanged = false;
  for (const at of changes.filter((change) => change <= until)) {
    const change = (await payloads.at(index.rows.position.at(at)))?.json;
    if (!isObject(change) || !isObject(change["updates"])) continue;
    for (const [field, value] of Object.entries(change["updates"])) {
      isChanged ||= field !== "props" || !isGrown(now["props"], value);
      if (value === null) delete now[field];
      else now[field] = value;
    }
    const { appended } = change;
    if (typeof appended === "string") now["props"] = withText(now["props"], appended);
  }
  return { message: chatMessage(now), isChanged };
}

/** Whether properties are those before them with more text at the end, or the same: an answer that came in pieces is written whole at its end. */
function isGrown(before: unknown, after: unknown): boolean {
  if (!isObject(before) || !isObject(after)) return false;
  const [said, says] = [before["content"] ?? "", after["content"] ?? ""];
  const others = (props: Json): string => JSON.stringify({ ...props, content: "" });
  return typeof said === "string" && typeof says === "string" && says.startsWith(said) && others({ content: "", ...before }) === others({ content: "", ...after });
}

/** A message's properties with more text at the end of what it says. */
function withText(props: unknown, appended: string): unknown {
  if (!isObject(props)) return props;
  const { content = "" } = props;
  return typeof content === "string" ? { ...props, content: content + appended } : props;
}

function entryNamed(chat: Chat, id: unknown): number | undefined {
  if (typeof id !== "string") return undefined;
  if (!chat.entries.has(id)) nameAll(chat);
  return chat.entries.get(id);
}

/** Names what a copy has of its original, by the ids that they have in the copy. Of a copy of a copy the first one comes first. */
function nameAll(chat: Chat): void {
  const copies: Chat[] = [];
  for (let at: Chat | undefined = chat; at?.original !== undefined; at = at.original.chat) copies.push(at);
  for (const { entries, original } of copies.reverse()) {
    if (original === undefined) continue;
    for (const [id, entry] of original.chat.entries) {
      const inCopy = original.entryOf(entry);
      if (inCopy !== undefined) entries.set(idInCopy(original.copy, id), inCopy);
    }
  }
  for (const copy of copies) copy.original = undefined;
}

function idIn(payload: Uint8Array): string | undefined {
  const head = /^\{(?:"id":\d+,)?"message_id":("(?:[^"\\]|\\.)*")/.exec(utf8.decode(payload.subarray(0, HEAD_BYTES)));
  const id = head === null ? jsonOf(utf8.decode(payload))["message_id"] : JSON.parse(head[1] as string);
  return typeof id === "string" && id !== "" ? id : undefined;
}

// As `core/model/src/chat/copied.rs` has it: FNV-1a of 128 bits.
const OFFSET = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58dn;
const PRIME = 0x0000_0000_0100_0000_0000_0000_0000_013bn;
const MARK_BYTES = 6;

const hashOf = (bytes: Iterable<number>, hash = OFFSET): bigint => {
  for (const byte of bytes) hash = BigInt.asUintN(128, (hash ^ BigInt(byte)) * PRIME);
  return hash;
};
const hexOf = (hash: bigint) => hash.toString(16).padStart(32, "0");

/** The id in a copy, which is named by its session, for an id of the original. */
export function idInCopy(session: string, id: string): string {
  const copy = hashOf(session.replaceAll("-", "").match(/../g)?.map((byte) => Number.parseInt(byte, 16)) ?? []);
  const hex = hexOf(copy).slice(0, 2 * MARK_BYTES) + hexOf(hashOf(ascii.encode(id), copy)).slice(2 * MARK_BYTES);
  const variant = ((Number.parseInt(hex[16] as string, 16) & 3) | 8).toString(16);
  const uuid = `${hex.slice(0, 12)}8${hex.slice(13, 16)}${variant}${hex.slice(17)}`;
  return [uuid.slice(0, 8), uuid.slice(8, 12), uuid.slice(12, 16), uuid.slice(16, 20), uuid.slice(20)].join("-");
}
