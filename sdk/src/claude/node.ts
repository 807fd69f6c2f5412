import { RunlogError, throwIfAborted } from "../error.js";
import type { AgentEvent, AgentUsage, ClaudeMessageInput } from "../flow-types.js";
import type { FlowRun } from "../flows.js";
import { newUuid } from "../uuid.js";
import type { FixtureEvent } from "../testing/fixtures.js";
import type { Query, QueryInput } from "./query.js";
import { Translator } from "./translate.js";

/** So many events are recorded without waiting for those before them. */
const UNAWAITED_MAX = 256;

/** What a Claude node is made with. */
export interface ClaudeNodeOptions {
  /** Calls the agent; left out, the `query` of `@anthropic-ai/claude-agent-sdk`, which has to be installed then. */
  queryFn?: Query;
  /** The option that tells the agent which of its sessions to go on with; `sessionId` unless given. */
  resumeOption?: string;
}

/** What a Claude node is asked to do. */
export interface ClaudeNodeInput {
  /** The node of the flow. */
  nodeId: string;
  /** The whole prompt, or the messages. */
  prompt: string | ClaudeMessageInput[];
  /** Which execution of the node it is; left out, a fresh one. Commands for it reach the agent while it works. */
  runId?: string;
  /** The agent's own session to go on with: what {@link RunningNode} told. Left out, a fresh one. */
  sessionId?: string;
  /** Options for the agent's library. */
  options?: Record<string, unknown>;
  /** Whether messages that are sent to the run while the agent works are given to it; they aren't unless asked for. */
  inject?: boolean;
  /** Stops listening to the agent. */
  signal?: AbortSignal;
}

/** What came of it. */
export interface ClaudeNodeOutput {
  /** The final text. */
  text: string;
  /** The output by its schema, where there is one. */
  structuredOutput?: unknown;
  /** The tokens it took. */
  usage: AgentUsage;
  /** How long it took, in milliseconds. */
  durationMs: number;
  /** How many turns it took. */
  numTurns: number;
  /** What it cost, in US dollars. */
  totalCostUsd?: number;
  /** The agent's own session, for more turns. */
  sessionId: string;
}

/** Has an agent do the work of a node of a flow. */
export type ClaudeNode = (flow: FlowRun, input: ClaudeNodeInput) => Promise<ClaudeNodeOutput>;

/**
 * A node that has a Claude agent do its work, and records it: the agent's own session is saved, durably, before the agent
 * is called, and everything it tells becomes one of the eight `agent:*` events.
 *
 * @throws {@link RunlogError} from the node: what the agent failed by, after an `agent:error` was recorded and the node's
 * status is `failed`.
 *
 * @example
 * ```ts
 * const claudeNode = createClaudeNode({ queryFn: createMockQuery({ fixtures }) });
 * const flow = await store.flows.create();
 * const { text } = await claudeNode(flow, { nodeId: "task-agent", prompt: "Analyze the task list." });
 *
 * // After a crash:
 * const { flow: again, resumed } = await store.flows.resume(flow.runId);
 * for (const node of resumed.running) await claudeNode(again, node);
 * ```
 */
export function createClaudeNode(options: ClaudeNodeOptions = {}): ClaudeNode {
  const { resumeOption = options.queryFn === undefined ? "resume" : "sessionId" } = options;
  let query: Query | undefined;
  return async function claudeNode(flow, input) {
    query ??= await recordedIfAsked(options.queryFn ?? (await installedQuery()));
    return execute(query, resumeOption, flow, input);
  };
}

async function execute(
  query: Query,
  resumeOption: string,
  flow: FlowRun,
  input: ClaudeNodeInput,
): Promise<ClaudeNodeOutput> {
  const { nodeId, prompt, runId = newUuid(), signal } = input;
  throwIfAborted(signal);
  const recorder = new EventRecorder(flow, nodeId, runId);
  let sessionId = input.sessionId ?? newUuid();
  const session = input.sessionId === undefined ? { sessionId } : { [resumeOption]: sessionId };
  await flow.startAgent(nodeId, sessionId);
  await recorder.record({ type: "agent:start", sessionId, prompt });

  const translator = new Translator();
  const over = new AbortController();
  const call: QueryInput = { prompt, nodeId, options: { ...input.options, ...session } };
  if (input.inject) call.prompt = withInbox(flow, prompt, runId, over.signal);
  try {
    for await (const message of query(call)) {
      throwIfAborted(signal);
      const events = translator.events(message);
      if (translator.sessionId !== undefined && translator.sessionId !== sessionId) {
        // The library chose another one: what is resumed from is the one that it knows.
        sessionId = translator.sessionId;
        await flow.startAgent(nodeId, sessionId);
      }
      for (const event of events) await recorder.record(event);
      if (translator.output !== undefined) over.abort();
    }
    if (translator.failure !== undefined) throw new AgentFailure(translator.failure.message);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    if (!(error instanceof AgentFailure)) await recorder.record({ type: "agent:error", errorType: typeOf(error), message });
    await recorder.settled();
    flow.state.nodeStatus[nodeId] = "failed";
    await flow.saveSnapshot();
    throw error instanceof RunlogError ? error : new RunlogError("io", `the agent of ${nodeId} failed: ${message}`, { cause: error });
  } finally {
    over.abort();
  }
  await recorder.settled();
  const output = { usage: { inputTokens: 0, outputTokens: 0 }, durationMs: 0, numTurns: 0, text: "", ...translator.output, sessionId };
  await flow.finishNode(nodeId, output);
  return output as ClaudeNodeOutput;
}

/** An agent that told that it failed. */
class AgentFailure extends Error {}

function typeOf(error: unknown): string {
  if (error instanceof RunlogError && error.code === "aborted") return "error_user";
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" && /^E[A-Z]+$/.test(code) ? "network_error" : "error";
}

/** Records the events of one execution, in their order; deltas needn't wait for each other. */
class EventRecorder {
  readonly #flow: FlowRun;
  readonly #head: { nodeId: string; runId: string };
  readonly #unawaited: Promise<unknown>[] = [];

  constructor(flow: FlowRun, nodeId: string, runId: string) {
    this.#flow = flow;
    this.#head = { nodeId, runId };
  }

  async record(event: FixtureEvent): Promise<void> {
    const { type, ...rest } = event;
    const whole = { type, ...this.#head, timestamp: Date.now(), ...rest } as unknown as AgentEvent;
    const recording = this.#flow.record(whole);
    this.#unawaited.push(recording);
    // Told by `settled`, and not as one that nobody handles.
    recording.catch(() => {});
    if (!type.endsWith(":delta") || this.#unawaited.length >= UNAWAITED_MAX) await this.settled();
  }

  async settled(): Promise<void> {
    await Promise.all(this.#unawaited.splice(0));
  }
}

/** The prompt as a stream of messages, which goes on with those that are sent to the run. */
async function* withInbox(
  flow: FlowRun,
  prompt: string | ClaudeMessageInput[],
  runId: string,
  over: AbortSignal,
): AsyncGenerator<ClaudeMessageInput> {
  const user = (content: unknown) => ({ type: "user", message: { role: "user", content }, parent_tool_use_id: null });
  if (typeof prompt === "string") yield user(prompt);
  else yield* prompt;
  for (;;) {
    const commands = await flow.nextCommands(runId, over);
    if (commands === undefined) return;
    for (const command of commands) if (command["message"] !== undefined) yield user(command["message"]);
  }
}

/** With its calls written as fixtures, where `runlog record-fixtures` started this process. */
async function recordedIfAsked(query: Query): Promise<Query> {
  if (!globalThis.process?.env["RUNLOG_RECORD_FIXTURES"]) return query;
  const { recordFixtures } = await import("../testing/record-fixtures.js");
  return recordFixtures(query);
}

async function installedQuery(): Promise<Query> {
  const name = "@anthropic-ai/claude-agent-sdk";
  try {
    const sdk = (await import(name)) as { query: Query };
    return sdk.query;
  } catch (cause) {
    throw new RunlogError("not_found", `createClaudeNode needs a queryFn, or ${name} to be installed`, { cause });
  }
}
