// Agents that failed are seen from above, and gone to, wherever they are folded away.

import { type RunRecorder, openInMemory } from "runlog";
import { expect, test } from "vitest";

import { Tree } from "../src/worker/tree.js";
import { indexed } from "./indexed.js";
import { exportOf, pick, viewer } from "./page.js";

const app = viewer();

/** An agent that has so many workers, of which some fail; one of them has a helper of its own, which fails too. */
async function team(workers: number, fails: (at: number) => boolean) {
  const store = await openInMemory();
  const lead = await store.runs.start({ session: { title: "Team" }, agentName: "lead", messages: [{ role: "user", content: "Go." }] });
  const spawn = (above: RunRecorder, agentName: string) =>
    store.runs.start({ newInstance: { sessionId: above.run.sessionId, agentName, parentInstanceId: above.run.instanceId }, parentRunId: above.id, messages: [{ role: "user", content: "Go." }] });
  for (let at = 0; at < workers; at++) {
    const worker = await spawn(lead, `worker${at}`);
    if (at === 1) await (await spawn(worker, "helper")).fail("no disk");
    if (fails(at)) await worker.fail("no disk");
    else await worker.complete();
  }
  await lead.complete();
  return store;
}

test("how many failed is counted below each, however deep", async () => {
  const store = await team(60, (at) => at % 20 === 19);
  const tree = new Tree(await indexed(store));
  await store.close();
  const figures = () => tree.rows(0, 5).rows.map(({ title, failedBelow, open }) => ({ title, failedBelow, open }));
  expect(figures()).toEqual([
    { title: "Team", failedBelow: 4, open: true },
    { title: "lead", failedBelow: 4, open: false },
  ]);
  tree.toggle(tree.rows(1, 1).rows[0]?.id ?? "");
  expect(figures().slice(1)).toEqual([
    { title: "lead", failedBelow: 4, open: true },
    { title: "worker0", failedBelow: 0, open: true },
    { title: "worker1", failedBelow: 1, open: true },
    { title: "helper", failedBelow: 0, open: true },
  ]);
});

test("an error of an agent that is folded away is seen above it, and leads to it in the tree and in the timeline", async () => {
  const store = await team(70, (at) => at === 69);
  const { page, told, close } = await app.open("", { viewport: { width: 1400, height: 850 } });
  await pick(page, [await exportOf(store)]);
  const row = (name: RegExp) => page.getByRole("treeitem", { name });
  const scrolled = () => page.locator(".timeline .scroller").evaluate((scroller) => scroller.scrollTop);
  await expect.poll(() => row(/lead/).getByRole("img", { name: "2 failed below" }).count()).toBe(1);
  await expect.poll(() => row(/Team/).getByRole("img", { name: "2 failed below" }).count()).toBe(1);
  await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe("lead");
  await expect.poll(scrolled).toBe(0);
  await page.keyboard.press("[");
  await expect.poll(() => page.locator("aside.inspector").innerText()).toContain("worker69");
  await page.locator(".tree .row.pointed", { hasText: "worker69" }).waitFor();
  const inView = () => page.locator(".tree .row.pointed").evaluate((item) => {
    const [box, list] = [item.getBoundingClientRect(), item.closest(".viewport")?.getBoundingClientRect()];
    return list !== undefined && box.top >= list.top && box.bottom <= list.bottom;
  });
  await expect.poll(inView).toBe(true);
  await expect.poll(scrolled).toBeGreaterThan(22 * 60);
  // The one before is the helper's, far above.
  await page.keyboard.press("[");
  await page.locator(".tree .row.pointed", { hasText: "helper" }).waitFor();
  await expect.poll(inView).toBe(true);
  await expect.poll(scrolled).toBeLessThan(22 * 3);
  await expect.poll(() => page.locator(".crumb.agent").innerText()).toBe("lead");
  expect(told).toEqual([]);
  await close();
});
