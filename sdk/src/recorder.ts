import type { MessageInput } from "./context-types.js";
import { checkFunction, checkText, fieldsOf, listOf, objectOf } from "./checks.js";
import { RunlogError, givenError, messageOf } from "./error.js";
import type { RecorderCalls, RunContextCalls } from "./generated/calls.js";
import type { AppendOptions, Recorded, Run, RunDetails } from "./generated/types.js";
import type { Handle } from "./handle.js";
import { showsItsJson } from "./inspect.js";
import { RawJson, checkField, jsonBytes, jsonList, messageBytes, wellFormed } from "./json.js";
import type { PauseReason, ToolOutcome } from "./run-types.js";

/**
 * Writes one run while it happens. Got from {@link Runs.start}, {@link Runs.resume} and {@link Runs.recorder}.
 *
 * Every write is refused with `wrong_status` once the run has paused or ended, whoever ended it: an agent that ignores
 * that it was stopped can't write into a finished run. Writes are done in the order of the calls.
 *
 * @example
 * ```ts
 * const run = await store.runs.start({ session: { title: "Fix it" }, agentName: "coder" });
 * await run.nextStep();
 * await run.recordMessage({ role: "assistant", content: "Done." });
 * await run.complete("done");
 * ```
 */
export class RunRecorder implements AsyncDisposable {
  readonly #handle: Handle<RecorderCalls>;
  #run: Run;

  /** @internal */
  constructor(handle: Handle<RecorderCalls>, run: Run) {
    this.#handle = handle;
    this.#run = run;
  }

  /** The id of the run. */
  get id(): string {
    return this.#run.id;
  }

  /** The run as it was when this recorder last heard of its status. */
  get run(): Run {
    return this.#run;
  }

  /** The run as far as this recorder knows now, with the steps begun. */
  async refresh(): Promise<Run> {
    this.#run = await this.#handle.value("run");
    return this.#run;
  }

  /**
   * Begins the next step, and says its number, counted over all resumes. It is written with the first message in it.
   *
   * @throws {@link RunlogError} `limit_reached` when the budget of steps is spent: the run is then paused, durably;
   * `wrong_status` when the run isn't running.
   */
  async nextStep(): Promise<number> {
    try {
      return await this.#handle.value("nextStep");
    } catch (error) {
      // A budget that is spent has paused the run.
      if (error instanceof RunlogError && error.code === "limit_reached") this.#run = await this.#handle.value("run");
      throw error;
    }
  }

  /**
   * Records a message in the provider's own form, with the tool calls it asks for and the step it begins, as one batch.
   * Durable when it resolves.
   *
   * @throws {@link RunlogError} `wrong_status` when the run isn't running; `invalid_input`, `too_large` when the message
   * is refused; `conflict`. Nothing is written then.
   */
  async recordMessage(message: MessageInput, options?: AppendOptions): Promise<Recorded> {
    return await this.#handle.value("recordMessage", options, messageBytes(message));
  }

  /**
   * Records what a tool gave for a call that was recorded before, as a message in the provider's form.
   *
   * @remarks
   * Amazon Bedrock's Converse and Gemini take the results of all calls of one answer in one message only: there, record the results of several calls together, by {@link recordToolResults}.
   *
   * @throws {@link RunlogError} as {@link recordMessage}: `invalid_input` when the context has no such call;
   * `already_exists` when the call has its result already.
   */
  async recordToolResult(outcome: ToolOutcome): Promise<Recorded> {
    return await recordToolResult(this.#handle, outcome);
  }

  /**
   * Records what tools gave for several calls that were recorded before, as one batch, and one flush: in one message where the provider
   * takes no other (Amazon Bedrock's Converse, Gemini), in a message each elsewhere. Durable when it resolves.
   *
   * @example
   * ```ts
   * const outcomes = await Promise.all(calls.map(async (call) => ({ toolCallId: call.id, output: await work(call) })));
   * await run.recordToolResults(outcomes);
   * ```
   *
   * @throws {@link RunlogError} as {@link recordToolResult}, also when two outcomes answer one call, or none is given. Nothing is written
   * then.
   */
  async recordToolResults(outcomes: readonly ToolOutcome[]): Promise<Recorded> {
    return await recordToolResults(this.#handle, outcomes);
  }

  /**
   * Does the work of a tool call that was recorded before, and records what it gave, or the error that it threw, with how long
   * it took. Gives what the work gave, or throws what it threw; in both cases the result is durable by then. The work isn't begun
   * where its result couldn't be recorded: of a call that has one, or that isn't there, or of a run that isn't running.
   *
   * @example
   * ```ts
   * const rows = await run.tool("call_1", () => search("Oslo"));
   * ```
   *
   * @throws {@link RunlogError} as {@link recordToolResult}; `conflict` where the work of the call is being done already; else what
   * the work throws.
   */
  async tool<T>(toolCallId: string, work: () => T | PromiseLike<T>): Promise<T> {
    return await tool(this.#handle, toolCallId, work);
  }

  /**
   * Records the assistant message that asked for tool calls together with what the tools gave: message, calls, results
   * and the step as one batch, and one flush.
   *
   * @throws {@link RunlogError} as {@link recordMessage}; `invalid_input` when an outcome answers no call of the message.
   */
  async recordToolCall(message: MessageInput, outcomes: readonly ToolOutcome[]): Promise<Recorded> {
    return await recordToolCall(this.#handle, message, outcomes);
  }

  /**
   * Says of the run what it took, such as tokens and their cost, and anything else, as often as there is something to say,
   * whatever its status is. What is left out stays as it was. Lists of runs tell it too. A run that is resumed gives its
   * metadata to the one that goes on from it, and keeps its usage, which is each run's own. Durable when it resolves.
   *
   * @example
   * ```ts
   * await run.describe({ usage: { inputTokens: 812, outputTokens: 97, cost: 0.0041 }, metadata: { user: "ann" } });
   * ```
   *
   * @throws {@link RunlogError} `invalid_input` when the usage is no object; `too_large` for more than 64 KiB of it or of
   * metadata; `not_found` when the run's session was deleted.
   */
  async describe(details: RunDetails): Promise<Run> {
    this.#run = await this.#handle.value("describe", details);
    return this.#run;
  }

  /**
   * Pauses the run: it can be resumed. Text alone is a reason that somebody asks for it with; a kind says what else stops it.
   * Durable when it resolves.
   *
   * @example
   * ```ts
   * await recorder.pause({ kind: "shutdown", reason: "SIGTERM" });
   * ```
   *
   * @throws {@link RunlogError} `wrong_status` when the run isn't running; `too_large` for a reason over 1 MiB.
   */
  async pause(why: string | PauseReason = {}): Promise<Run> {
    const { reason, ...rest } = typeof why === "string" ? { reason: why } : fieldsOf(why, "why a run is paused");
    const given = { ...rest, reason: wellFormed(reason) };
    this.#run = await this.#handle.value("pause", given);
    return this.#run;
  }

  /**
   * Ends the run well, with what came of it. Durable when it resolves.
   *
   * @throws {@link RunlogError} as {@link pause}.
   */
  async complete(summary?: string): Promise<Run> {
    return await this.#ended(this.#handle.value("complete", { summary: wellFormed(summary) }));
  }

  /**
   * Ends the run with an error: its message, or what it says as text. Durable when it resolves.
   *
   * @throws {@link RunlogError} as {@link pause}.
   */
  async fail(error: unknown): Promise<Run> {
    const told = error === undefined ? "no reason was given" : givenError(error);
    return await this.#ended(this.#handle.value("fail", { error: wellFormed(told) }));
  }

  /**
   * Ends the run because nobody wants it any more. A paused run can be cancelled too, unless another goes on from it.
   * Durable when it resolves.
   *
   * @throws {@link RunlogError} `wrong_status` when the run has ended or was resumed; `too_large` for a summary over 1
   * MiB.
   */
  async cancel(summary?: string): Promise<Run> {
    return await this.#ended(this.#handle.value("cancel", { summary: wellFormed(summary) }));
  }

  async #ended(ending: Promise<Run>): Promise<Run> {
    this.#run = await ending;
    return this.#run;
  }

  /** Lets go of the recorder. A run that is still `running` stays so, until the store is opened next and pauses it. */
  async close(): Promise<void> {
    this.#handle.release();
  }

  /** As {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The {@link run}, for `JSON.stringify`. */
  toJSON(): Run {
    return this.#run;
  }
}

showsItsJson(RunRecorder);

/** What records, in a run. */
type Recording = Handle<RecorderCalls> | Handle<RunContextCalls>;

/** Records what a tool gave, in a run. @internal */
export async function recordToolResult(run: Recording, outcome: ToolOutcome): Promise<Recorded> {
  const { output, ...rest } = fieldsOf(outcome, "what a tool gave");
  return await (run as Handle<RecorderCalls>).value("recordToolResult", rest, jsonBytes(outputOf(output)));
}

/** Records what tools gave for several calls, in a run. @internal */
export async function recordToolResults(run: Recording, outcomes: readonly ToolOutcome[]): Promise<Recorded> {
  const given = outcomesOf(outcomes);
  const { lengths, data } = jsonList(given.map(({ output }) => output));
  return await (run as Handle<RecorderCalls>).value("recordToolResults", { outcomes: given.map(withoutOutput), lengths }, data);
}

/** Does the work of a tool call and records what came of it, in a run. @internal */
export async function tool<T>(run: Recording, toolCallId: string, work: () => T | PromiseLike<T>): Promise<T> {
  // What isn't a function would else be recorded as a tool that failed.
  checkText(toolCallId, "the id of a tool call");
  checkFunction(work, "the work of a tool call");
  const underWay = worksOf(run);
  const before = underWay.get(toolCallId) ?? 0;
  underWay.set(toolCallId, before + 1);
  try {
    // What is done can't be taken back: a second time, or for a run that is over, it isn't begun.
    const open = await (run as Handle<RecorderCalls>).value("checkToolCall", { toolCallId });
    if (before >= open) throw new RunlogError("conflict", `the work of the tool call ${toolCallId} is being done already`);
    return await doneAndRecorded(run, toolCallId, work);
  } finally {
    const left = (underWay.get(toolCallId) ?? 1) - 1;
    if (left > 0) underWay.set(toolCallId, left);
    else underWay.delete(toolCallId);
  }
}

/** How often the work of each tool call is being done, by the handle of its run. */
const works = new WeakMap<Recording, Map<string, number>>();

function worksOf(run: Recording): Map<string, number> {
  const known = works.get(run) ?? new Map<string, number>();
  works.set(run, known);
  return known;
}

async function doneAndRecorded<T>(run: Recording, toolCallId: string, work: () => T | PromiseLike<T>): Promise<T> {
  const began = performance.now();
  const took = () => ({ toolCallId, durationMs: Math.round(performance.now() - began) });
  let output: T;
  try {
    output = await work();
  } catch (error) {
    await recordToolError(run, took(), error);
    throw error;
  }
  const given = keptOf(toolCallId, output ?? null);
  await (run as Handle<RecorderCalls>).value("recordToolResult", took(), given);
  return output;
}

/** The JSON of what a tool gave. Its work is done, and isn't to be done again. */
function keptOf(toolCallId: string, output: unknown): Uint8Array {
  try {
    return jsonBytes(outputOf(output));
  } catch (cause) {
    if (!(cause instanceof RunlogError)) throw cause;
    const what = `what the tool of the call ${toolCallId} gave can't be recorded, though its work is done; record something else by recordToolResult`;
    throw new RunlogError(cause.code, `${what}: ${cause.message}`, { cause });
  }
}

/** Records what a tool threw: with its own fields, or where these have no JSON form, as what it says. */
async function recordToolError(run: Recording, took: { toolCallId: string; durationMs: number }, error: unknown): Promise<void> {
  let output: RawJson;
  try {
    output = RawJson.from(error ?? null);
  } catch {
    const name = error instanceof Error ? { name: String(error.name) } : {};
    output = RawJson.from({ ...name, message: messageOf(error) });
  }
  await recordToolResult(run, { ...took, status: "error", output });
}

/** Records a message with what its tools gave, in a run. @internal */
export async function recordToolCall(
  run: Recording,
  message: MessageInput,
  outcomes: readonly ToolOutcome[],
): Promise<Recorded> {
  const given = outcomesOf(outcomes);
  const { lengths, data } = jsonList([messageBytes(message), ...given.map(({ output }) => output)]);
  return await (run as Handle<RecorderCalls>).value("recordToolCall", { outcomes: given.map(withoutOutput), lengths }, data);
}

function outcomesOf(outcomes: readonly ToolOutcome[]): ToolOutcome[] {
  const given = listOf(outcomes, "what the tools gave").map((outcome) => objectOf(outcome, "what a tool gave"));
  for (const { output } of given) outputOf(output);
  return given;
}

function withoutOutput({ output: _, ...outcome }: ToolOutcome): Omit<ToolOutcome, "output"> {
  return outcome;
}

/** What a tool gave. @internal */
export function outputOf(output: unknown): unknown {
  checkField("output", output);
  return output;
}
