// A timeline that is zoomed into: the scrubber stays in view wherever one goes.

import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import { exportOf, pick, viewer } from "./page.js";

const app = viewer();

test("what is zoomed to moves to where the scrubber goes by keys, and stays where it is when that is in view", async () => {
  const store = await openInMemory();
  const { instance } = await store.startSession({ title: "Long", createdAtMs: 0 }, "coder");
  const context = await store.context(instance.id);
  for (let at = 0; at < 200; at++) {
    const isFailed = at === 40;
    const event = { event: { createdAtMs: 1_000_000 + at * 100 } };
    if (!isFailed) await context.appendMessage({ role: "user", content: `At ${at}.` }, event);
    else {
      await context.appendMessage({ role: "assistant", content: [{ type: "tool_use", id: "c", name: "run", input: {} }] }, event);
      await context.appendMessage({ role: "user", content: [{ type: "tool_result", tool_use_id: "c", is_error: true, content: "no disk" }] }, event);
    }
  }
  const { page, told, close } = await app.open("", { viewport: { width: 1400, height: 850 } });
  await pick(page, [await exportOf(store)]);
  await page.locator(".crumb.session").waitFor();
  const box = await page.locator("#timeline").boundingBox();
  if (box === null) throw new Error("there is no timeline");
  const moment = async () => Number(await page.locator("#timeline").getAttribute("aria-valuenow"));
  /** Where the head of the scrubber is drawn, in the first row of the canvas, if it is. */
  const head = () =>
    page.locator("#timeline").evaluate((canvas: HTMLCanvasElement) => {
      const context = canvas.getContext("2d");
      const row = context?.getImageData(0, 1, canvas.width, 1).data ?? [];
      const at = Array.from({ length: canvas.width }, (_, x) => x).filter((x) => row[x * 4 + 3] === 255 && (row[x * 4 + 2] as number) > (row[x * 4] as number) + 80);
      return at.length === 0 ? undefined : ((at[0] as number) + (at.at(-1) as number)) / 2;
    });
  await page.mouse.move(box.x + box.width - 200, box.y + 60);
  await expect.poll(head).toBeGreaterThan(1000);
  for (let turn = 0; turn < 6; turn++) await page.mouse.wheel(0, -300);
  await page.getByRole("button", { name: "whole run" }).waitFor();
  // The scrubber stands at the end, which may be out of what is zoomed to: that is what was asked for.
  await page.keyboard.press("[");
  await expect.poll(moment).toBeLessThan(50);
  await expect.poll(head).toBeGreaterThan(148);
  const before = await head();
  for (let turn = 0; turn < 3; turn++) await page.keyboard.press("ArrowLeft");
  await expect.poll(head).toBeLessThan(before as number);
  expect(await head()).toBeGreaterThan(148);
  await page.keyboard.press("End");
  await expect.poll(moment).toBeGreaterThan(199);
  await expect.poll(head).toBeGreaterThan(1000);
  await page.getByRole("button", { name: "whole run" }).waitFor();
  // Reading what is drawn is slow, which is said, and only done here.
  expect(told.filter((one) => !one.includes("willReadFrequently"))).toEqual([]);
  await close();
});
