import { fieldsOf } from "./checks.js";
import { RunlogError, givenError } from "./error.js";
import type { RecorderCalls } from "./generated/calls.js";
import type { Run, RunDetails } from "./generated/types.js";
import type { Handle } from "./handle.js";
import { showsItsJson } from "./inspect.js";
import { wellFormed } from "./json.js";
import type { PauseReason } from "./run-types.js";
import { RunWriter } from "./run-writer.js";

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
export class RunRecorder extends RunWriter implements AsyncDisposable {
  readonly #handle: Handle<RecorderCalls>;
  #run: Run;

  /** @internal */
  constructor(handle: Handle<RecorderCalls>, run: Run) {
    super(handle);
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
   * Describes the run: what it took, such as tokens and their cost, and anything else, as often as there is something to say,
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
    const reason = error === undefined ? "no reason was given" : givenError(error);
    return await this.#ended(this.#handle.value("fail", { error: wellFormed(reason) }));
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
