import { existsSync, readFileSync } from "node:fs";

import { open } from "#runlog";
import { expect, test } from "vitest";

import { freshFolder } from "../places.node.js";

const IO = "/proc/self/io";

/** How many system calls this process has written with. */
function writes(): number {
  return Number(/^syscw: (\d+)$/m.exec(readFileSync(IO, "utf8"))?.[1]);
}

test.skipIf(!existsSync(IO))("events of a flow that nobody awaits go together, in the order of the calls", async () => {
  const store = await open(await freshFolder());
  const flow = await store.flows.create();
  const before = writes();
  const records = Array.from({ length: 500 }, (_, index) => flow.record({ type: "node:tick", index }));
  // What is no event keeps its place among them, and one that is refused takes no other along.
  const refused = flow.record({ type: "nonsense" } as never);
  const saved = flow.startAgent("a", "s");
  const all = flow.recordAll([{ type: "node:tick", index: 500 }, { type: "node:tick", index: 501 }]);
  await expect(refused).rejects.toMatchObject({ code: "invalid_input" });
  expect(await Promise.all(records)).toEqual(records.map((_, index) => index + 1));
  await saved;
  expect(await all).toBe(502);
  expect(writes() - before).toBeLessThan(60);
  const playback = await store.flows.playback(flow.runId, { speed: Infinity });
  const played = await playback.events().toArray();
  expect(played.map((event) => (event.event as Record<string, unknown>)["index"])).toEqual(played.map((_, index) => index));
  await store.close();
});
