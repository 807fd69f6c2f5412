import type { ClaudeMessageInput } from "../flow-types.js";

/** What a node's agent is called with, as the Claude Agent SDK's `query` is. */
export interface QueryInput {
  /** The whole prompt, the messages, or a stream of messages that goes on while the agent works. */
  prompt: string | ClaudeMessageInput[] | AsyncIterable<ClaudeMessageInput>;
  /** The options of the call: the session among them. */
  options?: Record<string, unknown>;
  /** The node that calls; the Claude Agent SDK passes over it. */
  nodeId?: string;
}

/** A message of the Claude Agent SDK's, or an event of a fixture's. */
export interface QueryMessage {
  type: string;
  [field: string]: unknown;
}

/** Calls an agent: the `query` of the Claude Agent SDK, or one that stands in for it. */
export type Query = (input: QueryInput) => AsyncIterable<QueryMessage>;
