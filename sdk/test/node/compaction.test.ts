import { open } from "#runlog";
import { expect, test } from "vitest";

import { failure } from "../code.js";
import { freshFolder } from "../places.node.js";

const SESSIONS = 24;
const PAYLOAD = new Uint8Array(500_000).map((_, at) => (at * at) >> 3);

async function furnished() {
  const store = await open(await freshFolder(), { segmentBytesMax: 2 ** 20, autoCompact: false });
  for (let at = 0; at < SESSIONS; at += 1) await store.streams.append(crypto.randomUUID(), PAYLOAD);
  return store;
}

test("a compaction whose signal is aborted stops, its work so far stays, and the next one does the rest", async () => {
  const store = await furnished();
  const stop = new AbortController();
  const told: number[] = [];
  const last = await store.lastPosition();
  const onProgress = ({ bytesDone }: { bytesDone: number }) => {
    told.push(bytesDone);
    if (bytesDone > 0) stop.abort(new Error("the night is over"));
  };
  // Slow enough that there is time to stop it.
  const options = { bytesPerSecond: 4_000_000, signal: stop.signal, onProgress };
  const error = await failure(store.compact(options), "aborted");
  expect(error.message).toContain("the night is over");
  const stoppedAt = told.at(-1) as number;
  expect(stoppedAt).toBeLessThan((SESSIONS * PAYLOAD.length) / 2);
  const rest = await store.compact();
  expect(rest).toMatchObject({ isCancelled: false });
  expect(await store.verify()).toMatchObject({ sound: true });
  expect(await store.lastPosition()).toBe(last);
  await store.close();
});

test("a compaction that nobody waits for any more stops, so that closing doesn't wait for its end", async () => {
  const store = await furnished();
  const stop = new AbortController();
  // It would take an hour.
  const compacted = failure(store.compact({ bytesPerSecond: 10_000, signal: stop.signal }), "aborted");
  stop.abort();
  await compacted;
  await store.close();
});
