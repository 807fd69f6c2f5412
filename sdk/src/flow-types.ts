import type { EdgeStatus, NodeStatus } from "./generated/types.js";

/** A message of a prompt, as the agent's own library takes it. */
export type ClaudeMessageInput = Record<string, unknown>;

/** What every event of an agent at work in a node says. */
export interface AgentEventBase {
  /** Which node emitted this. */
  nodeId: string;
  /** Which execution of that node. */
  runId: string;
  /** When: milliseconds since 1970-01-01 UTC. It may have a fraction, which is kept in the event and ignored where times are compared. */
  timestamp: number;
}

/** The agent begins. */
export interface AgentStartEvent extends AgentEventBase {
  /** Which event it is. */
  type: "agent:start";
  /** The agent's own session, to go on with later. */
  sessionId: string;
  /** The model, where the agent tells it. */
  model?: string | undefined;
  /** The whole prompt, or the messages. */
  prompt: string | ClaudeMessageInput[];
}

/** A piece of thinking, as it streams. */
export interface AgentThinkingDeltaEvent extends AgentEventBase {
  /** Which event it is. */
  type: "agent:thinking:delta";
  /** The piece. */
  content: string;
  /** How many tokens the piece has, where that is known. */
  tokenCount?: number | undefined;
}

/** A whole block of thinking, where nothing streams. */
export interface AgentThinkingEvent extends AgentEventBase {
  /** Which event it is. */
  type: "agent:thinking";
  /** The whole block. */
  content: string;
  /** How many tokens the block has, where that is known. */
  tokenCount?: number | undefined;
}

/** A piece of text, as it streams. */
export interface AgentTextDeltaEvent extends AgentEventBase {
  /** Which event it is. */
  type: "agent:text:delta";
  /** The piece. */
  content: string;
}

/** A whole block of text, where nothing streams. */
export interface AgentTextEvent extends AgentEventBase {
  /** Which event it is. */
  type: "agent:text";
  /** The whole block. */
  content: string;
}

/** The agent called a tool. */
export interface AgentToolEvent extends AgentEventBase {
  /** Which event it is. */
  type: "agent:tool";
  /** The tool. */
  toolName: string;
  /** What it was called with: any JSON. */
  toolInput: unknown;
  /** What it gave: any JSON; `null` when it gave nothing. */
  toolOutput: unknown;
  /** How long it took, in milliseconds of wall clock. */
  durationMs?: number | undefined;
  /** Why it failed; left out when it succeeded. */
  error?: string | undefined;
}

/** Something went wrong; the flow's own policy says whether that ends it. */
export interface AgentErrorEvent extends AgentEventBase {
  /** Which event it is. */
  type: "agent:error";
  /** Its kind, such as `error_max_turns`. */
  errorType: string;
  /** What the error says to people. */
  message: string;
  /** What the agent's library says of it. */
  details?: unknown;
}

/** The tokens an agent took. */
export interface AgentUsage {
  /** Tokens read. */
  inputTokens: number;
  /** Tokens written. */
  outputTokens: number;
  /** Tokens written to the provider's cache. */
  cacheCreationInputTokens?: number | undefined;
  /** Tokens read from the provider's cache. */
  cacheReadInputTokens?: number | undefined;
}

/** The tokens that one model took. */
export interface ModelUsage {
  /** Tokens read. */
  inputTokens: number;
  /** Tokens written. */
  outputTokens: number;
}

/** The agent finished. */
export interface AgentCompleteEvent extends AgentEventBase {
  /** Which event it is. */
  type: "agent:complete";
  /** The final text. */
  result: string;
  /** The output by its schema, where there is one. */
  structuredOutput?: unknown;
  /** The tokens of the whole call. */
  usage: AgentUsage;
  /** The tokens by model. */
  modelUsage?: Record<string, ModelUsage> | undefined;
  /** What the call cost, in US dollars. */
  totalCostUsd?: number | undefined;
  /** How long the call took, in milliseconds of wall clock. */
  durationMs: number;
  /** How many turns the agent took. */
  numTurns: number;
}

/** What an agent at work in a node tells: eight events. */
export type AgentEvent =
  | AgentStartEvent
  | AgentThinkingDeltaEvent
  | AgentThinkingEvent
  | AgentTextDeltaEvent
  | AgentTextEvent
  | AgentToolEvent
  | AgentErrorEvent
  | AgentCompleteEvent;

/**
 * An event of an agent, recorded by its run: which run it is of, and when it was, may be left out.
 *
 * @typeParam Event - Which of the events; any, unless given.
 */
export type OwnAgentEvent<Event extends AgentEvent = AgentEvent> = Event extends AgentEvent
  ? Omit<Event, "runId" | "timestamp"> & { [Field in "runId" | "timestamp"]?: Event[Field] | undefined }
  : never;

/** What the flow itself, its nodes and its edges tell, and the commands it received; any other fields are kept. */
export interface FlowEvent {
  /** Which event it is; what comes after the colon is the flow's own. */
  type: `flow:${string}` | `node:${string}` | `edge:${string}` | "command:received";
  /** The node it is about, where it is about one. */
  nodeId?: string | undefined;
  /** Which execution of the node. */
  runId?: string | undefined;
  /** When: milliseconds since 1970-01-01 UTC. It may have a fraction, which is kept in the event and ignored where times are compared. */
  timestamp?: number | undefined;
  /** Whatever else it tells, kept as it is. */
  [field: string]: unknown;
}

/** An event of a flow. */
export type RuntimeEvent = AgentEvent | FlowEvent;

/** A command that is for one run: without its `runId` it is refused. */
export interface RunCommand {
  /** Which of the two it is. */
  type: "send" | "reply";
  /** The run it is for: that of an execution of a node. */
  runId: string;
  /** What to tell the agent. */
  message?: string | undefined;
  /** Whatever else it says, kept as it is. */
  [field: string]: unknown;
}

/** A command that a flow is resumed with. */
export interface ResumeCommand {
  /** Which command it is. */
  type: "resume";
  /** What to tell the agents that were running, instead of `continue`. */
  message?: string | undefined;
  /** Whatever else it says, kept as it is. */
  [field: string]: unknown;
}

/**
 * A command of the caller's own.
 *
 * @typeParam Type - Which command it is.
 */
export interface OtherCommand<Type extends string = string> {
  /** Which command it is. */
  type: Type;
  /** The run it is for; left out, the flow. */
  runId?: string | undefined;
  /** Whatever else it says, kept as it is. */
  [field: string]: unknown;
}

/**
 * What is asked of a run while it works: `send`, `reply` and `resume`, or, with its name for `Type`, a command of the
 * caller's own. `send` and `reply` say which run they are for.
 *
 * @typeParam Type - Which command it is; left out, one of the three.
 *
 * @example
 * ```ts
 * const hurry: RuntimeCommand = { type: "send", runId: flow.runId, message: "Hurry!" };
 * const rate: RuntimeCommand<"rate"> = { type: "rate", stars: 5 };
 * ```
 */
export type RuntimeCommand<Type extends string = "send" | "reply" | "resume"> = Type extends "send" | "reply"
  ? RunCommand
  : Type extends "resume"
    ? ResumeCommand
    : OtherCommand<Type>;

/** A command as it is received: of any type. */
export type ReceivedCommand = RunCommand | ResumeCommand | OtherCommand;

/** What a flow is resumed from. Fields that aren't known are kept. */
export interface RunSnapshot {
  /** The run. */
  runId?: string | undefined;
  /** How far the flow is: a word of the flow's own; `running` when it begins. */
  status: string;
  /** The final output of each node that finished. */
  outputs: Record<string, unknown>;
  /** The flow's own state. */
  state: Record<string, unknown>;
  /** How far each node is. */
  nodeStatus: Record<string, NodeStatus>;
  /** Which edges were taken. */
  edgeStatus: Record<string, EdgeStatus>;
  /** How often each loop went round. */
  loopCounters: Record<string, number>;
  /** The commands that wait. */
  inbox: ReceivedCommand[];
  /** The agent's own session for each node. */
  agentSessions: Record<string, string>;
  /** Whatever else it says, kept as it is. */
  [field: string]: unknown;
}

/** What to play back, and how fast. */
export interface PlaybackOptions {
  /** The first sequence, inclusive; 1 when left out. */
  first?: number | undefined;
  /** The last sequence, inclusive; left out, all. */
  last?: number | undefined;
  /** Only events of these types; a type that ends in `*` stands for all that begin so. */
  types?: readonly string[] | undefined;
  /** Only events of these nodes. Empty, or left out, is all. */
  nodes?: readonly string[] | undefined;
  /** Only events of these executions of nodes, or runs: those whose `runId` it is. Empty, or left out, is all. */
  runs?: readonly string[] | undefined;
  /** Whether it goes from the last event to the first. */
  backward?: boolean | undefined;
  /** The longest silence between two events, in milliseconds before the speed counts: longer ones are cut to it. */
  silenceMaxMs?: number | undefined;
  /** How many times as fast as it was recorded; 1 when left out, `Infinity` for without delays. */
  speed?: number | undefined;
  /** Stops playing. */
  signal?: AbortSignal | undefined;
}

/** An event as it was recorded. */
export interface RecordedEvent {
  /** Its sequence in the run's stream. */
  sequence: number;
  /** Its position in the log. */
  position: number;
  /** When it was recorded: milliseconds since 1970-01-01 UTC. */
  recordedAtMs: number;
  /** How long after the event before it, at the speed of the playback, in milliseconds; 0 for one that was followed. */
  delayMs: number;
  /** The event. */
  event: RuntimeEvent;
  /** The event as text, byte for byte. */
  json: string;
}
