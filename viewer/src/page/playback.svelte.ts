import { settings } from "./settings.svelte.js";
import { view } from "./view.svelte.js";

/** Moves the moment as time went by, without the gaps that the timeline folds. */
class Playback {
  isPlaying = $state(false);
  /** Counts plays, so that the frames of one that was stopped don't go on in the next. */
  #play = 0;

  toggle(): void {
    if (this.isPlaying) this.stop();
    else if (view.lane !== undefined) this.#start(view.lane.id, view.moment >= view.lane.moments);
  }

  stop(): void {
    this.isPlaying = false;
  }

  #start(laneId: string, fromBeginning: boolean): void {
    this.isPlaying = true;
    if (fromBeginning) view.seek(0);
    const play = (this.#play += 1);
    let before = performance.now();
    let folded = view.moment === 0 ? 0 : (view.now?.folded ?? 0);
    const advance = async (at: number) => {
      if (!this.isPlaying || play !== this.#play) return;
      const { lane } = view;
      // Its agents share their moments, also those that came meanwhile.
      if (lane?.lanes.some((one) => one.id === laneId) !== true) {
        this.stop();
        return;
      }
      folded += (at - before) * settings.speed;
      before = at;
      const moment = await view.remote?.momentAt(folded);
      if (moment !== undefined && moment !== view.moment && this.isPlaying) view.seek(moment);
      if (folded >= lane.duration) {
        view.seek(lane.moments);
        this.stop();
      } else requestAnimationFrame((next) => void advance(next));
    };
    requestAnimationFrame((at) => void advance(at));
  }
}

export const playback = new Playback();
