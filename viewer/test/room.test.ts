// The room around what is shown: panes, chips, the timeline's hover, and the ways into a list.

import type { Page } from "playwright";
import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import { exportOf, lines, pick, viewer } from "./page.js";

const app = viewer();

const boxOf = async (page: Page, selector: string) => {
  const box = await page.locator(selector).first().boundingBox();
  if (box === null) throw new Error(`${selector} can't be seen`);
  return box;
};

test("a text that is dropped leaves the recording open, and goes into a field", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const drop = (selector: string) =>
    page.evaluate((selector) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.setData("text/plain", "some words");
      const target = document.querySelector(selector) as HTMLElement;
      const over = new DragEvent("dragover", { dataTransfer, bubbles: true, cancelable: true });
      target.dispatchEvent(over);
      const shown = document.querySelector("#app > .over") !== null;
      return [target.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true })), shown];
    }, selector);
  // Refused where nothing takes it, left to a field that does.
  expect(await drop("main")).toEqual([false, false]);
  expect(await drop("#search")).toEqual([true, false]);
  await page.waitForTimeout(100);
  expect((await lines(page)).length).toBeGreaterThan(5);
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  expect(told).toEqual([]);
  await close();
});

test("agents of the same name have chips of their own, which say whose they are", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  await page.keyboard.press("f");
  const filters = page.getByRole("dialog", { name: "Filter" });
  await filters.getByRole("button", { name: "planner", exact: true }).click();
  await filters.getByRole("button", { name: /^planner in/ }).click();
  await page.keyboard.press("Escape");
  const chips = page.locator("header .chip");
  await expect.poll(() => chips.allInnerTexts()).toEqual([expect.stringMatching(/^planner\s*×$/), expect.stringContaining("planner in “With the date")]);
  await chips.first().click();
  await expect.poll(() => chips.allInnerTexts()).toEqual([expect.stringContaining("planner in “With the date")]);
  expect(told).toEqual([]);
  await close();
});

test("chips that have no room beside the search have a line of their own", async () => {
  const { page, close } = await app.open("?example#status=error&type=tool", { viewport: { width: 760, height: 760 } });
  await page.locator("header .chip").first().waitFor();
  await page.locator("#search").fill("invoice");
  await page.locator(".hits").waitFor();
  const middle = async (selector: string) => boxOf(page, selector).then(({ y, height }) => Math.round(y + height / 2));
  const line = await middle("#search");
  expect(Math.abs((await middle("header .filter")) - line)).toBeLessThan(3);
  expect(Math.abs((await middle("header .ends")) - line)).toBeLessThan(3);
  await expect.poll(() => middle("header .chip")).toBeGreaterThan(line + 16);
  await close();
});

test("arrows select in the list without a click into it", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("↓");
  await page.keyboard.press("ArrowDown");
  await expect.poll(() => page.locator(".row.selected").innerText()).toContain("system");
  await page.keyboard.press("ArrowDown");
  await expect.poll(() => page.locator(".row.selected").innerText()).toContain("Customers in Auckland");
  await close();
});

test("what is below the pointer on the timeline is told whole, in view", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const footer = await boxOf(page, "footer");
  const ruler = 20;
  for (const x of [200, 700, 1430]) {
    for (const y of [45, 60, 90, 120, 185]) {
      await page.mouse.move(x, footer.y + y);
      await page.waitForTimeout(150);
      const hover = await boxOf(page, ".timeline .hover");
      // Neither the times above nor what is pointed at are covered.
      expect(hover.y).toBeGreaterThanOrEqual((await boxOf(page, "#timeline")).y + ruler);
      expect(hover.y > footer.y + y || hover.y + hover.height < footer.y + y).toBe(true);
      expect(hover.y + hover.height).toBeLessThanOrEqual(footer.y + footer.height);
      expect(hover.x + hover.width).toBeLessThanOrEqual(1440);
    }
  }
  await close();
});

test("a fork that stands right at an idle gap is drawn above it", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const violet = () =>
    page.locator("#timeline").evaluate((canvas: HTMLCanvasElement) => {
      // The lane of the fork is the fifth; its name and sign stand left of the plot.
      const { data } = (canvas.getContext("2d") as CanvasRenderingContext2D).getImageData(150, 20 + 4 * 22, canvas.width - 150, 22);
      let found = 0;
      for (let at = 0; at < data.length; at += 4) if (data[at] === 0x74 && data[at + 1] === 0x40 && data[at + 2] === 0xb3) found += 1;
      return found;
    });
  await expect.poll(violet).toBeGreaterThan(10);
  await close();
});

test("below 700 px the drawer lies between the header and the end of the page, and a tap beside it closes it", async () => {
  const { page, close } = await app.open("?example#status=error&type=tool", { viewport: { width: 420, height: 860 } });
  await page.locator("header .chip").first().waitFor();
  const header = await boxOf(page, "header");
  // The first line has where one is and all that isn't search; the second one search and filter; the third one chips.
  expect(header.height).toBeLessThan(116);
  await page.getByRole("button", { name: "Sessions and agents" }).click();
  const drawer = await boxOf(page, "aside.tree");
  expect(Math.abs(drawer.y - header.height)).toBeLessThan(2);
  expect(drawer.y + drawer.height).toBe(860);
  await page.mouse.click(400, 500);
  await expect.poll(() => page.getByRole("treeitem").count()).toBe(0);
  await expect.poll(() => page.locator(".inspector.sheet").count()).toBe(0);
  await close();
});

test("a fork is gone through from its beginning: what it inherits comes as it was said", async () => {
  const { page, close } = await app.open();
  await page.getByRole("treeitem", { name: /With the date made/ }).click();
  await page.locator(".row.inherited").first().waitFor();
  await page.keyboard.press("Home");
  await expect.poll(() => page.locator(".conversation").innerText()).toContain("Nothing was said yet");
  for (let event = 0; event < 3; event++) {
    await page.keyboard.press("ArrowRight");
    await expect.poll(async () => (await lines(page)).length).toBe(event + 1);
  }
  await expect.poll(() => page.locator(".then").innerText()).toContain("Before there was this fork: what it has of “Invoices are dated a day early”");
  await page.keyboard.press("End");
  await expect.poll(() => page.locator(".then").count()).toBe(0);
  await close();
});

test("a transcript without times tells none; a list of things is told by what they say", async () => {
  const { page, close } = await app.open("");
  const todos = [{ id: "1", content: "Read the code", status: "pending" }, { id: "2", content: "Write a test", status: "pending" }];
  const messages = [
    { role: "user", content: "Go." },
    { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: { name: "TodoWrite", arguments: JSON.stringify({ todos }) } }] },
    { role: "tool", tool_call_id: "c1", content: "ok" },
    ...Array.from({ length: 40 }, (_, at) => ({ role: "user", content: `more ${at}` })),
  ];
  await pick(page, [{ name: "chat.jsonl", text: messages.map((message) => JSON.stringify(message)).join("\n") }]);
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("Read the code, Write a test");
  await expect.poll(() => page.getByRole("treeitem").allInnerTexts()).not.toContainEqual(expect.stringMatching(/\d ms/));
  await close();
});

test("colours behind texts, turned about, and of the 256 are rendered", async () => {
  const { page, told, close } = await app.open("");
  const output = "\u001b[1;41m FAIL \u001b[0m \u001b[32m\u001b[7m PASS \u001b[27m\u001b[39m \u001b[38;5;196mred\u001b[0m \u001b[38;2;40;200;60mgreen\u001b[0m plain";
  await pick(page, [{ name: "colours.jsonl", text: JSON.stringify({ role: "user", content: output }) }]);
  const styleOf = (text: string) => page.locator(".conversation .text span", { hasText: text }).first().getAttribute("class");
  await page.locator(".conversation .text").waitFor();
  await expect.poll(() => styleOf("FAIL")).toBe("ansi-on-1 ansi-bold");
  await expect.poll(() => styleOf("PASS")).toBe("ansi-on-2");
  await expect.poll(() => styleOf("red")).toBe("ansi-1");
  await expect.poll(() => styleOf("green")).toBe("ansi-2");
  expect((await lines(page)).join()).toContain("FAIL   PASS  red green plain");
  expect(told).toEqual([]);
  await close();
});

test("playing goes on when another agent of the session is looked at, and ends with the session", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const moment = async () => Number((await page.locator(".moments").innerText()).split(" ")[1]);
  await page.keyboard.press("Home");
  await page.keyboard.press("Space");
  await page.getByRole("button", { name: "Pause (space)" }).waitFor();
  await page.getByRole("treeitem", { name: /researcher/ }).first().click();
  await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe("researcher");
  const then = await moment();
  await expect.poll(moment, { timeout: 8000 }).toBeGreaterThan(then + 2);
  await page.getByRole("treeitem", { name: /reporter/ }).click();
  await page.getByRole("button", { name: "Play (space)" }).waitFor();
  await close();
});

test("a copy with the title of its source is told from it, and the tree counts what the header counts", async () => {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Invoices" }, agentName: "coder", messages: [{ role: "user", content: "Go." }] });
  for (const content of ["One.", "Two.", "Three."]) await run.recordMessage({ role: "assistant", content });
  await run.complete("done");
  const session = (await store.listSessions()).items[0]?.id ?? "";
  await store.copySession(session, { upToSequence: 2, name: "another try" });
  const unnamed = [await store.copySession(session, { upToSequence: 3 }), await store.copySession(session, { upToSequence: 3 })];
  await store.truncateSession(session, 3);
  const ends = unnamed.map((copy) => copy.session.id.slice(-4));
  const { page, told, close } = await app.open("");
  await pick(page, [await exportOf(store)]);
  await page.locator("#tab-compare").click();
  await expect.poll(() => page.getByLabel("Compare with").locator("option").allInnerTexts()).toHaveLength(3);
  const sessions = [await page.locator(".crumb.session").innerText(), ...(await page.getByLabel("Compare with").locator("option").allInnerTexts())].map((title) => title.replace(" › coder", ""));
  expect(sessions.toSorted()).toEqual(["Invoices", "another try · Invoices", ...ends.map((end) => `fork at #3, ${end} · Invoices`).toSorted()]);
  const titles = await page.locator('[role="treeitem"] .line .title').allInnerTexts();
  expect(titles.map((title) => title.replace(/^#\d+/, "").trim()).toSorted()).toEqual(["another try", "coder", ...ends.map((end) => `Invoices, ${end}`)].toSorted());
  await expect.poll(() => page.locator(".compare .head h2").allInnerTexts()).toHaveLength(2);
  const heads = await page.locator(".compare .head h2").allInnerTexts();
  expect(new Set(heads).size).toBe(2);
  const counts = await page.locator('[role="treeitem"] .count[title="events"]').allInnerTexts();
  expect(counts.toSorted()).toEqual(["2", "3", "3", "3"]);
  expect(told).toEqual([]);
  await close();
});

test("after a press on a tab arrows and space are the recording's; by keys one goes from tab to tab", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  await page.locator("#tab-events").click();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(() => page.locator(".moments").innerText()).not.toBe("moment 106 of 106");
  await page.locator("#tab-events[aria-selected=true]").waitFor();
  await page.keyboard.press("Space");
  await page.getByRole("button", { name: "Pause (space)" }).waitFor();
  await page.keyboard.press("Space");
  await page.locator("#tab-events").focus();
  await page.keyboard.press("ArrowRight");
  await page.locator("#tab-steps[aria-selected=true]").waitFor();
  await page.keyboard.press("ArrowRight");
  await page.locator("#tab-snapshot[aria-selected=true]").waitFor();
  await close();
});

test("a call that is opened in place on a narrow page isn't covered by the inspector", async () => {
  const { page, close } = await app.open("?example", { viewport: { width: 380, height: 760 } });
  await page.getByRole("button", { name: /edit_file/ }).first().click();
  await page.locator(".call.open pre.failed").waitFor();
  await page.getByRole("button", { name: "show all 14 lines" }).click();
  await page.locator(".row.selected .call.open").waitFor();
  await expect.poll(() => page.locator(".inspector.sheet").count()).toBe(0);
  await close();
});

test("a press beside the filters closes them, one on a filter or their button doesn't do it twice", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const filters = page.getByRole("dialog", { name: "Filter" });
  const button = page.getByRole("button", { name: "Filter", exact: true });
  await button.click();
  await filters.getByRole("button", { name: "failed" }).click();
  await page.locator("header .chips .chip").waitFor();
  await expect.poll(() => filters.count()).toBe(1);
  await button.click();
  await expect.poll(() => filters.count()).toBe(0);
  await button.click();
  await filters.waitFor();
  await page.locator("aside.inspector").click({ position: { x: 100, y: 600 } });
  await expect.poll(() => filters.count()).toBe(0);
  await close();
});

test("views that are left while they go to a row fail nowhere", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  for (let turn = 0; turn < 40; turn++) {
    await page.keyboard.press(turn % 2 === 0 ? "Home" : "End");
    await page.keyboard.press("v");
    await page.keyboard.press("ArrowLeft");
  }
  await page.waitForTimeout(300);
  expect(told).toEqual([]);
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  await close();
});

test("on a narrow page the view that is shown has its tab in view, and nothing is cut off", async () => {
  const { page, close } = await app.open("?example#tab=compare", { viewport: { width: 340, height: 760 } });
  await page.locator("#tab-compare[aria-selected=true]").waitFor();
  await expect.poll(async () => (await boxOf(page, "#tab-compare")).x + (await boxOf(page, "#tab-compare")).width).toBeLessThan(341);
  await page.setViewportSize({ width: 380, height: 760 });
  await page.keyboard.press("Home");
  await expect.poll(() => page.locator(".when").innerText()).toBe("the beginning");
  const when = await boxOf(page, ".when");
  expect(when.x + when.width).toBeLessThanOrEqual(380);
  await page.locator("#tab-steps").click();
  // How many calls of a step failed is what one looks for.
  await expect.poll(() => page.locator(".steps .row .failed").allInnerTexts()).toContain("1");
  await close();
});

test("on a narrow page a call that is open leads to the inspector", async () => {
  const { page, told, close } = await app.open("?example", { viewport: { width: 400, height: 800 } });
  const call = page.locator(".call", { hasText: "list_files" }).first();
  await call.locator(".line").click();
  await call.locator(".part").first().waitFor();
  await expect.poll(() => page.locator(".inspector.sheet").count()).toBe(0);
  await call.getByRole("button", { name: "Inspect" }).click();
  await expect.poll(() => page.locator(".inspector.sheet").innerText()).toContain("list_files");
  expect(told).toEqual([]);
  await close();
});

test("on a low page the list has most of the room, and the timeline comes when it is asked for", async () => {
  const { page, told, close } = await app.open("?example", { viewport: { width: 320, height: 256 } });
  await page.getByText("You are a careful software").waitFor();
  for (const width of [320, 1280]) {
    await page.setViewportSize({ width, height: 256 });
    await expect.poll(async () => (await boxOf(page, "#view")).height).toBeGreaterThan(105);
    expect((await page.locator("footer").boundingBox())?.height).toBeLessThan(40);
    await expect.poll(() => page.locator("#timeline").getAttribute("tabindex")).toBe("-1");
    await page.keyboard.press("t");
    await expect.poll(async () => (await boxOf(page, "footer")).height).toBeGreaterThan(95);
    await expect.poll(() => page.locator("#timeline").evaluate((canvas) => canvas === document.activeElement)).toBe(true);
    await page.keyboard.press("3");
  }
  // It is as it was where there is room for it, and never more than a part of the page.
  await page.setViewportSize({ width: 1280, height: 900 });
  await expect.poll(async () => (await boxOf(page, "footer")).height).toBe(190);
  await page.setViewportSize({ width: 1280, height: 400 });
  await expect.poll(async () => (await boxOf(page, "footer")).height).toBe(160);
  expect(told).toEqual([]);
  await close();
});

test("a long name of an agent leaves room for the title of its session, and for how it is", async () => {
  const store = await openInMemory();
  await store.runs.start({ session: { title: "What it was asked, told at some length" }, agentName: "agent-".repeat(20), messages: [{ role: "user", content: "Begin." }] });
  const { page, told, close } = await app.open("", { viewport: { width: 1200, height: 800 } });
  await pick(page, [await exportOf(store)]);
  await page.getByText("Begin.").waitFor();
  const crumbs = await boxOf(page, ".crumbs");
  expect((await boxOf(page, ".crumb.session")).width).toBeGreaterThan(100);
  const status = await boxOf(page, ".crumbs .status");
  expect(status.x + status.width).toBeLessThanOrEqual(crumbs.x + crumbs.width);
  expect(told).toEqual([]);
  await close();
});

test("rows say which of all they are, though few of them are on the page", async () => {
  const { page, close } = await app.open("?example", { viewport: { width: 1440, height: 500 } });
  await page.getByText("I'll look at the project first.").waitFor();
  for (const [view, role] of [["conversation", "listitem"], ["events", "option"]] as const) {
    await page.locator(`#tab-${view}`).click();
    const rows = page.locator("#view").getByRole(role);
    await rows.first().waitFor();
    await page.locator("#view .viewport").evaluate((list) => (list.scrollTop = list.scrollHeight));
    const numbers = () => rows.evaluateAll((rows) => rows.map((row) => [Number(row.getAttribute("aria-posinset")), Number(row.getAttribute("aria-setsize"))]));
    await expect.poll(async () => (await numbers()).at(-1)?.[0]).toBeGreaterThan(20);
    const [place, total] = (await numbers()).at(-1) ?? [];
    expect(place).toBe(total);
    await expect.poll(() => rows.count()).toBeLessThan(total ?? 0);
  }
  await close();
});

test("the message that is selected is in view in what a filter leaves of a conversation", async () => {
  const { page, close } = await app.open("");
  const messages = Array.from({ length: 400 }, (_, at) => JSON.stringify({ role: at % 4 === 0 ? "assistant" : "user", content: `Message ${at}.` }));
  await pick(page, [{ name: "chat.jsonl", text: messages.join("\n") }]);
  await page.getByText("Message 8.", { exact: true }).click();
  await page.locator("#view .viewport").hover();
  await page.mouse.wheel(0, 3000);
  await expect.poll(() => page.locator(".row.selected").count()).toBe(0);
  await page.keyboard.press("f");
  await page.getByRole("dialog", { name: "Filter" }).getByRole("button", { name: "assistant" }).click();
  await page.locator(".row.selected").getByText("Message 8.", { exact: true }).waitFor({ timeout: 5000 });
  await close();
});

test("in the events a step says with which message it began, since its record comes after that", async () => {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Steps" }, agentName: "coder", messages: [{ role: "user", content: "Go." }] });
  await run.nextStep();
  await run.recordMessage({ role: "assistant", content: "Looking.", tool_calls: [{ id: "c", type: "function", function: { name: "look", arguments: "{}" } }] });
  await run.recordToolResult({ toolCallId: "c", output: "seen" });
  await run.complete("done");
  const { page, told, close } = await app.open("");
  await pick(page, [await exportOf(store)]);
  await page.locator("#tab-events").click();
  const cells = (what: string) => page.getByRole("option").locator(what).allInnerTexts();
  await expect.poll(() => cells(".type")).toEqual(["• run started", "user", "assistant", "tool call", "• step begun", "tool result", "• run status", "• run outcome"]);
  const positions = await cells(".position");
  expect((await cells(".text"))[4]).toBe(`step 1, from position ${positions[2]} on`);
  expect(told).toEqual([]);
  await close();
});

test("a result that is said as JSON is its call's, with how it went", async () => {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Rows" }, agentName: "coder", messages: [{ role: "user", content: "Go." }] });
  await run.recordMessage({ role: "assistant", content: "Looking.", tool_calls: [{ id: "c", type: "function", function: { name: "look", arguments: "{}" } }] });
  await run.recordToolResult({ toolCallId: "c", output: { rows: [{ city: "Oslo" }] }, status: "error", durationMs: 40 });
  await run.complete("done");
  const { page, told, close } = await app.open("");
  await pick(page, [await exportOf(store)]);
  const call = page.locator('.conversation [role="listitem"]').last();
  await call.getByLabel("failed").waitFor();
  await call.getByText("40 ms").waitFor();
  await page.getByRole("button", { name: /look/ }).click();
  await page.locator(".call.open pre.failed").getByText("Oslo").waitFor();
  expect(told).toEqual([]);
  await close();
});

/** A session of four messages, with a minute between the second and the third one. */
async function withGap() {
  const store = await openInMemory();
  const { instance } = await store.startSession({ createdAtMs: 0, title: "A minute of silence" }, "one");
  const context = await store.context(instance.id);
  for (const createdAtMs of [1000, 1500, 61_500, 62_000]) await context.appendMessage({ role: "user", content: `At ${createdAtMs}.` }, { event: { createdAtMs } });
  return exportOf(store);
}

test("a press or a drag in a folded gap goes to the nearer edge of it, and says that nothing happened there", async () => {
  const { page, told, close } = await app.open("");
  await pick(page, [await withGap()]);
  await page.getByText("At 62000.").waitFor();
  const box = await boxOf(page, "#timeline");
  // Folded, the four are at 0, 500, 600 and 1100 ms; before and after them there is a hundredth of that.
  const xOf = (folded: number) => box.x + 148 + ((folded + 11) / (1100 * 1.03)) * (box.width - 148);
  const moment = () => page.locator("#timeline").getAttribute("aria-valuenow");
  const notice = page.locator(".notice span");
  for (const [folded, at] of [[525, 2], [575, 3], [540, 2]] as const) {
    await page.mouse.click(xOf(folded), box.y + 60);
    await expect.poll(moment).toBe(String(at));
    await expect.poll(() => notice.innerText()).toContain("Nothing happened here for 1 m 00 s");
    await expect.poll(() => page.locator("aside.inspector").innerText()).toContain(at === 2 ? "At 1500." : "At 61500.");
    // It covers nothing of what was pressed.
    const said = await boxOf(page, ".notice span");
    expect(said.y + said.height).toBeLessThan((await boxOf(page, "footer")).y);
  }
  // The ruler: the scrubber goes over the gap in its middle.
  await page.mouse.move(xOf(200), box.y + 8);
  await page.mouse.down();
  await expect.poll(moment).toBe("1");
  for (const [folded, at] of [[545, 2], [555, 3], [530, 2], [595, 3]] as const) {
    await page.mouse.move(xOf(folded), box.y + 8);
    await expect.poll(moment).toBe(String(at));
  }
  await page.mouse.up();
  // A stretch in which nothing happened would filter everything away.
  for (const [from, to, at] of [[512, 545, 2], [590, 558, 3]] as const) {
    await notice.waitFor({ state: "detached" });
    await page.mouse.move(xOf(from), box.y + 60);
    await page.mouse.down();
    await page.mouse.move(xOf(to), box.y + 60, { steps: 3 });
    await page.mouse.up();
    await expect.poll(moment).toBe(String(at));
    await expect.poll(() => notice.innerText()).toContain("Nothing happened here for 1 m 00 s");
    expect(page.url()).not.toContain("between");
  }
  // What is below the pointer is the gap, not the event before it.
  await page.mouse.move(xOf(550), box.y + 40);
  await expect.poll(() => page.locator(".timeline .hover").innerText()).toBe("nothing happened 1 m 00 s");
  // Between two events without a gap there is no event either.
  await page.mouse.move(xOf(700), box.y + 60);
  await page.mouse.down();
  await page.mouse.move(xOf(1000), box.y + 60, { steps: 3 });
  await page.mouse.up();
  await expect.poll(() => notice.innerText()).toBe("There is no event in that stretch.");
  expect(told).toEqual([]);
  await close();
});

test("in the events what was said has the room that there is", async () => {
  const { page, close } = await app.open("?example#tab=events");
  await page.getByRole("option").first().waitFor();
  await page.keyboard.press("Home");
  const widths = () =>
    page.getByRole("option").evaluateAll((rows) =>
      rows.map((row) => {
        const text = row.querySelector(".text") as HTMLElement;
        const [inner, outer] = [text.getBoundingClientRect(), row.getBoundingClientRect()];
        const after = Array.from(row.querySelectorAll(".ms, .end"), (cell) => (cell as HTMLElement).innerText).join("");
        return { isCut: text.scrollWidth > text.clientWidth, share: inner.width / outer.width, left: outer.right - inner.right, after };
      }),
    );
  const rows = await widths();
  expect(rows.filter(({ isCut }) => isCut).length).toBeGreaterThan(3);
  for (const row of rows) {
    // What is cut off ends at the edge, or at a time or a status that is there.
    if (row.isCut && row.after === "") expect(row.left).toBeLessThan(20);
    expect(row.share).toBeGreaterThan(0.36);
  }
  // A session of one agent has no column for its name.
  await page.getByRole("treeitem", { name: /ci-helper/ }).click();
  await expect.poll(() => page.getByRole("option").count()).toBeGreaterThan(5);
  await expect.poll(() => page.locator(".events .agent").count()).toBe(0);
  await close();
});

test("hits are gone to from session to session, and counted in each", async () => {
  const store = await openInMemory();
  const start = (title: string) => store.runs.start({ session: { title }, agentName: "coder", messages: [{ role: "user", content: "Go." }] });
  const [empty, first, second] = [await start("Empty"), await start("First"), await start("Second")];
  await first.recordMessage({ role: "assistant", content: "A needle." });
  await second.recordMessage({ role: "assistant", content: null, tool_calls: [{ id: "c", type: "function", function: { name: "find", arguments: "{}" } }] });
  await second.recordToolResult({ toolCallId: "c", output: "no needle", status: "error" });
  await first.recordMessage({ role: "assistant", content: "Another needle." });
  const instance = (await store.runs.get(empty.id))?.instanceId ?? "";
  for (const run of [empty, first, second]) await run.complete();
  const { page, told, close } = await app.open("");
  await pick(page, [await exportOf(store)]);
  const shown = async () => `${await page.locator(".crumb.session").innerText()}: ${await page.locator("header .hits").innerText()}`;
  await page.locator(".crumb.session").waitFor();
  await page.evaluate((agent) => (location.hash = `agent=${agent}`), instance);
  await expect.poll(() => page.locator(".crumb.session").innerText()).toBe("Empty");
  await page.locator("#search").fill("needle");
  await expect.poll(shown).toBe("Empty: none here · 3 in all");
  const order = ["First: 1 / 2 · 3 in all", "First: 2 / 2 · 3 in all", "Second: 1 / 1 · 3 in all"];
  for (const next of [...order, ...order]) {
    await page.getByRole("button", { name: "Next hit (n)" }).click();
    await expect.poll(shown).toBe(next);
    await page.locator(".conversation .row.selected.hit").waitFor();
  }
  for (const before of order.toReversed().slice(1)) {
    await page.getByRole("button", { name: "Hit before (N)" }).click();
    await expect.poll(shown).toBe(before);
  }
  expect(told).toEqual([]);
  await close();
});

test("a hit in a message that has nothing but calls is at its first call", async () => {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Calls" }, agentName: "coder", messages: [{ role: "user", content: "Go." }] });
  const call = { id: "c", type: "function", function: { name: "find_needle", arguments: "{}" } };
  await run.recordMessage({ role: "assistant", content: null, tool_calls: [call] });
  await run.recordToolResult({ toolCallId: "c", output: "seen" });
  await run.complete();
  const { page, told, close } = await app.open("");
  await pick(page, [await exportOf(store)]);
  await page.locator(".crumb.session").waitFor();
  await page.locator("#search").fill("needle");
  // The message's own record has it, and that of the call.
  await expect.poll(() => page.locator("header .hits").innerText()).toBe("2");
  for (const place of ["1 / 2", "2 / 2"]) {
    await page.getByRole("button", { name: "Next hit (n)" }).click();
    await expect.poll(() => page.locator("header .hits").innerText()).toBe(place);
    await page.locator(".conversation .row.selected.hit").waitFor();
    expect(await page.locator(".inspector .hidden").count()).toBe(0);
  }
  expect(told).toEqual([]);
  await close();
});

test("how a run ended in words is of the time when it ended, also where that was long before its import", async () => {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Old" }, agentName: "coder", messages: [{ role: "user", content: "Go." }] });
  await run.fail("no disk");
  const { name, text } = await exportOf(store);
  const old = text.toString().replace(/("(?:time_ms|at_ms|created_at|created_at_ms|updated_at_ms)":)(\d{13})/g, (_, key: string, ms: string) => `${key}${Number(ms) - 400 * 86_400_000}`);
  const { page, told, close } = await app.open("");
  await pick(page, [{ name, text: old.replace(/,"crc":\d+/, "") }]);
  await page.locator("#tab-events").click();
  await expect.poll(() => page.locator(".events .row .type").allInnerTexts()).toContain("• run outcome");
  expect((await page.locator(".events .row .time").allInnerTexts()).join()).not.toMatch(/\d{4}-/);
  expect(await page.locator(".timeline .when").innerText()).not.toMatch(/\d{4}-/);
  await page.locator(".events .row.user").click();
  // The store in which it is shown was made just now, when nothing was recorded.
  const facts = page.locator("aside.inspector dt");
  await expect.poll(() => facts.allInnerTexts()).toContain("position");
  expect(await facts.allInnerTexts()).not.toContain("recorded");
  expect(told).toEqual([]);
  await close();
});
