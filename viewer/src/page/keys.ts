import { type App, TABS } from "./app.svelte.js";

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
  ["n N", "next hit, the one before"],
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
export function pressed(app: App, event: KeyboardEvent): boolean {
  const target = event.target as HTMLElement;
  const isTyping = target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
  if (event.key === "Escape") return escaped(app, target);
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey || app.lane === undefined) return false;
  if (event.key === " " && ["BUTTON", "A", "SUMMARY"].includes(target.tagName)) return false;
  const { settings } = app;
  switch (event.key) {
    case " ":
      app.play();
      break;
    case "ArrowRight":
    case "ArrowLeft":
      if (target.closest("[data-arrows]") !== null) return false;
      app.playing = false;
      void app.step(event.shiftKey ? "step" : "event", event.key === "ArrowRight");
      break;
    case "ArrowDown":
    case "ArrowUp":
      return toList(app, event, target);
    case "[":
    case "]":
      app.playing = false;
      void app.step("error", event.key === "]");
      break;
    case "Home":
    case "End":
      app.seek(event.key === "Home" ? 0 : app.lane.moments);
      break;
    case "-":
    case "+":
    case "=":
      settings.speed = Math.max(1, Math.min(64, event.key === "-" ? settings.speed / 2 : settings.speed * 2));
      app.saveSettings();
      break;
    case "/":
      document.getElementById("search")?.focus();
      break;
    case "n":
    case "N":
      void app.nextHit(event.key === "n");
      break;
    case "f":
      app.filtering = !app.filtering;
      break;
    case "x":
      app.clearFilter();
      break;
    case "c":
      app.setTab(app.tab === "compare" ? "conversation" : "compare");
      break;
    case "v":
      app.setTab(TABS[(TABS.indexOf(app.tab) + 1) % TABS.length] ?? "conversation");
      break;
    case "t":
      if (!settings.timelineOpen) settings.timelineOpen = true;
      document.getElementById("timeline")?.focus();
      break;
    case "g":
      document.getElementById("position")?.focus();
      break;
    case "1":
      if (window.innerWidth < 700) app.drawer = !app.drawer;
      else settings.treeOpen = !settings.treeOpen;
      break;
    case "2":
      if (app.isNarrow) app.sheet = !app.sheet;
      else settings.inspectorOpen = !settings.inspectorOpen;
      break;
    case "3":
      settings.timelineOpen = !settings.timelineOpen;
      break;
    case "l":
      if (app.served) app.toggleLive();
      break;
    case "d":
      nextTheme(app);
      break;
    case ".":
      void app.copyLink();
      break;
    case "?":
      app.help = !app.help;
      break;
    case "Enter":
      if (app.selected === undefined || target.tagName === "BUTTON") return false;
      void app.seekSelected();
      break;
    default:
      return false;
  }
  app.saveSettings();
  return true;
}

/** Selects in the list that is shown, also for those who haven't clicked into it. */
function toList(app: App, event: KeyboardEvent, target: HTMLElement): boolean {
  const list = document.querySelector<HTMLElement>("#view .viewport");
  const isElsewhere = target !== document.body && target.closest("header, #view") === null;
  if (list === null || event.shiftKey || isElsewhere || list.contains(target) || (app.tab !== "conversation" && app.tab !== "events")) return false;
  list.focus();
  list.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, bubbles: true, cancelable: true }));
  return true;
}

/** From the system's theme to the one that looks other, and on to the third, so that each press but the last is seen. */
export function nextTheme(app: App): void {
  const other = matchMedia("(prefers-color-scheme: dark)").matches ? "light" : "dark";
  const themes = ["system", other, other === "dark" ? "light" : "dark"] as const;
  app.settings.theme = themes[(themes.indexOf(app.settings.theme) + 1) % themes.length] ?? "system";
  app.saveSettings();
}

function escaped(app: App, target: HTMLElement): boolean {
  if (app.help) app.help = false;
  else if (app.filtering) app.filtering = false;
  else if (target.id === "search" && app.query !== "") app.find("");
  else if (["INPUT", "SELECT"].includes(target.tagName)) target.blur();
  else if (app.drawer) app.drawer = false;
  else if (app.sheet) app.sheet = false;
  else if (app.selected !== undefined) app.unselect();
  else return false;
  return true;
}
