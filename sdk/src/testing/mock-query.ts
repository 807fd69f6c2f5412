import { RunlogError } from "../error.js";
import type { FixtureCall, FixtureSet } from "./fixtures.js";
import type { Query, QueryInput } from "../claude/query.js";

/**
 * A `query` that answers from fixtures, without a network: for each call of a node the next one of its fixture, first its
 * events, then its result.
 *
 * The node is the one that the call names (as {@link createClaudeNode} does), or `options.nodeId`; else the one whose next
 * call has this prompt; else the only one there is.
 *
 * @throws {@link RunlogError} `not_found` when no fixture is left for a call, when it is iterated.
 *
 * @example
 * ```ts
 * const mockQuery = createMockQuery({ fixtures: loadFixtures("tests/fixtures/my-workflow/") });
 * const claudeNode = createClaudeNode({ queryFn: mockQuery });
 * ```
 */
export function createMockQuery(options: { fixtures: FixtureSet }): Query {
  const { fixtures } = options;
  const counts = new Map<string, number>();
  return async function* mockQuery(input) {
    const nodeId = nodeOf(fixtures, counts, input);
    const index = counts.get(nodeId) ?? 0;
    counts.set(nodeId, index + 1);
    const call = fixtures[nodeId]?.calls[index];
    if (call === undefined) {
      const known = Object.keys(fixtures).join(", ") || "none";
      throw new RunlogError("not_found", `no fixture for ${nodeId} call ${index}; there are fixtures for ${known}`);
    }
    yield* call.events;
    yield { ...call.output, type: "result", subtype: "success" };
  };
}

function nodeOf(fixtures: FixtureSet, counts: Map<string, number>, input: QueryInput): string {
  const named = input.nodeId ?? input.options?.["nodeId"];
  if (typeof named === "string") return named;
  const nodes = Object.keys(fixtures);
  const nextOf = (node: string): FixtureCall | undefined => fixtures[node]?.calls[counts.get(node) ?? 0];
  const asked = JSON.stringify(input.prompt);
  const fitting = nodes.find((node) => JSON.stringify(nextOf(node)?.input.prompt) === asked);
  const only = nodes.length === 1 ? nodes[0] : undefined;
  const found = fitting ?? only;
  if (found !== undefined) return found;
  const prompt = asked?.slice(0, 60) ?? "a stream";
  throw new RunlogError("not_found", `no fixture for a call that names no node, with the prompt ${prompt}`);
}
