// Recordings that want to do harm, or can't be read: shown as text, or told of.

import { pathToFileURL } from "node:url";
import { fileURLToPath } from "node:url";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import { lines, pick, viewer } from "./page.js";

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
  expect(text).not.toContain("owned");
  await page.getByRole("button", { name: /onerror=alert\(6\)/ }).click();
  await expect.poll(() => page.locator(".call.open").innerText()).toContain("<iframe");
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("__proto__");
  await page.getByText("1 image: open it to see it.").click();
  await page.getByRole("tab", { name: "image" }).click();
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("no image that is shown here");
  expect(await page.locator("script, iframe, img, svg[onload]").count()).toBe(1);
  for (const tab of ["events", "steps", "snapshot"]) await page.locator(`#tab-${tab}`).click();
  expect(await page.evaluate(() => "polluted" in {})).toBe(false);
  expect(await page.title()).toContain("Runlog");
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
