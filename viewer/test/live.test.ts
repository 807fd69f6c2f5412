// A store that is served and followed while it is written.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { open } from "runlog";
import { expect, onTestFinished, test } from "vitest";

import { dropOn, lines, viewer } from "./page.js";
import { nothing, recording, served } from "./served.js";

const app = viewer();

test("a store that is empty when the page is opened is shown as soon as there is a run in it, and followed", async () => {
  const { store, server } = await nothing();
  const { page, told, close } = await app.open(server.url);
  const waiting = () => page.getByText("The store that is served here has no run yet.").count();
  await expect.poll(waiting).toBe(1);
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  // What can't be shown either doesn't end it: a chat, a file that is none, a server that is away for a moment.
  await store.chats.create({ assistantId: "helper" });
  server.tell(await store.lastPosition());
  await expect.poll(server.asked).toBeGreaterThan(1);
  await dropOn(page, "empty.jsonl", "");
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("“empty.jsonl” can't be shown");
  await expect.poll(() => waiting()).toBe(1);
  const run = await store.runs.start({ session: { title: "First" }, agentName: "coder", messages: [{ role: "user", content: "Begin." }] });
  server.refuse(true);
  const asked = server.asked();
  server.tell(await store.lastPosition());
  await expect.poll(server.asked).toBeGreaterThan(asked);
  server.refuse(false);
  await expect.poll(() => lines(page), { timeout: 10_000 }).toEqual([expect.stringContaining("Begin.")]);
  await run.recordMessage({ role: "assistant", content: "One." });
  server.tell(await store.lastPosition());
  await expect.poll(() => lines(page)).toHaveLength(2);
  expect(told).toEqual([expect.stringContaining("503")]);
  await close();
});

test("a run whose process ended is shown as cut off, until the store is written again", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const { page, told, close } = await app.open(server.url);
  const status = () => page.locator(".crumbs [role=img]").getAttribute("aria-label");
  await expect.poll(status).toBe("running");
  server.written(false);
  await expect.poll(status, { timeout: 10_000 }).toContain("cut off");
  await expect.poll(() => page.locator(".then.paused").innerText()).toContain("no process writes this store now");
  await expect.poll(() => page.locator("aside.tree [role=img], nav [role=img]").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")))).not.toContain("running");
  server.written(true);
  await expect.poll(status, { timeout: 10_000 }).toBe("running");
  await run.pause("later");
  server.tell(await store.lastPosition());
  await expect.poll(status).toBe("paused");
  server.written(false);
  await page.waitForTimeout(3500);
  expect(await status()).toBe("paused");
  expect(told).toEqual([]);
  await close();
});

test("a store whose writer was killed is followed, although its files have more than the server counts", async () => {
  const { store, run, server } = await recording(["Begin.", "One.", "Two."]);
  const end = await store.lastPosition();
  server.tell(end - 1);
  server.endsAt(end - 1);
  const { page, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(3);
  await page.waitForTimeout(3000);
  await expect.poll(() => page.locator(".live").innerText()).toBe("● live");
  expect(server.beyond()).toBe(0);
  await run.recordMessage({ role: "assistant", content: "Three." });
  server.endsAt(Number.MAX_SAFE_INTEGER);
  server.tell(await store.lastPosition());
  await expect.poll(() => lines(page)).toHaveLength(4);
  await close();
});

test("a page that can't keep up says how much there is to come", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(1);
  let release = () => {};
  server.hold(new Promise((resolve) => (release = resolve)));
  const context = await store.context(run.run.instanceId);
  for (let some = 0; some < 12; some++) await context.appendMessages(Array.from({ length: 1000 }, () => ({ role: "user", content: "More." })));
  server.tell(await store.lastPosition());
  await expect.poll(() => page.locator(".live").innerText()).toMatch(/reading 12,0\d\d more …/);
  release();
  await expect.poll(() => page.locator(".live").innerText()).toBe("● live");
  await expect.poll(() => page.locator(".moments").innerText()).toMatch(/of 12,00\d/);
  expect(told).toEqual([]);
  await close();
});

test("a store that is followed is so after something was dropped that can't be opened, and not after another recording was", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(1);
  await dropOn(page, "empty.jsonl", "");
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("“empty.jsonl” can't be shown");
  await run.recordMessage({ role: "assistant", content: "One." });
  server.tell(await store.lastPosition());
  await expect.poll(() => lines(page)).toHaveLength(2);
  await dropOn(page, "other.jsonl", JSON.stringify({ role: "user", content: "other" }));
  await expect.poll(() => page.locator(".crumb.store").innerText()).toBe("other.jsonl");
  await run.recordMessage({ role: "assistant", content: "Two." });
  server.tell(await store.lastPosition());
  await page.waitForTimeout(300);
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("other")]);
  expect(told).toEqual([]);
  await close();
});

test("another store that is served in its place isn't taken for what came, but opened anew, and followed", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const other = await recording(["Other.", "More.", "And more."]);
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(1);
  server.from(other.folder);
  server.tell((await store.lastPosition()) + 5);
  await expect.poll(() => page.getByRole("alert").innerText(), { timeout: 20_000 }).toContain("Another store is served here now: it was opened anew.");
  const said = ["Other.", "More.", "And more."].map((text) => expect.stringContaining(text));
  await expect.poll(() => lines(page)).toEqual(said);
  await other.run.recordMessage({ role: "assistant", content: "One." });
  server.tell(await other.store.lastPosition());
  await expect.poll(() => lines(page)).toEqual([...said, expect.stringContaining("One.")]);
  await run.complete();
  expect(told).toEqual([]);
  await close();
});

test("another, shorter store that is served in its place is followed by each of several tabs", async () => {
  const { server } = await recording(Array.from({ length: 60 }, (_, at) => `Old ${at}.`));
  const other = await recording(["Other.", "More."]);
  const { page, close } = await app.open(server.url);
  const second = await page.context().newPage();
  await second.goto(server.url);
  const pages = [page, second];
  for (const one of pages) await expect.poll(() => one.locator(".moments").innerText()).toContain("of 61");
  server.refuse(true);
  server.drop();
  await page.waitForTimeout(2500);
  server.from(other.folder);
  const end = await other.store.lastPosition();
  server.endsAt(end);
  server.refuse(false);
  server.tell(end);
  for (const one of pages) await expect.poll(() => lines(one), { timeout: 20_000 }).toHaveLength(2);
  await page.waitForTimeout(3000);
  const refused = server.beyond();
  await other.run.recordMessage({ role: "assistant", content: "One." });
  const last = await other.store.lastPosition();
  server.endsAt(last);
  server.tell(last);
  for (const one of pages) await expect.poll(() => lines(one)).toHaveLength(3);
  await page.waitForTimeout(3000);
  expect(server.beyond()).toBe(refused);
  for (const one of pages) await expect.poll(() => one.getByRole("button", { name: "● live" }).count()).toBe(1);
  for (const one of pages) await expect.poll(() => one.locator("header").innerText()).not.toMatch(/connection lost|\d new/);
  await close();
});

test("a store that the server can't read for a while is followed again once it can, and what was said of that goes", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(1);
  server.fail("the folder of the store: No such file or directory");
  await run.recordMessage({ role: "assistant", content: "One." });
  server.tell(await store.lastPosition());
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("What is new can't be shown: the folder of the store");
  const asked = server.asked();
  await expect.poll(server.asked, { timeout: 10_000 }).toBeGreaterThan(asked + 1);
  server.fail(undefined);
  await expect.poll(() => lines(page), { timeout: 10_000 }).toHaveLength(2);
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  await page.getByRole("button", { name: "● live" }).waitFor();
  expect(told.filter((line) => !line.includes("500"))).toEqual([]);
  await close();
});

test("a store that is made anew in the same folder is opened anew, as soon as there is something in it", async () => {
  const { store, server, folder } = await recording(["Begin.", "Go on."]);
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(2);
  const last = await store.lastPosition();
  await store.close();
  await rm(folder, { recursive: true });
  const anew = await open(folder);
  onTestFinished(() => anew.close());
  server.tell(last + 1);
  await expect.poll(() => page.getByText("The store that is served here has no run yet.").count(), { timeout: 20_000 }).toBe(1);
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("Another store is served here now");
  await anew.runs.start({ session: { title: "Anew" }, agentName: "coder", messages: [{ role: "user", content: "Anew." }] });
  server.tell(await anew.lastPosition());
  await expect.poll(() => lines(page), { timeout: 20_000 }).toEqual([expect.stringContaining("Anew.")]);
  await page.getByRole("button", { name: "● live" }).waitFor();
  expect(told).toEqual([]);
  await close();
});

test("what was found stays found while the store grows, and what comes is looked through as well", async () => {
  const { store, run, server } = await recording(["A needle.", "Hay."]);
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(2);
  await page.getByRole("searchbox").first().fill("needle");
  const marks = page.locator(".conversation mark");
  await expect.poll(() => marks.count()).toBe(1);
  let fewest = 9;
  for (let more = 0; more < 8; more++) {
    await run.recordMessage({ role: "user", content: more % 2 === 0 ? "More hay." : "Another Needle." });
    server.tell(await store.lastPosition());
    await expect.poll(() => lines(page)).toHaveLength(3 + more);
    fewest = Math.min(fewest, await page.locator("header").getByText(/^\d+( of \d+)?$/).first().innerText().then((text) => Number(text.replace(/.* of /, ""))));
  }
  await expect.poll(() => marks.count()).toBe(5);
  expect(fewest).toBeGreaterThan(0);
  expect(told).toEqual([]);
  await close();
});

test("more tabs than a browser has connections follow one store", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(1);
  const pages = [page];
  for (let tab = 1; tab < 8; tab++) {
    const another = await page.context().newPage();
    await another.goto(server.url);
    await expect.poll(() => lines(another)).toHaveLength(1);
    pages.push(another);
  }
  const comes = async (count: number) => {
    await run.recordMessage({ role: "user", content: "More." });
    server.tell(await store.lastPosition());
    for (const one of pages) await expect.poll(() => lines(one)).toHaveLength(count);
  };
  await comes(2);
  // The one that follows for all is closed: another one does.
  await pages.shift()?.close();
  await new Promise((resolve) => setTimeout(resolve, 500));
  await comes(3);
  expect(told).toEqual([]);
  await close();
});

test("a link that compares an agent with itself, or says things twice, is told of or followed", async () => {
  const { run, server } = await recording(["Begin."]);
  const id = run.run.instanceId;
  const { page, told, close } = await app.open(`${server.url}#agent=${id}&tab=compare&with=${id}&type=tool,tool&status=error,error&of=${id},${id}`);
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("An agent isn't compared with itself.");
  await expect.poll(() => page.locator(".compare").innerText()).toContain("There is nothing to compare with.");
  expect(told).toEqual([]);
  await close();
});

test("what is looked into gets its result, and loses what is taken out of the store", async () => {
  const { store, run, server } = await recording(["Begin."]);
  await run.recordMessage({ role: "assistant", content: null, tool_calls: [{ id: "c", type: "function", function: { name: "ls", arguments: "{}" } }] });
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(2);
  await page.locator('.conversation [role="listitem"]').nth(1).locator("button").first().click();
  const inspector = page.getByRole("complementary", { name: "The selected event" });
  await expect.poll(() => inspector.locator("h2").innerText()).toBe("ls");
  await expect.poll(() => inspector.getByRole("tab").allInnerTexts()).not.toContain("output");
  await run.recordToolResult({ toolCallId: "c", output: "a.txt" });
  server.tell(await store.lastPosition());
  await expect.poll(() => inspector.getByRole("tab").allInnerTexts()).toContain("output");
  await page.locator('.conversation [role="listitem"]').nth(0).click();
  await expect.poll(() => inspector.innerText()).toContain("Begin.");
  const [first] = await store.contexts.getEvents(run.run.instanceId);
  await store.redact(first?.position ?? 0, "asked for");
  server.tell(await store.lastPosition());
  await expect.poll(() => inspector.innerText()).toContain("Its content was taken out of the store.");
  await expect.poll(async () => (await lines(page))[0]).toContain("Its content was taken out of the store.");
  expect(told).toEqual([]);
  await close();
});

test("a file that was seen while it was written is sent again as a whole", async () => {
  const { store, run, server } = await recording([`Begin. ${"x".repeat(200_000)}`]);
  const { page, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(1);
  // What comes stands before the end of what was sent: a hole that is filled later.
  server.seen((bytes) => bytes.fill(7, 210_000, 304_096));
  await run.recordMessage({ role: "assistant", content: "One." });
  server.tell(await store.lastPosition());
  await expect.poll(() => lines(page)).toHaveLength(2);
  server.seen(() => {});
  await run.recordMessage({ role: "assistant", content: "Two." });
  server.tell(await store.lastPosition());
  await expect.poll(() => lines(page)).toHaveLength(3);
  const isWhole = server.sent.filter(([name]) => name.endsWith(".seg")).map(([, from]) => from === 0);
  expect([isWhole[0], ...new Set(isWhole.slice(1, -1)), isWhole.at(-1)]).toEqual([true, false, true]);
  await close();
});

test("a store that is served is there at once; what is new comes below, or waits while it is paused; a lost server is told", async () => {
  const { store, run, server } = await recording([`Begin. ${"So much was said before. ".repeat(10_000)}`]);
  const { page, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("Begin.")]);
  await page.getByText("Begin.").click();
  await run.recordMessage({ role: "assistant", content: "This is new." });
  server.tell(await store.lastPosition());
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("Begin."), expect.stringContaining("This is new.")]);
  // The moment and the timeline have come along.
  await expect.poll(() => page.locator("#position").inputValue()).toBe(String(await store.lastPosition()));
  await expect.poll(() => page.getByRole("button", { name: "whole run" }).count()).toBe(0);
  await expect.poll(() => page.locator(".row.selected").innerText()).toContain("Begin.");
  await page.keyboard.press("l");
  await run.recordMessage({ role: "assistant", content: "And this waits." });
  server.tell(await store.lastPosition());
  await page.getByRole("button", { name: "1 new", exact: true }).waitFor();
  await expect.poll(() => lines(page)).toHaveLength(2);
  await page.getByRole("button", { name: "1 new", exact: true }).click();
  await expect.poll(() => lines(page)).toHaveLength(3);
  // What is as it was isn't sent again.
  expect(server.sent.filter(([name]) => name === "RUNLOG")).toHaveLength(1);
  // Of the segment that grows, what is new.
  const segments = server.sent.filter(([name]) => name.endsWith(".seg"));
  expect(segments.length).toBeGreaterThan(1);
  expect(segments.map(([, from]) => from > 100_000)).toEqual(segments.map((_, at) => at > 0));
  server.stop();
  await page.getByText("connection lost").waitFor();
  await close();
});

test("what comes below what is read is counted, and gone to with a click", async () => {
  const { store, run, server } = await recording(Array.from({ length: 60 }, (_, at) => `Line ${at}.`));
  const { page, close } = await app.open(server.url);
  await page.getByText("Line 1.").waitFor();
  for (const view of ["conversation", "events"] as const) {
    await page.locator(`#tab-${view}`).click();
    const list = page.locator("#view .viewport");
    await list.hover();
    await page.mouse.wheel(0, -100_000);
    for (const text of ["One.", "Two."]) await run.recordMessage({ role: "assistant", content: `${text} ${view}` });
    server.tell(await store.lastPosition());
    const below = page.getByRole("button", { name: "2 new ↓" });
    await below.waitFor();
    await expect.poll(() => list.evaluate((list) => list.scrollTop)).toBe(0);
    await below.click();
    await page.locator("#view").getByText(`Two. ${view}`).waitFor();
    await expect.poll(() => page.getByRole("button", { name: /new ↓/ }).count()).toBe(0);
  }
  await close();
});

test("a server that answers with something else is asked again, until it tells its log", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const { page, close } = await app.open(server.url);
  await page.getByText("Begin.").waitFor();
  server.refuse(true);
  server.drop();
  await page.getByText("connection lost").waitFor();
  await page.waitForTimeout(500);
  server.refuse(false);
  await expect.poll(() => page.getByText("connection lost").count(), { timeout: 10_000 }).toBe(0);
  await run.recordMessage({ role: "assistant", content: "After that." });
  server.tell(await store.lastPosition());
  await expect.poll(() => lines(page)).toHaveLength(2);
  await close();
});

test("a server that is away is asked now and then, not all the time, for what it has told of", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const { page, close } = await app.open(server.url);
  await page.getByText("Begin.").waitFor();
  await run.recordMessage({ role: "assistant", content: "Told of, and not given." });
  server.refuse(true);
  const before = server.asked();
  server.tell(await store.lastPosition());
  await expect.poll(() => server.asked()).toBeGreaterThan(before);
  await page.waitForTimeout(1500);
  expect(server.asked() - before).toBeLessThan(4);
  server.refuse(false);
  await expect.poll(() => lines(page)).toHaveLength(2);
  await close();
});

test("what is dropped while the store that is served is sent stays", async () => {
  const { server } = await recording(["Begin."]);
  let release = () => {};
  server.hold(new Promise((resolve) => void (release = resolve)));
  const { page, close } = await app.open(server.url);
  await expect.poll(() => server.asked()).toBe(1);
  await dropOn(page, "other.jsonl", JSON.stringify({ role: "user", content: "other" }));
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("other")]);
  release();
  await page.waitForTimeout(500);
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("other")]);
  await expect.poll(() => page.getByRole("button", { name: "● live" }).count()).toBe(0);
  await close();
});

test("there is a way back from another recording to the store that is served, which is followed again", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(1);
  await dropOn(page, "other.jsonl", JSON.stringify({ role: "user", content: "other" }));
  await expect.poll(() => page.locator(".crumb.store").innerText()).toBe("other.jsonl");
  await run.recordMessage({ role: "assistant", content: "Meanwhile." });
  await page.getByRole("button", { name: "Open another recording" }).click();
  await page.getByRole("button", { name: "Back to the store that is served here" }).click();
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("Begin."), expect.stringContaining("Meanwhile.")]);
  await run.recordMessage({ role: "assistant", content: "After." });
  server.tell(await store.lastPosition());
  await expect.poll(() => lines(page)).toHaveLength(3);
  expect(told).toEqual([]);
  await close();
});

test("a run that was resumed leads to the one that went on with it, and back", async () => {
  const { store, run, server } = await recording(["Begin."]);
  await run.pause();
  const { recorder } = await store.runs.resume(run.id);
  await recorder.recordMessage({ role: "assistant", content: "Gone on." });
  const { page, told, close } = await app.open(server.url);
  await page.locator(".conversation").getByText("Begin.").click();
  const facts = page.locator(".inspector dl");
  await expect.poll(() => facts.innerText()).toContain(run.id);
  await expect.poll(() => facts.innerText()).not.toContain("goes on from");
  await facts.getByRole("button", { name: recorder.id }).click();
  await expect.poll(() => page.locator(".inspector h2").innerText()).toBe("run started");
  await facts.getByRole("button", { name: run.id }).click();
  await facts.getByRole("button", { name: recorder.id }).waitFor();
  await expect.poll(() => facts.innerText()).toMatch(/resumed by\s/);
  expect(told).toEqual([]);
  await close();
});

test("an agent that is gone to while what is new is read stays the one that is looked at", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const other = await store.runs.start({ session: { title: "Beside" }, agentName: "tester", messages: [{ role: "user", content: "Test it." }] });
  const { page, told, close } = await app.open(server.url);
  await page.getByText("Begin.").or(page.getByText("Test it.")).waitFor();
  await page.getByRole("treeitem", { name: /coder/ }).click();
  await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe("coder");
  await page.evaluate(() => {
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (this: Worker, message: { method: string }) {
      post.call(this, message);
      if (message.method !== "extend") return;
      Worker.prototype.postMessage = post;
      for (const row of document.querySelectorAll<HTMLElement>('[role="treeitem"]')) if (row.innerText.includes("tester")) row.click();
    };
  });
  await run.recordMessage({ role: "assistant", content: "New." });
  await other.recordMessage({ role: "assistant", content: "It holds." });
  server.tell(await store.lastPosition());
  await expect.poll(async () => (await lines(page)).join()).toContain("It holds.");
  await page.waitForTimeout(300);
  await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe("tester");
  expect(told).toEqual([]);
  await close();
});

test("what comes doesn't take one back to the event that is selected", async () => {
  const { store, run, server } = await recording(Array.from({ length: 200 }, (_, at) => `Line ${at}.`));
  const { page, close } = await app.open(server.url);
  await page.locator("#tab-events").click();
  const list = page.locator("#view .viewport");
  await list.hover();
  await page.mouse.wheel(0, -100_000);
  await page.getByRole("option").first().click();
  await page.mouse.wheel(0, 2000);
  await expect.poll(() => list.evaluate((list) => list.scrollTop)).toBe(2000);
  await run.recordMessage({ role: "assistant", content: "New." });
  server.tell(await store.lastPosition());
  await page.getByRole("button", { name: "1 new ↓" }).waitFor();
  await page.waitForTimeout(300);
  await expect.poll(() => list.evaluate((list) => list.scrollTop)).toBe(2000);
  await close();
});

test("whoever scrolls before it is known where the selected event stands stays there", async () => {
  const { server } = await recording(Array.from({ length: 200 }, (_, at) => `Line ${at}.`));
  const { page, told, close } = await app.open(server.url);
  const list = page.locator("#view .viewport");
  const top = () => list.evaluate((list) => list.scrollTop);
  for (const [view, role] of [["events", "option"], ["conversation", "listitem"]] as const) {
    await page.locator(`#tab-${view}`).click();
    await page.locator("#view").getByRole(role).first().waitFor();
    await list.hover();
    await page.mouse.wheel(0, -100_000);
    await expect.poll(top).toBe(0);
    await page.evaluate(() => {
      const post = Worker.prototype.postMessage;
      const held: (() => void)[] = [];
      Worker.prototype.postMessage = function (this: Worker, message: { method: string }) {
        if (message.method === "placeOf") held.push(() => post.call(this, message));
        else post.call(this, message);
      };
      Object.assign(globalThis, {
        answer: () => {
          Worker.prototype.postMessage = post;
          for (const ask of held) ask();
          return held.length;
        },
      });
    });
    await page.locator("#view").getByRole(role).nth(1).click();
    await page.mouse.wheel(0, 2000);
    await expect.poll(top).toBeGreaterThan(1500);
    expect(await page.evaluate("answer()")).toBeGreaterThan(0);
    await page.waitForTimeout(300);
    await expect.poll(() => top()).toBeGreaterThan(1500);
  }
  expect(told).toEqual([]);
  await close();
});

test("what comes doesn't take one back to the moment that was gone to, nor to the agent in the tree", async () => {
  const { store, run, server } = await recording(Array.from({ length: 60 }, (_, at) => `Line ${at}.`));
  for (let at = 0; at < 40; at++) await store.runs.start({ session: { title: `Session ${at}` }, agentName: "tester", messages: [{ role: "user", content: "Test it." }] });
  const { page, told, close } = await app.open(`${server.url}#agent=${run.run.instanceId}`);
  const list = page.locator("#view .viewport");
  const tree = page.getByRole("tree");
  const top = (of: typeof list) => of.evaluate((list) => list.scrollTop);
  await page.locator("#view").getByText("Line 1.").waitFor();
  await page.keyboard.press("End");
  await expect.poll(() => top(list)).toBeGreaterThan(1000);
  await list.hover();
  await page.mouse.wheel(0, -100_000);
  await expect.poll(() => top(list)).toBe(0);
  await expect.poll(() => top(tree)).toBeGreaterThan(1000);
  await tree.hover();
  await page.mouse.wheel(0, -100_000);
  await expect.poll(() => top(tree)).toBe(0);
  await run.recordMessage({ role: "assistant", content: "New." });
  server.tell(await store.lastPosition());
  await page.getByRole("button", { name: "1 new ↓" }).waitFor();
  await page.waitForTimeout(300);
  expect([await top(list), await top(tree)]).toEqual([0, 0]);
  expect(told).toEqual([]);
  await close();
});

test("a page that was opened without the server's link says how to get in", async () => {
  const folder = await mkdtemp(join(tmpdir(), "runlog-live-"));
  const server = await served(folder, { isLocked: true });
  onTestFinished(async () => {
    server.stop();
    await rm(folder, { recursive: true });
  });
  const { page, close } = await app.open(server.url, { viewport: { width: 390, height: 844 }, hasTouch: true });
  const said = page.getByRole("alert");
  await expect.poll(() => said.innerText()).toContain("start it again with `runlog serve --open`");
  // Without --open no link was printed.
  expect(await said.innerText()).not.toContain("printed then");
  const { y = Infinity, height = 0 } = (await said.boundingBox()) ?? {};
  expect([y > 0, y + height < 844, await page.evaluate(() => scrollY)]).toEqual([true, true, 0]);
  await page.getByRole("button", { name: "Look at an example" }).click();
  await page.getByText("I'll look at the project first.").waitFor();
  await close();
});
