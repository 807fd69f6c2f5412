import { messageOf, messages } from "./messages.svelte.js";
import { NotGiven, STORE, follow, forgetServed, servedFiles, servedStat } from "./served.js";
import { view } from "./view.svelte.js";

/** Between two readings at least so long, at most so long. */
const PAUSE_MS_MIN = 30;
const PAUSE_MS_MAX = 1000;
/** So often it is asked whether anybody writes the store. */
const WRITER_MS = 3000;
/** Where something else answers than the server. */
const PAUSE_MS_AWAY = 2000;

/**
 * Follows a store that is served and may still be written. The server tells how far its log has come; then what is new is read,
 * in one reading at a time. It gives way to a recording that is opened meanwhile, and ends once that one is there.
 */
class Live {
  /** Whether what is open is the store of a server. */
  isFollowing = $state(false);
  /** Whether what is new waits until it is asked for. */
  isPaused = $state(false);
  isConnected = $state(true);
  /** Whether nobody writes the store: what is `running` in it was cut off. */
  isUnwritten = $state(false);
  /** Whether what is shown is the end, behind which nothing comes any more. */
  get isOver(): boolean {
    return this.isUnwritten && view.moment >= (view.lane?.moments ?? 0);
  }
  /** How many records the log has that aren't shown. */
  behind = $state(0);
  /** How far the log has come, as the server said last. */
  #position = 0;
  #disconnect = () => {};
  #writerTimer = 0;
  #isReading = false;
  /** Whether a reading was asked for that has to wait. */
  #isWanted = false;
  /** Whether the last reading failed, so that the next one is the second try. */
  #hasFailed = false;
  #gaveWay = false;
  /** Whether the last reading had less than was announced. */
  #isShort = false;
  /** What was said of a server that doesn't give its store. */
  #notGiven: string | undefined;
  #reopen: (why: string) => Promise<void> = async () => {};

  /** Follows the store that was opened just now. Where another one is served in its place, that is to be opened. */
  start(reopen: (why: string) => Promise<void>): void {
    this.isFollowing = true;
    this.#reopen = reopen;
    this.#position = view.store?.records ?? 0;
    this.#isWanted = false;
    this.#hasFailed = false;
    this.#disconnect = follow(view.store?.identity, {
      shown: () => view.store?.records ?? 0,
      moved: (position) => this.#moved(position),
      connected: (isConnected) => (this.isConnected = isConnected),
      refused: () => void this.refresh(),
    });
    void this.#askForWriter();
    this.#writerTimer = window.setInterval(() => {
      if (document.visibilityState === "visible") void this.#askForWriter();
    }, WRITER_MS);
  }

  stop(): void {
    this.#disconnect();
    clearInterval(this.#writerTimer);
    this.isFollowing = false;
    this.isUnwritten = false;
    this.behind = 0;
  }

  async #askForWriter(): Promise<void> {
    const { has_writer: is } = await servedStat();
    // What isn't known stays as it was told last.
    if (this.isFollowing && typeof is === "boolean") this.isUnwritten = !is;
  }

  /** Nothing is read while another recording is opened: the worker gives up what it reads for what it is asked to read later. */
  giveWay(): void {
    this.#gaveWay = true;
  }

  /** The other recording is there, and this one was stopped, or it can't be opened. */
  goOn(): void {
    this.#gaveWay = false;
    if (this.#isWanted) void this.refresh();
  }

  togglePaused(): void {
    this.isPaused = !this.isPaused;
    this.#catchUp();
  }

  #moved(position: number): void {
    this.#position = Math.max(this.#position, position);
    this.#count();
    this.#catchUp();
  }

  #count(): void {
    this.behind = Math.max(0, this.#position - (view.store?.records ?? 0));
  }

  #catchUp(): void {
    if (!this.isPaused && this.behind > 0) void this.refresh();
  }

  /** Reads what came since; after what is read already, or opened. */
  async refresh(): Promise<void> {
    if (!this.isFollowing) return;
    if (this.#isReading || this.#gaveWay) {
      this.#isWanted = true;
      return;
    }
    this.#isReading = true;
    this.#isWanted = false;
    const began = performance.now();
    let isGiven = true;
    try {
      isGiven = await this.#read();
    } catch (error) {
      if (error instanceof NotGiven) isGiven = this.#isNotGiven(error);
      else this.#failed(error);
    }
    // Half of the time is left for other things: a short recording is followed closely, a long one once a second.
    const pause = isGiven ? Math.min(PAUSE_MS_MAX, Math.max(PAUSE_MS_MIN, performance.now() - began)) : PAUSE_MS_AWAY;
    setTimeout(() => {
      this.#isReading = false;
      if (this.#isWanted) void this.refresh();
      else this.#catchUp();
    }, pause);
  }

  /** Whether the server gave its store. */
  async #read(): Promise<boolean> {
    const announced = this.#position;
    const files = await servedFiles();
    const { remote } = view;
    if (files === undefined || remote === undefined) return false;
    const grown = await remote.extend(STORE, files);
    // Another recording was opened meanwhile, or none is.
    if (!this.isFollowing) return true;
    if ("other" in grown) return this.#replaced(grown.other);
    await view.grow(grown.store, grown.lane);
    this.#count();
    // What was announced before it was read is in it, unless a file was seen while it was written.
    if (grown.store.records < announced) {
      // At the second time it was announced of another store, as one that was restored has less.
      if (this.#isShort) this.#position = grown.store.records;
      forgetServed();
      this.#count();
    }
    this.#isShort = grown.store.records < announced && !this.#isShort;
    this.#hasFailed = false;
    this.#isGiven();
    return true;
  }

  /** What was seen is another store; at the second time no file of it was seen while it was written. */
  async #replaced(why: string): Promise<boolean> {
    forgetServed();
    this.#isWanted = true;
    if (this.#hasFailed) await this.#reopen(why);
    else this.#hasFailed = true;
    return true;
  }

  /** A server whose folder is gone for a moment is asked again, and what it said is shown until it gives its store. */
  #isNotGiven(error: NotGiven): false {
    if (!this.isFollowing) return false;
    forgetServed();
    this.#isWanted = true;
    this.#notGiven = `What is new can't be shown: ${error.message}`;
    messages.problem = this.#notGiven;
    return false;
  }

  #isGiven(): void {
    if (this.#notGiven !== undefined && messages.problem === this.#notGiven) messages.problem = undefined;
    this.#notGiven = undefined;
  }

  #failed(error: unknown): void {
    // Whoever has left doesn't wait for it.
    if (!this.isFollowing) return;
    // What was kept of the files may be what is wrong.
    forgetServed();
    if (this.#gaveWay) this.#isWanted = true;
    else if (!this.#hasFailed) {
      this.#hasFailed = true;
      this.#isWanted = true;
    } else {
      this.#hasFailed = false;
      this.isPaused = true;
      messages.problem = `What is new can't be shown: ${messageOf(error)}`;
    }
  }
}

export const live = new Live();
