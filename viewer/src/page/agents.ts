import { plain } from "./ansi.js";
import { laneName } from "./format.js";
import { view } from "./view.svelte.js";

/** What the agent of an event is called among those of its session: one of a fork as the tree calls it, since it has its original's name. */
export function agentName(event: { laneId: string; agent: string }): string {
  const lane = view.lane?.lanes.find((one) => one.id === event.laneId);
  if (!lane?.isFork) return plain(event.agent);
  return lane.name === event.agent ? laneName(lane) : plain(lane.name);
}
