import { messageOf } from "../error.js";
import type { AgentCompleteEvent, AgentErrorEvent, AgentEvent, ClaudeMessageInput } from "../flow-types.js";
import { defined, figuresOf } from "./figures.js";
import { EVENT_TYPES, isObject } from "./query.js";

/** Which execution of which node a call is, and what it was called with. @internal */
export interface Call {
  nodeId: string;
  runId: string;
  prompt: string | ClaudeMessageInput[];
  sessionId: string;
  /** What time it is, in milliseconds. */
  now(): number;
}

/** How a call ended. @internal */
export type Ending =
  | { text: string; complete: AgentCompleteEvent }
  | { text: string; error: AgentErrorEvent; subtype: string };

/** The part of an event that is its own; the rest is the call's. */
type Own<E = AgentEvent> = E extends AgentEvent ? Omit<E, "nodeId" | "runId" | "timestamp"> : never;

interface OpenTool {
  toolName: string;
  toolInput: unknown;
  began: number;
}

type Fields = Record<string, unknown>;

/**
 * Turns what an agent's library tells while it works into the eight events of an agent. It takes the messages of
 * `@anthropic-ai/claude-agent-sdk`, and those of fixtures, which are such events already.
 *
 * Text and thinking that streamed are recorded as deltas, and not again when the whole block comes. Of a block that says more
 * than what streamed the rest is recorded, and one that says something else is recorded whole.
 *
 * @internal
 */
export class Translation {
  /** The agent's own session: the one that it was called with, until it tells another. */
  sessionId: string;
  /** How the call ended, once it has. */
  ending: Ending | undefined;
  readonly #call: Call;
  readonly #began: number;
  readonly #tools = new Map<string, OpenTool>();
  /** What of each message streamed and didn't come as a whole block yet. */
  readonly #streamed = new Map<string, { text: string; thinking: string }>();
  /** The message that is streaming, for the agent and each of its sub-agents. */
  readonly #streaming = new Map<unknown, string>();
  #started = false;
  #turns = 0;
  #text = "";
  /** The end of a turn that a fixture has, until the call's result tells the rest of it, or something comes behind it. */
  #recordedComplete: Fields | undefined;
  /** Whether such an end was recorded before the call's result came. */
  #toldEarly = false;
  /** The last error that was recorded before the call ended: by a fixture, or with an answer of the model's. */
  #recordedError: AgentErrorEvent | undefined;

  constructor(call: Call) {
    this.#call = call;
    this.sessionId = call.sessionId;
    this.#began = call.now();
  }

  /** The events of a message. */
  take(message: unknown): AgentEvent[] {
    if (!isObject(message) || typeof message["type"] !== "string") return [];
    const type = message["type"];
    const session = message["session_id"] ?? message["sessionId"];
    if (!this.#started && typeof session === "string" && session !== "") this.sessionId = session;
    if (EVENT_TYPES.includes(type)) return this.#recorded(type, message);
    switch (type) {
      case "system":
        return message["subtype"] === "init" ? this.#start(message) : [];
      case "stream_event":
        return this.#delta(message);
      case "assistant":
        return this.#assistant(message);
      case "user":
        return this.#toolResults(message);
      case "result":
        return this.#result(message);
      default:
        return [];
    }
  }

  /** The last events, when no more messages come. */
  end(): AgentEvent[] {
    const events = [...this.#start({}), ...this.#unfinishedTools("the agent ended before the tool did")];
    if (this.#recordedComplete !== undefined) return [...events, this.#complete({}, undefined)];
    if (this.ending !== undefined) return events;
    if (this.#recordedError !== undefined) {
      this.ending = { text: this.#text, error: this.#recordedError, subtype: this.#recordedError.errorType };
      return events;
    }
    return [...events, this.#failed("error_during_execution", "the agent ended without a result")];
  }

  /** The last events, when the call threw. */
  fail(cause: unknown): AgentEvent[] {
    if (this.ending !== undefined) return [];
    const message = messageOf(cause);
    const events = [...this.#start({}), ...this.#unfinishedTools("the agent failed before the tool was done")];
    const details = isObject(cause) && typeof cause["code"] === "string" ? { code: cause["code"] } : undefined;
    return [...events, ...this.#failedOnce(errorTypeOf(cause), message, details)];
  }

  #start(message: Fields): AgentEvent[] {
    if (this.#started) return [];
    this.#started = true;
    const inner = isObject(message["message"]) ? message["message"] : {};
    const model = message["model"] ?? inner["model"];
    return [
      this.#event({
        type: "agent:start",
        sessionId: this.sessionId,
        ...(typeof model === "string" && { model }),
        prompt: this.#call.prompt,
      }),
    ];
  }

  /** An event that a fixture has. */
  #recorded(type: string, message: Fields): AgentEvent[] {
    const start = this.#start(message);
    if (type === "agent:start") return start;
    // A call of several turns, which has an end of each: only that of the last belongs to the call's result.
    const isOver = this.#recordedComplete !== undefined;
    const before = isOver ? [...start, this.#complete({}, undefined)] : start;
    this.#toldEarly ||= isOver;
    if (type === "agent:complete") {
      this.#recordedComplete = message;
      return before;
    }
    // What a fixture may leave out.
    const filled = type === "agent:tool" ? { toolInput: null, toolOutput: null, ...message } : message;
    const event = this.#event(filled as unknown as Own);
    if (event.type === "agent:error") this.#recordedError = event;
    if (event.type === "agent:text" || event.type === "agent:text:delta") this.#text += event.content;
    return [...before, event];
  }

  #delta(message: Fields): AgentEvent[] {
    const event = message["event"];
    if (!isObject(event)) return [];
    const agent = message["parent_tool_use_id"];
    if (event["type"] === "message_start" && isObject(event["message"])) {
      this.#streaming.set(agent, String(event["message"]["id"] ?? ""));
      return this.#start(event);
    }
    const delta = event["delta"];
    if (event["type"] !== "content_block_delta" || !isObject(delta)) return [];
    const kind = delta["type"] === "text_delta" ? "text" : delta["type"] === "thinking_delta" ? "thinking" : undefined;
    const content = kind && delta[kind];
    if (kind === undefined || typeof content !== "string" || content === "") return [];
    const id = this.#streaming.get(agent) ?? "";
    const streamed = this.#streamed.get(id) ?? { text: "", thinking: "" };
    streamed[kind] += content;
    this.#streamed.set(id, streamed);
    return [...this.#start({}), this.#event({ type: `agent:${kind}:delta`, content })];
  }

  #assistant(message: Fields): AgentEvent[] {
    const events = this.#start(message);
    const inner = isObject(message["message"]) ? message["message"] : {};
    if (message["parent_tool_use_id"] == null) this.#turns += 1;
    const streamed = this.#streamed.get(String(inner["id"] ?? ""));
    const blocks = typeof inner["content"] === "string" ? [{ type: "text", text: inner["content"] }] : inner["content"];
    for (const block of Array.isArray(blocks) ? blocks.filter(isObject) : []) {
      const { type } = block;
      const content = type === "text" || type === "thinking" ? block[type] : undefined;
      if (typeof content === "string") {
        if (type === "text" && message["parent_tool_use_id"] == null) this.#text = content;
        const kind = type === "text" ? "text" : "thinking";
        const sent = streamed?.[kind] ?? "";
        if (sent.startsWith(content)) {
          if (streamed !== undefined) streamed[kind] = sent.slice(content.length);
          continue;
        }
        if (streamed !== undefined) streamed[kind] = "";
        const isRest = sent !== "" && content.startsWith(sent);
        const as = isRest ? (`agent:${kind}:delta` as const) : (`agent:${kind}` as const);
        events.push(this.#event({ type: as, content: isRest ? content.slice(sent.length) : content }));
      } else if (type === "tool_use") {
        const tool = { toolName: String(block["name"]), toolInput: block["input"] ?? null, began: this.#call.now() };
        this.#tools.set(String(block["id"]), tool);
      }
    }
    const error = message["error"];
    // The call's result says the same again, and less of why. What another answer follows was overcome.
    this.#recordedError = typeof error === "string" ? this.#error(error, this.#text || error) : undefined;
    if (this.#recordedError !== undefined) events.push(this.#recordedError);
    return events;
  }

  #toolResults(message: Fields): AgentEvent[] {
    const inner = isObject(message["message"]) ? message["message"] : {};
    const blocks = Array.isArray(inner["content"]) ? inner["content"].filter(isObject) : [];
    const events: AgentEvent[] = [];
    for (const block of blocks) {
      const id = String(block["tool_use_id"]);
      const tool = block["type"] === "tool_result" ? this.#tools.get(id) : undefined;
      if (tool === undefined) continue;
      this.#tools.delete(id);
      const output = block["content"] ?? null;
      const failed = block["is_error"] === true;
      events.push(this.#tool(tool, output, failed ? textOf(output) : undefined));
    }
    return events;
  }

  #tool({ toolName, toolInput, began }: OpenTool, toolOutput: unknown, error: string | undefined): AgentEvent {
    const durationMs = Math.max(0, this.#call.now() - began);
    return this.#event({
      type: "agent:tool",
      toolName,
      toolInput,
      toolOutput,
      durationMs,
      ...(error !== undefined && { error }),
    });
  }

  #unfinishedTools(why: string): AgentEvent[] {
    const events = [...this.#tools.values()].map((tool) => this.#tool(tool, null, why));
    this.#tools.clear();
    return events;
  }

  #result(message: Fields): AgentEvent[] {
    const events = [...this.#start(message), ...this.#unfinishedTools("the agent ended before the tool did")];
    const text = message["result"] ?? message["text"];
    const said = typeof text === "string" ? text : undefined;
    const subtype = typeof message["subtype"] === "string" ? message["subtype"] : "success";
    const isError = subtype !== "success" || message["is_error"] === true;
    if (!isError && this.#toldEarly && this.#recordedComplete === undefined && this.ending !== undefined) {
      this.ending = { ...this.ending, text: said ?? this.ending.text };
      return events;
    }
    if (!isError) return [...events, this.#complete(message, said)];
    const errors = Array.isArray(message["errors"]) ? message["errors"].map(String).join("; ") : "";
    const errorType = subtype === "success" ? "error_during_execution" : subtype;
    const why = errors || said || this.#recordedError?.message || `the agent ended with ${errorType}`;
    return [...events, ...this.#failedOnce(errorType, why, message)];
  }

  #complete(result: Fields, said: string | undefined): AgentEvent {
    const recorded = this.#recordedComplete ?? {};
    this.#recordedComplete = undefined;
    const final = typeof recorded["result"] === "string" ? recorded["result"] : (said ?? this.#text);
    const complete: Own<AgentCompleteEvent> = {
      type: "agent:complete",
      result: final,
      usage: { inputTokens: 0, outputTokens: 0 },
      durationMs: Math.max(0, this.#call.now() - this.#began),
      numTurns: Math.max(1, this.#turns),
      ...figuresOf(result),
      ...figuresOf(recorded),
    };
    const event = this.#event(complete) as AgentCompleteEvent;
    this.ending = { text: said ?? final, complete: event };
    return event;
  }

  /** As `#failed`, unless the same error was recorded already. */
  #failedOnce(errorType: string, message: string, details?: unknown): AgentEvent[] {
    const error = this.#recordedError;
    if (error === undefined || (error.errorType !== errorType && error.message !== message)) {
      return [this.#failed(errorType, message, details)];
    }
    this.ending = { text: this.#text, error, subtype: error.errorType };
    return [];
  }

  #failed(errorType: string, message: string, details?: unknown): AgentEvent {
    const error = this.#error(errorType, message, details);
    this.ending = { text: this.#text, error, subtype: errorType };
    return error;
  }

  #error(errorType: string, message: string, details?: unknown): AgentErrorEvent {
    return this.#event({ type: "agent:error", errorType, message, ...defined({ details }) }) as AgentErrorEvent;
  }

  #event(own: Own): AgentEvent {
    const { nodeId, runId } = this.#call;
    return { ...own, nodeId, runId, timestamp: Math.trunc(this.#call.now()) } as AgentEvent;
  }
}

const NETWORK = /ECONN|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|EPIPE|UND_ERR|fetch failed|socket hang up/;

/** What kind of error a call threw. */
function errorTypeOf(cause: unknown): string {
  if (!isObject(cause)) return "error_during_execution";
  const { name, code, message, status, cause: below } = cause;
  if (name === "AbortError" || code === "ABORT_ERR" || code === "aborted") return "error_user";
  if (status === 429) return "rate_limit";
  if (NETWORK.test(`${String(code)} ${String(message)}`)) return "network_error";
  return isObject(below) ? errorTypeOf(below) : "error_during_execution";
}

/** What a tool's output says, as text. */
function textOf(output: unknown): string {
  if (typeof output === "string") return output;
  const blocks = Array.isArray(output) ? output : [];
  const texts = blocks.filter(isObject).map((block) => block["text"]);
  return texts.filter((text) => typeof text === "string").join("\n") || JSON.stringify(output);
}
