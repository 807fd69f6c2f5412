// A list's heights, beside the plain way to sum them.

import { expect, test } from "vitest";

import { Heights } from "../src/page/heights.js";

test.each([1, 2, 3, 4, 5])("rows are where their heights say while the list grows and shrinks at its end, seed %i", (seed) => {
  let state = seed;
  const random = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const heights = new Heights(20, 10);
  const measured = new Map<number, number>();
  for (let turn = 0; turn < 400; turn++) {
    if (random(3) === 0) heights.resize(random(200));
    const index = random(Math.max(1, heights.length));
    if (index < heights.length) {
      const height = 1 + random(40);
      expect(heights.set(index, height)).toBe(height - (measured.get(index) ?? 10));
      measured.set(index, height);
    }
    const begins = [0];
    for (let row = 0; row < heights.length; row++) begins.push((begins[row] as number) + (measured.get(row) ?? 10));
    expect(heights.total).toBe(begins.at(-1));
    const row = random(Math.max(1, heights.length));
    if (row >= heights.length) continue;
    expect(heights.offset(row)).toBe(begins[row]);
    expect(heights.find((begins[row] as number) + random(heights.at(row)))).toBe(row);
  }
});
