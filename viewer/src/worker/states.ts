// The states of a flow, each of which may be saved as its difference from an earlier one. docs/decisions has why, under 25.

import { crc32 } from "./crc.js";
import type { Status } from "./model.js";

/** The last byte of the metadata of a flow's snapshot: of one that is whole, and of a difference. */
const [WHOLE, DIFFERENCE] = [111, 110];
/** A state is made of no more differences, and is no longer. */
const [DIFFERENCES_MAX, BYTES_MAX] = [1_000, 64 << 20];

/** A range of the earlier state, `[offset, length]` in bytes, or new text. */
type Part = [number, number] | string;

interface Difference {
  from: { sequence: number; crc: number };
  diff: Part[];
}

/** What is read of a snapshot. */
export interface Saved {
  readonly sequence: number;
  readonly meta: Uint8Array;
  readonly payload: Uint8Array;
}

const STATUSES: readonly string[] = ["running", "paused", "completed", "failed", "cancelled"] satisfies Status[];

/** The status that a flow's state says, where it is a word that is known. */
export function statusIn(state: Record<string, unknown>): Status | undefined {
  const { status } = state;
  return typeof status === "string" && STATUSES.includes(status) ? (status as Status) : undefined;
}

export function isFlowSnapshot(meta: Uint8Array): boolean {
  return meta.length === 2 && (meta[1] === WHOLE || meta[1] === DIFFERENCE);
}

export function isDifference(meta: Uint8Array): boolean {
  return meta.length === 2 && meta[1] === DIFFERENCE;
}

/**
 * The text of a state, in UTF-8; undefined where one that it differs from isn't there any more.
 *
 * @param earlier - The newest snapshot of the stream at a sequence.
 */
export async function wholeState(saved: Saved, earlier: (sequence: number) => Promise<Saved | undefined>): Promise<Uint8Array | undefined> {
  const differences: Difference[] = [];
  let at = saved;
  while (isDifference(at.meta)) {
    const difference = differenceOf(at.payload);
    if (difference === undefined || difference.from.sequence >= at.sequence || differences.length >= DIFFERENCES_MAX) return undefined;
    differences.push(difference);
    const before = await earlier(difference.from.sequence);
    if (before === undefined || !isFlowSnapshot(before.meta)) return undefined;
    at = before;
  }
  let text = at.payload;
  for (const { from, diff } of differences.reverse()) {
    if (crc32(text) !== from.crc.toString(16).padStart(8, "0")) return undefined;
    const next = applied(diff, text);
    if (next === undefined) return undefined;
    text = next;
  }
  return text;
}

const encoder = new TextEncoder();

function applied(diff: readonly Part[], base: Uint8Array): Uint8Array | undefined {
  const parts: Uint8Array[] = [];
  let length = 0;
  for (const part of diff) {
    const bytes = typeof part === "string" ? encoder.encode(part) : base.subarray(part[0], part[0] + part[1]);
    if (typeof part !== "string" && bytes.length !== part[1]) return undefined;
    parts.push(bytes);
    length += bytes.length;
    if (length > BYTES_MAX) return undefined;
  }
  const whole = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

function differenceOf(payload: Uint8Array): Difference | undefined {
  try {
    const found = JSON.parse(new TextDecoder().decode(payload)) as Partial<Difference>;
    const isPart = (part: unknown) => typeof part === "string" || (Array.isArray(part) && part.length === 2 && part.every((number) => Number.isSafeInteger(number) && number >= 0));
    const { from, diff } = found;
    return Number.isSafeInteger(from?.sequence) && Number.isSafeInteger(from?.crc) && Array.isArray(diff) && diff.every(isPart) ? (found as Difference) : undefined;
  } catch {
    return undefined;
  }
}
