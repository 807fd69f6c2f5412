import type { Change, SnapshotInfo, SnapshotView } from "../protocol.js";
import { exactDigits, writeExact } from "./exact.js";
import type { Family } from "./family.js";
import type { LogIndex } from "./index.js";
import { Kind } from "./kinds.js";
import type { Lane } from "./model.js";
import type { Payloads } from "./payloads.js";

const CHANGES_MAX = 500;
const TEXT_MAX = 400;

/** The snapshots of a lane, which of them holds at a moment, and what changed since another one. */
export async function snapshotsOf(index: LogIndex, family: Family, payloads: Payloads, lane: Lane, moment: number, against: number | undefined): Promise<SnapshotView> {
  const all: SnapshotInfo[] = lane.snapshots.map((row) => ({
    row,
    rank: family.rank[row] as number,
    position: index.rows.position.at(row),
    sequence: index.rows.sequence.at(row),
    time: index.rows.time.at(row),
    bytes: index.rows.bytes.at(row),
    label: index.rows.kind.at(row) === Kind.SpaceSaved ? "space" : "snapshot",
  }));
  const at = all.findLastIndex((one) => one.rank < moment);
  const other = against !== undefined && against >= 0 && against < all.length ? against : at - 1;
  const changes: Change[] = [];
  const [now, before] = [all[at], all[other]];
  if (now !== undefined && before !== undefined && at !== other) {
    const [newer, older] = await Promise.all([now, before].map(async (one) => (await payloads.at(one.position))?.json));
    differ(older, newer, "", changes);
  }
  return { all, at, against: other, changes: changes.slice(0, CHANGES_MAX), more: changes.length > CHANGES_MAX };
}

/** What is different between two values, by the places where they are. */
function differ(before: unknown, after: unknown, path: string, changes: Change[]): void {
  if (changes.length > CHANGES_MAX || Object.is(before, after)) return;
  const bothHold = isHolder(before) && isHolder(after) && Array.isArray(before) === Array.isArray(after);
  if (!bothHold) {
    if (JSON.stringify(before) === JSON.stringify(after)) return;
    const kind = before === undefined ? "added" : after === undefined ? "removed" : "changed";
    changes.push({ path, kind, before: shortly(before), after: shortly(after) });
    return;
  }
  for (const key of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const own = (value: Record<string, unknown>) => (Object.hasOwn(value, key) ? value[key] : undefined);
    differ(own(before), own(after), `${path}/${key}`, changes);
  }
}

function isHolder(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && exactDigits(value) === undefined;
}

function shortly(value: unknown): string {
  const text = value === undefined ? "" : (writeExact(value, 0) ?? "");
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}…` : text;
}
