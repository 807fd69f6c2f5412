import { fieldsOf, listOf, objectOf, withOptions } from "./checks.js";
import { type Message, unpackMessages } from "./context-types.js";
import { invalid, withGivenNames, withKnownFields } from "./error.js";
import type { RecorderCalls, StoreCalls } from "./generated/calls.js";
import type {
  DanglingToolCall,
  ListRunMessages,
  ListRuns,
  ListToolCalls,
  ResumeOptions,
  Run,
  RunDetails,
  RunMessageHead,
  RunSummary,
  ToolCallHead,
} from "./generated/types.js";
import type { Handle, Made } from "./handle.js";
import { messageList } from "./json.js";
import { inPieces } from "./long-lists.js";
import { type Listing, type Page, listing } from "./pages.js";
import { RunRecorder } from "./recorder.js";
import { type NewRun, RUN_GIVEN_AS, RunMessage, ToolCall, placeOf } from "./run-types.js";
import { outputOf } from "./run-writer.js";

/** A run that goes on from a paused one. */
export interface ResumedRun {
  /** Writes the new run. */
  recorder: RunRecorder;
  /** The new run. */
  run: Run;
  /** What to send to the model: the context as it was, closed calls and the message included, as values. */
  messages: Record<string, unknown>[];
  /** The same messages, each byte for byte. */
  rawMessages: Message[];
  /** The tool calls that had no result. */
  dangling: DanglingToolCall[];
  /**
   * How many of the last states of its flow couldn't be read, because one that they differ from was redacted, lost or replaced:
   * the flow goes on from an older one, and nodes that had ended since may be run again. 0 for a run without a flow.
   */
  unreadableStates: number;
}

/**
 * The runs of a store. Got from {@link Store.runs}.
 *
 * A run is owned by the process that runs it. When a process dies, its runs are found when the store is opened next, and
 * become `paused`, with their recorded work intact.
 *
 * @example
 * ```ts
 * const run = await store.runs.start({ session: { title: "Fix the parser" }, agentName: "coder", maxSteps: 50 });
 * await run.nextStep();
 * await run.recordMessage({ role: "assistant", content: "I'll write a test first." }); // durable when it resolves
 *
 * // In the next process, after a crash:
 * const { items: [last] } = await store.runs.list({ agentName: "coder", limit: 1 });
 * if (last?.status === "paused") {
 *   const { recorder, messages } = await store.runs.resume(last.id);
 *   await work(recorder, messages);
 * }
 * ```
 */
export class Runs {
  readonly #handle: Handle<StoreCalls>;

  /** @internal */
  constructor(handle: Handle<StoreCalls>) {
    this.#handle = handle;
  }

  /**
   * Starts a run, and what it is to be started in, as one batch. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when the instance, session or parent run isn't there; `already_exists` when an
   * id or name is taken; `invalid_input`, `too_large` for a field that is refused.
   */
  async start(run: NewRun): Promise<RunRecorder> {
    this.#handle.check();
    const { place, rest } = placeOf(run);
    const { messages = [], ...others } = rest;
    const { lengths, data } = messageList(messages);
    const started = this.#handle.made("startRun", { new: { ...others, place }, lengths }, data);
    return recorderOf(await withKnownFields({ also: ["messages"] }, withGivenNames(RUN_GIVEN_AS, started)));
  }

  /**
   * Resumes a run that is paused, or with `ended: true` one that is over: its context is rebuilt, tool calls that were cut off are closed, a message tells the agent to
   * continue, and a new run goes on in the same context, counting steps from where the old one was, with a fresh budget.
   * All of it is one batch. Durable when it resolves.
   *
   * @throws {@link RunlogError} `wrong_status` when the run isn't paused (nor over, with `ended`), or was resumed already; `limit_reached` when the
   * cumulative steps have reached their maximum; `conflict` when another run has written to the context since;
   * `not_found`.
   */
  async resume(runId: string, options: ResumeOptions = {}): Promise<ResumedRun> {
    const made = await this.#handle.made("resumeRun", { runId, options: givenResume(options) });
    const { run, dangling, unreadableStates } = made.value;
    const recorder = new RunRecorder(made.handle<RecorderCalls>("the run's recorder"), run);
    const rawMessages = await unpackMessages(made.bytes ?? new Uint8Array());
    return {
      recorder,
      run,
      messages: await inPieces(rawMessages, ({ bytes }) => bytes.length, (message) => message.value<Record<string, unknown>>()),
      rawMessages,
      dangling,
      unreadableStates,
    };
  }

  /**
   * Writes on with a run, from where it is. It may have ended: writes are then refused.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run.
   */
  async recorder(runId: string): Promise<RunRecorder> {
    return recorderOf(await this.#handle.made("recorder", { runId }));
  }

  /**
   * Says of a run what it took and anything else, as {@link RunRecorder.describe} does: also of one that is over, or that
   * somebody else records.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run; else as {@link RunRecorder.describe}.
   */
  async describe(runId: string, details: RunDetails): Promise<Run> {
    return await this.#handle.value("describeRun", { runId, details });
  }

  /** Pauses the runs that a process which is gone left running, and says which they were. Opening for writing has done it. */
  async recover(): Promise<string[]> {
    return await this.#handle.value("recoverRuns");
  }

  /**
   * One page of runs, newest first. It costs the page, however many runs there are.
   *
   * @throws {@link RunlogError} `invalid_input` for a limit of 0, or a cursor of another list.
   */
  list(options: ListRuns = {}): Listing<RunSummary> {
    return listing((asked) => this.#handle.value("listRuns", asked), options);
  }

  /**
   * The runs that a run spawned, newest first, in pages.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run; else as {@link list}.
   */
  children(runId: string, options: { limit?: number | undefined; cursor?: string | undefined } = {}): Listing<RunSummary> {
    return listing(async (asked) => {
      const listed = this.#handle.value("childRuns", withOptions({ runId }, asked, "the options"));
      return await withKnownFields({ not: ["runId"] }, listed);
    }, options);
  }

  /** The whole of a run; `undefined` when there is none of that id. */
  async get(runId: string): Promise<Run | undefined> {
    return await this.#handle.value("getRun", { runId });
  }

  /**
   * One page of a run's messages, in the order they were recorded, which is that of its steps.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run; `invalid_input` for a limit of 0, or a cursor of
   * another list.
   */
  messages(runId: string, options: ListRunMessages = {}): Listing<RunMessage> {
    return listing(async (asked) => messagesOf(await this.#handle.packed("runMessages", { runId, options: asked })), options);
  }

  /**
   * One message of a run, by its id.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run.
   */
  async message(runId: string, messageId: number): Promise<RunMessage | undefined> {
    return messagesOf(await this.#handle.packed("runMessage", { runId, messageId })).items[0];
  }

  /**
   * One page of a run's tool calls, in the order they were made, which is that of its steps.
   *
   * @throws {@link RunlogError} as {@link messages}.
   */
  toolCalls(runId: string, options: ListToolCalls = {}): Listing<ToolCall> {
    return listing(async (asked) => toolCallsOf(await this.#handle.packed("toolCalls", { runId, options: asked })), options);
  }

  /**
   * One tool call of a run, by its id, with its whole input and output.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run.
   */
  async toolCall(runId: string, callId: number): Promise<ToolCall | undefined> {
    return toolCallsOf(await this.#handle.packed("toolCall", { runId, callId })).items[0];
  }
}

function recorderOf(made: Made<Run>): RunRecorder {
  return new RunRecorder(made.handle<RecorderCalls>("the run's recorder"), made.value);
}

/** A page of heads, and the contents that they tell of. */
interface Packed<Head> {
  heads: Page<Head>;
  take: (length: number) => Uint8Array;
}

function messagesOf({ heads, take }: Packed<RunMessageHead>): Page<RunMessage> {
  return { ...heads, items: heads.items.map((head) => new RunMessage(head, take(head.length))) };
}

function toolCallsOf({ heads, take }: Packed<ToolCallHead>): Page<ToolCall> {
  const items = heads.items.map((head) => {
    const input = take(head.inputLength);
    return new ToolCall(head, input, head.outputLength === undefined ? undefined : take(head.outputLength));
  });
  return { ...heads, items };
}

/** How to resume, once what JSON would lose of it is refused. @internal */
export function givenResume<T extends ResumeOptions>(options: T): T {
  const { dangling, message } = fieldsOf(options, "how to resume");
  if (typeof dangling === "object" && dangling !== null && "answer" in dangling) {
    for (const outcome of listOf(dangling.answer, "what the tools gave")) {
      outputOf(objectOf(outcome, "what a tool gave").output);
    }
  }
  if (message === "") throw invalid("`message` is empty, which providers refuse in a context; give null for none, or leave it out: the agent is told to go on then");
  if (typeof message === "object" && message !== null && "role" in message) {
    throw invalid("`message` is the content of the user's message: text, or its parts; a whole message was given");
  }
  return options;
}
