import { type Theme, showTheme } from "./theme.js";

/** What a person has set, and the browser keeps: sizes are pixels. */
export interface Settings {
  theme: Theme;
  tree: number;
  inspector: number;
  timeline: number;
  treeOpen: boolean;
  inspectorOpen: boolean;
  timelineOpen: boolean;
  /** How much faster than it happened a recording is played. */
  speed: number;
}

export const SPEEDS = [1, 2, 4, 8, 16, 32, 64];

const KEY = "runlog-viewer";
const USUAL: Settings = { theme: "system", tree: 280, inspector: 380, timeline: 190, treeOpen: true, inspectorOpen: true, timelineOpen: true, speed: 4 };

export const settings = $state<Settings>(stored());

function stored(): Settings {
  try {
    return { ...USUAL, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Settings>) };
  } catch {
    // A page opened from a file may have no storage; then nothing is remembered.
    return { ...USUAL };
  }
}

export function saveSettings(): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // As where they are read.
  }
  showTheme(settings.theme);
}
