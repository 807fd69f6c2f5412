// What agents of the same name were asked to do, which tells one from another.

import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import { exportOf, pick, viewer } from "./page.js";

const app = viewer();

test("agents of one name are told by their tasks, in the tree, where they were spawned and where they began", async () => {
  const store = await openInMemory();
  const tasks = ["Translate the chapter about harbours into French, part 1 of 3; answer in one line.", "Check the figures of the second quarter.", "<b>Find</b> every call of the old client."];
  await store.agents.put({ name: "lead" });
  await store.agents.put({ name: "worker" });
  const orchestrator = await store.orchestrator({
    agents: {
      lead: async (context) => `${(await context.spawnAgents(tasks.map((task) => ({ agentName: "worker", task })))).length} parts are done`,
      worker: async () => "done",
    },
  });
  await (await orchestrator.start({ agentName: "lead", task: "Do the parts." })).wait();
  const { page, told, close } = await app.open("", { viewport: { width: 1280, height: 800 } });
  await pick(page, [await exportOf(store)]);
  const shown = page.locator('[role="treeitem"] .task');
  // Whoever is the only one of a session is told by that.
  await expect.poll(async () => (await shown.allInnerTexts()).toSorted()).toEqual(tasks.toSorted());
  expect((await shown.evaluateAll((all) => all.map((one) => (one as HTMLElement).title))).toSorted()).toEqual(tasks.toSorted());
  await page.getByRole("treeitem", { name: /Check the figures/ }).waitFor();
  await page.locator("#tab-events").click();
  const rows = page.locator(".events .row");
  const spawned = rows.filter({ hasText: "spawned" }).locator(".text");
  await expect.poll(() => spawned.innerText()).toMatch(/^3 agents · worker: /);
  for (const task of tasks) expect(await spawned.innerText()).toContain(task.slice(0, 40));
  await expect.poll(async () => (await rows.filter({ hasText: "run started" }).locator(".text").allInnerTexts()).toSorted()).toEqual(["lead · Do the parts.", ...tasks.map((task) => `worker · ${task}`).toSorted()]);
  await page.locator("#tab-conversation").click();
  await expect.poll(() => page.locator(".call").innerText()).toContain("worker: Check the figures of the second quarter.");
  expect(told).toEqual([]);
  await close();
});
