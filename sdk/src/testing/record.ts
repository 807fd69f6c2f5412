import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { checkFunction, shown } from "../checks.js";
import { defined } from "../claude/figures.js";
import { type Check, type Checks, awaited, fieldsOf, isPromise, optional, text, yesOrNo } from "../claude/given.js";
import { type QueryFn, type QueryMessage, type QueryParams, isObject } from "../claude/query.js";
import { Translation } from "../claude/translation.js";
import { RunlogError, invalid, messageOf } from "../error.js";
import type { AgentCompleteEvent, AgentEvent, ClaudeMessageInput } from "../flow-types.js";
import { check } from "./check.js";
import { fileOf, loadFixtures, noFixtures } from "./load.js";
import { fixtureSchema } from "./schema.js";
import type { Fixture, FixtureCall, FixtureEvent, FixtureSet } from "./types.js";

/** How calls are recorded as fixtures. */
export interface RecordFixturesOptions<Query extends QueryFn = QueryFn> {
  /**
   * The folder to write to: a file for each node, `task-agent.json`. It is made if it isn't there. Left out, the one that
   * `runlog record-fixtures -- COMMAND` names, in `RUNLOG_RECORD_FIXTURES`.
   */
  output?: string | undefined;
  /** The node of the calls that don't say theirs, or how to tell it. */
  nodeId?: (string | ((params: Parameters<Query>[0]) => string)) | undefined;
  /** Keeps the calls that the files have already, and adds to them. Left out, a node's file begins anew. */
  append?: boolean | undefined;
  /** Changes a call before it is kept, as to take a secret out. It returns the call. */
  redact?: ((call: FixtureCall, nodeId: string) => FixtureCall) | undefined;
}

/** What {@link recordFixtures} adds to a query. */
export interface FixtureRecorder {
  /** What was recorded so far. */
  readonly fixtures: FixtureSet;
}

/** Options that tell of this machine or its secrets. */
const UNTOLD = new Set(["env", "headers", "abortController", "nodeId"]);

const nodeName: Check = (field, what) => {
  if (typeof field !== "string" && typeof field !== "function") throw invalid(`${what} must be text or a function, not ${shown(field)}`);
};

const OPTIONS: Checks<RecordFixturesOptions> = {
  output: optional(text),
  nodeId: optional(nodeName),
  append: optional(yesOrNo),
  redact: optional(checkFunction),
};

/**
 * Wraps a query that calls an agent: it does what it did, and each call is written as a fixture when it is over, however it
 * ended. Of the options those with a JSON form are kept, but for `env` and `headers`, which have secrets.
 *
 * @typeParam Query - The type of the query, which the wrapped one has too.
 *
 * @throws {@link RunlogError} `invalid_input` when no folder is named, or an option isn't known or is of another type. Its calls throw what the query throws; `invalid_input`
 * when a call doesn't say its node, and nothing else does, or `redact` throws or gives no call; `io` when the fixture can't be written.
 *
 * @remarks
 * Each call writes the file of its node again, whole, before it is over.
 *
 * @example
 * ```ts
 * const recorded = recordFixtures(query, { output: "tests/fixtures/recordings/my-workflow/" });
 * const claudeNode = createClaudeNode({ queryFn: recorded, resumeWith: "resume" });
 * ```
 */
export function recordFixtures<Query extends QueryFn>(
  query: Query,
  options: RecordFixturesOptions<Query> = {},
): Query & FixtureRecorder {
  checkFunction(awaited(query, "what recordFixtures wraps"), "what recordFixtures wraps");
  fieldsOf(options as RecordFixturesOptions, "what recordFixtures is given beside it", OPTIONS);
  const output = options.output ?? process.env["RUNLOG_RECORD_FIXTURES"] ?? "";
  if (output === "") throw invalid("recordFixtures needs an output, a folder, or to be run by `runlog record-fixtures`");
  const fixtures = noFixtures();
  const keep = (nodeId: string, place: number, call: FixtureCall) => {
    // Read again each time: another recorder may have added to the file since.
    const fixture = options.append ? loaded(output, nodeId) : (fixtures[nodeId] ?? { calls: [] });
    fixtures[nodeId] = fixture;
    const redacted = options.redact === undefined ? call : redactedBy(options.redact, call, nodeId);
    // Calls of a node that overlap are kept in the order in which they began.
    const places = (order.get(nodeId) ?? []).concat(place);
    order.set(nodeId, places.sort((one, other) => one - other));
    const earlier = fixture.calls.length - (places.length - 1);
    fixture.calls.splice(earlier + places.indexOf(place), 0, redacted);
    write(output, nodeId, fixture);
  };
  const order = new Map<string, number[]>();
  let calls = 0;

  const recording = (params: QueryParams) => {
    const nodeId = nodeOf(params, options as RecordFixturesOptions);
    const place = calls++;
    const call = new RecordedCall(params, (made) => keep(nodeId, place, made));
    return call.over(query(call.params));
  };
  return Object.assign(recording, { fixtures }) as unknown as Query & FixtureRecorder;
}

/** What `redact` made of a call. */
function redactedBy(redact: (call: FixtureCall, nodeId: string) => FixtureCall, call: FixtureCall, nodeId: string): FixtureCall {
  const lost = `a call of ${JSON.stringify(nodeId)} isn't kept as a fixture: \`redact\``;
  let redacted: FixtureCall;
  try {
    redacted = redact(structuredClone(call), nodeId);
  } catch (cause) {
    throw invalid(`${lost} threw ${cause instanceof Error ? cause.message : shown(cause)}`, cause);
  }
  if (isPromise(redacted)) throw invalid(`${lost} gave a promise; it must give the call itself`);
  if (redacted === undefined) throw invalid(`${lost} gave nothing; it must return the call, also where it changed it in place`);
  const misfit = check({ calls: [redacted] }, fixtureSchema);
  if (misfit === undefined) return redacted;
  throw invalid(`${lost} gave what is no call: ${misfit.place.replace(/^calls\[0\]\.?/, "") || "it"} ${misfit.message}`);
}

/** A call under way. */
class RecordedCall {
  /** What to call with: the same, with the messages of the prompt noted as they pass. */
  readonly params: QueryParams;
  readonly #messages: ClaudeMessageInput[] = [];
  readonly #events: AgentEvent[] = [];
  readonly #translation: Translation;
  readonly #keep: (call: FixtureCall) => void;
  #kept = false;

  constructor(params: QueryParams, keep: (call: FixtureCall) => void) {
    const { prompt } = params;
    this.params = typeof prompt === "string" || !isIterable(prompt) ? params : { ...params, prompt: this.#noting(prompt) };
    this.#keep = keep;
    const place = { nodeId: "", runId: "", sessionId: "", prompt: "", now: Date.now };
    this.#translation = new Translation(place);
  }

  async *#noting(prompt: AsyncIterable<unknown>): AsyncGenerator<unknown> {
    for await (const message of prompt) {
      if (isObject(message)) this.#messages.push(copied(message));
      yield message;
    }
  }

  /** The stream with everything else it has, such as `interrupt()`, and its messages noted as they pass. */
  over<S extends AsyncIterable<QueryMessage>>(stream: S): S {
    const noted = this.#noted(stream);
    return new Proxy(stream, {
      get: (target, key) => {
        if (key === Symbol.asyncIterator) return () => noted;
        if (key === "next" || key === "return" || key === "throw") return noted[key].bind(noted);
        const value: unknown = Reflect.get(target, key, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  }

  async *#noted(stream: AsyncIterable<QueryMessage>): AsyncGenerator<QueryMessage> {
    try {
      for await (const message of stream) {
        this.#events.push(...this.#translation.take(message));
        yield message;
      }
      this.#events.push(...this.#translation.end());
      this.#end();
    } catch (cause) {
      this.#events.push(...this.#translation.fail(cause));
      this.#end(messageOf(cause));
      throw cause;
    } finally {
      // Whoever reads stopped reading.
      if (!this.#kept) {
        this.#events.push(...this.#translation.end());
        this.#end();
      }
    }
  }

  #end(error?: string): void {
    if (this.#kept) return;
    this.#kept = true;
    const { ending, sessionId } = this.#translation;
    const { prompt, options } = this.params;
    const complete: Partial<AgentCompleteEvent> = ending !== undefined && "complete" in ending ? ending.complete : {};
    const { usage, modelUsage, structuredOutput, totalCostUsd, durationMs, numTurns } = complete;
    const subtype = ending !== undefined && "error" in ending && error === undefined ? ending.subtype : undefined;
    const figures = { usage, modelUsage, structuredOutput, totalCostUsd, durationMs, numTurns };
    this.#keep({
      input: {
        prompt: typeof prompt === "string" ? prompt : this.#messages,
        ...(options !== undefined && { options: plain(options) as Record<string, unknown> }),
      },
      output: {
        text: ending?.text ?? "",
        ...defined(figures),
        ...(sessionId !== "" && { sessionId }),
        ...defined({ subtype, error }),
      },
      events: this.#events.map(fixtureEventOf),
    });
  }
}

/** An event without what is recorded beside it, or is another's when it is played. */
function fixtureEventOf(event: AgentEvent): FixtureEvent {
  const { nodeId: _node, runId: _run, timestamp: _time, ...own } = event;
  if (own.type !== "agent:start") return plain(own) as FixtureEvent;
  const { prompt: _prompt, ...start } = own;
  return start;
}

/** A message as it is now; without what can't be copied, such as functions, since the agent takes it all the same. */
function copied(message: ClaudeMessageInput): ClaudeMessageInput {
  try {
    return structuredClone(message);
  } catch {
    return plain(message) as ClaudeMessageInput;
  }
}

/** What a value is in JSON, without what it doesn't tell. */
function plain(value: object): unknown {
  const telling = (key: string, field: unknown) => {
    if (UNTOLD.has(key) || typeof field === "function" || typeof field === "bigint") return undefined;
    return field instanceof Map || field instanceof Set || field instanceof AbortSignal ? undefined : field;
  };
  try {
    return JSON.parse(JSON.stringify(value, telling)) as unknown;
  } catch (cause) {
    throw invalid(`what is recorded has no JSON form: ${(cause as Error).message}`, cause);
  }
}

function nodeOf(params: QueryParams, { nodeId }: RecordFixturesOptions): string {
  const options: Record<string, unknown> = isObject(params.options) ? params.options : {};
  const given = params.nodeId ?? options["nodeId"] ?? (typeof nodeId === "function" ? nodeId(params) : nodeId);
  if (typeof given === "string" && given !== "") return given;
  throw invalid("a recorded call should say its node: query({ prompt, nodeId }), or give recordFixtures a nodeId");
}

/** The calls that a node's file has already. */
function loaded(output: string, nodeId: string): Fixture {
  try {
    return loadFixtures(join(output, fileOf(nodeId)))[nodeId] ?? { calls: [] };
  } catch (error) {
    if (error instanceof RunlogError && error.code === "not_found") return { calls: [] };
    throw error;
  }
}

/** Writes a fixture in one go, so that whoever reads it never finds half of it. */
function write(folder: string, nodeId: string, fixture: Fixture): void {
  const path = join(folder, fileOf(nodeId));
  try {
    mkdirSync(folder, { recursive: true });
    writeFileSync(`${path}.new`, `${JSON.stringify(fixture, undefined, 2)}\n`);
    renameSync(`${path}.new`, path);
  } catch (cause) {
    throw new RunlogError("io", `can't write the fixture ${path}: ${(cause as Error).message}`, { cause });
  }
}

function isIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}
