// What the page may ask. Everything is folded, filtered, searched and decoded here; the page gets what it shows.

import { type HeadsPage, init } from "runlog";

import type { Absence, Comparison, Details, EmptyStore, Filter, Grown, JsonNode, LaneChoice, LaneState, Moment, OpenedLane, Played, Progress, RawPiece, Row, Rows, SearchState, SnapshotView, StepRow, StoreInfo, TimelineData, TimelineRequest, TreeRow } from "../protocol.js";
import { standingOf } from "./chats.js";
import { compare } from "./compare.js";
import { type Lines, absenceOf, birthOf, eventsOf, groupLength, groupOf, isForgotten, lineOf, linesOf, passesOf, truncationsBy } from "./conversation.js";
import { childrenOf, detailsOf, findIn, nodeOf, partOf, pieceOf, rawOf, rawText } from "./details.js";
import { type Family, familyOf, livingLanes } from "./family.js";
import { type HitElsewhere, Hits, type NextHit } from "./hits.js";
import { LogIndex } from "./index.js";
import { firstWhere } from "./lists.js";
import { type Lane, entryOf, eventsIn } from "./model.js";
import { type Target, momentOf, nextMoment } from "./moments.js";
import { type Opened, firstLaneIn, infoOf, treeRowsOf, whyOther } from "./opened.js";
import { openGiven } from "./opening.js";
import { Payloads } from "./payloads.js";
import { bareRow, withPayload } from "./rows.js";
import { snapshotsOf } from "./snapshots.js";
import { type GivenFile, type Source, markOf } from "./source.js";
import { stepsOf } from "./steps.js";
import { timelineOf } from "./timeline.js";
import { laneTitle, titleOf } from "./titles.js";
import { type NamedTools, namedTools } from "./tools.js";
import { Tree, statusOf } from "./tree.js";
import { usageOf } from "./usage.js";

type Tell = (pushed: { progress: Progress } | { search: SearchState }) => void;

export class Api {
  #opened: Opened | undefined;
  #family: Family | undefined;
  /** The family that was looked at when the store grew last, as it was before and as it was then. */
  #grown: { before: Family; after: Family } | undefined;
  #lane: Lane | undefined;
  #hits = new Hits();
  #openGroups = new Set<number>();
  #lines: { key: string; lines: Lines } | undefined;
  #events: { key: string; ranks: Uint32Array | undefined } | undefined;
  #stepsOf: { lane: Lane; steps: StepRow[] } | undefined;
  /** Counts what is opened; the last one counts. */
  #turn = 0;
  /** Asked for first, since everything else waits for the module. */
  #ready: Promise<void> | undefined;

  constructor(private readonly tell: Tell) {}

  start(wasm: string | ArrayBuffer): Promise<void> {
    this.#ready ??= init({ wasm, worker: false });
    return this.#ready;
  }

  /** Opens what was given. One that is opened after it takes its place, also while this one is still read. */
  async open(name: string, files: GivenFile[]): Promise<StoreInfo | EmptyStore> {
    const turn = (this.#turn += 1);
    await this.#ready;
    const source = await openGiven(name, files);
    const index = new LogIndex(source.isImported);
    try {
      const total = await source.count();
      const mark = await markOf(source, total);
      await this.#each(source, 1, turn, (page, named) => {
        index.add(page, named);
        return { done: Math.min(page.next - 1, total), total };
      });
      const opened = { source, index, payloads: payloadsOf(source, index), tree: new Tree(index, source.isTranscribed), total, mark };
      const firstLane = firstLaneIn(opened.tree);
      if (firstLane === undefined) {
        await source.close();
        return { isEmpty: true, records: total };
      }
      const before = this.#opened;
      this.#opened = opened;
      this.#hits.stop();
      this.#family = undefined;
      this.#grown = undefined;
      this.#lane = undefined;
      this.#stepsOf = undefined;
      await before?.source.close().catch(() => {});
      return infoOf(name, opened, firstLane);
    } catch (error) {
      await source.close();
      throw error;
    }
  }

  /** Opens anew what is open and has grown, and reads what came since. The agent that is looked at then stays, with what is unfolded. */
  async extend(name: string, files: GivenFile[]): Promise<Grown> {
    const turn = (this.#turn += 1);
    const source = await openGiven(name, files);
    const opened = this.#store;
    // Taken in all at once: whoever asks meanwhile is answered from what there was.
    const grown: [HeadsPage, NamedTools][] = [];
    let total, mark;
    try {
      total = await source.count();
      const other = await whyOther(opened, source, total);
      if (other !== undefined) {
        await source.close();
        return { other };
      }
      mark = await markOf(source, total);
      await this.#each(source, opened.total + 1, turn, (page, named) => void grown.push([page, named]));
    } catch (error) {
      await source.close();
      throw error;
    }
    for (const [page, named] of grown) opened.index.add(page, named);
    opened.tree.grown();
    const before = opened.source;
    this.#opened = { ...opened, source, payloads: payloadsOf(source, opened.index), total, mark };
    const family = this.#family as Family;
    this.#family = undefined;
    this.#stepsOf = undefined;
    const groups = this.#openGroups;
    const lane = this.openLane((this.#lane as Lane).id);
    this.#openGroups = groups;
    this.#grown = { before: family, after: this.#family as unknown as Family };
    this.#hits.extend(source, total);
    await before.close();
    return { store: infoOf(name, this.#store, firstLaneIn(this.#store.tree) ?? lane.id), lane };
  }

  /** Goes through records in slices: in between, whoever asks something is answered, and a later opening ends it. */
  async #each(source: Source, from: number, turn: number, take: (page: HeadsPage, named: NamedTools) => Progress | void): Promise<void> {
    let pausedAt = performance.now();
    for await (const page of source.heads(from)) {
      const progress = take(page, await namedTools(page.events, (position) => source.record(position)));
      if (performance.now() - pausedAt < 100) continue;
      if (progress !== undefined) this.tell({ progress });
      await new Promise((resolve) => setTimeout(resolve, 0));
      if (turn !== this.#turn) throw new Error("Something else was opened meanwhile.");
      pausedAt = performance.now();
    }
    if (turn !== this.#turn) throw new Error("Something else was opened meanwhile.");
  }

  async treeRows(from: number, count: number): Promise<{ rows: TreeRow[]; total: number }> {
    return treeRowsOf(this.#store, from, count);
  }

  treeToggle(id: string): void {
    this.#store.tree.toggle(id);
  }

  treeFilter(text: string): void {
    this.#store.tree.filter = text;
  }

  treePlace(id: string): number {
    return this.#store.tree.placeOf(id);
  }

  treePlaceNear(id: string): number {
    return this.#store.tree.placeNear(id);
  }

  treeReveal(id: string): void {
    this.#store.tree.reveal(id);
  }

  treeAbove(place: number): number {
    return this.#store.tree.placeAbove(place);
  }

  /** Whether there is an agent, and wasn't deleted with its session. */
  laneState(id: string): LaneState {
    const { index } = this.#store;
    const lane = index.laneOf(id);
    return lane === undefined ? "none" : livingLanes(index)[lane.index] === 0 ? "deleted" : "there";
  }

  openLane(id: string): OpenedLane {
    const { index } = this.#store;
    const lane = index.laneOf(id);
    if (lane === undefined) throw new Error(`There is no agent ${id} in this store. Choose one in the tree.`);
    if (this.#family === undefined || !this.#family.lanes.includes(lane)) this.#family = familyOf(index, lane);
    this.#lane = lane;
    this.#openGroups = new Set();
    this.#tellHits();
    const family = this.#family;
    const run = index.runs[lane.runs.at(-1) ?? -1];
    const source = index.lanes[lane.forkOf];
    return {
      id,
      name: lane.name,
      session: titleOf(this.#store.index, lane),
      sessionId: lane.sessionId ?? "",
      status: statusOf(index, lane),
      statusText: run?.text ?? (lane.chat && standingOf(index.rows, lane.chat)?.error) ?? "",
      events: lane.flowStatus === undefined ? eventsIn(lane) : family.length,
      said: lane.flowStatus === undefined ? lane.entries.length : family.length,
      isDeleted: this.laneState(id) === "deleted",
      isFlow: lane.flowStatus !== undefined || (lane.entries.length === 0 && family.hasFlowEvents(lane)),
      isChat: lane.chat !== undefined,
      moments: family.length,
      lanes: family.lanes.map((one, at) => ({
        id: one.id,
        name: laneTitle(index, one),
        depth: family.depths[at] ?? 0,
        status: statusOf(index, one),
        isFork: one.forkOf >= 0,
        session: titleOf(this.#store.index, one),
      })),
      tools: toolsOf(index, family),
      folds: family.folds.length > 5000 ? [] : family.folds,
      duration: family.duration,
      firstTime: family.length === 0 ? 0 : index.rows.time.at(family.order[0] as number),
      lastTime: family.length === 0 ? 0 : index.rows.time.at(family.order[family.length - 1] as number),
      forkOf: source === undefined ? undefined : { id: source.id, name: titleOf(this.#store.index, source), at: lane.forkAt, moment: (family.rank[lane.forkRow] ?? -1) + 1 },
      steps: this.#steps(lane).length,
      snapshots: lane.snapshots.length,
      ...usageOf(lane),
    };
  }

  /** Lanes to compare with: of the same family first. */
  choices(): LaneChoice[] {
    const { index } = this.#store;
    const family = this.#family?.lanes ?? [];
    const living = livingLanes(index);
    const others = index.lanes.filter((lane) => living[lane.index] === 1 && !family.includes(lane)).slice(0, 200);
    return [...family.slice(0, 200), ...others].map((lane) => ({ id: lane.id, title: `${titleOf(this.#store.index, lane)} › ${lane.name}` }));
  }

  moment(at: number): Moment | undefined {
    return this.#family === undefined ? undefined : momentOf(this.#store.index, this.#family, at);
  }

  /** The moment right after the event at a position, 0 for the beginning; undefined where the session has no event there. */
  momentOfPosition(position: number): number | undefined {
    const row = this.#store.index.rowAt(position);
    const rank = row < 0 ? -1 : (this.#family?.rank[row] ?? -1);
    return position === 0 ? 0 : rank < 0 ? undefined : rank + 1;
  }

  /** The moment right after the same event as one had before the store grew: what came may have happened earlier. */
  momentSince(before: number): number {
    if (this.#grown === undefined) return before;
    const { before: family, after } = this.#grown;
    // What was deleted has no moment any more: that before it has.
    for (let rank = before - 1; rank >= 0; rank--) {
      const now = after.rank[family.order[rank] as number] as number;
      if (now >= 0) return now + 1;
    }
    return 0;
  }

  momentAt(folded: number): number {
    return this.#family?.momentAt(folded) ?? 0;
  }

  /** Where playing is so long after the last event before a moment, in folded time; of how many records that is so. */
  play(moment: number, since: number): Played {
    const { total } = this.#store;
    const { folded, length, duration } = this.#family as Family;
    const at = (folded[moment - 1] ?? 0) + since;
    const now = Math.max(moment, this.momentAt(at));
    return { records: total, moment: at < duration ? now : length, since: at - (folded[now - 1] ?? 0), isOver: at >= duration };
  }

  next(at: number, what: Target, forward: boolean): number | undefined {
    return nextMoment(this.#store.index, this.#family as Family, this.#lane as Lane, at, what, forward);
  }

  async conversation(from: number, count: number, moment: number, filter: Filter): Promise<Rows> {
    const { index, payloads } = this.#store;
    const family = this.#family as Family;
    const lane = this.#lane as Lane;
    const lines = this.#linesAt(moment, filter);
    const total = lines.until(moment);
    const rows: Row[] = [];
    for (let at = from; at < Math.min(total, from + count); at++) {
      const item = lines.items[at] as number;
      const entry = item < 0 ? ~item : item;
      const row = bareRow(index, family, lane.entries.at(entry), moment, lane);
      row.rank = birthOf(family, lane, entry);
      if (item < 0) {
        rows.push({ ...row, kind: "group", members: groupLength(lane, entry), open: this.#openGroups.has(entry), forgotten: true });
        continue;
      }
      row.forgotten = isForgotten(family, lane, entry, moment);
      row.hit = [row.row, row.result, row.message].some((at) => this.#hits.has(at));
      if (entry < lane.inherited) row.inherited = titleOf(this.#store.index, index.lanes[lane.forkOf] as Lane);
      rows.push(row);
    }
    await Promise.all(rows.map((row) => (row.kind === "group" ? row : withPayload(row, index, lane, payloads, true))));
    return { from, rows, total };
  }

  /** Shows the members of a folded group, or folds them again. */
  toggleGroup(row: number): void {
    const lane = this.#lane as Lane;
    const entry = entryOf(lane, row);
    if (!this.#openGroups.delete(entry)) this.#openGroups.add(entry);
    this.#lines = undefined;
  }

  async events(from: number, count: number, moment: number, filter: Filter): Promise<Rows> {
    const { index, payloads } = this.#store;
    const family = this.#family as Family;
    const ranks = this.#eventsOf(filter);
    const total = ranks?.length ?? family.length;
    const rows: Row[] = [];
    for (let at = from; at < Math.min(total, from + count); at++) {
      const rank = ranks === undefined ? at : (ranks[at] as number);
      const row = bareRow(index, family, family.order[rank] as number, moment, undefined);
      row.hit = this.#hits.has(row.row);
      row.forgotten = this.#isForgottenBy(row.row, moment);
      rows.push(row);
    }
    await Promise.all(rows.map((row) => withPayload(row, index, undefined, payloads, false)));
    return { from, rows, total };
  }

  /** Shows the members of the folded group that an event is in. */
  unfold(row: number): void {
    const lane = this.#lane as Lane;
    this.#openGroups.add(groupOf(lane, entryOf(lane, lineOf(this.#store.index, row))));
    this.#lines = undefined;
  }

  /** Why an event isn't in a list as it is shown; undefined where it is. */
  absence(row: number, list: "conversation" | "events", moment: number, filter: Filter): Absence | undefined {
    const { index } = this.#store;
    const [family, lane] = [this.#family as Family, this.#lane as Lane];
    if (list === "events") return this.#passes(filter)?.(row) === false ? "filter" : undefined;
    return absenceOf(index, family, lane, row, moment, this.#passes(filter, lane), this.#openGroups);
  }

  /** Where an event stands in the list that is shown. */
  placeOf(row: number, list: "conversation" | "events", moment: number, filter: Filter): number {
    const family = this.#family as Family;
    const lane = this.#lane as Lane;
    if (list === "events") {
      const rank = family.rank[row] as number;
      const ranks = this.#eventsOf(filter);
      return ranks === undefined ? rank : firstWhere(ranks.length, (at) => (ranks[at] as number) >= rank);
    }
    const wanted = lineOf(this.#store.index, row);
    const lines = this.#linesAt(moment, filter);
    for (let at = 0; at < lines.items.length; at++) {
      const item = lines.items[at] as number;
      if (item >= 0 && lane.entries.at(item) === wanted) return at;
    }
    return -1;
  }

  steps(from: number, count: number): { rows: StepRow[]; total: number } {
    const steps = this.#steps(this.#lane as Lane);
    return { rows: steps.slice(from, from + count), total: steps.length };
  }

  /** What an event is; of a call with this result, by default the one that it has now. */
  details(row: number, result?: number): Promise<Details> {
    const { index, payloads } = this.#store;
    return detailsOf(index, this.#family, payloads, row, this.#lane, result);
  }

  async text(row: number, part: string, from: number): Promise<{ text: string; next: number }> {
    return pieceOf(await this.#part(row, part), from);
  }

  async raw(row: number, from: number): Promise<RawPiece> {
    return rawText(await rawOf(this.#store.index, this.#store.payloads, row), from);
  }

  async jsonRoot(row: number, part: string): Promise<JsonNode> {
    return nodeOf("", "", await this.#part(row, part));
  }

  async jsonChildren(row: number, part: string, path: string, from: number, count: number): Promise<JsonNode[]> {
    return childrenOf(await this.#part(row, part), path, from, count);
  }

  async jsonFind(row: number, part: string, query: string): Promise<string[]> {
    return findIn(await this.#part(row, part), query);
  }

  snapshots(moment: number, against: number | undefined): Promise<SnapshotView> {
    const { index, payloads } = this.#store;
    return snapshotsOf(index, this.#family as Family, payloads, this.#lane as Lane, moment, against);
  }

  compare(leftId: string, rightId: string, count: number, withShared: boolean): Promise<Comparison> {
    const { index, payloads } = this.#store;
    const [left, right] = [index.laneOf(leftId), index.laneOf(rightId)];
    if (left === undefined || right === undefined) throw new Error("One of the two isn't in this store. Choose them again.");
    return compare(index, payloads, left, right, count, withShared);
  }

  timeline(request: TimelineRequest): TimelineData {
    return timelineOf(this.#store.index, this.#family as Family, request, (row) => this.#hits.has(row));
  }

  /** The first and the last event of a stretch of folded time, by their positions; undefined where there is none. */
  range(from: number, to: number): [number, number] | undefined {
    const family = this.#family as Family;
    return this.rangeOfRanks(firstWhere(family.length, (rank) => (family.folded[rank] as number) >= from), family.momentAt(to));
  }

  /** The same of ranks, the first and the one after the last. */
  rangeOfRanks(first: number, end: number): [number, number] | undefined {
    const { order, length } = this.#family as Family;
    const positionOf = (rank: number) => this.#store.index.rows.position.at(order[rank] as number);
    const last = Math.min(end, length) - 1;
    return first > last ? undefined : [positionOf(first), positionOf(last)];
  }

  /** When the two events at the ends of a range were, by their positions: by the clock, and in folded time. */
  rangeTimes(range: [number, number]): { time: number; folded: number }[] {
    const { index } = this.#store;
    const family = this.#family as Family;
    return range.map((position) => {
      const row = index.rowAt(position);
      return { time: index.rows.time.at(row), folded: family.folded[family.rank[row] ?? -1] ?? 0 };
    });
  }

  search(query: string): void {
    this.#forgetLists();
    this.#hits.stop();
    if (query === "") return this.tell({ search: { query, hits: 0, here: 0, done: true, problem: undefined } });
    this.#hits.search(query, this.#store.index, this.#store, () => this.#tellHits());
  }

  #tellHits(): void {
    this.#forgetLists();
    const search = this.#hits.stateIn(this.#family);
    if (search !== undefined) this.tell({ search });
  }

  nextHit(at: number, forward: boolean): NextHit | HitElsewhere | undefined {
    return this.#family === undefined ? undefined : this.#hits.next(this.#store.index, this.#family, at, forward);
  }

  #isForgottenBy(row: number, moment: number): boolean {
    const { index } = this.#store;
    const family = this.#family as Family;
    const lane = index.lanes[index.rows.lane.at(row)];
    if (lane === undefined || lane.truncations.length === 0) return false;
    const entry = entryOf(lane, row);
    return entry >= lane.inherited && isForgotten(family, lane, entry, moment);
  }

  /** What a filter leaves is another with other hits. */
  #forgetLists(): void {
    this.#lines = undefined;
    this.#events = undefined;
  }

  #linesAt(moment: number, filter: Filter): Lines {
    const family = this.#family as Family;
    const lane = this.#lane as Lane;
    const key = JSON.stringify([filter, truncationsBy(family, lane, moment), [...this.#openGroups]]);
    if (this.#lines?.key !== key) this.#lines = { key, lines: linesOf(this.#store.index, family, lane, moment, this.#passes(filter, lane), this.#openGroups) };
    return this.#lines.lines;
  }

  #eventsOf(filter: Filter): Uint32Array | undefined {
    const key = JSON.stringify(filter);
    if (this.#events?.key !== key) this.#events = { key, ranks: eventsOf(this.#family as Family, this.#passes(filter)) };
    return this.#events.ranks;
  }

  #passes(filter: Filter, lane?: Lane) {
    return passesOf(this.#store.index, this.#family as Family, filter, (row) => this.#hits.has(row), lane);
  }

  /** The steps of a lane as it is now. */
  #steps(lane: Lane): StepRow[] {
    if (this.#stepsOf?.lane !== lane) this.#stepsOf = { lane, steps: stepsOf(this.#store.index, this.#family as Family, lane) };
    return this.#stepsOf.steps;
  }

  #part(row: number, part: string): Promise<unknown> {
    return partOf(this.#store.index, this.#store.payloads, row, part, this.#lane);
  }

  get #store(): Opened {
    if (this.#opened === undefined) throw new Error("Nothing is open yet.");
    return this.#opened;
  }
}

function payloadsOf(source: Source, index: LogIndex): Payloads {
  return new Payloads(source, (stream, sequence, before) => index.snapshotAt(stream, sequence, before));
}

/** The names of the tools that were called in a family. */
function toolsOf(index: LogIndex, family: Family): string[] {
  const found = new Set<number>();
  for (const row of family.order) found.add(index.rows.tool.at(row));
  found.delete(-1);
  return [...found].map((tool) => index.tools[tool] ?? "");
}
