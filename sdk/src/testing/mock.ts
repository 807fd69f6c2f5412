import { objectOf, shown } from "../checks.js";
import { type Check, type Checks, anObject, awaited, fieldsOf, optional, yesOrNo } from "../claude/given.js";
import { RunlogError, abortedError, invalid, throwIfAborted } from "../error.js";
import { type QueryFn, type QueryParams, isObject } from "../claude/query.js";
import { check } from "./check.js";
import { fixtureSchema } from "./schema.js";
import type { FixtureCall, FixtureEvent, FixtureOutput, FixtureSet } from "./types.js";

/** What a mock query plays. */
export interface MockQueryOptions {
  /** The recorded calls, by node. */
  fixtures: FixtureSet;
  /** How many calls of each node were made before, as where a flow is resumed in another process. */
  callsMade?: Record<string, number> | undefined;
  /** Whether a call whose prompt isn't the recorded one is an error; it isn't when left out. */
  strict?: boolean | undefined;
}

/** The last message of a mock query: how the recorded call ended. */
export interface MockResult extends FixtureOutput {
  /** Which message it is. */
  type: "result";
  /** How the call ended: `success`, or the kind of the error. */
  subtype: string;
}

/** A query that plays what was recorded. */
export type MockQuery = (params: QueryParams) => AsyncGenerator<FixtureEvent | MockResult, void, undefined>;

const fixtureSet: Check = (field, what) => {
  if (!isObject(field)) throw invalid(`${what} must be an object, not ${shown(field)}: what loadFixtures gives`);
  for (const [nodeId, fixture] of Object.entries(field)) {
    const misfit = check(fixture, fixtureSchema);
    if (misfit === undefined) continue;
    throw invalid(`${what} isn't right: ${nodeId}${misfit.place === "" ? "" : `.${misfit.place}`} ${misfit.message}`);
  }
};

const counts: Check = (field, what) => {
  anObject(field, what);
  for (const [nodeId, count] of Object.entries(field as object)) {
    if (Number.isSafeInteger(count) && count >= 0) continue;
    throw invalid(`\`callsMade.${nodeId}\` must be a whole number from 0, not ${shown(count)}`);
  }
};

const OPTIONS: Checks<MockQueryOptions> = { fixtures: fixtureSet, callsMade: optional(counts), strict: optional(yesOrNo) };

/**
 * Makes a query that calls no agent: each call of a node yields the events of its next recorded call, then its result.
 * The node is the one that the call names, as a node of {@link createClaudeNode} does, or `options.nodeId`; else it is found
 * by the session that goes on, by the prompt, or by there being but one.
 *
 * Give the type of the query that it stands in for where that is needed: `createMockQuery<typeof query>(…)`.
 *
 * @typeParam Query - The type of the query that it stands in for; left out, {@link MockQuery}.
 *
 * @throws {@link RunlogError} `invalid_input` when an option isn't known, or isn't as it should be.
 *
 * @remarks
 * Its calls throw {@link RunlogError}: `not_found` when no call is recorded, `ambiguous` when it isn't known whose it is.
 * A call that threw when it was recorded throws again.
 *
 * @example
 * ```ts
 * const mockQuery = createMockQuery({
 *   fixtures: loadFixtures("tests/fixtures/my-workflow/"),
 * });
 * const claudeNode = createClaudeNode({ queryFn: mockQuery });
 * ```
 */
export function createMockQuery<Query extends QueryFn = MockQuery>(options: MockQueryOptions): Query {
  const { fixtures, strict = false } = fieldsOf(options, "what createMockQuery is given", OPTIONS);
  const callCounts = new Map(Object.entries(options.callsMade ?? {}));

  const mockQuery: MockQuery = async function* mockQuery(params) {
    objectOf(awaited(params, ASKED), ASKED);
    const signal = signalOf(params);
    throwIfAborted(signal);
    const nodeId = nodeOf(params, fixtures, callCounts);
    const fixture = Object.hasOwn(fixtures, nodeId) ? fixtures[nodeId] : undefined;
    const callIndex = callCounts.get(nodeId) ?? 0;
    callCounts.set(nodeId, callIndex + 1);

    const call = fixture?.calls[callIndex];
    if (call === undefined) throw missing(nodeId, callIndex, fixture?.calls.length, fixtures);
    if (strict && isText(params.prompt) && isText(call.input.prompt) && params.prompt !== call.input.prompt) {
      const [asked, recorded] = [params.prompt, call.input.prompt].map((text) => JSON.stringify(text));
      throw invalid(`${nodeId} call ${callIndex} was recorded with the prompt ${recorded}, not ${asked}; record it again`);
    }
    // Copies, so that whoever changes them doesn't change the fixture.
    for (const event of call.events) {
      yield structuredClone(event);
      if (signal?.aborted) throw abortedError(signal);
    }
    if (call.output.error !== undefined) throw new Error(call.output.error);
    yield { type: "result", subtype: "success", ...structuredClone(call.output) };
  };
  return mockQuery as unknown as Query;
}

const ASKED = "what a query is called with";

function missing(nodeId: string, callIndex: number, calls: number | undefined, fixtures: FixtureSet): RunlogError {
  const names = Object.keys(fixtures).map((name) => JSON.stringify(name));
  const why =
    calls === undefined
      ? `there are fixtures for ${names.join(", ") || "no node"}`
      : `its fixture has ${calls} call${calls === 1 ? "" : "s"}, counted from 0`;
  return new RunlogError("not_found", `No fixture for ${nodeId} call ${callIndex}: ${why}; record it with recordFixtures`);
}

/** Whose call it is. */
function nodeOf(params: QueryParams, fixtures: FixtureSet, callCounts: Map<string, number>): string {
  const options: Record<string, unknown> = isObject(params.options) ? params.options : {};
  const named = params.nodeId ?? options["nodeId"];
  if (typeof named === "string") return named;
  const nodes = Object.entries(fixtures);
  const those = (fits: (call: FixtureCall, index: number, nodeId: string) => boolean) =>
    nodes.filter(([nodeId, { calls }]) => calls.some((call, index) => fits(call, index, nodeId))).map(([nodeId]) => nodeId);

  const session = options["sessionId"] ?? options["resume"];
  const bySession = those((call) => session !== undefined && call.output.sessionId === session);
  if (bySession.length === 1) return bySession[0] as string;
  const isPrompt = (call: FixtureCall) => isText(params.prompt) && call.input.prompt === params.prompt;
  const next = those((call, index, nodeId) => isPrompt(call) && index === (callCounts.get(nodeId) ?? 0));
  if (next.length === 1) return next[0] as string;
  const byPrompt = those(isPrompt);
  if (byPrompt.length === 1) return byPrompt[0] as string;
  if (nodes.length === 1) return nodes[0]?.[0] as string;

  const asked = isText(params.prompt) ? ` with the prompt ${JSON.stringify(params.prompt.slice(0, 80))}` : "";
  const among = (byPrompt.length > 1 ? byPrompt : nodes.map(([nodeId]) => nodeId)).map((it) => JSON.stringify(it));
  throw new RunlogError(
    "ambiguous",
    `can't tell which node a call${asked} is of, among ${among.join(", ") || "none"}; name it: query({ prompt, nodeId })`,
  );
}

function signalOf(params: QueryParams): AbortSignal | undefined {
  const controller = isObject(params.options) ? params.options["abortController"] : undefined;
  return controller instanceof AbortController ? controller.signal : undefined;
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}
