// Chats: their messages as a conversation, with what was changed and deleted in them, and copies.

import { type ChatMessage, type HeadsPage, type Store, openInMemory } from "runlog";
import { expect, test } from "vitest";

import { compare } from "../src/worker/compare.js";
import { idInCopy } from "../src/worker/chats.js";
import { type Lines, linesOf } from "../src/worker/conversation.js";
import { familyOf } from "../src/worker/family.js";
import { LogIndex } from "../src/worker/index.js";
import { type Lane, eventsIn } from "../src/worker/model.js";
import { Payloads } from "../src/worker/payloads.js";
import { bareRow, withPayload } from "../src/worker/rows.js";
import type { Source } from "../src/worker/source.js";
import { Tree } from "../src/worker/tree.js";
import { indexed } from "./indexed.js";
import { lines, viewer } from "./page.js";
import { nothing } from "./served.js";

const app = viewer();

const says = (role: "user" | "assistant", content: string) => ({ role, type: "text", props: { content } });

/** The messages of a chat's lane as they are shown at a moment: `role: text`, and how many were deleted together. */
async function shownOf(store: Store, index: LogIndex, lane: Lane, moment?: number): Promise<string[]> {
  const family = familyOf(index, lane);
  const payloads = new Payloads(store as unknown as Source);
  const at = moment ?? family.length;
  const shown: Lines = linesOf(index, family, lane, at, undefined, new Set());
  return Promise.all(
    Array.from(shown.items.subarray(0, shown.until(at)), async (item) => {
      if (item < 0) return "deleted";
      const row = await withPayload(bareRow(index, family, lane.entries.at(item), at, lane), index, lane, payloads, true);
      return `${row.label}: ${row.redacted ? "redacted" : row.text}`;
    }),
  );
}

/** What the store itself says of a chat. */
async function told(store: Store, chatId: string): Promise<string[]> {
  const messages: ChatMessage[] = await store.chats.getMessages(chatId);
  return messages.map(({ role, props }) => `${role}: ${String(props["content"])}`);
}

const laneOfChat = (index: LogIndex, session: string): Lane => {
  const lane = index.laneOf(`${session}/chat`);
  if (lane === undefined) throw new Error("the chat has no lane");
  return lane;
};

test("a chat is a lane of its session, with its messages as a conversation, as they were at each moment", async () => {
  const store = await openInMemory();
  const { chatId } = await store.chats.create({ assistantId: "helper", title: "Trip" });
  const saved = await store.chats.saveMessages(chatId, [says("user", "Where to?"), says("assistant", "To the sea."), { role: "assistant", type: "page", props: { url: "https://example.com" } }]);
  await store.chats.updateMessage(saved[1]?.messageId ?? "", { props: { content: "To the hills." } });
  await store.chats.deleteMessages(chatId, [saved[0]?.messageId ?? ""]);
  await store.chats.update(chatId, { title: "A trip" });
  const index = await indexed(store);
  const lane = laneOfChat(index, chatId);
  const tree = new Tree(index).rows(0, 9).rows;
  expect(tree.map(({ kind, title, count }) => [kind, title, count])).toEqual([["session", "A trip", 0], ["agent", "chat", 2]]);
  expect(await shownOf(store, index, lane)).toEqual(["deleted", "assistant · changed: To the hills.", "assistant · page: url: https://example.com"]);
  expect(await shownOf(store, index, lane, 3)).toEqual(["user: Where to?", "assistant: To the sea.", "assistant · page: url: https://example.com"]);
  expect(await shownOf(store, index, lane, 4)).toEqual(["user: Where to?", "assistant · changed: To the hills.", "assistant · page: url: https://example.com"]);
  expect(eventsIn(lane)).toBe(2);
  await store.close();
});

test("an answer that is flushed as it grows is there as far as it had come, and its changes say what was added", async () => {
  const store = await openInMemory();
  const { chatId } = await store.chats.create({ assistantId: "helper" });
  const request = await store.chats.beginRequest(chatId, { assistantId: "helper", message: { type: "text", props: { content: "Where to?" } } });
  const answer = await request.send(says("assistant", "To"));
  await request.flush();
  for (const more of [" the", " sea."]) {
    await request.append(answer, more);
    await request.flush();
  }
  await request.finish("completed");
  const index = await indexed(store);
  const lane = laneOfChat(index, chatId);
  const last = index.rows.position.length;
  const byMoment = await Promise.all(Array.from({ length: last }, (_, at) => shownOf(store, index, lane, at)));
  expect(new Set(byMoment.map((shown) => shown.at(-1)))).toEqual(
    new Set([undefined, "user: Where to?", "assistant: To", "assistant: To the", "assistant: To the sea."]),
  );
  expect((await shownOf(store, index, lane)).at(-1)).toBe("assistant: To the sea.");
  await store.close();
});

test("the chat of a session is none of its agents", async () => {
  const { store, server } = await nothing();
  const { chatId } = await store.chats.create({ assistantId: "helper", title: "One" });
  await store.chats.saveMessages(chatId, [says("user", "Where to?")]);
  const messages = [{ role: "user", content: "Go." }] as const;
  await store.runs.start({ newInstance: { sessionId: chatId, agentName: "coder" }, messages });
  const { run } = await store.runs.start({ session: { title: "Two" }, agentName: "coder", messages });
  await store.runs.start({ newInstance: { sessionId: run.sessionId, agentName: "tester" }, messages });
  const { page, told, close } = await app.open(server.url);
  const counts = page.locator(".tree .session .count");
  await expect.poll(() => counts.allInnerTexts()).toEqual(["2 agents", ""]);
  await expect.poll(() => page.getByRole("treeitem").allInnerTexts()).toHaveLength(6);
  expect(told).toEqual([]);
  await close();
});

test("what was redacted says so, and a change of it changes nothing", async () => {
  const store = await openInMemory();
  const { chatId } = await store.chats.create({ assistantId: "helper" });
  const [first, second] = await store.chats.saveMessages(chatId, [says("user", "a secret"), says("user", "another")]);
  await store.chats.updateMessage(second?.messageId ?? "", { props: { content: "no secret" } });
  await store.chats.redactMessage(first?.messageId ?? "", "a secret was said");
  const index = await indexed(store);
  expect(await shownOf(store, index, laneOfChat(index, chatId))).toEqual([expect.stringContaining("redacted"), "user · changed: no secret"]);
  await store.close();
});

test("of an erased request the open page says as little as one that is opened afterwards", async () => {
  const { store, server } = await nothing();
  const { chatId } = await store.chats.create({ assistantId: "helper" });
  const request = await store.chats.beginRequest(chatId, { assistantId: "helper", message: { type: "text", props: { content: "Where to?" } } });
  await request.finish({ failed: "no such place" });
  const { page, told, close } = await app.open(server.url);
  const status = page.locator(".tree .agent .status");
  await expect.poll(() => status.allInnerTexts()).toEqual(["✗"]);
  await expect.poll(() => page.locator(".then").allInnerTexts()).toEqual([expect.stringContaining("no such place")]);
  await store.erase({ sessions: [chatId], reason: "asked for by the user" });
  expect(await store.chats.getRequests(chatId)).toEqual([]);
  server.tell(await store.lastPosition());
  for (const reload of [false, true]) {
    if (reload) await page.reload();
    await expect.poll(() => status.allInnerTexts()).toEqual(["○"]);
    await expect.poll(() => page.locator(".then").count()).toBe(0);
  }
  expect(told).toEqual([]);
  await close();
});

test("a copy has what its original had then, with ids of its own, and what both did since is their own, also in a copy of the copy", async () => {
  const store = await openInMemory();
  const { chatId } = await store.chats.create({ assistantId: "helper", title: "Trip" });
  const saved = await store.chats.saveMessages(chatId, ["one", "two", "three", "four"].map((word) => says("user", word)));
  const idOf = (at: number) => saved[at]?.messageId ?? "";
  await store.chats.deleteMessages(chatId, [idOf(0)]);
  await store.chats.updateMessage(idOf(1), { props: { content: "2" } });
  const copy = (await store.copySession(chatId)).session.id;
  expect(idInCopy(copy, idOf(1))).toBe((await store.chats.getMessages(copy))[0]?.messageId);
  await store.chats.updateMessage(idInCopy(copy, idOf(2)), { props: { content: "3" } });
  await store.chats.deleteMessages(chatId, [idOf(3)]);
  await store.chats.saveMessages(chatId, [says("assistant", "here")]);
  const second = (await store.copySession(copy)).session.id;
  await store.chats.deleteMessages(second, [idInCopy(second, idInCopy(copy, idOf(1)))]);
  await store.chats.saveMessages(copy, [says("assistant", "there")]);
  const index = await indexed(store);
  const payloads = new Payloads(store as unknown as Source);
  for (const id of [chatId, copy, second]) {
    const shown = (await shownOf(store, index, laneOfChat(index, id))).filter((line) => line !== "deleted");
    expect(shown.map((line) => line.replace(" · changed", "")), id).toEqual(await told(store, id));
  }
  expect(await shownOf(store, index, laneOfChat(index, copy))).toEqual(["user · changed: 2", "user · changed: 3", "user: four", "assistant: there"]);
  // The first message of both is the same record, the second was changed in one of them.
  const compared = await compare(index, payloads, laneOfChat(index, chatId), laneOfChat(index, copy), 99, false);
  expect([compared.shared, compared.rows.map(({ kind, left, right }) => [kind, left?.text, right?.text])]).toEqual([
    1,
    [
      ["changed", "three", "3"],
      ["changed", "here", "four"],
      ["right", undefined, "there"],
    ],
  ]);
  // As many as are shown: those that were deleted aren't there any more.
  expect([compared.left.events, compared.right.events]).toEqual([(await told(store, chatId)).length, (await told(store, copy)).length]);
  await store.close();
});

test("a hostile log in which a chat is a copy of itself ends nowhere else than others", () => {
  const stream = "0198c7e0-0000-7000-8000-000000000001";
  const json = (value: object) => new TextEncoder().encode(JSON.stringify(value));
  const fork = new Uint8Array(20);
  fork.set(Uint8Array.from(stream.replaceAll("-", "").match(/../g) ?? [], (byte) => Number.parseInt(byte, 16)));
  fork[16] = 1;
  const records: [number, Uint8Array][] = [[128, fork], [64, json({ message_id: "m", role: "user", props: {} })], [131, fork], [65, json({ message_id: "another", updates: {} })]];
  const others = records.map(([kind, payload], at) => ({ position: at + 1, sequence: at + 1, timeMs: 1, kind, redacted: false, meta: new Uint8Array(), payload, stream }));
  const index = new LogIndex();
  index.add({ events: { count: 0, streamIds: [], toolNames: [], callFlags: new Uint8Array() }, others, next: 0 } as unknown as HeadsPage);
  expect(laneOfChat(index, stream)).toMatchObject({ forkOf: -1, messages: 1 });
});

test("a store with chats alone is opened at one, which is read, searched and gone through by keys", async () => {
  const { store, server } = await nothing();
  const { chatId } = await store.chats.create({ assistantId: "helper", title: "Trip" });
  const long = Array.from({ length: 40 }, (_, at) => `line ${at}`).join("\n");
  const saved = await store.chats.saveMessages(chatId, [says("user", "Where to?"), says("assistant", "To the sea."), says("user", long), says("assistant", "last")]);
  await store.chats.updateMessage(saved[2]?.messageId ?? "", { props: { content: long.replaceAll("line", "row") } });
  await store.chats.deleteMessages(chatId, [saved[0]?.messageId ?? ""]);
  const { page, told: problems, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("1 message deleted"), expect.stringContaining("To the sea."), expect.stringMatching(/changed[^]*row 0\n/), expect.stringContaining("last")]);
  await expect.poll(() => page.getByRole("treeitem").allInnerTexts()).toEqual([expect.stringContaining("Trip"), expect.stringContaining("chat")]);
  // The tabs that a chat has nothing for say where it is, and none of it as it is in the source.
  for (const [tab, text] of [["steps", "The steps of a chat are among its events."], ["snapshot", "saveSnapshot of a run or a flow"]] as const) {
    await page.getByRole("tab", { name: tab }).click();
    const empty = page.locator(`.${tab} .empty`);
    await expect.poll(() => empty.allInnerTexts()).toEqual([expect.stringContaining(text)]);
    await expect.poll(() => empty.innerText()).not.toContain("`");
  }
  await page.getByRole("tab", { name: "conversation" }).click();
  // The number of a message is that of its record, and says so.
  await expect.poll(() => page.locator(".conversation .number").first().getAttribute("title")).toContain("not its number among the messages");
  // What is cut is shown whole, as it is now.
  await page.getByRole("button", { name: /more lines|all/ }).first().click();
  await expect.poll(async () => (await lines(page))[2]).toContain("row 39");
  await page.getByText("To the sea.").click();
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("To the sea.");
  await page.keyboard.press("ArrowDown");
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("text now");
  await page.getByRole("button", { name: /1 message/ }).click();
  await expect.poll(() => lines(page)).toHaveLength(5);
  await page.keyboard.press("Home");
  await expect.poll(() => page.locator(".moments").innerText()).toBe("moment 0 of 6");
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("Where to?")]);
  await expect.poll(() => page.locator(".then").innerText()).toMatch(/^As its users saw it at /);
  await store.chats.saveMessages(chatId, [says("user", "while it is looked at")]);
  await page.keyboard.press("End");
  server.tell(await store.lastPosition());
  await expect.poll(async () => (await lines(page)).at(-1)).toContain("while it is looked at");
  await page.getByText("To the sea.").click();
  await expect.poll(() => page.url()).toContain("chat");
  const before = await lines(page);
  await page.reload();
  // What was unfolded is folded again.
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("1 message deleted"), ...before.slice(2)]);
  await page.getByPlaceholder("Search everything").fill("while it is");
  await page.keyboard.press("Enter");
  await expect.poll(async () => (await lines(page)).at(-1)).toContain("while it is looked at");
  await expect.poll(() => page.locator(".conversation .row.hit").count()).toBe(1);
  expect(problems).toEqual([]);
  await close();
});

test("of thousands of copies of copies each has the ids of its own, and takes no room for what it shares", async () => {
  const store = await openInMemory();
  const { chatId } = await store.chats.create({ assistantId: "helper" });
  const [said] = await store.chats.saveMessages(chatId, [says("user", "one"), says("user", "two")]);
  const copies = [chatId];
  let id = said?.messageId ?? "";
  for (let at = 0; at < 3_000; at++) {
    copies.push((await store.copySession(copies.at(-1) as string)).session.id);
    id = idInCopy(copies.at(-1) as string, id);
  }
  const last = copies.at(-1) as string;
  await store.chats.updateMessage(id, { props: { content: "1" } });
  const index = await indexed(store);
  expect(await shownOf(store, index, laneOfChat(index, last))).toEqual(["user · changed: 1", "user: two"]);
  expect(await shownOf(store, index, laneOfChat(index, copies.at(-2) as string))).toEqual(["user: one", "user: two"]);
  await store.close();
});
