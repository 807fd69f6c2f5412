/**
 * Testing flows without calling an agent: fixtures that were recorded, a query that plays them, a recorder that makes
 * them, and a node whose query can be replaced.
 *
 * @packageDocumentation
 */

export { type ClaudeNode, ClaudeNodeError, type ClaudeNodeInput, type ClaudeNodeOptions, type ClaudeNodeResult } from "../claude/node.js";
export { createClaudeNode } from "../claude/node.js";
export { loadFixtures } from "./load.js";
export { type MockQuery, type MockQueryOptions, type MockResult, createMockQuery } from "./mock.js";
export { type FixtureRecorder, type RecordFixturesOptions, recordFixtures } from "./record.js";
export { type Schema, fixtureSchema } from "./schema.js";
export type { QueryFn, QueryMessage, QueryParams } from "../claude/query.js";
export type {
  Fixture,
  FixtureCall,
  FixtureEvent,
  FixtureInput,
  FixtureOutput,
  FixtureSet,
} from "./types.js";
