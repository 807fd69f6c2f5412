import { places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

describe.each(places)("retention $name", ({ fresh }) => {
  test("sessions are given up by rules, and a dry run says which", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: { title: "first" }, agentName: "coder" });
    await run.recordMessage({ role: "user", content: "hello" });
    const { session: last } = await store.startSession({ title: "last" }, "planner");
    expect(await store.retain({ keepLast: 1 })).toMatchObject({ sessions: 0, keptAtWork: 1 });
    await run.fail("no disk");
    await store.updateSession(last.id, { title: "last used" });
    const told = await store.retain({ keepLast: 1, statuses: ["failed"], dryRun: true });
    expect(told).toMatchObject({ sessions: 1, runs: 1, records: 1, isCancelled: false });
    expect((await store.listSessions()).items).toHaveLength(2);
    const done = await store.retain({ keepLast: 1, statuses: ["failed"], compact: true });
    expect(done).toMatchObject({ sessionIds: told.sessionIds, bytes: told.bytes });
    expect(done.compaction?.recordsDropped).toBeGreaterThan(0);
    expect((await store.listSessions()).items.map((session) => session.id)).toEqual([last.id]);
    expect((await store.runs.get(run.id))?.errorMessage).toBe("no disk");
  });

  test("all chats of a user are erased, deleted ones too, and nobody else's", async () => {
    const store = await fresh();
    const made = async (chatId: string, createdBy: string) => {
      await store.chats.create({ chatId, assistantId: "travel", createdBy });
      await store.chats.saveMessages(chatId, [{ role: "user", type: "text", props: { content: `of ${createdBy}` } }]);
    };
    await made("a", "ann");
    await store.chats.delete("a");
    await made("a", "ann");
    await made("b", "bob");
    const found = async (text: string) => {
      let count = 0;
      for await (const page of store.search(text)) count += page.found.length;
      return count;
    };
    expect([await found("of ann"), await found("of bob")]).toEqual([2, 1]);
    const { user } = {} as { user?: string };
    await failure(store.erase({ users: [user as string], reason: "left" }), "invalid_input");
    await failure(store.erase({ chats: ["a", "else"], reason: "left" }), "not_found");
    expect((await store.erase({ users: ["ann"], reason: "left" })).isGone).toBe(true);
    expect([await found("of ann"), await found("of bob")]).toEqual([0, 1]);
    expect(await store.erase({ chats: ["b"], reason: "left" })).toMatchObject({ isGone: true });
    expect(await found("of bob")).toBe(0);
  });

  test("streaming deltas go once their whole text stands, and the only text stays", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const of = { nodeId: "n", runId: "r", timestamp: 1 };
    await flow.record({ type: "agent:text:delta", content: "Hel", ...of });
    await flow.record({ type: "agent:text:delta", content: "lo", ...of });
    await flow.record({ type: "agent:text", content: "Hello", ...of });
    await flow.record({ type: "agent:text:delta", content: "cut o", ...of });
    await new Promise((wait) => setTimeout(wait, 5));
    expect(await store.retain({ deltasOlderThanMs: 1, dryRun: true })).toMatchObject({ deltas: 2, deltasKept: 1 });
    expect(await store.retain({ deltasOlderThanMs: 1 })).toMatchObject({ deltas: 2, records: 2, sessions: 0 });
    expect(await store.retain({ deltasOlderThanMs: 1 })).toMatchObject({ deltas: 0, deltasKept: 1 });
    await failure(store.retain({ deltasOlderThanMs: 1, keepLast: 1 }), "invalid_input");
  });

  test("a follower goes on past pages of nothing but deltas that were given up", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const of = { nodeId: "n", runId: "r", timestamp: 1 };
    const deltas = Array.from({ length: 5000 }, (_, index) => ({ type: "agent:text:delta" as const, content: `${index} `, ...of }));
    await flow.recordAll(deltas);
    await flow.record({ type: "agent:text", content: deltas.map(({ content }) => content).join(""), ...of });
    await new Promise((wait) => setTimeout(wait, 5));
    expect(await store.retain({ deltasOlderThanMs: 1 })).toMatchObject({ deltas: 5000 });
    for await (const { event } of store.flows.follow(flow.runId)) {
      expect(event.type).toBe("agent:text");
      break;
    }
  });

  test("what was written before an erasure was called is erased, awaited or not", async () => {
    const store = await fresh();
    const exported = async () => {
      let text = "";
      for await (const piece of store.export()) text += new TextDecoder().decode(piece);
      return text;
    };
    for (let round = 0; round < 10; round += 1) {
      const { session, instance } = await store.startSession({ title: "SECRET" }, "planner");
      const context = await store.context(instance.id);
      const run = await store.runs.start({ instanceId: instance.id });
      await run.describe({ metadata: { of: "SECRET" } });
      await run.complete("SECRET");
      const text = (content: string) => ({ role: "user", type: "text", props: { content } }) as const;
      const [saved] = await store.chats.saveMessages(session.id, [text("SECRET")]);
      const done = await Promise.all([
        context.appendMessage({ role: "user", content: "SECRET" }),
        store.chats.saveMessages(session.id, [text("SECRET")]),
        store.chats.updateMessage(saved?.messageId as string, { props: { content: "SECRET" } }),
        store.runs.describe(run.id, { usage: { tokens: 1 } }),
        store.erase({ sessions: [session.id], reason: "asked to" }),
      ]);
      expect(done[4].isGone).toBe(true);
      expect(await exported()).not.toContain("SECRET");
      // Who recorded the run before has what it was in memory, and doesn't write it again.
      await run.describe({ usage: { tokens: 2 } });
      expect(await exported()).not.toContain("SECRET");
    }
    await failure(store.erase({ sessions: [store.newId()], reason: "asked to" }), "not_found");
    await failure(store.erase({ sessions: [], flows: [store.newId()], reason: "  " }), "invalid_input");
  });

  test("a space that was set from outside of a run is forgotten with its session", async () => {
    const store = await fresh();
    await store.agents.put({ name: "worker" });
    let had: unknown = "nothing yet";
    const orchestrator = await store.orchestrator({
      agents: {
        worker: async (context) => {
          if (had === "nothing yet") {
            had = "paused";
            return { paused: "later" };
          }
          had = await context.space.get("k");
          return "done";
        },
      },
    });
    const run = await orchestrator.start({ agentName: "worker", task: "work" });
    await run.space.set("k", "SECRET");
    await run.wait();
    await run.space.set("later", "SECRET");
    const session = (await store.runs.get(run.runId))?.sessionId as string;
    await store.erase({ sessions: [session], reason: "asked to" });
    await run.space.set("new", 1);
    await (await orchestrator.resume(run.runId)).wait();
    expect([had, await run.space.get("later"), await run.space.get("new")]).toEqual([undefined, undefined, 1]);
  });

  test("a policy that would keep nothing is refused", async () => {
    const store = await fresh();
    for (const policy of [{}, { project: "p" }, { keepLast: 0 }, { olderThanMs: 0 }, { statuses: ["running"] as const }])
      await failure(store.retain(policy), "invalid_input");
    await failure(store.retain({ keepLst: 1 } as never), "invalid_input");
    const none = await failure(store.retain({}), "invalid_input");
    for (const option of ["olderThanMs", "keepLast", "maxBytes", "statuses", "deleted", "deltasOlderThanMs"])
      expect(none.message).toContain(`\`${option}\``);
  });

  test("what is erased is gone, and it says so", async () => {
    const store = await fresh();
    const { session, instance } = await store.startSession({}, "planner");
    const context = await store.context(instance.id);
    await context.appendMessage({ role: "user", content: "My PIN is 1234." });
    expect(await store.erase({ sessions: [session.id], reason: "a PIN" })).toMatchObject({ isGone: true, records: 1 });
    expect(JSON.stringify(await context.getMessages())).not.toContain("My PIN");
    await failure(store.erase({ sessions: [session.id] } as never), "invalid_input");
    await failure(store.erase({ reason: "nothing" }), "invalid_input");
  });

  // A word: any number may be part of an id or of a time.
  test("with a session go what is said about it, and what its runs say; a flow of no run goes by its id", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: { title: "PIN zebra", metadata: { pin: "zebra" } }, agentName: "planner" });
    await run.recordMessage({ role: "user", content: "My PIN is zebra." });
    await run.describe({ metadata: { pin: "zebra" } });
    await run.fail("zebra is wrong");
    const flow = await store.flows.create();
    await flow.record({ type: "agent:text", nodeId: "n", runId: flow.runId, timestamp: 1, content: "zebra" });
    const { sessionId } = run.run;
    const found = async () => {
      const positions: number[] = [];
      for await (const page of store.search("zebra")) positions.push(...page.found);
      return positions.length;
    };
    expect(await found()).toBeGreaterThanOrEqual(5);
    await failure(store.erase({ flows: [flow.runId], reason: "a PIN" }), "wrong_status");
    await flow.close();
    await store.erase({ sessions: [sessionId], flows: [flow.runId], reason: "a PIN" });
    expect(await found()).toBe(0);
    const session = await store.getSession(sessionId);
    expect([session?.id, session?.title, session?.metadata]).toEqual([sessionId, undefined, undefined]);
    const ended = await store.runs.get(run.id);
    expect([ended?.status, ended?.errorMessage, ended?.metadata]).toEqual(["failed", undefined, undefined]);
  });
});
