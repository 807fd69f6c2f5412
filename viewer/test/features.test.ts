// What a person does with the example, from the first screen on.

import { crc32 } from "node:zlib";

import AxeBuilder from "./axe.js";
import { expect, test } from "vitest";

import { lines, viewer } from "./page.js";

const app = viewer();

test("the first screen says what it is, and opens the example", async () => {
  const { page, told, close } = await app.open("");
  await expect.poll(() => page.locator("main").innerText()).toContain("Nothing leaves this machine");
  expect(await AxeBuilder(page)).toEqual([]);
  await page.getByRole("button", { name: "Look at an example" }).click();
  await page.getByText("I'll look at the project first.").waitFor();
  await expect.poll(() => page.getByRole("treeitem").count()).toBeGreaterThan(8);
  expect(told).toEqual([]);
  await close();
});

test("what is dropped is opened", async () => {
  const { page, close } = await app.open("");
  await page.waitForFunction(() => !document.querySelector<HTMLButtonElement>(".way.drop button")?.disabled);
  await page.evaluate(() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(['{"role":"user","content":"Dropped here."}\n{"role":"assistant","content":"Seen."}'], "chat.jsonl"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
  });
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("Dropped here."), expect.stringContaining("Seen.")]);
  await expect.poll(() => page.title()).toBe("Dropped here. · Runlog");
  await close();
});

test("help and the filter give the focus back when they are closed", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  for (const name of ["Filter", "Keys"]) {
    const button = page.locator("header").getByRole("button", { name }).first();
    await button.focus();
    await page.keyboard.press("Enter");
    await page.waitForTimeout(100);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Escape");
    await expect.poll(() => button.evaluate((one) => one === document.activeElement)).toBe(true);
  }
  expect(told).toEqual([]);
  await close();
});

test("rows of the tree say which of their siblings they are, and a list names no row that is scrolled out", async () => {
  const { page, told, close } = await app.open("?example", { viewport: { width: 1440, height: 500 } });
  await page.getByText("I'll look at the project first.").waitFor();
  const levels = await page.getByRole("treeitem").evaluateAll((rows) => rows.map((row) => ["level", "posinset", "setsize"].map((name) => Number(row.getAttribute(`aria-${name}`)))));
  const below = (level: number) => levels.filter(([one]) => one === level);
  expect(below(1).map(([, place]) => place)).toEqual(below(1).map((_, at) => at + 1));
  for (const [, place, size] of levels) expect([place, size]).toEqual([expect.any(Number), expect.any(Number)]);
  expect(levels.every(([, place, size]) => (place as number) >= 1 && (place as number) <= (size as number))).toBe(true);
  expect(Math.max(...levels.map(([, , size]) => size as number))).toBeGreaterThan(2);
  await page.locator("#tab-events").click();
  const list = page.locator("#view .viewport");
  await page.locator(".events .row").first().click();
  const named = () => list.getAttribute("aria-activedescendant");
  await expect.poll(named).toMatch(/^event-\d+$/);
  const first = await named();
  await list.evaluate((one) => (one.scrollTop = one.scrollHeight));
  await expect.poll(named).toBe(null);
  await list.evaluate((one) => (one.scrollTop = 0));
  await expect.poll(named).toBe(first);
  expect(told).toEqual([]);
  await close();
});

test("the tree is folded and unfolded by keys", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const tree = page.getByRole("tree");
  const items = () => tree.getByRole("treeitem").count();
  const current = () => tree.locator(".row.current .title").allInnerTexts();
  const all = await items();
  const [first] = await current();
  const moment = await page.locator("#position").inputValue();
  await tree.focus();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(items).toBeLessThan(all);
  await page.keyboard.press("ArrowRight");
  await expect.poll(items).toBe(all);
  // Once more: to what is below, and from there back.
  await page.keyboard.press("ArrowRight");
  await expect.poll(current).not.toEqual([first]);
  await tree.focus();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(current).toEqual([first]);
  // Whoever clicks on an agent, and on another one, goes on looking at it: the keys are the scrubber's then.
  for (const item of [1, 2, 1]) await tree.getByRole("treeitem").nth(item).click();
  const shown = await items();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(() => page.locator("#position").inputValue()).not.toBe(moment);
  await expect.poll(() => items()).toBe(shown);
  await page.keyboard.press("End");
  // The scrubber stays where it is, but for that.
  await expect.poll(() => page.locator("#position").inputValue()).toBe(moment);
  // Sessions are gone to, and folded, as agents are; the agent that is looked at stays.
  const at = () => tree.locator(".row.at .title").allInnerTexts();
  await page.getByRole("searchbox", { name: "Filter sessions and agents" }).focus();
  await tree.focus();
  for (let above = 0; above < 10 && (await at()).length === 0; above++) {
    await page.keyboard.press("ArrowUp");
    await page.waitForTimeout(50);
  }
  const [session] = await at();
  expect(session).toBeTruthy();
  const looked = await current();
  const open = await items();
  await expect.poll(() => tree.getAttribute("aria-activedescendant")).toBe(await tree.locator(".row.at").getAttribute("id"));
  await page.keyboard.press("ArrowLeft");
  await expect.poll(items).toBeLessThan(open);
  await page.keyboard.press("Enter");
  await expect.poll(items).toBe(open);
  await page.keyboard.press("Enter");
  await expect.poll(items).toBeLessThan(open);
  await expect.poll(() => at()).toEqual([session]);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await expect.poll(at).toEqual([]);
  await expect.poll(() => items()).toBe(open);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await expect.poll(at).toEqual([session]);
  await expect.poll(() => current()).toEqual(looked);
  expect(told).toEqual([]);
  await close();
});

test("the conversation is what the model was given at the scrubber", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  await page.keyboard.press("Home");
  await expect.poll(() => page.locator(".conversation").innerText()).toContain("Nothing was said yet");
  for (let event = 0; event < 3; event++) {
    await page.keyboard.press("ArrowRight");
    await expect.poll(async () => (await lines(page)).length).toBe(event + 1);
  }
  // The call is made, and has no result yet.
  await page.keyboard.press("ArrowRight");
  await expect.poll(async () => (await lines(page)).at(-1)).toContain("list_files");
  await page.locator('.conversation [role="listitem"]').last().getByLabel("no result yet").waitFor();
  await page.keyboard.press("ArrowRight");
  await page.locator('.conversation [role="listitem"]').last().getByLabel("succeeded").waitFor();
  // What was forgotten later is still there before the truncation.
  const position = page.locator("#position");
  await position.fill("111");
  await position.press("Enter");
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("It works for one customer at a time.");
  expect((await lines(page)).join("\n")).not.toContain("forgotten");
  await page.keyboard.press("End");
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("removed by a truncation");
  await close();
});

test("of keys that are pressed quickly none is lost", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const moment = async () => Number(/moment (\d+)/.exec(await page.locator(".moments").innerText())?.[1]);
  const before = await moment();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(moment).toBeLessThan(before);
  const once = await moment();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(moment).toBeLessThan(once);
  const twice = await moment();
  await page.keyboard.press("End");
  await expect.poll(moment).toBe(before);
  /** Has the worker answered this only after two keys were pressed. */
  const twiceBefore = async (method: string, key: string) => {
    await page.evaluate((method) => {
      const post = Worker.prototype.postMessage;
      const held: (() => void)[] = [];
      Worker.prototype.postMessage = function (this: Worker, message: { method: string }) {
        if (message.method === method) held.push(() => post.call(this, message));
        else post.call(this, message);
      };
      Object.assign(globalThis, {
        answer: () => {
          Worker.prototype.postMessage = post;
          for (const ask of held) ask();
        },
      });
    }, method);
    for (let press = 0; press < 2; press++) await page.keyboard.press(key);
    await page.evaluate("answer()");
  };
  await twiceBefore("next", "ArrowLeft");
  await expect.poll(moment).toBe(twice);
  for (const view of ["conversation", "events"] as const) {
    await page.locator(`#tab-${view}`).click();
    await page.locator("#view .viewport").focus();
    await page.locator("#view").getByText("Customers in Auckland").first().click();
    const selected = page.locator("#view .row.selected");
    await expect.poll(() => selected.innerText()).toContain("Customers in Auckland");
    await twiceBefore("placeOf", "ArrowDown");
    await page.waitForTimeout(300);
    const quick = await selected.innerText();
    await page.locator("#view").getByText("Customers in Auckland").first().click();
    await expect.poll(() => selected.innerText()).toContain("Customers in Auckland");
    for (let press = 0; press < 2; press++) {
      const before = await selected.innerText();
      await page.keyboard.press("ArrowDown");
      await expect.poll(() => selected.innerText()).not.toBe(before);
    }
    expect(quick).toBe(await selected.innerText());
  }
  expect(told).toEqual([]);
  await close();
});

test("playing goes through the recording and stops at its end", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  for (let faster = 0; faster < 4; faster++) await page.keyboard.press("+");
  await page.keyboard.press("Space");
  await page.getByRole("button", { name: "Pause (space)" }).waitFor();
  await expect.poll(() => page.locator(".moments").innerText(), { timeout: 20_000 }).toMatch(/^moment (\d+) of \1$/);
  await page.getByRole("button", { name: "Play (space)" }).waitFor();
  await close();
});

test("a tool call opens in place, its failure in the inspector; errors are found by key", async () => {
  const { page, close } = await app.open();
  const call = page.getByRole("button", { name: /edit_file/ }).first();
  await call.click();
  await page.locator(".call.open pre.failed").waitFor();
  await expect.poll(() => page.locator(".call.open").innerText()).toContain("No such place");
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("toolu_");
  await expect.poll(() => page.getByRole("tab", { name: "output" }).getAttribute("aria-selected")).toBe("true");
  await page.getByRole("tab", { name: "raw" }).click();
  await expect.poll(() => page.locator("#part pre").innerText()).toContain('"name":"edit_file"');
  const stored = (await page.locator("#part pre").textContent()) ?? "";
  const crc = crc32(stored).toString(16).padStart(8, "0");
  await expect.poll(() => page.locator("#part").innerText()).toContain(`${Buffer.byteLength(stored)} bytes, CRC-32 ${crc}`);
  await page.getByRole("tab", { name: "input" }).click();
  await page.getByLabel("Search in this part").fill("Honolulu");
  await page.getByText("1 found").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Home");
  await page.locator(".then").waitFor();
  await page.keyboard.press("]");
  await expect.poll(() => page.url()).toContain("event=");
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("No such place");
  await close();
});

test("long texts are cut, and shown whole when asked for; colours are rendered", async () => {
  const { page, close } = await app.open();
  await page.getByRole("treeitem", { name: /ci-helper/ }).click();
  await page.getByRole("button", { name: /ci log/ }).click();
  const output = page.locator(".call.open pre").last();
  await expect.poll(() => output.locator(".ansi-2").first().innerText()).toBe("PASSED");
  await output.getByRole("button", { name: "show all 406 lines" }).click();
  await expect.poll(() => output.innerText()).toContain("Process completed with exit code 1");
  await page.getByRole("button", { name: /plot/ }).click();
  await page.getByRole("tab", { name: "image" }).click();
  await expect.poll(() => page.locator(".inspector img").evaluate((image: HTMLImageElement) => image.naturalWidth)).toBe(300);
  await close();
});

test("search counts and walks its hits; filters are chips, and the address has all of it", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("auckland");
  await expect.poll(() => page.locator(".hits").innerText()).toMatch(/^1\d$/);
  await page.keyboard.press("Enter");
  await expect.poll(() => page.locator(".hits").innerText()).toMatch(/^1 \/ 1\d$/);
  await expect.poll(() => page.locator("mark").first().innerText()).toBe("Auckland");
  await page.keyboard.press("Escape");
  await expect.poll(() => page.locator(".hits").count()).toBe(0);
  await page.keyboard.press("Escape");
  await page.locator("#tab-events").click();
  await expect.poll(() => page.getByRole("option").count()).toBeGreaterThan(20);
  await page.keyboard.press("f");
  await page.getByRole("dialog").getByRole("button", { name: "failed" }).click();
  await page.keyboard.press("Escape");
  await expect.poll(() => page.getByRole("option").count()).toBeLessThan(20);
  const rows = await page.getByRole("option").count();
  expect(rows).toBeGreaterThan(5);
  await expect.poll(() => page.url()).toContain("status=error");
  const again = await app.open(page.url());
  await expect.poll(() => again.page.getByRole("option").count()).toBe(rows);
  await again.close();
  await page.keyboard.press("x");
  await expect.poll(() => page.url()).not.toContain("status");
  expect(told).toEqual([]);
  await close();
});

test("enter goes to a hit of what stands in the search box, however fast it came", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const box = page.locator("#search");
  await box.fill("auckland");
  await box.press("Enter");
  await expect.poll(() => page.locator(".hits").innerText()).toMatch(/^1 \/ 1\d$/);
  await expect.poll(() => page.url()).toContain("event=");
  const { hash } = new URL(page.url());
  const eventOf = (address: string) => new URLSearchParams(address.slice(1)).get("event");
  await box.fill("zzzqqq");
  await box.press("Enter");
  await expect.poll(() => page.locator(".hits").innerText()).toBe("0");
  await expect.poll(() => page.url()).toContain("zzzqqq");
  expect(eventOf(new URL(page.url()).hash)).toBe(eventOf(hash));
  await expect.poll(() => page.getByRole("button", { name: "Next hit" }).isDisabled()).toBe(true);
  await close();
});

test("a link leads to the same moment and event", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll write the test first").click();
  await page.keyboard.press("Enter");
  await expect.poll(() => page.url()).toMatch(/at=\d+&event=\d+/);
  const shown = await lines(page);
  const again = await app.open(page.url());
  await expect.poll(() => lines(again.page)).toEqual(shown);
  await expect.poll(() => again.page.locator("aside.inspector").innerText()).toContain("I'll write the test first");
  await again.close();
  await close();
});

test("a stretch dragged over the timeline is a filter; a click there seeks; the wheel zooms", async () => {
  const { page, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const box = await page.locator("#timeline").boundingBox();
  if (box === null) throw new Error("there is no timeline");
  await page.mouse.click(box.x + 600, box.y + 50);
  await expect.poll(() => page.locator(".then").count()).toBe(1);
  await page.mouse.move(box.x + 300, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 700, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await expect.poll(() => page.url()).toMatch(/between=\d+-\d+/);
  await page.mouse.wheel(0, -600);
  await page.getByRole("button", { name: "whole run" }).click();
  await close();
});

test("forks are tinted and compared with what they are forks of; snapshots tell what changed", async () => {
  const { page, close } = await app.open();
  await page.getByRole("treeitem", { name: /With the date made/ }).click();
  await expect.poll(() => page.locator(".row.inherited").count()).toBeGreaterThan(5);
  await page.keyboard.press("c");
  await expect.poll(() => page.locator(".shared").innerText()).toContain("lines in common");
  await expect.poll(() => page.locator(".compare .added").count()).toBeGreaterThan(0);
  // Totals that differ say by how much, in their own unit.
  await expect.poll(() => page.locator(".compare .figures").last().innerText()).toMatch(/time since the fork\s*[+−][\d.]+ (ms|s)/);
  // What took a time took the same in the tree.
  const time = page.locator(".compare .figures").last().locator("span", { hasText: "time since the fork" }).locator("b");
  const inTree = page.getByRole("treeitem", { name: /With the date made/ }).locator(".figure").first();
  await expect.poll(() => time.innerText()).toBe(await inTree.innerText());
  const folded = await page.locator(".compare .pair").count();
  await page.locator(".shared").click();
  await expect.poll(() => page.locator(".compare .pair.same").count()).toBeGreaterThan(10);
  await expect.poll(() => page.locator(".compare .pair").count()).toBeGreaterThan(folded);
  await page.getByRole("treeitem", { name: /coder/ }).first().click();
  await page.locator("#tab-snapshot").click();
  await expect.poll(() => page.locator(".snapshot li.changed .after").allInnerTexts()).toContain("402");
  await page.getByLabel("Compare with").selectOption("0");
  await expect.poll(() => page.locator(".snapshot li").count()).toBeGreaterThan(4);
  await close();
});

test("the tree filters and folds; panes fold by key, and remember it", async () => {
  const { page, close } = await app.open();
  await page.getByLabel("Filter sessions and agents").fill("tester");
  await expect.poll(() => page.getByRole("treeitem").count()).toBe(2);
  await page.getByLabel("Filter sessions and agents").fill("");
  await page.keyboard.press("Escape");
  await page.keyboard.press("1");
  await expect.poll(() => page.getByRole("treeitem").count()).toBe(0);
  await page.reload();
  await page.getByText("I'll look at the project first.").waitFor();
  await expect.poll(() => page.getByRole("treeitem").count()).toBe(0);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await close();
});

test("nothing bars those who use it by keyboard or by ear, in both themes and on narrow pages", async () => {
  for (const [colorScheme, width] of [["light", 1440], ["dark", 1440], ["light", 420]] as const) {
    const { page, close } = await app.open("?example", { colorScheme, viewport: { width, height: 860 } });
    await page.getByText("I'll look at the project first.").waitFor();
    for (const tab of ["conversation", "events", "steps", "snapshot", "compare"]) {
      await page.locator(`#tab-${tab}`).click();
      await page.waitForTimeout(300);
      expect({ tab, width, colorScheme, found: await AxeBuilder(page) }).toEqual({ tab, width, colorScheme, found: [] });
    }
    await close();
    // Halfway, with an event that isn't in the list, and an address that names nothing.
    const halfway = await app.open("?example#at=127&event=9999&tab=compare", { colorScheme, viewport: { width, height: 860 } });
    await halfway.page.locator(".compare .later").first().waitFor();
    for (const tab of ["compare", "steps", "events", "conversation"]) {
      await halfway.page.locator(`#tab-${tab}`).click();
      if (tab === "conversation") await halfway.page.keyboard.press("]");
      await halfway.page.waitForTimeout(300);
      expect({ tab, width, colorScheme, found: await AxeBuilder(halfway.page) }).toEqual({ tab, width, colorScheme, found: [] });
    }
    await halfway.close();
  }
});

test("below 1,100 px the inspector lies over the list; below 700 the tree is a drawer and the inspector a sheet", async () => {
  const { page, close } = await app.open("?example", { viewport: { width: 420, height: 860 } });
  await page.getByText("I'll look at the project first.").click();
  await page.locator(".inspector.sheet").waitFor();
  await page.getByRole("button", { name: "Close the inspector" }).click();
  await page.getByRole("button", { name: "Sessions and agents" }).click();
  await page.getByRole("treeitem", { name: /planner/ }).first().click();
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("today_for");
  await page.setViewportSize({ width: 900, height: 760 });
  await page.getByText("Test both sides of midnight").click();
  await page.locator(".inspector.over").waitFor();
  await close();
});

test("the tree has the focus, also after a click on a row, and one ring, which goes with the keys", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const tree = page.getByRole("tree");
  const ringed = () =>
    page.locator("aside.tree").evaluate((aside) =>
      Array.from(aside.querySelectorAll<HTMLElement>("*"))
        .filter((one) => getComputedStyle(one).outlineStyle !== "none")
        .map((one) => one.id),
    );
  const named = () => tree.getAttribute("aria-activedescendant");
  // Folded and unfolded again: it stays as it was, and is where the keys are.
  const session = tree.locator(".row.session").first();
  for (const isOpen of ["false", "true"]) {
    await session.locator(".title").click();
    await expect.poll(() => session.getAttribute("aria-expanded")).toBe(isOpen);
  }
  const first = (await session.getAttribute("id")) ?? "";
  await expect.poll(ringed).toEqual([first]);
  for (let press = 0; press < 3; press++) {
    const before = await named();
    await page.keyboard.press("ArrowDown");
    await expect.poll(named).not.toBe(before);
    await expect.poll(async () => [await ringed(), await tree.evaluate((one) => one === document.activeElement)]).toEqual([[await named()], true]);
  }
  expect(told).toEqual([]);
  await close();
});

test("at 320 px every tab is in view, and what the search has found isn't below the sheet", async () => {
  const { page, told, close } = await app.open("?example", { viewport: { width: 320, height: 640 } });
  await page.getByText("I'll look at the project first.").waitFor();
  for (const tab of await page.locator('[aria-label="Views"] [role="tab"]').all()) {
    const box = await tab.boundingBox();
    expect([(box?.x ?? -1) >= 0, (box?.x ?? 0) + (box?.width ?? 999) <= 320]).toEqual([true, true]);
  }
  for (const view of ["events", "conversation"]) {
    await page.locator(`#tab-${view}`).click();
    await page.locator("#search").fill("auckland");
    for (let hit = 0; hit < 4; hit++) {
      await page.locator("#search").press("Enter");
      // Its row begins between the top of the list and the sheet.
      await expect
        .poll(async () => {
          const [row, list, sheet] = await Promise.all(["#view .selected", "#view .viewport", ".inspector.sheet"].map((one) => page.locator(one).first().boundingBox()));
          return row !== null && list !== null && row !== undefined && list !== undefined && row.y >= list.y - 1 && row.y + 20 <= (sheet?.y ?? 640);
        })
        .toBe(true);
    }
  }
  expect(told).toEqual([]);
  await close();
});

test("the store's name leads to its sessions; another recording is opened by a button that says so", async () => {
  const { page, told, close } = await app.open();
  await page.getByText("I'll look at the project first.").waitFor();
  const tree = page.getByRole("tree");
  const first = await tree.getByRole("treeitem").first().getAttribute("id");
  const store = page.getByRole("button", { name: "example" });
  const isThere = () => expect.poll(async () => [await tree.locator(".row.at").evaluateAll((rows) => rows.map((row) => row.id)), await tree.evaluate((one) => one === document.activeElement)]).toEqual([[first], true]);
  await page.getByLabel("Filter sessions and agents").fill("planner");
  await expect.poll(() => tree.getByRole("treeitem").count()).toBeLessThan(8);
  await store.click();
  await isThere();
  expect(await page.getByLabel("Filter sessions and agents").inputValue()).toBe("");
  await page.keyboard.press("1");
  await expect.poll(() => tree.count()).toBe(0);
  await store.click();
  await isThere();
  await page.getByRole("button", { name: "Open another recording" }).click();
  await page.getByText("Drop it here").waitFor();
  expect(told).toEqual([]);
  await close();
});
