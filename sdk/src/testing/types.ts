import type {
  AgentCompleteEvent,
  AgentErrorEvent,
  AgentEventBase,
  AgentStartEvent,
  AgentTextDeltaEvent,
  AgentTextEvent,
  AgentThinkingDeltaEvent,
  AgentThinkingEvent,
  AgentToolEvent,
  ClaudeMessageInput,
} from "../flow-types.js";

/** `agent:start` as a fixture keeps it. */
export interface FixtureStart extends Omit<AgentStartEvent, keyof AgentEventBase | "prompt"> {
  /** The whole prompt, or the messages. A fixture needn't have it: the call's input does. */
  prompt?: string | ClaudeMessageInput[];
}

/** `agent:tool` as a fixture keeps it. */
export interface FixtureTool extends Omit<AgentToolEvent, keyof AgentEventBase | "toolInput" | "toolOutput"> {
  /** What it was called with: any JSON; `null` when left out. */
  toolInput?: unknown;
  /** What it gave: any JSON; `null` when left out. */
  toolOutput?: unknown;
}

/** `agent:complete` as a fixture keeps it. */
export interface FixtureComplete
  extends Pick<AgentCompleteEvent, "type" | "result">,
    Partial<Omit<AgentCompleteEvent, keyof AgentEventBase | "type" | "result">> {}

/** An event of an agent as a fixture keeps it: without the node, the run and the time, which are those of whoever plays it. */
export type FixtureEvent =
  | FixtureStart
  | Omit<AgentThinkingDeltaEvent, keyof AgentEventBase>
  | Omit<AgentThinkingEvent, keyof AgentEventBase>
  | Omit<AgentTextDeltaEvent, keyof AgentEventBase>
  | Omit<AgentTextEvent, keyof AgentEventBase>
  | FixtureTool
  | Omit<AgentErrorEvent, keyof AgentEventBase>
  | FixtureComplete;

/** What a call was made with. */
export interface FixtureInput {
  /** The prompt: text, or messages. */
  prompt: string | ClaudeMessageInput[];
  /** The options that have a JSON form. */
  options?: Record<string, unknown>;
}

/** What a call ended with. */
export interface FixtureOutput extends Partial<
  Pick<AgentCompleteEvent, "usage" | "modelUsage" | "structuredOutput" | "totalCostUsd" | "durationMs" | "numTurns">
> {
  /** The final text. */
  text: string;
  /** The agent's own session, to go on with. */
  sessionId?: string;
  /** How the call ended, where it isn't `success`. */
  subtype?: string;
  /** What the call threw, where it did. */
  error?: string;
}

/** One recorded call. */
export interface FixtureCall {
  /** What it was made with. */
  input: FixtureInput;
  /** What it ended with. */
  output: FixtureOutput;
  /** The events of the agent in between, in order. */
  events: FixtureEvent[];
}

/** The recorded calls of one node, in order: a fixture file. */
export interface Fixture {
  /** The calls, in the order in which they were begun. */
  calls: FixtureCall[];
}

/** The fixtures of a flow, by node. */
export type FixtureSet = Record<string, Fixture>;
