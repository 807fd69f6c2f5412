// Recordings that want to do harm, or can't be read: shown as text, or told of.

import { pathToFileURL } from "node:url";
import { fileURLToPath } from "node:url";
import { mkdtemp, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

import { open, openInMemory } from "runlog";
import { expect, test } from "vitest";

import { dropOn, lines, pick, viewer } from "./page.js";

const app = viewer();
const line = (value: unknown) => JSON.stringify(value);

const ATTACKS = [
  "<script>alert(1)</script>",
  '<img src=x onerror="alert(2)"><svg onload=alert(3)>',
  "javascript:alert(4)",
  "{{constructor.constructor('alert(5)')()}}",
  "\u001b]0;owned\u0007\u001b[2J\u001b[31mred\u001b[0m \u001b]8;;https://evil.example\u0007link\u001b]8;;\u0007",
  "user\u202Egnp.exe \u2066isolated\u2069 \u200Bnothing",
  "null \u0000 bell \u0007 backspace \b",
];

test("a hostile transcript is text, and runs nothing", async () => {
  const { page, told, close } = await app.open("");
  const messages = ATTACKS.map((content) => line({ role: "user", content }));
  const name = "<img src=x onerror=alert(6)>";
  messages.push(
    line({ role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: { name, arguments: '{"__proto__":{"polluted":1},"constructor":"<b>x</b>"}' } }] }),
    line({ role: "tool", tool_call_id: "c1", content: "<iframe src=javascript:alert(7)></iframe>" }),
    line({ role: "user", content: [{ type: "image_url", image_url: { url: "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9YWxlcnQoOCk+" } }, { type: "image_url", image_url: { url: "https://evil.example/track.png" } }] }),
    '{"role":"user","content":"half a pair \\ud800 is left"}',
    "no JSON at all <script>alert(9)</script>",
  );
  await pick(page, [{ name: "attack.jsonl", text: messages.join("\n") }]);
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("<script>alert(1)</script>");
  const text = (await lines(page)).join("\n");
  expect(text).toContain('<img src=x onerror="alert(2)">');
  expect(text).toContain("U+202E");
  expect(text).toContain("half a pair \ufffd is left");
  // It sets no title; what it says is seen.
  expect(text).toContain("␛]0;owned␇");
  await page.getByRole("button", { name: /onerror=alert\(6\)/ }).click();
  await expect.poll(() => page.locator(".call.open").innerText()).toContain("<iframe");
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("__proto__");
  await page.getByText("1 image: open it to see it.").click();
  await page.getByRole("tab", { name: "image" }).click();
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("no image that is shown here");
  await expect.poll(() => page.locator("script, iframe, img, svg[onload]").count()).toBe(1);
  for (const tab of ["events", "steps", "snapshot"]) await page.locator(`#tab-${tab}`).click();
  expect(await page.evaluate(() => "polluted" in {})).toBe(false);
  await expect.poll(() => page.title()).toContain("Runlog");
  expect(told).toEqual([]);
  await close();
});

test("of a store with a damaged record all else is shown, and what was damaged is told", async () => {
  const folder = await mkdtemp(join(tmpdir(), "runlog-damaged-"));
  const store = await open(folder);
  for (const name of ["one", "two", "three"]) {
    const run = await store.runs.start({ session: { title: name }, agentName: name, messages: [{ role: "user", content: `Hello ${name}.` }] });
    await run.recordMessage({ role: "assistant", content: `I am ${name}.` });
    await run.complete();
  }
  await store.close();
  const names = (await readdir(folder)).filter((name) => /^(RUNLOG|END|CHECKPOINT|WATERMARK|\d+\.seg)$/.test(name));
  const files = await Promise.all(names.map(async (name) => ({ name, text: await readFile(join(folder, name)) })));
  await rm(folder, { recursive: true });
  const segment = files.find(({ name }) => name.endsWith(".seg"))?.text as Buffer;
  const at = segment.indexOf("I am two.");
  segment[at] = (segment[at] as number) ^ 1;
  const { page, told, close } = await app.open("");
  await pick(page, files);
  const alert = page.getByRole("alert");
  await expect.poll(() => alert.innerText()).toMatch(/^A part of this store is damaged, and isn't shown: position \d+ can't be read: 0+1\.seg: offset \d+.* “runlog verify” tells of all/s);
  await expect.poll(() => page.locator("aside.tree").innerText()).toMatch(/three[^]*two[^]*one/);
  await page.locator("aside.tree").getByText("two").last().click();
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("Hello two.")]);
  await page.locator("aside.tree").getByText("three").last().click();
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("Hello three."), expect.stringContaining("I am three.")]);
  // A search passes over it, too, and finds what is before and behind it.
  await page.getByRole("searchbox").first().fill("i am");
  await expect.poll(() => page.locator("header").innerText()).toContain("\n1 · 2 in all\n");
  expect(told).toEqual([]);
  await close();
});

test("a page that lost its end says so, and one that is whole doesn't", async () => {
  const folder = await mkdtemp(join(tmpdir(), "runlog-cut-"));
  const whole = await readFile(fileURLToPath(new URL("../dist/runlog-viewer.html", import.meta.url)));
  for (const [name, part] of [["cut.html", 0.5], ["late.html", 0.999], ["whole.html", 1]] as const) {
    const file = join(folder, name);
    await writeFile(file, whole.subarray(0, whole.length * part));
    const { page, close } = await app.open(pathToFileURL(file).href);
    const said = expect.poll(() => page.locator("#app").innerText());
    if (part < 1) await said.toContain("this page could not be read to its end");
    else await said.not.toContain("this page could not be read to its end");
    await close();
  }
  await rm(folder, { recursive: true });
});

test("the end is gone to also where the moment is the last already", async () => {
  const { page, told, close } = await app.open("");
  await pick(page, [{ name: "long.jsonl", text: Array.from({ length: 600 }, (_, at) => line({ role: "user", content: `Message ${at}.` })).join("\n") }]);
  await expect.poll(async () => (await lines(page))[0]).toContain("Message 0.");
  for (const tab of ["conversation", "events"]) {
    await page.locator(`#tab-${tab}`).click();
    await page.keyboard.press("End");
    await expect.poll(() => page.locator(".room, main").first().innerText()).toContain("Message 599.");
    await page.keyboard.press("Home");
  }
  expect(told).toEqual([]);
  await close();
});

test("lines of 10 MB are cut, and open in pieces", async () => {
  const { page, told, close } = await app.open("");
  const long = `begin ${"x".repeat(10_000_000)} end`;
  await pick(page, [{ name: "long.jsonl", text: [line({ role: "user", content: long }), line({ role: "user", content: "\n".repeat(200_000) })].join("\n") }]);
  await page.getByRole("button", { name: /show all 10,000,010 characters/ }).click();
  await expect.poll(() => page.locator(".text").first().innerText().then((text) => text.length)).toBeGreaterThan(60_000);
  expect(await page.evaluate(() => document.body.innerText.length)).toBeLessThan(400_000);
  // Back at its beginning, also at once, all of the first message can be seen.
  const list = page.locator(".conversation .viewport");
  const scrolled = (to: number) => list.evaluate((element, top) => new Promise((done) => ((element.scrollTop = top), requestAnimationFrame(() => requestAnimationFrame(done)))), to);
  for (const to of [3000, 490, 0]) await scrolled(to);
  const [first, view] = [await page.locator(".conversation .role").first().boundingBox(), await list.boundingBox()];
  expect(first?.y).toBeGreaterThanOrEqual(view?.y as number);
  await page.locator(".conversation .role").first().click();
  await page.getByRole("tab", { name: "raw" }).click();
  await page.getByRole("button", { name: "show more", exact: true }).waitFor();
  expect(told).toEqual([]);
  await close();
});

test("what is no recording is refused, with what would be one", async () => {
  const { page, close } = await app.open("");
  await pick(page, [{ name: "photo.png", text: Buffer.from([137, 80, 78, 71, 1, 2, 3]) }]);
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("a store (a folder with a file RUNLOG)");
  await pick(page, [{ name: "RUNLOG", text: "not at all" }]);
  await expect.poll(() => page.getByRole("alert").innerText()).not.toContain("photo");
  // The page is alive.
  await page.getByRole("button", { name: "Look at an example" }).click();
  await page.getByText("I'll look at the project first.").waitFor();
  await close();
});

test("names and titles that would turn about what stands beside them, or be obeyed by a terminal, are named", async () => {
  const { page, told, close } = await app.open("");
  const name = "run\u202Egnp.exe";
  const messages = [
    { role: "user", content: "title \u202Egnp.exe \u001b[31mred" },
    { role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: { name, arguments: "{}" } }] },
    { role: "tool", tool_call_id: "c1", content: "done" },
  ];
  await pick(page, [{ name: "names.jsonl", text: messages.map(line).join("\n") }]);
  await page.locator(".call .line").click();
  await page.locator("aside.inspector h2").waitFor();
  const shown = [".crumb.session", "aside.tree", ".call .tool", "aside.inspector h2"];
  for (const place of shown) expect({ place, text: await page.locator(place).first().innerText() }).toEqual({ place, text: expect.stringContaining("U+202Egnp.exe") });
  await page.locator("#tab-events").click();
  await page.getByRole("option").first().waitFor();
  await page.keyboard.press("f");
  const texts = await page.evaluate(() => [document.title, document.body.innerText, ...Array.from(document.querySelectorAll("[title], [aria-label]"), (element) => `${element.getAttribute("title")} ${element.getAttribute("aria-label")}`)].join("\n"));
  expect(texts).not.toMatch(/[\u202a-\u202e\u001b]/);
  expect(told).toEqual([]);
  await close();
});

async function archive(): Promise<string> {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "From an export" }, agentName: "exporter", messages: [{ role: "user", content: "</script><script>alert(1)</script>" }] });
  await run.nextStep();
  await run.recordMessage({ role: "assistant", content: "Exported." });
  await run.complete("done");
  const pieces: Uint8Array[] = [];
  for await (const piece of store.export()) pieces.push(piece);
  await store.close();
  return Buffer.concat(pieces).toString();
}

test("an export is opened as it is", async () => {
  const { page, told, close } = await app.open("");
  await pick(page, [{ name: "export.jsonl", text: await archive() }]);
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("Exported.");
  expect(told).toEqual([]);
  await close();
});

test("the self-contained page opens from a file, with its recording or the example in it, and asks nobody for anything", async () => {
  const folder = await mkdtemp(join(tmpdir(), "runlog-viewer-"));
  const template = await readFile(fileURLToPath(new URL("../dist/runlog-viewer.html", import.meta.url)), "utf8");
  expect(template.split("{{RUNLOG_RECORDING}}")).toHaveLength(2);
  const file = join(folder, "run.html");
  await writeFile(file, template.replace("{{RUNLOG_RECORDING}}", Buffer.from(await archive()).toString("base64")));
  const { page, told, close } = await app.open(pathToFileURL(file).href);
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("Exported.");
  expect((await lines(page)).join("\n")).toContain("<script>alert(1)</script>");
  const asked = await page.evaluate(() => performance.getEntriesByType("resource").filter((entry) => !/^(blob|data):/.test(entry.name)).map((entry) => entry.name));
  expect(asked).toEqual([]);
  expect(told).toEqual([]);
  await close();
  await writeFile(file, template);
  const empty = await app.open(pathToFileURL(file).href);
  await empty.page.getByRole("button", { name: "Look at an example" }).click();
  await empty.page.getByText("I'll look at the project first.").waitFor();
  expect(empty.told).toEqual([]);
  await empty.close();
  await rm(folder, { recursive: true });
});

test("what can't be opened says what is wrong with it", async () => {
  const given: [string, string | Buffer, string][] = [
    ["empty.jsonl", "", "“empty.jsonl” can't be shown. What can is a store"],
    ["cut.jsonl.gz", gzipSync(await archive()).subarray(0, 200), "“cut.jsonl.gz” is damaged, or isn't whole"],
    ["bundle", "RUNLOGIMAGE1\n[1,2", "The bundle is damaged"],
    ["bundle", 'RUNLOGIMAGE1\n[["RUNLOG",-5]]\n', "The bundle is damaged"],
    ["bundle", 'RUNLOGIMAGE1\n[["RUNLOG",500]]\n', "The bundle has 30 bytes, and says that it has 530"],
    ["cut.jsonl", (await archive()).slice(0, 1200), "nothing was written"],
  ];
  const { page, told, close } = await app.open("");
  for (const [name, text, problem] of given) {
    await pick(page, [{ name, text }]);
    await expect.poll(() => page.getByRole("alert").innerText()).toContain(problem);
  }
  expect(told).toEqual([]);
  await close();
});

test("one message that can't be shown leaves the others", async () => {
  const { page, told, close } = await app.open("");
  const deep = "[".repeat(5000) + "]".repeat(5000);
  const messages = [
    line({ role: "user", content: "مرحبا بالعالم" }),
    line({ role: "assistant", content: null, tool_calls: [{ id: "c1", type: "function", function: { name: "n".repeat(5000), arguments: deep } }] }),
    line({ role: "tool", tool_call_id: "c1", content: deep }),
    line({ role: "user", content: "👩‍👩‍👧‍👦 after, but a b\u200dc" }),
  ];
  await pick(page, [{ name: "deep.jsonl", text: messages.join("\n") }]);
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("👩‍👩‍👧‍👦 after, but a bU+200Dc");
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  await page.locator("#tab-events").click();
  await expect.poll(() => page.getByRole("option").count()).toBeGreaterThan(3);
  for (const option of await page.getByRole("option").all()) await option.click();
  expect(told).toEqual([]);
  await close();
});

test("what is dropped while another one is read takes its place, and what is dropped at once isn't lost", async () => {
  const { page, told, close } = await app.open("");
  const drop = (name: string, text: string) => dropOn(page, name, text);
  const large = Array.from({ length: 8000 }, (_, at) => line({ role: at % 2 === 0 ? "user" : "assistant", content: `large ${at} ${"x".repeat(200)}` })).join("\n");
  // The part that reads recordings may not even be there yet.
  await drop("large.jsonl", large);
  await drop("small.jsonl", line({ role: "user", content: "small" }));
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("small")]);
  await expect.poll(() => page.locator(".crumb.store").innerText()).toBe("small.jsonl");
  // What was read in vain is told to nobody.
  await drop("large.jsonl", large);
  await page.getByRole("status").filter({ hasText: "Reading large.jsonl" }).waitFor();
  await drop("small.jsonl", line({ role: "user", content: "small again" }));
  await expect.poll(() => lines(page)).toEqual([expect.stringContaining("small again")]);
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  expect(told).toEqual([]);
  await close();
});

test("what can't be opened doesn't close what is open", async () => {
  const { page, told, close } = await app.open("?example");
  await page.locator("#tab-events").click();
  await page.getByRole("option").first().waitFor();
  const [address, agent] = [page.url(), await page.locator(".crumb.agent").innerText()];
  for (const [name, text, problem] of [
    ["cut.jsonl", (await archive()).slice(0, 1200), "nothing was written"],
    ["empty.jsonl", "", "“empty.jsonl” can't be shown"],
  ] as const) {
    await dropOn(page, name, text);
    await expect.poll(() => page.getByRole("alert").innerText()).toContain(problem);
    expect(page.url()).toBe(address);
    await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe(agent);
    await expect.poll(() => page.locator("#tab-events[aria-selected=true]").count()).toBe(1);
    // It is also still answered from.
    await page.getByRole("option").nth(1).click();
    await page.getByRole("option", { selected: true }).waitFor();
    await page.keyboard.press("Escape");
  }
  // One that can be opened takes its place, at its own beginning.
  await dropOn(page, "small.jsonl", line({ role: "user", content: "small" }));
  await expect.poll(() => page.locator(".crumb.store").innerText()).toBe("small.jsonl");
  await page.locator("#tab-conversation[aria-selected=true]").waitFor();
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  expect(told).toEqual([]);
  await close();
});

test("addresses that lead nowhere are told of or passed over, and the browser goes back to where one was", async () => {
  const { page, told, close } = await app.open("?example#type=%25E0%25A4%25A&tool=%25zz&range=9-1&event=99999999&at=x");
  await page.locator("#tab-events").waitFor();
  await page.evaluate(() => void (location.hash = "#agent=nobody"));
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("There is no agent nobody");
  const first = await page.locator(".crumb.agent").innerText();
  await page.getByRole("treeitem", { name: /planner/ }).first().click();
  await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe("planner");
  await page.locator("#tab-events").click();
  await page.goBack();
  await page.locator("#tab-conversation[aria-selected=true]").waitFor();
  await page.goBack();
  await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe(first);
  await page.goForward();
  await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe("planner");
  expect(told).toEqual([]);
  await close();
});

test("an address that is changed while one arrives at another is followed", async () => {
  const { page, told, close } = await app.open();
  // Answers of the worker can be held back.
  await page.addInitScript(() => {
    const page = globalThis as { held?: (() => void)[] | undefined };
    const listen = Worker.prototype.addEventListener;
    Worker.prototype.addEventListener = function (this: Worker, type: string, listener: (event: Event) => void) {
      listen.call(this, type, (event) => void (page.held === undefined ? listener(event) : page.held.push(() => listener(event))));
    };
  });
  await page.reload();
  await page.getByText("I'll look at the project first.").waitFor();
  const agent = page.locator(".crumb.agent");
  const addresses: string[] = [];
  for (const name of ["coder", "planner"]) {
    await page.getByRole("treeitem", { name }).first().click();
    await expect.poll(() => agent.innerText()).toBe(name);
    await page.waitForTimeout(200);
    addresses.push(new URL(page.url()).hash);
  }
  // On the way to the first one, the page isn't told of the second before it has arrived.
  await page.evaluate(
    async ([first, second]) => {
      const page = globalThis as { held?: (() => void)[] | undefined };
      const agent = document.querySelector(".crumb.agent") as HTMLElement;
      location.hash = first as string;
      while (agent.innerText !== "coder") await new Promise((resolve) => void new MutationObserver(resolve).observe(agent, { childList: true, characterData: true, subtree: true }));
      page.held = [];
      await new Promise((resolve) => setTimeout(resolve, 200));
      location.hash = second as string;
      for (const answer of page.held) answer();
      page.held = undefined;
    },
    addresses,
  );
  await page.waitForTimeout(300);
  await expect.poll(() => agent.innerText()).toBe("planner");
  expect(new URL(page.url()).hash).toBe(addresses[1]);
  expect(told).toEqual([]);
  await close();
});

test("ten thousand calls of hundreds of tools are listed and filtered", async () => {
  const { page, told, close } = await app.open("");
  const messages = [line({ role: "user", content: "go" })];
  for (let at = 0; at < 10_000; at++) {
    messages.push(line({ role: "assistant", content: null, tool_calls: [{ id: `c${at}`, type: "function", function: { name: `tool-${at % 500}`, arguments: `{"at":${at}}` } }] }), line({ role: "tool", tool_call_id: `c${at}`, content: `result ${at}` }));
  }
  await pick(page, [{ name: "calls.jsonl", text: messages.join("\n") }]);
  await page.locator("#tab-events").waitFor();
  await page.keyboard.press("f");
  const filters = page.getByRole("dialog", { name: "Filter" });
  await filters.getByText("and 400 more, which search finds").waitFor();
  const box = await filters.boundingBox();
  expect((box?.y ?? 0) + (box?.height ?? 0)).toBeLessThanOrEqual(900);
  await filters.getByRole("button", { name: "tool-7", exact: true }).click();
  await expect.poll(async () => (await lines(page)).every((text) => text.includes("tool-7"))).toBe(true);
  expect(told).toEqual([]);
  await close();
});
