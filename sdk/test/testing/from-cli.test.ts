import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

import { createMockQuery, loadFixtures } from "../../src/testing/index.js";
import { all } from "./claude.js";

test("what `runlog record-fixtures` writes is played", async () => {
  // The tests of the command write these files, and compare.
  const fixtures = loadFixtures(fileURLToPath(new URL("./fixtures/from-cli/", import.meta.url)));
  expect(Object.keys(fixtures)).toEqual(["a/b", "task-agent"]);
  const mockQuery = createMockQuery({ fixtures, strict: true });
  const first = await all(mockQuery({ prompt: "Analyze it.", nodeId: "task-agent" }));
  expect(first.map(({ type }) => type)).toEqual(["agent:start", "agent:thinking:delta", "agent:tool", "agent:complete", "result"]);
  expect(first.at(-1)).toMatchObject({ subtype: "success", text: "Analyzed.", usage: { inputTokens: 15, outputTokens: 20 }, sessionId: "s1" });
  expect((await all(mockQuery({ prompt: "continue", nodeId: "task-agent" }))).at(-1)).toMatchObject({ text: "Done." });
  expect((await all(mockQuery({ prompt: "", nodeId: "a/b" }))).at(-1)).toMatchObject({ subtype: "error_max_turns", text: "Half" });
});
