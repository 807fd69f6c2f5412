// Conversations in the forms of providers: which result answers a call, and what is shown of both.

import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import { linesOf } from "../src/worker/conversation.js";
import { detailsOf } from "../src/worker/details.js";
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
  for (const message of messages) await context.appendMessage(message);
  const index = await indexed(store);
  const lane = index.laneOf(instance.id);
  if (lane === undefined) throw new Error("the context has no lane");
  const family = familyOf(index, lane);
  const payloads = new Payloads({ record: (position: number) => store.record(position) } as Source);
  const { items } = linesOf(index, family, lane, family.length, undefined, new Set());
  const bare = Array.from(items, (entry) => bareRow(index, family, lane.entries.at(entry), family.length, lane));
  const rows = await Promise.all(bare.map((row) => withPayload(row, index.rows.kind.at(row.row), payloads, true)));
  return {
    rows,
    calls: rows.filter(({ kind }) => kind === "call"),
    /** What a list of events shows of each row. */
    events: () => Promise.all(bare.map(({ row }) => withPayload(bareRow(index, family, row, family.length, lane), index.rows.kind.at(row), payloads, false))),
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
    ["message", "calls ls", ""],
    ["call", ".", ""],
    ["message", "A file.", ""],
  ]);
  const [call] = conversation.calls;
  expect(call?.status).toBe("ok");
  expect(await conversation.textOf(call?.row ?? -1, "output")).toBe("a.txt");
  expect(await conversation.textOf(call?.result ?? -1, "output")).toBe("a.txt");
  await conversation.close();
});
