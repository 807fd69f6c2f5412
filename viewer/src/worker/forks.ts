// When forks were made, in what was imported: the record of a fork has the time of the import there, as an export has none of it.

import type { LogIndex } from "./index.js";
import type { Lane } from "./model.js";

/** Forks whose own records don't tell when they were made. */
export class UndatedForks {
  readonly #lanes = new Set<Lane>();

  constructor(private readonly index: LogIndex) {}

  add(lane: Lane): void {
    // The time of the import isn't the last one of a lane.
    lane.lastTime = Number.NaN;
    this.#lanes.add(lane);
  }

  /** Dates those of which by now more is known: their sessions, which an export has behind all events, or events of their own. */
  date(): void {
    const { rows } = this.index;
    for (const lane of this.#lanes) {
      const made = this.#madeWithSession(lane);
      const begun = this.#begun(lane);
      const time = made === undefined ? begun : Math.min(made, begun ?? made);
      if (made !== undefined) this.#lanes.delete(lane);
      // The mark that says that a chat is a copy has no time either.
      if (time !== undefined) for (const row of [lane.forkRow, ...lane.undated]) rows.time.set(row, time);
      lane.firstTime = rows.time.at(lane.forkRow);
      if (begun === undefined) lane.lastTime = lane.firstTime;
    }
  }

  /** When the session of a fork was made, if that was a copy of the one that the fork is of: then they were made at once. */
  #madeWithSession(lane: Lane): number | undefined {
    const session = this.index.sessions.get(lane.sessionId ?? "");
    const source = this.index.lanes[lane.forkOf]?.sessionId;
    const isCopied = session?.copiedFrom !== undefined && session.copiedFrom === source;
    return isCopied && session.createdAt > 0 ? session.createdAt : undefined;
  }

  /** When the first of its own events happened, or its first run began. */
  #begun(lane: Lane): number | undefined {
    const { rows, runs } = this.index;
    const run = runs[lane.runs[0] ?? -1];
    const times = lane.entries.length > lane.inherited ? [rows.time.at(lane.entries.at(lane.inherited))] : [];
    if (run !== undefined && run.createdAt > 0) times.push(run.createdAt);
    return times.length === 0 ? undefined : Math.min(...times);
  }
}
