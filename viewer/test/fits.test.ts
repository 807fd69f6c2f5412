// Whether what is said has room where it stands.

import { type Locator } from "playwright";
import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import AxeBuilder from "./axe.js";
import { exportOf, pick, viewer } from "./page.js";

const app = viewer();

/** The texts that are cut off. */
const cut = (texts: Locator) => texts.evaluateAll((all) => all.filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent));

test("what an event of a chat is called is there as a whole, and no column is named that nothing is in", async () => {
  const store = await openInMemory();
  const says = (role: "user" | "assistant", content: string) => ({ role, type: "text", props: { content } });
  const { chatId } = await store.chats.create({ assistantId: "helper", title: "Trip" });
  const saved = await store.chats.saveMessages(chatId, [says("user", "Where to?"), says("assistant", "To the sea.")]);
  await store.chats.updateMessage(saved[1]?.messageId ?? "", { props: { content: "To the hills." } });
  await store.chats.deleteMessages(chatId, [saved[0]?.messageId ?? ""]);
  const { page, told, close } = await app.open("", { viewport: { width: 1280, height: 800 } });
  await pick(page, [await exportOf(store)]);
  await page.locator("#tab-events").click();
  const types = page.locator(".events .row .type");
  await expect.poll(async () => (await types.allInnerTexts()).map((text) => text.trim())).toEqual(["chat message", "chat message", "message changed", "messages deleted"]);
  expect(await cut(types)).toEqual([]);
  expect(await page.locator(".events .head").innerText()).not.toContain("took");
  expect(told).toEqual([]);
  await close();
});

test("the tools of a step have the room that columns without anything don't take", async () => {
  const { page, told, close } = await app.open("?example", { viewport: { width: 1280, height: 800 } });
  await page.locator("#tab-steps").click();
  const tools = page.locator(".steps .row .text");
  await expect.poll(() => tools.allInnerTexts()).toContain("edit_file, edit_file");
  expect(await cut(tools)).toEqual([]);
  await expect.poll(() => page.locator(".steps .head").innerText()).toContain("failed");
  await page.getByRole("treeitem", { name: /researcher/ }).first().click();
  await expect.poll(() => page.locator(".steps .head").innerText()).not.toContain("failed");
  await expect.poll(() => page.locator(".steps .head").innerText()).toContain("calls");
  expect(told).toEqual([]);
  await close();
});

test("on a narrow page the sides of a comparison stand one above the other, and say which they are", async () => {
  const { page, told, close } = await app.open("?example", { viewport: { width: 380, height: 760 } });
  await page.locator("#tab-compare").click();
  const events = page.locator(".compare .event");
  await expect.poll(() => events.count()).toBeGreaterThan(5);
  for (const box of await events.evaluateAll((all) => all.map((one) => one.getBoundingClientRect().width))) expect(box).toBeGreaterThan(300);
  const sides = () => page.locator(".compare .changed").first().locator(".mark").allInnerTexts();
  expect(await sides()).toEqual(["first", "second"]);
  expect(await page.locator(".compare .head .mark").allInnerTexts()).toEqual(["first", "second"]);
  expect(await page.locator(".legend").innerText()).toContain("only in the first");
  expect(await AxeBuilder(page)).toEqual([]);
  // What both have is there once.
  const before = await events.count();
  await page.locator(".compare .shared").click();
  await expect.poll(() => events.count()).toBeGreaterThan(before);
  expect(await page.locator(".compare .same").first().locator(".event:visible").count()).toBe(1);
  await page.setViewportSize({ width: 1440, height: 900 });
  await expect.poll(() => page.locator(".legend").innerText()).toContain("only on the left");
  await expect.poll(() => page.locator(".compare .mark:visible").count()).toBe(0);
  await expect.poll(() => page.locator(".compare .same").first().locator(".event:visible").count()).toBe(2);
  expect(told).toEqual([]);
  await close();
});
