import type { Execution } from "./binding.js";
import { fieldsOf, optionsOf, readable, withOptions } from "./checks.js";
import { RunlogError, throwIfAborted, withKnownFields } from "./error.js";
import { type Message, unpackMessages } from "./context-types.js";
import type { AgentEventBase, OwnAgentEvent, ReceivedCommand, RunSnapshot, RuntimeEvent } from "./flow-types.js";
import type { RunContextCalls } from "./generated/calls.js";
import type {
  AgentDefinition,
  AgentSummary,
  Run,
  RunDetails,
  SpawnRequest,
  SpawnResult,
  ToolAnswer,
} from "./generated/types.js";
import type { Handle } from "./handle.js";
import { RawJson, jsonBytes, jsonList, wellFormedBytes } from "./json.js";
import { parseList } from "./long-lists.js";
import { Space } from "./request.js";
import { RunWriter } from "./run-writer.js";
import { whenAborted } from "./signals.js";
import { type SpawnOptions, Spawned, givenSpawns } from "./spawned.js";

/**
 * The run that an agent's function works on: its context, its record, and what it shares with others.
 *
 * Everything that records is durable when it resolves, and refused with `wrong_status` once the run has paused or ended,
 * whoever ended it; with `closed` once the function has returned, as all of its calls are then.
 */
export class RunContext extends RunWriter {
  /** The run's id. */
  readonly runId: string;
  /** The run as it was when the function was called. */
  readonly run: Run;
  /** What the agent is: its prompt, its tools, its bounds. */
  readonly definition: AgentDefinition;
  /**
   * What it was asked to do. For a run that was resumed, what it was told besides to continue; where that is nothing, what the
   * run was asked that it goes on from.
   */
  readonly task: string;
  /** How many runs are above it: 0 for one that nobody spawned. */
  readonly depth: number;
  /**
   * Aborted when the run is to stop; its reason is a {@link StopError}, whose kind says what stops it and whether it can be
   * resumed. It may then record what it has, for a while (`stopGraceMs`). Also aborted when the store was closed, with a reason
   * whose code is `closed`: then nothing can be recorded any more.
   */
  readonly signal: AbortSignal;
  /** What it shares with the run that spawned it, and with those it spawns; written down with its next message. */
  readonly space: Space;
  readonly #handle: Handle<RunContextCalls>;
  /** Aborted when the function has returned. */
  readonly #over: AbortSignal;
  readonly #untilClosed: <T>(waiting: Promise<T>) => Promise<T>;

  /** @internal */
  constructor(
    handle: Handle<RunContextCalls>,
    work: Execution,
    signal: AbortSignal,
    over: AbortSignal,
    untilClosed: <T>(waiting: Promise<T>) => Promise<T>,
  ) {
    super(handle);
    this.#handle = handle;
    this.#over = over;
    this.#untilClosed = untilClosed;
    this.run = work.run;
    this.runId = this.run.id;
    this.definition = work.definition;
    this.task = work.task;
    this.depth = work.depth;
    this.signal = signal;
    this.space = new Space(handle);
  }

  /** The run as far as is known now, with the steps begun. */
  async refresh(): Promise<Run> {
    return await this.#handle.value("run");
  }

  /** The messages of its context, to be sent to the model. Those of the runs it goes on from are among them. */
  async getMessages<T = Record<string, unknown>>(): Promise<T[]> {
    return await parseList<T>(await this.#handle.bytes("getMessages"));
  }

  /** The same messages, each byte for byte. */
  async getRawMessages(): Promise<Message[]> {
    return await unpackMessages(await this.#handle.bytes("getRawMessages"));
  }

  /**
   * Begins the next step, and says its number, counted over all resumes.
   *
   * @throws {@link RunlogError} `limit_reached` when the budget of steps is spent: the run is then paused, durably, and
   * the function should return.
   */
  async nextStep(): Promise<number> {
    return await this.#handle.value("nextStep");
  }

  /**
   * Describes the run: what it took, such as tokens and their cost, and anything else.
   *
   * @throws {@link RunlogError} as {@link RunRecorder.describe}.
   */
  async describe(details: RunDetails): Promise<Run> {
    return await this.#handle.value("describe", details);
  }

  /**
   * Records an event for those who look on, such as one of the eight `agent:*` ones, which get the run's id and the time where
   * they don't say them.
   *
   * @example
   * ```ts
   * await context.recordEvent({ type: "agent:text", nodeId: "writer", content: "Done." });
   * ```
   *
   * @throws {@link RunlogError} as {@link recordEvents}.
   */
  async recordEvent(event: RuntimeEvent | OwnAgentEvent | RawJson): Promise<void> {
    await this.recordEvents([event]);
  }

  /**
   * Records events, all of them or none, with one flush.
   *
   * @throws {@link RunlogError} `wrong_status` when the run isn't running any more; `invalid_input` when the type of
   * one isn't known, or it lacks a field; `too_large` for one over 16 MiB.
   */
  async recordEvents(events: readonly (RuntimeEvent | OwnAgentEvent | RawJson)[]): Promise<void> {
    const { lengths, data } = jsonList(events, (event) => wellFormedBytes(this.#stamped(event)));
    await this.#handle.value("recordEvents", { lengths }, data);
  }

  /** An event of an agent with the run's id and the time, where it has none; anything else as it is. */
  #stamped(event: unknown): unknown {
    if (typeof event !== "object" || event === null || event instanceof RawJson || ArrayBuffer.isView(event)) return event;
    return readable("an event", () => {
      const { type, runId, timestamp } = event as Partial<AgentEventBase & { type: unknown }>;
      if (typeof type !== "string" || !type.startsWith("agent:") || (runId !== undefined && timestamp !== undefined)) return event;
      return { ...event, runId: runId ?? this.runId, timestamp: timestamp ?? Date.now() };
    });
  }

  /**
   * Saves a state, from which whoever goes on with the run can begin. On the device when it resolves.
   *
   * @throws {@link RunlogError} `wrong_status` when the run isn't running any more; `too_large` for a state over 16
   * MiB.
   */
  async saveSnapshot(state: RunSnapshot): Promise<void> {
    await this.#handle.value("saveSnapshot", undefined, wellFormedBytes(state));
  }

  /** The state that was saved last, by this run or by the one it goes on from. */
  async snapshot(): Promise<RunSnapshot | undefined> {
    return await this.#handle.value("snapshot");
  }

  /**
   * The next command that was sent to it, once there is one. It may come from another process, so waiting keeps a Node process alive:
   * until the run's signal or the given one is aborted, the function has returned, or the orchestrator or the store is closed.
   *
   * @throws {@link RunlogError} `aborted` when the run's signal or the given one is; `closed` when the function has returned,
   * or the orchestrator or the store is closed.
   */
  async nextCommand(options: { signal?: AbortSignal | undefined } = {}): Promise<ReceivedCommand> {
    const { signal = this.signal } = optionsOf(options, ["signal"]);
    throwIfAborted(signal);
    throwIfAborted(this.signal);
    // Also given up when the function has returned, or the orchestrator is closed: no command comes any more, and no process is kept.
    const stop = new AbortController();
    const forget = [signal, this.signal, this.#over].map((ends) => whenAborted(ends, () => stop.abort(ends.reason)));
    try {
      return await this.#untilClosed(this.#handle.value("nextCommand", undefined, undefined, { signal: stop.signal }));
    } catch (cause) {
      if (this.#over.aborted && !signal.aborted && !this.signal.aborted) throw new RunlogError("closed", "the agent's function has returned, and its context is closed", { cause });
      throw cause;
    } finally {
      for (const one of forget) one();
      stop.abort();
    }
  }

  /** The next command that waits, if there is one. */
  async takeCommand(): Promise<ReceivedCommand | undefined> {
    return await this.#handle.value("takeCommand");
  }

  /**
   * Spawns sub-agents, all at once, and doesn't wait for them: their runs are made, durably, when it resolves, and what
   * becomes of each is reported as it ends.
   *
   * @example
   * ```ts
   * const spawned = await context.spawn([
   *   { agentName: "worker", task: "a" },
   *   { agentName: "worker", task: "b" },
   * ]);
   * console.log(spawned.agents.map((agent) => agent.runId));
   * for await (const { agent, result } of spawned) console.log(agent.index, result.status);
   * const inOrder = await spawned.results();
   * ```
   *
   * @throws {@link RunlogError} as {@link spawnAgents}.
   */
  async spawn(requests: readonly SpawnRequest[], options: SpawnOptions = {}): Promise<Spawned> {
    const { signal, ...rest } = fieldsOf(options, "the options");
    const wire = withOptions({ requests: givenSpawns(requests) }, rest, "the options");
    const made = this.#handle.made("spawn", wire, undefined, { signal, idle: true });
    const spawning = withKnownFields({ also: ["signal"], not: ["requests"] }, made);
    return new Spawned(await this.#untilClosed(spawning), requests, this.#untilClosed, signal);
  }

  /**
   * Spawns sub-agents, all at once, and waits for all of them; what became of each comes in the order of the requests. A
   * request that is refused doesn't disturb the others. What was spawned and the results are recorded in the context, as a
   * tool call; `toolCallId` names one that a model made, and is in the context already. An aborted signal cancels them.
   * Providers take no second call before the first has its result: give all requests in one call, not two calls at once,
   * unless they are those of tool calls that one message of a model's makes.
   *
   * @throws {@link RunlogError} `invalid_input` while other tool calls of the context have no result; `wrong_status` when the
   * run isn't running or is being stopped; `too_large` for too many
   * requests; `limit_reached` when agents have spawned agents too deeply, or too many are at work.
   */
  async spawnAgents(requests: readonly SpawnRequest[], options: SpawnOptions = {}): Promise<SpawnResult[]> {
    return await (await this.spawn(requests, options)).results();
  }

  /**
   * Does what a model's call of `list_available_agents` or `spawn_agents` asks for, and records the result in the context,
   * as that of the call. `undefined` when the tool is another one: then nothing is done. What is wrong with the arguments
   * is said to the model.
   *
   * @throws {@link RunlogError} `wrong_status` when the run is being stopped.
   */
  async answerToolCall(
    toolCallId: string,
    name: string,
    args: RawJson | Uint8Array | string | object,
  ): Promise<ToolAnswer | undefined> {
    const wire = { toolCallId, name };
    return await this.#untilClosed(this.#handle.value("answerToolCall", wire, jsonBytes(args), { idle: true }));
  }

  /** What there is to spawn. */
  async listAvailableAgents(): Promise<AgentSummary[]> {
    return await this.#handle.value("listAvailableAgents");
  }
}
