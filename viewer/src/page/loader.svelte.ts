import type { Progress } from "../protocol.js";
import type { GivenFile } from "../worker/source.js";
import { live } from "./live.svelte.js";
import { messageOf, messages } from "./messages.svelte.js";
import { playback } from "./playback.svelte.js";
import { startWorker } from "./rpc.js";
import { STORE, servedFiles } from "./served.js";
import { view } from "./view.svelte.js";

/** Opens recordings. What is asked for last is what comes of it. */
class Loader {
  /** What is read now, by its name. */
  loading = $state<string>();
  progress = $state.raw<Progress>();
  /** Whether a store is served beside the page, to which there is a way back from another recording. */
  hasServed = $state(false);
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
    messages.problem = undefined;
    playback.stop();
    live.giveWay();
    this.loading = name;
    this.progress = undefined;
    // What is dropped before all is there is opened once it is.
    await this.start();
    const { remote } = view;
    if (remote === undefined || turn !== this.#turn) return false;
    try {
      const store = await remote.open(name, files);
      if (turn !== this.#turn) return false;
      // The address says where to go in what is opened first.
      if (view.lane !== undefined) this.close();
      view.begin(store);
      messages.problem = store.lost;
      await view.goToAddress(agent ?? store.firstLane).catch(() => view.goTo(store.firstLane));
      return turn === this.#turn;
    } catch (error) {
      if (turn === this.#turn) messages.problem = messageOf(error);
      return false;
    } finally {
      if (turn === this.#turn) {
        this.loading = undefined;
        live.goOn();
      }
    }
  }

  /** Opens the store that is served beside the page, if there is one, and follows it. */
  async openServed(): Promise<void> {
    const turn = this.#turn;
    try {
      const files = await servedFiles();
      this.hasServed = files !== undefined;
      // Whoever has dropped a recording by now wants that one.
      if (files === undefined || turn !== this.#turn) return;
      if (await this.open(STORE, files)) live.start();
    } catch (error) {
      if (turn === this.#turn) messages.problem = messageOf(error);
    }
  }

  /** Closes what is open, for another one. */
  close(): void {
    live.stop();
    view.end();
  }
}

export const loader = new Loader();
