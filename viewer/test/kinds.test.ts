// Every kind of record that the model has, as core/model/src/kinds.rs lists them.

import { readFileSync } from "node:fs";

import { type HeadsPage, openInMemory } from "runlog";
import { expect, test } from "vitest";

import { eventText } from "../src/worker/content.js";
import { LogIndex } from "../src/worker/index.js";
import { kindName, typeOf } from "../src/worker/kinds.js";
import { indexed } from "./indexed.js";

const listed = readFileSync(new URL("../../core/model/src/kinds.rs", import.meta.url), "utf8");
const kinds = Array.from(listed.matchAll(/^ {4}([A-Z_]+) = (\d+),$/gm), ([, name, byte]) => [Number(byte), name as string] as const);
/** Those that aren't heads, but records of their own. */
const others = kinds.filter(([byte, name]) => byte > 5 && !name.startsWith("RUN_SNAPSHOT"));

const NOTHING = { count: 0, streamIds: [], toolNames: [], callFlags: new Uint8Array() } as unknown as HeadsPage["events"];
const SESSION = "0198c7e0-0000-7000-8000-000000000001";

/** The rows of an index that takes in records with these contents. */
function rowsOf(...records: [kind: number, json: object][]): LogIndex {
  const index = new LogIndex();
  const given = records.map(([kind, json], at) => ({ position: at + 1, sequence: at + 1, timeMs: 1, kind, redacted: false, meta: new Uint8Array(), payload: new TextEncoder().encode(JSON.stringify(json)), stream: SESSION }));
  index.add({ events: NOTHING, others: given, next: 0 } as unknown as HeadsPage);
  return index;
}

test("the list of kinds is read", () => {
  expect(kinds.length).toBeGreaterThan(40);
  expect(kinds).toContainEqual([36, "RUN_DESCRIBED"]);
});

test.each(others)("kind %i, %s, has a name and a type where it has a row", (kind) => {
  if (rowsOf([kind, { id: SESSION }]).rows.length === 0) return;
  expect(kindName(kind)).not.toMatch(/^kind /);
  expect(typeOf(kind)).not.toBe("other");
});

test("records of catalogs have no rows, and those of runs, chats and flows have", () => {
  const isOfCatalog = /^(SESSION_|INSTANCE_|CATALOG_|AGENT_|LISTED_|RUN_CATALOG_|CHAT_(UPDATED|TOUCHED|REQUEST|REORDERED)|FLOW_CATALOG_)/;
  for (const [kind, name] of others) expect([name, rowsOf([kind, {}]).rows.length]).toEqual([name, isOfCatalog.test(name) ? 0 : 1]);
});

test("a session that was restored is no longer deleted", () => {
  const isDeleted = (...records: [number, object][]) => rowsOf(...records).sessions.get(SESSION)?.deleted;
  const made: [number, object] = [16, { id: SESSION }];
  expect(isDeleted(made, [18, { id: SESSION }])).toBe(true);
  expect(isDeleted(made, [18, { id: SESSION }], [20, { id: SESSION }])).toBe(false);
});

test("what a run is described with is an event of its agent", async () => {
  const store = await openInMemory();
  const { instance } = await store.startSession({}, "one");
  const run = await store.runs.start({ instanceId: instance.id });
  await run.describe({ usage: { inputTokens: 812 } });
  const index = await indexed(store);
  const found = Array.from({ length: index.rows.length }, (_, row) => row).filter((row) => index.rows.kind.at(row) === 36);
  expect(found.map((row) => index.lanes[index.rows.lane.at(row)]?.id)).toEqual([instance.id]);
  expect([kindName(36), typeOf(36)]).toEqual(["run described", "run"]);
  await store.close();
});

test("commands are told by what they say, and those that were taken are counted in words", () => {
  const command = (command: unknown) => eventText(101, { type: "command:received", runId: "r", timestamp: 1, command });
  expect(command({ type: "send", runId: "r", message: "Leave the tests\nalone." })).toBe("send · Leave the tests alone.");
  expect(command({ type: "resume" })).toBe("resume");
  expect(command("none")).toContain("command:received");
  expect([1, 3].map((count) => eventText(50, { count, at_ms: 1 }))).toEqual(["1 command", "3 commands"]);
});

test("the states of a flow are told by how far it has come", () => {
  const state = (more: object) => eventText(129, { status: "running", outputs: {}, state: {}, nodeStatus: {}, edgeStatus: {}, loopCounters: {}, inbox: [], ...more });
  expect(state({})).toBe("running");
  expect(state({ nodeStatus: { plan: "running" } })).toBe("0 of 1 done · running: plan");
  expect(state({ nodeStatus: { plan: "done", write: "running", review: "pending" }, inbox: [{ type: "send" }] })).toBe("1 of 3 done · running: write · 1 command waits");
  expect(state({ status: "failed", nodeStatus: { plan: "failed" }, inbox: [1, 2] })).toBe("failed · 0 of 1 done · failed: plan · 2 commands wait");
  expect(eventText(129, { todo: ["a"] })).toBe('{ "todo": [ "a" ] }');
});

test("what a chat has is told by what it says, not by its ids", () => {
  const said = { message_id: "m", chat_id: "c", role: "assistant", type: "text", props: { content: "To the sea." } };
  expect(eventText(64, said)).toBe("assistant · To the sea.");
  expect(eventText(64, { ...said, props: { url: "https://example.com" } })).toContain("assistant · {");
  expect(eventText(65, { message_id: "m", updates: { props: { content: "To the hills." } } })).toBe("props: To the hills.");
  expect(eventText(65, { message_id: "m", updates: { type: "page", request_id: "r" } })).toBe("type, request_id");
  expect([1, 2].map((count) => eventText(66, { message_ids: Array(count).fill("m"), at: "" }))).toEqual(["1 message", "2 messages"]);
  expect(eventText(67, { step_id: "s", type: "llm", status: "failed", error: "no such place" })).toBe("llm · failed · no such place");
  expect(eventText(71, { step: { step_id: "s", type: "tool", status: "running" } })).toBe("tool · running");
  expect(eventText(68, { step_id: "s", updates: { status: "failed", error: "no such place" } })).toBe("failed · no such place");
  expect(eventText(68, { step_id: "s", updates: { output: { a: 1 } } })).toBe("output");
  expect(eventText(70, { request_id: "r", chat_id: "c", assistant_id: "helper", status: "failed", error: "no such place" })).toBe("helper · failed · no such place");
});

test("a step or a request of a chat that failed is marked as failed, and a step is counted", () => {
  const made: [number, object][] = [[16, { id: SESSION }], [19, { id: "one", session_id: SESSION }]];
  const failed = { status: "failed", error: "no such place" };
  const index = rowsOf(...made, [67, { type: "llm", ...failed }], [70, failed], [71, { step: { type: "llm", ...failed } }], [68, { updates: failed }], [67, { type: "llm", status: "completed" }], [64, { role: "user", ...failed }]);
  expect(Array.from({ length: index.rows.length }, (_, row) => index.rows.flags.at(row) & 1)).toEqual([1, 1, 1, 1, 0, 0]);
  expect(index.lanes.map(({ name, errors, chat }) => [name, errors, chat?.standing?.status])).toEqual([["agent", 0, undefined], ["chat", 3, "failed"]]);
});
