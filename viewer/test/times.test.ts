// What was imported has the times at which it happened, not that of the import.

import { type Store, openInMemory } from "runlog";
import { expect, test } from "vitest";

import type { LogIndex } from "../src/worker/index.js";
import { kindName } from "../src/worker/kinds.js";
import type { Lane } from "../src/worker/model.js";
import { indexed } from "./indexed.js";
import { exportOf } from "./page.js";

const says = (role: "user" | "assistant", content: string) => ({ role, type: "text", props: { content } });

/** Waits until the clock has gone on. */
async function later(): Promise<number> {
  const before = Date.now();
  while (Date.now() <= before) await new Promise((resolve) => setTimeout(resolve, 1));
  return Date.now();
}

/** What is known of a store after an import of its export, and when that began. */
async function imported(store: Store): Promise<{ index: LogIndex; begun: number }> {
  const { text } = await exportOf(store);
  const begun = await later();
  const copy = await openInMemory();
  await copy.import(new Blob([text.toString()]));
  const index = await indexed(copy, true);
  await copy.close();
  return { index, begun };
}

/** The events of a lane, with their times. */
const timesOf = ({ rows }: LogIndex, lane: Lane) =>
  Array.from({ length: rows.length }, (_, row) => row)
    .filter((row) => rows.lane.at(row) === lane.index)
    .map((row) => [kindName(rows.kind.at(row)), rows.time.at(row)] as const);

/** What happened at the import or behind it, as far as its times tell. */
const lateIn = (index: LogIndex, begun: number) => index.lanes.flatMap((lane) => [...timesOf(index, lane), ["begins", lane.firstTime] as const, ["ends", lane.lastTime] as const].filter(([, time]) => time >= begun));

test("all that was done in a chat has its own time in an import, also what doesn't say it", async () => {
  const store = await openInMemory();
  const { chatId } = await store.chats.create({ assistantId: "helper", title: "Trip" });
  const saved = await store.chats.saveMessages(chatId, [says("user", "a secret"), says("user", "two"), says("user", "three")]);
  const idOf = (at: number) => saved[at]?.messageId ?? "";
  const request = await store.chats.beginRequest(chatId, { assistantId: "helper", message: { type: "text", props: { content: "Where to?" } } });
  const answer = await request.send(says("assistant", "To"));
  await request.flush();
  await later();
  await request.append(answer, " the sea.");
  await request.flush();
  await request.finish("completed");
  await store.chats.updateMessage(idOf(1), { props: { content: "2" } });
  await store.chats.deleteMessages(chatId, [idOf(2)]);
  const copy = (await store.copySession(chatId)).session;
  const { id } = copy;
  await later();
  await store.chats.saveMessages(id, [says("assistant", "there")]);
  await store.chats.redactMessage(idOf(0), "a secret was said");
  const [said, piece] = [(await store.chats.getMessages(chatId))[2], saved[0]];
  const { index, begun } = await imported(store);
  expect(lateIn(index, begun)).toEqual([]);
  const lane = index.laneOf(`${chatId}/chat`) as Lane;
  const times = timesOf(index, lane);
  expect(times.slice(0, 7).map(([kind]) => kind)).toEqual(["chat message", "chat message", "chat message", "chat message", "chat request", "chat message", "message changed"]);
  // One that was redacted happened at the time of the next one, as nothing came before it.
  expect([times[0]?.[1], lane.firstTime]).toEqual([piece?.createdAtMs, piece?.createdAtMs]);
  expect(times[6]?.[1]).toBeGreaterThan(said?.createdAtMs ?? Infinity);
  const made = timesOf(index, index.laneOf(`${id}/chat`) as Lane);
  expect(made.slice(0, 2)).toEqual([["fork", copy.createdAtMs], ["chat copied", copy.createdAtMs]]);
});

test.each([true, false])("what a flow did has its own time in an import, whether its events say it: %s", async (says) => {
  const store = await openInMemory();
  const timestamp = says ? { timestamp: Date.now() - 5000.5 } : {};
  const flow = await store.flows.create();
  await flow.record({ type: "node:started", nodeId: "n", ...timestamp });
  await flow.finishNode("n", { text: "words" });
  const run = await store.runs.start({ session: { title: "Source" }, agentName: "coder" });
  const own = await store.flows.create(run.id);
  await own.record({ type: "node:started", nodeId: "n", ...timestamp });
  await own.finishNode("n", { text: "words" });
  await run.complete();
  const { index, begun } = await imported(store);
  expect(index.lanes).toHaveLength(2);
  expect(lateIn(index, begun)).toEqual([]);
  if (says) expect(index.laneOf(flow.runId)?.firstTime).toBe(timestamp.timestamp);
});
