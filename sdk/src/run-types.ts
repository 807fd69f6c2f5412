import type { MessageInput, Role } from "./context-types.js";
import { listOf, objectOf, shown } from "./checks.js";
import { invalid } from "./error.js";
import { showsItsJson } from "./inspect.js";
import { namesOf, renamed } from "./names.js";
import { parseBytes, textOf } from "./json.js";
import type { NewInstance, NewSession } from "./sessions.js";

/** How far a run has come. */
export type RunStatus = "running" | "paused" | "completed" | "failed" | "cancelled";

/** How a tool call ended; `pending` while no result is recorded. */
export type ToolCallStatus = "pending" | "completed" | "error";

/** What a list tells of a run. */
export interface RunSummary {
  /** Its id, a UUID. */
  id: string;
  /** The project it belongs to. */
  project?: string;
  /** The session it works in. */
  sessionId: string;
  /** The agent instance whose context it writes. */
  instanceId: string;
  /** The agent's name: the `agentName` that the run's instance was made with, unless the run was given another. */
  agentId: string;
  /** How far it has come. */
  status: RunStatus;
  /** The steps begun so far, those of the runs it was resumed from included. */
  stepCount: number;
  /** The run that spawned it. */
  parentRunId?: string;
  /** The run it goes on from. */
  resumedFrom?: string;
  /** When it was made: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /** When it was over: milliseconds since 1970-01-01 UTC. */
  completedAtMs?: number;
  /** How long it ran, until it paused or was over. */
  durationMs?: number;
}

/** One stretch of an agent's work in its context: from its start until it pauses or ends. */
export interface Run extends RunSummary {
  /** The steps it may take itself; left out, as many as it likes. */
  maxSteps?: number;
  /** The run that goes on from this one. */
  resumedBy?: string;
  /** What came of it. */
  summary?: string;
  /** Why it failed. */
  errorMessage?: string;
  /** Why it paused. */
  pauseReason?: string;
  /** The node of a flow that it runs. */
  nodeId?: string;
}

/** A run works in the context of an instance that is there. */
export interface RunInInstance {
  /** The instance. */
  instanceId: string;
}

/** A run works in a context that is made with it, in a session that is there. */
export interface RunInNewInstance {
  /** The instance to make. */
  newInstance: NewInstance;
}

/** A run works in the root context of a session that is made with it. */
export interface RunInNewSession {
  /** The session to make. */
  session: NewSession;
  /** The name of the agent of its root instance. */
  agentName: string;
}

/** The context that a run works in: an instance that is there, one made with the run, or a session made with it. */
export type RunPlace = RunInInstance | RunInNewInstance | RunInNewSession;

/** A run to start. */
export type NewRun = RunPlace & {
  /** Its id, where the caller has one already; else a fresh one. */
  id?: string | undefined;
  /** The agent it is a run of; left out, the instance's. */
  agentId?: string | undefined;
  /** The project it belongs to; left out, the session's. */
  project?: string | undefined;
  /** The run that spawned it. */
  parentRunId?: string | undefined;
  /** The steps it may take; left out, as many as it likes. */
  maxSteps?: number | undefined;
  /** The node of a flow that it runs. */
  nodeId?: string | undefined;
  /** Messages it begins with, before its first step. */
  messages?: readonly MessageInput[] | undefined;
  /**
   * What becomes of tool calls of the context that have no result, where the run begins with messages: as when a run is
   * resumed, each is closed when left out. Nothing else may stand between a call and its result.
   */
  dangling?: "close" | "report" | CloseDangling | AnswerDangling | undefined;
  /**
   * Whether it may write to the context while another run does; without it such a start is refused (`wrong_status`). What
   * two runs record into one context alternates.
   */
  concurrent?: boolean | undefined;
};

/** Closes each tool call without a result with an error result of this text. */
export interface CloseDangling {
  /** What each error result says to the model. */
  closeWith: string;
}

/** Answers tool calls without a result with what the tools gave. Those that none of the outcomes is for are closed. */
export interface AnswerDangling {
  /** The outcomes, each for one of the calls. */
  answer: readonly ToolOutcome[];
}

/** How to resume a run. */
export interface ResumeOptions {
  /**
   * What the user says to the agent: text, or content parts; `null` for nothing. Left out, the agent is told to continue,
   * in a message whose event is marked {@link ContextEvent.isContinuation}; and told nothing where tool calls are left
   * open by `dangling: "report"`, for no provider takes a message between a call and its result.
   */
  message?: string | readonly object[] | null | undefined;
  /** The steps the new run may take; left out, as many as the run before could. */
  maxSteps?: number | undefined;
  /** The cumulative steps, over all resumes, from which on no resume is allowed; 500 when left out. */
  maxTotalSteps?: number | undefined;
  /**
   * What becomes of tool calls without a result: each gets an error result that says it was interrupted (`close`, and
   * when left out), or one with this text; or its outcome, for the caller has found the calls with
   * {@link Context.danglingToolCalls} and asked the tools; or they are only told, for the caller to record their results
   * before anything else.
   */
  dangling?: "close" | "report" | CloseDangling | AnswerDangling | undefined;
  /** The id of the new run, where the caller has one already. */
  id?: string | undefined;
  /** The run that spawns the new one; left out, the one that spawned the run before. */
  parentRunId?: string | undefined;
}

/** Which runs to list, and how many. A filter that is left out lets every run pass. */
export interface ListRuns {
  /** Only runs that have come so far. */
  status?: RunStatus | undefined;
  /** Only runs of this agent, by its name: what a run was started with as `agentName`. */
  agentId?: string | undefined;
  /** Only runs that this run spawned. */
  parentRunId?: string | undefined;
  /** Only runs in this session. */
  sessionId?: string | undefined;
  /** Only runs of this project. */
  project?: string | undefined;
  /** At most so many; 50 when left out. */
  limit?: number | undefined;
  /** Where to go on: the `next` of the page before. */
  cursor?: string | undefined;
}

/** Which messages of a run to list, and how many. */
export interface ListRunMessages {
  /** Only messages of this step. */
  stepNumber?: number | undefined;
  /** At most so many; 50 when left out. */
  limit?: number | undefined;
  /** Where to go on: the `next` of the page before. */
  cursor?: string | undefined;
}

/** Which tool calls of a run to list, and how many. */
export interface ListToolCalls {
  /** Only calls of this tool. */
  toolName?: string | undefined;
  /** Only calls of this status. */
  status?: ToolCallStatus | undefined;
  /** At most so many; 50 when left out. */
  limit?: number | undefined;
  /** Where to go on: the `next` of the page before. */
  cursor?: string | undefined;
}

/** Where a message was recorded. */
export interface Recorded {
  /** The id of the (first) message: its place in the whole log. */
  id: number;
  /** Its sequence in the instance's context. */
  sequenceNumber: number;
  /** The sequence of the last event recorded with it: its tool calls, and their results. */
  lastSequence: number;
  /** The step it belongs to. */
  stepNumber: number;
  /** Whether an earlier write had the same idempotency key, so that nothing was written now. */
  repeated: boolean;
  /**
   * Of a repeat: whether the context was truncated since, so that what was written then is not in it any more. Its sequences
   * may be those of other events by now.
   */
  truncated: boolean;
}

/** What a tool gave for one call. */
export interface ToolOutcome {
  /** The call it answers. */
  toolCallId: string;
  /** What the tool gave, or the details of its error. Text or an array of content parts is what providers take. */
  output: unknown;
  /** Whether it is an error; `completed` when left out. */
  status?: "completed" | "error" | undefined;
  /** How long the tool itself took, in milliseconds of wall clock, without the model's time. */
  durationMs?: number | undefined;
}

/** A message as it comes, without its content. @internal */
export interface RunMessageHead {
  id: number;
  runId: string;
  role: Role;
  stepNumber: number;
  createdAtMs: number;
  sequenceNumber: number;
  length: number;
}

/** One message of a run. Its content is looked at when it is asked for. */
export class RunMessage {
  /** Its id: its place in the whole log. */
  readonly id: number;
  /** The run it belongs to. */
  readonly runId: string;
  /** Who it is from. */
  readonly role: Role;
  /** The step of the run; before the first one, the steps of the runs it was resumed from. */
  readonly stepNumber: number;
  /** When it was recorded: milliseconds since 1970-01-01 UTC. */
  readonly createdAtMs: number;
  /** Its sequence in the instance's context. */
  readonly sequenceNumber: number;
  readonly #bytes: Uint8Array;

  /** @internal */
  constructor(head: RunMessageHead, bytes: Uint8Array) {
    this.id = head.id;
    this.runId = head.runId;
    this.role = head.role;
    this.stepNumber = head.stepNumber;
    this.createdAtMs = head.createdAtMs;
    this.sequenceNumber = head.sequenceNumber;
    this.#bytes = bytes;
  }

  /** The whole message as it was sent to the model, byte for byte. */
  get json(): string {
    return textOf(this.#bytes);
  }

  /** The whole message as a value: tool calls with their ids and arguments too. */
  content<T = unknown>(): T {
    return parseBytes<T>(this.#bytes);
  }

  /** The message with its place, for `JSON.stringify`. */
  toJSON(): object {
    return { ...this, content: this.content() };
  }
}

/** A tool call as it comes, without its contents. @internal */
export interface ToolCallHead {
  id: number;
  runId: string;
  messageId: number | null;
  toolCallId: string | null;
  toolName: string;
  status: ToolCallStatus;
  durationMs: number | null;
  stepNumber: number;
  createdAtMs: number;
  sequenceNumber: number;
  inputLength: number;
  outputLength: number | null;
}

/** One invocation of a tool. Its input and output are looked at when they are asked for. */
export class ToolCall {
  /** Its id: the place of its event in the whole log. */
  readonly id: number;
  /** The run it belongs to. */
  readonly runId: string;
  /** The assistant message that asked for it. */
  readonly messageId: number | undefined;
  /** The provider's id of the call, with those that give one. */
  readonly toolCallId: string | undefined;
  /** The tool. */
  readonly toolName: string;
  /** How it ended. */
  readonly status: ToolCallStatus;
  /** How long the tool itself took, in milliseconds of wall clock, without the model's time. */
  readonly durationMs: number | undefined;
  /** The step of the run. */
  readonly stepNumber: number;
  /** When the call was recorded: milliseconds since 1970-01-01 UTC. */
  readonly createdAtMs: number;
  /** The sequence of its event in the instance's context. */
  readonly sequenceNumber: number;
  readonly #input: Uint8Array;
  readonly #output: Uint8Array | undefined;

  /** @internal */
  constructor(head: ToolCallHead, input: Uint8Array, output: Uint8Array | undefined) {
    this.id = head.id;
    this.runId = head.runId;
    this.messageId = head.messageId ?? undefined;
    this.toolCallId = head.toolCallId ?? undefined;
    this.toolName = head.toolName;
    this.status = head.status;
    this.durationMs = head.durationMs ?? undefined;
    this.stepNumber = head.stepNumber;
    this.createdAtMs = head.createdAtMs;
    this.sequenceNumber = head.sequenceNumber;
    this.#input = input;
    this.#output = output;
  }

  /** What it was called with, as text. Arguments that the provider wrote as a string of JSON are given as that JSON. */
  get inputJson(): string {
    return textOf(this.#input);
  }

  /** What it gave, as text; `undefined` while there is no result. */
  get outputJson(): string | undefined {
    return this.#output && textOf(this.#output);
  }

  /** What it was called with. */
  input<T = unknown>(): T {
    return parseBytes<T>(this.#input);
  }

  /** What it gave, the error's details where it failed; `undefined` while there is no result. */
  output<T = unknown>(): T | undefined {
    return this.#output && parseBytes<T>(this.#output);
  }

  /** The call with what it was given and what it gave, for `JSON.stringify`. */
  toJSON(): object {
    return { ...this, input: this.input(), output: this.output() };
  }
}

showsItsJson(RunMessage, ToolCall);

const RUN = namesOf(
  [
    "session_id",
    "instance_id",
    "agent_id",
    "step_count",
    "max_steps",
    "parent_run_id",
    "resumed_from",
    "resumed_by",
    "error_message",
    "pause_reason",
    "node_id",
    "duration_ms",
  ],
  { created_at: "createdAtMs", completed_at: "completedAtMs" },
);
const RECORDED = namesOf(["sequence_number", "last_sequence", "step_number"]);

/** A run as the core tells it. @internal */
export function runOf<T extends RunSummary = Run>(wire: object): T {
  return renamed(wire, RUN.here) as unknown as T;
}

/** Where a message was recorded, as the core tells it. @internal */
export function recordedOf(wire: object): Recorded {
  return renamed(wire, RECORDED.here) as unknown as Recorded;
}

/** How to resume a run, as it is told to the core. @internal */
export function wireResume(options: ResumeOptions): object {
  return wireDangling(objectOf(options, "how to resume"));
}

/** Options with what becomes of tool calls without a result, as they are told to the core. @internal */
export function wireDangling<T extends Pick<ResumeOptions, "dangling">>(options: T): object {
  const { dangling } = options;
  if (dangling === null) throw invalid("what becomes of tool calls without a result is not null");
  if (typeof dangling !== "object" || !("answer" in dangling)) return options;
  const answer = listOf(dangling.answer, "the answers").map(({ status = "completed", durationMs, ...outcome }) => ({
    ...outcome,
    status,
    ...wholeMs(durationMs),
  }));
  return { ...options, dangling: { answer } };
}

/** Clocks tell parts of a millisecond, the log keeps whole ones. @internal */
export function wholeMs(durationMs: number | undefined): { durationMs?: number } {
  if (durationMs === undefined) return {};
  if (!(Number.isFinite(durationMs) && durationMs >= 0)) throw invalid(`\`durationMs\`: a duration is a number of milliseconds from 0 on, not ${shown(durationMs)}`);
  return { durationMs: Math.round(durationMs) };
}
