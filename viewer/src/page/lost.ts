// What is said of what an address names, and isn't there.

import { plain } from "./ansi.js";
import type { Remote } from "./rpc.js";

/** Of what stands in an address so much is said. */
const SAID_MAX = 80;
const said = (value: string) => plain(value.length > SAID_MAX ? `${value.slice(0, SAID_MAX)}…` : value);
export const quoted = (value: string) => `“${said(value)}”`;
export const noAgent = (id: string, place = "recording") => `There is no agent ${said(id)} in this ${place}`;

/** Why an agent that an address names can't be shown; undefined where it can, or none is named. */
export async function whyLost(remote: Remote, id: string | undefined): Promise<string | undefined> {
  const state = id === undefined ? "there" : await remote.laneState(id);
  return id === undefined || state === "there" ? undefined : state === "deleted" ? `The session of agent ${said(id)} was deleted` : noAgent(id);
}
