import { open } from "#runlog";
import { freshName } from "#places";
import { expect, onTestFinished, test } from "vitest";

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
