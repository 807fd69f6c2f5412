import { RunlogError } from "./error.js";
import type { OtherCommand } from "./flow-types.js";
import type { SpawnedCalls } from "./generated/calls.js";
import type { SpawnRequest, SpawnResult } from "./generated/types.js";
import type { Handle, Made } from "./handle.js";
import { type RawJson, jsonBytes, wellFormed } from "./json.js";

/** The options of a spawn besides its requests. */
export interface SpawnOptions {
  /** The tool call that a model made, and is in the context already; left out, the spawn is recorded as a call of its own. */
  toolCallId?: string | undefined;
  /** Cancels the sub-agents. */
  signal?: AbortSignal | undefined;
}

/** A sub-agent that has come to its end, and what became of it. */
export interface EndedAgent {
  /** The sub-agent. */
  agent: SpawnedAgent;
  /** What became of it. */
  result: SpawnResult;
}

/** A promise, and who settles it. */
interface Settled<T> {
  promise: Promise<T>;
  resolve(value: T): void;
  reject(error: unknown): void;
}

function settled<T>(): Settled<T> {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((fulfil, refuse) => {
    resolve = fulfil;
    reject = refuse;
  });
  // Whoever doesn't wait for it doesn't see its failure.
  promise.catch(() => {});
  return { promise, resolve, reject };
}

/** One of the sub-agents that were spawned. */
export class SpawnedAgent {
  /** Its place among the requests, counted from 0. */
  readonly index: number;
  /** The agent asked for. */
  readonly agentName: string;
  /** Its run; `undefined` where the request was refused, whose result says why. */
  readonly runId: string | undefined;
  readonly #handle: Handle<SpawnedCalls>;
  readonly #result: Promise<SpawnResult>;

  /** @internal */
  constructor(
    handle: Handle<SpawnedCalls>,
    index: number,
    agentName: string,
    runId: string | undefined,
    result: Promise<SpawnResult>,
  ) {
    this.#handle = handle;
    this.#result = result;
    this.index = index;
    this.agentName = agentName;
    this.runId = runId;
  }

  /**
   * What became of it, once it has ended or paused.
   *
   * @throws {@link RunlogError} as {@link Spawned.results}.
   */
  async wait(): Promise<SpawnResult> {
    return await this.#result;
  }

  /**
   * Cancels it and all below it, as {@link Orchestrator.cancel}. One that was refused or has ended stays as it is.
   *
   * @throws {@link RunlogError} as {@link Orchestrator.cancel}.
   */
  async cancel(): Promise<void> {
    // Once all have ended the way to them is let go of.
    if (this.runId === undefined || !this.#handle.isOpen) return;
    await this.#handle.value("cancel", { runId: this.runId });
  }

  /**
   * Sends it a command, as {@link Orchestrator.send}.
   *
   * @throws {@link RunlogError} as {@link Orchestrator.send}, also where the request was refused; `closed` once all that were
   * spawned with it have ended.
   */
  async send(command: OtherCommand | RawJson): Promise<void> {
    if (this.runId === undefined) throw new RunlogError("wrong_status", "the request was refused, so there is no run that takes a command");
    await this.#handle.value("send", { runId: this.runId }, jsonBytes(command));
  }
}

/**
 * Sub-agents that were spawned at once and are at work, got from {@link RunContext.spawn}: their ids are known, their results
 * come one by one in the order in which they end, and all of them in the order of the requests.
 *
 * Their results need not be waited for: they work on, and their results are recorded in the context of the run that spawned
 * them. When that ends before them, they are cancelled. The call that spawns them is to be awaited, as every promise: it says
 * what was refused.
 *
 * @example The first answer is enough.
 * ```ts
 * const spawned = await context.spawn([
 *   { agentName: "searcher", task: "the library" },
 *   { agentName: "searcher", task: "the web" },
 * ]);
 * for await (const { agent, result } of spawned) {
 *   if (result.status !== "completed") continue;
 *   for (const other of spawned.agents) if (other !== agent) await other.cancel();
 * }
 * const results = await spawned.results();
 * ```
 */
export class Spawned implements AsyncIterable<EndedAgent> {
  /** The sub-agents, in the order of the requests. */
  readonly agents: readonly SpawnedAgent[];
  readonly #results = settled<SpawnResult[]>();
  readonly #ends: Settled<SpawnResult>[] = [];
  /** Those that have ended, in that order. */
  readonly #ended: EndedAgent[] = [];
  #isOver = false;
  /** Settled when another has ended, or none will any more. */
  #more = settled<void>();

  /** @internal */
  constructor(
    { value: runIds, handle: handleOf }: Made<(string | undefined)[]>,
    requests: readonly SpawnRequest[],
    next: <T>(waiting: Promise<T>) => Promise<T>,
    signal: AbortSignal | undefined,
  ) {
    const handle = handleOf<SpawnedCalls>("what was spawned");
    this.agents = runIds.map((runId, index) => {
      const end = settled<SpawnResult>();
      this.#ends.push(end);
      return new SpawnedAgent(handle, index, requests[index]?.agentName ?? "", runId ?? undefined, end.promise);
    });
    void this.#follow(handle, next, signal);
  }

  async #follow(
    handle: Handle<SpawnedCalls>,
    untilClosed: <T>(waiting: Promise<T>) => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const options = { signal, idle: true };
    try {
      for (;;) {
        const ended = await untilClosed(handle.value("next", undefined, undefined, options));
        if (ended === undefined) break;
        const [index, result] = ended;
        const agent = this.agents[index];
        if (agent !== undefined) this.#ended.push({ agent, result });
        this.#ends[index]?.resolve(result);
        this.#tell();
      }
      this.#results.resolve(await untilClosed(handle.value("results", undefined, undefined, options)));
    } catch (error) {
      this.#results.reject(error);
      for (const end of this.#ends) end.reject(error);
    }
    this.#isOver = true;
    this.#tell();
    // Those that are still at work, since nobody wants them any more, are cancelled with it.
    handle.release();
  }

  #tell(): void {
    this.#more.resolve();
    this.#more = settled();
  }

  /**
   * What became of all of them, in the order of the requests, once that is recorded in the context.
   *
   * @throws {@link RunlogError} `wrong_status` when the run that spawned them is being stopped; `aborted` when the signal that
   * was given is: they are cancelled; `closed` when the orchestrator is.
   */
  async results(): Promise<SpawnResult[]> {
    return await this.#results.promise;
  }

  /**
   * The sub-agents in the order in which they end, each once; refused requests first.
   *
   * @throws {@link RunlogError} as {@link results}.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<EndedAgent, void, undefined> {
    for (let at = 0; ; at += 1) {
      while (at >= this.#ended.length && !this.#isOver) await this.#more.promise;
      const ended = this.#ended[at];
      if (ended === undefined) break;
      yield ended;
    }
    await this.#results.promise;
  }
}

/** Requests as they are sent to the core: an agent's task loses half a surrogate pair, not all of the call. @internal */
export function givenSpawns(requests: readonly SpawnRequest[]): readonly SpawnRequest[] {
  const given = (request: SpawnRequest): SpawnRequest =>
    typeof request === "object" && request !== null && "task" in request ? { ...request, task: wellFormed(request.task) } : request;
  return Array.isArray(requests) ? requests.map(given) : requests;
}
