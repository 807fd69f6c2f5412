import type { NewChatMessage } from "./chat-types.js";
import type { RequestCalls, SpaceCalls } from "./generated/calls.js";
import type { DelegateOptions, RequestDetails, RequestPlace, StepType } from "./generated/types.js";
import type { Handle, Made } from "./handle.js";
import { checkText, fieldsOf, readable, refuseGetters, shown } from "./checks.js";
import { RunlogError, givenError, invalid } from "./error.js";
import { beginning, requestBegan, requestEnded, untilExit } from "./exits.js";
import { Halves, changed, withoutHalf } from "./halves.js";
import { type RawJson, jsonBytes } from "./json.js";
import { newUuid } from "./uuid.js";

/** How a request ended, which decides what becomes of the step that was under way. */
export type RequestEnd = "completed" | "interrupted" | RequestFailed;

/** A request ended with an error. */
export interface RequestFailed {
  /** The error, or what it says; the step under way keeps it, or one made for it where there is none. */
  failed: unknown;
}

/**
 * A request under way: the user's message was written at its entry, everything else is written as one atomic batch at
 * its exit. In between all is in memory, and lost if the process crashes, but for what was {@link flush | flushed}.
 *
 * The exit is {@link finish}, or {@link close} or the end of its `await using`: then the step under way is `interrupted`,
 * also where an exception ends it; {@link Chats.withRequest} says `failed` then. One that nobody holds any more is written as
 * interrupted too: when it is collected, when its store is closed, when the process ends, also by SIGTERM, SIGINT or SIGHUP
 * where the program has no listener of its own for it; what it is asked for meanwhile doesn't settle any more. A worker thread gets no signals.
 */
export class RequestBuffer implements AsyncDisposable {
  /** What the assistants of the request share; it is saved with every step. */
  readonly space: Space;
  readonly #handle: Handle<RequestCalls>;
  readonly #value: Handle<RequestCalls>["value"];
  #place: RequestPlace;
  /** Whether its exit is written. */
  #isWritten = false;
  /** The exits that are being written: one, and those that are called beside it, which are refused. */
  readonly #ending = new Set<Promise<void>>();
  /** Whether a signal that ends the process has ended it. */
  #endsWithProcess = false;
  readonly #halves = new Halves();

  /** @internal */
  constructor(handle: Handle<RequestCalls>, place: RequestPlace) {
    this.#handle = handle;
    this.#value = (method, ...given) => this.#answered(handle.value(method, ...given));
    this.#place = place;
    this.space = new Space({ value: this.#value });
    handle.lastly(this.#halves.lastly());
    requestBegan(this, () => {
      this.#endsWithProcess = true;
      return this.#close();
    });
  }

  /** The answer to who goes on with the request; not once a signal ends the process: they wait for that. */
  async #answered<T>(work: Promise<T>): Promise<T> {
    try {
      const answer = await work;
      if (this.#endsWithProcess) await untilExit();
      return answer;
    } catch (error) {
      if (this.#endsWithProcess) await untilExit();
      throw error;
    }
  }

  /** The chat. */
  get chatId(): string {
    return this.#place.chatId;
  }

  /** The request. */
  get requestId(): string {
    return this.#place.requestId;
  }

  /** Whether its exit is written, or being written. */
  get hasEnded(): boolean {
    return this.#isWritten || this.#ending.size > 0;
  }

  /** The node of the call stack that is at work. */
  get stackId(): string {
    return this.#place.stackId;
  }

  /** The assistant that is at work. */
  get assistantId(): string {
    return this.#place.assistantId;
  }

  /**
   * Adds a message, and says its id. Chat, request and assistant are filled in where they are left out.
   *
   * @throws {@link RunlogError} `already_exists` for an id that the request, its chat or another chat has already; `invalid_input`,
   * `too_large` for what can't be saved.
   */
  async send(message: NewChatMessage): Promise<string> {
    let undo: (() => void) | undefined;
    const whole = readable("the message", () => {
      if (typeof message === "object" && message !== null) refuseGetters(message, "what is given");
      return changed(message, (fields) => {
        const { whole: props, half } = withoutHalf(fields["props"]);
        fields["props"] = props;
        // What is appended without waiting for the answer follows it, and so does what stands for the half at the end.
        if (half !== undefined) fields["messageId"] ??= newUuid();
        const id = fields["messageId"];
        if (typeof id === "string") undo = this.#halves.put(id, half ?? this.#halves.of(id));
      });
    });
    try {
      return await this.#value("send", whole);
    } catch (error) {
      undo?.();
      throw error;
    }
  }

  /**
   * Says more of the request: the run that does its work, what it took in tokens and cost, or anything else. It is written at
   * the exit, however that is, and given by {@link Chats.getRequest}; what is said twice counts as it was said last.
   *
   * @example
   * ```ts
   * await request.describe({ usage: { inputTokens: 812, outputTokens: 97, cost: 0.0041 }, runId: run.id });
   * ```
   *
   * @throws {@link RunlogError} `invalid_input` when the usage isn't an object; `too_large` for more than 64 KiB of it or of
   * metadata.
   */
  async describe(details: RequestDetails): Promise<void> {
    await this.#value("describe", details);
  }

  /**
   * Appends text to the `content` of a message of this request, also of one that it sent before it was cut off and
   * {@link Resumption.goOn | gone on with}. Text may come in pieces of any size: half a surrogate pair at its end waits for the other half. Of a message that was flushed only that text is written; if others changed its `content` since, the whole message is, over
   * what they changed. Of one that was deleted since, nothing is.
   *
   * @throws {@link RunlogError} `not_found` when the request has no such message; `invalid_input` when its content
   * isn't text; `too_large`.
   */
  async append(messageId: string, text: string): Promise<void> {
    checkText(text, "what is appended");
    const { value, undo } = this.#halves.joined(messageId, text);
    try {
      await this.#value("append", { messageId, value });
    } catch (error) {
      undo();
      throw error;
    }
  }

  /**
   * Replaces a message's properties, and its type where one is given: what was loading becomes the text that came.
   *
   * @example
   * ```ts
   * const waiting = await request.send({ role: "assistant", type: "loading", props: { message: "…" } });
   * await request.replace(waiting, { content: "By train?" }, "text");
   * ```
   *
   * @throws {@link RunlogError} `not_found` when the request has no such message; `invalid_input`, `too_large` for what
   * can't be saved.
   */
  async replace(messageId: string, props: object | RawJson, type?: string): Promise<void> {
    const { whole, half } = readable("what the message becomes", () => withoutHalf(props));
    const undo = this.#halves.put(messageId, half);
    try {
      await this.#value("replace", { messageId, value: whole, type });
    } catch (error) {
      undo();
      throw error;
    }
  }

  /**
   * Begins a step of the assistant at work, or of another node's, with a snapshot of the space, and says the step's id.
   *
   * @param stackId - The node whose step it is, such as one of {@link delegate}; left out, the one at work.
   * @throws {@link RunlogError} `invalid_input` when the input isn't an object; `too_large` when it can't be saved;
   * `not_found` when the request has no such node.
   */
  async startStep(type: StepType, input: object | RawJson, stackId?: string): Promise<string> {
    return await this.#value("startStep", { type, input, stackId });
  }

  /**
   * Completes a step, with what came of it.
   *
   * @throws {@link RunlogError} `not_found` when the request has no such step; `invalid_input` when the output isn't an
   * object, or the step has ended already; `too_large`.
   */
  async completeStep(stepId: string, output?: object | RawJson): Promise<void> {
    await this.#value("completeStep", { stepId, output });
  }

  /**
   * Ends a step as failed, and says why.
   *
   * @throws {@link RunlogError} as {@link completeStep}.
   */
  async failStep(stepId: string, error: unknown): Promise<void> {
    await this.#value("failStep", { stepId, error: givenError(error) });
  }

  /**
   * Calls another assistant: what follows is done by it, one level deeper in the stack. Says the node's id.
   *
   * @throws {@link RunlogError} `too_large` when the stack is deeper than 1,024.
   */
  async enter(assistantId: string, stackId?: string): Promise<string> {
    const entered = this.#handle.value("enter", { assistantId, stackId });
    return (await this.#answered(this.#moved(entered))).stackId;
  }

  /**
   * Calls another assistant beside whatever else goes on: the assistant at work stays at work, and what the other one does is
   * recorded with the node's id. So several can be called at once. Says the node's id.
   *
   * The step of type `delegate` that waits for this node is the one that is named (`stepId`), else the last one that the caller has
   * begun and that has no node yet. Name it where several call at once.
   *
   * @example
   * ```ts
   * const ask = async (question: string): Promise<void> => {
   *   const stepId = await request.startStep("delegate", { agent_id: "scout", question });
   *   const scout = await request.delegate("scout", { stepId });
   *   const step = await request.startStep("llm", { question }, scout);
   *   await request.completeStep(step, { content: "By train" });
   *   await request.completeStep(stepId, { response: "By train" });
   * };
   * await Promise.all([ask("Oslo?"), ask("Bergen?")]);
   * ```
   *
   * @throws {@link RunlogError} `not_found` when the request has no node `from`, or no such step; `invalid_input` when the step isn't a
   * delegate step of that node that runs and has no node yet; `already_exists` when another node has the id; `too_large`
   * when the stack is deeper than 1,024.
   */
  async delegate(assistantId: string, options: DelegateOptions = {}): Promise<string> {
    return await this.#value("delegate", { assistantId, options });
  }

  /**
   * Returns to the assistant that called.
   *
   * @throws {@link RunlogError} `invalid_input` at the root.
   */
  async leave(): Promise<void> {
    await this.#answered(this.#moved(this.#handle.value("leave")));
  }

  /** Where the request is, as soon as that is told. */
  async #moved(to: Promise<RequestPlace>): Promise<RequestPlace> {
    this.#place = await to;
    return this.#place;
  }

  /**
   * Writes what the request has gathered so far as one atomic batch, steps under way as `running`: a crash then loses no more
   * than what comes after. The exit writes the rest. What is flushed takes no room in the request any more, so that one that
   * gathers more than fits a batch is written in parts. Durable when it resolves; with nothing new it does nothing. After
   * an error it can be called again; what is gathered is written once. Of a message that grew since only what was appended is
   * written: a flush for each piece of an answer costs a record, about 200 bytes beside the text, and what the storage takes to be durable. The exit
   * writes such a message once more, whole, for those who search the log.
   *
   * @example
   * ```ts
   * for (const question of questions) {
   *   const step = await request.startStep("llm", { question });
   *   await request.flush(); // with the answers before it: after a crash the request goes on from this step
   *   await request.completeStep(step, { answer: await ask(question) });
   * }
   * ```
   *
   * @throws {@link RunlogError} `not_found` when the chat was deleted meanwhile; `already_exists` when a message that was sent
   * has an id that is taken by now: nothing is written then, and the next call writes the message with a fresh id, which the error
   * tells; `invalid_input` when the request has ended; else those of the storage.
   */
  async flush(): Promise<void> {
    await this.#value("flush");
  }

  /**
   * Writes all messages and steps as one atomic batch, with the final status of the steps under way; a delegate step that
   * waits for one under way stays `running`. Of a request that was resumed, the step that had been cut off ends with it where no other
   * was begun since. Else that step stays `failed`, or is `interrupted`, and so are earlier attempts at it; where the request is
   * completed, they aren't resumed any more. Its output is that of {@link Resumption.complete}, before or after. Durable when it resolves. After an error it can be called again; whatever
   * happens, it is written once.
   *
   * @throws {@link RunlogError} `not_found` when the chat was deleted meanwhile; `already_exists` when a message that was
   * sent has an id that is taken by now: nothing is written then, and the next call writes the message with a fresh id, which the
   * error tells; `invalid_input` when it was written already; else those of the storage.
   */
  async finish(end: RequestEnd): Promise<void> {
    await this.#answered(this.#end(endOf(end)));
  }

  async #end(end: ReturnType<typeof endOf>): Promise<void> {
    const ending = this.#write(end);
    this.#ending.add(ending);
    try {
      await ending;
      this.#isWritten = true;
      requestEnded(this);
    } finally {
      this.#ending.delete(ending);
    }
  }

  async #write(end: ReturnType<typeof endOf>): Promise<void> {
    // What became of such a message meanwhile matters more than half a character. All are called at once, in the order of the calls.
    const halves: Promise<unknown>[] = [];
    this.#halves.replace((args) => halves.push(this.#handle.value("append", args).catch(() => {})));
    await Promise.all([...halves, this.#handle.value("finish", { end })]);
  }

  /**
   * Writes the request as interrupted, unless it has ended, also by the end of its store, and lets go of it. After an error it has what it
   * had, and can be closed or finished again; if nobody does, it is written when its store is closed, or it is collected. Of a chat that was
   * deleted meanwhile nothing can be written: restore it first to keep what the request has.
   *
   * @throws {@link RunlogError} those of the storage, such as `storage_full`.
   */
  async close(): Promise<void> {
    await this.#answered(this.#close());
  }

  async #close(): Promise<void> {
    if (!this.#handle.isOpen) return;
    try {
      // An end that is being written stands, unless it fails.
      while (this.#ending.size > 0) await Promise.allSettled(this.#ending);
      if (!this.#isWritten) await this.#interrupt();
    } catch (error) {
      // A store that is closed writes its requests as interrupted. Whoever lets go of a request whose chat is gone has nothing to do about it.
      if (!(error instanceof RunlogError && (error.code === "closed" || error.code === "not_found"))) throw error;
    }
    this.#handle.release();
    requestEnded(this);
  }

  async #interrupt(): Promise<void> {
    try {
      await this.#end("interrupted");
    } catch (error) {
      // Refused because a message's id is taken by now, it is written with a fresh one at the second try.
      if (!(error instanceof RunlogError && error.code === "already_exists")) throw error;
      await this.#end("interrupted");
    }
  }

  /** As {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** How a request ended, with what an error says. */
function endOf(end: RequestEnd): "completed" | "interrupted" | { failed: string } {
  if (typeof end !== "object" || end === null) {
    if (end === "completed" || end === "interrupted") return end;
    throw invalid(`a request ended as "completed", "interrupted" or { failed: error }; ${shown(end)} is not known`);
  }
  const { failed, ...rest } = fieldsOf(end, "how a request ended");
  const [other] = Object.keys(rest);
  if (other !== undefined) throw invalid(`a request ended as "completed", "interrupted" or { failed: error }; ${shown(other)} is not known`);
  if (failed === undefined) throw invalid("a request that failed ended as { failed: error }, and no error was given");
  return { failed: givenError(failed) };
}

/** What the assistants of a request share: values by key, kept as JSON. Got from {@link RequestBuffer.space}. */
export class Space {
  readonly #handle: Pick<Handle<SpaceCalls>, "value">;

  /** @internal */
  constructor(handle: Pick<Handle<never>, "value">) {
    // Every object with a space also answers the calls of `SpaceCalls`.
    this.#handle = handle as unknown as Pick<Handle<SpaceCalls>, "value">;
  }

  /** The value of a key; `undefined` when there is none, or it is `null`: {@link keys} and {@link snapshot} tell these apart. */
  async get<T = unknown>(key: string): Promise<T | undefined> {
    return (await this.#handle.value("spaceGet", { key })) as T | undefined;
  }

  /**
   * Gives a key a value; `undefined` is kept as `null`.
   *
   * @throws {@link RunlogError} `invalid_input` when the value has no JSON form; `too_large` when the space of a tree of runs would
   * have more than 16 MiB.
   */
  async set(key: string, value: unknown): Promise<void> {
    await this.#handle.value("spaceSet", { key, value: value ?? null });
  }

  /** Takes the value of a key out. */
  async getAndDelete<T = unknown>(key: string): Promise<T | undefined> {
    return (await this.#handle.value("spaceGetAndDelete", { key })) as T | undefined;
  }

  /** All keys and values. */
  async snapshot(): Promise<Record<string, unknown>> {
    return (await this.#handle.value("spaceSnapshot")) as Record<string, unknown>;
  }

  /**
   * Sets the keys of a snapshot; others stay as they are.
   *
   * @throws {@link RunlogError} `invalid_input` when it isn't a JSON object. Nothing is set then.
   */
  async restore(snapshot: object | RawJson): Promise<void> {
    await this.#handle.value("spaceRestore", undefined, jsonBytes(snapshot));
  }

  /** The keys. */
  async keys(): Promise<string[]> {
    return await this.#handle.value("spaceKeys");
  }
}

/** The request of a reply. @internal */
export async function requestOf(begin: () => Promise<Made<RequestPlace>>): Promise<RequestBuffer> {
  return await beginning(async () => {
    const { value, handle } = await begin();
    return new RequestBuffer(handle("the request"), value);
  });
}
