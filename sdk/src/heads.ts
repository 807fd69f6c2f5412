import { type LogRecord, unpackRecords } from "./packed.js";
import { uuidAt } from "./uuid.js";

// The layout of `core/bindings/src/packed/heads.rs`, this side of the boundary.

const HEADER_BYTES = 32;
const UUID_BYTES = 16;

/** Of a column of numbers: none. */
export const NO_VALUE = 0xffffffff;

/** Flags of an event, in {@link EventHeads.flags}. */
export const HeadFlag = {
  /** Its content was taken out of the store. */
  Redacted: 1,
  /** A resume added it to tell the agent to go on. */
  Continuation: 2,
  /** An answer of a model with nothing but tool calls in it. */
  Silent: 4,
  /** A message with results of tools that says something beside them. */
  SaysMore: 8,
} as const;

/** Flags of a tool call, in {@link EventHeads.callFlags}. */
export const CallFlag = {
  /** It has an id. */
  HasId: 1,
  /** The tool failed. */
  Failed: 2,
} as const;

/** What lists show of many events of contexts, in columns: the number at an index of each is of the same event. */
export interface EventHeads {
  /** How many there are. */
  readonly count: number;
  /** Their places in the log. */
  readonly positions: Float64Array;
  /** When they were appended: milliseconds since 1970-01-01 UTC. */
  readonly recorded: Float64Array;
  /** When they happened, where that isn't when they were appended; else NaN. */
  readonly happened: Float64Array;
  /** Their places in their streams. */
  readonly sequences: Uint32Array;
  /** Their streams, as indexes into {@link streamIds}. */
  readonly streams: Uint32Array;
  /** How many bytes their contents have. */
  readonly contentBytes: Uint32Array;
  /** The steps of their runs, or {@link NO_VALUE}. */
  readonly steps: Uint32Array;
  /** Of tool calls the tools, as indexes into {@link toolNames}, or {@link NO_VALUE}. */
  readonly tools: Uint32Array;
  /** What they are: the kind bytes of records, 1 to 5. */
  readonly kinds: Uint8Array;
  /** {@link HeadFlag}s. */
  readonly flags: Uint8Array;
  /**
   * Where the tool calls that an event is, or answers, end among all calls; they begin where those of the event before end. So
   * do the columns that begin with `call`, which have a number for each call.
   */
  readonly callEnds: Uint32Array;
  /** {@link CallFlag}s. */
  readonly callFlags: Uint8Array;
  /** How long the tools took in milliseconds, or NaN. */
  readonly callDurations: Float32Array;
  /** Where the id of each call ends in {@link callIds}; it begins where that of the call before ends. */
  readonly callIdEnds: Uint32Array;
  /** The ids of all calls, one after the other. */
  readonly callIds: string;
  /** Which events tell what they cost, as indexes; the columns `inputTokens`, `outputTokens`, `costs` and `answers` have a number for each. */
  readonly usages: Uint32Array;
  /** Of each of `usages`, the tokens that went in. */
  readonly inputTokens: Float64Array;
  /** Of each of `usages`, the tokens that came out. */
  readonly outputTokens: Float64Array;
  /** Of each of `usages`, what it cost, in the currency that the recorder used. */
  readonly costs: Float64Array;
  /**
   * Of each of `usages`, a hash of the message's id, 0 where it has none: what follows with the same one is a part of the same
   * answer, and tells the cost of all of it again.
   */
  readonly answers: Uint32Array;
  /** The streams there are events of. */
  readonly streamIds: readonly string[];
  /** The names of tools that are called. */
  readonly toolNames: readonly string[];
}

/** Some records of the log. */
export interface HeadsPage {
  /** The events of contexts, in short. */
  readonly events: EventHeads;
  /** What else was recorded between them, in the order of positions. */
  readonly others: readonly LogRecord[];
  /** The position that the next page begins with. */
  readonly next: number;
}

/** What a search found in a part of the log. */
export interface SearchPage {
  /** The positions of the records whose content has the text, in their order. */
  readonly found: Float64Array;
  /** Where the search goes on; 0 when it has seen everything there is. */
  readonly next: number;
}

/** Reads a page of heads. @internal */
export function unpackHeads(packed: Uint8Array): HeadsPage {
  // Columns are read where they are, which needs them to begin at a multiple of 8.
  const bytes = packed.byteOffset % 8 === 0 ? packed : packed.slice();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [count, calls, streams, usages, nameBytes, idBytes] = [0, 4, 16, 20, 24, 28].map((at) => view.getUint32(at, true)) as [number, number, number, number, number, number];
  let at = bytes.byteOffset + HEADER_BYTES;
  const f64 = (length: number) => new Float64Array(bytes.buffer, (at += length * 8) - length * 8, length);
  const u32 = (length: number) => new Uint32Array(bytes.buffer, (at += length * 4) - length * 4, length);
  const f32 = (length: number) => new Float32Array(bytes.buffer, (at += length * 4) - length * 4, length);
  const u8 = (length: number) => new Uint8Array(bytes.buffer, (at += length) - length, length);
  const [positions, recorded, happened] = [f64(count), f64(count), f64(count)];
  const [inputTokens, outputTokens, costs] = [f64(usages), f64(usages), f64(usages)];
  const [sequences, streamNumbers, contentBytes, steps, tools, callEnds] = [u32(count), u32(count), u32(count), u32(count), u32(count), u32(count)];
  const [callIdEnds, usageEvents, answers, callDurations] = [u32(calls), u32(usages), u32(usages), f32(calls)];
  const [kinds, flags, callFlags] = [u8(count), u8(count), u8(calls)];
  const ids = u8(streams * UUID_BYTES);
  const utf8 = new TextDecoder("utf-8", { ignoreBOM: true });
  const toolNames = JSON.parse(utf8.decode(u8(nameBytes))) as string[];
  const callIds = utf8.decode(u8(idBytes));
  const others = unpackRecords(bytes.subarray(at - bytes.byteOffset)).records;
  const events: EventHeads = {
    count,
    positions,
    recorded,
    happened,
    sequences,
    streams: streamNumbers,
    contentBytes,
    steps,
    tools,
    kinds,
    flags,
    callEnds,
    callFlags,
    callDurations,
    callIdEnds,
    callIds,
    usages: usageEvents,
    inputTokens,
    outputTokens,
    costs,
    answers,
    streamIds: Array.from({ length: streams }, (_, stream) => uuidAt(ids, stream * UUID_BYTES)),
    toolNames,
  };
  return { events, others, next: view.getFloat64(8, true) };
}

/** Reads what a search found. @internal */
export function unpackFound(packed: Uint8Array): SearchPage {
  const bytes = packed.byteOffset % 8 === 0 ? packed : packed.slice();
  const numbers = new Float64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8);
  return { found: numbers.subarray(1), next: numbers[0] ?? 0 };
}
