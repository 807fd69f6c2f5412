// When a fork was made: its record says it, but in an export, which has no time of that, its session.

import { setTimeout as sleep } from "node:timers/promises";

import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import { durationOf, familyOf } from "../src/worker/family.js";
import type { LogIndex } from "../src/worker/index.js";
import type { Lane } from "../src/worker/model.js";
import { indexed } from "./indexed.js";

/** A run that ended, a fork that was made of it a moment later, and what was recorded there another moment later. */
async function forked(isUsed: boolean) {
  const store = await openInMemory();
  const run = await store.runs.start({ session: { title: "Source" }, agentName: "coder", messages: [{ role: "user", content: "Go." }] });
  await run.recordMessage({ role: "assistant", content: "Done." });
  await run.complete();
  await sleep(30);
  const copy = await store.copySession(run.run.sessionId, { upToSequence: 1, title: "Fork" });
  const id = copy.instances[0]?.instance.id ?? "";
  if (isUsed) {
    await sleep(30);
    const again = await store.runs.start({ instanceId: id });
    await again.recordMessage({ role: "assistant", content: "Otherwise." });
    await again.complete();
  }
  const pieces: Buffer[] = [];
  for await (const piece of store.export()) pieces.push(Buffer.from(piece));
  return { store, id, text: Buffer.concat(pieces).toString() };
}

async function imported(text: string) {
  const store = await openInMemory();
  await store.import(new Blob([text]));
  const index = await indexed(store, true);
  await store.close();
  return index;
}

const timesOf = (index: LogIndex, id: string) => {
  const lane = index.laneOf(id) as Lane;
  return { lane, made: index.rows.time.at(lane.forkRow), moment: familyOf(index, lane).rank[lane.forkRow], session: index.sessions.get(lane.sessionId ?? "") };
};

test.each([true, false])("a fork was made in its export when its session was, with events of its own: %s", async (isUsed) => {
  const { store, id, text } = await forked(isUsed);
  const there = timesOf(await indexed(store), id);
  const here = timesOf(await imported(text), id);
  await store.close();
  expect(here.made).toBe(here.session?.createdAt);
  expect(here.made).toBe(there.session?.createdAt);
  expect(here.moment).toBe(there.moment);
  expect(durationOf(here.lane)).toBe(isUsed ? there.lane.lastTime - here.made : undefined);
});

test("a fork whose session doesn't say when it was made counts from what it has of its own", async () => {
  const { store, id, text } = await forked(true);
  await store.close();
  const bare = text.replace(/("copied_from":"[^"]*","created_at_ms":)\d+/, "$10").replace(/,"crc":\d+/, "");
  expect(bare).toMatch(/"copied_from":"[^"]*","created_at_ms":0/);
  const index = await imported(bare);
  const { lane, made } = timesOf(index, id);
  const begun = index.runs[lane.runs[0] as number]?.createdAt as number;
  expect(made).toBe(begun);
  expect(durationOf(lane)).toBe(lane.lastTime - begun);
});
