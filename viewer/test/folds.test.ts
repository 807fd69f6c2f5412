// How much room gaps have in which nothing happened.

import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import { type Family, familyOf } from "../src/worker/family.js";
import type { Lane } from "../src/worker/model.js";
import { indexed } from "./indexed.js";

/** A conversation whose events come so long after one another. */
async function after(pauses: number[]): Promise<Family> {
  const store = await openInMemory();
  const { instance } = await store.startSession({ title: "Paused" }, "coder");
  const context = await store.context(instance.id);
  let createdAtMs = Date.UTC(2026, 0, 5, 12);
  for (const pause of [0, ...pauses]) await context.appendMessage({ role: "user", content: "Go." }, { event: { createdAtMs: (createdAtMs += pause) } });
  const index = await indexed(store);
  await store.close();
  return familyOf(index, index.laneOf(instance.id) as Lane);
}

const sizes = (family: Family) => family.folds.map(({ at, end }) => end - at);
const sum = (numbers: number[]) => numbers.reduce((all, one) => all + one, 0);

test("a gap in a short run has a tenth of the time that isn't folded, and many together half of it", async () => {
  const short = await after([4, 11_500, 5]);
  expect(sizes(short)).toEqual([expect.closeTo(0.9)]);
  expect(short.duration).toBeCloseTo(9.9);
  expect(short.folds[0]?.ms).toBe(11_500);
  // The time behind it is what it was.
  expect((short.folded[3] as number) + (short.folds[0]?.skipped ?? 0)).toBeCloseTo(11_509);
  const many = await after(Array.from({ length: 40 }, (_, at) => (at % 2 === 0 ? 10 : 60_000)));
  expect(many.folds).toHaveLength(20);
  expect(sum(sizes(many))).toBeCloseTo(100);
  expect([...many.folded]).toEqual([...many.folded].toSorted((a, b) => a - b));
  expect((many.folded[40] as number) + (many.folds[19]?.skipped ?? 0)).toBeCloseTo(20 * 10 + 20 * 60_000);
});

test("a gap in a long run has no more room than in any other; where there is nothing but gaps they have all", async () => {
  const long = await after([1900, 1900, 1900, 1900, 600_000, 1900]);
  expect(sizes(long)).toEqual([400]);
  const bare = await after([5000, 7000]);
  expect(sizes(bare)).toEqual([400, 400]);
  expect([...bare.folded]).toEqual([0, 400, 800]);
});
