import type { AgentEvent } from "../flow-types.js";

/** A message of a query: what the agent's library tells while it works. */
export interface QueryMessage {
  /** What the message is: a type of the agent's library, or of a fixture's event. */
  readonly type: string;
}

/** What a query is called with. */
export interface QueryParams {
  /** The prompt: text, or messages as they come. */
  prompt: string | AsyncIterable<unknown>;
  /** The options of the agent's library. */
  options?: object;
  /** The node that calls. The agent's library passes over it; a mock query and a recorder go by it. */
  nodeId?: string;
}

/**
 * A function that calls an agent, such as `query` of `@anthropic-ai/claude-agent-sdk`, or one of `runlog/testing`.
 */
// A method, so that a function with narrower options fits.
export type QueryFn = {
  /** Calls the agent; what it tells comes while it works. */
  call(params: QueryParams): AsyncIterable<QueryMessage>;
}["call"];

/** The types of the events of an agent. @internal */
export const EVENT_TYPES: readonly string[] = [
  "agent:start",
  "agent:thinking:delta",
  "agent:thinking",
  "agent:text:delta",
  "agent:text",
  "agent:tool",
  "agent:error",
  "agent:complete",
] satisfies AgentEvent["type"][];

/** Whether a value is an object with fields. @internal */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
