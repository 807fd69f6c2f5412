/**
 * Nodes of flows that a Claude agent works in: `query` of `@anthropic-ai/claude-agent-sdk`, recorded as it works, and gone on
 * with after a crash. The library is loaded when a node first runs, and isn't needed where a `queryFn` is given.
 *
 * @example
 * ```ts
 * const store = await open("runlog-data");
 * const claudeNode = createClaudeNode({ options: { maxTurns: 10 } });
 * const { text } = await claudeNode.run(await store.flows.create(), { nodeId: "plan", prompt: "Plan the work." });
 * ```
 *
 * @module runlog/claude
 */

export {
  type ClaudeNode,
  ClaudeNodeError,
  type ClaudeNodeInput,
  type ClaudeNodeOptions,
  type ClaudeNodeResult,
  createClaudeNode,
} from "./node.js";
export { type ErrorCode, RunlogError } from "../error.js";
export type { QueryFn, QueryMessage, QueryParams } from "./query.js";
