import { settings } from "./settings.svelte.js";

/** From this width on the inspector stands beside the list; below it, it lies over it. */
const WIDE = 1100;
/** Below this width there is one column: the tree is a drawer, the inspector a sheet. */
const NARROW = 700;

/** Which panes and dialogs are open. Those that stand beside the list are settings; those that lie over it are closed with the page. */
class Panels {
  /** Of the page. */
  width = $state(window.innerWidth);
  help = $state(false);
  filters = $state(false);
  drawer = $state(false);
  /** The inspector, where it lies over the list. */
  sheet = $state(false);

  get isWide(): boolean {
    return this.width >= WIDE;
  }

  get isNarrow(): boolean {
    return this.width < NARROW;
  }

  /** Pixels that the timeline has, with the line of buttons above it. */
  get timelineHeight(): number {
    if (!settings.timelineOpen) return 37;
    return this.isNarrow ? 100 : settings.timeline;
  }

  showInspector(): void {
    if (this.isWide) settings.inspectorOpen = true;
    else this.sheet = true;
  }

  toggleInspector(): void {
    if (this.isWide) settings.inspectorOpen = !settings.inspectorOpen;
    else this.sheet = !this.sheet;
  }

  toggleTree(): void {
    if (this.isNarrow) this.drawer = !this.drawer;
    else settings.treeOpen = !settings.treeOpen;
  }
}

export const panels = new Panels();
