import { classOf } from "./checks.js";
import { RawJson } from "./json.js";

/** What stands in a message's text for a half whose other half hasn't come. */
const REPLACEMENT = "\ufffd";

/** Of messages whose text ends with half a surrogate pair so far, that half: UTF-8 has no form for it. @internal */
export class Halves {
  /** The half, or what the message has in its place already. */
  readonly #of = new Map<string, string>();

  /** What a handle says lastly: {@link replace}. Made here, where nothing of the request is in reach: that could never be collected. */
  lastly(): (call: (method: "append", args: { messageId: string; value: string }) => void) => void {
    return (call) => this.replace((args) => call("append", args));
  }

  /** The half with which a message's text ends. */
  of(messageId: string): string | undefined {
    const half = this.#of.get(messageId);
    return half === REPLACEMENT ? undefined : half;
  }

  /** Text that follows, with the half that waits for it and without the one that waits in turn; `undo` takes that back. */
  joined(messageId: string, text: string): { value: string; undo: () => void } {
    const before = this.#of.get(messageId);
    if (text === "") return { value: "", undo: () => {} };
    const rest = before === REPLACEMENT && isLow(text.charCodeAt(0)) ? text.slice(1) : text;
    const whole = (before === REPLACEMENT ? "" : (before ?? "")) + rest;
    const half = halfAtEnd(whole);
    return { value: (half === undefined ? whole : whole.slice(0, -1)).toWellFormed(), undo: this.put(messageId, half) };
  }

  /** Keeps the half with which the text of a message ends, or none; what it gives takes that back, unless more has come since. */
  put(messageId: string, half: string | undefined): () => void {
    const before = this.#of.get(messageId);
    if (half === undefined && before === undefined) return () => {};
    this.#set(messageId, half);
    return () => {
      if (this.#of.get(messageId) === half) this.#set(messageId, before);
    };
  }

  #set(messageId: string, half: string | undefined): void {
    if (half === undefined) this.#of.delete(messageId);
    else this.#of.set(messageId, half);
  }

  /**
   * Has `append` put what stands for them to the messages whose other halves haven't come, for the request ends. Where it goes on, because
   * that was refused, a half that comes nevertheless is left out: the message says already that a character is missing.
   */
  replace(append: (args: { messageId: string; value: string }) => void): void {
    for (const [messageId, half] of this.#of) {
      if (half === REPLACEMENT) continue;
      this.#of.set(messageId, REPLACEMENT);
      append({ messageId, value: REPLACEMENT });
    }
  }
}

function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

function halfAtEnd(text: string): string | undefined {
  const unit = text.charCodeAt(text.length - 1);
  return unit >= 0xd800 && unit <= 0xdbff ? text.slice(-1) : undefined;
}

/** Properties whose `content` is appended to: half a surrogate pair at its end waits for the other half. @internal */
export function withoutHalf<Props>(props: Props): { whole: Props; half: string | undefined } {
  let half: string | undefined;
  const whole = changed(props, (fields) => {
    const { content } = fields;
    if (typeof content !== "string") return;
    half = halfAtEnd(content);
    if (half !== undefined) fields["content"] = content.slice(0, -1);
  });
  return { whole, half };
}

/**
 * An object whose fields, as JSON has them, are changed in a copy. Each is read once: what is looked at here is what is written. What has
 * no fields to change, or keeps its own text, is as it was given.
 *
 * @internal
 */
export function changed<T>(given: T, change: (fields: Record<string, unknown>) => void): T {
  if (typeof given !== "object" || given === null || given instanceof RawJson) return given;
  const { toJSON } = given as { toJSON?: unknown };
  const form: unknown = typeof toJSON === "function" ? toJSON.call(given, "") : given;
  let whole = form;
  if (typeof form === "object" && form !== null && !(form instanceof Error) && classOf(form) === "Object") {
    const fields = { ...form } as Record<string, unknown>;
    change(fields);
    whole = fields;
  }
  // What it says in JSON is written as that: it may have in it what is refused elsewhere.
  return (typeof toJSON === "function" ? { toJSON: () => whole } : whole) as T;
}
