import type { Appended, OneRecord } from "./appends.js";
import type { AppendHead } from "./batch.js";
import { type CallOptions, type Channel, type Reply, bytesOf, check, valueOf } from "./binding.js";
import { RunlogError } from "./error.js";
import { encodeArguments } from "./json.js";
import { unpackContents } from "./packed.js";
import { turnWhereDue } from "./turns.js";

/** What is known of an object by those who don't hold it. @internal */
export interface Held {
  readonly channel: Channel;
  readonly id: number;
  /** The object that it was made by, or that was made by: the store. */
  readonly store: number;
  /** What it says before it is let go of without having ended. */
  lastly: (() => void) | undefined;
}

/** Lets go of what nobody holds any more. */
const registry = new FinalizationRegistry<Held>((held) => {
  held.lastly?.();
  letGo(held);
});

function letGo(held: Held): void {
  held.channel.unfinished.delete(held);
  held.channel.release(held.id);
}

/** How calls answer: with a value, with heads and contents, with a value and contents, with an object that was made. */
type Form = "value" | "packed" | "beside" | "made";

/** The calls of an object that answer so. `Calls` is one of the tables that are generated from Rust. */
type MethodOf<Calls, As extends Form> = {
  [Method in keyof Calls]: Calls[Method] extends { [Key in As]: unknown } ? Method : never;
}[keyof Calls] &
  string;

/** What a call answers. */
type AnswerOf<Calls, Method extends keyof Calls, As extends Form> = Calls[Method] extends { [Key in As]: infer Answer }
  ? Answer
  : never;

type Beside = [data?: Uint8Array | undefined, options?: CallOptions];

/** What a call is given: its arguments, which may be left out where all of them may be, and contents. */
type Given<Calls, Method extends keyof Calls> = Calls[Method] extends { args: infer Args }
  ? Args extends undefined
    ? [args?: undefined, ...beside: Beside]
    : Record<string, never> extends Args
      ? [args?: Args | undefined, ...beside: Beside]
      : [args: Args, ...beside: Beside]
  : never;

/** An object that a call made. @internal */
export interface Made<Value> {
  /** What the call returned with it. */
  value: Value;
  /** The way to it, under the name that messages give it. */
  handle<Calls>(what: string): Handle<Calls>;
  /** Contents that came with it. */
  bytes: Uint8Array | undefined;
}

/**
 * The way from an object here to its other half in the core, whose calls are checked by the compiler. It is let go when it is
 * disposed of, or when nobody holds it any more.
 *
 * @internal
 */
export class Handle<Calls> {
  readonly channel: Channel;
  readonly #id: number;
  readonly #what: string;
  readonly #held: Held;
  #open = true;

  /** `store` is that of what made it; left out, it is one. */
  constructor(channel: Channel, id: number | undefined, what: string, store = id) {
    if (id === undefined || store === undefined) throw new RunlogError("internal", `${what} without a handle; please report it`);
    this.channel = channel;
    this.#id = id;
    this.#what = what;
    this.#held = { channel, id, store, lastly: undefined };
    registry.register(this, this.#held, this);
  }

  /**
   * What the object says before it ends with its store, or because nobody holds it any more. It is given a way to it, for it must not hold
   * this one.
   */
  lastly(say: (call: <Method extends keyof Calls & string>(method: Method, args: object) => void) => void): void {
    const { channel, id } = this.#held;
    this.#held.lastly = () => say((method, args) => void channel.call(id, method, encodeArguments(args), undefined, { idle: true }));
    channel.unfinished.add(this.#held);
  }

  /** Has everything of this store say that. */
  endAll(): void {
    for (const { store, lastly } of this.channel.unfinished) if (store === this.#id) lastly?.();
  }

  /** Whether it can still be used. */
  get isOpen(): boolean {
    return this.#open;
  }

  /** Throws when it can't be used any more. */
  check(): void {
    if (!this.#open) throw new RunlogError("closed", `${this.#what} is closed`);
  }

  /** Calls a method; a failure is in the reply. */
  call<Method extends keyof Calls & string>(method: Method, ...given: Given<Calls, Method>): Reply | Promise<Reply> {
    const [args, data, options] = given as unknown as [object | undefined, ...Beside];
    return this.callText(method, args === undefined ? "" : encodeArguments(args), data, options);
  }

  /** As `call`, with arguments that are JSON text already. */
  callText(method: keyof Calls & string, args: string, ...[data, options]: Beside): Reply | Promise<Reply> {
    this.check();
    const reply = this.channel.call(this.#id, method, args, data, options);
    if (reply instanceof Promise) return reply;
    // Who awaits what a store in memory answers at once, again and again, would never come to the event loop.
    return turnWhereDue()?.then(() => reply) ?? reply;
  }

  /** Appends packed records, which are copied before it returns. */
  append(packed: Uint8Array): Promise<Appended> {
    this.check();
    return this.channel.append(this.#id, packed);
  }

  /** As {@link append}, of one record without a key; `undefined` when it is too large for that. */
  appendRecord(stream: string, head: AppendHead, record: OneRecord): Promise<Appended> | undefined {
    this.check();
    return this.channel.appendRecord(this.#id, stream, head, record);
  }

  /** Calls a method that answers a value; `undefined` where there is none. */
  async value<Method extends MethodOf<Calls, "value">>(
    method: Method,
    ...given: Given<Calls, Method>
  ): Promise<AnswerOf<Calls, Method, "value">> {
    return valueOf(await this.call(method, ...given));
  }

  /** Calls a method that answers contents, which are read by who knows how they are packed. */
  async bytes<Method extends MethodOf<Calls, "packed">>(method: Method, ...given: Given<Calls, Method>): Promise<Uint8Array> {
    return bytesOf(await this.call(method, ...given));
  }

  /** Calls a method that answers heads, and the contents that they tell of: one after the other, `take` gives them. */
  async packed<Method extends MethodOf<Calls, "packed">>(
    method: Method,
    ...given: Given<Calls, Method>
  ): Promise<{ heads: AnswerOf<Calls, Method, "packed">; take: (length: number) => Uint8Array }> {
    return unpackContents(await this.bytes(method, ...given));
  }

  /** Calls a method that answers a value with contents beside it, if there are any. */
  async beside<Method extends MethodOf<Calls, "beside">>(
    method: Method,
    ...given: Given<Calls, Method>
  ): Promise<{ value: AnswerOf<Calls, Method, "beside">; bytes: Uint8Array | undefined }> {
    const reply = await this.call(method, ...given);
    return { value: valueOf(reply), bytes: reply.bytes };
  }

  /** Calls a method that makes an object. */
  async made<Method extends MethodOf<Calls, "made">>(
    method: Method,
    ...given: Given<Calls, Method>
  ): Promise<Made<AnswerOf<Calls, Method, "made">>> {
    const reply = check(await this.call(method, ...given));
    const handle = <Made>(what: string) => new Handle<Made>(this.channel, reply.handle, what, this.#held.store);
    return { value: valueOf(reply), handle, bytes: reply.bytes };
  }

  /** Lets go of the other half. */
  release(): void {
    if (!this.#open) return;
    this.#open = false;
    registry.unregister(this);
    letGo(this.#held);
  }
}
