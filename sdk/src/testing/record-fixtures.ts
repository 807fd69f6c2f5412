import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { invalid } from "../error.js";
import { type Fixture, type FixtureCall, type FixtureEvent, checkFixture } from "./fixtures.js";
import type { Query, QueryInput } from "../claude/query.js";
import { Translator } from "../claude/translate.js";

/** The variable that `runlog record-fixtures` names the folder in. */
const RECORD_FIXTURES = "RUNLOG_RECORD_FIXTURES";

/**
 * Wraps a real `query`, so that every call of a node is written as a fixture: its input, the events of its agent, and its
 * output, appended to `NODE.json` when the call is over. The first call of a node in this process begins its file anew.
 *
 * @throws {@link RunlogError} `invalid_input` when neither an output is given nor `RUNLOG_RECORD_FIXTURES` is set, as
 * `runlog record-fixtures` does; or, when it is iterated, for a node whose name can't be that of a file.
 *
 * @example
 * ```ts
 * import { query } from "@anthropic-ai/claude-agent-sdk";
 *
 * const claudeNode = createClaudeNode({ queryFn: recordFixtures(query, { output: "tests/fixtures/my-workflow" }) });
 * ```
 */
export function recordFixtures(query: Query, options: { output?: string; nodeId?: string } = {}): Query {
  const output = options.output ?? process.env[RECORD_FIXTURES];
  if (output === undefined || output === "") {
    throw invalid(`recordFixtures needs an output folder, or ${RECORD_FIXTURES}, which \`runlog record-fixtures\` sets`);
  }
  const begun = new Set<string>();
  return async function* recorded(input) {
    const { nodeId, ...rest } = input;
    const node = nodeId ?? options.nodeId ?? "agent";
    const file = fileOf(output, node);
    const events: FixtureEvent[] = [];
    const translator = new Translator();
    const given = await kept(rest);
    for await (const message of query({ ...given.input, ...(nodeId !== undefined && { nodeId }) })) {
      events.push(...translator.events(message));
      yield message;
    }
    const { sessionId, model } = translator;
    const start: FixtureEvent = {
      type: "agent:start",
      ...(sessionId !== undefined && { sessionId }),
      ...(model !== undefined && { model }),
    };
    const text = { text: "" };
    const call = { input: given.fixture(), output: translator.output ?? text, events: [start, ...events] };
    append(file, call, begun.has(node));
    begun.add(node);
  };
}

/** The input as it is kept; a stream of messages is kept as the messages that were taken from it. */
async function kept(input: Omit<QueryInput, "nodeId">): Promise<{ input: QueryInput; fixture(): FixtureCall["input"] }> {
  const { prompt, options } = input;
  const rest = options === undefined ? {} : { options: JSON.parse(JSON.stringify(options)) as Record<string, unknown> };
  if (typeof prompt === "string" || Array.isArray(prompt)) return { input, fixture: () => ({ prompt, ...rest }) };
  const taken: Record<string, unknown>[] = [];
  const stream = prompt;
  async function* tapped() {
    for await (const message of stream) {
      taken.push(message);
      yield message;
    }
  }
  return { input: { ...input, prompt: tapped() }, fixture: () => ({ prompt: taken, ...rest }) };
}

function fileOf(output: string, node: string): string {
  if (!/^[^/\\\0]+$/.test(node) || node.startsWith(".")) {
    throw invalid(`the node ${JSON.stringify(node)} can't be the name of a fixture's file`);
  }
  return join(output, `${node}.json`);
}

function append(file: string, call: FixtureCall, goesOn: boolean): void {
  mkdirSync(join(file, ".."), { recursive: true });
  const before: Fixture =
    goesOn && existsSync(file) ? checkFixture(JSON.parse(readFileSync(file, "utf8")), file) : { calls: [] };
  const fixture = { ...before, calls: [...before.calls, call] };
  // Whole or not at all.
  writeFileSync(`${file}.new`, `${JSON.stringify(fixture, null, 2)}\n`);
  renameSync(`${file}.new`, file);
}
