import { readFileSync, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";

import { AGENT_EVENT_TYPES } from "../claude/translate.js";
import type { AgentUsage, ClaudeMessageInput } from "../flow-types.js";
import { RunlogError, invalid } from "../error.js";

/** What a node's agent was asked. */
export interface FixtureInput {
  /** The whole prompt, or the messages. */
  prompt: string | ClaudeMessageInput[];
  /** The options of the call. */
  options?: Record<string, unknown>;
}

/** What came of it. Fields that aren't known are kept. */
export interface FixtureOutput {
  /** The final text. */
  text: string;
  /** The tokens it took. */
  usage?: AgentUsage;
  /** How long it took, in milliseconds. */
  durationMs?: number;
  /** The agent's own session. */
  sessionId?: string;
  [field: string]: unknown;
}

/** One of the eight events of an agent, as it is kept in a fixture: without node, run and time, which a replay gives. */
export interface FixtureEvent {
  type: string;
  [field: string]: unknown;
}

/** One call of a node's agent. */
export interface FixtureCall {
  input: FixtureInput;
  output: FixtureOutput;
  events: FixtureEvent[];
}

/** The calls of one node, in the order in which they were made. */
export interface Fixture {
  calls: FixtureCall[];
}

/** The fixtures of a flow, by node. */
export type FixtureSet = Record<string, Fixture>;

/**
 * Loads the fixtures of a flow: each file `NODE.json` of a folder is that of a node. A path of one file is that of the node
 * it is named after.
 *
 * The files are checked; the same is published as a JSON Schema, `runlog/fixture.schema.json`.
 *
 * @throws {@link RunlogError} `not_found` when there are none; `invalid_input` that names the file, the place in it, what
 * was expected and what was found.
 */
export function loadFixtures(path: string): FixtureSet {
  const fixtures: FixtureSet = {};
  for (const file of files(path)) fixtures[basename(file, ".json")] = checkFixture(read(file), file);
  return fixtures;
}

function files(path: string): string[] {
  let names: string[];
  try {
    if (statSync(path).isFile()) return [path];
    names = readdirSync(path).filter((name) => name.endsWith(".json"));
  } catch (cause) {
    throw new RunlogError("not_found", `there are no fixtures at ${path}: ${(cause as Error).message}`, { cause });
  }
  if (names.length === 0) throw new RunlogError("not_found", `there are no fixtures at ${path}: no .json file is in it`);
  return names.sort().map((name) => join(path, name));
}

function read(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch (cause) {
    throw invalid(`the fixture ${file} is not JSON: ${(cause as Error).message}`, cause);
  }
}

/**
 * Checks that a value is a fixture, and gives it back as one. `name` is what it is called in the error.
 *
 * @throws {@link RunlogError} `invalid_input` that says where it isn't, what was expected and what was found.
 */
export function checkFixture(value: unknown, name = "fixture"): Fixture {
  const at = new Place(name, "");
  const fixture = at.object(value);
  const calls = at.field("calls").array(fixture["calls"]);
  calls.forEach((call, index) => checkCall(at.field(`calls/${index}`), call));
  return value as Fixture;
}

function checkCall(at: Place, value: unknown): void {
  const call = at.object(value);
  const input = at.field("input").object(call["input"]);
  const prompt = input["prompt"];
  if (typeof prompt !== "string") {
    const messages = at.field("input/prompt");
    if (!Array.isArray(prompt)) throw messages.expected("a string or an array of messages", prompt);
    prompt.forEach((message, index) => messages.field(String(index)).object(message));
  }
  if (input["options"] !== undefined) at.field("input/options").object(input["options"]);

  const output = at.field("output").object(call["output"]);
  at.field("output/text").string(output["text"]);
  if (output["sessionId"] !== undefined) at.field("output/sessionId").string(output["sessionId"]);
  if (output["durationMs"] !== undefined) at.field("output/durationMs").number(output["durationMs"]);
  if (output["usage"] !== undefined) {
    const usage = at.field("output/usage").object(output["usage"]);
    for (const tokens of ["inputTokens", "outputTokens"]) at.field(`output/usage/${tokens}`).number(usage[tokens]);
  }

  const events = at.field("events").array(call["events"]);
  events.forEach((event, index) => {
    const place = at.field(`events/${index}`);
    const { type } = place.object(event);
    if (!(AGENT_EVENT_TYPES as readonly unknown[]).includes(type)) {
      throw place.field("type").expected(`one of ${AGENT_EVENT_TYPES.join(", ")}`, type);
    }
  });
}

/** A place in a fixture, and what is expected there. */
class Place {
  readonly #name: string;
  readonly #pointer: string;

  constructor(name: string, pointer: string) {
    this.#name = name;
    this.#pointer = pointer;
  }

  field(name: string): Place {
    return new Place(this.#name, `${this.#pointer}/${name}`);
  }

  object(value: unknown): Record<string, unknown> {
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
    throw this.expected("an object", value);
  }

  array(value: unknown): unknown[] {
    if (Array.isArray(value)) return value;
    throw this.expected("an array", value);
  }

  string(value: unknown): void {
    if (typeof value !== "string") throw this.expected("a string", value);
  }

  number(value: unknown): void {
    if (typeof value !== "number" || value < 0) throw this.expected("a number from 0", value);
  }

  expected(what: string, found: unknown): RunlogError {
    const text = found === undefined ? "nothing" : (JSON.stringify(found) ?? String(found));
    const short = text.length > 60 ? `${text.slice(0, 60)}…` : text;
    return invalid(`${this.#name}: at ${this.#pointer || "its root"}, expected ${what}, found ${short}`);
  }
}
