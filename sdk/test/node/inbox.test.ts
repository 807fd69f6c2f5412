import { type ReceivedCommand, open } from "#runlog";
import { expect, test, vi } from "vitest";

import { Channel } from "../../src/binding.js";
import { freshFolder } from "../places.node.js";

const command = (run: number, text: string) => ({ type: "send" as const, runId: `r${run}`, message: text });

test("a call to a flow answers what it changed of the inbox, however much waits in it", async () => {
  await using store = await open(await freshFolder());
  const flow = await store.flows.create();
  const call = vi.spyOn(Channel.prototype, "call");
  const large = "x".repeat(10_000);
  const calls = [];
  for (let number = 0; number < 50; number++) {
    await flow.command(command(1, `${number} ${large}`));
    await flow.refresh();
    await flow.saveSnapshot();
  }
  for (const { value } of call.mock.results) calls.push((await value).json?.length ?? 0);
  call.mockRestore();
  expect(Math.max(...calls)).toBeLessThan(2 * large.length);
  expect(flow.state.inbox).toHaveLength(50);
  await flow.takeInbox("r1");
  expect(flow.state.inbox).toEqual([]);
});

test("the inbox is what was sent and not taken, in its order, though nothing is awaited", async () => {
  await using store = await open(await freshFolder());
  const flow = await store.flows.create();
  const sent = new Map<string, ReceivedCommand[]>();
  const taken = new Map<string, ReceivedCommand[]>();
  const all: Promise<unknown>[] = [];
  for (let number = 0; number < 300; number++) {
    const one = command(number % 3, `${number}`);
    sent.set(one.runId, [...(sent.get(one.runId) ?? []), one]);
    all.push(flow.command(one));
    if (number % 7 === 0) all.push(flow.saveSnapshot());
    if (number % 11 === 0) all.push(flow.refresh());
    if (number % 13 === 0) {
      const run = `r${number % 2}`;
      all.push(flow.takeInbox(run).then((it) => taken.set(run, [...(taken.get(run) ?? []), ...it])));
    }
  }
  await Promise.all(all);
  for (const [run, commands] of sent) {
    const left = flow.state.inbox.filter(({ runId }) => runId === run);
    expect([...(taken.get(run) ?? []), ...left]).toEqual(commands);
  }
  const shown = flow.state.inbox;
  await flow.refresh();
  expect(flow.state.inbox).toEqual(shown);
});
