// Tokens and costs are those of the messages; where none tells them, what runs and requests say of themselves.

import { openInMemory } from "runlog";
import { expect, test } from "vitest";

import type { Lane } from "../src/worker/model.js";
import { compare } from "../src/worker/compare.js";
import { Payloads } from "../src/worker/payloads.js";
import type { Source } from "../src/worker/source.js";
import { usageOf } from "../src/worker/usage.js";
import { indexed } from "./indexed.js";

test("what runs say that they took is told where no message tells it, all of it once", async () => {
  const store = await openInMemory();
  const first = await store.runs.start({ session: {}, agentName: "a" });
  await first.describe({ usage: { inputTokens: 1, outputTokens: 1 } });
  await first.describe({ usage: { inputTokens: 100, outputTokens: 20, cost: 0.5 } });
  await first.pause("later");
  const { recorder } = await store.runs.resume(first.id);
  await recorder.describe({ usage: { input_tokens: 10, output_tokens: 2, cost_usd: 0.25, note: "x", prompt_tokens: "many" } });
  const spoken = await store.runs.start({ session: {}, agentName: "b" });
  await spoken.recordMessage({ role: "user", content: "Hi." });
  await spoken.recordMessage({ role: "assistant", content: "Hi.", usage: { input_tokens: 7, output_tokens: 3 } });
  await spoken.describe({ usage: { inputTokens: 100, outputTokens: 20, cost: 0.5 } });
  const index = await indexed(store);
  const of = (run: { run: { instanceId: string } }) => usageOf(index.laneOf(run.run.instanceId) as Lane);
  expect(of(first)).toEqual({ tokens: 132, tokensIn: 110, tokensOut: 22, cost: 0.75 });
  expect(of(spoken)).toEqual({ tokens: 10, tokensIn: 7, tokensOut: 3, cost: 0.5 });
  await store.close();
});

test("where only all tokens are told, these are, and with parts their sum", async () => {
  const store = await openInMemory();
  const start = () => store.runs.start({ session: {}, agentName: "a" });
  const [total, both, resumed] = [await start(), await start(), await start()];
  await total.describe({ usage: { tokens: 812, cost: 0.0041 } });
  await both.describe({ usage: { input_tokens: 5, output_tokens: 2, total_tokens: 900 } });
  await resumed.describe({ usage: { totalTokens: 100 } });
  await resumed.pause("later");
  await (await store.runs.resume(resumed.id)).recorder.describe({ usage: { inputTokens: 10, outputTokens: 2 } });
  const index = await indexed(store);
  await store.close();
  const of = (run: { run: { instanceId: string } }) => usageOf(index.laneOf(run.run.instanceId) as Lane);
  expect(of(total)).toEqual({ tokens: 812, tokensIn: 0, tokensOut: 0, cost: 0.0041 });
  expect(of(both)).toMatchObject({ tokens: 7, tokensIn: 5, tokensOut: 2 });
  expect(of(resumed)).toMatchObject({ tokens: 112, tokensIn: 10, tokensOut: 2 });
});

test("why the newest request of a chat failed is told, until another is begun", async () => {
  const store = await openInMemory();
  const { chatId } = await store.chats.create({ assistantId: "helper" });
  const begin = async (id: string) => await store.chats.beginRequest(chatId, { requestId: id, assistantId: "helper", message: { type: "text", props: { content: "Hi." } } });
  const laneNow = async () => {
    const index = await indexed(store);
    const lane = index.lanes.find((one) => one.chat !== undefined) as Lane;
    const totals = (await compare(index, new Payloads(store as unknown as Source), lane, lane, 0, false)).left;
    return { error: lane.chat?.standing?.error, status: totals.status, errors: totals.errors, tokens: totals.tokens };
  };
  const request = await begin("r1");
  await request.describe({ usage: { inputTokens: 5, outputTokens: 6 } });
  await request.finish({ failed: new Error("no ticket") });
  await expect.poll(() => laneNow()).toMatchObject({ error: expect.stringContaining("no ticket"), status: "failed", errors: 1, tokens: 11 });
  await begin("r2");
  await expect.poll(() => laneNow()).toMatchObject({ error: undefined, status: "running" });
  await store.close();
});
