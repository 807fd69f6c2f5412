import type { Details, Filter, Moment, OpenedLane, Progress, Pushed, SearchState, StoreInfo } from "../protocol.js";
import type { GivenFile } from "../worker/source.js";
import { isFiltered, noFilter, readPlace, writePlace } from "./hash.js";
import { type Remote, startWorker } from "./rpc.js";
import { follow, forgetServed, servedFiles } from "./served.js";
import { type Theme, showTheme } from "./theme.js";

export type Tab = "conversation" | "events" | "steps" | "snapshot" | "compare";
export const TABS: Tab[] = ["conversation", "events", "steps", "snapshot", "compare"];
export const SPEEDS = [1, 2, 4, 8, 16, 32, 64];
const SETTINGS = "runlog-viewer";

interface Settings {
  theme: Theme;
  tree: number;
  inspector: number;
  timeline: number;
  treeOpen: boolean;
  inspectorOpen: boolean;
  timelineOpen: boolean;
  speed: number;
}

function storedSettings(): Settings {
  const usual: Settings = { theme: "system", tree: 280, inspector: 380, timeline: 190, treeOpen: true, inspectorOpen: true, timelineOpen: true, speed: 4 };
  try {
    return { ...usual, ...(JSON.parse(localStorage.getItem(SETTINGS) ?? "{}") as Partial<Settings>) };
  } catch {
    // A page opened from a file may have no storage; then nothing is remembered.
    return usual;
  }
}

/** What the page shows. What it shows of a recording is asked of the worker. */
export class App {
  remote = $state.raw<Remote>();
  store = $state.raw<StoreInfo>();
  lane = $state.raw<OpenedLane>();
  opening = $state<string>();
  progress = $state.raw<Progress>();
  problem = $state<string>();
  notice = $state<string>();
  tab = $state<Tab>("conversation");
  /** How many events have happened, of all that there are. */
  moment = $state(0);
  now = $state.raw<Moment>();
  filter = $state.raw<Filter>(noFilter());
  query = $state("");
  search = $state.raw<SearchState>();
  hitNumber = $state(0);
  /** Counts what makes lists other ones, such as hits that were found. */
  stamp = $state(0);
  selected = $state<number>();
  details = $state.raw<Details>();
  detailsProblem = $state<string>();
  playing = $state(false);
  compareWith = $state<string>();
  help = $state(false);
  filtering = $state(false);
  drawer = $state(false);
  sheet = $state(false);
  settings = $state<Settings>(storedSettings());
  /** Set while the scrubber is moved, so that the conversation follows it. */
  following = $state(false);
  /** Whether the store is that of `runlog serve`, which may still be written. */
  served = $state(false);
  /** Whether what is new is shown by itself. */
  live = $state(true);
  connected = $state(true);
  /** How many records the log has that aren't shown. */
  behind = $state(0);
  /** How many events came below what is read, of the agent and of all that are shown. */
  unread = $state.raw({ conversation: 0, events: 0 });
  #position = 0;
  #refreshing = false;
  /** Whether the last refresh failed, and is tried again. */
  #failed = false;
  /** Whether it was asked for while it was under way. */
  #wanted = false;
  #unfollow = () => {};
  /** Counts where one went, so that what takes longer doesn't come after what was asked for later. */
  #goingTo = 0;
  /** The address, as this page has written it last. */
  #written: string | undefined;
  #momentAsked = 0;
  #started: Promise<void> | undefined;
  /** Counts what is opened: what comes of an earlier one is of no interest any more. */
  #turn = 0;
  #frame = 0;

  get isNarrow(): boolean {
    return window.innerWidth < 1100;
  }

  start(): Promise<void> {
    this.#started ??= this.#start();
    return this.#started;
  }

  async #start(): Promise<void> {
    try {
      this.remote = await startWorker(
        (pushed) => this.#told(pushed),
        (why) => (this.problem = `The part that reads recordings could not be started: ${why}`),
      );
    } catch (error) {
      this.problem = `The part that reads recordings could not be started: ${messageOf(error)}`;
    }
  }

  #told(pushed: Pushed): void {
    if ("progress" in pushed) this.progress = pushed.progress;
    else {
      this.search = pushed.search.query === "" ? undefined : pushed.search;
      this.stamp += 1;
    }
  }

  saveSettings(): void {
    try {
      localStorage.setItem(SETTINGS, JSON.stringify(this.settings));
    } catch {
      // As where it is read.
    }
    showTheme(this.settings.theme);
  }

  /** Opens a recording, at the place of the address, else at an agent. What is open stays until this one is read, so also if it
   * can't be; whether it is shown. */
  async open(name: string, files: GivenFile[], agent?: string): Promise<boolean> {
    const turn = (this.#turn += 1);
    this.problem = undefined;
    this.playing = false;
    this.opening = name;
    this.progress = undefined;
    // What is dropped before all is there is opened once it is.
    await this.start();
    const { remote } = this;
    if (remote === undefined || turn !== this.#turn) return false;
    try {
      const store = await remote.open(name, files);
      if (turn !== this.#turn) return false;
      // The address says where to go in what is opened first.
      if (this.lane !== undefined) this.leave();
      const place = readPlace(location.hash);
      this.search = undefined;
      this.query = "";
      this.store = store;
      await this.goTo(place.lane ?? agent ?? store.firstLane, true).catch(() => this.goTo(store.firstLane));
      return turn === this.#turn;
    } catch (error) {
      if (turn === this.#turn) this.problem = messageOf(error);
      return false;
    } finally {
      if (turn === this.#turn) {
        this.opening = undefined;
        if (this.served && this.#wanted) void this.refresh();
      }
    }
  }

  /** Opens the store that is served beside the page, if there is one, and follows it. */
  async openServed(): Promise<void> {
    try {
      const files = await servedFiles();
      if (files === undefined) return;
      if (!(await this.open("store", files)) || this.store === undefined) return;
      this.served = true;
      this.#unfollow = follow(this.store.records, {
        moved: (position) => this.#moved(position),
        connected: (isConnected) => (this.connected = isConnected),
        refused: () => void this.refresh(),
      });
    } catch (error) {
      this.problem = messageOf(error);
    }
  }

  #moved(position: number): void {
    this.#position = Math.max(this.#position, position);
    this.behind = Math.max(0, this.#position - (this.store?.records ?? 0));
    if (this.live && this.behind > 0) void this.refresh();
  }

  toggleLive(): void {
    this.live = !this.live;
    if (this.live && this.behind > 0) void this.refresh();
  }

  /** Reads what came since; what is looked at stays where it is. */
  async refresh(): Promise<void> {
    const { remote, lane } = this;
    if (remote === undefined || lane === undefined) return;
    if (this.#refreshing || this.opening !== undefined) {
      this.#wanted = true;
      return;
    }
    this.#refreshing = true;
    this.#wanted = false;
    const told = this.#position;
    const began = performance.now();
    try {
      const files = await servedFiles();
      if (files === undefined) return;
      const wasAtEnd = this.moment >= lane.moments;
      const { store, lane: next } = await remote.extend("store", files, this.lane?.id ?? lane.id);
      // Left meanwhile.
      if (this.lane === undefined) return;
      this.store = store;
      if (next.id === this.lane.id && wasAtEnd) {
        const { conversation, events } = this.unread;
        this.unread = { conversation: conversation + next.events - this.lane.events, events: events + next.moments - this.lane.moments };
      }
      this.lane = next;
      if (wasAtEnd) {
        this.moment = next.moments;
        await this.#lookAround();
      }
      this.stamp += 1;
      if (this.query !== "") void remote.search(this.query);
      this.behind = Math.max(0, this.#position - this.store.records);
      // What was told of before it was read is in it, unless a file was seen while it was written.
      if (store.records < told) forgetServed();
      this.#failed = false;
    } catch (error) {
      // Whoever has left doesn't wait for it.
      if (this.lane === undefined) return;
      forgetServed();
      if (this.opening !== undefined) {
        // It made way for another recording, and is asked for again if that one can't be opened.
        this.#wanted = true;
        return;
      }
      if (!this.#failed) {
        // Once more, with files that are sent as a whole.
        this.#failed = true;
        this.#wanted = true;
        return;
      }
      this.#failed = false;
      this.problem = `What is new can't be shown: ${messageOf(error)}`;
      this.live = false;
    } finally {
      // Half of the time is left for other things: a short recording is followed closely, a long one once a second.
      const pause = Math.min(1000, Math.max(30, performance.now() - began));
      setTimeout(() => {
        this.#refreshing = false;
        if (this.served && (this.#wanted || (this.live && this.behind > 0))) void this.refresh();
      }, pause);
    }
  }

  /** Leaves what is open, for another one. */
  leave(): void {
    this.#unfollow();
    this.nothingUnread();
    this.served = false;
    this.behind = 0;
    this.lane = undefined;
    history.replaceState(undefined, "", location.pathname + location.search);
  }

  /** Opens an agent's lane; with the address, as it says. */
  async goTo(laneId: string, byAddress = false): Promise<void> {
    const { remote } = this;
    if (remote === undefined) return;
    const turn = (this.#goingTo += 1);
    const before = this.lane;
    const { hash } = location;
    const place = readPlace(hash);
    const lane = await remote.openLane(laneId);
    // Somebody who goes back and forth quickly is on the way somewhere else by now.
    if (turn !== this.#goingTo) return;
    const isFamily = before?.lanes.some((one) => one.id === laneId) ?? false;
    this.lane = lane;
    this.nothingUnread();
    if (!byAddress && before !== undefined && before.id !== laneId) this.#remember();
    if (byAddress) {
      this.filter = place.filter;
      this.tab = TABS.includes(place.tab as Tab) ? (place.tab as Tab) : "conversation";
      this.compareWith = place.with;
      if (place.query !== this.query) this.find(place.query);
    } else if (!isFamily) this.filter = noFilter();
    if (lane.isFlow && this.tab === "conversation") this.tab = "events";
    if (!isFamily || byAddress) {
      const moment = byAddress && place.at !== undefined ? await remote.momentOfPosition(place.at) : lane.moments;
      if (turn !== this.#goingTo) return;
      this.moment = moment;
      this.selected = undefined;
      this.details = undefined;
    }
    if (!isFamily && !byAddress) this.compareWith = undefined;
    this.following = false;
    this.stamp += 1;
    this.drawer = false;
    await this.#lookAround();
    if (byAddress && place.event !== undefined) {
      const at = await remote.momentOfPosition(place.event);
      const rank = at - 1;
      const row = await this.rowAtRank(rank);
      if (turn !== this.#goingTo) return;
      if (row !== undefined) await this.select(row);
    }
    // The address may be that of another place meanwhile, which is told of in a moment: writing would take it away.
    if (turn === this.#goingTo && (!byAddress || location.hash === hash || location.hash === this.#written)) this.writeAddress();
  }

  async rowAtRank(rank: number): Promise<number | undefined> {
    const page = await this.remote?.events(rank, 1, this.moment, noFilter());
    return page?.rows[0]?.row;
  }

  async #lookAround(): Promise<void> {
    const asked = (this.#momentAsked += 1);
    const now = await this.remote?.moment(this.moment);
    if (asked === this.#momentAsked) this.now = now;
  }

  /** The end of the list was seen, or another list is shown. */
  nothingUnread(): void {
    if (this.unread.conversation + this.unread.events > 0) this.unread = { conversation: 0, events: 0 };
  }

  /** Moves the scrubber. */
  seek(moment: number): void {
    const { lane } = this;
    if (lane === undefined) return;
    this.moment = Math.max(0, Math.min(lane.moments, Math.round(moment)));
    this.following = true;
    void this.#lookAround().then(() => this.writeAddress());
  }

  async step(what: "event" | "step" | "error", forward: boolean): Promise<void> {
    const moment = await this.remote?.next(this.moment, what, forward);
    if (moment === undefined) return;
    this.seek(moment);
    if (moment > 0) {
      const row = await this.rowAtRank(moment - 1);
      if (row !== undefined && (what === "error" || this.details !== undefined)) await this.select(row, what === "error");
    }
  }

  play(): void {
    const begun = this.lane;
    if (begun === undefined) return;
    this.playing = !this.playing;
    if (!this.playing) return;
    if (this.moment >= begun.moments) this.seek(0);
    let before = performance.now();
    let folded = this.moment === 0 ? 0 : (this.now?.folded ?? 0);
    this.#frame += 1;
    const mine = this.#frame;
    const advance = async (at: number) => {
      if (!this.playing || mine !== this.#frame) return;
      const { lane } = this;
      // Its agents share their moments, also those that came meanwhile.
      if (lane?.lanes.some((one) => one.id === begun.id) !== true) {
        this.playing = false;
        return;
      }
      folded += (at - before) * this.settings.speed;
      before = at;
      const moment = await this.remote?.momentAt(folded);
      if (moment !== undefined && moment !== this.moment && this.playing) this.seek(moment);
      if (folded >= lane.duration) {
        this.seek(lane.moments);
        this.playing = false;
      } else requestAnimationFrame((next) => void advance(next));
    };
    requestAnimationFrame((at) => void advance(at));
  }

  async select(row: number, open = true): Promise<void> {
    this.selected = row;
    this.detailsProblem = undefined;
    if (open && !this.settings.inspectorOpen && !this.isNarrow) this.settings.inspectorOpen = true;
    if (open && this.isNarrow) this.sheet = true;
    try {
      const details = await this.remote?.details(row);
      if (this.selected === row) this.details = details;
    } catch (error) {
      this.detailsProblem = messageOf(error);
    }
    this.writeAddress();
  }

  /** Moves the scrubber to right after the event that is selected. */
  async seekSelected(): Promise<void> {
    if (this.selected === undefined) return;
    // What is looked at may still be on its way.
    const details = await this.remote?.details(this.selected);
    if (details !== undefined && details.rank >= 0) this.seek(details.rank + 1);
  }

  unselect(): void {
    this.selected = undefined;
    this.details = undefined;
    this.sheet = false;
    this.writeAddress();
  }

  find(query: string): void {
    this.query = query;
    this.hitNumber = 0;
    void this.remote?.search(query);
    if (query === "" && this.filter.onlyHits) this.filter = { ...this.filter, onlyHits: false };
    this.stamp += 1;
    this.writeAddress();
  }

  async nextHit(forward: boolean): Promise<void> {
    const { lane, remote } = this;
    if (lane === undefined || remote === undefined) return;
    const from = this.details !== undefined && this.details.rank >= 0 ? this.details.rank + 1 : forward ? 0 : lane.moments + 1;
    const hit = await remote.nextHit(from, forward);
    if (hit === undefined) return;
    this.hitNumber = hit.number;
    if (hit.laneId !== lane.id && this.tab !== "events") await this.goTo(hit.laneId);
    if (hit.rank >= this.moment) this.moment = lane.moments;
    await this.select(hit.row);
  }

  setFilter(change: Partial<Filter>): void {
    this.filter = { ...this.filter, ...change };
    this.stamp += 1;
    this.writeAddress();
  }

  clearFilter(): void {
    this.setFilter(noFilter());
  }

  get isFiltered(): boolean {
    return isFiltered(this.filter);
  }

  /** Follows an address that was changed by hand, or by going back. */
  async follow(hash: string): Promise<void> {
    if (this.lane === undefined || hash === "" || hash === this.address()) return;
    try {
      await this.goTo(readPlace(hash).lane ?? this.lane.id, true);
    } catch (error) {
      this.problem = messageOf(error);
      this.writeAddress();
    }
  }

  /** Keeps where one is, so that the browser goes back to it. */
  #remember(): void {
    history.pushState(undefined, "", location.href);
  }

  setTab(tab: Tab): void {
    if (tab !== this.tab) this.#remember();
    this.nothingUnread();
    this.tab = tab;
    this.writeAddress();
  }

  /** What is the same for as long as a list has the same rows. */
  get version(): string {
    return `${this.lane?.id ?? ""} ${this.stamp} ${JSON.stringify(this.filter)}`;
  }

  address(): string {
    const { lane, now } = this;
    return writePlace({
      lane: lane?.id,
      tab: this.tab,
      at: lane === undefined || this.moment >= lane.moments ? undefined : (now?.position ?? 0),
      event: this.details?.position,
      query: this.query,
      with: this.tab === "compare" ? this.compareWith : undefined,
      filter: this.filter,
    });
  }

  writeAddress(): void {
    if (this.lane === undefined) return;
    history.replaceState(undefined, "", this.address());
    this.#written = location.hash;
  }

  async copyLink(): Promise<void> {
    this.writeAddress();
    await this.copy(location.href, "The link to here is copied.", "it is in the address line");
  }

  async copy(text: string, said: string, instead = `it is ${text}`): Promise<void> {
    try {
      await navigator.clipboard.writeText(text);
      this.say(said);
    } catch {
      this.say(`The browser doesn't let a page copy here; ${instead}.`);
    }
  }

  say(text: string): void {
    this.notice = text;
    setTimeout(() => {
      if (this.notice === text) this.notice = undefined;
    }, 2500);
  }
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

export const app = new App();
