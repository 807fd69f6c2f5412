import type { EmptyStore, Progress, StoreInfo } from "../protocol.js";
import type { GivenFile } from "../worker/source.js";
import { live } from "./live.svelte.js";
import { messageOf, messages } from "./messages.svelte.js";
import { playback } from "./playback.svelte.js";
import { startWorker } from "./rpc.js";
import { STORE, follow, forgetServed, servedFiles } from "./served.js";
import { view } from "./view.svelte.js";

/** So long after the store that is served was found empty, it is looked at again at the earliest; after a failure later. */
const AGAIN_MS = 200;
const AGAIN_FAILED_MS = 2000;

const nothingIn = (name: string) => `No agent has recorded anything in “${name}” yet, and no chat has a message. Record a run, then open it again.`;

/** Opens recordings. What is asked for last is what comes of it. */
class Loader {
  /** What is read now, by its name. */
  loading = $state<string>();
  progress = $state.raw<Progress>();
  /** Whether a store is served beside the page, to which there is a way back from another recording. */
  hasServed = $state(false);
  /** Whether the store that is served has nothing to show yet, and is opened once it has. */
  isAwaiting = $state(false);
  /** Whether the store that is served is on its way to the page, which takes its time on a slow line. */
  isSending = $state(false);
  #unfollow = () => {};
  #started: Promise<void> | undefined;
  /** Counts what is opened: what comes of an earlier one is of no interest any more. */
  #turn = 0;

  start(): Promise<void> {
    this.#started ??= this.#start();
    return this.#started;
  }

  async #start(): Promise<void> {
    const failed = (why: string) => (messages.problem = `The part that reads recordings could not be started: ${why}`);
    try {
      view.remote = await startWorker((pushed) => {
        if ("progress" in pushed) this.progress = pushed.progress;
        else view.found(pushed.search);
      }, failed);
    } catch (error) {
      failed(messageOf(error));
    }
  }

  /** Opens a recording, at the place of the address, else at an agent. What is open stays until this one is read, so also if it
   * can't be; whether it is shown. */
  async open(name: string, files: GivenFile[], agent?: string): Promise<boolean> {
    const turn = (this.#turn += 1);
    try {
      const opened = await this.#read(name, files, turn);
      if (opened === undefined) return false;
      if (!("isEmpty" in opened)) return await this.#show(opened, turn, agent);
      messages.problem = nothingIn(name);
      return false;
    } finally {
      this.#ended(turn);
    }
  }

  /** What is in a recording; undefined if it can't be read, or another one was asked for meanwhile. */
  async #read(name: string, files: GivenFile[], turn: number): Promise<StoreInfo | EmptyStore | undefined> {
    messages.problem = undefined;
    playback.stop();
    live.giveWay();
    this.loading = name;
    this.progress = undefined;
    // What is dropped before all is there is opened once it is.
    await this.start();
    try {
      const opened = await view.remote?.open(name, files);
      return turn === this.#turn ? opened : undefined;
    } catch (error) {
      if (turn === this.#turn) messages.problem = messageOf(error);
      return undefined;
    }
  }

  #ended(turn: number): void {
    if (turn !== this.#turn) return;
    this.loading = undefined;
    live.goOn();
  }

  async #show(store: StoreInfo, turn: number, agent?: string): Promise<boolean> {
    this.#endAwaiting();
    // The address says where to go in what is opened first.
    if (view.lane !== undefined) this.close();
    view.begin(store);
    messages.problem = store.lost;
    await view.goToAddress(agent ?? store.firstLane).catch(() => view.goTo(store.firstLane));
    return turn === this.#turn;
  }

  /** Opens the store that is served beside the page, if there is one, and follows it; one with nothing to show as soon as it has.
   * Where it takes the place of one that was followed, a notice says why. */
  async openServed(instead?: string): Promise<void> {
    const before = this.#turn;
    try {
      const files = await servedFiles(() => (this.hasServed = this.isSending = true));
      this.hasServed = files !== undefined;
      this.isSending = false;
      // Whoever has dropped a recording by now wants that one.
      if (files === undefined || before !== this.#turn) return this.#awaitAgain();
      const turn = (this.#turn += 1);
      try {
        const opened = await this.#read(STORE, files, turn);
        if (opened === undefined) this.#awaitAgain();
        else if (!("isEmpty" in opened)) {
          if (await this.#show(opened, turn)) live.start((why) => this.openServed(why));
        } else if (view.lane === undefined || instead !== undefined) {
          if (view.lane !== undefined) this.close();
          this.#await(opened.records);
        } else messages.problem = nothingIn(STORE);
        if (opened !== undefined && instead !== undefined) messages.problem = [`${instead}: it was opened anew.`, messages.problem ?? ""].join(" ").trim();
      } finally {
        this.#ended(turn);
      }
    } catch (error) {
      this.isSending = false;
      if (before === this.#turn) messages.problem = messageOf(error);
      this.#awaitAgain();
    }
  }

  /** Waits until the store that is served has more than so many records. */
  #await(records: number): void {
    this.#endAwaiting();
    this.isAwaiting = true;
    let isTold = false;
    this.#unfollow = follow(undefined, {
      shown: () => records,
      moved: (position) => {
        if (isTold || position <= records) return;
        isTold = true;
        setTimeout(() => this.#lookAgain(), AGAIN_MS);
      },
      connected: () => {},
      refused: () => {},
    });
  }

  /** What was seen of files that are being written may be what is wrong. */
  #awaitAgain(): void {
    if (!this.isAwaiting) return;
    forgetServed();
    setTimeout(() => this.#lookAgain(), AGAIN_FAILED_MS);
  }

  #lookAgain(): void {
    if (!this.isAwaiting) return;
    // After what somebody opened meanwhile, which may be nothing that can be shown.
    if (this.loading !== undefined) setTimeout(() => this.#lookAgain(), AGAIN_MS);
    else void this.openServed();
  }

  #endAwaiting(): void {
    this.isAwaiting = false;
    this.#unfollow();
  }

  /** Closes what is open, for another one. */
  close(): void {
    live.stop();
    view.end();
  }
}

export const loader = new Loader();
