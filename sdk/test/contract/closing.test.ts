import { type AgentFunction, type Store, RunlogError } from "#runlog";
import { lastingPlace, places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

/** One of each class, and what is in it. */
async function oneOfEach(store: Store) {
  const { session, instance } = await store.startSession({}, "a");
  const context = await store.context(instance.id);
  await context.appendMessages(Array.from({ length: 5000 }, (_, index) => ({ role: "user", content: `${index}` })));
  const run = await store.runs.start({ instanceId: instance.id });
  const chat = await store.chats.create({ assistantId: "a" });
  const message = { type: "text", props: {} };
  const request = await store.chats.beginRequest(chat.chatId, { assistantId: "a", message });
  const flow = await store.flows.create();
  await flow.recordAll(Array.from({ length: 500 }, () => ({ type: "node:tick" })));
  const playback = await store.flows.playback(flow.runId, { speed: Infinity });
  await store.agents.put({ name: "a" });
  const orchestrator = await store.orchestrator({ agents: { a: () => new Promise(() => {}) } });
  const started = await orchestrator.start({ agentName: "a", task: "x" });
  const { contexts, streams, runs, chats, flows, agents } = store;
  const objects = { store, contexts, context, streams, runs, recorder: run, chats, request, space: request.space };
  return { ids: { session, instance, flow: flow.runId }, objects: { ...objects, flows, flow, playback, agents, orchestrator, started } };
}

describe.each(places)("closing $name", ({ fresh }) => {
  test("a closed store refuses every call of every class, and what reads is told or ends", async () => {
    const store = await fresh();
    const { ids, objects } = await oneOfEach(store);
    const reads = [store.read(), store.streams.read(ids.instance.id), objects.context.events(), objects.playback.events()];
    const halfway = reads.map((pages) => pages[Symbol.asyncIterator]());
    for (const iterator of halfway) expect((await iterator.next()).done).toBe(false);
    const follows = [store.tail(), objects.context.follow(), store.flows.follow(ids.flow)].map((pages) => pages.toArray());
    await store.close();
    for (const iterator of halfway) {
      const reading = (async () => {
        while (!(await iterator.next()).done);
      })();
      // What is in memory was read already.
      await failure(reading, "closed");
    }
    for (const follow of follows) await follow;
    for (const generator of [store.export(), store.heads(), store.search("x")]) await failure(generator.next(), "closed");
    const { instance, session } = ids;
    const work = () => {};
    const shapes: unknown[][] = [[instance.id, { role: "user", content: "x" }, 1], [], [{}], [session.id, []], [[], instance.id], [[]]];
    shapes.push([instance.id, new AbortController().signal], [instance.id, 1, "x"], [instance.id, 1, session.id], [instance.id, work], [work]);
    shapes.push(["completed"], [{ toolCallId: "x", output: 1 }], [instance.id, {}, work], [1]);
    const spared = new Set(["constructor", "close", "newId", "read", "tail", "export", "heads", "search", "events", "follow", "readValues", "untilClosed", "abandon", "toJSON"]);
    const said: Record<string, string> = {};
    for (const [name, object] of Object.entries(objects)) {
      for (const [method, { value }] of Object.entries(Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object)))) {
        if (typeof value !== "function" || spared.has(method)) continue;
        const call = value as (...args: unknown[]) => Promise<unknown>;
        for (const given of shapes) {
          const error: unknown = await call.apply(object, given).catch((error: unknown) => error);
          // An argument that is refused is told before the store is asked.
          if (error instanceof RunlogError && error.code === "closed") said[`${name}.${method}`] = "closed";
          else if (error instanceof RunlogError && error.code === "invalid_input") said[`${name}.${method}`] ??= "refused";
          else throw new Error(`${name}.${method} answered ${String(error)}`);
        }
      }
    }
    expect(Object.keys(said).length).toBeGreaterThan(100);
    expect(Object.entries(said).filter(([, code]) => code !== "closed")).toEqual([]);
    for (const object of Object.values(objects)) if ("close" in object) await object.close().catch(() => {});
  });

  test("what was called before a store is closed is written, also where calls wait for each other", async () => {
    const store = await fresh();
    const { session, instance } = await store.startSession({}, "a");
    const context = await store.context(instance.id);
    const run = await store.runs.start({ session: {}, agentName: "b" });
    const chat = await store.chats.create({ assistantId: "a" });
    const flow = await store.flows.create();
    const calls: Promise<unknown>[] = [];
    for (let index = 0; index < 100; index++) {
      const message = { role: "user" as const, content: `${index}` };
      calls.push(run.recordMessage(message), context.appendMessage(message), flow.record({ type: "node:tick" }));
      calls.push(store.chats.saveMessages(chat.chatId, [{ role: "user", type: "text", props: { content: `${index}` } }]));
      calls.push(run.describe({ metadata: { index } }), store.updateSession(session.id, { title: `${index}` }));
    }
    const late = run.complete("done");
    await store.close();
    const told = await Promise.allSettled([...calls, late]);
    expect(told.filter(({ status }) => status === "rejected")).toEqual([]);
    await failure(run.recordMessage({ role: "user", content: "too late" }), "closed");
  });

  test("whoever waits when a store is closed is told, and its agents are told to stop", async () => {
    const store = await fresh();
    const waits: Promise<unknown>[] = [];
    let stopped: unknown;
    const other = await store.flows.create();
    const begun = new Promise<void>((resolve) => {
      const lead: AgentFunction = async (context) => {
        context.signal.addEventListener("abort", () => (stopped = context.signal.reason));
        waits.push(context.spawnAgents([{ agentName: "worker", task: "x" }]));
        waits.push(context.nextCommand({ signal: new AbortController().signal }));
        resolve();
        await new Promise(() => {});
      };
      void (async () => {
        for (const name of ["lead", "worker"]) await store.agents.put({ name });
        const forever = () => new Promise<void>(() => {});
        const orchestrator = await store.orchestrator({ agents: { lead, worker: forever } });
        const started = await orchestrator.start({ agentName: "lead", task: "x", timeoutMs: 3_600_000 });
        waits.push(started.wait());
        const flow = await store.flows.create();
        waits.push(flow.nextCommands("r1", new AbortController().signal));
        waits.push(other.nextCommands("r1", new AbortController().signal));
      })();
    });
    await begun;
    while (waits.length < 5) await new Promise((resolve) => setTimeout(resolve, 5));
    await new Promise((resolve) => setTimeout(resolve, 20));
    const told = waits.map((wait) => failure(wait, "closed"));
    await other.close();
    await store.close();
    await Promise.all(told);
    expect(stopped).toMatchObject({ code: "closed" });
  });

  test("an import that waits for its next piece ends with the store, and lets go of its source", async () => {
    const store = await fresh();
    let [asked, isLetGo] = [0, false];
    // One piece, and then nothing that ever comes.
    const iterator: AsyncIterator<Uint8Array> = {
      next: () => (++asked === 1 ? Promise.resolve({ value: new TextEncoder().encode("{") }) : new Promise(() => {})),
      return: () => Promise.resolve({ done: true, value: (isLetGo = true) }),
    };
    const pieces = { [Symbol.asyncIterator]: () => iterator };
    const importing = failure(store.import(pieces), "closed");
    await expect.poll(() => asked).toBe(2);
    await store.close();
    await importing;
    expect(isLetGo).toBe(true);
  });

  test("an orchestrator that is closed tells whoever waits, and leaves its runs running", async () => {
    const store = await fresh();
    await store.agents.put({ name: "a" });
    const orchestrator = await store.orchestrator({ agents: { a: () => new Promise(() => {}) } });
    const run = await orchestrator.start({ agentName: "a", task: "x" });
    const told = failure(run.wait(), "closed");
    await orchestrator.close();
    await orchestrator.close();
    await told;
    // Who begins to wait now is told, too.
    await failure(run.wait(), "closed");
    await failure(orchestrator.start({ agentName: "a", task: "x" }), "closed");
    expect((await store.runs.get(run.runId))?.status).toBe("running");
  });

  test("a request is let go of once, however often it is closed", async () => {
    const store = await fresh();
    const chat = await store.chats.create({ assistantId: "a" });
    const message = { type: "text", props: {} };
    const request = await store.chats.beginRequest(chat.chatId, { assistantId: "a", message });
    await request.startStep("llm", {});
    await Promise.all([request.close(), request.close()]);
    await request.close();
    expect((await store.chats.getLastIncompleteStep(chat.chatId))?.status).toBe("interrupted");
    const late = await store.chats.beginRequest(chat.chatId, { assistantId: "a", message });
    await store.close();
    // Its store has written it as interrupted.
    await late.close();
    await late.close();
  });
});

test("a request that is being begun when the store is closed is interrupted, as one that was begun is", async () => {
  const place = await lastingPlace();
  let store = await place.open();
  const { chatId } = await store.chats.create({ assistantId: "a" });
  const message = { type: "text", props: {} };
  const begun = store.chats.beginRequest(chatId, { assistantId: "a", message });
  await Promise.all([begun, store.close()]);
  store = await place.open();
  expect((await store.chats.getRequests(chatId)).map(({ status }) => status)).toEqual(["interrupted"]);
  await store.close();
});

test("retention, compaction and erasing that a store is closed beside end early, and tell what they did", async () => {
  const place = await lastingPlace();
  const store = await place.open();
  const ids: string[] = [];
  for (let index = 0; index < 300; index++) ids.push((await store.startSession({ title: `${index}` }, "a")).session.id);
  let begin = () => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const retaining = store.retain({ keepLast: 1, onProgress: begin });
  await begun;
  const compacted = store.compact();
  const erased = store.erase({ sessions: ids.slice(-1), reason: "test" });
  await store.close();
  const { sessions, isCancelled } = await retaining;
  expect(isCancelled).toBe(sessions < 299);
  await Promise.all([compacted, erased]);
  await failure(store.retain({ keepLast: 1 }), "closed");
  const again = await place.open();
  const { items } = await again.listSessions({ limit: 1000 });
  expect(items.length).toBe(300 - sessions);
});
