// A file of its own, since it sets Runlog up without a worker in its page.

import { init, listStores, open, placeOf } from "#runlog";
import { expect, test } from "vitest";

import { failure } from "../code.js";

test("a page without a worker has a store in memory where that was asked for, and is told why it has no files", async () => {
  await init({ worker: false });
  const name = crypto.randomUUID();
  const refused = await failure(open(name), "io");
  expect(await listStores()).not.toContain(name);
  expect(refused.message).toContain("use a dedicated worker");
  const store = await open(name, { fallback: "memory" });
  expect(placeOf(store).kind).toBe("memory");
  const session = await store.createSession({ title: "here" });
  expect(await store.getSession(session.id)).toMatchObject({ title: "here" });
  await store.close();
  expect(await listStores()).not.toContain(name);
  // One that is there, made by somebody with a worker, stays with what is in it.
  const root = await (await navigator.storage.getDirectory()).getDirectoryHandle("runlog", { create: true });
  const folder = await root.getDirectoryHandle(name, { create: true });
  const file = await (await folder.getFileHandle("0", { create: true })).createWritable();
  await file.write("something");
  await file.close();
  await failure(open(name), "io");
  expect(await listStores()).toContain(name);
  await root.removeEntry(name, { recursive: true });
});
