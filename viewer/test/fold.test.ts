// The heart of it: at any point the conversation is what the store said then, through truncations and forks.

import { roundDuration } from "../src/page/format.js";
import { RawJson, type Store, openInMemory } from "runlog";
import { expect, test } from "vitest";

import { indexed } from "./indexed.js";

import { birthOf, isForgotten, linesOf } from "../src/worker/conversation.js";
import { detailsOf } from "../src/worker/details.js";
import { familyOf } from "../src/worker/family.js";
import { compare } from "../src/worker/compare.js";
import { Flag, type Lane } from "../src/worker/model.js";
import { nextMoment } from "../src/worker/moments.js";
import { Payloads } from "../src/worker/payloads.js";
import { bareRow, withPayload } from "../src/worker/rows.js";
import type { Source } from "../src/worker/source.js";
import { timelineOf } from "../src/worker/timeline.js";
import { Tree, statusOf } from "../src/worker/tree.js";

/** Numbers that are the same every time. */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

interface Seen {
  instance: string;
  /** The last position of the log then. */
  position: number;
  sequences: number[];
}

async function lived(store: Store, seed: number): Promise<Seen[]> {
  const random = numbers(seed);
  const { session, instance } = await store.startSession({ title: "Random" }, "one");
  const sessions = [{ id: session.id, instance: instance.id }];
  const seen: Seen[] = [];
  for (let turn = 0; turn < 60; turn++) {
    const { id, instance } = sessions[random(sessions.length)] as (typeof sessions)[number];
    const context = await store.context(instance);
    const last = await context.getLastSequence();
    const choice = random(10);
    if (choice < 5) await context.appendMessage({ role: "user", content: `turn ${turn}` });
    else if (choice < 7) {
      await context.appendMessage({ role: "assistant", content: `turn ${turn}`, tool_calls: [{ id: `c${turn}`, type: "function", function: { name: "run", arguments: "{}" } }] });
    } else if (choice === 7) {
      // A copy may answer it too, and once more whoever took its result back.
      const [call] = await context.danglingToolCalls();
      if (call !== undefined) await context.appendMessage({ role: "tool", tool_call_id: call.id ?? "", content: "done" });
    } else if (choice < 9) await context.truncateAfterSequence(random(last + 1));
    else if (sessions.length < 5) {
      const copy = await store.copySession(id, { upToSequence: random(last + 1), title: `copy ${turn}` });
      sessions.push({ id: copy.session.id, instance: copy.instances[0]?.instance.id ?? "" });
    }
    for (const { instance } of sessions) {
      const events = await store.contexts.getEvents(instance);
      seen.push({ instance, position: await store.lastPosition(), sequences: events.map((event) => event.position) });
    }
  }
  return seen;
}

test.each([1, 2, 3, 4, 5, 6, 7, 8])("at every point the conversation is what the store said then, life %i", async (seed) => {
  const store = await openInMemory();
  const seen = await lived(store, seed);
  const index = await indexed(store);
  await store.close();
  for (const { instance, position, sequences } of seen) {
    const lane = index.laneOf(instance);
    // One that was copied from nothing has no event yet.
    if (lane === undefined) {
      expect(sequences).toEqual([]);
      continue;
    }
    const family = familyOf(index, lane);
    let moment = 0;
    while (moment < family.length && index.rows.position.at(family.order[moment] as number) <= position) moment += 1;
    const lines = linesOf(index, family, lane, moment, () => true, new Set());
    const shown: number[] = [];
    for (let at = 0; at < lines.until(moment); at++) {
      const entry = lines.items[at] as number;
      if (isForgotten(family, lane, entry, moment)) continue;
      const row = lane.entries.at(entry);
      shown.push(index.rows.position.at(row));
      // A result is shown with its call, as long as it is there.
      const answer = index.rows.kind.at(row) === 4 ? index.answerOf(row, lane, { rank: family.rank, moment }) : undefined;
      if (answer !== undefined) shown.push(index.rows.position.at(answer.row));
    }
    expect({ position, shown: shown.toSorted((a, b) => a - b) }).toEqual({ position, shown: sequences });
  }
});

test.each([1, 2, 3, 4, 5, 6])("what came later in a conversation is later, whatever the clocks say, life %i", async (seed) => {
  const random = numbers(seed);
  const store = await openInMemory();
  const { session, instance } = await store.startSession({ createdAtMs: 0 }, "one");
  const sessions = [{ id: session.id, instance: instance.id, now: 1_000_000 }];
  for (let turn = 0; turn < 80; turn++) {
    const one = sessions[random(sessions.length)] as (typeof sessions)[number];
    const context = await store.context(one.instance);
    // One event a day ahead, clocks that go back, and those of other machines.
    const at = random(10) === 0 ? one.now + 86_400_000 : (one.now += random(8) === 0 ? -3_600_000 : random(5000));
    if (random(9) === 0) await context.truncateAfterSequence(random((await context.getLastSequence()) + 1));
    else await context.appendMessage({ role: "user", content: `turn ${turn}` }, { event: { createdAtMs: Math.max(1, at) } });
    if (random(9) > 0 || sessions.length > 5) continue;
    const copy = await store.copySession(one.id, { title: `copy ${turn}` });
    sessions.push({ id: copy.session.id, instance: copy.instances[0]?.instance.id ?? "", now: one.now - random(2) * 7_200_000 });
  }
  const index = await indexed(store);
  await store.close();
  for (const lane of index.lanes) {
    const family = familyOf(index, lane);
    const births = Array.from({ length: lane.entries.length }, (_, entry) => birthOf(family, lane, entry));
    expect(births).toEqual(births.toSorted((a, b) => a - b));
    for (let moment = 0; moment <= family.length; moment++) {
      const lines = linesOf(index, family, lane, moment, () => true, new Set());
      expect(Array.from(lines.items.subarray(0, lines.until(moment)))).toEqual(births.flatMap((birth, entry) => (birth < moment ? [entry] : [])));
    }
    // Playing goes on with each of them: never back, and none without end.
    expect(Array.from(family.folded)).toEqual(Array.from(family.folded).toSorted((a, b) => a - b));
  }
});

test("agents of one name that one agent spawned have numbers, and others of it have not", async () => {
  const store = await openInMemory();
  const { session, instance } = await store.startSession({}, "lead");
  for (const agentName of ["worker", "critic", "worker", "worker"]) await store.createInstance({ sessionId: session.id, agentName, parentInstanceId: instance.id });
  const other = await store.startSession({}, "lead");
  await store.createInstance({ sessionId: other.session.id, agentName: "worker", parentInstanceId: other.instance.id });
  const index = await indexed(store);
  expect(index.lanes.map((lane) => lane.name)).toEqual(["lead", "worker", "critic", "worker 2", "worker 3", "lead", "worker"]);
  await store.close();
});

test("one clock that is off moves its own event alone", async () => {
  const store = await openInMemory();
  const { instance } = await store.startSession({ createdAtMs: 0 }, "one");
  const context = await store.context(instance.id);
  for (const second of [1, 2, 3, 86_404, 5, 6, 7]) await context.appendMessage({ role: "user", content: "m" }, { event: { createdAtMs: second * 1000 } });
  const index = await indexed(store);
  await store.close();
  const lane = index.laneOf(instance.id);
  if (lane === undefined) throw new Error("the context has no lane");
  const family = familyOf(index, lane);
  expect(Array.from(family.folded)).toEqual([0, 1000, 2000, 4000, 4000, 5000, 6000]);
});

test("a copy of what was deleted stands by itself", async () => {
  const store = await openInMemory();
  const { session, instance } = await store.startSession({ title: "Original" }, "one");
  await (await store.context(instance.id)).appendMessage({ role: "user", content: "a" });
  const copy = await store.copySession(session.id, { title: "Copy" });
  const second = await store.copySession(copy.session.id, { title: "Copy of the copy" });
  const treeOf = async () => {
    const rows = new Tree(await indexed(store)).rows(0, 20).rows;
    return rows.map(({ kind, title, depth }) => [kind, title, depth]);
  };
  await store.deleteSession(session.id);
  expect(await treeOf()).toEqual([["session", "Copy", 0], ["agent", "Copy", 1], ["agent", "Copy of the copy", 2]]);
  await store.deleteSession(copy.session.id);
  expect(await treeOf()).toEqual([["session", "Copy of the copy", 0], ["agent", "Copy of the copy", 1]]);
  expect((await store.listSessions()).items.map(({ id }) => id)).toEqual([second.session.id]);
  await store.close();
});

test("failures that were truncated aren't counted, nor is a tool's argument that is called error", async () => {
  const store = await openInMemory();
  const { instance } = await store.startSession({}, "one");
  const context = await store.context(instance.id);
  await context.appendMessage({ role: "assistant", content: [{ type: "tool_use", id: "c", name: "run", input: {} }] });
  for (const [failed, errors] of [[true, 1], [false, 0], [true, 1]] as const) {
    await context.truncateAfterSequence(2);
    await context.appendMessage({ role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "x", is_error: failed }] });
    const lane = (await indexed(store)).laneOf(instance.id);
    expect(lane?.errors).toBe(errors);
  }
  const flow = await store.flows.create();
  const about = { nodeId: "n", runId: flow.runId, timestamp: 1, type: "agent:tool" as const, toolName: "lint", durationMs: 1 };
  await flow.record({ ...about, toolInput: { error: "the word that is looked for", say: "agent:error" }, toolOutput: "fine" });
  expect((await indexed(store)).laneOf(flow.runId)?.errors).toBe(0);
  await flow.record({ ...about, toolInput: {}, toolOutput: null, error: "no such file" });
  expect((await indexed(store)).laneOf(flow.runId)?.errors).toBe(1);
  await flow.close();
  await store.close();
});

test("what differs in an image, in thoughts or in a long number is another message", async () => {
  const store = await openInMemory();
  const made = async (data: string, thought: string, id: string) => {
    const { instance } = await store.startSession({}, "one");
    const context = await store.context(instance.id);
    await context.appendMessage({ role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data } }] });
    await context.appendMessage({ role: "assistant", content: [{ type: "thinking", thinking: thought, signature: "s" }, { type: "text", text: "So." }] });
    await context.appendMessage(RawJson.parse(`{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"get","input":{"id":${id}}}]}`));
    return instance.id;
  };
  const same = ["iVBORw0KGgo1", "a", "1234567890123456789"] as const;
  const [one, other, third] = [await made(...same), await made(...same), await made("iVBORw0KGgo2", "b", "1234567890123456790")];
  const index = await indexed(store);
  const payloads = new Payloads({ record: (position: number) => store.record(position) } as Source);
  const lane = (id: string) => index.laneOf(id) as Lane;
  expect(await compare(index, payloads, lane(one), lane(other), 9, true)).toMatchObject({ shared: 3 });
  const differing = await compare(index, payloads, lane(one), lane(third), 9, true);
  expect([differing.shared, differing.rows.map(({ kind }) => kind)]).toEqual([0, ["changed", "changed", "changed"]]);
  await store.close();
});

test("forks of forks of forks are shown, however many", async () => {
  const store = await openInMemory();
  const { session, instance } = await store.startSession({ title: "First" }, "one");
  await (await store.context(instance.id)).appendMessage({ role: "user", content: "a" });
  let { id } = session;
  for (let depth = 0; depth < 8000; depth++) ({ id } = (await store.copySession(id, { title: `${depth}` })).session);
  const index = await indexed(store);
  await store.close();
  const last = index.lanes.at(-1);
  if (last === undefined) throw new Error("there is no lane");
  const family = familyOf(index, last);
  expect([family.lanes.length, family.depths.at(-1)]).toEqual([8001, 8000]);
  expect(new Tree(index).rows(8000, 5).rows.map(({ depth }) => depth)).toEqual([8000, 8001]);
});

test("a call that much happens within is a bar in the middle of it", async () => {
  const store = await openInMemory();
  const { instance } = await store.startSession({ createdAtMs: 0 }, "one");
  const context = await store.context(instance.id);
  const at = (createdAtMs: number) => ({ event: { createdAtMs } });
  await context.appendMessage({ role: "assistant", content: [{ type: "tool_use", id: "c", name: "spawn", input: {} }] }, at(1000));
  for (let event = 1; event <= 200; event++) await context.appendMessage({ role: "user", content: "x" }, at(1000 + event * 100));
  await context.appendMessage({ role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "done" }] }, at(22_000));
  const index = await indexed(store);
  await store.close();
  const lane = index.laneOf(instance.id);
  if (lane === undefined) throw new Error("the context has no lane");
  const family = familyOf(index, lane);
  const bars = (from: number, to: number) => timelineOf(index, family, { width: 100, from, to, firstLane: 0, lanes: 1 }, () => false).bars.length / 5;
  expect([bars(0, 21_000), bars(10_000, 11_000), bars(20_500, 21_000)]).toEqual([1, 1, 1]);
});

test("what is said beside a result has a line of its own", async () => {
  const store = await openInMemory();
  const { instance } = await store.startSession({}, "one");
  const context = await store.context(instance.id);
  const call = (id: string) => ({ role: "assistant" as const, content: [{ type: "tool_use" as const, id, name: "ls", input: {} }] });
  await context.appendMessage(call("a"));
  await context.appendMessage({ role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "a.txt" }, { type: "text", text: "Stop now." }] });
  await context.appendMessage(call("b"));
  await context.appendMessage({ role: "user", content: [{ type: "tool_result", tool_use_id: "b", content: "b.txt" }] });
  const index = await indexed(store);
  const lane = index.laneOf(instance.id);
  if (lane === undefined) throw new Error("the context has no lane");
  const family = familyOf(index, lane);
  const lines = linesOf(index, family, lane, family.length, undefined, new Set());
  const shown = Array.from(lines.items, (entry) => lane.entries.at(entry));
  expect(shown.map((row) => index.rows.kind.at(row))).toEqual([4, 5, 4]);
  const payloads = new Payloads({ record: (position: number) => store.record(position) } as Source);
  const [, beside] = await Promise.all(shown.map((row) => withPayload(bareRow(index, family, row, family.length, lane), index, lane, payloads, true)));
  expect(beside).toMatchObject({ kind: "message", label: "user", type: "user", text: "Stop now." });
  const { parts } = await detailsOf(index, family, payloads, shown[1] as number, lane);
  expect(parts.map(({ id, text }) => [id, text])).toEqual([["text", "Stop now."], ["output", "a.txt"], ["json", ""]]);
  await store.close();
});

test("what is redacted after it was read is marked", async () => {
  const store = await openInMemory();
  const { instance } = await store.startSession({}, "one");
  const context = await store.context(instance.id);
  for (const content of ["a", "secret", "b", "secret too"]) await context.appendMessage({ role: "user", content });
  const index = await indexed(store);
  const before = await store.lastPosition();
  const events = await store.contexts.getEvents(instance.id);
  await store.streams.commit([1, 3].map((at) => ({ redact: events[at]?.position ?? 0, reason: "asked for" })));
  for await (const page of store.heads({ from: before + 1 })) index.add(page);
  const flags = events.map(({ position }) => index.rows.flags.at(index.rowAt(position)) & Flag.Redacted);
  expect(flags).toEqual([0, Flag.Redacted, 0, Flag.Redacted]);
  await store.close();
});

test("a flow by itself has its events, its snapshots and its status", async () => {
  const store = await openInMemory();
  const flow = await store.flows.create();
  await flow.startAgent("plan", "session-1");
  await flow.record({ type: "agent:error", nodeId: "plan", runId: "r1", timestamp: 1, errorType: "error_max_turns", message: "too many" });
  flow.state.status = "failed";
  await flow.finishNode("plan", { text: "no plan" });
  const index = await indexed(store);
  const { runId } = flow;
  await flow.close();
  await store.close();
  const lane = index.laneOf(runId);
  expect(lane && { name: lane.name, status: statusOf(index, lane), errors: lane.errors, snapshots: lane.snapshots.length }).toEqual({ name: "flow", status: "failed", errors: 1, snapshots: 3 });
  // In the tree as in the list of its events, states among them.
  const family = familyOf(index, lane as Lane);
  const [row] = new Tree(index).rows(0, 9).rows.filter(({ laneId }) => laneId === runId);
  const times = Array.from(family.order, (at) => index.rows.time.at(at));
  const durationMs = Math.max(...times) - Math.min(...times);
  expect(row && [row.count, row.durationMs ?? 0]).toEqual([family.length, durationMs]);
});

test("what failed in a flow is marked, found as an error, and says why", async () => {
  const store = await openInMemory();
  const flow = await store.flows.create();
  const about = { nodeId: "plan", runId: flow.runId, timestamp: 1 };
  await flow.record({ ...about, type: "agent:tool", toolName: "lint", toolInput: {}, toolOutput: null, durationMs: 1, error: "no such file" });
  await flow.record({ ...about, type: "node:error", error: { message: "no plan" } } as never);
  await flow.record({ ...about, type: "edge:skipped", note: "the word error, and \"error\"" } as never);
  await flow.record({ ...about, type: "flow:error", error: "the node plan failed" } as never);
  await flow.record({ ...about, type: "node:done", error: null, content: "fine" } as never);
  const index = await indexed(store);
  const lane = index.laneOf(flow.runId);
  if (lane === undefined) throw new Error("the flow has no lane");
  expect(lane.errors).toBe(3);
  const family = familyOf(index, lane);
  const payloads = new Payloads({ record: (position: number) => store.record(position) } as Source);
  const rows = await Promise.all(Array.from(family.order, (row) => withPayload(bareRow(index, family, row, family.length, undefined), index, undefined, payloads, false)));
  expect(rows.filter(({ status }) => status === "error").map(({ text }) => text)).toEqual(["agent:tool · plan · lint · no such file", "node:error · plan · no plan", "flow:error · plan · the node plan failed"]);
  const moments: number[] = [];
  for (let at: number | undefined = 0; (at = nextMoment(index, family, lane, at, "error", true)) !== undefined; ) moments.push(at);
  expect(moments).toEqual(rows.flatMap(({ status }, rank) => (status === "error" ? [rank + 1] : [])));
  await flow.close();
  await store.close();
});

test("from one error to the next, and where there is none nowhere", async () => {
  const store = await openInMemory();
  const { instance } = await store.startSession({}, "one");
  const context = await store.context(instance.id);
  await context.appendMessage({ role: "user", content: "Read the file." });
  await context.appendMessage({ role: "assistant", content: [{ type: "tool_use", id: "c", name: "read", input: {} }] });
  await context.appendMessage({ role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "no such file", is_error: true }] });
  await context.appendMessage({ role: "assistant", content: "It isn't there." });
  const index = await indexed(store);
  const lane = index.laneOf(instance.id);
  if (lane === undefined) throw new Error("the context has no lane");
  const family = familyOf(index, lane);
  const next = (at: number, what: "event" | "error", forward: boolean) => nextMoment(index, family, lane, at, what, forward);
  const end = family.length;
  const error = end - 1;
  expect([next(0, "error", true), next(end, "error", false)]).toEqual([error, error]);
  for (const [at, forward] of [[error, true], [end, true], [error, false], [0, false]] as const) expect(next(at, "error", forward)).toBeUndefined();
  expect([next(end, "event", true), next(0, "event", false)]).toEqual([end, 0]);
  await store.close();
});

test("the ruler tells times outside of folded gaps alone, in order", async () => {
  const store = await openInMemory();
  const { instance } = await store.startSession({ createdAtMs: 0 }, "one");
  const context = await store.context(instance.id);
  // A gap of a minute is as long as 200 ms, a tenth of the rest, between a second of work before it and one behind it.
  for (const createdAtMs of [1000, 1500, 2000, 62_000, 62_500, 63_000]) await context.appendMessage({ role: "user", content: `At ${createdAtMs}.` }, { event: { createdAtMs } });
  const index = await indexed(store);
  const lane = index.laneOf(instance.id);
  if (lane === undefined) throw new Error("the context has no lane");
  const family = familyOf(index, lane);
  expect(family.folds.map(({ ms }) => ms)).toEqual([60_000]);
  const { ticks } = timelineOf(index, family, { width: 2400, from: 0, to: family.duration, firstLane: 0, lanes: 1 }, () => false);
  const times = Array.from({ length: ticks.length / 2 }, (_, at) => ticks[at * 2 + 1] as number);
  // Round, in order, apart from each other, each where its time is.
  expect(times).toEqual([100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 61_000, 61_100, 61_200, 61_300, 61_400, 61_500, 61_600, 61_700, 61_800, 61_900, 62_000].filter((time) => times.includes(time)));
  expect(times.length).toBeGreaterThan(18);
  const pixels = Array.from({ length: times.length }, (_, at) => ticks[at * 2] as number);
  for (const [at, pixel] of pixels.entries()) {
    const time = times[at] as number;
    expect(pixel).toBeCloseTo(((time > 1000 ? time - 60_000 + 200 : time) * 2400) / 2200, 6);
  }
  const zoomed = timelineOf(index, family, { width: 900, from: 1150, to: 1250, firstLane: 0, lanes: 1 }, () => false).ticks;
  expect(Array.from(zoomed)).toEqual([450, 61_000, 540, 61_010, 630, 61_020, 720, 61_030, 810, 61_040].filter((_, at) => at < zoomed.length));
  expect(zoomed.length).toBeGreaterThan(6);
  await store.close();
});

test("a call that a fork shares is a bar in each lane that has a result of it, from when the lane was there", async () => {
  const store = await openInMemory();
  const { session, instance } = await store.startSession({ createdAtMs: 0 }, "one");
  const context = await store.context(instance.id);
  await context.appendMessage({ role: "assistant", content: [{ type: "tool_use", id: "c", name: "run", input: {} }] });
  const fork = async () => (await store.copySession(session.id, {})).instances[0]?.instance.id ?? "";
  const [failed, silent] = [await fork(), await fork()];
  await (await store.context(failed)).appendMessage({ role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "no", is_error: true }] });
  // What is copied from it has its result, and draws no bar of its own for it.
  const copy = (await store.copySession((await store.listSessions()).items.find(({ id }) => id !== session.id)?.id ?? "", {})).instances[0]?.instance.id;
  await context.appendMessage({ role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "yes" }] });
  const index = await indexed(store);
  await store.close();
  const lane = index.laneOf(instance.id);
  if (lane === undefined) throw new Error("the context has no lane");
  const family = familyOf(index, lane);
  const barsIn = (from: number, to: number) => {
    const { bars } = timelineOf(index, family, { width: 1000, from, to, firstLane: 0, lanes: family.lanes.length }, () => false);
    return Array.from({ length: bars.length / 5 }, (_, at) => Array.from(bars.subarray(at * 5, at * 5 + 5)));
  };
  const all = barsIn(0, family.duration);
  const scale = 1000 / family.duration;
  const pixelOf = (row: number) => (family.folded[family.rank[row] as number] as number) * scale;
  const call = lane.calls.get("c")?.[0] as number;
  const other = index.laneOf(failed);
  if (other === undefined) throw new Error("the fork has no lane");
  const lineOf = (id: string | undefined) => family.lanes.findIndex((lane) => lane.id === id);
  expect(all.toSorted((a, b) => (a[0] as number) - (b[0] as number))).toEqual([
    [lineOf(instance.id), pixelOf(call), pixelOf(index.rows.link.at(call)), 0, call],
    [lineOf(failed), pixelOf(other.forkRow), pixelOf(other.answers.get(call) as number), 1, call],
  ].toSorted((a, b) => (a[0] as number) - (b[0] as number)));
  for (const id of [silent, copy]) expect(lineOf(id)).toBeGreaterThan(0);
  // It is there also where neither of its ends is in view.
  const [start, end] = [all.at(-1)?.[1] as number, all.at(-1)?.[2] as number].map((pixel) => pixel / scale);
  const middle = ((start as number) + (end as number)) / 2;
  expect(barsIn(middle - 0.01, middle + 0.01).map(([line]) => line)).toContain(lineOf(failed));
  expect(barsIn((end as number) + 0.01, (end as number) + 0.02).map(([line]) => line)).not.toContain(lineOf(failed));
});

test("times of the ruler are as exact as they are apart", () => {
  const told = (step: number, ...times: number[]) => times.map((time) => roundDuration(time, step));
  expect(told(50, 50, 1150, 113_550)).toEqual(["50 ms", "1.15 s", "1 m 53.55 s"]);
  expect(told(2, 998, 1002, 3_600_002)).toEqual(["998 ms", "1.002 s", "1 h 0 m 0.002 s"]);
  expect(told(500, 500, 1000, 60_500)).toEqual(["500 ms", "1.0 s", "1 m 0.5 s"]);
  expect(told(5000, 5000, 60_000, 65_000)).toEqual(["5 s", "1 m", "1 m 05 s"]);
  expect(told(3_600_000, 3_600_000, 86_400_000, 90_000_000)).toEqual(["1 h", "1 d", "1 d 1 h"]);
});

test("what is redacted is in an import at the time of what came before it, not of the import", async () => {
  const store = await openInMemory();
  const { instance } = await store.startSession({ title: "Old" }, "one");
  const context = await store.context(instance.id);
  const first = Date.UTC(2020, 0, 1);
  for (let at = 0; at < 4; at++) await context.appendEvent("user_message", { role: "user", content: `turn ${at}` }, { event: { createdAtMs: first + at * 1000 } });
  await store.redact((await context.getEvents())[2]?.position ?? 0, "asked for");
  const pieces: Uint8Array[] = [];
  for await (const piece of store.export()) pieces.push(piece);
  const other = await openInMemory();
  await other.import(pieces);
  const index = await indexed(other);
  const lane = index.lanes.find(({ id }) => id === instance.id) as Lane;
  const times = [0, 1, 2, 3].map((at) => index.rows.time.at(lane.entries.at(at)) - first);
  expect(times.map((time) => Math.round(time / 1000))).toEqual([0, 1, 1, 3]);
  expect(lane.lastTime).toBe(first + 3000);
});
