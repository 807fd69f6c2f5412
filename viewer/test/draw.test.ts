// What is drawn of a timeline, as far as texts could lie over one another.

import { expect, test } from "vitest";

import { RULER, draw } from "../src/page/draw.js";

/** A context that keeps what is written, and how much room it takes. */
function written() {
  const texts: { text: string; from: number; to: number }[] = [];
  const sizeOf = (text: string) => text.length * 6;
  const told: Partial<CanvasRenderingContext2D> = {
    measureText: (text) => ({ width: sizeOf(text) }) as TextMetrics,
    fillText: (text, x, y) => void (y < RULER && texts.push({ text, from: x, to: x + sizeOf(text) })),
  };
  const context = new Proxy(told, { get: (target, name) => Reflect.get(target, name) ?? (() => {}), set: () => true }) as CanvasRenderingContext2D;
  return { context, texts };
}

test("the scrubber's head lies over no time of the ruler, and hides none of the lengths of gaps", () => {
  const folds = [{ at: 100, end: 130, ms: 6000 }, { at: 300, end: 330, ms: 61_000 }];
  const ticks = Float64Array.from([0, 0, 200, 1000, 400, 2000]);
  const none = new Uint8Array(0);
  const data = { width: 600, from: 0, to: 600, firstLane: 0, lanes: 0, density: none, failed: none, hits: none, bars: new Float64Array(0), marks: new Float64Array(0), ticks, tickStep: 1000, spans: new Float64Array(0) };
  const xOf = (folded: number) => 100 + folded;
  for (let cursor = 100; cursor <= 700; cursor++) {
    const { context, texts } = written();
    draw(context, { width: 700, height: 100, gutter: 100, data, lanes: [], firstLane: 0, offset: 0, current: undefined, cursor, range: undefined, isUnwritten: false, folds, xOf, foldLabel: (ms) => `${ms} ms`, tickLabel: (ms) => `${ms / 1000} s`, colours: {} });
    expect({ cursor, gaps: texts.filter(({ text }) => text.startsWith("⌇")).map(({ text }) => text) }).toEqual({ cursor, gaps: ["⌇ 6000 ms", "⌇ 61000 ms"] });
    const sorted = texts.toSorted((a, b) => a.from - b.from);
    for (const [at, { from, to }] of sorted.entries()) {
      expect({ cursor, sorted, isFree: cursor + 6 <= from || cursor - 6 >= to }).toEqual({ cursor, sorted, isFree: true });
      expect(from).toBeGreaterThan(sorted[at - 1]?.to ?? 0);
    }
  }
});

test("the signs of the first and the last moment stand whole within the plot", () => {
  const corners: number[] = [];
  const told: Partial<CanvasRenderingContext2D> = {
    measureText: (text) => ({ width: text.length * 6 }) as TextMetrics,
    lineTo: (x) => void corners.push(x),
    arc: (x, _y, radius) => void corners.push(x - radius, x + radius),
    strokeRect: (x, _y, width) => void corners.push(x, x + width),
  };
  const context = new Proxy(told, { get: (target, name) => Reflect.get(target, name) ?? (() => {}), set: () => true }) as CanvasRenderingContext2D;
  const none = new Uint8Array(0);
  for (const what of [1, 2, 3]) {
    const data = { width: 600, from: 0, to: 600, firstLane: 0, lanes: 1, density: new Uint8Array(600), failed: new Uint8Array(600), hits: none, bars: new Float64Array(0), marks: Float64Array.from([0, 0, what, 0, 600, what]), ticks: new Float64Array(0), tickStep: 1000, spans: new Float64Array(2) };
    draw(context, { width: 700, height: 100, gutter: 100, data, lanes: [], firstLane: 0, offset: 0, current: undefined, cursor: undefined, range: undefined, isUnwritten: false, folds: [], xOf: (folded) => 100 + folded, foldLabel: String, tickLabel: String, colours: {} });
    const [first, last] = [Math.min(...corners), Math.max(...corners)];
    expect({ what, first, last, isWhole: first >= 100 && last <= 700 }).toEqual({ what, first, last, isWhole: true });
    expect(corners.length).toBeGreaterThan(2);
    corners.length = 0;
  }
});
