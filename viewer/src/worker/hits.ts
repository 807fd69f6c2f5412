// What was searched for and found, over the whole store and in the family that is looked at.

import type { SearchState } from "../protocol.js";
import { type Family, livingLanes } from "./family.js";
import type { LogIndex } from "./index.js";
import { firstWhere } from "./lists.js";
import { Search } from "./search.js";
import type { Source } from "./source.js";

/** A hit in the family, as its row, its rank, and its number among those there. */
export interface NextHit {
  row: number;
  rank: number;
  laneId: string;
  number: number;
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
  #ranks: { family: Family; of: Search["hits"]; count: number; ranks: Uint32Array } | undefined;

  /** Looks for a text; `tell` hears of what is found meanwhile, until something else is looked for. */
  search(query: string, index: LogIndex, { source, total }: { source: Source; total: number }, tell: (state: Omit<SearchState, "here">) => void): void {
    this.stop();
    const search = new Search(query, index, source, total);
    this.#search = search;
    const report = (problem?: string) => {
      if (this.#search === search) tell({ query, hits: countLiving(index, search.hits), done: search.done, problem });
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
    this.#run = () => {};
  }

  has(row: number): boolean {
    return this.#search?.has(row) ?? false;
  }

  countIn(family: Family | undefined): number {
    return family === undefined ? 0 : this.#ranksIn(family).length;
  }

  /** The hit after or before a moment; after the last comes the first. */
  next(index: LogIndex, family: Family, at: number, forward: boolean): NextHit | undefined {
    const ranks = this.#ranksIn(family);
    if (ranks.length === 0) return undefined;
    const after = firstWhere(ranks.length, (hit) => (ranks[hit] as number) >= at);
    const hit = forward ? after % ranks.length : (firstWhere(ranks.length, (place) => (ranks[place] as number) >= at - 1) - 1 + ranks.length) % ranks.length;
    const rank = ranks[hit] as number;
    const row = family.order[rank] as number;
    return { row, rank, laneId: index.lanes[index.rows.lane.at(row)]?.id ?? "", number: hit + 1 };
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
