import type { Held } from "./handle.js";
import {
  type Appended,
  AppendQueue,
  Awaited,
  type OneRecord,
  type Resolve,
  eachOutcome,
  roomOfOne,
} from "./appends.js";
import type { AppendHead } from "./batch.js";
import { type Failure, RunlogError, abortedError, errorOf, throwIfAborted } from "./error.js";
import type { AgentDefinition, Run } from "./generated/types.js";
import { whenAborted } from "./signals.js";

/** A number, text, bytes, or nothing. */
export type Part = number | string | Uint8Array | null | undefined;

/**
 * What carries calls to the core: a Node addon, or WebAssembly in a worker. Everything above it is the same.
 *
 * @internal
 */
export interface Binding {
  /**
   * Calls a method of the object with this handle: the ticket under which the answer comes, or the answer itself, as
   * `[ok, handle, json, bytes]`. `data` is read before it returns.
   */
  call(handle: number, method: string, args: string, data?: Uint8Array): number | Part[];
  /**
   * Appends many batches, each for itself, packed one after the other. Appends have tickets of their own: that of the
   * first, those of the others follow it; after it what is answered already, as {@link onReplies} tells it. `count` says how
   * many they are, for whoever hands them on to another thread.
   */
  append(packed: Uint8Array, count: number): Part[];
  /** Sets who is called with answers that came: `[ticket, ok, handle, json, bytes, …]`. */
  onReplies(listener: (parts: Part[]) => void): void;
  /** Sets who is called, once, when the core is gone, and with it whatever would have been answered; why. */
  onEnded(listener: (why: string) => void): void;
  /** Gives up waiting for an answer; whether there was one to wait for. A write can't be given up. */
  cancel(ticket: number): boolean;
  /** Forgets an object. */
  release(handle: number): void;
  /** Whether there is something to do that nobody awaits. */
  isBusy(): boolean;
  /** Keeps the process alive, or lets it end. */
  keepAlive(on: boolean): void;
}

/** What JavaScript is asked to do, in a reply under ticket 0. */
type Ask =
  | { ask: "sleep"; timer: number; ms: number }
  | { ask: "forget"; timer: number }
  | ({ ask: "execute"; orchestrator: number } & Execution);

/** An agent's work, as it is asked for. @internal */
export interface Execution {
  run: Run;
  definition: AgentDefinition;
  task: string;
  depth: number;
}

/** Does an agent's work, with the handle of its run. @internal */
export type Executor = (work: Execution, handle: number) => void;

/** What a call answered, or how it failed. @internal */
export interface Reply {
  readonly handle: number | undefined;
  readonly json: string | undefined;
  readonly bytes: Uint8Array | undefined;
  readonly failure: string | undefined;
}

/** How a call waits. @internal */
export interface CallOptions {
  /** Gives up waiting. */
  signal?: AbortSignal | undefined;
  /** Whether the process stays alive for it; it does by default. */
  idle?: boolean;
}

interface Waiting {
  resolve(reply: Reply): void;
  idle: boolean;
}

/** Calls over a binding, as promises. @internal */
export class Channel {
  readonly #binding: Binding;
  readonly #waiting = new Map<number, Waiting>();
  readonly #queue = new AppendQueue();
  #queued: Resolve[] = [];
  readonly #appending = new Awaited();
  /** How many calls keep the process alive. */
  #alive = 0;
  #isAlive = false;
  readonly #timers = new Map<number, ReturnType<typeof setTimeout>>();
  readonly #executors = new Map<number, Executor>();
  /** What has something to say before it ends with its store. */
  readonly unfinished = new Set<Held>();

  constructor(binding: Binding) {
    this.#binding = binding;
    binding.onReplies((parts) => this.#receive(parts, 0));
    binding.onEnded((why) => this.#end({ code: "outcome_unknown", message: why }));
  }

  /**
   * Calls a method. A failure is in the reply, not thrown, so that the error is made by the function that awaits it and
   * its stack names who called that.
   */
  call(handle: number, method: string, args = "", data?: Uint8Array, options?: CallOptions): Reply | Promise<Reply> {
    throwIfAborted(options?.signal);
    this.#flush();
    let started: number | Part[];
    try {
      started = this.#binding.call(handle, method, args, data);
    } catch (cause) {
      throw faultOf(cause);
    }
    if (typeof started !== "number") {
      // What was answered at once may have left work behind: the end of an agent's function goes on in the core.
      if (this.#executors.size > 0) this.#keepAlive();
      return replyAt(started, 0);
    }
    const ticket = started;
    const idle = options?.idle === true;
    if (!idle) this.#alive += 1;
    this.#keepAlive();
    const signal = options?.signal;
    return new Promise<Reply>((resolve, reject) => {
      if (signal === undefined) {
        this.#waiting.set(ticket, { resolve, idle });
        return;
      }
      const onAbort = () => {
        const waiting = this.#waiting.get(ticket);
        if (waiting === undefined) return;
        this.#binding.cancel(ticket);
        this.#settle(ticket, waiting);
        reject(abortedError(signal));
      };
      const settled = (reply: Reply) => {
        forget();
        resolve(reply);
      };
      this.#waiting.set(ticket, { resolve: settled, idle });
      const forget = whenAborted(signal, onAbort);
    });
  }

  /**
   * Appends packed records. All appends of one turn of the event loop go to the core together, at its end or before the
   * next call, so that calls are done in their order.
   */
  append(handle: number, packed: Uint8Array): Promise<Appended> {
    const room = this.#queue.room(packed.length);
    if (room === "never") return this.#appendAlone(handle, packed);
    if (room === "later") this.#flush();
    this.#schedule();
    this.#queue.addPacked(handle, packed);
    return new Promise(this.#enqueue);
  }

  /** As {@link append}, of one record without a key; `undefined` when it is too large for that. */
  appendRecord(handle: number, stream: string, head: AppendHead, record: OneRecord): Promise<Appended> | undefined {
    const room = this.#queue.room(roomOfOne(record));
    if (room === "never") return undefined;
    if (room === "later") this.#flush();
    this.#schedule();
    this.#queue.addRecord(handle, stream, head, record);
    return new Promise(this.#enqueue);
  }

  async #appendAlone(handle: number, packed: Uint8Array): Promise<Appended> {
    return valueOf(await this.call(handle, "append", "", packed));
  }

  // Made once, since they are used for each append.
  readonly #enqueue = (resolve: Resolve): void => void this.#queued.push(resolve);
  readonly #flush = (): void => this.handOver();

  #schedule(): void {
    if (this.#queue.isEmpty) queueMicrotask(this.#flush);
  }

  release(handle: number): void {
    this.#flush();
    this.#binding.release(handle);
  }

  /** Has all that is unfinished say what it says before it ends. */
  endAll(): void {
    for (const { lastly } of this.unfinished) lastly?.();
  }

  /** Hands over the appends that are queued, before their turn ends. */
  handOver(): void {
    if (this.#queue.isEmpty) return;
    const resolves = this.#queued;
    this.#queued = [];
    let parts: Part[];
    try {
      parts = this.#binding.append(this.#queue.take(), resolves.length);
    } catch (cause) {
      const { code, message } = faultOf(cause);
      for (const resolve of resolves) resolve(failed({ code, message }));
      return;
    }
    this.#appending.add(parts[0] as number, resolves);
    this.#receive(parts, 1);
  }

  /** Has the agents of an orchestrator done by a function, or by none any more. */
  executor(orchestrator: number, executor: Executor | undefined): void {
    if (executor === undefined) this.#executors.delete(orchestrator);
    else this.#executors.set(orchestrator, executor);
  }

  #receive(parts: Part[], from: number): void {
    for (let at = from; at < parts.length; at += 5) {
      const ticket = parts[at] as number;
      if (ticket === 0) {
        this.#asked(replyAt(parts, at + 1));
        continue;
      }
      const waiting = this.#waiting.get(ticket);
      // It was given up meanwhile; an object that was made for it is let go.
      if (waiting === undefined) {
        const handle = parts[at + 2];
        if (typeof handle === "number") this.#binding.release(handle);
        continue;
      }
      this.#settle(ticket, waiting);
      waiting.resolve(replyAt(parts, at + 1));
    }
    this.#keepAlive();
  }

  /** Nobody knows what was done of that which is waited for. */
  #end(failure: Failure): void {
    const reply: Reply = { handle: undefined, json: undefined, bytes: undefined, failure: JSON.stringify(failure) };
    for (const [ticket, waiting] of [...this.#waiting]) {
      this.#settle(ticket, waiting);
      waiting.resolve(reply);
    }
    for (const resolve of this.#appending.takeAll()) resolve(failed(failure));
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    this.#executors.clear();
    this.#keepAlive();
  }

  #asked(reply: Reply): void {
    if (reply.bytes !== undefined) {
      this.#appended(reply.bytes, reply.json);
      return;
    }
    const ask = valueOf<Ask>(reply);
    switch (ask.ask) {
      case "sleep":
        this.#sleep(ask.timer, ask.ms);
        break;
      case "forget":
        clearTimeout(this.#timers.get(ask.timer));
        this.#timers.delete(ask.timer);
        break;
      case "execute": {
        const { ask: _, orchestrator, ...work } = ask;
        const executor = this.#executors.get(orchestrator);
        const handle = reply.handle as number;
        // Nobody is left to do it: its run fails.
        if (executor === undefined) this.#binding.release(handle);
        else executor(work, handle);
        break;
      }
    }
  }

  #appended(outcomes: Uint8Array, json: string | undefined): void {
    const failures = json === undefined ? [] : (JSON.parse(json) as Failure[]);
    eachOutcome(
      outcomes,
      (ticket, appended) => this.#appending.take(ticket)?.(appended),
      (ticket, failure) => this.#appending.take(ticket)?.(failed(failures[failure] as Failure)),
    );
  }

  #sleep(timer: number, ms: number): void {
    // A longer one would overflow, and fire at once.
    const part = Math.min(ms, 2 ** 31 - 1);
    const over = () => {
      if (ms > part) return this.#sleep(timer, ms - part);
      this.#timers.delete(timer);
      this.#binding.call(0, "timerOver", JSON.stringify({ timer }));
      this.#keepAlive();
    };
    this.#timers.set(timer, setTimeout(over, part));
  }

  #settle(ticket: number, waiting: Waiting): void {
    this.#waiting.delete(ticket);
    if (!waiting.idle) this.#alive -= 1;
    if (this.#alive === 0) this.#keepAlive();
  }

  /** Keeps the process alive for what is waited for, and for what agents left to be written. */
  #keepAlive(): void {
    const on =
      this.#alive > 0 || this.#appending.size > 0 || (this.#executors.size > 0 && this.#binding.isBusy());
    if (on !== this.#isAlive) this.#binding.keepAlive(on);
    this.#isAlive = on;
  }
}

/**
 * A promise that fails, for a promise to be resolved with. Its error is made when that one waits for this one, which takes
 * two turns: only then does the error's stack name who awaits.
 */
async function failed(failure: Failure): Promise<never> {
  await undefined;
  await undefined;
  throw errorOf(failure);
}

function faultOf(cause: unknown): RunlogError {
  const message = cause instanceof Error ? cause.message : String(cause);
  return new RunlogError("internal", `a fault in Runlog, please report it: ${message}`, { cause });
}

function replyAt(parts: Part[], at: number): Reply {
  const json = parts[at + 2] as string | undefined;
  return {
    handle: parts[at + 1] as number | undefined,
    json: parts[at] === 1 ? json : undefined,
    bytes: parts[at + 3] as Uint8Array | undefined,
    failure: parts[at] === 1 ? undefined : (json as string),
  };
}

/** The reply, if it is no failure. @internal */
export function check(reply: Reply): Reply {
  if (reply.failure !== undefined) throw errorOf(JSON.parse(reply.failure) as Failure);
  return reply;
}

/** The value of a reply; `undefined` where there is none. @internal */
export function valueOf<T>(reply: Reply): T {
  return (JSON.parse(check(reply).json ?? "null") ?? undefined) as T;
}

/** The contents of a reply. @internal */
export function bytesOf(reply: Reply): Uint8Array {
  const { bytes } = check(reply);
  if (bytes === undefined) throw new RunlogError("internal", "an answer without its contents; please report it");
  return bytes;
}
