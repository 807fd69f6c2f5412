import { once } from "node:events";
import type { Readable } from "node:stream";

import { describe, expect, test } from "vitest";

import { wrongForOpenAi } from "../contexts.js";
import { freshFolder } from "../places.node.js";
import { run, start } from "./child.js";

const LEAVES = [0, 1, 2].flatMap((part) => [0, 1, 2].map((leaf) => `leaf ${part} ${leaf}`)).join(", ");

describe("C24: a process that is killed in the middle of a tree of agents", () => {
  // A kill a moment after so many leaves began: none, some, all, when some are done already.
  test.each([
    [1, 0, "once"],
    [3, 0, "both"],
    [9, 0, "once"],
    [9, 25, "both"],
    [9, 40, "once"],
  ])("is resumed once, whoever asks how often (%i leaves, %i ms, %s)", async (leaves, ms, how) => {
    const path = await freshFolder();
    const working = start("trees.mjs", [path, "work"]);
    while (working.said().split("a leaf").length - 1 < leaves) await once(working.process.stdout as Readable, "data");
    await new Promise((resolve) => setTimeout(resolve, ms));
    working.process.kill("SIGKILL");
    await working.ended;
    const ended = await run("trees.mjs", [path, how]);
    expect(ended).toMatchObject({ code: 0, stderr: "" });
    const told = JSON.parse(ended.stdout);
    expect(told).toMatchObject({ twice: 0, resumedTwice: 0, left: 0, forks: 0 });
    expect(new Set(told.statuses)).toEqual(new Set(["completed"]));
    expect(told.summary).toBe(LEAVES);
    for (const context of told.contexts) expect(wrongForOpenAi(context)).toBeUndefined();
  });
});
