import type { AgentCompleteEvent, AgentUsage } from "../flow-types.js";
import { isObject } from "./query.js";

/** What a call cost and made, as its result tells it, in either spelling: that of the agent's library, or of fixtures. */
export type Figures = Partial<
  Pick<AgentCompleteEvent, "usage" | "modelUsage" | "structuredOutput" | "totalCostUsd" | "durationMs" | "numTurns">
>;

/** Reads the figures of a result. @internal */
export function figuresOf(result: Record<string, unknown>): Figures {
  const models = result["modelUsage"] ?? result["model_usage"];
  const structured = result["structuredOutput"] ?? result["structured_output"];
  return defined({
    usage: isObject(result["usage"]) ? usageOf(result["usage"]) : undefined,
    modelUsage: isObject(models) ? modelUsageOf(models) : undefined,
    structuredOutput: structured,
    totalCostUsd: amount(result["totalCostUsd"] ?? result["total_cost_usd"]),
    durationMs: amount(result["durationMs"] ?? result["duration_ms"]),
    numTurns: count(result["numTurns"] ?? result["num_turns"]),
  }) as Figures;
}

function usageOf(usage: Record<string, unknown>): AgentUsage {
  const of = (camel: string, snake: string) => count(usage[camel] ?? usage[snake]);
  return defined({
    inputTokens: of("inputTokens", "input_tokens") ?? 0,
    outputTokens: of("outputTokens", "output_tokens") ?? 0,
    cacheCreationInputTokens: of("cacheCreationInputTokens", "cache_creation_input_tokens"),
    cacheReadInputTokens: of("cacheReadInputTokens", "cache_read_input_tokens"),
  }) as AgentUsage;
}

function modelUsageOf(models: Record<string, unknown>): NonNullable<Figures["modelUsage"]> {
  const of = (model: unknown) => {
    const { inputTokens, outputTokens } = usageOf(isObject(model) ? model : {});
    return { inputTokens, outputTokens };
  };
  return Object.fromEntries(Object.entries(models).map(([name, model]) => [name, of(model)]));
}

/** A number from 0, if it is one. */
function amount(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && Number.isFinite(value) ? value : undefined;
}

/** A whole number from 0, if it is one. */
function count(value: unknown): number | undefined {
  const number = amount(value);
  return number === undefined ? undefined : Math.trunc(number);
}

/** An object without the fields that are undefined. @internal */
export function defined<T extends object>(value: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as never;
}
