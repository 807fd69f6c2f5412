// Recorded text as it is shown: nothing of it hides, and nothing of it is obeyed.

import { expect, test } from "vitest";

import { plain, spansOf } from "../src/page/ansi.js";
import { endOfLines } from "../src/page/wrapped.js";

test("what sets a title or a link is shown, with or without its end", () => {
  expect(plain("a\u001b]0;hidden\nmore\n\nend")).toBe("a␛]0;hidden\nmore\n\nend");
  expect(plain("a\u001b]0;INSTRUCTIONS\u0007b")).toBe("a␛]0;INSTRUCTIONS␇b");
  expect(plain("\u001b]8;;https://x.example\u001b\\text\u001b]8;;\u001b\\")).toBe("␛]8;;https://x.example␛text␛]8;;␛");
  expect(plain("\u001b[2K\u001b[1;31mred\u001b[0m \u001b(B")).toBe("␛red ␛(B");
});

test("characters that can't be seen are named", () => {
  const tags = [..."hi"].map((char) => String.fromCodePoint(0xe0000 + char.charCodeAt(0))).join("");
  expect(plain(`a${tags}b`)).toBe("aU+E0068U+E0069b");
  for (const char of ["\u00ad", "\u034f", "\u115f", "\u180e", "\u2028", "\u3164", "\uffa0", "\u061c", "\ufff9", "\u{e0001}"]) {
    expect(plain(`a${char}b`)).toBe(`aU+${(char.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, "0")}b`);
  }
  // A letter with a row of variations: bytes that only a model reads.
  expect(plain("a\ufe00\u{e0101}\u{e0102}")).toBe("a\ufe00U+E0101U+E0102");
});

test("what belongs to how a text is written stays", () => {
  const flag = `\u{1f3f4}${[..."gbeng"].map((char) => String.fromCodePoint(0xe0000 + char.charCodeAt(0))).join("")}\u{e007f}`;
  for (const text of [flag, "❤️", "👩‍💻", "葛\u{e0100}", "ک‌ا", "क्‍ष"]) expect(plain(text)).toBe(text);
});

test("a text of thousands of pieces hides nothing behind them", () => {
  const spans = spansOf(`${"\u0001".repeat(10_000)}\u001b[31mred\u200bend`);
  expect(spans.length).toBeLessThan(5000);
  expect(spans.map((span) => span.text).join("")).toBe(`${"␁".repeat(10_000)}redU+200Bend`);
});

test("lines are counted as they are wrapped, of wide characters the sooner", () => {
  const shown = (text: string, lines: number, columns: number) => text.slice(0, endOfLines(text, lines, columns));
  expect(shown("x".repeat(100), 3, 10)).toBe("x".repeat(30));
  expect(shown("x".repeat(30), 3, 10)).toBe("x".repeat(30));
  expect(shown("a\nb\nc\nd", 2, 10)).toBe("a\nb");
  expect(shown(`a\n${"x".repeat(15)}\nb`, 3, 10)).toBe(`a\n${"x".repeat(15)}`);
  expect(shown("漢".repeat(20), 2, 10)).toBe("漢".repeat(10));
  expect(shown("😀".repeat(20), 1, 5)).toBe("😀😀");
  expect(shown("x".repeat(100_000), 12, Infinity)).toBe("x".repeat(100_000));
});
