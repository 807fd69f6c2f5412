// What sessions are called on the page.

import type { LogIndex } from "./index.js";
import type { Lane, Session } from "./model.js";

/** An id by its end: its beginning is its time, which other ids of the same minute have too, and a narrow list would cut off the end behind it. */
const shortId = (id: string) => `…${id.slice(-6)}`;

export function sessionTitle(session: Session): string {
  return session.title ?? session.name ?? `session ${shortId(session.id)}`;
}

/** The session of a lane that is a copy, if nobody gave it a title of its own: then its name, or where it was made, tells it from its
 * source and from other copies. */
function untitledCopy(index: LogIndex, lane: Lane): { session: Session; root: Lane; name: string | undefined } | undefined {
  const session = index.sessions.get(lane.sessionId ?? "");
  const root = index.lanes[session?.lanes[0] ?? -1];
  const source = index.sessions.get(index.lanes[root?.forkOf ?? -1]?.sessionId ?? "");
  if (session === undefined || root === undefined || source === undefined) return undefined;
  const title = sessionTitle(session);
  if (sessionTitle(source) !== title) return undefined;
  return { session, root, name: session.name === title ? undefined : session.name };
}

/** What the session of a lane is called. A copy has the title of its source unless it was given one: its name, or where it was
 * made, stands before it then, where a narrow list doesn't cut it off. */
export function titleOf(index: LogIndex, lane: Lane): string {
  if (lane.flowStatus !== undefined) return `flow ${shortId(lane.id)}`;
  const session = index.sessions.get(lane.sessionId ?? "");
  if (session === undefined) return `session ${shortId(lane.sessionId ?? lane.id)}`;
  const copy = untitledCopy(index, lane);
  const title = sessionTitle(session);
  return copy === undefined ? title : `${copy.name ?? `fork at #${copy.root.forkAt}${endOfId(index, copy.session, copy.root)}`} · ${title}`;
}

const counted = new WeakMap<LogIndex, { lanes: number; made: Map<string, number> }>();

/** How many copies were made of each lane at each of its events. */
function copiesOf(index: LogIndex): Map<string, number> {
  const known = counted.get(index);
  if (known?.lanes === index.lanes.length) return known.made;
  const made = new Map<string, number>();
  for (const lane of index.lanes) {
    if (lane.forkOf < 0 || lane.parentId !== undefined) continue;
    const at = `${lane.forkOf} ${lane.forkAt}`;
    made.set(at, (made.get(at) ?? 0) + 1);
  }
  counted.set(index, { lanes: index.lanes.length, made });
  return made;
}

/** The end of the id of a copy without a name, if another was made at the same event. */
function endOfId(index: LogIndex, session: Session, root: Lane): string {
  const isOne = (copiesOf(index).get(`${root.forkOf} ${root.forkAt}`) ?? 0) < 2;
  return isOne ? "" : `, ${session.id.slice(-4)}`;
}

/** What a copy is called beside the mark that says where it was made. */
function copyTitle(index: LogIndex, lane: Lane): string {
  const session = index.sessions.get(lane.sessionId ?? "");
  const copy = untitledCopy(index, lane);
  const title = session?.title ?? lane.name;
  return copy === undefined ? title : (copy.name ?? `${title}${endOfId(index, copy.session, copy.root)}`);
}

/** What an agent is called among those that are shown with it: a copy by its session's title, which tells it from its source. */
export function laneTitle(index: LogIndex, lane: Lane): string {
  return lane.forkOf >= 0 && lane.parentId === undefined ? copyTitle(index, lane) : lane.name;
}
