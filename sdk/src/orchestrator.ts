import { type Channel, type Execution, type Reply, valueOf } from "./binding.js";
import { checkFunction, checkText, classWithoutFields, fieldsOf, optionsOf, shown, withOptions } from "./checks.js";
import { type Failure, type GivenAs, RunlogError, StopError, errorOf, invalid, messageOf, toldAsGiven, toldAsTaken } from "./error.js";
import type { OtherCommand } from "./flow-types.js";
import type { OrchestratorCalls, RunContextCalls, RunHandleCalls } from "./generated/calls.js";
import type {
  DefinedTool,
  NewSession,
  OrchestratorOptions as Bounds,
  ResumeOptions,
  SpawnRequest,
  SpawnResult,
  StartAgent as GivenStart,
  StartPlace,
} from "./generated/types.js";
import { Handle, type Made } from "./handle.js";
import { type RawJson, jsonBytes, wellFormed } from "./json.js";
import { Space } from "./request.js";
import { RunContext } from "./run-context.js";
import type { PauseReason } from "./run-types.js";
import { givenResume } from "./runs.js";
import { type SpawnOptions, Spawned, givenSpawns } from "./spawned.js";

/** What an agent's function returns: its final text, or nothing, or that it stopped on the way and can be resumed. */
export type AgentEnd = string | void | null | AgentDone | AgentPaused;

/** An agent has done its work. */
export interface AgentDone {
  /** Its final text, the `summary` of its run. */
  summary?: string | undefined;
}

/** An agent stops on the way: its run becomes `paused`, and can be resumed. */
export interface AgentPaused {
  /** Why. */
  paused: string;
}

/**
 * Does the work of an agent. It reads what to do from the context's messages, which is the same for a run that begins and
 * for one that goes on after a pause or a crash. What it throws fails the run; when its signal is aborted it has a while
 * to record what it has.
 */
export type AgentFunction = (context: RunContext) => AgentEnd | Promise<AgentEnd>;

/** The bounds of an orchestrator; each has a default. */
export interface OrchestratorOptions extends Bounds {
  /** The functions of agents, by the agent's name; {@link Orchestrator.register} adds others. */
  agents?: Readonly<Record<string, AgentFunction>> | undefined;
}

/** An agent to start that no other agent spawns: in a new session, or one that is there, or a context that is there. */
export type StartAgent = Omit<GivenStart, "place"> & {
  /** A session to make with the run; one of no project when nothing is given. */
  session?: NewSession | undefined;
  /** A session that is there, in which it gets a context of its own. */
  sessionId?: string | undefined;
  /** A context that is there, to go on with. */
  instanceId?: string | undefined;
};

/** A run that was gone on with. */
export interface ResumedAgent {
  /** The paused run. */
  runId: string;
  /** What became of the run that went on from it. */
  result: SpawnResult;
}

/** A run that was left paused. */
export interface LeftPaused {
  /** The paused run. */
  runId: string;
  /** Why it couldn't be gone on with. */
  error: RunlogError;
}

/** What became of the runs that a crash had cut off. */
export interface ResumeReport {
  /** The runs that were gone on with, by the id of the paused one, and what became of each. */
  resumed: ResumedAgent[];
  /** The runs that were left paused, and why. */
  left: LeftPaused[];
}

/** A tool as a model is told of it. */
export interface ToolDefinition {
  /** Its name. */
  name: string;
  /** What it does. */
  description: string;
  /** What its arguments are: a JSON Schema. */
  inputSchema: Record<string, unknown>;
  /** The same, as an entry of the `tools` of a request to OpenAI. */
  openai: Record<string, unknown>;
  /** The same, as an entry of the `tools` of a request to Anthropic. */
  anthropic: Record<string, unknown>;
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
  /** Ends the watching for that. */
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
    const context = new RunContext(handle, execution, stop.signal, (waiting) => this.untilClosed(waiting));
    const work = { handle, context, stop, watching: new AbortController() };
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
      const work = this.#functions.get(context.run.agentId) ?? this.#ofOthers;
      if (work === undefined) throw new RunlogError("not_found", `no function does the work of ${context.run.agentId}`);
      const returned = await work(context);
      end = endOf(returned);
    } catch (error) {
      // Mostly it is told that this is closed. The run is paused by the next opening.
      if (!this.#isOpen) return false;
      end = { error: messageOf(error) };
    }
    watching.abort();
    try {
      await toldAsTaken({ not: ["error"] }, handle.value("end", end));
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
    return this.#run(await toldAsGiven(START_GIVEN_AS, started));
  }

  /**
   * Goes on with a paused run, as its agent. The new run is durable when it resolves, and about to begin.
   *
   * @throws {@link RunlogError} as {@link Runs.resume}; `not_found` when the agent isn't defined, or has no function.
   */
  async resume(runId: string, options: ResumeOptions & { timeoutMs?: number | undefined } = {}): Promise<RunHandle> {
    const { timeoutMs, ...rest } = givenResume(options);
    const resumed = this.#handle.made("resume", { run: runId, options: rest, timeoutMs });
    return this.#run(await toldAsTaken({ of: "options", also: ["timeoutMs"] }, resumed));
  }

  #run({ told: id, handle: handleOf }: Made<string>): RunHandle {
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
    const { signal, ...rest } = fieldsOf(options, "what is asked for beside it");
    const wire = withOptions({ run: parentRunId, requests: givenSpawns(requests) }, rest, "what is asked for beside it");
    const made = this.#handle.made("spawn", wire, undefined, { signal, idle: true });
    const spawning = toldAsTaken({ also: ["signal"], not: ["run", "requests"] }, made);
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
   * it resolves. Functions at work are told by their signals. A run that has paused or ended stays as it is.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run.
   */
  async pause(runId: string, why: PauseReason = {}): Promise<void> {
    await toldAsTaken({ not: ["run"] }, this.#handle.value("pause", withOptions({ run: runId }, why, "why a run is paused")));
  }

  /**
   * Cancels a run and all below it, also those that are paused; `cancelled` is durable for all of them when it resolves.
   * Functions at work are told by their signals. A run that has ended stays as it is.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run.
   */
  async cancel(runId: string): Promise<void> {
    await this.#handle.value("cancel", { run: runId });
  }

  /**
   * Sends a command to a run that is under way here: it is recorded in the run's stream, and waits in its inbox.
   *
   * @throws {@link RunlogError} `wrong_status` when the run isn't under way here; `limit_reached` when too many commands wait for it, or
   * were taken without a record since.
   */
  async send(runId: string, command: OtherCommand | RawJson): Promise<void> {
    await this.#handle.value("send", { run: runId }, jsonBytes(command));
  }

  /** The run, when it is under way here. */
  async handle(runId: string): Promise<RunHandle | undefined> {
    const { told, ...made } = await this.#handle.made("handle", { run: runId });
    return told === undefined ? undefined : this.#run({ told, ...made });
  }

  /** How many runs are under way here, those that wait for their turn included. */
  async liveCount(): Promise<number> {
    return await this.#handle.value("liveCount");
  }

  /**
   * Does no more agents' work. Runs that are under way stay `running` until the store is opened next, and are paused then:
   * those whose turn would have come, and those whose function fails after this, such as by what it waited for, among them.
   * Whoever waits for a run is told that this is `closed`.
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

const NO_END = "the agent's function returned neither text nor { summary } or { paused }";

/** How a run ends whose agent's function returned something. */
function endOf(returned: AgentEnd): RunContextCalls["end"]["args"] {
  if (returned === undefined || returned === null) return {};
  if (typeof returned === "string") return { summary: wellFormed(returned) };
  if (typeof returned !== "object" || Array.isArray(returned)) throw invalid(`${NO_END}, but ${shown(returned)}`);
  const name = classWithoutFields(returned);
  if (name?.endsWith("Generator")) throw invalid(`${NO_END}: it is a generator (function*), whose body never ran; make it an async function`);
  if (name === "Error") throw invalid(`${NO_END}, but an Error, which is to be thrown: ${messageOf(returned)}`);
  if (name !== undefined) throw invalid(`${NO_END}, but a ${name}`);
  if (Object.keys(returned).length === 0) throw invalid(`${NO_END}, but an object without fields`);
  return { ...returned, ...("summary" in returned && { summary: wellFormed(returned.summary) }) };
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
    return await this.orchestrator.untilClosed(this.#handle.value("wait", undefined, undefined, { signal, idle: true }));
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

/** The tools that models are given, as the core tells them. @internal */
export function toolsOf(reply: Reply): ToolDefinition[] {
  return valueOf<DefinedTool[]>(reply).map(({ definition, ...forms }) => ({ ...definition, ...forms }) as ToolDefinition);
}

/** Where the core is told of the place of an agent that starts. */
const START_GIVEN_AS: GivenAs = [
  ["place.newSession", "session"],
  ["place.session", "sessionId"],
  ["place.instance", "instanceId"],
];

/** An agent to start, as it is told to the core. */
function givenStart(agent: StartAgent): GivenStart {
  const { session, sessionId, instanceId, ...rest } = fieldsOf(agent, "an agent to start");
  const places: StartPlace[] = [];
  if (session !== undefined) places.push({ newSession: session });
  if (sessionId !== undefined) places.push({ session: sessionId });
  if (instanceId !== undefined) places.push({ instance: instanceId });
  if (places.length > 1) throw invalid("an agent starts in a session, a sessionId or an instanceId; give one");
  return { ...rest, place: places[0] };
}
