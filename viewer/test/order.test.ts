// The order of the tree: the session that was added last is the first one.

import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import { Tree } from "../src/worker/tree.js";
import { indexed } from "./indexed.js";
import { pick, viewer } from "./page.js";
import { nothing } from "./served.js";

const app = viewer();

test("sessions of one millisecond stand as they were added, the newest first, and so those whose clock was off", async () => {
  const store = await openInMemory();
  for (const [title, createdAtMs] of [["a", 5000], ["b", 9000], ["c", 9000], ["d", 9000], ["e", 1000]] as const) await store.startSession({ title, createdAtMs }, "coder");
  const sessionsIn = (tree: Tree) => tree.rows(0, 20).rows.filter(({ kind }) => kind === "session").map(({ title }) => title);
  const listed = (await store.listSessions()).items.map(({ title }) => title);
  const index = await indexed(store);
  await store.close();
  expect(sessionsIn(new Tree(index))).toEqual(["e", "d", "c", "b", "a"]);
  expect(sessionsIn(new Tree(index))).toEqual(listed);
});

test("transcripts stand by when they began, in whatever order their files are given", async () => {
  const { page, told, close } = await app.open("");
  const session = (name: string, day: number) => ({ name: `${name}.jsonl`, text: JSON.stringify({ type: "user", timestamp: `2026-01-0${day}T10:00:00.000Z`, sessionId: name, message: { role: "user", content: `Of day ${day}.` } }) });
  await pick(page, [session("one", 2), session("two", 3), session("three", 1)]);
  await expect.poll(() => page.locator(".tree .session .title").allInnerTexts()).toEqual(["Of day 3.", "Of day 2.", "Of day 1."]);
  expect(told).toEqual([]);
  await close();
});

test("sessions of one minute without titles are told apart by the ends of their ids, beside how many agents they have", async () => {
  const { store, server } = await nothing();
  const ids: string[] = [];
  for (const _ of "ab") {
    const { session } = await store.startSession({}, "coder");
    for (let agents = 1; agents < 12; agents++) await store.runs.start({ newInstance: { sessionId: session.id, agentName: "coder" }, messages: [{ role: "user", content: "Go." }] });
    ids.unshift(session.id);
  }
  const { page, told, close } = await app.open(server.url);
  const titles = page.locator(".tree .session .title");
  // Folded, so that the other one is in view too.
  await page.getByRole("treeitem", { name: /session/ }).first().locator(".fold").click();
  await expect.poll(() => titles.allInnerTexts()).toEqual(ids.map((id) => expect.stringMatching(new RegExp(`^session …${id.slice(-6)}$`))));
  await expect.poll(() => page.locator(".tree .session .count").first().innerText()).toBe("12 agents");
  expect(await titles.evaluateAll((all) => all.map((one) => one.scrollWidth > one.clientWidth))).toEqual([false, false]);
  expect(told).toEqual([]);
  await close();
});
