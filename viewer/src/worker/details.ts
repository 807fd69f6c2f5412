import type { Details, JsonNode, NodeKind, Part, RawPiece } from "../protocol.js";
import { argumentsOf, beginning, besideResults, bytesOf, imageType, isObject, parsedText, readable, resultsOf, saidBy } from "./content.js";
import { saidAt } from "./chats.js";
import { crc32 } from "./crc.js";
import { exactDigits, writeExact } from "./exact.js";
import type { Family } from "./family.js";
import type { LogIndex } from "./index.js";
import { Flag, type Lane, entryOf } from "./model.js";
import { Kind, kindName, typeOf } from "./kinds.js";
import { decodeMeta } from "./meta.js";
import type { Payloads } from "./payloads.js";
import { statusAt } from "./rows.js";

const utf8 = new TextDecoder();
/** So many characters of a text go to the page at a time. */
const PIECE_CHARS = 65536;
/** So many lines are shown of a part, before it is asked for all. */
const PART_LINES = 200;

/** The parts of an event that are looked at: `raw` is what was stored; a call has an input and an output. */
export async function partOf(index: LogIndex, payloads: Payloads, row: number, part: string, lane: Lane | undefined): Promise<unknown> {
  // A value inside of a part: `json:PART:PATH`.
  const inner = /^json:([\w@]+):(.*)$/s.exec(part);
  if (inner !== null) return valueAt(await partOf(index, payloads, row, inner[1] as string, lane), inner[2] as string);
  // A call may have had another result before: `output@ROW`.
  const output = /^output(?:@(\d+))?$/.exec(part);
  if (output !== null) {
    const isCall = index.rows.kind.at(row) === Kind.ToolCall;
    const result = output[1] !== undefined ? Number(output[1]) : isCall ? index.answerOf(row, lane)?.row : row;
    if (result === undefined || result >= index.rows.length) return undefined;
    return payloads.value(`output ${row} ${result}`, async () => valueIn(saidBy(await givenTo(index, payloads, row, result)).text));
  }
  const read = () => payloads.at(index.rows.position.at(row));
  if (part === "input") return payloads.value(`input ${row}`, async () => argumentsOf((await read())?.json));
  if (part === "arguments") return payloads.value(`arguments ${row}`, async () => readable(await partOf(index, payloads, row, "input", lane)));
  // A message of a chat may have been changed: `text@ROW` is what it says after the change of that row.
  const text = /^text(?:@(\d+))?$/.exec(part);
  const isOfChat = index.rows.kind.at(row) === Kind.ChatMessage;
  if (isOfChat && (text !== null || part === "thinking")) return saidBy(await saidAt(index, payloads, row, lane, Number(text?.[1] ?? -1)))[text === null ? "thinking" : "text"];
  const loaded = await read();
  const isResult = index.rows.kind.at(row) === Kind.ToolResult;
  if (part === "text") return saidBy(isResult ? besideResults(loaded?.json) : loaded?.json).text;
  if (part === "thinking") return saidBy(loaded?.json).thinking;
  return loaded?.json;
}

/** What a result says, as a message: to a call what its tool gave, though the message has results of others. */
async function givenTo(index: LogIndex, payloads: Payloads, row: number, result: number): Promise<unknown> {
  const [asked, answered] = [await payloads.at(index.rows.position.at(row)), await payloads.at(index.rows.position.at(result))];
  if (index.rows.kind.at(row) !== Kind.ToolCall) return resultsOf(answered?.json);
  const id = isObject(asked?.json) ? asked.json["id"] : undefined;
  return resultsOf(answered?.json, { id, place: index.placeOf(row, result) });
}

/** Text that is JSON of an object or array, as that. */
function valueIn(text: string): unknown {
  return /^\s*[[{]/.test(text) ? parsedText(text) : text;
}

export async function rawOf(index: LogIndex, payloads: Payloads, row: number): Promise<Uint8Array> {
  return (await payloads.at(index.rows.position.at(row)))?.record.payload ?? new Uint8Array();
}

export async function detailsOf(index: LogIndex, family: Family | undefined, payloads: Payloads, row: number, shown: Lane | undefined, result?: number): Promise<Details> {
  const { rows } = index;
  const kind = rows.kind.at(row);
  const loaded = await payloads.at(rows.position.at(row));
  const meta = loaded === undefined || kind > Kind.ToolResult ? undefined : decodeMeta(loaded.record.meta);
  const lane = index.lanes[rows.lane.at(row)];
  const tool = index.tools[rows.tool.at(row)];
  const isCall = kind === Kind.ToolCall;
  const answer = isCall ? index.answerOf(row, shown) : undefined;
  const duration = isCall ? (answer?.durationMs ?? rows.duration.at(row)) : rows.duration.at(row);
  const redacted = loaded?.record.redacted ?? false;
  // Of an event of a context its metadata tells the run; a record of a run is in the stream of that.
  const run = index.runOf(meta?.runId ?? loaded?.record.stream ?? "");
  const link = (id: string | undefined) => (id === undefined ? undefined : { id, row: index.runOf(id)?.row ?? -1 });
  return {
    row,
    title: tool ?? kindName(kind),
    type: typeOf(kind),
    agent: lane?.name ?? "",
    laneId: lane?.id ?? "",
    position: rows.position.at(row),
    sequence: rows.sequence.at(row),
    time: rows.time.at(row),
    recordedAt: loaded && payloads.writtenAt(loaded.record),
    stream: loaded?.record.stream ?? "",
    kind,
    bytes: rows.bytes.at(row),
    step: rows.step.at(row),
    runId: meta?.runId ?? run?.id,
    resumedFrom: link(run?.resumedFrom),
    resumedBy: link(run?.resumedBy),
    toolCallId: meta?.tools[0]?.id,
    status: family === undefined ? undefined : statusAt(index, family, row, family.length, shown),
    durationMs: Number.isNaN(duration) ? undefined : duration,
    redacted,
    gone: loaded === undefined,
    rank: family?.rank[row] ?? -1,
    linked: isCall ? (answer?.row ?? -1) : rows.link.at(row),
    parts: redacted ? [] : await partsOf(index, payloads, row, kind, shown, result),
  };
}

async function partsOf(index: LogIndex, payloads: Payloads, row: number, kind: number, lane: Lane | undefined, given: number | undefined): Promise<Part[]> {
  const parts: Part[] = [];
  const add = async (id: string, label: string) => {
    const value = await partOf(index, payloads, row, id, lane);
    if (value === undefined || value === "") return;
    const isJson = typeof value === "object" && value !== null && exactDigits(value) === undefined;
    const begin = isJson ? { text: "", lines: 0, chars: 0 } : beginning(exactDigits(value) ?? String(value), PART_LINES);
    parts.push({ id, label, ...begin, isJson, images: [] });
  };
  if (kind === Kind.ToolCall) {
    await add("input", "input");
    const result = given ?? index.answerOf(row, lane)?.row ?? -1;
    if (result >= 0) await add(given === undefined ? "output" : `output@${given}`, "output");
    if (result >= 0) addImages(parts, await givenTo(index, payloads, row, result));
  } else if (kind === Kind.ToolResult) {
    if ((index.rows.flags.at(row) & Flag.SaysMore) !== 0) await add("text", "text");
    await add("output", "output");
  } else if (kind <= Kind.ToolResult || kind === Kind.ChatMessage) {
    await add("text", "text");
    await add("thinking", "thinking");
    const change = lane?.chat?.changes.get(entryOf(lane, row))?.at(-1);
    if (change !== undefined) await add(`text@${change}`, "text now");
  }
  const raw = (await payloads.at(index.rows.position.at(row)))?.json;
  if (kind !== Kind.ToolCall) addImages(parts, raw);
  if (raw !== undefined) await add("json", kind <= Kind.ToolResult && kind !== Kind.ToolCall ? "message" : "json");
  return parts;
}

function addImages(parts: Part[], message: unknown): void {
  const said = saidBy(message);
  const images = said.images.map(({ data }) => {
    // What says that it is an image, and isn't, is never given to the page as one.
    const type = imageType(data);
    return { type: type ?? "no image that is shown here", url: type === undefined ? "" : `data:${type};base64,${data}`, bytes: bytesOf(data) };
  });
  if (images.length > 0) parts.push({ id: "images", label: images.length === 1 ? "image" : "images", text: "", lines: 0, chars: 0, isJson: false, images });
}

/** A value inside of another, by its path: keys with `/` before them, as in JSON pointers. */
function valueAt(value: unknown, path: string): unknown {
  let at = value;
  for (const step of path.split("/").slice(1)) {
    const key = step.replaceAll("~1", "/").replaceAll("~0", "~");
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as Record<string, unknown>)[key];
  }
  return at;
}

const TEXT_MAX = 200;

/** The values right inside of one, a page of them. */
export function childrenOf(value: unknown, path: string, from: number, count: number): JsonNode[] {
  const at = valueAt(value, path);
  if (typeof at !== "object" || at === null || exactDigits(at) !== undefined) return [];
  const keys = Array.isArray(at) ? undefined : Object.keys(at);
  const length = keys?.length ?? (at as unknown[]).length;
  const nodes: JsonNode[] = [];
  for (let index = from; index < Math.min(length, from + count); index++) {
    const key = keys?.[index] ?? String(index);
    nodes.push(nodeOf(key, `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`, (at as Record<string, unknown>)[key]));
  }
  return nodes;
}

export function nodeOf(key: string, path: string, value: unknown): JsonNode {
  if (Array.isArray(value)) return { key, path, kind: "array", text: "", size: value.length };
  if (isObject(value)) return { key, path, kind: "object", text: "", size: Object.keys(value).length };
  const digits = exactDigits(value);
  if (digits !== undefined) return { key, path, kind: "number", text: digits, size: 0 };
  if (typeof value === "string") return { key, path, kind: "string", text: value.slice(0, TEXT_MAX), size: value.length };
  return { key, path, kind: (value === null ? "null" : typeof value) as NodeKind, text: String(value), size: 0 };
}

const FOUND_MAX = 500;

/** The paths of keys and values that have a text in them. */
export function findIn(value: unknown, query: string): string[] {
  const wanted = query.toLowerCase();
  const found: string[] = [];
  const stack: [string, unknown][] = [["", value]];
  while (stack.length > 0 && found.length < FOUND_MAX) {
    const [path, at] = stack.pop() as [string, unknown];
    const digits = exactDigits(at);
    if (typeof at === "object" && at !== null && digits === undefined) {
      for (const key of Object.keys(at).reverse()) {
        const inner = `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
        stack.push([inner, (at as Record<string, unknown>)[key]]);
      }
    }
    const key = path.slice(path.lastIndexOf("/") + 1);
    const isFound = key.toLowerCase().includes(wanted) || ((typeof at !== "object" || at === null || digits !== undefined) && (digits ?? String(at)).toLowerCase().includes(wanted));
    if (path !== "" && isFound) found.push(path);
  }
  return found;
}

/** Text of a part: all of it is asked for in pieces. */
export function pieceOf(value: unknown, from: number): { text: string; next: number } {
  const text = typeof value === "string" ? value : (writeExact(value) ?? "");
  let end = Math.min(text.length, from + PIECE_CHARS);
  // Not in the middle of a surrogate pair.
  if (end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end -= 1;
  return { text: text.slice(from, end), next: end < text.length ? end : -1 };
}

/** Bytes as text where they are that, else as hex. */
export function rawText(bytes: Uint8Array, from: number): RawPiece {
  const piece = bytes.subarray(from, from + PIECE_CHARS);
  const next = from + piece.length < bytes.length ? from + piece.length : -1;
  const whole = { bytes: bytes.length, crc: crc32(bytes) };
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(0, Math.min(bytes.length, PIECE_CHARS)), { stream: bytes.length > PIECE_CHARS });
    return { text: utf8.decode(piece), next, isText: true, ...whole };
  } catch {
    return { text: hexOf(bytes.subarray(from, from + 4096), from), next: from + 4096 < bytes.length ? from + 4096 : -1, isText: false, ...whole };
  }
}

function hexOf(bytes: Uint8Array, from: number): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const line = Array.from(bytes.subarray(at, at + 16));
    const hex = line.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const text = line.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${(from + at).toString(16).padStart(8, "0")}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join("\n");
}
