/** A message of a prompt, as the agent's own library takes it. */
export type ClaudeMessageInput = Record<string, unknown>;

/** What every event of an agent at work in a node says. */
export interface AgentEventBase {
  /** Which node emitted this. */
  nodeId: string;
  /** Which execution of that node. */
  runId: string;
  /** When: milliseconds since 1970-01-01 UTC. */
  timestamp: number;
}

/** The agent begins. */
export interface AgentStartEvent extends AgentEventBase {
  type: "agent:start";
  /** The agent's own session, to go on with later. */
  sessionId: string;
  model?: string;
  /** The whole prompt, or the messages. */
  prompt: string | ClaudeMessageInput[];
}

/** A piece of thinking, as it streams. */
export interface AgentThinkingDeltaEvent extends AgentEventBase {
  type: "agent:thinking:delta";
  content: string;
  tokenCount?: number;
}

/** A whole block of thinking, where nothing streams. */
export interface AgentThinkingEvent extends AgentEventBase {
  type: "agent:thinking";
  content: string;
  tokenCount?: number;
}

/** A piece of text, as it streams. */
export interface AgentTextDeltaEvent extends AgentEventBase {
  type: "agent:text:delta";
  content: string;
}

/** A whole block of text, where nothing streams. */
export interface AgentTextEvent extends AgentEventBase {
  type: "agent:text";
  content: string;
}

/** The agent called a tool. */
export interface AgentToolEvent extends AgentEventBase {
  type: "agent:tool";
  toolName: string;
  toolInput: unknown;
  toolOutput: unknown;
  durationMs?: number;
  /** Why it failed. */
  error?: string;
}

/** Something went wrong; the flow's own policy says whether that ends it. */
export interface AgentErrorEvent extends AgentEventBase {
  type: "agent:error";
  /** Its kind, such as `error_max_turns`. */
  errorType: string;
  message: string;
  /** What the agent's library told of it. */
  details?: unknown;
}

/** The tokens an agent took. */
export interface AgentUsage {
  inputTokens: number;
  outputTokens: number;
  cacheCreationInputTokens?: number;
  cacheReadInputTokens?: number;
}

/** The agent finished. */
export interface AgentCompleteEvent extends AgentEventBase {
  type: "agent:complete";
  /** The final text. */
  result: string;
  /** The output by its schema, where there is one. */
  structuredOutput?: unknown;
  usage: AgentUsage;
  modelUsage?: Record<string, { inputTokens: number; outputTokens: number }>;
  totalCostUsd?: number;
  durationMs: number;
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

/** What the flow itself, its nodes and its edges tell, and the commands it received; any other fields are kept. */
export interface FlowEvent {
  type: `flow:${string}` | `node:${string}` | `edge:${string}` | "command:received";
  nodeId?: string;
  runId?: string;
  timestamp?: number;
  [field: string]: unknown;
}

/** An event of a flow. */
export type RuntimeEvent = AgentEvent | FlowEvent;

/** What is asked of a run while it works. `send` and `reply` say which run they are for. */
export type RuntimeCommand =
  | { type: "send" | "reply"; runId: string; message?: string; [field: string]: unknown }
  | { type: "resume"; message?: string; [field: string]: unknown }
  | { type: string; runId?: string; [field: string]: unknown };

/** How far a node is. */
export type NodeStatus = "pending" | "running" | "done" | "failed";

/** Whether an edge was taken. */
export type EdgeStatus = "pending" | "fired" | "skipped";

/** What a flow is resumed from. Fields that aren't known are kept. */
export interface RunSnapshot {
  /** The run. */
  runId?: string;
  /** How far the flow is. */
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
  inbox: RuntimeCommand[];
  /** The agent's own session for each node. */
  agentSessions: Record<string, string>;
  [field: string]: unknown;
}

/** A node that was running when the flow stopped. */
export interface RunningNode {
  /** The node. */
  nodeId: string;
  /** The agent's own session; a node that is no agent, or whose agent hadn't begun, has none. */
  sessionId?: string;
  /** What to resume the agent with: the message that was given, or `continue`. */
  prompt: string;
}

/** What a resumed flow goes on with. */
export interface Resumed {
  /** The nodes that were running, in the order of their names. */
  running: RunningNode[];
  /** The sequence of the `flow:resumed` event. */
  sequence: number;
}

/** What to play back, and how fast. */
export interface PlaybackOptions {
  /** The first sequence; 1 when left out. */
  first?: number;
  /** The last sequence, inclusive. */
  last?: number;
  /** Only events of these types; a type that ends in `*` stands for all that begin so. */
  types?: readonly string[];
  /** How many times as fast as it was recorded; 1 when left out, `Infinity` for without delays. */
  speed?: number;
  /** Stops playing. */
  signal?: AbortSignal;
}

/** An event as it was recorded. */
export interface RecordedEvent {
  /** Its place in the run's stream. */
  sequence: number;
  /** Its place in the log. */
  position: number;
  /** When it was recorded: milliseconds since 1970-01-01 UTC. */
  recordedAtMs: number;
  /** How long after the event before it, at the speed of the playback: milliseconds. */
  delayMs: number;
  /** The event. */
  event: RuntimeEvent;
  /** The event as text, byte for byte. */
  json: string;
}
