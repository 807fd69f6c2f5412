// What is looked at stays what it is while the store that is served grows, or is changed in other ways.

import { open } from "runlog";
import { expect, onTestFinished, test } from "vitest";

import { lines, viewer } from "./page.js";
import { nothing, recording } from "./served.js";

const app = viewer();

/** A session whose main agent said so much, a second apart, and with a sub-agent that said nothing so far. */
async function spoken(count: number) {
  const { store, server } = await nothing();
  const { session, instance } = await store.startSession({ title: "Long" }, "main");
  const sub = await store.context((await store.createInstance({ sessionId: session.id, agentName: "sub", parentInstanceId: instance.id })).id);
  const context = await store.context(instance.id);
  const began = Date.now();
  for (let at = 1; at <= count; at++) await context.appendMessage({ role: "user", content: `main ${at}` }, { event: { createdAtMs: began + at * 1000 } });
  /** The sub-agent, whose clock is behind, says so much, by default while the main agent spoke. */
  const say = async (many: number, from = began) => {
    for (let at = 1; at <= many; at++) await sub.appendMessage({ role: "user", content: `sub ${at}` }, { event: { createdAtMs: from + at * 300 } });
    server.tell(await store.lastPosition());
  };
  return { store, server, instance: instance.id, began, say };
}

test("the moment that is looked at is that of the same event when others come that happened before it", async () => {
  const { server, instance, say } = await spoken(6);
  const { page, told, close } = await app.open(`${server.url}#agent=${instance}`);
  await expect.poll(() => lines(page)).toHaveLength(6);
  const position = page.locator("#position");
  for (let back = 0; back < 2; back++) await page.keyboard.press("ArrowLeft");
  await expect.poll(() => lines(page)).toHaveLength(4);
  const before = await position.inputValue();
  const address = page.url();
  await say(3);
  await page.getByText("moment 7 of 9").waitFor();
  await expect.poll(() => position.inputValue()).toBe(before);
  expect((await lines(page)).at(-1)).toContain("main 4");
  expect(page.url()).toBe(address);
  expect(told).toEqual([]);
  await close();
});

test("a stretch that is looked at alone keeps its ends when events come that happened before them, in a link too", async () => {
  const { server, instance, say } = await spoken(6);
  // As links were once: by ranks.
  const { page, told, close } = await app.open(`${server.url}#agent=${instance}&range=2-5`);
  const shown = async () => (await lines(page)).map((line) => /main \d/.exec(line)?.[0]);
  await expect.poll(shown).toEqual(["main 3", "main 4", "main 5"]);
  await expect.poll(() => page.url()).toMatch(/between=\d+-\d+/);
  expect(page.url()).not.toContain("range=");
  await say(3);
  await page.getByText("of 9").waitFor();
  await page.waitForTimeout(200);
  await expect.poll(() => shown()).toEqual(["main 3", "main 4", "main 5"]);
  await page.reload();
  await page.getByText("of 9").waitFor();
  await expect.poll(shown).toEqual(["main 3", "main 4", "main 5"]);
  expect(told).toEqual([]);
  await close();
});

test("playing goes on from where it was when events come that happened before that, and from where one goes meanwhile", async () => {
  // So long that no machine is slow enough for it to end before what is looked at.
  const { server, instance, began, say } = await spoken(400);
  const { page, told, close } = await app.open(`${server.url}#agent=${instance}`);
  await expect.poll(() => page.locator(".moments").innerText()).toBe("moment 400 of 400");
  const last = async () => {
    // While the list is made anew there may be no line of it.
    await expect.poll(() => lines(page)).not.toEqual([]);
    return Number(/main (\d+)/.exec((await lines(page)).at(-1) ?? "")?.[1]);
  };
  await page.keyboard.press("Home");
  await page.keyboard.press("Space");
  await expect.poll(last).toBeGreaterThan(3);
  await say(60, began - 20_000);
  const then = await last();
  await expect.poll(() => page.locator(".moments").innerText()).toContain("of 460");
  // All that came happened before it. The list may be made anew just now, so that its lines don't tell.
  const moment = Number(/moment (\d+)/.exec(await page.locator(".moments").innerText())?.[1]);
  expect(moment).toBeGreaterThanOrEqual(60 + then);
  await expect.poll(last).toBeGreaterThan(then + 2);
  await page.keyboard.press("End");
  await page.getByRole("button", { name: "Play (space)" }).waitFor();
  await expect.poll(() => page.locator(".moments").innerText()).toBe("moment 460 of 460");
  expect(told).toEqual([]);
  await close();
});

test("who scrolls while it is played goes on reading there, and at the end sees what comes again", async () => {
  // So long that no machine is slow enough for it to end before what is looked at.
  const { server, instance } = await spoken(600);
  const { page, told, close } = await app.open(`${server.url}#agent=${instance}`);
  await expect.poll(() => page.locator(".moments").innerText()).toBe("moment 600 of 600");
  const moment = async () => Number(/moment (\d+)/.exec(await page.locator(".moments").innerText())?.[1]);
  const top = () => page.locator(".conversation .viewport").evaluate((one) => one.scrollTop);
  /** The line that is read, and where it is. Where the list is scrolled to changes as well when rows above it get their heights. */
  const read = () =>
    page.locator(".conversation .viewport").evaluate((list) => {
      const from = list.getBoundingClientRect().top;
      const line = [...list.querySelectorAll('[role="listitem"]')].find((one) => one.getBoundingClientRect().bottom > from);
      return `${/main \d+/.exec(line?.textContent ?? "")?.[0]} at ${Math.round((line?.getBoundingClientRect().top ?? 0) - from)}`;
    });
  // Slowly, steps of the recording and heights of rows come between the wheel and what it scrolls.
  const throttle = await page.context().newCDPSession(page);
  await throttle.send("Emulation.setCPUThrottlingRate", { rate: 20 });
  await page.keyboard.press("Home");
  await page.keyboard.press("Space");
  await expect.poll(moment, { timeout: 20_000 }).toBeGreaterThan(25);
  await page.locator(".conversation .viewport").hover();
  await page.mouse.wheel(0, -400);
  /** Whether the same is read so many moments later. */
  const stays = async (moments: number) => {
    const [line, then] = [await read(), await moment()];
    await expect.poll(moment, { timeout: 20_000 }).toBeGreaterThan(then + moments);
    return line === (await read());
  };
  // When the wheel has come there. While the list follows what is played, something else is read at each moment.
  await expect.poll(() => stays(2), { timeout: 30_000 }).toBe(true);
  expect(await stays(5)).toBe(true);
  await throttle.send("Emulation.setCPUThrottlingRate", { rate: 1 });
  // What was the end may not be it any more when the wheel has come there.
  const follows = async () => {
    await page.mouse.wheel(0, 100_000);
    const [end, later] = [await top(), await moment()];
    await expect.poll(moment).toBeGreaterThan(later + 5);
    return (await top()) - end;
  };
  await expect.poll(follows, { timeout: 30_000 }).toBeGreaterThan(100);
  await page.keyboard.press("Space");
  expect(told).toEqual([]);
  await close();
});

test("the end of a conversation is its end, however high its messages are", async () => {
  const { store, server, instance } = await spoken(0);
  const context = await store.context(instance);
  for (let at = 0; at < 80; at++) await context.appendMessage({ role: "user", content: `message ${at}\n`.repeat(1 + ((at * 7) % 9)) });
  server.tell(await store.lastPosition());
  const { page, told, close } = await app.open(`${server.url}#agent=${instance}`);
  await expect.poll(() => lines(page).then((all) => all.length)).toBeGreaterThan(3);
  const list = page.locator(".conversation .viewport");
  await page.keyboard.press("Home");
  await page.getByText("moment 0 of 80").waitFor();
  await page.keyboard.press("End");
  await page.getByText("moment 80 of 80").waitFor();
  await expect.poll(() => list.evaluate((one) => one.scrollHeight - one.clientHeight - one.scrollTop)).toBeLessThan(2);
  await page.waitForTimeout(300);
  await expect.poll(() => list.evaluate((one) => one.scrollHeight - one.clientHeight - one.scrollTop)).toBeLessThan(2);
  expect((await lines(page)).at(-1)).toContain("message 79");
  expect(told).toEqual([]);
  await close();
});

test("what a truncation has forgotten stays where it is when it is unfolded at the end of a conversation", async () => {
  const { store, server, instance } = await spoken(40);
  const context = await store.context(instance);
  await context.truncateAfterSequence(34);
  for (let at = 0; at < 3; at++) await context.appendMessage({ role: "user", content: `after ${at}` });
  server.tell(await store.lastPosition());
  const { page, told, close } = await app.open(`${server.url}#agent=${instance}`);
  const moments = () => page.locator(".moments").innerText();
  await expect.poll(moments).toMatch(/moment (\d\d+) of \1$/);
  await page.keyboard.press("Home");
  await expect.poll(moments).toMatch(/moment 0 of/);
  await page.keyboard.press("End");
  await expect.poll(moments).toMatch(/moment (\d\d+) of \1$/);
  await page.waitForTimeout(300);
  const group = page.locator(".conversation .group button");
  const before = (await group.boundingBox())?.y ?? 0;
  await group.click();
  await expect.poll(() => group.getAttribute("aria-expanded")).toBe("true");
  for (let look = 0; look < 5; look++) {
    expect(Math.abs(((await group.boundingBox())?.y ?? 0) - before)).toBeLessThan(3);
    await page.waitForTimeout(100);
  }
  expect(told).toEqual([]);
  await close();
});

test("what is typed after g takes the place of the position that is there", async () => {
  const { server, instance } = await spoken(5);
  const { page, told, close } = await app.open(`${server.url}#agent=${instance}`);
  await page.getByText("moment 5 of 5").waitFor();
  const position = page.locator("#position");
  const last = Number(await position.inputValue());
  await page.keyboard.press("g");
  await page.keyboard.type(String(last - 2));
  await page.keyboard.press("Enter");
  await page.getByText("moment 3 of 5").waitFor();
  expect(told).toEqual([]);
  await close();
});

test("a store that was restored from a backup isn't mixed with what it was, however much was written since, but opened anew", async () => {
  const { store, run, server, folder } = await recording(["Common."]);
  const backup = `${folder}-backup`;
  await store.backup(backup);
  for (let at = 0; at < 3; at++) await run.recordMessage({ role: "user", content: `Old ${at}` });
  const { page, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(4);
  const restored = await open(backup);
  onTestFinished(() => restored.close());
  const context = await restored.context(run.run.instanceId);
  for (let at = 0; at < 9; at++) await context.appendMessage({ role: "user", content: `New ${at}` });
  server.from(backup);
  server.tell(await restored.lastPosition());
  await expect.poll(() => page.getByRole("alert").innerText(), { timeout: 20_000 }).toContain("has another past than before");
  await expect.poll(() => lines(page)).toHaveLength(10);
  expect((await lines(page)).join()).not.toContain("Old");
  await close();
});

test("what a compaction has taken out of the store is said to be there no longer, not to say nothing", async () => {
  const { store, run, server, folder } = await recording(["Stays.", "Goes."]);
  const context = await store.context(run.run.instanceId);
  await context.appendMessage({ role: "assistant", content: null, tool_calls: [{ id: "c", type: "function", function: { name: "ls", arguments: "{}" } }] });
  await context.truncateAfterSequence(1);
  const { page, told, close } = await app.open(server.url);
  await page.getByText("removed by a truncation").waitFor();
  await store.close();
  // Opened again it writes into another segment, and the one before is compacted.
  const again = await open(folder);
  onTestFinished(() => again.close());
  await again.compact();
  await (await again.context(run.run.instanceId)).appendMessage({ role: "user", content: "More." });
  server.tell(await again.lastPosition());
  await expect.poll(async () => (await lines(page)).join()).toContain("More.");
  await page.getByText("removed by a truncation").click();
  await expect.poll(() => lines(page)).toHaveLength(5);
  const [stays, , goes, call] = await lines(page);
  expect(stays).toContain("Stays.");
  expect(goes).toContain("It is no longer in the store.");
  expect(call).toContain("no longer in the store");
  expect(call).toContain("ls");
  expect((await lines(page)).join()).not.toContain("says nothing");
  await page.getByText("It is no longer in the store.").first().click();
  const inspector = page.getByRole("complementary", { name: "The selected event" });
  await expect.poll(() => inspector.getByRole("tabpanel").innerText()).toContain("It is no longer in the store: a compaction took it out of the files");
  // When it was recorded is known no more.
  await expect.poll(() => inspector.locator("dt").allInnerTexts()).not.toContain("recorded");
  await page.locator("#tab-events").click();
  // The message that made the call is a line here.
  await expect.poll(() => page.locator("#view").getByText("no longer in the store").count()).toBe(3);
  expect(told).toEqual([]);
  await close();
});

test("a run that is opened before its first message shows its conversation as it comes", async () => {
  const { store, server } = await nothing();
  const run = await store.runs.start({ session: { title: "Early" }, agentName: "coder" });
  const { page, told, close } = await app.open(server.url);
  await page.getByText("This agent hasn't been asked anything").waitFor();
  await expect.poll(() => page.locator("#tab-conversation").getAttribute("aria-selected")).toBe("true");
  await run.recordMessage({ role: "user", content: "Begin." });
  server.tell(await store.lastPosition());
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("Begin.")]);
  expect(told).toEqual([]);
  await close();
});

test("a flow shows its events, and the agent that is gone to from there its conversation", async () => {
  const { store, server } = await recording(["Begin."]);
  const flow = await store.flows.create();
  await flow.startAgent("plan", "session-1");
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(1);
  const selected = () => page.locator('.tabs [role="tab"][aria-selected="true"]').first().innerText();
  await page.getByRole("treeitem", { name: /flow/ }).click();
  await expect.poll(selected).toBe("events");
  await page.getByRole("treeitem", { name: /coder/ }).click();
  await expect.poll(selected).toBe("conversation");
  // Whoever has chosen the events sees those of the next one too.
  await page.locator("#tab-events").click();
  await page.getByRole("treeitem", { name: /flow/ }).click();
  await page.getByRole("treeitem", { name: /coder/ }).click();
  await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe("coder");
  await expect.poll(() => selected()).toBe("events");
  await flow.close();
  expect(told).toEqual([]);
  await close();
});

test("while the store that is served is on its way, the first screen says so, and takes another recording", async () => {
  const { server } = await recording(["Begin."]);
  let release = () => {};
  server.holdFiles(new Promise((resolve) => void (release = resolve)));
  const { page, told, close } = await app.open(server.url);
  const sending = page.getByText("The store that is served here is being sent to this page");
  await sending.waitFor();
  await expect.poll(() => page.locator("main").innerText()).not.toContain("no server");
  await expect.poll(() => page.getByRole("button", { name: "or choose files" }).isEnabled()).toBe(true);
  release();
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("Begin.")]);
  await page.getByRole("button", { name: "Open another recording" }).click();
  await expect.poll(() => sending.count()).toBe(0);
  expect(told).toEqual([]);
  await close();
});

test("of the room that a file has for records to come little is sent with what is new, however much that is", async () => {
  const { store, run, server } = await recording(["Begin."]);
  const { page, told, close } = await app.open(server.url);
  await expect.poll(() => lines(page)).toHaveLength(1);
  const sentFor = async (content: string, count: number) => {
    const before = server.sent.length;
    await run.recordMessage({ role: "assistant", content });
    server.tell(await store.lastPosition());
    await expect.poll(() => lines(page)).toHaveLength(count);
    return server.sent.slice(before).filter(([name]) => name.endsWith(".seg")).reduce((sum, [, , bytes]) => sum + bytes, 0);
  };
  for (const count of [2, 3]) expect(await sentFor("One.", count)).toBeLessThan(64 << 10);
  expect(await sentFor("Much. ".repeat(100_000), 4)).toBeLessThan(1.6e6);
  expect(await sentFor("After.", 5)).toBeLessThan(128 << 10);
  expect(told).toEqual([]);
  await close();
});
