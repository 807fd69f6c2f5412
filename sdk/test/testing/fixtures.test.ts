import { mkdir, symlink, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

import { Ajv2020 } from "ajv/dist/2020.js";
import { describe, expect, test } from "vitest";

import { type Fixture, fixtureSchema, loadFixtures } from "../../src/testing/index.js";
import { filesOfGlob } from "../../src/testing/glob.js";
import { failure } from "../code.js";
import { freshFolder } from "../places.node.js";

const recordings = fileURLToPath(new URL("./fixtures/recordings/", import.meta.url));

/** A folder with these files. */
async function folderOf(files: Record<string, unknown>): Promise<string> {
  const folder = await freshFolder();
  await mkdir(folder, { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), typeof content === "string" ? content : JSON.stringify(content));
  }
  return folder;
}

const refused = async (files: Record<string, unknown>, code: "invalid_input" | "not_found" | "ambiguous") => {
  const folder = await folderOf(files);
  return (await failure((async () => loadFixtures(folder))(), code)).message.replace(folder, "");
};

const call = { input: { prompt: "Hi" }, output: { text: "Ho" }, events: [] as unknown[] };
const withEvent = (event: unknown) => ({ calls: [call, { ...call, events: [event] }] });

describe("fixtures are JSON files", () => {
  test("a folder, a file and a glob are loaded, by node", () => {
    const folder = loadFixtures(join(recordings, "workflow-abc/"));
    expect(Object.keys(folder)).toEqual(["task-agent", "verifier-agent"]);
    expect(folder["task-agent"]?.calls[0]?.output.usage).toEqual({ inputTokens: 150, outputTokens: 200 });
    expect(loadFixtures(join(recordings, "workflow-abc/task-agent.json"))).toEqual({ "task-agent": folder["task-agent"] });
    expect(loadFixtures(join(recordings, "**/*-agent.json"))).toEqual(folder);
    expect(loadFixtures(recordings)).toEqual(folder);
  });

  test("a glob names files as in a shell", async () => {
    const folder = await freshFolder();
    for (const file of ["a.json", "b.json", "b.txt", ".c.json", "d/a.json", "d/e/b.json", "d/e/[b].json", ".f/a.json", "g.json/a"]) {
      await mkdir(dirname(join(folder, file)), { recursive: true });
      await writeFile(join(folder, file), "{}");
    }
    await symlink(join(folder, "d"), join(folder, "d/loop"), "junction");
    const found = (glob: string) => filesOfGlob(join(folder, glob)).map((file) => relative(folder, file).replaceAll("\\", "/"));
    expect(found("*.json")).toEqual(["a.json", "b.json"]);
    expect(found("?.txt")).toEqual(["b.txt"]);
    expect(found(".*.json")).toEqual([".c.json"]);
    expect(found("[!a].json")).toEqual(["b.json"]);
    expect(found("[a-b].{json,txt}")).toEqual(["a.json", "b.json", "b.txt"]);
    expect(found("{d/{a,e/b},x}.json")).toEqual(["d/a.json", "d/e/b.json"]);
    expect(found("**/a.json")).toEqual(["a.json", "d/a.json"]);
    expect(found("**/**/e/*")).toEqual(["d/e/[b].json", "d/e/b.json"]);
    expect(found("d/**")).toEqual(["d/a.json", "d/e/[b].json", "d/e/b.json"]);
    expect(found("d/*/[[]b].json")).toEqual(["d/e/[b].json"]);
    expect(found("d/loop/a.json")).toEqual(["d/loop/a.json"]);
    expect(found("{a}.json")).toEqual([]);
    expect(found("a.json/b")).toEqual([]);
    expect(() => found("[z-a].json")).toThrow(/brackets/);
  });

  test("a byte order mark is no part of it, and a path that can't be looked at is told", async () => {
    const folder = await folderOf({ "a.json": `\ufeff${JSON.stringify({ calls: [call] })}` });
    expect(loadFixtures(folder)["a"]?.calls).toEqual([call]);
    await failure((async () => loadFixtures("x".repeat(300)))(), "io");
  });

  test("what isn't right is told with its file, its place, and what to do", async () => {
    expect(await refused({ "a.json": { call: [] } }, "invalid_input")).toBe(
      'the fixture /a.json isn\'t right: the file has no "calls"; add it: the calls of the node, in order',
    );
    const usage = { calls: [{ ...call, output: { text: "x", usage: { inputTokens: "150", outputTokens: 1 } } }] };
    expect(await refused({ "a.json": usage }, "invalid_input")).toContain(
      '/a.json isn\'t right: calls[0].output.usage.inputTokens is "150"; make it tokens read',
    );
    expect(await refused({ "a.json": withEvent({ type: "agent:talk" }) }, "invalid_input")).toContain(
      'calls[1].events[0].type is "agent:talk"; make it one of agent:start, ',
    );
    expect(await refused({ "a.json": withEvent({ type: "agent:text" }) }, "invalid_input")).toContain(
      'calls[1].events[0] has no "content"; add it: the text',
    );
    expect(await refused({ "a.json": withEvent({ type: "agent:text:delta", content: "", tokenCount: -1 }) }, "invalid_input"))
      .toContain("tokenCount is -1, under 0");
    expect(await refused({ "a.json": '{"calls": [' }, "invalid_input")).toContain("/a.json is no JSON");
    expect(await refused({}, "not_found")).toContain("recordFixtures");
  });

  test("two files for one node are refused", async () => {
    const folder = await folderOf({ "a.json": { calls: [] } });
    await mkdir(join(folder, "other"));
    await writeFile(join(folder, "other", "a.json"), '{"calls":[]}');
    const error = await failure((async () => loadFixtures(folder))(), "ambiguous");
    expect(error.message).toContain('"a"');
  });

  test("the published schema says the same as the check", async () => {
    // The prompt's two types are one keyword, which ajv warns of in its strict mode.
    const ajv = new Ajv2020({ allowUnionTypes: true, strictTypes: false });
    const validate = ajv.compile(fixtureSchema);
    const events = [
      { type: "agent:start", sessionId: "s", prompt: [{ role: "user" }] },
      { type: "agent:thinking", content: "x", tokenCount: 1 },
      { type: "agent:tool", toolName: "t" },
      { type: "agent:error", errorType: "e", message: "m" },
      { type: "agent:complete", result: "", usage: { inputTokens: 1, outputTokens: 2 }, modelUsage: { m: { inputTokens: 1, outputTokens: 1 } } },
    ];
    const right: unknown[] = [...Object.values(loadFixtures(recordings)), ...events.map(withEvent), { calls: [], more: 1 }];
    const wrong: unknown[] = [
      null,
      [],
      {},
      { calls: {} },
      { calls: [null] },
      { calls: [{ ...call, input: {} }] },
      { calls: [{ ...call, input: { prompt: 1 } }] },
      { calls: [{ ...call, input: { prompt: ["x"] } }] },
      { calls: [{ ...call, output: { text: "", durationMs: -1 } }] },
      withEvent({}),
      withEvent({ type: "agent:start" }),
      withEvent({ type: "agent:start", sessionId: "s", prompt: 1 }),
      withEvent({ type: "agent:tool" }),
      withEvent({ type: "agent:error", errorType: "e" }),
      withEvent({ type: "agent:complete", result: "", numTurns: 1.5 }),
      withEvent({ type: "agent:complete", result: "", modelUsage: { m: { inputTokens: 1 } } }),
    ];
    for (const value of right) {
      expect(validate(value), JSON.stringify(value)).toBe(true);
      expect(() => loadOne(value)).not.toThrow();
    }
    for (const value of wrong) {
      expect(validate(value), JSON.stringify(value)).toBe(false);
      await expect(loadOne(value), JSON.stringify(value)).rejects.toThrow("isn't right");
    }
  });
});

async function loadOne(value: unknown): Promise<Fixture | undefined> {
  return loadFixtures(await folderOf({ "a.json": value }))["a"];
}
