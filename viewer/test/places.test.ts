// Where one is, and what isn't there: the numbers of events, what a list leaves out, both ends of a comparison, addresses.

import { expect, test } from "vitest";

import { viewer } from "./page.js";

const app = viewer();

test("each number of an event has one name everywhere, which says what it is", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll write the test first").click();
  await page.keyboard.press("Enter");
  const factOf = async (name: string) => {
    const term = page.locator("aside.inspector dt", { hasText: new RegExp(`^${name}$`) });
    expect(await term.getAttribute("title")).toMatch(/\.$/);
    return term.locator("xpath=following-sibling::dd[1]").innerText();
  };
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("I'll write the test first");
  const [position, sequence, moment] = [await factOf("position"), await factOf("sequence"), await factOf("moment")];
  // The place in the log: of the scrubber, of a row of the events, and in the address.
  await expect.poll(() => page.locator("#position").inputValue()).toBe(position);
  expect(page.url()).toContain(`event=${position}`);
  // The number in the agent's conversation.
  const number = page.locator(".conversation .row.selected .number");
  await expect.poll(() => number.innerText()).toBe(sequence);
  expect(sequence).toMatch(/^#\d+$/);
  // How much had happened.
  expect(moment).toMatch(/^\d+ of 106$/);
  await expect.poll(() => page.locator(".moments").innerText()).toBe(`moment ${moment}`);
  for (const place of [number, page.locator(".moments"), page.locator("label.position")]) await expect.poll(() => place.getAttribute("title")).toMatch(/\.$/);
  await page.locator("#tab-events").click();
  await expect.poll(() => page.locator(".events .row.selected .position").innerText()).toBe(position);
  // Forks and snapshots are told by numbers of conversations.
  await page.getByRole("treeitem", { name: /With the date made/ }).click();
  await expect.poll(() => page.locator(".facts .from").innerText()).toContain("forked at #22 from");
  await expect.poll(() => page.getByRole("treeitem", { name: /With the date made/ }).innerText()).toContain("#22");
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
  await expect.poll(() => note.innerText()).toContain("Not part of a conversation.");
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
  await expect.poll(() => note.innerText()).toContain("Removed by a truncation, and folded.");
  await note.getByRole("button", { name: "Unfold it" }).click();
  await page.locator(".conversation .row.selected.forgotten").waitFor();
  await absent();
  expect(told).toEqual([]);
  await close();
});

test("a comparison says that it goes to both ends, wherever the scrubber is, and what comes after that is fainter", async () => {
  const { page, told, close } = await app.open("?example#tab=compare");
  await page.locator(".compare .added").first().waitFor();
  await expect.poll(() => page.locator(".then").count()).toBe(0);
  await expect.poll(() => page.locator(".compare .later").count()).toBe(0);
  const pairs = await page.locator(".compare .pair").count();
  await page.keyboard.press("Home");
  await expect.poll(() => page.locator(".then").innerText()).toContain("Both are compared to their ends. What came after the beginning is fainter.");
  await expect.poll(() => page.locator(".compare .pair").count()).toBe(pairs);
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
  await expect.poll(() => page.locator(".compare .pair > .side:last-child .event.later").count()).toBe(0);
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
