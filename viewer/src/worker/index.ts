import { type EventHeads, HeadFlag, type HeadsPage, NO_VALUE } from "runlog";

import { type Answer, Answers, type When, idOf } from "./answers.js";
import { inheritChat, takeOfChat, takeRequest } from "./chats.js";
import { failureIn, jsonOf, numberOf, statusInChat, textOf, wordsOf } from "./content.js";
import { inherited } from "./entries.js";
import { UndatedForks } from "./forks.js";
import { Kind, isOfChat, isOfFlow, isOfRun } from "./kinds.js";
import { redactedBy, uuidAt } from "./meta.js";
import { type Chat, type ChatLane, Columns, Flag, type Lane, type Run, type Session, type Status, newLane, newRun } from "./model.js";
import type { SourceRecord } from "./source.js";
import { isFlowSnapshot, statusIn } from "./states.js";
import { dated, timeInImport } from "./times.js";
import type { NamedTools } from "./tools.js";
import { takeUsage } from "./usage.js";

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
  /** How many agents of a name there are below another, or in a session. */
  readonly #namesakes = new Map<string, number>();
  readonly #toolOf = new Map<string, number>();
  readonly #answers = new Answers(this.rows, this.lanes);
  /** What is said of a run's status in the record behind it, by the row of the status. */
  readonly words = new Map<number, string>();
  /** Streams by their number, from 1: what a fork names its parent by. */
  readonly #streams: string[] = [""];
  readonly #undatedForks = new UndatedForks(this);

  constructor(readonly isImported = false) {}

  /** Takes in a page of heads, with the tools that results in it name, as `namedTools` has read them. */
  add({ events, others }: HeadsPage, named: NamedTools = new Map()): void {
    const laneOf = events.streamIds.map(() => undefined as Lane | undefined);
    const page: EventPage = { events, laneOf, tools: events.toolNames.map((name) => this.#tool(name)), named, usage: 0, unknown: -1 };
    let at = 0;
    for (const record of others) {
      at = this.#addEvents(page, at, record.position);
      this.#addOne(record);
    }
    this.#addEvents(page, at, Infinity);
    this.#undatedForks.date();
  }

  #addOne(record: SourceRecord): void {
    const { kind } = record;
    if (kind >= Kind.SessionCreated && kind <= Kind.SessionDescribed) this.#addToCatalog(record);
    else if (kind >= Kind.StreamMade) this.#addControl(record);
    else if (isOfRun(kind)) this.#addOfRun(record);
    else if (isOfChat(kind)) this.#addOfChat(record);
    else if (isOfFlow(kind)) this.#addOfFlow(record);
    else if (kind === Kind.ListedFlow) this.#addListedFlow(record);
  }

  /** The position of the newest snapshot at a sequence of a stream, or of one in its lane, before a position. */
  snapshotAt(stream: string, sequence: number, before: number): number | undefined {
    const lane = this.laneOf(stream) ?? this.lanes[this.runOf(stream)?.lane ?? -1];
    const isIt = (row: number): boolean => this.rows.position.at(row) < before && this.rows.sequence.at(row) === sequence && this.rows.kind.at(row) === Kind.Snapshot;
    const row = lane?.snapshots.findLast(isIt);
    return row === undefined ? undefined : this.rows.position.at(row);
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
    const given = events.flags[at] as number;
    let flags = (given & HeadFlag.Redacted) !== 0 ? Flag.Redacted : 0;
    // What is redacted has lost the time at which it happened: in an import it is near what came before it.
    const time = Number.isNaN(happened) ? recorded - (flags === 0 ? 0 : lane.skew) : happened;
    if (flags === 0) lane.skew = recorded - time;
    const kind = events.kinds[at] as number;
    const firstCall = at === 0 ? 0 : (events.callEnds[at - 1] as number);
    const endCall = events.callEnds[at] as number;
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
        const others = lane.calls.get(id);
        if (others === undefined) lane.calls.set(id, [row]);
        else others.push(row);
      }
    } else lane.messages += 1;
    rows.time.items[row] = time;
    rows.lane.items[row] = lane.index;
    rows.tool.items[row] = tool;
    rows.duration.items[row] = firstCall < endCall ? (events.callDurations[firstCall] as number) : Number.NaN;
    rows.bytes.items[row] = events.contentBytes[at] as number;
    rows.flags.items[row] = flags;
    if (kind === Kind.ToolResult) this.#answers.take(lane, row, events, firstCall, endCall, page.named.get(at)?.map((name) => this.#toolOf.get(name ?? "")));
    if (page.usage < events.usages.length && events.usages[page.usage] === at) this.#addUsage(page, lane);
    const sequence = events.sequences[at] as number;
    lane.alive.put(sequence - 1, lane.entries.length);
    lane.entries.push(row);
    if (Number.isNaN(lane.firstTime)) lane.firstTime = time;
    lane.lastTime = time;
  }

  #addUsage(page: EventPage, lane: Lane): void {
    const { events, usage } = page;
    const reported = { answer: events.answers[usage] as number, tokensIn: events.inputTokens[usage] as number, tokensOut: events.outputTokens[usage] as number, cost: events.costs[usage] as number };
    // A part of the same answer tells all that the answer took once more, as far as that was known then.
    const before = reported.answer !== 0 && reported.answer === lane.usage?.answer ? lane.usage : undefined;
    lane.tokensIn += reported.tokensIn - (before?.tokensIn ?? 0);
    lane.tokensOut += reported.tokensOut - (before?.tokensOut ?? 0);
    lane.cost += reported.cost - (before?.cost ?? 0);
    lane.usage = reported;
    page.usage += 1;
  }

  /** What answers a call in a lane that has it, else in its own, at a moment, by default now; undefined where nothing does. */
  answerOf(call: number, lane: Lane | undefined, when?: When): Answer | undefined {
    return this.#answers.of(call, lane, when);
  }

  /** Which of the results of a message answers a call, where its id doesn't tell. */
  placeOf(call: number, result: number): number | undefined {
    return this.#answers.placeOf(call, result);
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
    const session = this.sessions.get(id);
    switch (record.kind) {
      case Kind.SessionCreated:
        this.#session(id, json).position = record.position;
        break;
      case Kind.SessionDescribed:
        if (session !== undefined) session.title = textOf(json["title"]);
        break;
      case Kind.SessionDeleted:
      case Kind.SessionRestored:
        if (session !== undefined) session.deleted = record.kind === Kind.SessionDeleted;
        break;
      case Kind.InstanceCreated: {
        const lane = this.#lane(id);
        lane.sessionId = textOf(json["session_id"]);
        lane.parentId = textOf(json["parent_instance_id"]);
        lane.name = this.#numbered(textOf(json["agent_name"]) ?? "agent", lane.parentId ?? lane.sessionId);
        if (lane.sessionId !== undefined) this.#session(lane.sessionId).lanes.push(lane.index);
        break;
      }
    }
  }

  /** An agent's name, from the second one of that name that another spawned, or that begins in a session, with its number. */
  #numbered(name: string, above = ""): string {
    const key = `${above}/${name}`;
    const number = (this.#namesakes.get(key) ?? 0) + 1;
    this.#namesakes.set(key, number);
    return number === 1 ? name : `${name} ${number}`;
  }

  #session(id: string, json?: Json): Session {
    let session = this.sessions.get(id);
    if (session === undefined) {
      session = { id, title: undefined, name: undefined, copiedFrom: undefined, createdAt: 0, position: 0, deleted: false, lanes: [] };
      this.sessions.set(id, session);
    }
    if (json !== undefined) {
      // Of one whose creation is lost, that it is.
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
    // A flow by itself takes commands too.
    const lane = run === undefined ? this.laneOf(record.stream) : this.lanes[run.lane];
    // Words have no time of their own: in an import that of their record is the import's.
    const told = numberOf(json["at_ms"] ?? json["created_at"]);
    if (this.isImported && lane !== undefined && told > 0) dated(this.rows, lane, record.timeMs, told);
    const time = (record.kind === Kind.RunExplained ? run?.endedAt : undefined) ?? (told || record.timeMs - this.#skewOf(lane));
    let flags = 0;
    if (run !== undefined && record.kind === Kind.RunStatus) {
      run.status = (textOf(json["status"]) as Status | undefined) ?? run.status;
      run.endedAt = time;
      run.text = wordsOf(json);
      if (run.status === "failed") {
        flags = Flag.Error;
        if (lane !== undefined) lane.errors += 1;
      }
    }
    if (run !== undefined && record.kind === Kind.RunExplained) {
      run.text = wordsOf(json);
      if (run.text !== undefined) this.words.set(run.endRow, run.text);
    }
    if (run !== undefined && lane !== undefined && (record.kind === Kind.RunCreated || record.kind === Kind.RunDescribed)) takeUsage(lane, run.id, json["usage"]);
    const step = record.kind === Kind.StepStarted ? numberOf(json["step_number"]) : -1;
    if (run !== undefined && step > run.steps) run.steps = step;
    const row = this.#row(record, lane?.index ?? -1, time, { step, flags });
    if (record.kind === Kind.RunCreated && run !== undefined) run.row = row;
    if (record.kind === Kind.RunStatus && run !== undefined) run.endRow = row;
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
      ...newRun(id, lane.index, instanceId),
      status: (textOf(json["status"]) as Status | undefined) ?? "running",
      createdAt: numberOf(json["created_at"]),
      steps: numberOf(json["step_count"]),
      parentRunId: textOf(json["parent_run_id"]),
      resumedFrom: textOf(json["resumed_from"]),
    });
    const before = this.runOf(textOf(json["resumed_from"]) ?? "");
    if (before !== undefined) before.resumedBy = id;
    lane.runs.push(index);
  }

  #addOfFlow(record: SourceRecord): void {
    const lane = this.lanes[this.runOf(record.stream)?.lane ?? -1] ?? this.#flow(record);
    const isShort = record.kind !== Kind.FlowDelta && record.payload.length < 1 << 20;
    this.#timed(record, lane, isShort ? this.#flowEvent(lane, record.payload) : 0);
  }

  #addOfChat(record: SourceRecord): void {
    const lane = this.#chatLane(record.stream);
    // Messages may be long, and have no status.
    const json = record.redacted || record.kind < Kind.ChatStep ? {} : jsonOf(utf8.decode(record.payload));
    const hasFailed = statusInChat(record.kind, json) === "failed";
    // A request fails by its step.
    if (hasFailed && record.kind !== Kind.ChatRequest) lane.errors += 1;
    const row = this.#timed(record, lane, hasFailed ? Flag.Error : 0);
    if (record.kind === Kind.ChatRequest) takeRequest(lane, row, json);
    takeOfChat(lane, record, row);
  }

  /** Adds a row of a chat or a flow, with the time at which it happened: that of its record is, in an import, the import's. */
  #timed(record: SourceRecord, lane: Lane, flags = 0): number {
    const row = this.#row(record, lane.index, record.timeMs - lane.skew, { flags });
    if (this.isImported) this.rows.time.set(row, timeInImport(this.rows, lane, record, row));
    if (lane.chat === undefined && lane.flowStatus === undefined) return row;
    lane.lastTime = this.rows.time.at(row);
    if (Number.isNaN(lane.firstTime)) lane.firstTime = lane.lastTime;
    return row;
  }

  /** How much later than it happened something of a lane was imported. */
  #skewOf(lane: Lane | undefined): number {
    return this.isImported ? (lane?.skew ?? 0) : 0;
  }

  /** The lane of the chat of a session, whose stream it is in. */
  #chatLane(stream: string): ChatLane {
    const known = this.laneOf(stream);
    if (known?.chat !== undefined) return known as ChatLane;
    const session = this.#session(stream);
    const chat: Chat = { entries: new Map(), original: undefined, changes: new Map(), deleted: 0, standing: undefined };
    const lane = Object.assign(this.#lane(`${stream}/chat`), { name: "chat", sessionId: session.id, chat });
    this.#laneOf.set(stream, lane.index);
    session.lanes.push(lane.index);
    return lane;
  }

  /** The lane of a flow that is that of no run. */
  #flow(record: SourceRecord): Lane {
    const lane = this.#lane(record.stream);
    if (lane.flowStatus === undefined) {
      lane.name = "flow";
      lane.flowStatus = "running";
    }
    lane.messages += 1;
    return lane;
  }

  /** The list of flows says each status that is another than before; a state that is saved as a difference may say none. */
  #addListedFlow(record: SourceRecord): void {
    const json = jsonOf(utf8.decode(record.payload));
    const lane = this.laneOf(textOf(json["run_id"]) ?? "");
    if (lane?.flowStatus === undefined) return;
    lane.flowStatus = statusIn(json) ?? lane.flowStatus;
    if (lane.undated.length > 0) dated(this.rows, lane, record.timeMs, numberOf(json["at_ms"]));
  }

  #flowEvent(lane: Lane, payload: Uint8Array): number {
    const text = utf8.decode(payload);
    if (text.includes('"agent:complete"')) {
      const json = jsonOf(text);
      const usage = (json["usage"] ?? {}) as Json;
      lane.tokensIn += numberOf(usage["inputTokens"]);
      lane.tokensOut += numberOf(usage["outputTokens"]);
      lane.cost += numberOf(json["totalCostUsd"]);
    }
    // Only looked at closely where it may be one.
    const hasFailed = /"error"|:error"/.test(text) && failureIn(jsonOf(text)) !== undefined;
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
          if (entry >= lane.inherited) lane.errors -= this.#answers.failuresIn(lane.entries.at(entry));
        }
        lane.alive.truncate(record.sequence);
        lane.truncations.push(row);
        break;
      }
      case Kind.Snapshot: {
        const known = this.laneOf(record.stream) ?? this.lanes[this.runOf(record.stream)?.lane ?? -1];
        // A state of a flow by itself is one of its events, as in the list of them.
        const isOfFlow = known === undefined ? isFlowSnapshot(record.meta) : known.flowStatus !== undefined;
        const lane = isOfFlow ? this.#flow(record) : known;
        const row = lane === undefined ? this.#row(record, -1, record.timeMs) : this.#timed(record, lane);
        lane?.snapshots.push(row);
        if (lane?.flowStatus !== undefined) lane.flowStatus = statusIn(jsonOf(utf8.decode(record.payload))) ?? lane.flowStatus;
        break;
      }
      case Kind.Redact: {
        const lane = this.laneOf(record.stream);
        this.#row(record, lane?.index ?? -1, record.timeMs - this.#skewOf(lane));
        this.#redact(record.payload);
        break;
      }
    }
  }

  /** Marks what a redaction is of, which was taken in as it was before. */
  #redact(payload: Uint8Array): void {
    for (const position of redactedBy(payload)) {
      const row = this.rowAt(position);
      if (row >= 0) this.rows.flags.set(row, this.rows.flags.at(row) | Flag.Redacted);
    }
  }

  #addFork(record: SourceRecord): void {
    const { payload } = record;
    if (payload.length < 20) return;
    const child = uuidAt(payload, 0);
    const parentNumber = new DataView(payload.buffer, payload.byteOffset).getUint32(16, true);
    this.#streams.push(child);
    const parent = this.laneOf(this.#streams[parentNumber] ?? "");
    if (parent === undefined) return;
    // A chat is made by the record that says what it is a copy of: one that is there is none, whatever a hostile file says.
    if (parent.chat !== undefined && this.laneOf(child) !== undefined) return;
    const lane = parent.chat === undefined ? this.#lane(child) : this.#chatLane(child);
    lane.forkOf = parent.index;
    lane.forkAt = record.sequence;
    lane.skew = parent.skew;
    lane.forkRow = this.#row(record, lane.index, record.timeMs - parent.skew);
    if (parent.chat !== undefined && lane.chat !== undefined) inheritChat(this.rows, parent as ChatLane, lane as ChatLane, record.sequence, child);
    else [lane.entries, lane.alive] = inherited(parent.entries, parent.alive, Math.min(record.sequence, parent.alive.length));
    lane.inherited = lane.entries.length;
    lane.firstTime = this.rows.time.at(lane.forkRow);
    lane.lastTime = lane.firstTime;
    if (this.isImported || parent.skew !== 0) this.#undatedForks.add(lane);
  }
}

/** A page of heads while it is taken in. */
interface EventPage {
  events: EventHeads;
  /** The lanes of its streams, as far as they are known. */
  laneOf: (Lane | undefined)[];
  /** The numbers of its tools' names. */
  tools: number[];
  /** The tools that its results name. */
  named: NamedTools;
  /** The next of those that tell what they cost. */
  usage: number;
  /** The number of the name of tools without one, or -1. */
  unknown: number;
}
