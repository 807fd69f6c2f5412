import type { LaneStatus, TreeRow } from "../protocol.js";
import { standingOf } from "./chats.js";
import { durationOf, parentOf } from "./family.js";
import type { LogIndex } from "./index.js";
import { type Lane, type Session, eventsIn } from "./model.js";
import { laneTitle, sessionTitle } from "./titles.js";
import { usageOf } from "./usage.js";

/** How an agent's latest run stands. */
export function statusOf(index: LogIndex, lane: Lane): LaneStatus {
  const standing = lane.chat === undefined ? undefined : standingOf(index.rows, lane.chat);
  return index.runs[lane.runs.at(-1) ?? -1]?.status ?? lane.flowStatus ?? standing?.status ?? "none";
}

interface Node {
  id: string;
  depth: number;
  session: Session | undefined;
  lane: Lane | undefined;
  children: number;
  /** How many of those below it failed, however deep. */
  failedBelow: number;
  /** Which one it is of those that are shown below the same one, from 1, and how many these are. */
  place: number;
  siblings: number;
}

/** Tells each node which of its siblings it is. */
function counted(nodes: Node[]): Node[] {
  /** Of each depth those that are below the same node, so far. */
  const open: (Node[] | undefined)[] = [];
  const close = (depth: number) => {
    // With a filter, levels between may be missing.
    for (const siblings of open.splice(depth)) for (const node of siblings ?? []) node.siblings = siblings?.length ?? 0;
  };
  for (const node of nodes) {
    close(node.depth + 1);
    const siblings = (open[node.depth] ??= []);
    node.place = siblings.push(node);
  }
  close(0);
  return nodes;
}

/** Sessions, and the agents in them below who spawned them; a fork stands below what it is a fork of. */
export class Tree {
  /** Nodes that are folded, if they are small enough to be open by themselves, or opened. */
  readonly #toggled = new Set<string>();
  #shown: Node[] | undefined;
  #filter = "";
  /** What stands directly below a lane, by its index. */
  #below = new Map<number, Lane[]>();

  /** The session that was added last is the first one; with `isByTime` the one that began last. */
  constructor(
    private readonly index: LogIndex,
    private readonly isByTime = false,
  ) {}

  /** The index has more than before; what is folded stays so. */
  grown(): void {
    this.#shown = undefined;
  }

  toggle(id: string): void {
    if (!this.#toggled.delete(id)) this.#toggled.add(id);
    this.#shown = undefined;
  }

  set filter(text: string) {
    this.#filter = text.toLowerCase();
    this.#shown = undefined;
  }

  rows(from: number, count: number): { rows: TreeRow[]; total: number } {
    this.#shown ??= this.#flatten();
    return { rows: this.#shown.slice(from, from + count).map((node) => this.#row(node)), total: this.#shown.length };
  }

  /** Where an agent or a session stands among the rows; -1 when it is folded away, or not there. */
  placeOf(id: string): number {
    this.#shown ??= this.#flatten();
    return this.#shown.findIndex((node) => node.id === id);
  }

  /** The same of the nearest that it is below of, where it is folded away. */
  placeNear(id: string): number {
    let lane = this.index.laneOf(id);
    for (let at = lane; at !== undefined; at = this.#above(at)) {
      const place = this.placeOf(at.id);
      if (place >= 0) return place;
      lane = at;
    }
    return this.placeOf(lane?.sessionId ?? "");
  }

  /** Unfolds what an agent is folded away in. */
  reveal(id: string): void {
    this.#shown ??= this.#flatten();
    let lane = this.index.laneOf(id);
    if (lane === undefined || this.#filter !== "") return;
    for (let above = this.#above(lane); above !== undefined; above = this.#above(above)) {
      if (!this.#isOpen(above.id, this.#below.get(above.index)?.length ?? 0)) this.toggle(above.id);
      lane = above;
    }
    if (lane.sessionId !== undefined && !this.#isOpen(lane.sessionId, 0)) this.toggle(lane.sessionId);
  }

  /** Where the row stands that another one is below of; -1 where that is none. */
  placeAbove(place: number): number {
    this.#shown ??= this.#flatten();
    const { depth = 0 } = this.#shown[place] ?? {};
    let above = place - 1;
    while (above >= 0 && (this.#shown[above] as Node).depth >= depth) above--;
    return above;
  }

  #flatten(): Node[] {
    const children = (this.#below = this.#children());
    const failed = this.#failedBelow(children);
    const nodes: Node[] = [];
    const wordsOf = (lane: Lane) => {
      const session = this.index.sessions.get(lane.sessionId ?? "");
      return `${lane.name} ${session?.title ?? ""} ${session?.name ?? ""} ${lane.id}`.toLowerCase();
    };
    const matches = (lane: Lane) => this.#filter === "" || wordsOf(lane).includes(this.#filter);
    // A lane below another one may be as deep as agents spawn agents: a stack of our own.
    const visit = (roots: Lane[], depth: number) => {
      const stack = roots.map((lane) => [lane, depth] as const).reverse();
      for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
        const [lane, level] = next;
        const below = children.get(lane.index) ?? [];
        if (matches(lane)) nodes.push({ id: lane.id, depth: level, session: undefined, lane, children: below.length, failedBelow: failed.get(lane.index) ?? 0, place: 0, siblings: 0 });
        if (this.#isOpen(lane.id, below.length)) for (const child of below.toReversed()) stack.push([child, level + 1]);
      }
    };
    const sessions = [...this.index.sessions.values()].filter((session) => !session.deleted);
    for (const session of sessions.sort((a, b) => (this.isByTime ? b.createdAt - a.createdAt : 0) || b.position - a.position)) {
      const roots = session.lanes.map((lane) => this.index.lanes[lane] as Lane).filter((lane) => this.#above(lane) === undefined);
      if (roots.length === 0) continue;
      const at = nodes.length;
      if (this.#isOpen(session.id, 0)) visit(roots, 1);
      if (this.#filter === "" || nodes.length > at) nodes.splice(at, 0, { id: session.id, depth: 0, session, lane: undefined, children: session.lanes.length, failedBelow: roots.reduce((sum, root) => sum + (failed.get(root.index) ?? 0) + (this.#hasFailed(root) ? 1 : 0), 0), place: 0, siblings: 0 });
    }
    visit(
      this.index.lanes.filter((lane) => lane.sessionId === undefined),
      0,
    );
    return counted(nodes);
  }

  #children(): Map<number, Lane[]> {
    const children = new Map<number, Lane[]>();
    for (const lane of this.index.lanes) {
      const parent = this.#above(lane);
      if (parent === undefined || this.#isDeleted(lane)) continue;
      const list = children.get(parent.index);
      if (list === undefined) children.set(parent.index, [lane]);
      else list.push(lane);
    }
    return children;
  }

  #hasFailed(lane: Lane): boolean {
    return statusOf(this.index, lane) === "failed";
  }

  /** How many failed of those below each lane that has any, by its index. */
  #failedBelow(children: Map<number, Lane[]>): Map<number, number> {
    const stack = this.index.lanes.filter((lane) => this.#above(lane) === undefined);
    const ordered: Lane[] = [];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      ordered.push(next);
      for (const child of children.get(next.index) ?? []) stack.push(child);
    }
    const failed = new Map<number, number>();
    // What is below another one comes before it.
    for (const { index } of ordered.reverse()) {
      const sum = (children.get(index) ?? []).reduce((sum, child) => sum + (failed.get(child.index) ?? 0) + (this.#hasFailed(child) ? 1 : 0), 0);
      if (sum > 0) failed.set(index, sum);
    }
    return failed;
  }

  /** The lane that another one stands below: the nearest that it comes from whose session is still there. */
  #above(lane: Lane): Lane | undefined {
    let parent = parentOf(this.index, lane);
    while (parent !== undefined && this.#isDeleted(parent)) parent = parentOf(this.index, parent);
    return parent;
  }

  #isDeleted(lane: Lane): boolean {
    return this.index.sessions.get(lane.sessionId ?? "")?.deleted === true;
  }

  #isOpen(id: string, children: number): boolean {
    return this.#filter !== "" || this.#toggled.has(id) !== children <= 50;
  }

  #row(node: Node): TreeRow {
    const { lane, session } = node;
    const open = this.#isOpen(node.id, session === undefined ? node.children : 0);
    const base = { id: node.id, depth: node.depth, children: node.children, failedBelow: node.failedBelow, open, place: node.place, siblings: node.siblings };
    if (session !== undefined) {
      const root = this.index.lanes[session.lanes[0] ?? -1];
      const title = sessionTitle(session);
      const agents = session.lanes.filter((at) => this.index.lanes[at]?.chat === undefined).length;
      return { ...base, kind: "session", title, status: "none", count: agents, errors: 0, durationMs: undefined, tokens: 0, cost: 0, forkAt: undefined, laneId: root?.id };
    }
    const own = lane as Lane;
    const usage = usageOf(own);
    return {
      ...base,
      kind: "agent",
      title: laneTitle(this.index, own),
      status: statusOf(this.index, own),
      // As in the header: what was truncated isn't counted.
      count: own.flowStatus === undefined ? eventsIn(own) : own.messages + own.toolCalls,
      errors: own.errors,
      durationMs: durationOf(own),
      tokens: usage.tokens,
      cost: usage.cost,
      forkAt: own.forkOf >= 0 ? own.forkAt : undefined,
      laneId: own.id,
    };
  }
}
