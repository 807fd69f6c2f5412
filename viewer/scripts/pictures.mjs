// Takes the pictures in docs/images of the built viewer.
//
//   node scripts/pictures.mjs [FOLDER [COMMAND]]
//
// FOLDER is that of scripts/measure.mjs, for the picture of a million events, `-` for none; COMMAND is `runlog`, built with the viewer, for the
// one of a run that is followed.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { open } from "runlog";

import { launch, serveApp } from "../test/serve.mjs";

const images = fileURLToPath(new URL("../../docs/images", import.meta.url));
await mkdir(images, { recursive: true });
const served = await serveApp();
const browser = await launch();

/**
 * Takes one picture of the viewer, after some work in its page.
 *
 * @param {string} name
 * @param {{ path?: string, colorScheme?: "light" | "dark", width?: number, height?: number }} [how]
 * @param {(page: import("playwright").Page) => Promise<unknown>} [work]
 */
async function taken(name, { path = "?example", colorScheme = "light", width = 1440, height = 900 } = {}, work = async () => {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, timezoneId: "UTC", reducedMotion: "reduce" });
  const page = await context.newPage();
  await page.goto(`${served.url}${path}`);
  if (path !== "") await page.getByText("I'll look at the project first.").waitFor();
  await work(page);
  await page.mouse.move(2, 2);
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(images, `viewer-${name}.png`) });
  await context.close();
}

/** @param {import("playwright").Page} page */
const failedTool = async (page) => {
  await page.getByRole("button", { name: /edit_file/ }).first().click();
  await page.locator(".call.open pre.failed").waitFor();
};
/**
 * To where the first test was written, and nothing forgotten yet.
 *
 * @param {import("playwright").Page} page
 */
const midway = async (page) => {
  await page.locator("#position").fill("127");
  await page.locator("#position").press("Enter");
  await page.locator(".then").waitFor();
};

await taken("first-screen", { path: "", height: 640 }, (page) => page.waitForTimeout(500));
await taken("light", {}, async (page) => {
  await midway(page);
  await page.getByRole("button", { name: /edit_file/ }).first().click();
});
await taken("dark", { colorScheme: "dark" }, async (page) => {
  await midway(page);
  await page.getByRole("button", { name: /edit_file/ }).first().click();
});
await taken("failed-tool", {}, failedTool);
await taken("compare", {}, async (page) => {
  await page.keyboard.press("c");
  await page.keyboard.press("2");
  await page.locator(".compare .added").first().waitFor();
});
await taken("snapshot", {}, async (page) => {
  await page.keyboard.press("2");
  await page.locator("#tab-snapshot").click();
  await page.locator(".snapshot li").first().waitFor();
});
await taken("search", {}, async (page) => {
  await page.locator("#tab-events").click();
  await page.locator("#search").fill("invoice");
  await page.locator(".hits").waitFor();
  await page.waitForTimeout(300);
  await page.locator("#search").press("Enter");
  await page.waitForTimeout(300);
  await page.locator("#search").press("Enter");
  await page.locator("mark").first().waitFor();
});
await taken("narrow", { width: 420, height: 860 });
await taken("wide", { width: 1920, height: 1080 }, async (page) => {
  await page.getByRole("treeitem", { name: /ci-helper/ }).click();
  await page.getByRole("button", { name: /plot/ }).click();
  await page.getByRole("tab", { name: "image" }).click();
  await page.locator(".inspector img").waitFor();
});

const folder = await mkdtemp(join(tmpdir(), "runlog-pictures-"));
await recordTree(join(folder, "thousand agents"));
await taken("tree", { path: "" }, async (page) => {
  await page.waitForFunction(() => document.querySelector(".way.drop button:disabled") === null);
  await page.getByLabel("The folder of a store").setInputFiles(join(folder, "thousand agents"));
  await page.getByText("Read the whole library").first().waitFor();
  await page.locator("#tab-events").click();
  await page.getByRole("option").first().waitFor();
});
await rm(folder, { recursive: true });
const measured = process.argv[2];
if (measured !== undefined && measured !== "-") {
  await taken("million", { path: "" }, async (page) => {
    await page.waitForFunction(() => document.querySelector(".way.drop button:disabled") === null);
    await page.getByLabel("The folder of a store").setInputFiles(join(measured, "many-events"));
    await page.locator("#tab-events").click({ timeout: 120_000 });
    await page.locator("#search").fill("needle 77");
    await page.waitForFunction(() => /\d$/.test(document.querySelector(".hits")?.textContent?.trim() ?? ""), undefined, { timeout: 120_000 });
    for (let hit = 0; hit < 40; hit++) await page.locator("#search").press("Enter");
    await page.waitForTimeout(1500);
  });
}
if (process.argv[3] !== undefined) await takenLive(process.argv[3]);
await browser.close();
served.close();

/**
 * A lead with 1,000 agents below it, in two generations.
 *
 * @param {string} path
 */
async function recordTree(path) {
  const store = await open(path, { durability: "os", preallocation: "none" });
  const lead = await store.runs.start({ session: { title: "Read the whole library" }, agentName: "lead", messages: [{ role: "user", content: "Read the whole library, and say what it is about." }] });
  const { sessionId } = lead.run;
  /**
   * @param {typeof lead} parent
   * @param {string} agentName
   * @param {string} task
   */
  const ask = async (parent, agentName, task) => store.runs.start({ newInstance: { sessionId, agentName, parentInstanceId: parent.run.instanceId }, parentRunId: parent.id, messages: [{ role: "user", content: task }] });
  for (let shelf = 1; shelf <= 20; shelf++) {
    const reader = await ask(lead, `shelf ${shelf}`, `Read shelf ${shelf}.`);
    await Promise.all(
      Array.from({ length: 49 }, async (_, at) => {
        const book = await ask(reader, `book ${shelf}.${at + 1}`, `Read book ${at + 1} of shelf ${shelf}.`);
        await new Promise((resolve) => setTimeout(resolve, 30 + ((at * 53) % 170)));
        await book.nextStep();
        await book.recordMessage({ role: "assistant", content: null, tool_calls: [{ id: `call_${shelf}_${at}`, type: "function", function: { name: "read_book", arguments: JSON.stringify({ title: `Volume ${at + 1}` }) } }] });
        const isMissing = (shelf * 49 + at) % 61 === 0;
        await new Promise((resolve) => setTimeout(resolve, 20 + ((at * 31) % 120)));
        await book.recordToolResult({ toolCallId: `call_${shelf}_${at}`, output: isMissing ? "the book is missing" : `${100 + at} pages`, durationMs: 20 + ((at * 31) % 120), ...(isMissing && { status: "error" }) });
        if (isMissing) await book.fail("the book is missing");
        else await book.complete(`Volume ${at + 1} is about the sea.`);
      }),
    );
    await reader.recordMessage({ role: "assistant", content: `Shelf ${shelf} is about the sea.` });
    await reader.complete(`Shelf ${shelf} is about the sea.`);
  }
  await lead.recordMessage({ role: "assistant", content: "The library is about the sea." });
  await lead.complete("It is about the sea.");
  await store.close();
}

/**
 * A run that is followed while it is recorded, beside the real server.
 *
 * @param {string} command
 */
async function takenLive(command) {
  const folder = await mkdtemp(join(tmpdir(), "runlog-pictures-"));
  const store = await open(join(folder, "store"));
  const run = await store.runs.start({ session: { title: "Tidy up the changelog" }, agentName: "editor", messages: [{ role: "user", content: "Sort the changelog by version, and say what is missing." }] });
  const server = spawn(command, ["serve", join(folder, "store"), "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
  const [address] = await once(server.stdout, "data");
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 }, timezoneId: "UTC", reducedMotion: "reduce" })).newPage();
  await page.goto(String(address).trim());
  await page.getByText("Sort the changelog").first().waitFor();
  for (let at = 1; at <= 6; at++) {
    await run.nextStep();
    const id = `call_${at}`;
    await run.recordMessage({ role: "assistant", content: at === 1 ? "I'll read it version by version." : "", tool_calls: [{ id, type: "function", function: { name: "read_file", arguments: JSON.stringify({ path: `CHANGELOG.md, part ${at}` }) } }] });
    await new Promise((resolve) => setTimeout(resolve, 250));
    if (at < 6) await run.recordToolResult({ toolCallId: id, output: `${at * 40} lines`, durationMs: 180 + at * 12 });
    await new Promise((resolve) => setTimeout(resolve, 80));
  }
  await page.getByText("part 6").first().waitFor();
  await page.mouse.move(2, 2);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: join(images, "viewer-live.png") });
  server.kill();
  await store.close();
  await rm(folder, { recursive: true });
}
