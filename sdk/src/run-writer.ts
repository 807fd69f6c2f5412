import type { MessageInput } from "./context-types.js";
import { checkFunction, checkText, fieldsOf, listOf, objectOf } from "./checks.js";
import { RunlogError, messageOf } from "./error.js";
import type { RecorderCalls, RunContextCalls } from "./generated/calls.js";
import type { AppendOptions, Recorded } from "./generated/types.js";
import type { Handle } from "./handle.js";
import { RawJson, checkField, jsonBytes, jsonList, messageBytes } from "./json.js";
import type { ToolOutcome } from "./run-types.js";

/** The calls that record messages and what tools gave, which a recorder has and an agent's function. */
type Recording = Handle<Pick<RecorderCalls & RunContextCalls, "recordMessage" | "recordMessages" | "checkToolCall" | "recordToolResult" | "recordToolResults" | "recordToolCall">>;

/** Records the messages of a run and what its tools gave: what a {@link RunRecorder} and a {@link RunContext} both do. */
export abstract class RunWriter {
  readonly #handle: Recording;
  /** How often the work of each tool call is being done. */
  readonly #underWay = new Map<string, number>();

  /** @internal */
  constructor(handle: Recording) {
    this.#handle = handle;
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
   * Records several messages as one batch, and one flush, all or none of them: the items of one answer of OpenAI's Responses, of which
   * none is to be there without those behind it. Resolves to the first one's id and sequence, with the last one's.
   *
   * @example
   * ```ts
   * await run.recordMessages([
   *   { type: "reasoning", id: "rs_1", summary: [] },
   *   { type: "function_call", call_id: "call_1", name: "ls", arguments: "{}" },
   * ]);
   * ```
   *
   * @throws {@link RunlogError} as {@link recordMessage}, for the first of them that is refused where it stands; `invalid_input` when there
   * is none.
   */
  async recordMessages(messages: readonly MessageInput[], options?: AppendOptions): Promise<Recorded> {
    const { lengths, data } = jsonList(listOf(messages, "messages").map((message) => messageBytes(message as MessageInput)));
    return await this.#handle.value("recordMessages", { lengths, ...(options !== undefined && { options }) }, data);
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
    const { output, ...rest } = fieldsOf(outcome, "what a tool gave");
    return await this.#handle.value("recordToolResult", rest, jsonBytes(outputOf(output)));
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
    const given = outcomesOf(outcomes);
    const { lengths, data } = jsonList(given.map(({ output }) => output));
    return await this.#handle.value("recordToolResults", { outcomes: given.map(withoutOutput), lengths }, data);
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
    // What isn't a function would else be recorded as a tool that failed.
    checkText(toolCallId, "the id of a tool call");
    checkFunction(work, "the work of a tool call");
    const before = this.#underWay.get(toolCallId) ?? 0;
    this.#underWay.set(toolCallId, before + 1);
    try {
      // What is done can't be taken back: a second time, or for a run that is over, it isn't begun.
      const open = await this.#handle.value("checkToolCall", { toolCallId });
      if (before >= open) throw new RunlogError("conflict", `the work of the tool call ${toolCallId} is being done already`);
      return await this.#doneAndRecorded(toolCallId, work);
    } finally {
      const left = (this.#underWay.get(toolCallId) ?? 1) - 1;
      if (left > 0) this.#underWay.set(toolCallId, left);
      else this.#underWay.delete(toolCallId);
    }
  }

  async #doneAndRecorded<T>(toolCallId: string, work: () => T | PromiseLike<T>): Promise<T> {
    const began = performance.now();
    const took = () => ({ toolCallId, durationMs: Math.round(performance.now() - began) });
    let output: T;
    try {
      output = await work();
    } catch (error) {
      await this.recordToolResult({ ...took(), status: "error", output: thrown(error) });
      throw error;
    }
    const given = keptOf(toolCallId, output ?? null);
    await this.#handle.value("recordToolResult", took(), given);
    return output;
  }

  /**
   * Records the assistant message that asked for tool calls together with what the tools gave: message, calls, results
   * and the step as one batch, and one flush.
   *
   * @throws {@link RunlogError} as {@link recordMessage}; `invalid_input` when an outcome answers no call of the message.
   */
  async recordToolCall(message: MessageInput, outcomes: readonly ToolOutcome[]): Promise<Recorded> {
    const given = outcomesOf(outcomes);
    const { lengths, data } = jsonList([messageBytes(message), ...given.map(({ output }) => output)]);
    return await this.#handle.value("recordToolCall", { outcomes: given.map(withoutOutput), lengths }, data);
  }
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

/** What a tool threw: its own fields, or where these have no JSON form, what it says. */
function thrown(error: unknown): RawJson {
  try {
    return RawJson.from(error ?? null);
  } catch {
    const name = error instanceof Error ? { name: String(error.name) } : {};
    return RawJson.from({ ...name, message: messageOf(error) });
  }
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
