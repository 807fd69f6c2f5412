// What is gone to is in view: hits of a search, links, and errors, wherever they are.

import type { Page } from "playwright";
import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import { exportOf, pick, viewer } from "./page.js";

const app = viewer();

/** Of the row that is selected how much is outside of the list: 0 where all of it can be seen. */
const outside = (page: Page) =>
  page.evaluate(() => {
    const row = document.querySelector(".conversation .row.selected")?.getBoundingClientRect();
    const list = document.querySelector(".conversation")?.getBoundingClientRect();
    if (row === undefined || list === undefined) return undefined;
    return Math.max(0, Math.round(row.bottom - list.bottom), Math.round(list.top - row.top));
  });

async function goToHit(page: Page, query: string) {
  await page.locator("#search").fill(query);
  await expect.poll(() => page.locator("header .hits").innerText()).toMatch(/\d/);
  await page.locator("#search").press("Enter");
}

test.each([40, 3000])("a hit in one of the last of %i messages is in view, and so by its link", async (count) => {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Long" }, agentName: "coder" });
  await run.recordMessages(Array.from({ length: count }, (_, at) => ({ role: at % 2 === 0 ? "user" : "assistant", content: `message ${at}.` })));
  await run.complete();
  const { page, told, close } = await app.open("", { viewport: { width: 1400, height: 850 } });
  const file = await exportOf(store);
  await pick(page, [file]);
  await page.locator(".crumb.session").waitFor();
  for (const back of [2, 1]) {
    await goToHit(page, `message ${count - back}.`);
    await expect.poll(() => page.locator(".conversation .row.selected").allInnerTexts()).toEqual([expect.stringContaining(`message ${count - back}.`)]);
    await expect.poll(() => outside(page)).toBe(0);
  }
  const link = new URL(page.url()).hash;
  await page.goto(`${app.url}${link}`);
  await page.reload();
  await pick(page, [file]);
  await expect.poll(() => page.locator(".conversation .row.selected").allInnerTexts()).toEqual([expect.stringContaining(`message ${count - 1}.`)]);
  await expect.poll(() => outside(page)).toBe(0);
  expect(told).toEqual([]);
  await close();
});

test("a hit in the arguments of a call that stands behind long messages of another session is in view", async () => {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Calls" }, agentName: "coder" });
  for (let at = 0; at < 8; at++) await run.recordMessage({ role: "user", content: Array.from({ length: 30 }, (_, line) => `line ${line}`).join("\n") });
  await run.recordMessage({ role: "assistant", content: null, tool_calls: [{ id: "c", type: "function", function: { name: "add", arguments: '{"a":12345678901234567890}' } }] });
  await run.recordToolResult({ toolCallId: "c", output: "seen" });
  for (let at = 0; at < 3; at++) await run.recordMessage({ role: "user", content: "more" });
  await run.complete();
  const other = await store.runs.start({ session: { title: "Other" }, agentName: "coder", messages: [{ role: "user", content: "Go." }] });
  await other.complete();
  const { page, told, close } = await app.open("", { viewport: { width: 1400, height: 850 } });
  await pick(page, [await exportOf(store)]);
  await expect.poll(() => page.locator(".crumb.session").innerText()).toBe("Other");
  await goToHit(page, "12345678901234567890");
  await expect.poll(() => page.locator(".conversation .row.selected").allInnerTexts()).toEqual([expect.stringContaining("add")]);
  await expect.poll(() => outside(page)).toBe(0);
  expect(told).toEqual([]);
  await close();
});

test("a line of 20,000 characters is cut by the height that it would have, and shown whole when asked for", async () => {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Bytes" }, agentName: "coder" });
  await run.recordMessage({ role: "user", content: "iVBORw0KGgo".repeat(1819).slice(0, 20_000) });
  await run.recordMessage({ role: "assistant", content: "short" });
  await run.complete();
  const text = await exportOf(store);
  for (const width of [1400, 400]) {
    const { page, told, close } = await app.open("", { viewport: { width, height: 850 } });
    await pick(page, [text]);
    const long = page.locator(".conversation .text").first();
    // With the line that shows all of it; the 12 are estimated.
    const height = () => long.evaluate((element) => element.clientHeight / 20);
    await expect.poll(() => long.innerText()).toContain("show all 20,000 characters");
    await expect.poll(height).toBeLessThan(18);
    expect(await height()).toBeGreaterThan(8);
    await long.getByRole("button").click();
    await expect.poll(() => long.innerText().then((shown) => shown.length)).toBeGreaterThan(20_000);
    await long.getByRole("button", { name: "show less" }).click();
    await expect.poll(height).toBeLessThan(18);
    expect(told).toEqual([]);
    await close();
  }
});
