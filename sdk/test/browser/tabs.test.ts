import { open } from "#runlog";
import { freshName } from "#places";
import { commands } from "vitest/browser";
import { expect, onTestFinished, test } from "vitest";

import { failure } from "../code.js";
import type {} from "./commands.js";

/** Another worker of this origin, as another tab has one. */
function otherTab(): { ask(message: object): Promise<Record<string, unknown>> } {
  const worker = new Worker(new URL("./tab.ts", import.meta.url), { type: "module" });
  onTestFinished(() => worker.terminate());
  return {
    ask: (message) =>
      new Promise((resolve, reject) => {
        worker.addEventListener("message", ({ data }: MessageEvent<Record<string, unknown>>) => resolve(data), { once: true });
        worker.addEventListener("error", (event) => reject(new Error(event.message)), { once: true });
        worker.postMessage(message);
      }),
  };
}

test("another tab can't write, but reads and follows, also over new segments, and writes once the first has closed", { timeout: 120_000 }, async () => {
  const name = await freshName();
  const store = await open(name, { segmentBytesMax: 64 << 10 });
  const stream = store.newId();
  await store.streams.append(stream, "0");
  const tab = otherTab();
  expect(await tab.ask({ write: name, stream })).toMatchObject({ code: "locked" });
  const followed = tab.ask({ follow: name, stream, count: 1000 });
  // More segments than there are spare files at first.
  for (let at = 1; at < 1000; at += 1) await store.streams.append(stream, `${at} ${"x".repeat(2000)}`);
  expect(await followed).toEqual({ inOrder: true, count: 1000 });
  await store.close();
  expect(await tab.ask({ write: name, stream })).toEqual({ lastSequence: 1001 });
});

test("a store that is being written is opened for reading at any moment", { timeout: 120_000 }, async () => {
  const name = await freshName();
  const stream = crypto.randomUUID();
  const writer = new Worker(new URL("./crasher.ts", import.meta.url), { type: "module" });
  onTestFinished(() => writer.terminate());
  const started = new Promise<void>((resolve, reject) => {
    writer.addEventListener("error", (event) => reject(new Error(event.message)));
    writer.addEventListener("message", ({ data }: MessageEvent<{ count?: number }>) => data.count !== undefined && resolve());
  });
  // A few segments of 64 KiB a second, since opening takes longer with each.
  writer.postMessage({ name, stream, from: 0, pauseMs: 12 });
  await started;
  let before = 0;
  for (let round = 0; round < 25; round += 1) {
    await using reader = await open(name, { mode: "readOnly" });
    const { lastSequence = 0 } = (await reader.streams.get(stream)) ?? {};
    expect(lastSequence).toBeGreaterThanOrEqual(before);
    before = lastSequence;
  }
});

test("what another page of this origin writes is followed here, and the store is free when that page is closed", { timeout: 120_000 }, async () => {
  const name = await freshName();
  const stream = crypto.randomUUID();
  const url = new URL("/test/browser/tab.html", location.href);
  url.search = new URLSearchParams({ name, stream, count: "300" }).toString();
  // One that stays open would keep the pages of all other tests in the background.
  onTestFinished(() => commands.closePage(url.href));
  await commands.openPage(url.href);
  await expect.poll(() => open(name, { mode: "readOnly" }).then((it) => it.close().then(() => true), () => false), { timeout: 30_000 }).toBe(true);
  expect((await failure(open(name), "locked")).message).toContain("another tab");
  const reader = await open(name, { mode: "readOnly" });
  let next = 1;
  for await (const record of reader.tail()) {
    if (record.stream !== stream || record.kind !== 0) continue;
    expect(record.text()).toMatch(new RegExp(`^event ${next} `));
    next += 1;
    if (next > 300) break;
  }
  await reader.close();
  await failure(open(name), "locked");
  // It isn't asked to close the store.
  const waiting = open(name, { lockTimeoutMs: 30_000 });
  await commands.closePage(url.href);
  const store = await waiting;
  onTestFinished(() => store.close());
  expect((await store.streams.read(stream).toArray()).length).toBe(300);
  await store.streams.append(stream, "taken over");
});
