// How it does with 1,000,000 events in one conversation, and with 10,000 runs in a tree: figures, no test.
//
//   node scripts/measure.mjs [FOLDER]       the recordings are made in the folder once, and kept there

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open } from "runlog";

import { launch, serveApp } from "../test/serve.mjs";

/** What is counted in the page, which is where its console and the functions that run in it find it. */
/** @typedef {typeof globalThis & { longTasks: number[], frameTimes: number[], isCounting: boolean }} Counted */

/**
 * Appends that are under way.
 *
 * @type {Promise<unknown>[]}
 */
let waiting = [];
const folder = process.argv[2] ?? join(tmpdir(), "runlog-viewer-measured");
await mkdir(folder, { recursive: true });
const many = join(folder, "many-events");
const runs = join(folder, "many-runs");
if (!existsSync(many)) await recordEvents(many, Number(process.env.RUNLOG_EVENTS ?? 1_000_000));
if (!existsSync(runs)) await recordRuns(runs, Number(process.env.RUNLOG_RUNS ?? 10_000));

const served = await serveApp();
const browser = await launch();
const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
page.on("pageerror", (error) => console.log("error:", error.message));
await page.addInitScript(() => {
  const counted = /** @type {Counted} */ (globalThis);
  counted.longTasks = [];
  new PerformanceObserver((list) => counted.longTasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask" });
});
await page.goto(served.url);

await opened(many, "1,000,000 events");
await page.locator("#tab-events").click();
await page.getByRole("option").first().waitFor();
await whileFrames("wheel over the events", () => scroll('[role="listbox"]', 60, 900));
await whileFrames("drag the scrollbar of the events", () => dragBar('[role="listbox"]'));
await page.locator("#tab-conversation").click();
await page.locator('.conversation [role="listitem"]').first().waitFor();
await whileFrames("wheel over the conversation", () => scroll(".conversation .viewport", 60, 900));
await whileFrames("drag the scrollbar of the conversation", () => dragBar(".conversation .viewport"));
await whileFrames("scrub over the timeline", scrub);
await page.keyboard.press("End");
await timed("filter by failed", async () => {
  await page.locator("#tab-events").click();
  await page.keyboard.press("f");
  await page.getByRole("dialog").getByRole("button", { name: "failed" }).click();
  await page.waitForFunction(() => document.querySelectorAll('[role="option"]').length > 5 && [...document.querySelectorAll('[role="option"]')].every((row) => row.querySelector(".red") !== null));
});
await page.keyboard.press("Escape");
await page.keyboard.press("x");
await timed("search everything", async () => {
  await page.locator("#search").fill("needle 77");
  await page.waitForFunction(() => /\d$/.test(document.querySelector(".hits")?.textContent?.trim() ?? ""), undefined, { timeout: 120_000 });
});
console.log(`  ${await page.locator(".hits").innerText()} hits`);
await heap();
await page.reload();
await opened(runs, "10,000 runs");
await whileFrames("wheel over the tree", () => scroll('[role="tree"]', 60, 900));
await whileFrames("drag the scrollbar of the tree", () => dragBar('[role="tree"]'));
await timed("filter the tree", async () => {
  await page.getByLabel("Filter sessions and agents").fill("worker 777");
  await page.waitForFunction(() => document.querySelectorAll('[role="treeitem"]').length < 20);
});
await heap();
await browser.close();
served.close();

/**
 * @param {string} path
 * @param {string} what
 */
async function opened(path, what) {
  await page.waitForFunction(() => document.querySelector(".way.drop button:disabled") === null);
  const began = performance.now();
  const before = workerSeconds();
  await page.getByLabel("The folder of a store").setInputFiles(path);
  await page.locator("#tab-conversation").waitFor({ timeout: 300_000 });
  await page.locator('.conversation [role="listitem"]').first().waitFor();
  console.log(`${what}: open and shown after ${((performance.now() - began) / 1000).toFixed(1)} s${worked(before)}`);
}

/**
 * @param {string} what
 * @param {() => Promise<unknown>} work
 */
async function timed(what, work) {
  const began = performance.now();
  const before = workerSeconds();
  await work();
  console.log(`  ${what}: ${Math.round(performance.now() - began)} ms${worked(before)}`);
}

/**
 * What the worker's thread itself has worked since, which says more where the machine has other work.
 *
 * @param {number | undefined} before
 */
function worked(before) {
  const now = workerSeconds();
  return now === undefined ? "" : `, of which the worker worked ${Math.round((now - (before ?? 0)) * 1000)} ms`;
}

/** How long the threads of workers of our browser have worked so far, in seconds; undefined where the system doesn't tell. */
function workerSeconds() {
  if (process.platform !== "linux") return undefined;
  /** @param {string} path */
  const text = (path) => {
    try {
      return readFileSync(path, "utf8");
    } catch {
      // It has ended meanwhile.
      return "";
    }
  };
  /** @param {string} id */
  const parentOf = (id) => /^PPid:\s+(\d+)/m.exec(text(`/proc/${id}/status`))?.[1];
  /** @param {string} id */
  const isOurs = (id) => {
    /** @type {string | undefined} */
    let at = id;
    while (at !== undefined && at !== "0" && at !== String(process.pid)) at = parentOf(at);
    return at === String(process.pid);
  };
  let nanoseconds = 0;
  for (const id of readdirSync("/proc").filter((name) => /^\d+$/.test(name) && /chrom/.test(text(`/proc/${name}/comm`)) && isOurs(name))) {
    for (const thread of readdirSync(`/proc/${id}/task`)) {
      if (/^DedicatedWorker/.test(text(`/proc/${id}/task/${thread}/comm`))) nanoseconds += Number(text(`/proc/${id}/task/${thread}/schedstat`).split(" ")[0]);
    }
  }
  return nanoseconds / 1e9;
}

/**
 * Frames a second, and tasks of more than 50 ms, while something is done.
 *
 * @param {string} what
 * @param {() => Promise<unknown>} work
 */
async function whileFrames(what, work) {
  await page.evaluate(() => {
    const counted = /** @type {Counted} */ (globalThis);
    counted.longTasks.length = 0;
    counted.frameTimes = [];
    counted.isCounting = true;
    /** @param {number} at */
    const count = (at) => {
      counted.frameTimes.push(at);
      if (counted.isCounting) requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  });
  await work();
  const { rate, worst, long } = await page.evaluate(() => {
    const counted = /** @type {Counted} */ (globalThis);
    counted.isCounting = false;
    const { frameTimes, longTasks } = counted;
    const gaps = frameTimes.slice(1).map((at, index) => at - (frameTimes[index] ?? at));
    return { rate: (gaps.length * 1000) / ((frameTimes.at(-1) ?? 0) - (frameTimes[0] ?? 0)), worst: Math.max(...gaps), long: longTasks.map(Math.round) };
  });
  console.log(`  ${what}: ${rate.toFixed(0)} frames/s, the longest ${worst.toFixed(0)} ms, long tasks: ${long.length === 0 ? "none" : `${long.length}, the longest ${Math.max(...long)} ms`}`);
}

/**
 * @param {string} selector
 * @param {number} times
 * @param {number} by
 */
async function scroll(selector, times, by) {
  await page.locator(selector).first().hover();
  for (let at = 0; at < times; at++) {
    await page.mouse.wheel(0, by);
    await page.waitForTimeout(25);
  }
}

/** @param {string} selector */
async function dragBar(selector) {
  await page.locator(selector).first().evaluate(async (viewport) => {
    const room = viewport.scrollHeight - viewport.clientHeight;
    for (let at = 0; at <= 60; at++) {
      viewport.scrollTop = (room * at) / 60;
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  });
}

async function scrub() {
  const box = await page.locator("#timeline").boundingBox();
  if (box === null) throw new Error("there is no timeline");
  await page.mouse.move(box.x + 1200, box.y + 8);
  await page.mouse.down();
  for (let at = 0; at < 60; at++) {
    await page.mouse.move(box.x + 1200 - at * 16, box.y + 8);
    await page.waitForTimeout(25);
  }
  await page.mouse.up();
}

async function heap() {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  console.log(`  heap of the page: ${(usedSize / 1e6).toFixed(1)} MB`);
}

/**
 * @param {string} path
 * @param {number} count
 */
async function recordEvents(path, count) {
  const store = await open(path, { durability: "os" });
  const { instance } = await store.startSession({ title: "A very long run" }, "marathon");
  const context = await store.context(instance.id);
  const began = Date.now() - count * 40;
  for (let made = 0; made < count; ) {
    /** @type {import("runlog").MessageInput[]} */
    const messages = [];
    const events = [];
    for (let at = 0; at < 400; at++) {
      const index = made + at * 3;
      const id = `call_${index}`;
      messages.push({ role: "assistant", content: `Round ${index}: I look at part ${index % 977}.${index % 7777 === 0 ? ` needle ${index % 100}` : ""}`, tool_calls: [{ id, type: "function", function: { name: ["read", "search", "run"][index % 3], arguments: JSON.stringify({ path: `part-${index % 977}.txt` }) } }] });
      messages.push({ role: "tool", tool_call_id: id, content: `Part ${index % 977} has ${(index * 7919) % 1000} lines, and says nothing new about the needle ${index % 1000}.`, ...(index % 501 === 0 && { is_error: true }) });
      const at1 = began + index * 40;
      events.push({ createdAtMs: at1, stepNumber: Math.floor(index / 3) }, { createdAtMs: at1 + 60, stepNumber: Math.floor(index / 3), toolDurationMs: 60, toolIsError: index % 501 === 0 });
    }
    // A message's calls are events too: three for every round.
    for (let at = 0; at < messages.length; at += 2) await append(context, messages.slice(at, at + 2), events.slice(at, at + 2));
    made += 1200;
  }
  await store.close();
}

/**
 * @param {Awaited<ReturnType<Awaited<ReturnType<typeof open>>["context"]>>} context
 * @param {import("runlog").MessageInput[]} messages
 * @param {object[]} events
 */
async function append(context, messages, events) {
  for (const [index, message] of messages.entries()) waiting.push(context.appendMessage(message, { event: events[index] }));
  if (waiting.length < 2000) return;
  await Promise.all(waiting);
  waiting = [];
}

/**
 * @param {string} path
 * @param {number} count
 */
async function recordRuns(path, count) {
  const store = await open(path, { durability: "os" });
  const root = await store.runs.start({ session: { title: "A lead with ten thousand workers" }, agentName: "lead", messages: [{ role: "user", content: "Split the work." }] });
  const { sessionId, instanceId } = root.run;
  for (let made = 1; made < count; made += 100) {
    await Promise.all(
      Array.from({ length: Math.min(100, count - made) }, async (_, at) => {
        const run = await store.runs.start({ newInstance: { sessionId, agentName: `worker ${made + at}`, parentInstanceId: instanceId }, parentRunId: root.id, messages: [{ role: "user", content: `Do part ${made + at}.` }] });
        await run.recordMessage({ role: "assistant", content: `Part ${made + at} is done.` });
        if ((made + at) % 37 === 0) await run.fail("part of it is missing");
        else await run.complete("done");
      }),
    );
  }
  await root.complete("all parts are done");
  await store.close();
}
