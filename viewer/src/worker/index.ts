import { CallFlag, type EventHeads, HeadFlag, type HeadsPage, NO_VALUE } from "runlog";

import { Alive, Entries } from "./entries.js";
import { Kind } from "./kinds.js";
import { u32 } from "./lists.js";
import { uuidAt } from "./meta.js";
import { Columns, Flag, type Lane, NONE, type Run, type Session, type Status, entryOf, newLane } from "./model.js";
import type { SourceRecord } from "./source.js";

const utf8 = new TextDecoder();

type Json = Record<string, unknown>;

/** What is known of a log: every event in columns, and who they belong to. Records are taken in in the order of positions. */
export class LogIndex {
  readonly rows = new Columns();
  readonly lanes: Lane[] = [];
  readonly sessions = new Map<string, Session>();
  readonly runs: Run[] = [];
  readonly tools: string[] = [];
  readonly #laneOf = new Map<string, number>();
  readonly #runOf = new Map<string, number>();
  readonly #toolOf = new Map<string, number>();
  /** Results of calls beside the first that their own lanes have: in a fork, or after that was truncated. In the order of the log. */
  readonly #answers = new Map<number, Answer[]>();
  /** How many failures results are, by their rows. */
  readonly #failures = new Map<number, number>();
  /** Streams by their number, from 1: what a fork names its parent by. */
  readonly #streams: string[] = [""];

  /** Takes in a page of heads. */
  add({ events, others }: HeadsPage): void {
    const laneOf = events.streamIds.map(() => undefined as Lane | undefined);
    const page: EventPage = { events, laneOf, tools: events.toolNames.map((name) => this.#tool(name)), usage: 0, unknown: -1 };
    let at = 0;
    for (const record of others) {
      at = this.#addEvents(page, at, record.position);
      this.#addOne(record);
    }
    this.#addEvents(page, at, Infinity);
  }

  #addOne(record: SourceRecord): void {
    const { kind } = record;
    if (kind >= Kind.SessionCreated && kind <= Kind.InstanceCreated) this.#addToCatalog(record);
    else if (kind === Kind.ListedRun || kind === Kind.ListedRunStatus) return;
    else if (kind >= Kind.StreamMade) this.#addControl(record);
    else if (kind >= Kind.RunCreated && kind <= Kind.SpaceSaved) this.#addOfRun(record);
    else if (kind >= 64 && kind <= 101) this.#addOther(record);
  }

  /** The lane of a stream. */
  laneOf(stream: string): Lane | undefined {
    const index = this.#laneOf.get(stream);
    return index === undefined ? undefined : this.lanes[index];
  }

  runOf(id: string): Run | undefined {
    const index = this.#runOf.get(id);
    return index === undefined ? undefined : this.runs[index];
  }

  /** The row at a position, or -1. */
  rowAt(position: number): number {
    const positions = this.rows.position;
    let low = 0;
    let high = positions.length - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const found = positions.at(middle);
      if (found === position) return middle;
      if (found < position) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  #lane(stream: string): Lane {
    const found = this.laneOf(stream);
    if (found !== undefined) return found;
    const lane = newLane(this.lanes.length, stream);
    this.#laneOf.set(stream, lane.index);
    this.lanes.push(lane);
    return lane;
  }

  #row(record: SourceRecord, lane: number, time: number, more: { step?: number; tool?: number; duration?: number; flags?: number } = {}): number {
    const { rows } = this;
    const row = rows.add();
    rows.position.items[row] = record.position;
    rows.time.items[row] = time;
    rows.sequence.items[row] = record.sequence;
    rows.kind.items[row] = record.kind;
    rows.flags.items[row] = (more.flags ?? 0) | (record.redacted ? Flag.Redacted : 0);
    rows.lane.items[row] = lane;
    rows.step.items[row] = more.step ?? -1;
    rows.tool.items[row] = more.tool ?? -1;
    rows.link.items[row] = -1;
    rows.duration.items[row] = more.duration ?? Number.NaN;
    rows.bytes.items[row] = record.payload.length;
    return row;
  }

  /** Adds the events of a page from an index on, up to a position; where the rest begins. Columns are copied as they are. */
  #addEvents(page: EventPage, from: number, before: number): number {
    const { events } = page;
    let end = from;
    while (end < events.count && (events.positions[end] as number) < before) end += 1;
    if (end === from) return end;
    const { rows } = this;
    const first = rows.add(end - from);
    rows.position.items.set(events.positions.subarray(from, end), first);
    rows.sequence.items.set(events.sequences.subarray(from, end), first);
    rows.kind.items.set(events.kinds.subarray(from, end), first);
    // What is none is the highest number, which is -1 here.
    rows.step.items.set(events.steps.subarray(from, end), first);
    rows.link.items.fill(-1, first, first + end - from);
    for (let at = from; at < end; at++) this.#addEvent(page, at, first + at - from);
    return end;
  }

  #addEvent(page: EventPage, at: number, row: number): void {
    const { events } = page;
    const { rows } = this;
    const stream = events.streams[at] as number;
    const lane = (page.laneOf[stream] ??= this.#lane(events.streamIds[stream] as string));
    const recorded = events.recorded[at] as number;
    const happened = events.happened[at] as number;
    const time = Number.isNaN(happened) ? recorded : happened;
    lane.skew = recorded - time;
    const kind = events.kinds[at] as number;
    const firstCall = at === 0 ? 0 : (events.callEnds[at - 1] as number);
    const endCall = events.callEnds[at] as number;
    const given = events.flags[at] as number;
    let flags = (given & HeadFlag.Redacted) !== 0 ? Flag.Redacted : 0;
    if ((given & HeadFlag.Continuation) !== 0) flags |= Flag.Continuation;
    if ((given & HeadFlag.Silent) !== 0) flags |= Flag.Silent;
    if ((given & HeadFlag.SaysMore) !== 0) flags |= Flag.SaysMore;
    let tool = -1;
    if (kind === Kind.ToolCall) {
      const name = events.tools[at] as number;
      tool = name === NO_VALUE ? this.#unknownTool(page) : (page.tools[name] as number);
      lane.toolCalls += 1;
      if (firstCall < endCall) {
        const id = idOf(events, firstCall);
        if (id !== undefined) {
          const others = lane.calls.get(id);
          if (others === undefined) lane.calls.set(id, [row]);
          else others.push(row);
        }
      }
    } else lane.messages += 1;
    rows.time.items[row] = time;
    rows.lane.items[row] = lane.index;
    rows.tool.items[row] = tool;
    rows.duration.items[row] = firstCall < endCall ? (events.callDurations[firstCall] as number) : Number.NaN;
    rows.bytes.items[row] = events.contentBytes[at] as number;
    rows.flags.items[row] = flags;
    if (kind === Kind.ToolResult) this.#answer(lane, row, events, firstCall, endCall);
    if (page.usage < events.usages.length && events.usages[page.usage] === at) this.#addUsage(page, lane);
    const sequence = events.sequences[at] as number;
    lane.alive.put(sequence - 1, lane.entries.length);
    lane.entries.push(row);
    if (Number.isNaN(lane.firstTime)) lane.firstTime = time;
    lane.lastTime = time;
  }

  #addUsage(page: EventPage, lane: Lane): void {
    const { events, usage } = page;
    lane.tokensIn += events.inputTokens[usage] as number;
    lane.tokensOut += events.outputTokens[usage] as number;
    lane.cost += events.costs[usage] as number;
    page.usage += 1;
  }

  /** Joins a result to its calls. */
  #answer(lane: Lane, row: number, events: EventHeads, first: number, end: number): void {
    const { rows } = this;
    for (let mark = first; mark < end; mark++) {
      const isError = ((events.callFlags[mark] as number) & CallFlag.Failed) !== 0;
      if (isError) rows.flags.set(row, rows.flags.at(row) | Flag.Error);
      const id = idOf(events, mark);
      // One that was truncated since isn't answered any more: the result stands by itself.
      const call = id === undefined ? undefined : this.#callOf(lane, id);
      if (call === undefined) continue;
      rows.link.set(row, call);
      rows.tool.set(row, rows.tool.at(call));
      if (isError) {
        lane.errors += 1;
        this.#failures.set(row, (this.#failures.get(row) ?? 0) + 1);
      }
      const durationMs = events.callDurations[mark] as number;
      if (rows.lane.at(call) !== lane.index || rows.link.at(call) >= 0) {
        if (rows.lane.at(call) !== lane.index) lane.answers.set(call, row);
        // A fork answers a call that it inherits by itself, and a call is answered anew after its result was truncated.
        const others = this.#answers.get(call);
        if (others === undefined) this.#answers.set(call, [{ row, isError, durationMs }]);
        else others.push({ row, isError, durationMs });
        continue;
      }
      rows.link.set(call, row);
      if (!Number.isNaN(durationMs)) rows.duration.set(call, durationMs);
      if (isError) rows.flags.set(call, rows.flags.at(call) | Flag.Error);
    }
  }

  /** What answers a call in a lane that has it, else in its own, at a moment, by default now; undefined where nothing does. */
  answerOf(call: number, lane: Lane | undefined, when?: When): Answer | undefined {
    const { rows } = this;
    const owner = rows.lane.at(call);
    const own = lane !== undefined && lane.index !== owner && entryOf(lane, call) >= 0 ? lane : this.lanes[owner];
    if (own === undefined) return undefined;
    const others = this.#answers.get(call);
    for (const answer of others?.toReversed() ?? []) if (this.#hasResult(own, call, answer.row, when)) return answer;
    const row = rows.link.at(call);
    if (row < 0) return undefined;
    // Of most lanes nothing was ever taken back, and a filter asks for a million.
    const isThere = own.index === owner && own.truncations.length === 0 ? when === undefined || (when.rank[row] as number) < when.moment : this.#hasResult(own, call, row, when);
    if (!isThere) return undefined;
    return { row, isError: (rows.flags.at(call) & Flag.Error) !== 0, durationMs: rows.duration.at(call) };
  }

  /** The call with an id that a lane has now, by itself or from the lanes that it is a fork of. */
  #callOf(lane: Lane, id: string): number | undefined {
    for (let at: Lane | undefined = lane; at !== undefined; at = this.lanes[at.forkOf]) {
      const call = at.calls.get(id)?.findLast((row) => this.#isAlive(lane, row));
      if (call !== undefined) return call;
    }
    return undefined;
  }

  /** How many calls a result says that failed. */
  #failuresIn(row: number): number {
    return this.#failures.get(row) ?? 0;
  }

  /** Whether a lane has an event now. */
  #isAlive(lane: Lane, row: number): boolean {
    const entry = lane.alive.at(this.rows.sequence.at(row) - 1);
    return entry !== undefined && lane.entries.at(entry) === row;
  }

  /** Whether a lane has a result at a moment. What was taken back together with its call is still the result of that. */
  #hasResult(lane: Lane, call: number, result: number, when: When | undefined): boolean {
    const entry = entryOf(lane, result);
    if (entry < 0) return false;
    const death = lane.deaths.at(entry);
    if (when === undefined) return death === NONE || death === this.#deathOf(lane, call);
    const rankOf = (row: number) => when.rank[row] as number;
    if (rankOf(result) >= when.moment) return false;
    return death === NONE || rankOf(death) >= when.moment || death === this.#deathOf(lane, call);
  }

  #deathOf(lane: Lane, row: number): number | undefined {
    const entry = entryOf(lane, row);
    return entry < 0 ? undefined : lane.deaths.at(entry);
  }

  /** The number of a tool's name. */
  #tool(name: string): number {
    let tool = this.#toolOf.get(name);
    if (tool === undefined) {
      tool = this.tools.length;
      this.#toolOf.set(name, tool);
      this.tools.push(name);
    }
    return tool;
  }

  /** A name that isn't whole in the beginning stays unknown here; the inspector has all of it. */
  #unknownTool(page: EventPage): number {
    if (page.unknown < 0) page.unknown = this.#tool("?");
    return page.unknown;
  }

  #addToCatalog(record: SourceRecord): void {
    if (record.redacted) return;
    const json = jsonOf(utf8.decode(record.payload));
    const id = textOf(json["id"]) ?? "";
    switch (record.kind) {
      case Kind.SessionCreated:
        this.#session(id, json);
        break;
      case Kind.SessionUpdated: {
        const session = this.sessions.get(id);
        const title = textOf((json["changes"] as Json | undefined)?.["title"]);
        if (session !== undefined && title !== undefined) session.title = title;
        break;
      }
      case Kind.SessionDeleted: {
        const session = this.sessions.get(id);
        if (session !== undefined) session.deleted = true;
        break;
      }
      case Kind.InstanceCreated: {
        const lane = this.#lane(id);
        lane.name = textOf(json["agent_name"]) ?? "agent";
        lane.sessionId = textOf(json["session_id"]);
        lane.parentId = textOf(json["parent_instance_id"]);
        if (lane.sessionId !== undefined) this.#session(lane.sessionId).lanes.push(lane.index);
        break;
      }
    }
  }

  #session(id: string, json?: Json): Session {
    let session = this.sessions.get(id);
    if (session === undefined) {
      session = { id, title: undefined, name: undefined, copiedFrom: undefined, createdAt: 0, deleted: false, lanes: [] };
      this.sessions.set(id, session);
    }
    if (json !== undefined) {
      session.title = textOf(json["title"]);
      session.name = textOf(json["name"]);
      session.copiedFrom = textOf(json["copied_from"]);
      session.createdAt = numberOf(json["created_at_ms"]);
    }
    return session;
  }

  #addOfRun(record: SourceRecord): void {
    const json = record.redacted ? {} : jsonOf(utf8.decode(record.payload));
    if (record.kind === Kind.RunCreated) this.#addRun(json);
    const run = this.runOf(record.stream);
    const lane = run === undefined ? undefined : this.lanes[run.lane];
    const time = numberOf(json["at_ms"] ?? json["created_at"]) || record.timeMs;
    let flags = 0;
    if (run !== undefined && record.kind === Kind.RunStatus) {
      run.status = (textOf(json["status"]) as Status | undefined) ?? run.status;
      run.endedAt = time;
      run.text = textOf(json["error_message"] ?? json["summary"] ?? json["pause_reason"]);
      if (run.status === "failed") {
        flags = Flag.Error;
        if (lane !== undefined) lane.errors += 1;
      }
    }
    const step = record.kind === Kind.StepStarted ? numberOf(json["step_number"]) : -1;
    if (run !== undefined && step > run.steps) run.steps = step;
    const row = this.#row(record, run?.lane ?? -1, time, { step, flags });
    if (run !== undefined && record.kind === Kind.RunCreated) run.row = row;
    if (record.kind === Kind.SpaceSaved) lane?.snapshots.push(row);
    if (lane !== undefined) lane.lastTime = Number.isNaN(lane.lastTime) ? time : Math.max(lane.lastTime, time);
  }

  #addRun(json: Json): void {
    const id = textOf(json["id"]) ?? "";
    const instanceId = textOf(json["instance_id"]) ?? "";
    const lane = this.#lane(instanceId);
    const index = this.runs.length;
    this.#runOf.set(id, index);
    this.runs.push({
      id,
      lane: lane.index,
      instanceId,
      status: (textOf(json["status"]) as Status | undefined) ?? "running",
      createdAt: numberOf(json["created_at"]),
      endedAt: undefined,
      steps: numberOf(json["step_count"]),
      parentRunId: textOf(json["parent_run_id"]),
      resumedFrom: textOf(json["resumed_from"]),
      resumedBy: undefined,
      row: -1,
      text: undefined,
    });
    const before = this.runOf(textOf(json["resumed_from"]) ?? "");
    if (before !== undefined) before.resumedBy = id;
    lane.runs.push(index);
  }

  #addOther(record: SourceRecord): void {
    const run = this.runOf(record.stream);
    const session = this.sessions.get(record.stream);
    const isFlow = record.kind >= Kind.FlowAgent;
    const lane = run?.lane ?? session?.lanes[0] ?? (isFlow ? this.#flow(record).index : -1);
    let flags = 0;
    if (record.kind === Kind.FlowAgent && lane >= 0 && record.payload.length < 1 << 20) flags = this.#flowAgent(this.lanes[lane] as Lane, record.payload);
    this.#row(record, lane, record.timeMs - (this.lanes[lane]?.skew ?? 0), { flags });
  }

  /** The lane of a flow that is that of no run. */
  #flow(record: SourceRecord): Lane {
    const lane = this.#lane(record.stream);
    if (lane.flowStatus === undefined) {
      lane.name = "flow";
      lane.flowStatus = "running";
      lane.firstTime = record.timeMs;
    }
    lane.lastTime = record.timeMs;
    lane.messages += 1;
    return lane;
  }

  #flowAgent(lane: Lane, payload: Uint8Array): number {
    const text = utf8.decode(payload);
    if (text.includes('"agent:complete"')) {
      const json = jsonOf(text);
      const usage = (json["usage"] ?? {}) as Json;
      lane.tokensIn += numberOf(usage["inputTokens"]);
      lane.tokensOut += numberOf(usage["outputTokens"]);
      lane.cost += numberOf(json["totalCostUsd"]);
    }
    // Only looked at closely where it may be one.
    const { type, error } = text.includes('"error"') || text.includes('"agent:error"') ? jsonOf(text) : {};
    const hasFailed = type === "agent:error" || (type === "agent:tool" && typeof error === "string" && error !== "");
    if (hasFailed) lane.errors += 1;
    return hasFailed ? Flag.Error : 0;
  }

  #addControl(record: SourceRecord): void {
    switch (record.kind) {
      case Kind.StreamMade:
        this.#streams.push(record.stream);
        break;
      case Kind.Fork:
        this.#addFork(record);
        break;
      case Kind.Truncate: {
        const lane = this.laneOf(record.stream);
        if (lane === undefined) break;
        const row = this.#row(record, lane.index, record.timeMs - lane.skew);
        for (let at = record.sequence; at < lane.alive.length; at++) {
          const entry = lane.alive.at(at);
          if (entry === undefined) continue;
          lane.deaths.set(entry, row);
          // What it inherits was never counted as its own.
          if (entry >= lane.inherited) lane.errors -= this.#failuresIn(lane.entries.at(entry));
        }
        lane.alive.truncate(record.sequence);
        lane.truncations.push(row);
        break;
      }
      case Kind.Snapshot: {
        const lane = this.laneOf(record.stream) ?? this.lanes[this.runOf(record.stream)?.lane ?? -1] ?? (isFlowSnapshot(record.meta) ? this.#flow(record) : undefined);
        const row = this.#row(record, lane?.index ?? -1, record.timeMs - (lane?.skew ?? 0));
        lane?.snapshots.push(row);
        if (lane?.flowStatus !== undefined) lane.flowStatus = statusIn(record.payload) ?? lane.flowStatus;
        break;
      }
      case Kind.Redact:
        this.#row(record, this.laneOf(record.stream)?.index ?? -1, record.timeMs);
        this.#redact(record.payload);
        break;
    }
  }

  /** Marks what a redaction is of, which was taken in as it was before. */
  #redact(payload: Uint8Array): void {
    if (payload.length < 24) return;
    const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
    const high = view.getUint32(4, true);
    // The highest bit says that it counts only as long as the record can't be read.
    const first = view.getUint32(0, true) + (high & 0x7fffffff) * 2 ** 32;
    const mark = (position: number) => {
      const row = this.rowAt(position);
      if (row >= 0) this.rows.flags.set(row, this.rows.flags.at(row) | Flag.Redacted);
    };
    if (high < 0x80000000) mark(first);
    for (let bit = 0; bit < 128; bit++) if (((payload[8 + (bit >> 3)] as number) >> (bit & 7)) & 1) mark(first + 1 + bit);
  }

  /** Gives a fork the first events that its parent has now. */
  #inherit(lane: Lane, parent: Lane, count: number): void {
    if (parent.alive.isSame(count)) {
      lane.entries = new Entries(parent.entries.first(count));
      lane.alive = new Alive(count);
    } else {
      const inherited = u32();
      lane.alive = new Alive();
      for (let place = 0; place < count; place++) {
        const entry = parent.alive.at(place);
        if (entry === undefined) continue;
        lane.alive.put(place, inherited.length);
        inherited.push(parent.entries.at(entry));
      }
      lane.entries = new Entries(inherited.view().slice());
    }
    lane.inherited = lane.entries.length;
  }

  #addFork(record: SourceRecord): void {
    const { payload } = record;
    if (payload.length < 20) return;
    const child = uuidAt(payload, 0);
    const parentNumber = new DataView(payload.buffer, payload.byteOffset).getUint32(16, true);
    this.#streams.push(child);
    const parent = this.laneOf(this.#streams[parentNumber] ?? "");
    if (parent === undefined) return;
    const lane = this.#lane(child);
    lane.forkOf = parent.index;
    lane.forkAt = record.sequence;
    lane.skew = parent.skew;
    lane.forkRow = this.#row(record, lane.index, record.timeMs - parent.skew);
    this.#inherit(lane, parent, Math.min(record.sequence, parent.alive.length));
    lane.firstTime = this.rows.time.at(lane.forkRow);
    lane.lastTime = lane.firstTime;
  }
}

/** A result of a call. */
export interface Answer {
  row: number;
  isError: boolean;
  /** NaN where it isn't told. */
  durationMs: number;
}

/** A moment, with the ranks that moments are counted by. */
export interface When {
  rank: Int32Array;
  moment: number;
}

/** A page of heads while it is taken in. */
interface EventPage {
  events: EventHeads;
  /** The lanes of its streams, as far as they are known. */
  laneOf: (Lane | undefined)[];
  /** The numbers of its tools' names. */
  tools: number[];
  /** The next of those that tell what they cost. */
  usage: number;
  /** The number of the name of tools without one, or -1. */
  unknown: number;
}

/** The id of a call, where it has one. */
function idOf(events: EventHeads, call: number): string | undefined {
  if (((events.callFlags[call] as number) & CallFlag.HasId) === 0) return undefined;
  return events.callIds.slice(call === 0 ? 0 : events.callIdEnds[call - 1], events.callIdEnds[call]);
}

/** The last byte of the metadata of a flow's snapshot. */
const FLOW_SNAPSHOT = 111;

function isFlowSnapshot(meta: Uint8Array): boolean {
  return meta.length === 2 && meta[1] === FLOW_SNAPSHOT;
}

const STATUSES: readonly string[] = ["running", "paused", "completed", "failed", "cancelled"] satisfies Status[];

/** The status that a flow's state says, where it is a word that is known. */
function statusIn(state: Uint8Array): Status | undefined {
  const status = textOf(jsonOf(utf8.decode(state))["status"]) ?? "";
  return STATUSES.includes(status) ? (status as Status) : undefined;
}

function jsonOf(text: string): Json {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === "object" && value !== null ? (value as Json) : {};
  } catch {
    return {};
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function numberOf(value: unknown): number {
  return typeof value === "number" && Number.isFinite(value) ? value : 0;
}
