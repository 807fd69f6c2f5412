import type { QueryFn, QueryMessage } from "../../src/testing/index.js";

/** The messages that `@anthropic-ai/claude-agent-sdk` would tell, with the fields that tests don't look at left out. */
export const init = (session: string) => ({ type: "system", subtype: "init", session_id: session, model: "claude-x" });

let messages = 0;

export const assistant = (...content: object[]) => ({
  type: "assistant",
  message: { id: `m${++messages}`, role: "assistant", content },
  parent_tool_use_id: null,
});

export const toolResult = (id: string, content: unknown, failed = false) => ({
  type: "user",
  message: { role: "user", content: [{ type: "tool_result", tool_use_id: id, content, is_error: failed }] },
  parent_tool_use_id: null,
});

/** A message as it streams, piece by piece, then as a whole. */
export const streamed = (...content: ({ type: "text"; text: string } | { type: "thinking"; thinking: string })[]) => {
  const whole = assistant(...content);
  const event = (event: object) => ({ type: "stream_event", event, parent_tool_use_id: null });
  const pieces = content.flatMap((block) => {
    const words = ("text" in block ? block.text : block.thinking).match(/\S+\s*/g) ?? [];
    return words.map((word) => event({ type: "content_block_delta", delta: { type: `${block.type}_delta`, [block.type]: word } }));
  });
  return [event({ type: "message_start", message: { id: whole.message.id } }), ...pieces, whole];
};

export const success = (result: string, more: object = {}) => ({
  type: "result",
  subtype: "success",
  is_error: false,
  result,
  duration_ms: 4523,
  num_turns: 3,
  total_cost_usd: 0.25,
  usage: { input_tokens: 10, output_tokens: 20, cache_read_input_tokens: 5, server_tool_use: null },
  modelUsage: { "claude-x": { inputTokens: 10, outputTokens: 20, contextWindow: 200_000 } },
  ...more,
});

export interface Called {
  prompt: string | AsyncIterable<unknown>;
  options: Record<string, unknown>;
}

/** A query that tells these messages, one list for each call, and notes what it was called with. */
export function telling(...calls: QueryMessage[][]): QueryFn & { called: Called[] } {
  const called: Called[] = [];
  const query: QueryFn = async function* ({ prompt, options = {} }) {
    called.push({ prompt, options: options as Record<string, unknown> });
    yield* calls[called.length - 1] ?? [];
  };
  return Object.assign(query, { called });
}

/** Everything that a stream yields. */
export async function all<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of stream) items.push(item);
  return items;
}
