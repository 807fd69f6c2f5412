// The room around what is shown: panes, chips, the timeline's hover, and the ways into a list.

import type { Page } from "playwright";
import { type Store, openInMemory } from "runlog";
import { expect, test } from "vitest";

import { lines, pick, viewer } from "./page.js";

const app = viewer();

const boxOf = async (page: Page, selector: string) => {
  const box = await page.locator(selector).first().boundingBox();
  if (box === null) throw new Error(`${selector} can't be seen`);
  return box;
};

/** What a store has, as a file that can be picked. */
async function exportOf(store: Store) {
  const pieces: Uint8Array[] = [];
  for await (const piece of store.export()) pieces.push(piece);
  await store.close();
  return { name: "export.jsonl", text: Buffer.concat(pieces) };
}

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
  expect(await page.getByRole("alert").count()).toBe(0);
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
  expect(await middle("header .chip")).toBeGreaterThan(line + 16);
  await close();
});

test("arrows select in the list without a click into it", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  expect(await page.locator("aside.inspector").innerText()).toContain("↓");
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
  expect(await page.locator(".inspector.sheet").count()).toBe(0);
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
  expect(await page.locator(".then").innerText()).toContain("Before there was this fork: what it has of “Invoices are dated a day early”");
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
  expect(await page.getByRole("treeitem").allInnerTexts()).not.toContainEqual(expect.stringMatching(/\d ms/));
  await close();
});

test("colours behind texts, turned about, and of the 256 are rendered", async () => {
  const { page, told, close } = await app.open("");
  const output = "\u001b[1;41m FAIL \u001b[0m \u001b[32m\u001b[7m PASS \u001b[27m\u001b[39m \u001b[38;5;196mred\u001b[0m \u001b[38;2;40;200;60mgreen\u001b[0m plain";
  await pick(page, [{ name: "colours.jsonl", text: JSON.stringify({ role: "user", content: output }) }]);
  const styleOf = (text: string) => page.locator(".conversation .text span", { hasText: text }).first().getAttribute("class");
  await page.locator(".conversation .text").waitFor();
  expect(await styleOf("FAIL")).toBe("ansi-on-1 ansi-bold");
  expect(await styleOf("PASS")).toBe("ansi-on-2");
  expect(await styleOf("red")).toBe("ansi-1");
  expect(await styleOf("green")).toBe("ansi-2");
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
  expect(await page.locator(".inspector.sheet").count()).toBe(0);
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
  expect(await filters.count()).toBe(1);
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
  expect(await page.getByRole("alert").count()).toBe(0);
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
  expect(await page.locator(".steps .row .failed").allInnerTexts()).toContain("1");
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
  await expect.poll(() => cells(".type")).toEqual(["• run started", "user", "assistant", "tool call", "• step begun", "tool result", "• run status"]);
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
  // Folded, the four are at 0, 500, 900 and 1400 ms; before and after them there is a hundredth of that.
  const xOf = (folded: number) => box.x + 148 + ((folded + 14) / (1400 * 1.03)) * (box.width - 148);
  const moment = () => page.locator("#timeline").getAttribute("aria-valuenow");
  const notice = page.locator(".notice span");
  for (const [folded, at] of [[600, 2], [800, 3], [650, 2]] as const) {
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
  for (const [folded, at] of [[690, 2], [710, 3], [620, 2], [880, 3]] as const) {
    await page.mouse.move(xOf(folded), box.y + 8);
    await expect.poll(moment).toBe(String(at));
  }
  await page.mouse.up();
  // A stretch in which nothing happened would filter everything away.
  for (const [from, to, at] of [[550, 680, 2], [860, 730, 3]] as const) {
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
  await page.mouse.move(xOf(700), box.y + 40);
  await expect.poll(() => page.locator(".timeline .hover").innerText()).toBe("nothing happened 1 m 00 s");
  // Between two events without a gap there is no event either.
  await page.mouse.move(xOf(1000), box.y + 60);
  await page.mouse.down();
  await page.mouse.move(xOf(1300), box.y + 60, { steps: 3 });
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

test("each number of an event has one name everywhere, which says what it is", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll write the test first").click();
  await page.keyboard.press("Enter");
  const factOf = async (name: string) => {
    const term = page.locator("aside.inspector dt", { hasText: new RegExp(`^${name}$`) });
    expect(await term.getAttribute("title")).toMatch(/\.$/);
    return term.locator("xpath=following-sibling::dd[1]").innerText();
  };
  await expect.poll(() => page.locator(".moments").innerText()).not.toBe("moment 106 of 106");
  const [position, sequence, moment] = [await factOf("position"), await factOf("sequence"), await factOf("moment")];
  // The place in the log: of the scrubber, of a row of the events, and in the address.
  expect(await page.locator("#position").inputValue()).toBe(position);
  expect(page.url()).toContain(`event=${position}`);
  // The number in the agent's conversation.
  const number = page.locator(".conversation .row.selected .number");
  expect(await number.innerText()).toBe(sequence);
  expect(sequence).toMatch(/^#\d+$/);
  // How much had happened.
  expect(moment).toMatch(/^\d+ of 106$/);
  expect(await page.locator(".moments").innerText()).toBe(`moment ${moment}`);
  for (const place of [number, page.locator(".moments"), page.locator("label.position")]) expect(await place.getAttribute("title")).toMatch(/\.$/);
  await page.locator("#tab-events").click();
  expect(await page.locator(".events .row.selected .position").innerText()).toBe(position);
  // Forks and snapshots are told by numbers of conversations.
  await page.getByRole("treeitem", { name: /With the date made/ }).click();
  await expect.poll(() => page.locator(".facts .from").innerText()).toContain("forked at #22 from");
  expect(await page.getByRole("treeitem", { name: /With the date made/ }).innerText()).toContain("#22");
  await page.keyboard.press("?");
  await expect.poll(() => page.getByRole("dialog", { name: "Keys" }).innerText()).toContain("had happened by then");
  expect(told).toEqual([]);
  await close();
});

test("the inspector says where the event isn't in the list that is shown, and why, and leads there", async () => {
  const { page, told, close } = await app.open();
  const note = page.locator("aside.inspector .hidden");
  const absent = () => expect.poll(() => note.count()).toBe(0);
  await page.getByText("I'll look at the project first.").click();
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("I'll look at the project first.");
  await absent();
  // The filter.
  await page.keyboard.press("f");
  await page.getByRole("dialog", { name: "Filter" }).getByRole("button", { name: "user", exact: true }).click();
  await page.keyboard.press("Escape");
  await expect.poll(() => note.innerText()).toContain("Hidden by the filter.");
  await page.locator("#tab-events").click();
  await expect.poll(() => note.innerText()).toContain("Hidden by the filter.");
  await note.getByRole("button", { name: "No filter" }).click();
  await absent();
  await expect.poll(() => page.url()).not.toContain("type=");
  // Another agent, whose conversation hasn't got it; in the events of all agents it is.
  await page.locator("#tab-conversation").click();
  await page.getByRole("treeitem", { name: /planner/ }).first().click();
  await expect.poll(() => note.innerText()).toContain("Not in this conversation, but in that of coder.");
  await page.locator("#tab-events").click();
  await absent();
  await page.locator("#tab-conversation").click();
  await note.getByRole("button", { name: "Go to coder" }).click();
  await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe("coder");
  await absent();
  // What comes later than the scrubber.
  await page.keyboard.press("Home");
  await expect.poll(() => note.innerText()).toContain("Later than the moment that is shown.");
  await note.getByRole("button", { name: "Go to it" }).click();
  await page.locator(".conversation .row.selected").waitFor();
  await absent();
  // What is no line of a conversation; a result is, with its call.
  await page.keyboard.press("End");
  await page.locator("#tab-events").click();
  // The list goes to the end of the run once it is shown: a key that comes before that would be overtaken by it.
  await page.getByRole("option").first().waitFor();
  await expect
    .poll(async () => {
      await page.keyboard.press("Home");
      return page.getByRole("option").first().innerText();
    })
    .toContain("run started");
  await page.getByRole("option").filter({ hasText: "step 1, from" }).first().click();
  await page.keyboard.press("End");
  await page.locator("#tab-conversation").click();
  await expect.poll(() => note.innerText()).toContain("No line of a conversation.");
  await note.getByRole("button", { name: "Show it in the events" }).click();
  await page.locator("#tab-events[aria-selected=true]").waitFor();
  await absent();
  await page.keyboard.press("Home");
  await expect.poll(() => page.getByRole("option").first().innerText()).toContain("run started");
  await page.getByRole("option").filter({ hasText: "tool result" }).first().click();
  await page.keyboard.press("End");
  await page.locator("#tab-conversation").click();
  await page.waitForTimeout(300);
  await absent();
  // What was forgotten, and is folded.
  await page.locator("#tab-events").click();
  await page.locator("#position").fill("111");
  await page.locator("#position").press("Enter");
  await page.getByRole("option").filter({ hasText: "It works for one customer" }).first().waitFor();
  await page.waitForTimeout(300);
  await page.getByRole("option").filter({ hasText: "It works for one customer" }).first().click();
  await page.locator("#tab-conversation").click();
  await absent();
  await page.keyboard.press("End");
  await expect.poll(() => note.innerText()).toContain("Forgotten by a truncation, and folded.");
  await note.getByRole("button", { name: "Unfold it" }).click();
  await page.locator(".conversation .row.selected.forgotten").waitFor();
  await absent();
  expect(told).toEqual([]);
  await close();
});

test("a comparison says that it goes to both ends, wherever the scrubber is, and what comes after that is fainter", async () => {
  const { page, told, close } = await app.open("?example#tab=compare");
  await page.locator(".compare .added").first().waitFor();
  expect(await page.locator(".then").count()).toBe(0);
  expect(await page.locator(".compare .later").count()).toBe(0);
  const pairs = await page.locator(".compare .pair").count();
  await page.keyboard.press("Home");
  await expect.poll(() => page.locator(".then").innerText()).toContain("Both are compared to their ends. What came after the beginning is fainter.");
  expect(await page.locator(".compare .pair").count()).toBe(pairs);
  const events = await page.locator(".compare .event").count();
  await expect.poll(() => page.locator(".compare .event.later").count()).toBe(events);
  await page.keyboard.press("End");
  for (let event = 0; event < 3; event++) await page.keyboard.press("ArrowLeft");
  await expect.poll(() => page.locator(".then").innerText()).toMatch(/What came after \d\d:\d\d:\d\d\.\d{3} is fainter/);
  await expect.poll(() => page.locator(".compare .event.later").count()).toBeLessThan(events);
  // A session beside this one has no moments of it.
  const beside = await page.getByLabel("Compare with").locator("option", { hasText: "ci-helper" }).getAttribute("value");
  await page.getByLabel("Compare with").selectOption(beside);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Home");
  await expect.poll(() => page.locator(".compare .head h2").last().innerText()).toContain("ci-helper");
  await expect.poll(() => page.locator(".compare .pair > .side:first-child .event:not(.later)").count()).toBe(0);
  expect(await page.locator(".compare .pair > .side:last-child .event.later").count()).toBe(0);
  await page.locator(".then").getByRole("button", { name: "to the end" }).click();
  await expect.poll(() => page.locator(".compare .later").count()).toBe(0);
  expect(told).toEqual([]);
  await close();
});

test("an address that names what isn't there says so, and what is shown instead", async () => {
  const first = await app.open();
  await first.page.getByText("I'll look at the project first.").waitFor();
  await first.page.getByText("I'll look at the project first.").click();
  await expect.poll(() => first.page.url()).toContain("event=");
  const agent = new URLSearchParams(new URL(first.page.url()).hash.slice(1)).get("agent") ?? "";
  await first.close();
  const told = async (hash: string) => {
    const { page, told, close } = await app.open(`?example#${hash}`);
    await page.locator("#tab-conversation").waitFor();
    await page.locator(".problem").waitFor({ timeout: 5000 });
    const problem = (await page.locator(".problem").innerText()).replace(/\s*×$/, "");
    const shown = { agent: await page.locator(".crumb.agent").innerText(), tab: await page.locator('[role="tab"][aria-selected="true"]').first().innerText(), moment: await page.locator(".moments").innerText(), inspector: await page.locator("aside.inspector").innerText() };
    expect(told).toEqual([]);
    // The address is that of what is shown.
    const { hash: after } = new URL(page.url());
    await close();
    return { problem, ...shown, hash: after };
  };
  const nobody = await told("agent=01a204cc-0000-7909-8e15-6ffae776fae6&at=111&event=111&type=user");
  expect(nobody).toMatchObject({ problem: "The link isn't followed as it is. There is no agent 01a204cc-0000-7909-8e15-6ffae776fae6 in this recording: coder is shown, at its end.", agent: "coder", moment: "moment 106 of 106" });
  expect(nobody.inspector).toContain("Nothing is selected");
  expect(nobody.hash).toBe(`#agent=${agent}`);
  const nowhere = await told(`agent=${agent}&at=9999&event=8888`);
  expect(nowhere.problem).toBe("The link isn't followed as it is. There is no event at position 9999 in this session: its end is shown. There is no event at position 8888 in this session: none is selected.");
  expect(nowhere.inspector).toContain("Nothing is selected");
  expect(nowhere.hash).toBe(`#agent=${agent}`);
  const odd = await told("tab=flames&of=nobody&type=user,shout&status=fine&range=a-b&at=x&run=7&with=noone&tool=hammer");
  for (const part of ["no view “flames”: the conversation is shown", "“type=shout” means nothing here", "“status=fine” means nothing here", "“range=a-b” means nothing here", "“at=x” means nothing here", "“run=7” means nothing here", "no agent nobody in this session: it is no filter", "no agent noone in this recording: it isn't compared with", "no tool “hammer” in this session: it is no filter"]) expect(odd.problem).toContain(part);
  expect(odd.hash).toBe(`#agent=${agent}&type=user`);
});

test("an address that is changed by hand into one that names nothing leaves what is shown, and says so", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll look at the project first.").click();
  await page.keyboard.press("Enter");
  await expect.poll(() => page.url()).toMatch(/at=\d+&event=\d+/);
  const before = page.url();
  await page.evaluate(() => (location.hash = "#agent=nobody&tab=events"));
  await expect.poll(() => page.locator(".problem").innerText()).toContain("There is no agent nobody in this recording: what was shown stays.");
  await expect.poll(() => page.url()).toBe(before);
  await page.locator("#tab-conversation[aria-selected=true]").waitFor();
  // One that can be followed takes the message away.
  await page.evaluate(() => (location.hash = location.hash.replace(/&event=\d+/, "&tab=events")));
  await page.locator("#tab-events[aria-selected=true]").waitFor();
  await expect.poll(() => page.locator(".problem").count()).toBe(0);
  expect(told).toEqual([]);
  await close();
});
