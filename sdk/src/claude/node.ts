import { checkFunction, shown } from "../checks.js";
import { RunlogError, abortedError, checkSignal, invalid, throwIfAborted } from "../error.js";
import type { AgentEvent, AgentUsage, ClaudeMessageInput } from "../flow-types.js";
import type { FlowRun } from "../flows.js";
import { unlessAborted } from "../signals.js";
import { defined } from "./figures.js";
import { type Check, type Checks, aPrompt, anObject, awaited, fieldsOf, isPromise, optional, text, yesOrNo } from "./given.js";
import { Translation } from "./translation.js";
import { type QueryFn, type QueryMessage, type QueryParams, isObject } from "./query.js";

/** How a node calls its agent. */
export interface ClaudeNodeOptions {
  /** What calls the agent: left out, `query` of `@anthropic-ai/claude-agent-sdk`, which has to be installed then. */
  queryFn?: QueryFn | undefined;
  /** Options of every call. */
  options?: object | undefined;
  /**
   * Under which option a session that goes on is named. `sessionId` when left out, but `resume` without a `queryFn`:
   * `@anthropic-ai/claude-agent-sdk` takes `sessionId` for new sessions only, so that its `query`, where it is given, needs
   * `resume` here.
   */
  resumeWith?: "sessionId" | "resume" | undefined;
  /** What time it is: milliseconds since 1970-01-01 UTC. For tests. */
  now?: (() => number) | undefined;
}

/** What a node is to do. A `RunningNode` of a resumed flow is one. */
export interface ClaudeNodeInput {
  /** The node. */
  nodeId: string;
  /** What to ask: text, or messages. */
  prompt: string | ClaudeMessageInput[];
  /** The agent's own session, to go on with; left out, a new one. */
  sessionId?: string | undefined;
  /** Which execution of the node it is; left out, the run of the flow. */
  runId?: string | undefined;
  /** Options of this call, beside those of the node. */
  options?: object | undefined;
  /**
   * Whether messages that are sent to the run while the agent works, by {@link FlowRun.command}, are given to it. The prompt
   * is then a stream of messages that ends when the agent has its result.
   */
  inject?: boolean | undefined;
  /** Stops the agent. The node stays `running`, so that the flow can be resumed. */
  signal?: AbortSignal | undefined;
}

/** What an agent made of its task. */
export interface ClaudeNodeResult {
  /** The final text. */
  text: string;
  /** The output by its schema, where there is one. */
  structuredOutput?: unknown;
  /** The agent's own session, to go on with. */
  sessionId: string;
  /** The tokens of the whole call. */
  usage: AgentUsage;
  /** What the call cost, in US dollars, where that is known. */
  totalCostUsd?: number;
  /** How long the call took, in milliseconds of wall clock. */
  durationMs: number;
  /** How many turns the agent took. */
  numTurns: number;
}

/** A node of a flow that an agent works in. */
export interface ClaudeNode {
  /**
   * Calls the agent, and records what it tells as the events of an agent. The session is saved, on the device, before the
   * agent is called; should the agent tell another one, that is saved before anything else it tells is recorded. At the end
   * the node is `done`, with the structured output or else the text as its output, and every event is durable.
   *
   * @throws {@link ClaudeNodeError} when the agent fails; the node is `failed` then, and an `agent:error` recorded.
   * @throws {@link RunlogError} `invalid_input` when a field isn't known or is of another type, and nobody is called then;
   * `aborted` when the signal is; what failed to be recorded otherwise, also by `recordFixtures`: the node is `done` then.
   */
  run(flow: FlowRun, input: ClaudeNodeInput): Promise<ClaudeNodeResult>;
}

/** How an agent failed, as its `agent:error` event says. What it threw, if it did, is the `cause`. */
export class ClaudeNodeError extends Error {
  /** Its kind, such as `error_max_turns`. */
  readonly errorType: string;
  /** The node. */
  readonly nodeId: string;
  /** The agent's own session. */
  readonly sessionId: string;

  /** Made where the agent fails. */
  constructor(nodeId: string, sessionId: string, errorType: string, message: string, options?: { cause?: unknown }) {
    super(`the agent of ${nodeId} failed (${errorType}): ${message}`, options);
    this.name = "ClaudeNodeError";
    this.errorType = errorType;
    this.nodeId = nodeId;
    this.sessionId = sessionId;
  }
}

/** So many events may wait to be written before the agent is waited for. */
const UNWRITTEN_MAX = 1024;

const RESUME_WITH = ["sessionId", "resume"];

const resumeOption: Check = (field, what) => {
  if (!RESUME_WITH.includes(field as string)) throw invalid(`${what} must be "sessionId" or "resume", not ${shown(field)}`);
};

const OPTIONS: Checks<ClaudeNodeOptions> = {
  queryFn: optional(checkFunction),
  options: optional(anObject),
  resumeWith: optional(resumeOption),
  now: optional(checkFunction),
};

const INPUT: Checks<ClaudeNodeInput> = {
  nodeId: text,
  prompt: aPrompt,
  sessionId: optional(text),
  runId: optional(text),
  options: optional(anObject),
  inject: optional(yesOrNo),
  signal: optional((field) => checkSignal(field as AbortSignal)),
};

/** What a node does with a flow. By them one is known, also where the package was loaded twice and has two classes. */
const OF_A_FLOW = ["startAgent", "recordAll", "finishNode", "saveSnapshot"] as const satisfies readonly (keyof FlowRun)[];

function checkFlow(flow: FlowRun): void {
  awaited(flow, "the flow");
  if (typeof flow === "object" && flow !== null && OF_A_FLOW.every((name) => typeof flow[name] === "function")) return;
  const what = "what store.flows.create() gives, or `flow` of what store.flows.resume() gives";
  throw invalid(`the flow is ${what}, not ${shown(flow)}`);
}

/**
 * Makes a node of a flow that an agent works in.
 *
 * @throws {@link RunlogError} `invalid_input` when an option isn't known or is of another type.
 *
 * @example
 * ```ts
 * const claudeNode = createClaudeNode({ queryFn: mockQuery }); // in production: createClaudeNode()
 * const flow = await store.flows.create();
 * const { text } = await claudeNode.run(flow, { nodeId: "task-agent", prompt: "Analyze the task list..." });
 *
 * // After a crash: the saved session goes on.
 * const { flow: again, resumed } = await store.flows.resume(flow.runId);
 * for (const node of resumed.running) await claudeNode.run(again, node);
 * ```
 */
export function createClaudeNode(options: ClaudeNodeOptions = {}): ClaudeNode {
  fieldsOf(options, "what createClaudeNode is given", OPTIONS);
  const { queryFn, resumeWith = queryFn === undefined ? "resume" : "sessionId", now = Date.now } = options;
  return {
    async run(flow, input) {
      checkFlow(flow);
      fieldsOf(input, "what a node is to do", INPUT);
      const { nodeId, prompt, runId = flow.runId, signal } = input;
      throwIfAborted(signal);
      const query = await recordedIfAsked(queryFn ?? (await claudeQuery()));
      const sessionId = input.sessionId ?? globalThis.crypto.randomUUID();
      await alone(flow, () => flow.startAgent(nodeId, sessionId));

      const translation = new Translation({ nodeId, runId, prompt, sessionId, now });
      const record = new Recording(flow);
      const take = async (events: AgentEvent[]) => {
        if (events.length === 0) return;
        const newest = translation.sessionId;
        if (flow.state.agentSessions[nodeId] !== newest) await alone(flow, () => flow.startAgent(nodeId, newest));
        await record.all(events);
      };
      const named = input.sessionId === undefined ? "sessionId" : resumeWith;
      // The agent's library takes no signal. A signal may be that of many nodes, and would keep whatever listens to it.
      const controller = signal && new AbortController();
      const pass = () => controller?.abort(signal?.reason);
      signal?.addEventListener("abort", pass, { once: true });
      // When nothing more is given to the agent.
      const over = new AbortController();
      const params: QueryParams = {
        prompt: typeof prompt === "string" && !input.inject ? prompt : messagesOf(flow, input, runId, sessionId, over.signal),
        nodeId,
        options: {
          ...options.options,
          ...input.options,
          ...(controller && { abortController: controller }),
          [named]: sessionId,
        },
      };
      let thrown: unknown;
      try {
        for await (const message of unlessAborted(messagesIn(query(params)), signal)) {
          await take(translation.take(message));
          if (translation.ending !== undefined) over.abort();
        }
        if (translation.ending === undefined) throwIfAborted(signal);
        await take(translation.end());
      } catch (cause) {
        if (record.failure !== undefined) throw record.failure.cause;
        if (signal?.aborted) {
          await record.done();
          throw abortedError(signal);
        }
        thrown = cause;
        await take(translation.fail(cause));
      } finally {
        over.abort();
        signal?.removeEventListener("abort", pass);
      }
      await record.done();
      return await finished(flow, nodeId, translation, thrown);
    },
  };
}

async function finished(flow: FlowRun, nodeId: string, translation: Translation, thrown: unknown): Promise<ClaudeNodeResult> {
  const { ending, sessionId } = translation;
  if (ending !== undefined && "complete" in ending) {
    const { structuredOutput, usage, totalCostUsd, durationMs, numTurns } = ending.complete;
    await alone(flow, () => flow.finishNode(nodeId, structuredOutput ?? ending.text));
    // The agent is done, whatever its process says when it ends; but not what was to be kept of it.
    if (thrown instanceof RunlogError) throw thrown;
    const optional = defined({ structuredOutput, totalCostUsd });
    return { text: ending.text, sessionId, usage, durationMs, numTurns, ...optional };
  }
  await alone(flow, () => {
    flow.state.nodeStatus[nodeId] = "failed";
    return flow.saveSnapshot();
  });
  const { errorType, message } = ending?.error ?? { errorType: "error_during_execution", message: "it gave no reason" };
  const cause = thrown === undefined ? undefined : { cause: thrown };
  throw new ClaudeNodeError(nodeId, sessionId, errorType, message, cause);
}

/** Events that are recorded in order without each waiting for the one before to be durable. */
class Recording {
  /** What couldn't be recorded first. */
  failure: { cause: unknown } | undefined;
  readonly #flow: FlowRun;
  readonly #unwritten = new Set<Promise<unknown>>();

  constructor(flow: FlowRun) {
    this.#flow = flow;
  }

  async all(events: AgentEvent[]): Promise<void> {
    if (this.failure !== undefined) throw this.failure.cause;
    const written: Promise<unknown> = this.#flow.recordAll(events).then(
      () => this.#unwritten.delete(written),
      (cause: unknown) => {
        this.#unwritten.delete(written);
        this.failure ??= { cause };
      },
    );
    this.#unwritten.add(written);
    // The first: they are written in their order.
    if (this.#unwritten.size >= UNWRITTEN_MAX) await this.#unwritten.values().next().value;
  }

  /** Waits until everything is durable. */
  async done(): Promise<void> {
    await Promise.all(this.#unwritten);
    if (this.failure !== undefined) throw this.failure.cause;
  }
}

/** What a query gave, or an error where that has no messages. */
function messagesIn(gave: AsyncIterable<QueryMessage>): AsyncIterable<QueryMessage> {
  if (typeof gave?.[Symbol.asyncIterator] === "function") return gave;
  const what = "what `queryFn` gives";
  if (isPromise(gave)) throw invalid(`${what} is a promise; make it an async function*, or give what it resolves to`);
  throw invalid(`${what} are messages as they come (an async iterable), not ${shown(gave)}`);
}

/** Messages as the agent's library takes them: the prompt, then, where that is asked for, those that are sent to the run. */
async function* messagesOf(
  flow: FlowRun,
  { prompt, inject = false }: ClaudeNodeInput,
  runId: string,
  sessionId: string,
  over: AbortSignal,
): AsyncGenerator<ClaudeMessageInput> {
  const said = (message: object) => ({ type: "user", message, parent_tool_use_id: null, session_id: sessionId });
  for (const message of typeof prompt === "string" ? [{ role: "user", content: prompt }] : prompt) {
    yield message["type"] === "user" ? message : said({ role: "user", ...message });
  }
  while (inject) {
    // One by one: what the agent doesn't take any more goes on waiting, as does what is no message.
    const message = await flow.nextMessage(runId, over);
    if (message === undefined) return;
    yield said({ role: "user", content: message });
  }
}

/** What `runlog record-fixtures -- COMMAND` names the folder in. */
const RECORD_FIXTURES = "RUNLOG_RECORD_FIXTURES";

/** The query with its calls written as fixtures, where `runlog record-fixtures` started this process. */
async function recordedIfAsked(query: QueryFn): Promise<QueryFn> {
  const output = globalThis.process?.env[RECORD_FIXTURES];
  if (!output || "fixtures" in query) return query;
  const { recordFixtures } = await import("../testing/record.js");
  const recorded = recording.get(query) ?? recordFixtures(query, { output });
  recording.set(query, recorded);
  return recorded;
}

/** One recorder for each query, so that the calls of a node go to one file. */
const recording = new WeakMap<QueryFn, QueryFn>();

const turns = new WeakMap<FlowRun, Promise<unknown>>();

/** Changes the state of a flow when no other node is at it: each change takes the whole state there and back. */
function alone<T>(flow: FlowRun, work: () => Promise<T>): Promise<T> {
  const turn = (turns.get(flow) ?? Promise.resolve()).then(work);
  turns.set(
    flow,
    turn.catch(() => {}),
  );
  return turn;
}

/** The package that calls Claude. It is found when it is needed, so that tests do without it. */
const CLAUDE: string = "@anthropic-ai/claude-agent-sdk";

async function claudeQuery(): Promise<QueryFn> {
  let loaded: unknown;
  try {
    loaded = await import(CLAUDE);
  } catch (cause) {
    const what = `createClaudeNode() without a queryFn calls ${CLAUDE}, which can't be loaded`;
    throw new RunlogError("not_found", `${what}: install it, or give a queryFn`, { cause });
  }
  const query = isObject(loaded) ? loaded["query"] : undefined;
  if (typeof query !== "function") throw new RunlogError("not_found", `${CLAUDE} has no query(); give a queryFn`);
  return query as QueryFn;
}
