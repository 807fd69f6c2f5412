// What sessions are called on the page.

import type { LogIndex } from "./index.js";
import type { Lane, Session } from "./model.js";

export function sessionTitle(session: Session): string {
  return session.title ?? session.name ?? `session ${session.id.slice(0, 8)}`;
}

/** What the session of a lane is called. A copy has the title of its source unless it was given one: its name, or where it was
 * made, stands before it then, where a narrow list doesn't cut it off. */
export function titleOf(index: LogIndex, lane: Lane): string {
  if (lane.flowStatus !== undefined) return `flow ${lane.id.slice(0, 8)}`;
  const session = index.sessions.get(lane.sessionId ?? "");
  if (session === undefined) return `session ${(lane.sessionId ?? lane.id).slice(0, 8)}`;
  const title = sessionTitle(session);
  const root = index.lanes[session.lanes[0] ?? -1];
  const source = index.sessions.get(index.lanes[root?.forkOf ?? -1]?.sessionId ?? "");
  if (root === undefined || source === undefined || sessionTitle(source) !== title) return title;
  return `${session.name === undefined || session.name === title ? `fork at ${root.forkAt}` : session.name} · ${title}`;
}
