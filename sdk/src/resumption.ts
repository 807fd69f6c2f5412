import type { ResumptionCalls } from "./generated/calls.js";
import type { ResumptionParts, StackLevel, Step } from "./generated/types.js";
import type { Handle } from "./handle.js";
import type { RawJson } from "./json.js";
import { type RequestBuffer, requestOf } from "./request.js";

/**
 * An interrupted request, and how to go on with it. Got from {@link Chats.resume}.
 *
 * @example
 * ```ts
 * const interrupted = await store.chats.resume(chat.chatId);
 * if (interrupted !== undefined) {
 *   await using request = await interrupted.goOn(); // its space and its call stack are as they were
 *   const content = await ask(interrupted.input);
 *   await request.send({ role: "assistant", type: "text", props: { content } });
 *   if (interrupted.isNested) await interrupted.complete({ content }); // its caller has the answer; above it, completeDelegate
 *   await request.finish("completed");
 * }
 * ```
 */
export class Resumption {
  /** The step that was cut off: its assistant goes on, with its input. */
  readonly step: Step;
  /** The space as it was when the step began. */
  readonly space: Record<string, unknown>;
  /** What to do with the step: start it, start it over, try it again, or go on. */
  readonly action: "start" | "restart" | "retry" | "continue";
  /** Whether an assistant called the one that goes on. */
  readonly isNested: boolean;
  /** The call stack, from the root to the node of the step. */
  readonly stack: StackLevel[];
  readonly #handle: Handle<ResumptionCalls>;

  /** @internal */
  constructor(handle: Handle<ResumptionCalls>, found: ResumptionParts) {
    this.#handle = handle;
    this.step = found.step;
    this.space = found.space as Record<string, unknown>;
    this.action = found.action;
    this.isNested = found.nested;
    this.stack = found.stack;
  }

  /** The assistant that goes on. */
  get assistantId(): string {
    return this.step.assistantId;
  }

  /** What it is given: the input of the step that was cut off. */
  get input(): Record<string, unknown> | undefined {
    return this.step.input;
  }

  /** The nodes of the call stack, the root first. */
  get stackPath(): string[] {
    return this.stack.map((level) => level.stackId);
  }

  /**
   * The buffer in which the request goes on: its space restored, its stack rebuilt, its messages there to be appended to or replaced.
   * Nothing is written at its entry, and nobody else goes on with the request until the buffer has ended.
   *
   * @throws {@link RunlogError} `conflict` when somebody else is at work on the request, or has resumed it since;
   * `not_found` when the chat was deleted meanwhile.
   */
  async goOn(): Promise<RequestBuffer> {
    return await requestOf(() => this.#handle.made("goOn"));
  }

  /**
   * Tells that the assistant has returned with an output: the step that was cut off is completed, and so is the delegate
   * step of the caller that waits for it; both or none. Says what they became, the caller's last.
   *
   * @throws {@link RunlogError} `conflict` when the step was completed meanwhile.
   */
  async complete(output: object | RawJson): Promise<Step[]> {
    return await this.#handle.value("complete", { output });
  }
}
