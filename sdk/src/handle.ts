import type { Appended, OneRecord } from "./appends.js";
import type { AppendHead } from "./batch.js";
import { type CallOptions, type Channel, type Reply, bytesOf, check, valueOf } from "./binding.js";
import { RunlogError } from "./error.js";
import { encodeArguments } from "./json.js";

/** Lets go of what nobody holds any more. */
const registry = new FinalizationRegistry<{ channel: Channel; id: number }>(({ channel, id }) => channel.release(id));

/**
 * The way from an object here to its other half in the core. It is let go when it is disposed of, or when nobody holds
 * it any more.
 *
 * @internal
 */
export class Handle {
  readonly channel: Channel;
  readonly #id: number;
  readonly #what: string;
  #open = true;

  constructor(channel: Channel, id: number | undefined, what: string) {
    if (id === undefined) throw new RunlogError("internal", `${what} without a handle; please report it`);
    this.channel = channel;
    this.#id = id;
    this.#what = what;
    registry.register(this, { channel, id }, this);
  }

  /** Whether it can still be used. */
  get isOpen(): boolean {
    return this.#open;
  }

  /** Calls a method; a failure is in the reply. */
  call(method: string, args?: object, data?: Uint8Array, options?: CallOptions): Reply | Promise<Reply> {
    return this.callText(method, args === undefined ? "" : encodeArguments(args), data, options);
  }

  /** As `call`, with arguments that are JSON text already. */
  callText(method: string, args: string, data?: Uint8Array, options?: CallOptions): Reply | Promise<Reply> {
    if (!this.#open) throw new RunlogError("closed", `${this.#what} is closed`);
    return this.channel.call(this.#id, method, args, data, options);
  }

  /** Appends packed records, which are copied before it returns. */
  append(packed: Uint8Array): Promise<Appended> {
    if (!this.#open) throw new RunlogError("closed", `${this.#what} is closed`);
    return this.channel.append(this.#id, packed);
  }

  /** As {@link append}, of one record without a key; `undefined` when it is too large for that. */
  appendRecord(stream: string, head: AppendHead, record: OneRecord): Promise<Appended> | undefined {
    if (!this.#open) throw new RunlogError("closed", `${this.#what} is closed`);
    return this.channel.appendRecord(this.#id, stream, head, record);
  }

  /** Calls a method that answers nothing. */
  async done(method: string, args?: object, data?: Uint8Array, options?: CallOptions): Promise<void> {
    check(await this.call(method, args, data, options));
  }

  /** Calls a method that answers a value. */
  async value<T>(method: string, args?: object, data?: Uint8Array, options?: CallOptions): Promise<T> {
    return valueOf<T>(await this.call(method, args, data, options));
  }

  /** Calls a method that answers contents. */
  async bytes(method: string, args?: object, data?: Uint8Array, options?: CallOptions): Promise<Uint8Array> {
    return bytesOf(await this.call(method, args, data, options));
  }

  /** Lets go of the other half. */
  release(): void {
    if (!this.#open) return;
    this.#open = false;
    registry.unregister(this);
    this.channel.release(this.#id);
  }
}
