// A program that uses the package with the published agent SDK, checked by its types. It is never run.
import {
  type Options,
  type Query,
  type SDKAssistantMessage,
  type SDKMessage,
  type SDKPartialAssistantMessage,
  type SDKResultMessage,
  type SDKSystemMessage,
  type SDKUserMessage,
  query,
} from "@anthropic-ai/claude-agent-sdk";
import type { Store } from "runlog";
import { type QueryFn, createClaudeNode } from "runlog/claude";
import { createMockQuery, loadFixtures, recordFixtures } from "runlog/testing";

const options: Options = { maxTurns: 3, includePartialMessages: true, permissionMode: "plan" };
const fixtures = loadFixtures("fixtures");

/** The real query, one that is recorded, and one that is played: the same to whoever calls them. */
export const real: QueryFn = query;
export const recorded = recordFixtures(query, { output: "fixtures", nodeId: (params) => String(params.options?.model) });
export const mock = createMockQuery<typeof query>({ fixtures });
export const queries: (typeof query)[] = [query, recorded, mock, recordFixtures(mock)];

/** What the queries take and give is what the SDK's own does. */
export async function call(prompts: AsyncIterable<SDKUserMessage>): Promise<string[]> {
  const said: string[] = [];
  for (const each of queries) {
    const asked: Query = each({ prompt: prompts, options });
    await asked.interrupt();
    for await (const message of asked) said.push((message satisfies SDKMessage).type);
  }
  for await (const message of mock({ prompt: "Hello", options })) if (message.type === "result") said.push(message.subtype);
  // @ts-expect-error a prompt is no number
  recorded({ prompt: 1 });
  // @ts-expect-error the SDK has no such option
  mock({ prompt: "Hello", options: { maxTurnz: 3 } });
  return said;
}

/** Nodes over each of them. */
export async function flow(store: Store): Promise<string[]> {
  const nodes = queries.map((queryFn) => createClaudeNode({ queryFn, options, resumeWith: "resume" }));
  nodes.push(createClaudeNode(), createClaudeNode({ options }));
  const flow = await store.flows.create();
  const results = nodes.map((node) => node.run(flow, { nodeId: "a", prompt: "Hello", options: { model: "sonnet" } }));
  return (await Promise.all(results)).map(({ text, usage }) => `${text} ${usage.inputTokens}`);
}

/** What a node reads of the SDK's messages is there, under these names and of these types. */
export function read(
  start: Extract<SDKSystemMessage, { subtype: "init" }>,
  partial: SDKPartialAssistantMessage,
  assistant: SDKAssistantMessage,
  user: SDKUserMessage,
  result: SDKResultMessage,
): unknown[] {
  const types: ["system", "stream_event", "assistant", "user", "result"] = [
    start.type,
    partial.type,
    assistant.type,
    user.type,
    result.type,
  ];
  const session: string = start.session_id;
  const model: string = start.model;
  const ids: (string | null)[] = [partial.parent_tool_use_id, assistant.parent_tool_use_id];
  const told: unknown[] = [types, session, model, ids];
  if (partial.event.type === "message_start") told.push(partial.event.message.id satisfies string);
  if (partial.event.type === "content_block_delta") {
    const { delta } = partial.event;
    if (delta.type === "text_delta") told.push(delta.text satisfies string);
    if (delta.type === "thinking_delta") told.push(delta.thinking satisfies string);
  }
  for (const block of assistant.message.content) {
    if (block.type === "text") told.push(block.text satisfies string);
    if (block.type === "thinking") told.push(block.thinking satisfies string);
    if (block.type === "tool_use") told.push(block.id satisfies string, block.name satisfies string, block.input satisfies unknown);
  }
  told.push(assistant.error satisfies string | undefined);
  for (const block of typeof user.message.content === "string" ? [] : user.message.content) {
    if (block.type === "tool_result") told.push(block.tool_use_id satisfies string, block.is_error satisfies boolean | undefined);
  }
  const figures: { usage: { input_tokens: number; output_tokens: number }; total_cost_usd: number } = result;
  const turns: { duration_ms: number; num_turns: number; is_error: boolean } = result;
  const models: Record<string, { inputTokens: number; outputTokens: number }> = result.modelUsage;
  told.push(figures, turns, models);
  if (result.subtype === "success") told.push(result.result satisfies string, result.structured_output satisfies unknown);
  else told.push(result.errors satisfies string[]);
  return told;
}
