// Sessions that were deleted: what is left of them in the files of a store is told to be gone, and counted by nothing.

import { expect, test } from "vitest";

import { lines, viewer } from "./page.js";
import { nothing } from "./served.js";

const app = viewer();

/** Two sessions in a store that is served. */
async function two() {
  const { store, server } = await nothing();
  const sessionOf = async (title: string, content: string) => {
    const { session, instance } = await store.startSession({ title }, "coder");
    await (await store.context(instance.id)).appendMessage({ role: "user", content });
    return { id: session.id, instance: instance.id };
  };
  return { store, server, kept: await sessionOf("Kept", "A needle that is kept."), other: await sessionOf("Other", "A needle in what is deleted.") };
}

test("a link to what was deleted says so, and search doesn't count it", async () => {
  const { store, server, kept, other } = await two();
  await store.deleteSession(other.id);
  const { page, told, close } = await app.open(`${server.url}#agent=${other.instance}`);
  await expect.poll(() => page.getByRole("alert").innerText()).toContain(`The session of agent ${other.instance} was deleted: coder is shown`);
  expect((await lines(page)).join()).toContain("A needle that is kept.");
  await page.getByRole("searchbox").first().fill("needle");
  await expect.poll(() => page.locator("header .hits").innerText()).toBe("1");
  await page.evaluate((id) => void (location.hash = `agent=${id}`), other.instance);
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("was deleted: what was shown stays.");
  await page.goto(`${server.url}#agent=${kept.instance}&tab=compare&with=${other.instance}`);
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("was deleted: it isn't compared with.");
  expect(told).toEqual([]);
  await close();
});

test("whoever looks at a session that is deleted is told", async () => {
  const { store, server, other } = await two();
  const { page, told, close } = await app.open(`${server.url}#agent=${other.instance}`);
  await expect.poll(async () => (await lines(page)).join()).toContain("what is deleted");
  await expect.poll(() => page.locator(".then").count()).toBe(0);
  await store.deleteSession(other.id);
  server.tell(await store.lastPosition());
  await expect.poll(() => page.locator(".then").innerText()).toContain("This session was deleted meanwhile.");
  expect((await lines(page)).join()).toContain("what is deleted");
  await page.getByRole("treeitem", { name: /coder/ }).click();
  await expect.poll(async () => (await lines(page)).join()).toContain("A needle that is kept.");
  await expect.poll(() => page.locator(".then").count()).toBe(0);
  expect(told).toEqual([]);
  await close();
});

test("what a fork is a fork of stays readable when it is deleted, and other forks of it don't", async () => {
  const { store, server, other } = await two();
  const copyOf = async (title: string) => (await store.copySession(other.id, { title })).session;
  const [fork, gone] = [await copyOf("Fork"), await copyOf("Gone")];
  const instanceOf = async (id: string) => (await store.instances(id))[0]?.id ?? "";
  const [forkId, goneId] = [await instanceOf(fork.id), await instanceOf(gone.id)];
  await (await store.context(goneId)).appendMessage({ role: "user", content: "A needle of the other fork." });
  await store.deleteSession(other.id);
  await store.deleteSession(gone.id);
  const { page, told, close } = await app.open(`${server.url}#agent=${forkId}&q=needle`);
  await expect.poll(async () => (await lines(page)).join()).toContain("A needle in what is deleted.");
  await expect.poll(() => page.locator("header .hits").innerText()).toBe("1 · 2 in all");
  await page.getByRole("button", { name: /forked at/ }).click();
  await expect.poll(() => page.url()).toContain(other.instance);
  expect((await lines(page)).join()).toContain("A needle in what is deleted.");
  await expect.poll(() => page.getByRole("alert").count()).toBe(0);
  expect(told).toEqual([]);
  await close();
});
