// What was searched for and found, over the whole store and in the family that is looked at.

import type { SearchState } from "../protocol.js";
import { type Family, livingLanes, rootSession } from "./family.js";
import type { LogIndex } from "./index.js";
import { firstWhere } from "./lists.js";
import type { Lane } from "./model.js";
import { Search } from "./search.js";
import type { Source } from "./source.js";

/** A hit in the family, as its row, its rank, and its number among those there. */
export interface NextHit {
  row: number;
  rank: number;
  laneId: string;
  number: number;
}

/** That no more hits follow in the family, but in another one, with one of its lanes. */
export interface HitElsewhere {
  elsewhere: string;
}

/** Of a row that is in no lane of a family. */
const NO_RANK = 0xffffffff;

/** How many hits aren't those of what was deleted. */
function countLiving(index: LogIndex, hits: Search["hits"]): number {
  if (![...index.sessions.values()].some((session) => session.deleted)) return hits.length;
  const living = livingLanes(index);
  return hits.view().reduce((count, row) => count + (living[index.rows.lane.at(row)] === 0 ? 0 : 1), 0);
}

export class Hits {
  #search: Search | undefined;
  /** Goes on with the search. */
  #run = () => {};
  #state: Omit<SearchState, "here"> | undefined;
  #ranks: { family: Family; of: Search["hits"]; count: number; ranks: Uint32Array } | undefined;

  /** Looks for a text; `onChange` is called as something is found, until something else is looked for. */
  search(query: string, index: LogIndex, { source, total }: { source: Source; total: number }, onChange: () => void): void {
    this.stop();
    const search = new Search(query, index, source, total);
    this.#search = search;
    const report = (problem?: string) => {
      if (this.#search !== search) return;
      this.#state = { query, hits: countLiving(index, search.hits), done: search.done, problem };
      onChange();
    };
    this.#run = () => void search.run(() => report()).catch((error: unknown) => report(error instanceof Error ? error.message : String(error)));
    this.#run();
  }

  /** The log has more, which another source reads: it is looked through as well. */
  extend(source: Source, total: number): void {
    this.#search?.extend(source, total);
    this.#run();
  }

  /** Ends the search and forgets what it found. */
  stop(): void {
    this.#search?.stop();
    this.#search = undefined;
    this.#state = undefined;
    this.#run = () => {};
  }

  has(row: number): boolean {
    return this.#search?.has(row) ?? false;
  }

  /** How far the search has come, and how much it found in a family. */
  stateIn(family: Family | undefined): SearchState | undefined {
    return this.#state && { ...this.#state, here: family === undefined ? 0 : this.#ranksIn(family).length };
  }

  /** The hit after or before a moment; after the last of the family comes the next family's, and after all of them the first again. */
  next(index: LogIndex, family: Family, at: number, forward: boolean): NextHit | HitElsewhere | undefined {
    const ranks = this.#ranksIn(family);
    const place = forward ? firstWhere(ranks.length, (hit) => (ranks[hit] as number) >= at) : firstWhere(ranks.length, (hit) => (ranks[hit] as number) >= at - 1) - 1;
    if (place < 0 || place >= ranks.length) {
      const elsewhere = this.#elsewhere(index, family, forward);
      if (elsewhere !== undefined) return { elsewhere };
      if (ranks.length === 0) return undefined;
    }
    const hit = (place + ranks.length) % ranks.length;
    const rank = ranks[hit] as number;
    const row = family.order[rank] as number;
    return { row, rank, laneId: index.lanes[index.rows.lane.at(row)]?.id ?? "", number: hit + 1 };
  }

  /** A lane of the family whose hits follow or precede those of this one: families follow each other as their first hits do in the log. */
  #elsewhere(index: LogIndex, { lanes: [current] }: Family, forward: boolean): string | undefined {
    const known = new Map<string, string>();
    const familyOf = (lane: Lane) => (lane.sessionId === undefined ? lane.id : rootSession(index, lane.sessionId, known));
    const living = livingLanes(index);
    const families = new Map<string, string>();
    for (const row of this.#search?.hits.view() ?? []) {
      const lane = index.lanes[index.rows.lane.at(row)];
      if (lane === undefined || living[lane.index] === 0) continue;
      const family = familyOf(lane);
      if (!families.has(family)) families.set(family, lane.id);
    }
    const order = [...families.keys()];
    const own = current === undefined ? -1 : order.indexOf(familyOf(current));
    if (own !== -1 && order.length === 1) return undefined;
    const next = forward ? (own + 1) % order.length : (Math.max(own, 0) - 1 + order.length) % order.length;
    return families.get(order[next] ?? "");
  }

  #ranksIn(family: Family): Uint32Array {
    if (this.#search === undefined) return new Uint32Array();
    const { hits } = this.#search;
    const known = this.#ranks;
    if (known?.family === family && known.of === hits && known.count === hits.length) return known.ranks;
    const ranks = hits.view().map((row) => family.rank[row] as number).filter((rank) => rank !== NO_RANK);
    // Rows are in the order of ranks, unless times say something else.
    if (ranks.some((rank, at) => at > 0 && rank < (ranks[at - 1] as number))) ranks.sort();
    this.#ranks = { family, of: hits, count: hits.length, ranks };
    return ranks;
  }
}
