import { Kind } from "./kinds.js";
import { type ToolMark, decodeMeta, uuidAt } from "./meta.js";
import { Columns, Flag, type Lane, NONE, type Run, type Session, type Status, newLane } from "./model.js";
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
  /** Streams by their number, from 1: what a fork names its parent by. */
  readonly #streams: string[] = [""];

  add(record: SourceRecord): void {
    const { kind } = record;
    if (kind >= Kind.System && kind <= Kind.ToolResult) this.#addEvent(record);
    else if (kind >= Kind.SessionCreated && kind <= Kind.InstanceCreated) this.#addToCatalog(record);
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

  #addEvent(record: SourceRecord): void {
    const lane = this.#lane(record.stream);
    const meta = decodeMeta(record.meta, false);
    const time = meta.createdAtMs ?? record.timeMs;
    lane.skew = record.timeMs - time;
    const mark = meta.tools[0];
    let flags = meta.isContinuation ? Flag.Continuation : 0;
    let tool = -1;
    if (record.kind === Kind.ToolCall) {
      tool = this.#tool(record.payload);
      lane.toolCalls += 1;
    } else {
      lane.messages += 1;
      if (record.kind === Kind.ToolResult && meta.tools.some((one) => one.isError)) flags |= Flag.Error;
      if (record.kind === Kind.Assistant) flags |= this.#looked(lane, record.payload);
    }
    const duration = mark?.durationMs;
    const row = this.#row(record, lane.index, time, { step: meta.step, tool, flags, duration });
    if (record.kind === Kind.ToolCall && mark?.id !== undefined) lane.calls.set(mark.id, row);
    if (record.kind === Kind.ToolResult) this.#answer(lane, row, meta.tools);
    lane.alive[record.sequence - 1] = lane.entries.length;
    lane.alive.length = record.sequence;
    lane.entries.push(row);
    lane.deaths.push(NONE);
    if (Number.isNaN(lane.firstTime)) lane.firstTime = time;
    lane.lastTime = time;
  }

  /** Joins a result to its calls. */
  #answer(lane: Lane, row: number, marks: ToolMark[]): void {
    const { rows } = this;
    for (const mark of marks) {
      const call = mark.id === undefined ? undefined : lane.calls.get(mark.id);
      if (call === undefined) continue;
      rows.link.set(row, call);
      rows.link.set(call, row);
      rows.tool.set(row, rows.tool.at(call));
      if (mark.durationMs !== undefined) rows.duration.set(call, mark.durationMs);
      if (mark.isError) {
        rows.flags.set(call, rows.flags.at(call) | Flag.Error);
        lane.errors += 1;
      }
    }
  }

  #tool(payload: Uint8Array): number {
    const head = utf8.decode(payload.subarray(0, 512));
    const found = /"name"\s*:\s*("(?:[^"\\]|\\.)*")/.exec(head);
    let name = "?";
    try {
      const written = found?.[1];
      if (written !== undefined) name = written.includes("\\") ? (JSON.parse(written) as string) : written.slice(1, -1);
    } catch {
      // A name that isn't whole in the beginning stays unknown here; the inspector has all of it.
    }
    let tool = this.#toolOf.get(name);
    if (tool === undefined) {
      tool = this.tools.length;
      this.#toolOf.set(name, tool);
      this.tools.push(name);
    }
    return tool;
  }

  /** Looks into an answer of a model: what it cost, and whether it says anything. Most are not parsed. */
  #looked(lane: Lane, payload: Uint8Array): number {
    const text = utf8.decode(payload);
    const asks = text.includes('"tool_calls"') || text.includes('"tool_use"') || text.includes('"tool-call"');
    const hasUsage = text.includes('"usage"');
    // Most say something in a plain text, and nothing of what they cost.
    if (!hasUsage && (!asks || /"content"\s*:\s*"[^"]/.test(text))) return 0;
    const message = jsonOf(text);
    const usage = message["usage"] as Json | undefined;
    if (hasUsage && typeof usage === "object" && usage !== null) {
      lane.tokensIn += numberOf(usage["input_tokens"] ?? usage["prompt_tokens"]);
      lane.tokensOut += numberOf(usage["output_tokens"] ?? usage["completion_tokens"]);
      lane.cost += numberOf(usage["cost"] ?? usage["cost_usd"]);
    }
    const content = message["content"];
    const isSilent =
      content === null || content === undefined || content === "" || (Array.isArray(content) && content.every((part: Json | null) => part?.["type"] === "tool_use" || part?.["type"] === "tool-call"));
    return asks && isSilent ? Flag.Silent : 0;
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
      text: undefined,
    });
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
    const hasFailed = text.includes('"agent:error"') || (text.includes('"agent:tool"') && /"error"\s*:\s*"/.test(text));
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
        for (let at = record.sequence; at < lane.alive.length; at++) lane.deaths.set(lane.alive[at] as number, row);
        lane.alive.length = Math.min(lane.alive.length, record.sequence);
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
        break;
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
    const lane = this.#lane(child);
    lane.forkOf = parent.index;
    lane.forkAt = record.sequence;
    lane.skew = parent.skew;
    lane.forkRow = this.#row(record, lane.index, record.timeMs - parent.skew);
    for (let at = 0; at < record.sequence && at < parent.alive.length; at++) {
      const row = parent.entries.at(parent.alive[at] as number);
      lane.alive.push(lane.entries.length);
      lane.entries.push(row);
      lane.deaths.push(NONE);
    }
    lane.inherited = lane.entries.length;
    lane.calls = new Map(parent.calls);
    lane.firstTime = this.rows.time.at(lane.forkRow);
    lane.lastTime = lane.firstTime;
  }
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
