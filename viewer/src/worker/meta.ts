// The metadata of a context event, as `core/model/src/codec.rs` writes it: a version, then fields in little-endian.

/** A tool call that an event is, or answers. */
export interface ToolMark {
  id: string | undefined;
  isError: boolean;
  durationMs: number | undefined;
}

/** What an event says beside its content. */
export interface EventMeta {
  createdAtMs: number | undefined;
  runId: string | undefined;
  step: number | undefined;
  tools: ToolMark[];
  isContinuation: boolean;
}

const NOTHING: EventMeta = { createdAtMs: undefined, runId: undefined, step: undefined, tools: [], isContinuation: false };
// The second one has, behind the fields of the first, which results are said as JSON: the messages have them as text.
const VERSIONS = [1, 2];
const utf8 = new TextDecoder();

/** Reads metadata. Those of a later version say nothing that is known here; nor do those that end early. */
export function decodeMeta(bytes: Uint8Array): EventMeta {
  if (!VERSIONS.includes(bytes[0] ?? 0)) return NOTHING;
  try {
    return fields(bytes);
  } catch {
    return NOTHING;
  }
}

function fields(bytes: Uint8Array): EventMeta {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 2;
  const flag = () => view.getUint8(at++) === 1;
  const integer = () => {
    const value = view.getUint32(at, true) + view.getUint32(at + 4, true) * 2 ** 32;
    at += 8;
    return value;
  };
  const createdAtMs = flag() ? integer() : undefined;
  let runId: string | undefined;
  if (flag()) {
    runId = uuidAt(bytes, at);
    at += 16;
  }
  const step = flag() ? view.getUint32((at += 4) - 4, true) : undefined;
  const tools: ToolMark[] = [];
  for (let left = integer(); left > 0; left--) {
    let id: string | undefined;
    if (flag()) {
      const length = integer();
      id = utf8.decode(bytes.subarray(at, (at += length)));
    }
    const isError = flag();
    tools.push({ id, isError, durationMs: flag() ? integer() : undefined });
  }
  return { createdAtMs, runId, step, tools, isContinuation: flag() };
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** A UUID of 16 bytes, as text. */
export function uuidAt(bytes: Uint8Array, at: number): string {
  let text = "";
  for (let index = 0; index < 16; index++) {
    if (index === 4 || index === 6 || index === 8 || index === 10) text += "-";
    text += HEX[bytes[at + index] ?? 0];
  }
  return text;
}

/** The positions of the records that a redaction names. */
export function redactedBy(payload: Uint8Array): number[] {
  if (payload.length < 24) return [];
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  const high = view.getUint32(4, true);
  // The highest bit says that it counts only as long as the record can't be read.
  const first = view.getUint32(0, true) + (high & 0x7fffffff) * 2 ** 32;
  const positions = high < 0x80000000 ? [first] : [];
  for (let bit = 0; bit < 128; bit++) if (((payload[8 + (bit >> 3)] as number) >> (bit & 7)) & 1) positions.push(first + 1 + bit);
  return positions;
}
