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
    view.isHeld = false;
    if (fromBeginning) view.seek(0);
    const play = (this.#play += 1);
    let before = performance.now();
    /** Folded time since the last event that was played. */
    let since = 0;
    let { seeks } = view;
    const advance = async (at: number) => {
      if (!this.isPlaying || play !== this.#play) return;
      // Its agents share their moments, also those that came meanwhile.
      if (view.lane?.lanes.some((one) => one.id === laneId) !== true) {
        this.stop();
        return;
      }
      // It goes on from where somebody went meanwhile.
      if (seeks !== view.seeks) since = 0;
      ({ seeks } = view);
      since += (at - before) * settings.speed;
      before = at;
      const from = view.moment;
      const played = await view.remote?.play(from, since);
      // What came meanwhile may have happened before: the moment is another number then, as soon as the page has it.
      // Also of the one it was asked from, if the store that has it was there before the page knew.
      const isOfNow = played !== undefined && played.records === view.store?.records && view.moment === from && seeks === view.seeks;
      if (isOfNow && this.isPlaying && play === this.#play) {
        ({ since } = played);
        if (played.moment !== view.moment) view.playTo(played.moment);
        ({ seeks } = view);
        if (played.isOver) this.stop();
      }
      requestAnimationFrame((next) => void advance(next));
    };
    requestAnimationFrame((at) => void advance(at));
  }
}

export const playback = new Playback();
