import type { Details, Filter, Moment, OpenedLane, SearchState, StoreInfo } from "../protocol.js";
import { plain } from "./ansi.js";
import { clock, dateTime } from "./format.js";
import { type Place, isFiltered, noFilter, readPlace, writePlace } from "./hash.js";
import { noAgent, quoted, whyLost } from "./lost.js";
import { messageOf, messages } from "./messages.svelte.js";
import { panels } from "./panels.svelte.js";
import type { Remote } from "./rpc.js";

export type Tab = "conversation" | "events" | "steps" | "snapshot" | "compare";
export const TABS: Tab[] = ["conversation", "events", "steps", "snapshot", "compare"];

const DAY_MS = 86_400_000;
const NOTHING_UNREAD = { conversation: 0, events: 0 };

/**
 * What is looked at: an agent at a moment, an event, search and filters, and the address that says all of it. Where the recording
 * comes from, and whether it still grows, is nothing that it knows of.
 */
class View {
  /** The worker, which is asked for all that is shown of a recording; undefined until it is there. */
  remote = $state.raw<Remote>();
  store = $state.raw<StoreInfo>();
  /** The agent that is looked at; undefined where nothing is open. */
  lane = $state.raw<OpenedLane>();
  tab = $state<Tab>("conversation");
  compareWith = $state<string>();

  /** How many events have happened, of all that there are. */
  moment = $state(0);
  now = $state.raw<Moment>();
  /** Set while the moment is moved, so that the lists follow it. */
  followsMoment = $state(false);
  /** Set while its reader has gone back in a list, which stays there while the recording is played. */
  isHeld = false;

  filter = $state.raw<Filter>(noFilter());
  query = $state("");
  search = $state.raw<SearchState>();
  hitNumber = $state(0);

  selected = $state<number>();
  details = $state.raw<Details>();
  detailsProblem = $state<string>();

  /** Counts when one goes to a moment, also to the one that is shown already. */
  seeks = $state(0);
  /** The agent of an error that was gone to, another object each time. */
  errorAt = $state.raw<{ laneId: string }>();
  /** Counts when lists are asked to bring what is selected into view once more. */
  sought = $state(0);

  /** How many events came below what is read, of the agent and of all that are shown. */
  unread = $state.raw(NOTHING_UNREAD);

  /** Whether the events are shown because a flow has nothing else. */
  #isTabOfFlow = false;
  /** Counts what makes lists other ones, such as hits that were found. */
  #revision = $state(0);
  /** Counts where one went, so that what takes longer doesn't come after what was asked for later. */
  #arrivals = 0;
  #momentAsked = 0;
  #stepped: Promise<unknown> = Promise.resolve();
  /** The notice about the last address. */
  #lost: string | undefined;
  /** Where to go once the search has found something. */
  #goes: { forward: boolean } | undefined;

  /** What is the same for as long as a list has the same rows. */
  get version(): string {
    return `${this.lane?.id ?? ""} ${this.#revision} ${JSON.stringify(this.filter)}`;
  }

  /** Whether what is looked at took longer than a day, so that a clock alone doesn't say when something was. */
  get isDated(): boolean {
    return this.lane !== undefined && this.lane.lastTime - this.lane.firstTime > DAY_MS;
  }

  /** A time, with its date where it needs one. */
  clock(ms: number): string {
    return this.isDated ? dateTime(ms) : clock(ms);
  }

  // What is open.

  /** Takes what the worker has opened. An agent of it is gone to next. */
  begin(store: StoreInfo): void {
    this.search = undefined;
    this.query = "";
    this.store = store;
  }

  /** Takes what the log has got since. Whoever stands at the end stays there; else what is looked at stays where it is. */
  async grow(store: StoreInfo, lane: OpenedLane): Promise<void> {
    const { lane: before } = this;
    if (before === undefined) return;
    let seen: number;
    let moment: number | undefined;
    // It may move meanwhile, as it does while it is played, and is then as of before still.
    do {
      seen = this.moment;
      moment = seen >= before.moments ? lane.moments : await this.remote?.momentSince(seen);
    } while (moment !== undefined && this.lane === before && this.moment !== seen);
    const wasAtEnd = seen >= before.moments;
    if (this.lane === undefined || moment === undefined) return;
    this.store = store;
    // Another agent may have been opened meanwhile.
    if (this.lane === before) {
      this.lane = lane;
      if (lane.isFlow !== before.isFlow) this.#fitTab(lane);
    }
    if (wasAtEnd && lane.id === before.id) this.unread = { conversation: this.unread.conversation + lane.said - before.said, events: this.unread.events + lane.moments - before.moments };
    const isOfFamily = this.lane.lanes.some((one) => one.id === lane.id);
    if (this.moment === seen && moment !== seen && isOfFamily) {
      this.moment = moment;
      await this.#lookAround();
    }
    this.#revision += 1;
    await this.#lookAgain();
  }

  /** What is looked into may have its result by now, or be taken out of the store. */
  async #lookAgain(): Promise<void> {
    const { details: before } = this;
    if (before === undefined || before.row !== this.selected) return;
    const details = await this.remote?.details(before.row);
    // Only what is another is shown anew: whoever reads it, or searches in it, isn't disturbed.
    if (this.details === before && JSON.stringify(details) !== JSON.stringify(before)) this.details = details;
  }

  /** Nothing is open any more. */
  end(): void {
    this.nothingUnread();
    this.lane = undefined;
    history.replaceState(undefined, "", location.pathname + location.search);
  }

  // Where one is.

  /** Opens an agent's lane. Agents of one session share their moments, so that moment, selection and filters stay. */
  async goTo(laneId: string): Promise<void> {
    const before = this.lane;
    const arrival = (this.#arrivals += 1);
    const lane = await this.remote?.openLane(laneId);
    // Somebody who goes back and forth quickly is on the way somewhere else by now.
    if (lane === undefined || arrival !== this.#arrivals) return;
    if (before !== undefined && before.id !== laneId) this.#remember();
    this.#tellLost([]);
    if (before?.lanes.some((one) => one.id === laneId) !== true) {
      this.filter = noFilter();
      this.compareWith = undefined;
      this.moment = lane.moments;
      this.hitNumber = 0;
      this.#forgetSelection();
    }
    await this.#arrive(lane);
    if (arrival === this.#arrivals) this.writeAddress();
  }

  /** Goes where the address says; to an agent, where it names none. */
  async goToAddress(otherwise: string): Promise<void> {
    const { remote } = this;
    if (remote === undefined) return;
    const { hash } = location;
    const arrival = (this.#arrivals += 1);
    const { place, lost } = await this.#placeIn(remote, hash);
    const lane = await remote.openLane(place.lane ?? otherwise);
    if (arrival !== this.#arrivals) return;
    const moment = place.at === undefined ? lane.moments : await remote.momentOfPosition(place.at);
    const event = place.event === undefined ? 0 : await remote.momentOfPosition(place.event);
    const range = await this.#rangeIn(remote, place, lost.notices);
    if (arrival !== this.#arrivals) return;
    if (lost.agent) lost.notices.push(`${lost.agent}: ${plain(lane.name)} is shown, at its end.`);
    if (moment === undefined) lost.notices.push(`There is no event at position ${place.at} in this session: its end is shown.`);
    if (event === undefined) lost.notices.push(`There is no event at position ${place.event} in this session: none is selected.`);
    this.filter = { ...place.filter, ...this.#knownIn(lane, place.filter, lost.notices), range };
    this.tab = TABS.find((tab) => tab === place.tab) ?? "conversation";
    this.#isTabOfFlow = false;
    this.compareWith = place.with;
    if (place.query !== this.query) this.#find(place.query);
    this.moment = moment ?? lane.moments;
    this.#forgetSelection();
    this.#tellLost(lost.notices);
    await this.#arrive(lane);
    if (event !== undefined && event > 0) {
      const row = await this.rowAtRank(event - 1);
      if (arrival !== this.#arrivals) return;
      if (row !== undefined) await this.#look(row, true);
    }
    // The address may be that of another place meanwhile, which gets its notice in a moment: writing would take it away.
    if (arrival === this.#arrivals && location.hash === hash) this.writeAddress();
  }

  /** What an address says, without what isn't there, and the notices about that. What is said of an agent that isn't there may be of
   * another recording altogether: nothing of it is followed. */
  async #placeIn(remote: Remote, hash: string): Promise<{ place: Place; lost: { agent: string | undefined; notices: string[] } }> {
    const place = readPlace(hash);
    const lost = await whyLost(remote, place.lane);
    if (lost !== undefined) return { place: readPlace(""), lost: { agent: lost, notices: [] } };
    const notices = place.odd.map((odd) => `${quoted(odd)} means nothing here.`);
    if (place.tab !== undefined && !TABS.some((tab) => tab === place.tab)) notices.push(`There is no view ${quoted(place.tab)}: the conversation is shown.`);
    if (place.with !== undefined && place.with === place.lane) {
      notices.push("An agent isn't compared with itself.");
      place.with = undefined;
    } else {
      const other = await whyLost(remote, place.with);
      if (other !== undefined) {
        notices.push(`${other}: it isn't compared with.`);
        place.with = undefined;
      }
    }
    return { place, lost: { agent: undefined, notices } };
  }

  /** The agents and tools of a filter that there are. */
  #knownIn(lane: OpenedLane, { agents, tools }: Filter, notices: string[]): Pick<Filter, "agents" | "tools"> {
    const known = { agents: agents.filter((id) => lane.lanes.some((one) => one.id === id)), tools: tools.filter((tool) => lane.tools.includes(tool)) };
    for (const id of agents) if (!known.agents.includes(id)) notices.push(`${noAgent(id, "session")}: it is no filter.`);
    for (const tool of tools) if (!known.tools.includes(tool)) notices.push(`There is no tool ${quoted(tool)} in this session: it is no filter.`);
    return known;
  }

  /** The range of a filter, where its events are there. */
  async #rangeIn(remote: Remote, { filter, ranks }: Place, notices: string[]): Promise<Filter["range"]> {
    const range = filter.range ?? (ranks && (await remote.rangeOfRanks(...ranks)));
    if (range !== undefined) {
      const [from = 0, to = 0] = await Promise.all(range.map((position) => remote.momentOfPosition(position)));
      if (from > 0 && from <= to) return range;
    }
    if (range !== undefined || ranks !== undefined) notices.push("The events that the link shows alone aren't in this session: they are no filter.");
    return undefined;
  }

  /** Says what of an address isn't there; an address that can be followed takes it away. */
  #tellLost(notices: string[]): void {
    if (messages.problem === this.#lost) messages.problem = undefined;
    this.#lost = notices.length === 0 ? undefined : `The link isn't followed as it is. ${notices.join(" ")}`;
    if (this.#lost !== undefined) messages.problem = this.#lost;
  }

  async #arrive(lane: OpenedLane): Promise<void> {
    this.lane = lane;
    this.isHeld = false;
    this.nothingUnread();
    this.#fitTab(lane);
    this.followsMoment = false;
    this.#revision += 1;
    panels.drawer = false;
    await this.#lookAround();
  }

  /** A flow has no conversation: its events are shown instead, until one is at an agent again. */
  #fitTab(lane: OpenedLane): void {
    if (lane.isFlow ? this.tab !== "conversation" : this.tab !== "events" || !this.#isTabOfFlow) return;
    this.tab = lane.isFlow ? "events" : "conversation";
    this.#isTabOfFlow = lane.isFlow;
  }

  setTab(tab: Tab): void {
    if (tab !== this.tab) this.#remember();
    this.#isTabOfFlow = false;
    this.nothingUnread();
    this.tab = tab;
    this.writeAddress();
  }

  /** The end of the list is in view: what comes is followed again. */
  sawEnd(): void {
    this.isHeld = false;
    this.nothingUnread();
  }

  /** The end of the list was seen, or another list is shown. */
  nothingUnread(): void {
    if (this.unread.conversation + this.unread.events > 0) this.unread = NOTHING_UNREAD;
  }

  // The moment.

  seek(moment: number): void {
    this.isHeld = false;
    this.playTo(moment);
  }

  /** The moment goes on by itself. */
  playTo(moment: number): void {
    const { lane } = this;
    if (lane === undefined) return;
    this.moment = Math.max(0, Math.min(lane.moments, Math.round(moment)));
    if (!this.isHeld) this.followsMoment = true;
    this.seeks += 1;
    void this.#lookAround().then(() => this.writeAddress());
  }

  async step(what: "event" | "step" | "error", forward: boolean): Promise<void> {
    // One after the other: where the next one goes from is known once the one before is there.
    const stepped = this.#stepped.then(async () => {
      const moment = await this.remote?.next(this.moment, what, forward);
      if (moment !== undefined) this.seek(moment);
      return moment;
    });
    this.#stepped = stepped.catch(() => {});
    const moment = await stepped;
    if (moment === undefined) return;
    const row = await this.rowAtRank(moment - 1);
    if (row !== undefined && (what === "error" || this.details !== undefined)) await this.select(row, what === "error");
    if (what === "error" && this.details?.row === row && this.details !== undefined) this.errorAt = { laneId: this.details.laneId };
  }

  /** Moves to right after the event that is selected. */
  async seekSelected(): Promise<void> {
    if (this.selected === undefined) return;
    // What is looked at may still be on its way.
    const details = await this.remote?.details(this.selected);
    if (details !== undefined && details.rank >= 0) this.seek(details.rank + 1);
  }

  /** The event of a rank, by its row; the beginning has none. */
  async rowAtRank(rank: number): Promise<number | undefined> {
    if (rank < 0) return undefined;
    const page = await this.remote?.events(rank, 1, this.moment, noFilter());
    return page?.rows[0]?.row;
  }

  async #lookAround(): Promise<void> {
    const asked = (this.#momentAsked += 1);
    const now = await this.remote?.moment(this.moment);
    if (asked === this.#momentAsked) this.now = now;
  }

  // The event that is looked into.

  async select(row: number, open = true): Promise<void> {
    await this.#look(row, open);
    this.writeAddress();
  }

  async #look(row: number, open: boolean): Promise<void> {
    this.selected = row;
    this.detailsProblem = undefined;
    if (open) panels.showInspector();
    try {
      const details = await this.remote?.details(row);
      if (this.selected === row) this.details = details;
    } catch (error) {
      this.detailsProblem = messageOf(error);
    }
  }

  /** Shows what a truncation took back together, or folds it again; by the row of its first event. */
  async toggleGroup(row: number): Promise<void> {
    // What is unfolded stays where it is.
    this.followsMoment = false;
    await this.remote?.toggleGroup(row);
    this.#revision += 1;
  }

  /** Shows the folded group that the selected event is in. */
  async unfoldSelected(): Promise<void> {
    if (this.selected === undefined) return;
    await this.remote?.unfold(this.selected);
    this.#revision += 1;
    this.sought += 1;
  }

  unselect(): void {
    this.#forgetSelection();
    panels.sheet = false;
    this.writeAddress();
  }

  #forgetSelection(): void {
    this.selected = undefined;
    this.details = undefined;
  }

  // Search and filters.

  find(query: string): void {
    this.#find(query);
    this.writeAddress();
  }

  /** The same, and goes to the first hit once there is one. */
  findAndGo(query: string, forward: boolean): void {
    this.#find(query);
    this.#goes = { forward };
    this.writeAddress();
  }

  #find(query: string): void {
    this.query = query;
    this.hitNumber = 0;
    this.#goes = undefined;
    void this.remote?.search(query);
    if (query === "" && this.filter.onlyHits) this.filter = { ...this.filter, onlyHits: false };
    this.#revision += 1;
  }

  /** The search has found something. */
  found(search: SearchState): void {
    this.search = search.query === "" ? undefined : search;
    this.#revision += 1;
    const goes = search.query === this.query && (search.here > 0 || search.done) ? this.#goes : undefined;
    if (goes === undefined) return;
    this.#goes = undefined;
    void this.nextHit(goes.forward);
  }

  async nextHit(forward: boolean, isElsewhere = false): Promise<void> {
    const { lane, remote } = this;
    if (lane === undefined || remote === undefined) return;
    const from = this.details !== undefined && this.details.rank >= 0 ? this.details.rank + 1 : forward ? 0 : lane.moments + 1;
    const hit = await remote.nextHit(from, forward);
    if (hit === undefined) return;
    if ("elsewhere" in hit) {
      await this.goTo(hit.elsewhere);
      if (!isElsewhere) await this.nextHit(forward, true);
      return;
    }
    this.hitNumber = hit.number;
    if (hit.laneId !== lane.id && this.tab !== "events") await this.goTo(hit.laneId);
    if (hit.rank >= this.moment) this.moment = lane.moments;
    await this.select(hit.row);
  }

  setFilter(change: Partial<Filter>): void {
    this.filter = { ...this.filter, ...change };
    this.#revision += 1;
    this.writeAddress();
  }

  clearFilter(): void {
    this.setFilter(noFilter());
  }

  get isFiltered(): boolean {
    return isFiltered(this.filter);
  }

  // The address.

  /** Follows an address that was changed by hand, or by going back. */
  async followAddress(): Promise<void> {
    const { hash } = location;
    const { remote } = this;
    if (remote === undefined || this.lane === undefined || hash === "" || hash === this.#address()) return;
    try {
      const { lane } = readPlace(hash);
      const lost = await whyLost(remote, lane);
      if (lost !== undefined) {
        this.#tellLost([`${lost}: what was shown stays.`]);
        this.writeAddress();
        return;
      }
      await this.goToAddress(this.lane.id);
    } catch (error) {
      messages.problem = messageOf(error);
      this.writeAddress();
    }
  }

  writeAddress(): void {
    if (this.lane === undefined) return;
    history.replaceState(undefined, "", this.#address());
  }

  async copyLink(): Promise<void> {
    this.writeAddress();
    await messages.copy(location.href, "Link copied.", "it is in the address line");
  }

  /** Keeps where one is, so that the browser goes back to it. */
  #remember(): void {
    history.pushState(undefined, "", location.href);
  }

  #address(): string {
    const { lane, now } = this;
    return writePlace({
      lane: lane?.id,
      tab: this.tab,
      at: lane === undefined || this.moment >= lane.moments ? undefined : (now?.position ?? 0),
      event: this.details?.position,
      query: this.query,
      with: this.tab === "compare" && this.compareWith !== lane?.id ? this.compareWith : undefined,
      filter: this.filter,
    });
  }
}

export const view = new View();
