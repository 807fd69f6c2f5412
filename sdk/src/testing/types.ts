import type { AgentCompleteEvent, AgentEvent, AgentEventBase, ClaudeMessageInput } from "../flow-types.js";

type Recorded<E> = E extends AgentCompleteEvent
  ? Pick<E, "type" | "result"> & Partial<Omit<E, keyof AgentEventBase>>
  : E extends { type: "agent:start" }
    ? Omit<E, keyof AgentEventBase | "prompt"> & { prompt?: string | ClaudeMessageInput[] }
    : E extends { type: "agent:tool" }
      ? Omit<E, keyof AgentEventBase | "toolInput" | "toolOutput"> & { toolInput?: unknown; toolOutput?: unknown }
      : Omit<E, keyof AgentEventBase>;

/** An event of an agent as a fixture keeps it: without the node, the run and the time, which are those of whoever plays it. */
export type FixtureEvent = Recorded<AgentEvent>;

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
  /** The agent's own session. */
  sessionId?: string;
  /** How the call ended, where it isn't `success`. */
  subtype?: string;
  /** What the call threw, where it did. */
  error?: string;
}

/** One recorded call. */
export interface FixtureCall {
  input: FixtureInput;
  output: FixtureOutput;
  events: FixtureEvent[];
}

/** The recorded calls of one node, in order: a fixture file. */
export interface Fixture {
  calls: FixtureCall[];
}

/** The fixtures of a flow, by node. */
export type FixtureSet = Record<string, Fixture>;
