// Which tools results name. Providers that give calls no ids join the two by that; heads don't have it.

import { CallFlag, type EventHeads } from "runlog";

import { isObject } from "./content.js";
import { parseExactOrNone } from "./exact.js";
import { Kind } from "./kinds.js";
import type { SourceRecord } from "./source.js";

const utf8 = new TextDecoder();

/** Reads a record by its position. */
export type ReadRecord = (position: number) => Promise<SourceRecord | undefined>;

/** The tools that results without ids of calls name, by the places of their events in a page. */
export type NamedTools = ReadonlyMap<number, readonly (string | undefined)[]>;

/** Reads the tools that results name, where more than one call may be meant. */
export async function namedTools(events: EventHeads, read: ReadRecord): Promise<NamedTools> {
  const named = new Map<number, (string | undefined)[]>();
  for (const at of ambiguous(events)) {
    const record = await read(events.positions[at] as number).catch(() => undefined);
    // One that is damaged, or was taken out, names none.
    if (record !== undefined && !record.redacted) named.set(at, toolsIn(utf8.decode(record.payload)));
  }
  return named;
}

/** The events with results of which the order alone doesn't say what calls they answer. */
function ambiguous(events: EventHeads): number[] {
  const found: number[] = [];
  if (events.callFlags.every((flags) => (flags & CallFlag.HasId) !== 0)) return found;
  /** How many calls the newest message of a stream has made, where the page has that. */
  const made = new Map<number, number>();
  for (let at = 0; at < events.count; at++) {
    const [stream, kind] = [events.streams[at] as number, events.kinds[at] as number];
    if (kind === Kind.ToolCall) made.set(stream, (made.get(stream) ?? Infinity) + 1);
    else if (kind !== Kind.ToolResult) made.set(stream, 0);
    else {
      if ((made.get(stream) !== 1 || callsAnswered(events, at) > 1) && hasNoId(events, at)) found.push(at);
      // What comes behind it answers other calls than that of the message, if that made one.
      made.set(stream, 0);
    }
  }
  return found;
}

const firstCallOf = (events: EventHeads, at: number) => (at === 0 ? 0 : (events.callEnds[at - 1] as number));
const callsAnswered = (events: EventHeads, at: number) => (events.callEnds[at] as number) - firstCallOf(events, at);

function hasNoId(events: EventHeads, at: number): boolean {
  const first = firstCallOf(events, at);
  return events.callFlags.subarray(first, events.callEnds[at]).some((flags) => (flags & CallFlag.HasId) === 0);
}

/** The tools that the results of a message name, of those without a call's id, in their order. */
function toolsIn(text: string): (string | undefined)[] {
  const message = parseExactOrNone(text);
  if (!isObject(message)) return [];
  const parts = Array.isArray(message["parts"]) ? (message["parts"] as unknown[]) : [];
  const responses = parts.flatMap((part) => (isObject(part) ? [part["functionResponse"] ?? part["function_response"]] : [])).filter(isObject);
  const name = (value: unknown) => (typeof value === "string" ? value : undefined);
  const without = responses.filter(({ id }) => id === undefined || id === null);
  // Ollama's results say `tool_name`.
  return without.length > 0 ? without.map((response) => name(response["name"])) : [name(message["name"] ?? message["tool_name"])];
}
