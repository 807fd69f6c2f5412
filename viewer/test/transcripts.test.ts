// Transcripts of other tools: all that was said in them is shown, and what can't be read is told.

import { expect, test } from "vitest";

import { lines, pick, viewer } from "./page.js";

const app = viewer();
const line = (value: unknown) => JSON.stringify(value);
const user = (content: string) => ({ role: "user", content });

/** A page with a file that was picked. */
async function picked(name: string, values: (string | object)[]) {
  const { page, told, close } = await app.open("");
  await pick(page, [{ name, text: values.map((value) => (typeof value === "string" ? value : line(value))).join("\n") }]);
  return { page, told, close, said: async () => (await lines(page)).map((text) => text.replaceAll("\n", " ").trim()) };
}

test("lines that break off, are no JSON or no message are told of, and the others are shown", async () => {
  const cut = (text: string) => line({ role: "assistant", content: text }).slice(0, 30);
  const { page, told, said, close } = await picked("cut.jsonl", [user("first"), cut("middle"), user("third"), { role: "critic", content: "No role that is known." }, "", cut("the end")]);
  await expect.poll(said).toEqual(["#1 user first", "#2 user third"]);
  const alert = page.getByRole("alert");
  await expect.poll(() => alert.innerText()).toContain("Of “cut.jsonl” lines 2, 6 are no JSON, or break off, and aren't shown.");
  await expect.poll(() => alert.innerText()).toContain("Of “cut.jsonl” line 4 has what is no message, which isn't shown.");
  expect(told).toEqual([]);
  await close();
});

test("what a model of Gemini's says is shown, as the assistant's", async () => {
  const { page, said, close } = await picked("gemini.jsonl", [{ role: "user", parts: [{ text: "Question." }] }, { role: "model", parts: [{ text: "Answer." }] }]);
  await expect.poll(said).toEqual(["#1 user Question.", "#2 assistant Answer."]);
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  await close();
});

test("calls and results that are items of their own are shown", async () => {
  const items = [{ type: "function_call", call_id: "c1", name: "ls", arguments: "{}" }, { type: "function_call_output", call_id: "c1", output: "a.txt" }];
  const { page, close } = await picked("responses.jsonl", [user("List."), ...items, { role: "assistant", content: "Done." }]);
  const call = page.locator(".call", { hasText: "ls" });
  await expect.poll(() => call.getByRole("img", { name: "succeeded" }).count()).toBe(1);
  await page.locator("#tab-events").click();
  await expect.poll(() => page.getByRole("option", { name: "tool result" }).count()).toBe(1);
  await close();
});

test("a list of chats is a session each", async () => {
  const { page, close } = await picked("chats.json", [line([{ messages: [user("One.")] }, { messages: [user("Two.")] }])]);
  await expect.poll(() => page.getByRole("treeitem").allInnerTexts()).toEqual(expect.arrayContaining([expect.stringContaining("One."), expect.stringContaining("Two.")]));
  await close();
});

test("a session of Claude Code's with one line is shown; notes of its own aren't told of", async () => {
  const spoken = { type: "user", sessionId: "s", timestamp: "2026-01-01T00:00:00Z", message: user("Hello.") };
  for (const values of [[spoken], [{ type: "summary", summary: "S", leafUuid: "x" }, spoken]]) {
    const { page, said, close } = await picked("claude.jsonl", values);
    await expect.poll(said).toEqual(["#1 user Hello."]);
    await expect.poll(() => page.getByRole("alert").count()).toBe(0);
    await close();
  }
});

test("what an answer took is counted once, though Claude Code writes a line for each of its parts", async () => {
  const spoken = (message: object) => ({ type: "assistant", sessionId: "s", timestamp: "2026-01-01T00:00:00Z", message });
  const answer = (id: string, part: object, output_tokens: number) => spoken({ id, role: "assistant", content: [part], usage: { input_tokens: 10, cache_read_input_tokens: 100, output_tokens } });
  const { page, told, close } = await picked("claude.jsonl", [
    { ...spoken(user("Look.")), type: "user" },
    answer("msg_1", { type: "text", text: "I look." }, 1),
    answer("msg_1", { type: "tool_use", id: "t", name: "ls", input: {} }, 7),
    { ...spoken({ role: "user", content: [{ type: "tool_result", tool_use_id: "t", content: "a.txt" }] }), type: "user" },
    answer("msg_1", { type: "tool_use", id: "u", name: "ls", input: {} }, 9),
    { ...spoken({ role: "user", content: [{ type: "tool_result", tool_use_id: "u", content: "a.txt" }] }), type: "user" },
    answer("msg_2", { type: "text", text: "One file." }, 3),
  ]);
  await expect.poll(() => page.getByTitle("220 in, 12 out").innerText()).toBe("232 tokens");
  expect(told).toEqual([]);
  await close();
});

test("a message of an assistant's that is refused stays the assistant's, with all that it has", async () => {
  const nameless = { role: "assistant", content: "I call.", tool_calls: [{ id: "a", type: "function", function: { arguments: "{}" } }] };
  const { said, close } = await picked("refused.jsonl", [user("Go."), nameless, '{"role":"assistant","content":"half \\ud800 a pair"}']);
  await expect.poll(async () => (await said()).slice(1)).toEqual([expect.stringMatching(/^#2 assistant .*I call\..*"arguments"/), "#3 assistant half \ufffd a pair"]);
  await close();
});
