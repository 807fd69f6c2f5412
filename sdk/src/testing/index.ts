/**
 * Testing flows without calling an agent: fixtures that were recorded, a query that plays them, a recorder that makes
 * them, and a node whose query can be replaced.
 *
 * @example
 * ```ts
 * const mockQuery = createMockQuery({ fixtures: loadFixtures("tests/fixtures/my-workflow/") });
 * const claudeNode = createClaudeNode({ queryFn: mockQuery });
 * const store = await openInMemory();
 * const { text } = await claudeNode.run(await store.flows.create(), { nodeId: "task-agent", prompt: "Analyze it." });
 * ```
 *
 * @module runlog/testing
 */

export {
  type ClaudeNode,
  ClaudeNodeError,
  type ClaudeNodeInput,
  type ClaudeNodeOptions,
  type ClaudeNodeResult,
  createClaudeNode,
  type QueryFn,
  type QueryMessage,
  type QueryParams,
} from "../claude/index.js";
export { loadFixtures } from "./load.js";
export { type MockQuery, type MockQueryOptions, type MockResult, createMockQuery } from "./mock.js";
export { type FixtureRecorder, type RecordFixturesOptions, recordFixtures } from "./record.js";
export { type Schema, fixtureSchema } from "./schema.js";
export { type ErrorCode, RunlogError } from "../error.js";
export type {
  Fixture,
  FixtureCall,
  FixtureComplete,
  FixtureEvent,
  FixtureInput,
  FixtureOutput,
  FixtureSet,
  FixtureStart,
  FixtureTool,
} from "./types.js";
