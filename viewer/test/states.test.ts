// States of flows, which are saved as differences, are shown whole.

import { type FlowRun, type Store, openInMemory } from "runlog";
import { expect, test } from "vitest";

import { crc32 } from "../src/worker/crc.js";
import { familyOf } from "../src/worker/family.js";
import type { LogIndex } from "../src/worker/index.js";
import { Payloads } from "../src/worker/payloads.js";
import { snapshotsOf } from "../src/worker/snapshots.js";
import type { Source } from "../src/worker/source.js";
import { wholeState } from "../src/worker/states.js";
import { statusOf } from "../src/worker/tree.js";
import { indexed } from "./indexed.js";

const words = (at: number): string => Array.from({ length: 60 }, (_, word) => `word ${at}-${word}, é`).join(" ");

function payloadsOf(store: Store, index: LogIndex): Payloads {
  return new Payloads(store as unknown as Source, (stream, sequence, before) => index.snapshotAt(stream, sequence, before));
}

/** A flow of so many nodes, and the JSON of its state after each. */
async function worked(flow: FlowRun, nodes: number): Promise<string[]> {
  const states: string[] = [];
  for (let node = 0; node < nodes; node++) {
    await flow.record({ type: "node:started", nodeId: `node-${node}` });
    if (node === nodes - 1) flow.state.status = "completed";
    await flow.finishNode(`node-${node}`, { text: words(node) });
    states.push(JSON.stringify(flow.state));
  }
  return states;
}

test("each state is shown whole, what changed beside it, and the status that was saved last", async () => {
  const store = await openInMemory();
  const flow = await store.flows.create();
  const states = await worked(flow, 40);
  const index = await indexed(store);
  const payloads = payloadsOf(store, index);
  const lane = index.laneOf(flow.runId);
  if (lane === undefined) throw new Error("the flow has no lane");
  const saved = lane.snapshots.map((row) => index.rows.position.at(row));
  const stored = (await store.record(saved.at(-1) as number))?.payload.length as number;
  expect(stored, "it is saved as a difference").toBeLessThan((states.at(-1) as string).length / 4);
  for (const [at, position] of saved.slice(-states.length).entries()) {
    expect((await payloads.at(position))?.json, `state ${at}`).toEqual(JSON.parse(states[at] as string));
  }
  expect(statusOf(index, lane)).toBe("completed");
  const view = await snapshotsOf(index, familyOf(index, lane), payloads, lane, Infinity, undefined);
  expect(view.changes.map(({ path, kind }) => `${kind} ${path}`)).toEqual(["changed /status", "added /outputs/node-39", "added /nodeStatus/node-39"]);
});

test("flows of two runs of one agent have their own states, though these have the same sequences", async () => {
  const store = await openInMemory();
  const first = await store.runs.start({ session: {}, agentName: "coder" });
  const second = await store.runs.start({ instanceId: first.run.instanceId, concurrent: true });
  const flows = [await store.flows.create(first.id), await store.flows.create(second.id)];
  const states: string[] = [];
  for (let node = 0; node < 10; node++) {
    for (const [at, flow] of flows.entries()) {
      await flow.record({ type: "node:started", nodeId: "n" });
      await flow.finishNode(`node-${node}`, { text: words(node * 2 + at) });
      states.push(JSON.stringify(flow.state));
    }
  }
  const index = await indexed(store);
  const payloads = payloadsOf(store, index);
  const lane = index.laneOf(first.run.instanceId);
  const saved = (lane?.snapshots ?? []).map((row) => index.rows.position.at(row)).slice(-states.length);
  for (const [at, position] of saved.entries()) expect((await payloads.at(position))?.json).toEqual(JSON.parse(states[at] as string));
});

test("what a hostile file says of a difference is no state, and takes no time", async () => {
  const saved = (sequence: number, json: string, kind = 110) => ({ sequence, meta: Uint8Array.of(1, kind), payload: new TextEncoder().encode(json) });
  const whole = saved(1, '{"a":"é"}', 111);
  const crc = Number.parseInt(crc32(whole.payload), 16);
  const read = async (json: string) => wholeState(saved(2, json), async () => whole);
  const from = `"from":{"sequence":1,"crc":${crc}}`;
  expect(new TextDecoder().decode(await read(`{${from},"diff":[[0,5],"\\"b\\"",[9,1]]}`))).toBe('{"a":"b"}');
  for (const json of ["", "[]", "null", `{${from}}`, `{${from},"diff":[[0]]}`, `{${from},"diff":[[0,99]]}`, `{${from},"diff":[[-1,2]]}`, `{${from},"diff":[[1e300,1]]}`, `{"from":{"sequence":2,"crc":${crc}},"diff":[]}`, `{"from":{"sequence":1,"crc":1},"diff":[]}`]) {
    expect(await read(json), json).toBeUndefined();
  }
  // Each differs from the one before it.
  const chain = async (sequence: number) => saved(sequence, `{"from":{"sequence":${sequence - 1},"crc":1},"diff":[]}`);
  expect(await wholeState(await chain(1_000_000), chain)).toBeUndefined();
});
