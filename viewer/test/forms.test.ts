// Conversations in the forms of providers: which result answers a call, and what is shown of both.

import { RawJson, openInMemory } from "runlog";
import { expect, test } from "vitest";

import { linesOf } from "../src/worker/conversation.js";
import { detailsOf, partOf } from "../src/worker/details.js";
import { familyOf } from "../src/worker/family.js";
import { Payloads } from "../src/worker/payloads.js";
import { bareRow, withPayload } from "../src/worker/rows.js";
import type { Source } from "../src/worker/source.js";
import { indexed } from "./indexed.js";

/** The conversation of some messages: its rows, and the details of one. */
async function conversationOf(messages: readonly object[]) {
  const store = await openInMemory();
  const { instance } = await store.startSession({}, "one");
  const context = await store.context(instance.id);
  for (const message of messages) await context.appendMessage(RawJson.parse(JSON.stringify(message)));
  const index = await indexed(store);
  const lane = index.laneOf(instance.id);
  if (lane === undefined) throw new Error("the context has no lane");
  const family = familyOf(index, lane);
  const payloads = new Payloads({ record: (position: number) => store.record(position) } as Source);
  const { items } = linesOf(index, family, lane, family.length, undefined, new Set());
  const bare = Array.from(items, (entry) => bareRow(index, family, lane.entries.at(entry), family.length, lane));
  const rows = await Promise.all(bare.map((row) => withPayload(row, index, lane, payloads, true)));
  return {
    rows,
    calls: rows.filter(({ kind }) => kind === "call"),
    /** What a list of events shows of each row. */
    events: () => Promise.all(bare.map(({ row }) => withPayload(bareRow(index, family, row, family.length, lane), index, lane, payloads, false))),
    part: (row: number, part: string) => partOf(index, payloads, row, part, lane),
    details: (row: number) => detailsOf(index, family, payloads, row, lane),
    /** The text of a part of an event. */
    async textOf(row: number, part: string): Promise<string | undefined> {
      const { parts } = await detailsOf(index, family, payloads, row, lane);
      return parts.find(({ id }) => id === part)?.text;
    },
    close: () => store.close(),
  };
}

test("items of OpenAI's Responses are thoughts, calls with their outputs, and what is said", async () => {
  const conversation = await conversationOf([
    { role: "user", content: [{ type: "input_text", text: "What is there?" }] },
    { type: "reasoning", id: "r", summary: [{ type: "summary_text", text: "I had better look." }] },
    { type: "function_call", call_id: "c", name: "ls", arguments: '{"path":"."}' },
    { type: "function_call_output", call_id: "c", output: "a.txt" },
    { role: "assistant", content: [{ type: "output_text", text: "A file." }] },
  ]);
  expect(conversation.rows.map(({ kind, text, thinking }) => [kind, text, thinking])).toEqual([
    ["message", "What is there?", ""],
    ["message", "", "I had better look."],
    ["call", ".", ""],
    ["message", "A file.", ""],
  ]);
  const [call] = conversation.calls;
  expect(call?.status).toBe("ok");
  expect(await conversation.textOf(call?.row ?? -1, "output")).toBe("a.txt");
  expect(await conversation.textOf(call?.result ?? -1, "output")).toBe("a.txt");
  await conversation.close();
});

test.each([
  ["Gemini", { role: "model", parts: [{ functionCall: { name: "ls", args: {} } }] }],
  ["OpenAI's older form", { role: "assistant", content: null, function_call: { name: "ls", arguments: "{}" } }],
  ["OpenAI's Responses", { type: "function_call", call_id: "c", name: "ls", arguments: "{}" }],
])("a message of %s with nothing but calls has no line beside them", async (_, message) => {
  const conversation = await conversationOf([{ role: "user", content: "Look." }, message]);
  expect(conversation.rows.map(({ kind }) => kind)).toEqual(["message", "call"]);
  await conversation.close();
});

test("what was thought before a call is shown, though nothing else was said", async () => {
  const tool_calls = [{ id: "c", type: "function", function: { name: "ls", arguments: "{}" } }];
  const conversation = await conversationOf([{ role: "assistant", content: "", reasoning_content: "I had better look.", tool_calls }]);
  expect(conversation.rows.map(({ kind, thinking }) => [kind, thinking])).toEqual([["message", "I had better look."], ["call", ""]]);
  await conversation.close();
});

test("a call has the images of its own result alone", async () => {
  const use = (id: string) => ({ type: "tool_use", id, name: "picture", input: {} });
  const image = (data: string) => ({ type: "image", source: { type: "base64", media_type: "image/png", data: `iVBORw0KGgo${data}` } });
  const result = (id: string, content: unknown) => ({ type: "tool_result", tool_use_id: id, content });
  const conversation = await conversationOf([
    { role: "assistant", content: ["a", "b", "c"].map(use) },
    { role: "user", content: [result("a", [image("A")]), result("b", "none"), result("c", [image("C1"), image("C2")])] },
  ]);
  const imagesOf = async (row: number) => (await conversation.details(row)).parts.flatMap(({ images }) => images.map(({ url }) => url.split("KGgo")[1]));
  expect(await Promise.all(conversation.calls.map(({ row }) => imagesOf(row)))).toEqual([["A"], [], ["C1", "C2"]]);
  expect(await imagesOf(conversation.calls[0]?.result ?? -1)).toEqual(["A", "C1", "C2"]);
  await conversation.close();
});

/** Two calls of one tool and one of another, without ids. */
const CALLS = [
  { functionCall: { name: "cat", args: { path: "a" } } },
  { functionCall: { name: "ls", args: { path: "b" } } },
  { functionCall: { name: "cat", args: { path: "c" } } },
];
const response = (name: string, output: string) => ({ functionResponse: { name, response: { output } } });

test.each([
  ["in one message", [{ role: "user", parts: [response("cat", "A"), response("cat", "C"), response("ls", "B")] }]],
  ["one by one", [response("cat", "A"), response("ls", "B"), response("cat", "C")].map((part) => ({ role: "user", parts: [part] }))],
])("calls without ids are answered by the names of their tools, the first of a tool first, %s", async (_, results) => {
  const conversation = await conversationOf([{ role: "user", parts: [{ text: "Look." }] }, { role: "model", parts: CALLS }, ...results]);
  const { calls } = conversation;
  expect(calls.map(({ tool, text, status }) => [tool, text, status])).toEqual([["cat", "a", "ok"], ["ls", "b", "ok"], ["cat", "c", "ok"]]);
  expect(await Promise.all(calls.map(({ row }) => conversation.textOf(row, "output")))).toEqual(["A", "B", "C"]);
  await conversation.close();
});

test("a result without an id that names no tool answers the first open call of the newest message that has one", async () => {
  const asks = (name: string) => ({ role: "assistant", content: null, function_call: { name, arguments: "{}" } });
  const gives = (name: string | undefined, content: string) => ({ role: "function", name, content });
  const conversation = await conversationOf([asks("ls"), gives("ls", "first"), asks("ls"), gives("ls", "second"), asks("cat"), gives(undefined, "third"), asks("cat")]);
  const { calls } = conversation;
  expect(calls.map(({ status }) => status)).toEqual(["ok", "ok", "ok", "pending"]);
  expect(await Promise.all(calls.map(({ row }) => conversation.textOf(row, "output")))).toEqual(["first", "second", "third", undefined]);
  await conversation.close();
});

test("a result without an id that comes behind one answered call is that of the tool that it names", async () => {
  const asks = (...names: string[]) => ({ role: "model", parts: names.map((name) => ({ functionCall: { name, args: {} } })) });
  const gives = (...names: string[]) => ({ role: "user", parts: names.map((name) => response(name, `of ${name}`)) });
  for (const given of [[gives("date"), gives("ls")], [gives("date", "ls")]]) {
    const conversation = await conversationOf([asks("cat", "ls"), asks("date"), ...given]);
    const { calls } = conversation;
    expect(calls.map(({ tool, status }) => [tool, status])).toEqual([["cat", "pending"], ["ls", "ok"], ["date", "ok"]]);
    expect(await Promise.all(calls.slice(1).map(({ row }) => conversation.textOf(row, "output")))).toEqual(["of ls", "of date"]);
    await conversation.close();
  }
});

test("a failure without an id is that of its own call", async () => {
  const failed = { functionResponse: { name: "ls", response: { error: "no such folder" } } };
  const conversation = await conversationOf([{ role: "model", parts: CALLS.slice(0, 2) }, { role: "user", parts: [failed, response("cat", "A")] }]);
  expect(conversation.calls.map(({ tool, status }) => [tool, status])).toEqual([["cat", "ok"], ["ls", "error"]]);
  await conversation.close();
});

test("a message with several results shows all of them", async () => {
  const result = (id: string) => ({ type: "tool_result", tool_use_id: id, content: `of ${id}` });
  const conversation = await conversationOf([
    { role: "assistant", content: ["a", "b"].map((id) => ({ type: "tool_use", id, name: "ls", input: {} })) },
    { role: "user", content: [result("a"), result("b"), { type: "text", text: "Go on." }] },
  ]);
  const { calls } = conversation;
  expect(await Promise.all(calls.map(({ row }) => conversation.textOf(row, "output")))).toEqual(["of a", "of b"]);
  const message = calls[0]?.result ?? -1;
  expect([await conversation.textOf(message, "text"), await conversation.textOf(message, "output")]).toEqual(["Go on.", "of a\nof b"]);
  await conversation.close();
});

test.each([
  ["in one message", (results: object[]) => [{ role: "user", content: results }]],
  ["one by one", (results: object[]) => results.map((result) => ({ role: "user", content: [result] }))],
])("two calls of a message with one id have a result each, %s", async (_, given) => {
  const use = (path: string) => ({ type: "tool_use", id: "c", name: "cat", input: { path } });
  const result = (content: string) => ({ type: "tool_result", tool_use_id: "c", content });
  const asks = { role: "assistant", content: [use("a"), use("b")] };
  const conversation = await conversationOf([asks, ...given([result("A"), result("B")]), asks, ...given([result("third")])]);
  const { calls } = conversation;
  expect(calls.map(({ status }) => status)).toEqual(["ok", "ok", "ok", "pending"]);
  expect(await Promise.all(calls.map(({ row }) => conversation.textOf(row, "output")))).toEqual(["A", "B", "third", undefined]);
  await conversation.close();
});

test("a fork answers a call without an id that it inherits by itself", async () => {
  const store = await openInMemory();
  const { session, instance } = await store.startSession({}, "one");
  const context = await store.context(instance.id);
  await context.appendMessage(RawJson.parse(JSON.stringify({ role: "model", parts: CALLS })));
  await context.appendMessage(RawJson.parse(JSON.stringify({ role: "user", parts: [response("cat", "A")] })));
  const copy = (await store.copySession(session.id)).instances[0]?.instance.id ?? "";
  await (await store.context(copy)).appendMessage(RawJson.parse(JSON.stringify({ role: "user", parts: [response("cat", "C")] })));
  const index = await indexed(store);
  await store.close();
  const answered = (id: string) => {
    const lane = index.laneOf(id);
    const calls = Array.from(lane?.alive ?? [], (entry) => lane?.entries.at(entry) ?? -1).filter((row) => index.rows.kind.at(row) === 4);
    return calls.map((call) => index.answerOf(call, lane) !== undefined);
  };
  expect([answered(instance.id), answered(copy)]).toEqual([[true, false, false], [true, false, true]]);
});

test("a large output is read once while it is looked at, and forgotten with others", async () => {
  const ids = ["a", "b", "c"];
  const tool_calls = ids.map((id) => ({ id, type: "function", function: { name: "list", arguments: `{"of":"${id}"}` } }));
  const output = (id: string) => JSON.stringify(Array.from({ length: 1000 }, (_, at) => ({ id, at })));
  const conversation = await conversationOf([{ role: "assistant", content: null, tool_calls }, ...ids.map((id) => ({ role: "tool", tool_call_id: id, content: output(id) }))]);
  const [first, ...others] = conversation.calls.map(({ row }) => row) as [number, ...number[]];
  const looked = await conversation.part(first, "output");
  expect(looked).toEqual(JSON.parse(output("a")));
  expect(await conversation.part(first, "arguments")).toBe("of: a");
  expect(await conversation.part(first, "output")).toBe(looked);
  expect(await conversation.part(first, "json:output:/7")).toBe((looked as unknown[])[7]);
  for (const other of others) for (const part of ["input", "output"]) await conversation.part(other, part);
  const again = await conversation.part(first, "output");
  expect(again).toEqual(looked);
  expect(again).not.toBe(looked);
  await conversation.close();
});

test("an output that couldn't be read is read anew", async () => {
  const payloads = new Payloads({} as Source);
  await expect(payloads.value("output", () => Promise.reject(new Error("gone")))).rejects.toThrow("gone");
  expect(await payloads.value("output", () => Promise.resolve(7))).toBe(7);
});
