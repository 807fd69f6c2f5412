import type { AgentUsage } from "../flow-types.js";
import type { FixtureEvent, FixtureOutput } from "../testing/fixtures.js";
import type { QueryMessage } from "./query.js";

/** The types of the events of an agent. @internal */
export const AGENT_EVENT_TYPES = [
  "agent:start",
  "agent:thinking:delta",
  "agent:thinking",
  "agent:text:delta",
  "agent:text",
  "agent:tool",
  "agent:error",
  "agent:complete",
] as const;

type Fields = Record<string, unknown>;

/** A tool call that has no result yet. */
interface OpenCall {
  name: string;
  input: unknown;
  began: number;
}

/**
 * Makes the eight agent events, and the output, of what an agent's library says: messages of the Claude Agent SDK, or
 * events that are such already.
 *
 * Deltas are told as they stream; complete blocks only where nothing streamed them before.
 *
 * @internal
 */
export class Translator {
  /** The agent's own session, once it was told. */
  sessionId: string | undefined;
  /** The model, once it was told. */
  model: string | undefined;
  /** What came of it, once it is over. */
  output: FixtureOutput | undefined;
  /** Why it isn't well over. */
  failure: { errorType: string; message: string } | undefined;
  readonly #began = Date.now();
  readonly #calls = new Map<string, OpenCall>();
  readonly #streamed = { text: false, thinking: false };
  #text = "";
  #turns = 0;

  /** The events of a message, but for `agent:start`, which whoever calls tells itself. */
  events(message: QueryMessage): FixtureEvent[] {
    if (typeof message["session_id"] === "string") this.sessionId = message["session_id"];
    if ((AGENT_EVENT_TYPES as readonly string[]).includes(message.type)) return this.#own(message);
    switch (message.type) {
      case "system":
        if (typeof message["model"] === "string") this.model = message["model"];
        return [];
      case "stream_event":
        return this.#delta(message["event"] as Fields | undefined);
      case "assistant":
        return this.#assistant(blocksOf(message));
      case "user":
        return this.#results(blocksOf(message));
      case "result":
        return this.#result(message);
      default:
        return [];
    }
  }

  /** An event that is one of the eight already. */
  #own(event: QueryMessage): FixtureEvent[] {
    if (event.type === "agent:start") {
      if (typeof event["sessionId"] === "string") this.sessionId = event["sessionId"];
      if (typeof event["model"] === "string") this.model = event["model"];
      return [];
    }
    // What it is complete with is told by the result that follows.
    return event.type === "agent:complete" ? [] : [event];
  }

  #delta(event: Fields | undefined): FixtureEvent[] {
    const delta = event?.["type"] === "content_block_delta" ? (event["delta"] as Fields | undefined) : undefined;
    if (delta?.["type"] === "text_delta" && typeof delta["text"] === "string") {
      this.#streamed.text = true;
      return [{ type: "agent:text:delta", content: delta["text"] }];
    }
    if (delta?.["type"] === "thinking_delta" && typeof delta["thinking"] === "string") {
      this.#streamed.thinking = true;
      return [{ type: "agent:thinking:delta", content: delta["thinking"] }];
    }
    return [];
  }

  #assistant(blocks: Fields[]): FixtureEvent[] {
    const events: FixtureEvent[] = [];
    this.#turns += 1;
    for (const block of blocks) {
      if (block["type"] === "text" && typeof block["text"] === "string") {
        this.#text = block["text"];
        if (!this.#streamed.text) events.push({ type: "agent:text", content: block["text"] });
      } else if (block["type"] === "thinking" && typeof block["thinking"] === "string") {
        if (!this.#streamed.thinking) events.push({ type: "agent:thinking", content: block["thinking"] });
      } else if (block["type"] === "tool_use") {
        const call = { name: String(block["name"]), input: block["input"] ?? null, began: Date.now() };
        this.#calls.set(String(block["id"]), call);
      }
    }
    this.#streamed.text = false;
    this.#streamed.thinking = false;
    return events;
  }

  #results(blocks: Fields[]): FixtureEvent[] {
    const events: FixtureEvent[] = [];
    for (const block of blocks) {
      const id = String(block["tool_use_id"]);
      const call = block["type"] === "tool_result" ? this.#calls.get(id) : undefined;
      if (call === undefined) continue;
      this.#calls.delete(id);
      const output = block["content"] ?? null;
      const error = block["is_error"] === true ? { error: typeof output === "string" ? output : JSON.stringify(output) } : {};
      const durationMs = Date.now() - call.began;
      events.push({
        type: "agent:tool",
        toolName: call.name,
        toolInput: call.input,
        toolOutput: output,
        durationMs,
        ...error,
      });
    }
    return events;
  }

  #result(result: QueryMessage): FixtureEvent[] {
    const text = [result["result"], result["text"]].find((text) => typeof text === "string") ?? this.#text;
    const output: FixtureOutput = {
      text: text as string,
      usage: usageOf(result["usage"]),
      durationMs: numberOf(result["duration_ms"] ?? result["durationMs"]) ?? Date.now() - this.#began,
      numTurns: numberOf(result["num_turns"] ?? result["numTurns"]) ?? this.#turns,
    };
    const sessionId = typeof result["sessionId"] === "string" ? result["sessionId"] : this.sessionId;
    if (sessionId !== undefined) {
      this.sessionId = sessionId;
      output.sessionId = sessionId;
    }
    const cost = numberOf(result["total_cost_usd"] ?? result["totalCostUsd"]);
    if (cost !== undefined) output["totalCostUsd"] = cost;
    const structured = result["structured_output"] ?? result["structuredOutput"];
    if (structured !== undefined) output["structuredOutput"] = structured;
    const models = modelUsageOf(result["modelUsage"]);
    if (models !== undefined) output["modelUsage"] = models;
    this.output = output;

    const errorType = String(result["subtype"] ?? "success");
    if (errorType === "success" && result["is_error"] !== true) {
      const { text: said, sessionId: _, ...rest } = output;
      return [{ type: "agent:complete", result: said, ...rest }];
    }
    const errors = Array.isArray(result["errors"]) ? result["errors"].map(String) : [];
    const message = errors.join("; ") || output.text || `the agent ended with ${errorType}`;
    this.failure = { errorType: errorType === "success" ? "error" : errorType, message };
    return [{ type: "agent:error", ...this.failure, details: result }];
  }
}

function blocksOf(message: QueryMessage): Fields[] {
  const content = (message["message"] as Fields | undefined)?.["content"];
  if (typeof content === "string") return [{ type: "text", text: content }];
  return Array.isArray(content) ? (content as Fields[]) : [];
}

function numberOf(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

function usageOf(value: unknown): AgentUsage {
  const usage = (value ?? {}) as Fields;
  const tokens = (snake: string, camel: string) => numberOf(usage[camel] ?? usage[snake]);
  const created = tokens("cache_creation_input_tokens", "cacheCreationInputTokens");
  const read = tokens("cache_read_input_tokens", "cacheReadInputTokens");
  return {
    inputTokens: tokens("input_tokens", "inputTokens") ?? 0,
    outputTokens: tokens("output_tokens", "outputTokens") ?? 0,
    ...(created !== undefined && { cacheCreationInputTokens: created }),
    ...(read !== undefined && { cacheReadInputTokens: read }),
  };
}

function modelUsageOf(value: unknown): Record<string, { inputTokens: number; outputTokens: number }> | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const models = Object.entries(value).map(([model, usage]) => {
    const { inputTokens, outputTokens } = usageOf(usage);
    return [model, { inputTokens, outputTokens }] as const;
  });
  return Object.fromEntries(models);
}
