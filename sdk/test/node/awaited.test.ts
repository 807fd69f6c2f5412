import { expect, test } from "vitest";

import { Awaited, type Resolve } from "../../src/appends.js";

const resolves = (count: number): Resolve[] => Array.from({ length: count }, () => () => {});

test("each ticket gives who awaits it, once, in any order and after tickets that nobody has", () => {
  const awaited = new Awaited();
  const [one, two, three, four] = resolves(4) as [Resolve, Resolve, Resolve, Resolve];
  awaited.add(1, [one, two]);
  // 3 to 6 were handed over in vain.
  awaited.add(7, [three, four]);
  expect(awaited.size).toBe(4);
  expect(awaited.take(8)).toBe(four);
  expect(awaited.take(4)).toBeUndefined();
  expect(awaited.take(1)).toBe(one);
  expect(awaited.take(1)).toBeUndefined();
  expect(awaited.take(7)).toBe(three);
  expect(awaited.take(2)).toBe(two);
  expect(awaited.size).toBe(0);
  awaited.add(20, [one]);
  expect(awaited.take(2)).toBeUndefined();
  expect(awaited.take(20)).toBe(one);
});

test("those that were answered are forgotten, and the others stay", () => {
  const awaited = new Awaited();
  const all = resolves(20_000);
  awaited.add(1, all);
  for (let ticket = 1; ticket <= 15_000; ticket++) expect(awaited.take(ticket)).toBe(all[ticket - 1]);
  expect(awaited.size).toBe(5_000);
  for (let ticket = 20_000; ticket > 15_000; ticket--) expect(awaited.take(ticket)).toBe(all[ticket - 1]);
  expect(awaited.size).toBe(0);
});
