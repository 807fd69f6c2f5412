// What is open, and what the page gets of it.

import type { StoreInfo, TreeRow } from "../protocol.js";
import type { LogIndex } from "./index.js";
import type { Payloads } from "./payloads.js";
import { type Source, markOf } from "./source.js";
import { withTasks } from "./tasks.js";
import type { Tree } from "./tree.js";

export interface Opened {
  source: Source;
  index: LogIndex;
  payloads: Payloads;
  tree: Tree;
  /** How many records were read. */
  total: number;
  /** What tells the last of them from any other. */
  mark: string | undefined;
}

/** The agent that is shown first. */
export function firstLaneIn(tree: Tree): string | undefined {
  return tree.rows(0, 64).rows.find((row) => row.laneId !== undefined)?.laneId;
}

/** Rows of the tree, with what agents were asked to do. */
export function treeRowsOf({ tree, index, payloads }: Opened, from: number, count: number): Promise<{ rows: TreeRow[]; total: number }> {
  return withTasks(tree.rows(from, count), index, payloads);
}

export function infoOf(name: string, { source, index, total }: Opened, firstLane: string): StoreInfo {
  return {
    name,
    identity: source.identity,
    records: total,
    events: index.rows.length,
    sessions: [...index.sessions.values()].filter((session) => !session.deleted).length,
    agents: index.lanes.length,
    firstLane,
    lost: [...lostOf(source.damages), ...source.leftOut].join(" ") || undefined,
  };
}

/** What couldn't be read of a store, for people. */
function lostOf(damages: readonly string[]): string[] {
  const [first] = damages;
  if (first === undefined) return [];
  const what = damages.length === 1 ? "A part of this store is damaged, and isn't shown" : `${damages.length} parts of this store are damaged, and aren't shown`;
  return [`${what}: ${first}${damages.length === 1 ? "" : "; …"}. What else there is, is shown. “runlog verify” tells of all, and “runlog verify --repair” mends what can be mended.`];
}

/** Why what is served isn't what is open, with more in it; undefined where it is that. */
export async function whyOther(opened: Opened, source: Source, total: number): Promise<string | undefined> {
  if (source.identity !== opened.source.identity) return "Another store is served here now";
  if (total < opened.total) return "The store that is served here has less than before, as after a backup was restored";
  const mark = await markOf(source, opened.total);
  const isOther = mark !== undefined && opened.mark !== undefined && mark !== opened.mark;
  return isOther ? "The store that is served here has another past than before, as after a backup was restored" : undefined;
}
