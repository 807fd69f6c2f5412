import { places } from "#places";
import { describe, expect, test } from "vitest";

import { inPieces, parseList } from "../../src/long-lists.js";

/** More than is read at once. */
const LONG = 3_000;

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** How often others had their turn meanwhile. */
async function turnsDuring<T>(work: () => Promise<T>): Promise<{ turns: number; result: T }> {
  let [turns, isOver] = [0, false];
  const turn = (): void => {
    turns++;
    if (!isOver) setTimeout(turn);
  };
  setTimeout(turn);
  const result = await work();
  isOver = true;
  return { turns, result };
}

test("a long list is read in pieces, between which others have their turn", async () => {
  const rows = Array.from({ length: LONG }, (_, at) => ({ at, text: "long ".repeat(200) }));
  const { turns, result } = await turnsDuring(async () => parseList(bytesOf(JSON.stringify(rows))));
  expect(result).toEqual(rows);
  expect(turns).toBeGreaterThan(0);
});

test("a long list of lists is read in pieces too, and so is what is made of many", async () => {
  const rows = Array.from({ length: 50_000 }, (_, at) => [at, "user", [at]]);
  const read = await turnsDuring(async () => parseList(bytesOf(JSON.stringify(rows))));
  expect(read.result).toEqual(rows);
  expect(read.turns).toBeGreaterThan(0);
  const made = await turnsDuring(async () => inPieces(rows, () => 1_000, ([at]) => at));
  expect(made.result).toEqual(rows.map(([at]) => at));
  expect(made.turns).toBeGreaterThan(0);
  expect(await inPieces([], () => 1, () => 1)).toEqual([]);
});

test("wherever a piece might end, the list is the one that was written", async () => {
  // What looks like the end of an element, in text and in what is nested, as well as letters of several bytes.
  const misleading = { text: '},{"a":1},{'.repeat(40_000), list: Array.from({ length: 40_000 }, (_, at) => ({ at })) };
  const letters = Array.from({ length: LONG }, (_, at) => ({ at, text: "é日🙂".repeat(50) }));
  const lists: unknown[][] = [
    [],
    [misleading],
    [misleading, ...letters, misleading, { last: true }],
    letters,
    Array.from({ length: 200_000 }, (_, at) => at),
    Array.from({ length: 100_000 }, (_, at) => [{ at }, { at }]),
    [{}, "text},{".repeat(200_000), null, ...letters],
  ];
  for (const list of lists) {
    for (const indent of [undefined, 1]) expect(await parseList(bytesOf(JSON.stringify(list, undefined, indent)))).toEqual(list);
  }
});

test("a long list that is no JSON is refused", async () => {
  const rows = JSON.stringify(Array.from({ length: LONG }, (_, at) => ({ at, text: "long ".repeat(200) })));
  for (const text of [rows.slice(0, -20), `${rows.slice(0, -1)}}`, rows.replace('{"at":2000', '{"at":2000,'), rows.replace('},{"at":2000', '},,{"at":2000')]) {
    await expect(parseList(bytesOf(text))).rejects.toMatchObject({ code: "invalid_input" });
  }
});

describe.each(places)("in $name", ({ fresh }) => {
  test("all messages of a long chat and of a long context are those that were saved", async () => {
    const store = await fresh();
    const { chatId } = await store.chats.create({ assistantId: "a" });
    const content = (at: number): string => `${at} },{ ${"é".repeat(300)}`;
    const places = Array.from({ length: LONG }, (_, at) => at);
    await store.chats.saveMessages(chatId, places.map((at) => ({ role: "user", type: "text", props: { content: content(at) } })));
    const messages = await store.chats.getMessages(chatId);
    expect(messages.map(({ props }) => props["content"])).toEqual(places.map(content));
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    const context = await store.context(run.run.instanceId);
    await context.appendMessages(places.map((at) => ({ role: "user", content: content(at) })));
    expect((await context.getMessages()).map((message) => message["content"])).toEqual(places.map(content));
    expect((await context.getRawMessages(LONG - 9)).map((message) => message.value())).toEqual(places.slice(LONG - 10).map((at) => ({ role: "user", content: content(at) })));
    await run.pause("for long");
    const { messages: resumed, rawMessages } = await store.runs.resume(run.id);
    expect(resumed.slice(0, LONG).map((message) => message["content"])).toEqual(places.map(content));
    expect(rawMessages.map((message) => message.value())).toEqual(resumed);
  });
});
