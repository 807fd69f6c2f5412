import { settings } from "./settings.svelte.js";

/** From this width on the inspector stands beside the list; below it, it lies over it. */
const WIDE = 1100;
/** Below this width there is one column: the tree is a drawer, the inspector a sheet. */
const NARROW = 700;
/** Below this height the timeline is folded until it is asked for, as where a page is zoomed to 400 %. */
const LOW = 360;
/** What a timeline has at most of the height of the page. */
const TIMELINE_PART = 0.4;
/** Pixels of the timeline's line of buttons. */
const BUTTONS = 37;

/** Which panes and dialogs are open. Those that stand beside the list are settings; those that lie over it are closed with the page. */
class Panels {
  /** Of the page. */
  width = $state(window.innerWidth);
  height = $state(window.innerHeight);
  help = $state(false);
  filters = $state(false);
  drawer = $state(false);
  /** Whether the beginning of the tree is asked for. */
  isAtSessions = $state(false);
  /** The inspector, where it lies over the list. */
  sheet = $state(false);
  /** The timeline, where the page is low. */
  #lowTimeline = $state(false);

  get isWide(): boolean {
    return this.width >= WIDE;
  }

  get isNarrow(): boolean {
    return this.width < NARROW;
  }

  get isLow(): boolean {
    return this.height < LOW;
  }

  get isTimelineOpen(): boolean {
    return this.isLow ? this.#lowTimeline : settings.timelineOpen;
  }

  /** Pixels that the timeline has, with the line of buttons above it. */
  get timelineHeight(): number {
    if (!this.isTimelineOpen) return BUTTONS;
    return Math.min(this.isNarrow ? 100 : settings.timeline, Math.max(100, Math.round(this.height * TIMELINE_PART)));
  }

  showTimeline(): void {
    if (!this.isTimelineOpen) this.toggleTimeline();
  }

  toggleTimeline(): void {
    if (this.isLow) this.#lowTimeline = !this.#lowTimeline;
    else settings.timelineOpen = !settings.timelineOpen;
  }

  showInspector(): void {
    if (this.isWide) settings.inspectorOpen = true;
    else this.sheet = true;
  }

  toggleInspector(): void {
    if (this.isWide) settings.inspectorOpen = !settings.inspectorOpen;
    else this.sheet = !this.sheet;
  }

  /** Shows the tree from its beginning, with the focus in it. */
  showSessions(): void {
    if (this.isNarrow) this.drawer = true;
    else settings.treeOpen = true;
    this.isAtSessions = true;
  }

  toggleTree(): void {
    if (this.isNarrow) this.drawer = !this.drawer;
    else settings.treeOpen = !settings.treeOpen;
  }
}

export const panels = new Panels();
