import { type AgentFunction, NO_END, type ResumeReport, START_GIVEN_AS, type StartAgent, endOf, givenStart } from "./agent-types.js";
import type { Channel, Execution } from "./binding.js";
import { checkFunction, checkText, fieldsOf, optionsOf, withOptions } from "./checks.js";
import { type Failure, RunlogError, StopError, errorOf, messageOf, withGivenNames, withKnownFields } from "./error.js";
import type { OtherCommand } from "./flow-types.js";
import type { OrchestratorCalls, RunContextCalls, RunHandleCalls } from "./generated/calls.js";
import type { OrchestratorOptions as Bounds, ResumeOptions, SpawnRequest, SpawnResult } from "./generated/types.js";
import { Handle, type Made } from "./handle.js";
import { type RawJson, jsonBytes } from "./json.js";
import { Space } from "./request.js";
import { RunContext } from "./run-context.js";
import type { PauseReason } from "./run-types.js";
import { givenResume } from "./runs.js";
import { type SpawnOptions, Spawned, givenSpawns } from "./spawned.js";

/** The bounds of an orchestrator; each has a default. */
export interface OrchestratorOptions extends Bounds {
  /** The functions of agents, by the agent's name; {@link Orchestrator.register} adds others. */
  agents?: Readonly<Record<string, AgentFunction>> | undefined;
}

/** Orchestrators with runs under way, and how many: they do the work also where nobody holds them. */
const atWork = new Map<Orchestrator, number>();

/** Orchestrators that were closed, with contexts of runs that stay `running`: to let go of one is to end its run. */
const leftRunning = new Set<Orchestrator>();

/** Lets go of the executors of orchestrators that nobody holds any more. */
const gone = new FinalizationRegistry<{ channel: Channel; id: number }>(({ channel, id }) => {
  channel.executor(id, undefined);
});

/** A function that is at work. */
interface Work {
  handle: Handle<RunContextCalls>;
  context: RunContext;
  /** Tells the function to stop. */
  stop: AbortController;
  /** Ends the watching for that, and the waiting for commands. */
  watching: AbortController;
}

/**
 * Starts agents, lets them spawn others, stops them, and goes on with them: each as a run of the store. Got from
 * {@link Store.orchestrator}.
 *
 * @example
 * ```ts
 * await store.agents.put({ name: "lead" });
 * await store.agents.put({ name: "worker" });
 * const orchestrator = await store.orchestrator({
 *   agents: {
 *     lead: async (context) => {
 *       const results = await context.spawnAgents([{ agentName: "worker", task: "a" }, { agentName: "worker", task: "b" }]);
 *       return `${results.length} parts are done`;
 *     },
 *     worker: async (context) => {
 *       await context.recordMessage({ role: "assistant", content: "Done." });
 *       return "done";
 *     },
 *   },
 * });
 * await orchestrator.resumeAll(); // what a crash cut off
 * const lead = await orchestrator.start({ agentName: "lead", task: "Build it." });
 * console.log((await lead.wait()).summary);
 * ```
 */
export class Orchestrator implements AsyncDisposable {
  readonly #handle: Handle<OrchestratorCalls>;
  readonly #id: number;
  readonly #functions = new Map<string, AgentFunction>();
  #ofOthers: AgentFunction | undefined;
  /** The functions that are at work: their contexts are held, also where the function forgets them. */
  readonly #atWork = new Set<Work>();
  /** The contexts of runs that came to their turn after it was closed. */
  readonly #late: number[] = [];
  /** Called when it is closed. */
  readonly #waiting = new Set<() => void>();
  #isOpen = true;

  /** @internal */
  constructor(handle: Handle<OrchestratorCalls>, id: number) {
    this.#handle = handle;
    this.#id = id;
    const { channel } = handle;
    // Weakly: the functions hold whatever they please, this and the store among it.
    const weak = new WeakRef(this);
    channel.executor(id, (work, run) => {
      const orchestrator = weak.deref();
      if (orchestrator === undefined) channel.release(run);
      else orchestrator.#begin(work, run);
    });
    gone.register(this, { channel, id }, this);
  }

  #begin(execution: Execution, run: number): void {
    const handle = new Handle<RunContextCalls>(this.#handle.channel, run, "the agent's context");
    const stop = new AbortController();
    const watching = new AbortController();
    const context = new RunContext(handle, execution, stop.signal, watching.signal, (waiting) => this.untilClosed(waiting));
    const work = { handle, context, stop, watching };
    this.#atWork.add(work);
    void this.#execute(work).then((isOver) => {
      if (isOver) this.#atWork.delete(work);
      else leftRunning.add(this);
    });
  }

  /** Does the work, and says whether it is over: where this was closed meanwhile, what fails of it is not how its run ends. */
  async #execute({ handle, context, stop, watching }: Work): Promise<boolean> {
    void this.#watch(handle, stop, watching.signal);
    let end: RunContextCalls["end"]["args"];
    try {
      const work = this.#functions.get(context.run.agentName) ?? this.#ofOthers;
      if (work === undefined) throw new RunlogError("not_found", `no function does the work of ${context.run.agentName}`);
      const returned = await work(context);
      end = endOf(returned);
    } catch (error) {
      // Mostly it fails because this is closed. The run is paused by the next opening.
      if (!this.#isOpen) return false;
      end = { error: messageOf(error) };
    }
    watching.abort();
    try {
      await withKnownFields({ not: ["error"] }, handle.value("end", end));
    } catch (cause) {
      // What it returned is refused, such as a summary that is too long; or the store was closed, and the run is paused when it is
      // opened next.
      const [why] = messageOf(cause).split("\n");
      await handle.value("end", { error: `${NO_END}: ${why}` }).catch(() => {});
    }
    handle.release();
    return true;
  }

  /** Aborts the agent's signal when it is to stop. */
  async #watch(handle: Handle<RunContextCalls>, stop: AbortController, signal: AbortSignal): Promise<void> {
    try {
      const reason = await handle.value("cancelled", undefined, undefined, { idle: true, signal });
      if (reason !== undefined) stop.abort(new StopError("aborted", reason));
    } catch {
      // Its function has ended, or the store was closed.
    }
  }

  /**
   * Has a function do the work of the agents of a name, in every project. It takes the place of the one before; runs that
   * are under way go on with theirs.
   */
  async register(agentName: string, work: AgentFunction): Promise<void> {
    checkText(agentName, "the name of an agent");
    checkFunction(work, `the work of ${agentName}`);
    this.#functions.set(agentName, work);
    await this.#handle.value("register", { agentName });
  }

  /** Has a function do the work of every agent that has none of its own. */
  async registerDefault(work: AgentFunction): Promise<void> {
    checkFunction(work, "the work of other agents");
    this.#ofOthers = work;
    await this.#handle.value("register", {});
  }

  /**
   * Starts an agent that nobody spawns. Its run is durable when it resolves, and about to begin.
   *
   * @throws {@link RunlogError} `not_found` when the agent isn't defined, has no function, or its place isn't there;
   * `limit_reached` when too many runs are under way.
   */
  async start(agent: StartAgent): Promise<RunHandle> {
    const started = this.#handle.made("start", givenStart(agent));
    return this.#run(await withGivenNames(START_GIVEN_AS, started));
  }

  /**
   * Goes on with a paused run, as its agent. The new run is durable when it resolves, and about to begin.
   *
   * @throws {@link RunlogError} as {@link Runs.resume}; `not_found` when the agent isn't defined, or has no function.
   */
  async resume(runId: string, options: ResumeOptions & { timeoutMs?: number | undefined } = {}): Promise<RunHandle> {
    const { timeoutMs, ...rest } = givenResume(options);
    const resumed = this.#handle.made("resume", { runId, options: rest, timeoutMs });
    return this.#run(await withKnownFields({ of: "options", also: ["timeoutMs"] }, resumed));
  }

  #run({ value: id, handle: handleOf }: Made<string>): RunHandle {
    const handle = handleOf<RunHandleCalls>("the agent's run");
    if (this.#isOpen) void this.#hold(handle);
    return new RunHandle(handle, id, this);
  }

  /** Sees to it that this is there as long as the run is under way. */
  async #hold(run: Handle<RunHandleCalls>): Promise<void> {
    atWork.set(this, (atWork.get(this) ?? 0) + 1);
    await run.call("wait", undefined, undefined, { idle: true });
    const others = (atWork.get(this) ?? 1) - 1;
    if (others > 0) atWork.set(this, others);
    else atWork.delete(this);
  }

  /** Waits for what never comes once this is closed, and no longer. @internal */
  async untilClosed<T>(waiting: Promise<T>): Promise<T> {
    let close: (() => void) | undefined;
    const closed = new Promise<never>((_, reject) => {
      close = () => reject(new RunlogError("closed", "the orchestrator was closed while the run was under way"));
      this.#waiting.add(close);
      // Nobody tells of the closing again. What is known already comes before this.
      if (!this.#isOpen) setTimeout(close, 0);
    });
    try {
      return await Promise.race([waiting, closed]);
    } finally {
      if (close !== undefined) this.#waiting.delete(close);
    }
  }

  /**
   * Goes on with every run that a crash cut off, once, and resolves when all of them have ended; to be called once the
   * functions are registered. A run that was waiting for sub-agents goes on when those have. Runs whose agent has no
   * function are left as they are. Of several calls at once, also of other orchestrators of the store, one goes on, and the
   * others wait until it is through.
   */
  async resumeAll(): Promise<ResumeReport> {
    const report = await this.untilClosed(this.#handle.value("resumeAll", undefined, undefined, { idle: true }));
    return {
      resumed: report.resumed.map(([runId, result]) => ({ runId, result })),
      left: report.left.map(([runId, failure]) => ({ runId, error: errorOf(failure as Failure) })),
    };
  }

  /**
   * Spawns sub-agents of a run that is running, as {@link RunContext.spawn} does; for runs that no function of this orchestrator
   * works on.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run; else as {@link RunContext.spawnAgents}.
   */
  async spawn(parentRunId: string, requests: readonly SpawnRequest[], options: SpawnOptions = {}): Promise<Spawned> {
    const { signal, ...rest } = fieldsOf(options, "the options");
    const wire = withOptions({ runId: parentRunId, requests: givenSpawns(requests) }, rest, "the options");
    const made = this.#handle.made("spawn", wire, undefined, { signal, idle: true });
    const spawning = withKnownFields({ also: ["signal"], not: ["runId", "requests"] }, made);
    return new Spawned(await this.untilClosed(spawning), requests, (waiting) => this.untilClosed(waiting), signal);
  }

  /**
   * As {@link spawn}, and waits for all of them: what became of each, in the order of the requests.
   *
   * @throws {@link RunlogError} as {@link spawn}.
   */
  async spawnAgents(
    parentRunId: string,
    requests: readonly SpawnRequest[],
    options: SpawnOptions = {},
  ): Promise<SpawnResult[]> {
    return await (await this.spawn(parentRunId, requests, options)).results();
  }

  /**
   * Pauses a run and all below it that is at work: they can be resumed, each by itself; `paused` is durable for all of them when
   * it resolves. Functions at work learn it from their signals. A run that has paused or ended stays as it is. Of a store that is
   * open for reading, the process that writes it is asked, as for {@link cancel}.
   *
   * @throws {@link RunlogError} as {@link cancel}.
   */
  async pause(runId: string, why: PauseReason = {}): Promise<void> {
    await withKnownFields({ not: ["runId"] }, this.#handle.value("pause", withOptions({ runId }, why, "why a run is paused")));
  }

  /**
   * Cancels a run and all below it, also those that are paused; `cancelled` is durable for all of them when it resolves.
   * Functions at work learn it from their signals. A run that has ended stays as it is.
   *
   * Of a store in a folder that is open for reading, the process that writes it is asked to do this, through the folder; it
   * answers from its first orchestrator on, and is waited for as long as `answerTimeoutMs` says.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run; `locked` when another process was to be asked and took no
   * request: nothing was done; `outcome_unknown` when it took the request and didn't answer, which is known within a second or two
   * when it was killed, and after a minute when it hangs: the run tells what was done.
   *
   * @example
   * ```ts
   * const reader = await open("runlog-data", { mode: "readOnly" }); // while another process runs the agents
   * await (await reader.orchestrator()).cancel(runId);
   * ```
   */
  async cancel(runId: string): Promise<void> {
    await this.#handle.value("cancel", { runId });
  }

  /**
   * Sends a command to a run that is under way here: it is recorded in the run's stream, and waits in its inbox. Of a store that
   * is open for reading, the process that writes it is asked, as for {@link cancel}; also for a flow of that process.
   *
   * @throws {@link RunlogError} as {@link cancel}; `wrong_status` when the run isn't under way here; `limit_reached` when too many commands wait for it, or
   * were taken without a record since; `invalid_input` for a `send`, `reply` or `resume` with a `message` that isn't text.
   */
  async send(runId: string, command: OtherCommand | RawJson): Promise<void> {
    await this.#handle.value("send", { runId }, jsonBytes(command));
  }

  /** The run, when it is under way here. */
  async handle(runId: string): Promise<RunHandle | undefined> {
    const { value, ...made } = await this.#handle.made("handle", { runId });
    return value === undefined ? undefined : this.#run({ value, ...made });
  }

  /** How many runs are under way here, those that wait for their turn included. */
  async liveCount(): Promise<number> {
    return await this.#handle.value("liveCount");
  }

  /**
   * Does no more agents' work. Runs that are under way stay `running` until the store is opened next, and are paused then:
   * those whose turn would have come, and those whose function fails after this, such as by what it waited for, among them.
   * Whoever waits for a run gets the error `closed`.
   */
  async close(): Promise<void> {
    this.#isOpen = false;
    if (atWork.delete(this)) leftRunning.add(this);
    // Runs that come to their turn now stay `running`, too.
    const late = this.#late;
    this.#handle.channel.executor(this.#id, (_, run) => late.push(run));
    this.#handle.release();
    for (const close of [...this.#waiting]) close();
  }

  /** Lets go of the functions at work, whose store is closed: nothing that they do can be recorded. @internal */
  abandon(): void {
    const { channel } = this.#handle;
    gone.unregister(this);
    leftRunning.delete(this);
    channel.executor(this.#id, undefined);
    for (const run of this.#late.splice(0)) channel.release(run);
    for (const { handle, stop, watching } of [...this.#atWork]) {
      watching.abort();
      handle.release();
      // The run is paused by the next opening.
      stop.abort(new StopError("closed", { kind: "shutdown", message: "the store is closed", resumable: true }));
    }
  }

  /** As {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A run that was started. */
export class RunHandle {
  /** The run. */
  readonly runId: string;
  /** What the run shares with those below it. */
  readonly space: Space;
  readonly #handle: Handle<RunHandleCalls>;
  /** Held as long as this is, since it does the work. */
  readonly orchestrator: Orchestrator;

  /** @internal */
  constructor(handle: Handle<RunHandleCalls>, runId: string, orchestrator: Orchestrator) {
    this.#handle = handle;
    this.runId = runId;
    this.orchestrator = orchestrator;
    this.space = new Space(handle);
  }

  /**
   * What became of the run, once it has ended or paused: by its function, by the orchestrator ({@link Orchestrator.cancel}), or by
   * a recorder of the run (`store.runs.recorder(id)`), which stops its function too.
   *
   * @throws {@link RunlogError} `aborted` when the signal is: the run goes on; `closed` when the orchestrator is: the
   * run stays `running`, and is paused when the store is opened next.
   */
  async wait(options: { signal?: AbortSignal | undefined } = {}): Promise<SpawnResult> {
    const { signal } = optionsOf(options, ["signal"]);
    // An agent that never ends doesn't keep the process running. A wait with a signal does: the timer of `AbortSignal.timeout` doesn't.
    return await this.orchestrator.untilClosed(this.#handle.value("wait", undefined, undefined, { signal, idle: signal === undefined }));
  }

  /**
   * As {@link Orchestrator.cancel}.
   *
   * @throws {@link RunlogError} as {@link Orchestrator.cancel}.
   */
  async cancel(): Promise<void> {
    await this.#handle.value("cancel");
  }

  /**
   * As {@link Orchestrator.send}.
   *
   * @throws {@link RunlogError} as {@link Orchestrator.send}.
   */
  async send(command: OtherCommand | RawJson): Promise<void> {
    await this.#handle.value("send", undefined, jsonBytes(command));
  }
}
