// Calls without a result: one may come as long as somebody is at work, and none once the run has ended.

import { type RunRecorder, openInMemory } from "runlog";
import { expect, test } from "vitest";

import { familyOf } from "../src/worker/family.js";
import type { Lane } from "../src/worker/model.js";
import { statusAt } from "../src/worker/rows.js";
import { Kind } from "../src/worker/kinds.js";
import { timelineOf } from "../src/worker/timeline.js";
import { indexed } from "./indexed.js";
import { exportOf, pick, viewer } from "./page.js";
import { recording } from "./served.js";

const app = viewer();

const call = (id: string) => ({ role: "assistant" as const, content: null, tool_calls: [{ id, type: "function" as const, function: { name: "wait", arguments: "{}" } }] });

const ENDS: [string, (run: RunRecorder) => Promise<unknown>, string][] = [
  ["is at work", async () => {}, "pending"],
  ["failed", (run) => run.fail("no disk"), "unanswered"],
  ["was cancelled", (run) => run.cancel(), "unanswered"],
  ["was paused", (run) => run.pause("later"), "unanswered"],
];

test.each(ENDS)("a call of a run that %s", async (_, end, expected) => {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Calls" }, agentName: "coder", messages: [{ role: "user", content: "Go." }] });
  await run.recordMessage(call("c"));
  await end(run);
  const index = await indexed(store);
  await store.close();
  const lane = index.laneOf(run.run.instanceId) as Lane;
  const family = familyOf(index, lane);
  const row = family.order.find((at) => index.rows.kind.at(at) === Kind.ToolCall) as number;
  const rank = family.rank[row] as number;
  expect(statusAt(index, family, row, rank + 1, lane)).toBe("pending");
  expect(statusAt(index, family, row, family.length, lane)).toBe(expected);
  const { bars } = timelineOf(index, family, { width: 100, from: -1, to: family.duration + 1, firstLane: 0, lanes: 1 }, () => false);
  expect(bars[3]).toBe(expected === "pending" ? 2 : 3);
});

test("a call of a run that failed isn't shown as one that somebody is at work on", async () => {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Calls" }, agentName: "coder", messages: [{ role: "user", content: "Go." }] });
  await run.recordMessage(call("c"));
  await run.fail("no disk");
  const { page, told, close } = await app.open("");
  await pick(page, [await exportOf(store)]);
  const row = page.locator(".conversation .row.tool");
  const status = () => row.locator(".status").getAttribute("aria-label");
  await expect.poll(status).toBe("no result");
  await expect.poll(() => row.locator(".status").getAttribute("class")).not.toContain("blue");
  await row.getByRole("button").click();
  await expect.poll(() => row.innerText()).toContain("nobody is at work on it any more");
  await expect.poll(() => page.locator("aside.inspector .status").first().getAttribute("aria-label")).toBe("no result");
  // Before it failed there might have come one.
  await page.keyboard.press("ArrowLeft");
  await expect.poll(status).toBe("no result yet");
  expect(told).toEqual([]);
  await close();
});

test("a call whose process ended has no result as long as nobody writes the store", async () => {
  const { store, run, server } = await recording(["Begin."]);
  await run.recordMessage(call("c"));
  server.tell(await store.lastPosition());
  const { page, told, close } = await app.open(server.url);
  const status = () => page.locator(".conversation .row.tool .status").getAttribute("aria-label");
  await expect.poll(status).toBe("no result yet");
  server.written(false);
  await expect.poll(status, { timeout: 10_000 }).toBe("no result");
  server.written(true);
  await expect.poll(status, { timeout: 10_000 }).toBe("no result yet");
  expect(told).toEqual([]);
  await close();
});
