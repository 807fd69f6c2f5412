import { live } from "./live.svelte.js";
import { panels } from "./panels.svelte.js";
import { playback } from "./playback.svelte.js";
import { saveSettings, settings } from "./settings.svelte.js";
import { TABS, view } from "./view.svelte.js";

export const KEYS: [string, string][] = [
  ["space", "play, pause"],
  ["← →", "event before, after"],
  ["shift ← →", "step before, after"],
  ["[ ]", "error before, after"],
  ["home end", "beginning, end"],
  ["↑ ↓", "select in the list"],
  ["enter", "play from the selected event"],
  ["- +", "slower, faster"],
  ["/", "search"],
  ["n N", "next hit, the one before; in the search field enter, shift enter"],
  ["f", "filter"],
  ["x", "no filter"],
  ["c", "compare"],
  ["v", "the next view"],
  ["t", "to the timeline"],
  ["g", "go to a position"],
  ["1 2 3", "tree, inspector, timeline"],
  ["l", "live, paused, with a server"],
  ["d", "dark, light, as the system"],
  [".", "copy the link to here"],
  ["esc", "close what is open"],
  ["?", "these keys"],
];

/** What the page does for a key; whether it was one of its own. */
export function pressed(event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  const isTyping = target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
  if (event.key === "Escape") return escaped(target);
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || view.lane === undefined) return false;
  if (event.key === " " && ["BUTTON", "A", "SUMMARY"].includes(target.tagName)) return false;
  switch (event.key) {
    case " ":
      playback.toggle();
      break;
    case "ArrowRight":
    case "ArrowLeft":
      if (target.closest("[data-arrows]") !== null) return false;
      playback.stop();
      void view.step(event.shiftKey ? "step" : "event", event.key === "ArrowRight");
      break;
    case "ArrowDown":
    case "ArrowUp":
      return toList(event, target);
    case "[":
    case "]":
      playback.stop();
      void view.step("error", event.key === "]");
      break;
    case "Home":
    case "End":
      view.seek(event.key === "Home" ? 0 : view.lane.moments);
      break;
    case "-":
    case "+":
    case "=":
      settings.speed = Math.max(1, Math.min(64, event.key === "-" ? settings.speed / 2 : settings.speed * 2));
      saveSettings();
      break;
    case "/":
      document.getElementById("search")?.focus();
      break;
    case "n":
    case "N":
      void view.nextHit(event.key === "n");
      break;
    case "f":
      panels.filters = !panels.filters;
      break;
    case "x":
      view.clearFilter();
      break;
    case "c":
      view.setTab(view.tab === "compare" ? "conversation" : "compare");
      break;
    case "v":
      view.setTab(TABS[(TABS.indexOf(view.tab) + 1) % TABS.length] ?? "conversation");
      break;
    case "t":
      panels.showTimeline();
      document.getElementById("timeline")?.focus();
      break;
    case "g":
      toPosition();
      break;
    case "1":
      panels.toggleTree();
      break;
    case "2":
      panels.toggleInspector();
      break;
    case "3":
      panels.toggleTimeline();
      break;
    case "l":
      if (live.isFollowing) live.togglePaused();
      break;
    case "d":
      nextTheme();
      break;
    case ".":
      void view.copyLink();
      break;
    case "?":
      panels.help = !panels.help;
      break;
    case "Enter":
      if (view.selected === undefined || target.tagName === "BUTTON") return false;
      void view.seekSelected();
      break;
    default:
      return false;
  }
  saveSettings();
  return true;
}

/** Selects in the list that is shown, also for those who haven't clicked into it. */
function toList(event: KeyboardEvent, target: HTMLElement): boolean {
  const list = document.querySelector<HTMLElement>("#view .viewport");
  const isElsewhere = target !== document.body && target.closest("header, #view") === null;
  if (list === null || event.shiftKey || isElsewhere || list.contains(target) || (view.tab !== "conversation" && view.tab !== "events")) return false;
  list.focus();
  list.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, bubbles: true, cancelable: true }));
  return true;
}

/** From the system's theme to the one that looks other, and on to the third, so that each press but the last is seen. */
export function nextTheme(): void {
  const other = matchMedia("(prefers-color-scheme: dark)").matches ? "light" : "dark";
  const themes = ["system", other, other === "dark" ? "light" : "dark"] as const;
  settings.theme = themes[(themes.indexOf(settings.theme) + 1) % themes.length] ?? "system";
  saveSettings();
}

/** What is typed takes the place of the number that is there. */
function toPosition(): void {
  const field = document.getElementById("position");
  field?.focus();
  if (field instanceof HTMLInputElement) field.select();
}

function escaped(target: HTMLElement): boolean {
  if (panels.help) panels.help = false;
  else if (panels.filters) panels.filters = false;
  else if (target.id === "search" && view.query !== "") view.find("");
  else if (["INPUT", "SELECT"].includes(target.tagName)) target.blur();
  else if (panels.drawer) panels.drawer = false;
  else if (panels.sheet) panels.sheet = false;
  else if (view.selected !== undefined) view.unselect();
  else return false;
  return true;
}
