// What the page says of what is there, and of what isn't.

import { expect, test } from "vitest";

import { lines, pick, viewer } from "./page.js";
import { nothing, recording } from "./served.js";

const app = viewer();

test("an empty list names no cause that isn't so", async () => {
  const { store, server } = await nothing();
  await store.startSession({ title: "Empty" }, "coder");
  const { page, told, close } = await app.open(server.url);
  const list = page.locator("#view");
  await expect.poll(() => list.innerText()).toContain("This agent hasn't been asked anything.");
  await expect.poll(() => list.innerText()).not.toContain("Press");
  await page.locator("#tab-events").click();
  await expect.poll(() => list.innerText()).toContain("Nothing was recorded here yet.");
  await expect.poll(() => list.innerText()).not.toContain("filter");
  expect(told).toEqual([]);
  await close();
});

test("on a phone an empty moment names what a finger can press, and that leads on", async () => {
  const { page, told, close } = await app.open("?example", { viewport: { width: 390, height: 844 }, hasTouch: true });
  await page.getByText("I'll look at the project first.").waitFor();
  await page.getByRole("button", { name: "To the beginning" }).tap();
  const empty = page.locator(".conversation .empty");
  await expect.poll(() => empty.innerText()).toBe("Nothing was said yet.\nTap › below for the first event, or ▶ to play.");
  expect(await page.getByRole("button", { name: "Play (space)" }).isVisible()).toBe(true);
  await page.getByRole("button", { name: "Event after" }).tap();
  await expect.poll(() => lines(page)).toHaveLength(1);
  expect(told).toEqual([]);
  await close();
});

test("on a phone no list names a key, and a filter that leaves nothing is taken away with a finger", async () => {
  const { page, told, close } = await app.open("?example#tab=events&type=flow", { viewport: { width: 390, height: 844 }, hasTouch: true });
  const list = page.locator("#view");
  await expect.poll(() => list.innerText()).toContain("No event passes the filter.");
  expect(await list.locator("kbd").count()).toBe(0);
  await list.getByRole("button", { name: "No filter" }).tap();
  await expect.poll(() => page.getByRole("option").count()).toBeGreaterThan(2);
  expect(told).toEqual([]);
  await close();
});

test("above a conversation stands how many events its context has, above those of all agents how many these are", async () => {
  const { store, run, server } = await recording(["One.", "Two."]);
  const sub = await store.createInstance({ sessionId: run.run.sessionId, agentName: "sub", parentInstanceId: run.run.instanceId });
  const { page, close } = await app.open(`${server.url}#agent=${sub.id}`);
  const facts = page.locator(".facts");
  await expect.poll(() => facts.innerText()).toMatch(/^0\s+events\s+in context$/);
  await page.locator("#tab-events").click();
  // The list may still be that of the conversation for a moment.
  await expect.poll(() => page.getByRole("option").count()).toBeGreaterThan(2);
  const count = await page.getByRole("option").count();
  await expect.poll(() => facts.innerText()).toMatch(new RegExp(`^${count}\\s+events\\s+in session$`));
  await close();
});

test("an event of a fork says which fork it is of", async () => {
  const { page, told, close } = await app.open("?example#tab=events");
  await page.getByRole("option").first().waitFor();
  await page.getByRole("searchbox").first().fill("Try it without a helper");
  await page.keyboard.press("Enter");
  const of = page.locator(".events .row", { hasText: "Try it without a helper" }).last().locator(".agent");
  await expect.poll(() => of.innerText()).toBe("With the date made by the database");
  await expect.poll(() => page.locator(".events .row", { hasText: "↳" }).first().innerText()).toContain("of coder in “Invoices are dated a day early”, up to #22");
  await expect.poll(() => page.locator(".timeline .where").innerText()).toMatch(/^With the date made by the database · /);
  expect(told).toEqual([]);
  await close();
});

test("a text as long as the store takes is searched for", async () => {
  const { server } = await recording(["A needle."]);
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(1);
  await page.getByRole("searchbox").first().fill("(x".repeat(25_000));
  await expect.poll(() => page.locator("header .hits").innerText()).toBe("0");
  expect((await lines(page)).join()).toContain("A needle.");
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  expect(told).toEqual([]);
  await close();
});

test("times have their dates where a recording is longer than a day, and only there", async () => {
  const { page, told, close } = await app.open("");
  const said = (timestamp: string, content: string) => JSON.stringify({ type: "user", sessionId: "s", timestamp, message: { role: "user", content } });
  const times = async (last: string) => {
    await pick(page, [{ name: "claude.jsonl", text: [said("2021-03-04T12:00:00Z", "One."), said(last, "Two.")].join("\n") }]);
    await expect.poll(() => lines(page)).toHaveLength(2);
    await page.locator("#tab-events").click();
    await expect.poll(() => page.locator(".events .row .time").count()).toBe(2);
    const rows = await page.locator(".events .row .time").allInnerTexts();
    const when = await page.locator(".timeline .when").innerText();
    await page.getByRole("button", { name: "Open another recording" }).click();
    return { rows, when };
  };
  const long = await times("2024-05-06T12:00:00Z");
  expect(long.rows.join()).toMatch(/^2021-03-0\d \d\d:.*,2024-05-0\d \d\d:/);
  expect(long.when).toMatch(/^2024-05-0\d \d\d:/);
  const short = await times("2021-03-04T13:00:00Z");
  expect([...short.rows, short.when].join()).not.toContain("2021");
  expect(told).toEqual([]);
  await close();
});
