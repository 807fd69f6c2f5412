/**
 * Testing flows without calling an agent: fixtures that were recorded, a query that plays them, a recorder that makes
 * them, and a node whose query can be replaced.
 *
 * @packageDocumentation
 */

export { type ClaudeNode, ClaudeNodeError, type ClaudeNodeInput, type ClaudeNodeOptions, type ClaudeNodeResult } from "./node.js";
export { createClaudeNode } from "./node.js";
export { loadFixtures } from "./load.js";
export { type MockQuery, type MockQueryOptions, type MockResult, createMockQuery } from "./mock.js";
export { type FixtureRecorder, type RecordFixturesOptions, recordFixtures } from "./record.js";
export { type Schema, fixtureSchema } from "./schema.js";
export type {
  Fixture,
  FixtureCall,
  FixtureEvent,
  FixtureInput,
  FixtureOutput,
  FixtureSet,
  QueryFn,
  QueryMessage,
  QueryParams,
} from "./types.js";
