// What models took: as messages tell it, and where none does, as runs and requests say it of themselves.

import { isObject } from "./content.js";
import type { Lane } from "./model.js";

/** Tokens, and what they cost. */
export interface Usage {
  /** All of them, also those of which it isn't known whether they went in or came out. */
  tokens: number;
  tokensIn: number;
  tokensOut: number;
  cost: number;
}

/** The names by which the usage of a run or a request, which is the caller's own JSON, may tell each figure. */
const NAMES: Record<keyof Usage, readonly string[]> = {
  tokens: ["tokens", "totalTokens", "total_tokens"],
  tokensIn: ["inputTokens", "input_tokens", "promptTokens", "prompt_tokens"],
  tokensOut: ["outputTokens", "output_tokens", "completionTokens", "completion_tokens"],
  cost: ["cost", "totalCostUsd", "total_cost_usd", "costUsd", "cost_usd"],
};

/** Takes in what a run or a request of a lane says that it took, which is all of it each time; of what isn't known, nothing. */
export function takeUsage(lane: Lane, id: string, json: unknown): void {
  if (!isObject(json)) return;
  const figure = (names: readonly string[]) => {
    const found = names.map((name) => json[name]).find((value) => typeof value === "number" && Number.isFinite(value) && value >= 0);
    return typeof found === "number" ? found : 0;
  };
  const [tokensIn, tokensOut] = [figure(NAMES.tokensIn), figure(NAMES.tokensOut)];
  lane.said.set(id, { tokens: tokensIn + tokensOut || figure(NAMES.tokens), tokensIn, tokensOut, cost: figure(NAMES.cost) });
}

/** What the models of a lane took. Tokens or a cost that no message tells are those that its runs and requests say. */
export function usageOf(lane: Lane): Usage {
  const said = { tokens: 0, tokensIn: 0, tokensOut: 0, cost: 0 };
  for (const { tokens, tokensIn, tokensOut, cost } of lane.said.values()) {
    said.tokens += tokens;
    said.tokensIn += tokensIn;
    said.tokensOut += tokensOut;
    said.cost += cost;
  }
  const own = lane.tokensIn + lane.tokensOut;
  const { tokens, tokensIn, tokensOut } = own > 0 ? { ...lane, tokens: own } : said;
  return { tokens, tokensIn, tokensOut, cost: lane.cost > 0 ? lane.cost : said.cost };
}
