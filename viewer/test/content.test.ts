// What a message says, and what a tool gave, in the form of every provider.

import { expect, test } from "vitest";

import { argumentsOf, besideResults, callsIn, parsedText, resultIn, saidBy, shown } from "../src/worker/content.js";
import { childrenOf, findIn, nodeOf } from "../src/worker/details.js";
import { parseExact } from "../src/worker/exact.js";

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

test("an item of a provider's own tool says what it did", () => {
  const search = { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "oslo" } };
  expect(saidBy(search).text).toMatch(/^web_search_call\n[^]*query[^]*oslo/);
  expect(saidBy(search).text).not.toContain("ws_1");
  expect(saidBy({ type: "function_call", call_id: "c", name: "ls", arguments: "{}" }).text).toBe("");
  expect(saidBy({ type: "custom_tool_call_output", call_id: "c", output: "one" }).text).toBe("one");
});

test("a part that is no result is none", () => {
  for (const part of [{ type: "text", text: "toolResult" }, { toolResult: 7 }, {}]) expect(resultIn(part)).toBeUndefined();
});

test("numbers are shown as they were written", () => {
  const text = '{"id":1234567890123456789,"f":1.0,"e":1e400,"z":-0,"p":1.10,"n":12,"d":0.5}';
  const value = parseExact(text);
  expect(shown(value)).toBe(text.replaceAll(/([{,])"/g, '$1\n  "').replaceAll(":", ": ").replace("}", "\n}"));
  expect(childrenOf(value, "", 0, 9).map(({ kind, text }) => [kind, text])).toEqual([["number", "1234567890123456789"], ["number", "1.0"], ["number", "1e400"], ["number", "-0"], ["number", "1.10"], ["number", "12"], ["number", "0.5"]]);
  expect(findIn(value, "456789")).toEqual(["/id"]);
  expect(nodeOf("", "", parseExact("12345678901234567890"))).toMatchObject({ kind: "number", text: "12345678901234567890" });
  expect(shown(argumentsOf({ arguments: '{"id":9007199254740993}' }))).toBe('{\n  "id": 9007199254740993\n}');
});

test("JSON with a name twice stays the text that it is", () => {
  for (const text of ['{"user":1,"user":2}', '[{"a":{"b":":","b":""}}]']) expect(parsedText(text)).toBe(text);
  for (const text of ['{"user":1,"other":{"user":":"}}', '[1,{"a\\"b:":1}]', "[]", '":"']) expect(parsedText(text)).toEqual(JSON.parse(text));
});

test("what is said beside results is what isn't one", () => {
  const result = { type: "tool_result", tool_use_id: "c", content: "a.txt" };
  expect(saidBy(besideResults({ role: "user", content: [result, { type: "text", text: "Stop." }] })).text).toBe("Stop.");
  expect(saidBy(besideResults({ role: "user", parts: [{ functionResponse: { name: "ls", response: {} } }, { text: "Stop." }] })).text).toBe("Stop.");
  expect(besideResults({ role: "tool", content: "x" })).toEqual({ role: "tool", content: "x" });
});

test("items of OpenAI's Responses say what a tool gave, and what was thought", () => {
  expect(saidBy({ type: "function_call_output", call_id: "c", output: "a.txt" }).text).toBe("a.txt");
  const output = [{ type: "input_text", text: "A picture." }, { type: "input_image", image_url: "data:image/png;base64,iVBORw0KGgo=" }];
  expect(saidBy({ type: "function_call_output", call_id: "c", output })).toMatchObject({ text: "A picture.", images: [{ type: "image/png" }] });
  const reasoning = { type: "reasoning", summary: [{ type: "summary_text", text: "Look." }], content: [{ type: "reasoning_text", text: "Then tell." }], encrypted_content: "x" };
  expect(saidBy(reasoning)).toMatchObject({ text: "", thinking: "Look.\nThen tell." });
  expect(saidBy({ type: "reasoning", summary: [], encrypted_content: "x" })).toMatchObject({ text: "", thinking: "[redacted thinking]" });
  expect(saidBy({ type: "reasoning", summary: [] })).toMatchObject({ text: "", thinking: "" });
});

test.each([
  ["Anthropic", { type: "thinking", thinking: "Hm.", signature: "s" }, "Hm."],
  ["Anthropic, encrypted", { type: "redacted_thinking", data: "AAAA" }, "[redacted thinking]"],
  ["Mistral", { type: "thinking", thinking: [{ type: "text", text: "Hm." }] }, "Hm."],
  ["the AI SDK", { type: "reasoning", text: "Hm.", providerOptions: {} }, "Hm."],
  ["the AI SDK, encrypted", { type: "redacted-reasoning", data: "AAAA" }, "[redacted thinking]"],
  ["Gemini", { text: "Hm.", thought: true }, "Hm."],
  ["Bedrock", { reasoningContent: { reasoningText: { text: "Hm.", signature: "s" } } }, "Hm."],
  ["Bedrock, encrypted", { reasoningContent: { redactedContent: "AAAA" } }, "[redacted thinking]"],
])("what a model of %s thinks isn't what it answers", (_, part, thinking) => {
  const message = { role: "assistant", content: [part, { text: "So.", ...("type" in part && { type: "text" }) }] };
  expect(saidBy(message)).toMatchObject({ text: "So.", thinking });
});

const PNG = "iVBORw0KGgoAAAANSUhEUg==";

test.each([
  ["OpenAI's chats", { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } }],
  ["OpenAI's Responses", { type: "input_image", image_url: `data:image/png;base64,${PNG}` }],
  ["Anthropic", { type: "image", source: { type: "base64", media_type: "image/png", data: PNG } }],
  ["the AI SDK", { type: "image", image: PNG, mediaType: "image/png" }],
  ["the AI SDK, without its type", { type: "image", image: `data:image/png;name=a;base64,${PNG}` }],
  ["the AI SDK, as a file", { type: "file", data: PNG, mediaType: "image/png" }],
  ["the AI SDK, as a result", { type: "tool-result", toolCallId: "c", output: { type: "content", value: [{ type: "media", data: PNG, mediaType: "image/png" }] } }],
  ["Gemini", { inlineData: { mimeType: "image/png", data: PNG } }],
  ["Gemini's client for Python", { inline_data: { mime_type: "image/png", data: PNG } }],
  ["Gemini, as a result", { functionResponse: { name: "picture", response: { output: "" }, parts: [{ inlineData: { mimeType: "image/png", data: PNG } }] } }],
  ["Bedrock", { image: { format: "png", source: { bytes: PNG } } }],
  ["Bedrock, as a result", { toolResult: { toolUseId: "c", content: [{ image: { format: "png", source: { bytes: PNG } } }] } }],
  ["MCP", { type: "image", data: PNG, mimeType: "image/png" }],
])("an image of %s is one, and no text", (_, part) => {
  const { text, images } = saidBy({ role: "user", content: [part] });
  expect([text, images.map(({ data }) => data)]).toEqual(["", [PNG]]);
});

test("data of another type is told by that and its length, and what stands elsewhere is shown as it is", () => {
  expect(saidBy({ content: [{ type: "file", data: "JVBERi0x", mediaType: "application/pdf" }] })).toMatchObject({ text: "[application/pdf, 6 bytes]", images: [] });
  expect(saidBy({ content: [{ type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBERi0x" } }] }).text).toBe("[application/pdf, 6 bytes]");
  expect(saidBy({ content: [{ type: "text", text: "Hello.", source: { data: "a.txt" } }] }).text).toBe("Hello.");
  for (const part of [
    { type: "image_url", image_url: { url: "https://example.com/a.png" } },
    { type: "input_image", image_url: "a.png" },
    { type: "image", image: "https://example.com/a.png" },
    { type: "document", source: { type: "text", media_type: "text/plain", data: "Hello." } },
  ]) expect(saidBy({ content: [part] })).toMatchObject({ text: shown(part), images: [] });
});

test.each([
  ["a recording, in OpenAI's form", { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } }, "[audio/wav, 4 bytes]"],
  ["a file of OpenAI's chats", { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0x" } }, "[a.pdf, application/pdf, 6 bytes]"],
  ["a file of OpenAI's Responses", { type: "input_file", filename: "a.pdf", file_data: "data:application/pdf;base64,JVBERi0x" }, "[a.pdf, application/pdf, 6 bytes]"],
  ["a file without its type", { type: "file", file: { filename: "a.bin", file_data: "JVBERi0x" } }, "[a.bin, 6 bytes]"],
  ["a file without a name", { type: "input_file", file_data: "JVBERi0x" }, "[data, 6 bytes]"],
  ["a file of the AI SDK's with its name", { type: "file", filename: "a.pdf", mediaType: "application/pdf", data: "JVBERi0x" }, "[a.pdf, application/pdf, 6 bytes]"],
  ["a document of Bedrock's", { document: { format: "pdf", name: "a", source: { bytes: "JVBERi0x" } } }, "[a, document/pdf, 6 bytes]"],
])("%s is told by its kind and its length, not by its letters", (_, part, text) => {
  expect(saidBy({ role: "user", content: [{ type: "text", text: "This:" }, part] })).toMatchObject({ text: `This:\n${text}`, images: [] });
});

test("a file that is elsewhere is shown as it is, and one that is an image as one", () => {
  const elsewhere = { type: "file", file: { file_id: "file-1" } };
  expect(saidBy({ content: [elsewhere] }).text).toBe(shown(elsewhere));
  expect(saidBy({ content: [{ type: "input_file", file_data: `data:image/png;base64,${PNG}` }] })).toMatchObject({ text: "", images: [{ data: PNG }] });
});

test("tools that a provider runs itself are told as calls, with what they gave", () => {
  const content = [
    { type: "server_tool_use", id: "s", name: "web_search", input: { query: "logs" } },
    { type: "web_search_tool_result", tool_use_id: "s", content: [{ type: "web_search_result", title: "Logs", url: "https://example.com", encrypted_content: "AAAA" }] },
    { type: "mcp_tool_use", id: "m", name: "read", server_name: "files", input: {} },
    { type: "mcp_tool_result", tool_use_id: "m", is_error: false, content: [{ type: "text", text: "a.txt" }] },
    { type: "tool-call", toolCallId: "p", toolName: "run", input: { code: "1 + 1" }, providerExecuted: true },
    { type: "tool-result", toolCallId: "p", toolName: "run", output: { type: "text", value: "2" } },
    { type: "text", text: "Done." },
  ];
  const told = ["calls web_search", "query: logs", "Logs https://example.com", "calls read", "a.txt", "calls run", "code: 1 + 1", "2", "Done."];
  expect(saidBy({ role: "assistant", content }).text).toBe(told.join("\n"));
});

test.each([
  ["OpenAI", { tool_calls: [{ id: "c", function: { name: "ls" } }, { id: "d", function: { name: "cat" } }] }],
  ["OpenAI in camelCase", { toolCalls: [{ id: "c", function: { name: "ls" } }, { id: "d", function: { name: "cat" } }] }],
  ["Anthropic", { content: [{ type: "tool_use", name: "ls" }, { type: "text", text: "and", name: "none" }, { type: "tool_use", name: "cat" }] }],
  ["the AI SDK", { content: [{ type: "tool-call", toolName: "ls" }, { type: "tool-call", toolName: "cat" }] }],
  ["Bedrock", { content: [{ toolUse: { name: "ls" } }, { toolUse: { name: "cat" } }] }],
  ["Gemini", { parts: [{ functionCall: { name: "ls" } }, { function_call: { name: "cat" } }] }],
])("a message of %s that says nothing names the tools that it calls", (_, message) => {
  expect(callsIn({ role: "assistant", ...message })).toBe("calls ls, cat");
});

test("a call that is a field or an item names its tool, and what calls none names none", () => {
  expect(callsIn({ role: "assistant", content: null, function_call: { name: "ls", arguments: "{}" } })).toBe("calls ls");
  expect(callsIn({ type: "function_call", call_id: "c", name: "ls", arguments: "{}" })).toBe("calls ls");
  for (const none of [undefined, "text", { role: "user", name: "me", content: "" }, { type: "reasoning", summary: [] }]) expect(callsIn(none)).toBe("");
});

test("what a model refuses, speaks or reasons is said too", () => {
  expect(saidBy({ role: "assistant", content: null, refusal: "I won't." }).text).toBe("I won't.");
  expect(saidBy({ role: "assistant", content: [{ type: "refusal", refusal: "No." }] }).text).toBe("No.");
  expect(saidBy({ role: "assistant", content: null, audio: { id: "a", transcript: "Hello." } }).text).toBe("Hello.");
  expect(saidBy({ role: "assistant", content: "Yes.", reasoning: "Hm." })).toMatchObject({ text: "Yes.", thinking: "Hm." });
});
