// How figures are written.

import { afterEach, expect, test } from "vitest";

import { cost, zonedTime } from "../src/page/format.js";

const zone = process.env.TZ;
afterEach(() => {
  if (zone === undefined) delete process.env.TZ;
  else process.env.TZ = zone;
});

test("what costs little isn't said to cost nothing", () => {
  expect([12.5, 0.25, 0.042, 0.0006, 0.0004, 0.000012, 1e-20, 0].map(cost)).toEqual([
    "$12.50", "$0.25", "$0.042", "$0.001", "$0.0004", "$0.00001", "under $0.000001", "$0.000",
  ]);
});

test("a time says in which zone it is, that of its day", () => {
  const at = (ms: number, of: string) => {
    process.env.TZ = of;
    return zonedTime(ms);
  };
  const [winter, summer] = [Date.UTC(2026, 0, 5, 12), Date.UTC(2026, 6, 5, 12)];
  expect(at(winter, "UTC")).toBe("2026-01-05 12:00:00.000 UTC");
  expect([at(winter, "Europe/Oslo"), at(summer, "Europe/Oslo")]).toEqual(["2026-01-05 13:00:00.000 +01:00", "2026-07-05 14:00:00.000 +02:00"]);
  expect([at(winter, "Asia/Kolkata"), at(winter, "America/St_Johns")]).toEqual(["2026-01-05 17:30:00.000 +05:30", "2026-01-05 08:30:00.000 −03:30"]);
  expect(at(9e15, "UTC")).toContain("after 1970");
});
