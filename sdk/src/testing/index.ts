/**
 * Testing flows of agents without a network: fixtures that are recorded from real calls, and replayed in their place.
 *
 * @packageDocumentation
 */

export { checkFixture, loadFixtures } from "./fixtures.js";
export type { Fixture, FixtureCall, FixtureEvent, FixtureInput, FixtureOutput, FixtureSet } from "./fixtures.js";
export { createMockQuery } from "./mock-query.js";
export { recordFixtures } from "./record-fixtures.js";
export { createClaudeNode } from "../claude/node.js";
export type { ClaudeNode, ClaudeNodeInput, ClaudeNodeOptions, ClaudeNodeOutput } from "../claude/node.js";
export type { Query, QueryInput, QueryMessage } from "../claude/query.js";
