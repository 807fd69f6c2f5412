// What a message says, and what a tool gave, in the form of every provider.

import { expect, test } from "vitest";

import { resultIn, saidBy } from "../src/worker/content.js";

test.each([
  ["OpenAI", { role: "assistant", content: "I look.", tool_calls: [{ id: "c" }] }],
  ["OpenAI in camelCase", { role: "assistant", content: "I look.", toolCalls: [{ id: "c" }] }],
  ["Anthropic", { role: "assistant", content: [{ type: "text", text: "I look." }, { type: "tool_use", id: "c", name: "ls", input: {} }] }],
  ["the AI SDK", { role: "assistant", content: [{ type: "text", text: "I look." }, { type: "tool-call", toolCallId: "c", toolName: "ls", input: {} }] }],
  ["Bedrock", { role: "assistant", content: [{ text: "I look." }, { toolUse: { toolUseId: "c", name: "ls", input: {} } }] }],
  ["Gemini", { role: "model", parts: [{ text: "I look." }, { functionCall: { name: "ls", args: {} } }] }],
])("a message of %s says its text, and no call", (_, message) => {
  expect(saidBy(message).text).toBe("I look.");
});

test.each([
  ["Anthropic", { type: "tool_result", tool_use_id: "c", content: "a.txt" }, "c", "a.txt"],
  ["the AI SDK", { type: "tool-result", toolCallId: "c", output: "a.txt" }, "c", "a.txt"],
  ["Bedrock", { toolResult: { toolUseId: "c", content: [{ text: "a.txt" }], status: "success" } }, "c", "a.txt"],
  ["Bedrock, as JSON", { toolResult: { toolUseId: "c", content: [{ json: { n: 1 } }] } }, "c", '{\n  "n": 1\n}'],
  ["the AI SDK, with its type", { type: "tool-result", toolCallId: "c", output: { type: "text", value: "a.txt" } }, "c", "a.txt"],
  ["Gemini, as text", { functionResponse: { id: "c", name: "ls", response: { output: "a.txt" } } }, "c", "a.txt"],
  ["Gemini", { functionResponse: { id: "c", name: "ls", response: { n: 1 } } }, "c", '{\n  "n": 1\n}'],
])("a result of %s names its call and says what the tool gave", (_, part, id, text) => {
  expect(resultIn(part)?.id).toBe(id);
  expect(saidBy({ content: [part] }).text).toBe(text);
});

test("a part that is no result is none", () => {
  for (const part of [{ type: "text", text: "toolResult" }, { toolResult: 7 }, {}]) expect(resultIn(part)).toBeUndefined();
});
