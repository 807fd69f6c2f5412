// Contexts as the requirements of their persistence have them, row by row of what was once found wanting.

import { type Context, type MessageInput, type RunRecorder, RunlogError, type Store } from "#runlog";
import { places } from "#places";
import { describe, expect, test } from "vitest";

import { random, wrongForAnthropic, wrongForOpenAi } from "../contexts.js";

interface Provider {
  wrong: typeof wrongForOpenAi;
  calls(ids: string[]): MessageInput;
}

/** How a provider writes what an agent says, calls, and is given. */
const PROVIDERS: Record<string, Provider> = {
  OpenAI: {
    wrong: wrongForOpenAi,
    calls: (ids: string[]) => ({
      role: "assistant",
      content: null,
      tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "look", arguments: "{}" } })),
    }),
  },
  Anthropic: {
    wrong: wrongForAnthropic,
    calls: (ids: string[]) => ({ role: "assistant", content: ids.map((id) => ({ type: "tool_use", id, name: "look", input: {} })) }),
  },
};

const messagesOf = (context: Context) => context.getMessages<Record<string, unknown>>();

test("A9: what providers refuse is told by the validators", () => {
  const [user, ok] = [{ role: "user", content: "x" }, { role: "tool", tool_call_id: "a", content: "ok" }];
  const openAi = PROVIDERS["OpenAI"]?.calls(["a"]) as Record<string, unknown>;
  const anthropic = PROVIDERS["Anthropic"]?.calls(["a"]) as Record<string, unknown>;
  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "ok" }] };
  expect(wrongForOpenAi([user, openAi, ok])).toBeUndefined();
  for (const wrong of [[openAi, user, ok], [openAi], [ok], [openAi, ok, ok]]) expect(wrongForOpenAi(wrong)).toBeDefined();
  expect(wrongForAnthropic([user, anthropic, result, user])).toBeUndefined();
  for (const wrong of [[anthropic, user, result], [anthropic], [result], [anthropic, result, result]]) {
    expect(wrongForAnthropic(wrong)).toBeDefined();
  }
});

describe.each(places)("contexts $name", ({ fresh }) => {
  test.each(Object.entries(PROVIDERS))("A9: whatever is done to a session, its context is one that %s takes", async (_, provider) => {
    const store = await fresh();
    for (let seed = 1; seed <= 12; seed += 1) await drive(store, provider, seed);
  });

  test("A7, A9: last words come behind the results of what was spawned", async () => {
    const store = await fresh();
    await store.agents.put({ name: "lead" });
    await store.agents.put({ name: "worker" });
    const orchestrator = await store.orchestrator({
      stopGraceMs: 200,
      agents: {
        lead: async (context) => {
          const spawning = context.spawnAgents([{ agentName: "worker", task: "x" }]).catch(() => {});
          await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
          await context.recordMessage({ role: "assistant", content: "last words" }).catch(() => {});
          await spawning;
        },
        worker: () => new Promise(() => {}),
      },
    });
    const run = await orchestrator.start({ agentName: "lead", task: "x", timeoutMs: 60 });
    expect(await run.wait()).toMatchObject({ status: "paused" });
    const instance = (await store.runs.get(run.runId))?.instanceId as string;
    const messages = await messagesOf(await store.context(instance));
    expect(wrongForOpenAi(messages)).toBeUndefined();
    const { messages: resumed } = await store.runs.resume(run.runId);
    expect(wrongForOpenAi(resumed)).toBeUndefined();
    expect(resumed.some((message) => message["content"] === "last words")).toBe(true);
  });

  test("A10, B25: a copy up to a point has of each context what stood in the log before it", async () => {
    const store = await fresh();
    const { session, instance } = await store.startSession({}, "planner");
    const root = await store.context(instance.id);
    const helper = await store.createInstance({ sessionId: session.id, agentName: "helper", parentInstanceId: instance.id });
    const early = await store.context(helper.id);
    const say = (context: Context, content: string) => context.appendMessage({ role: "user", content });
    for (const word of ["a", "b", "c"]) {
      await say(root, word);
      await say(early, word);
    }
    const late = await store.createInstance({ sessionId: session.id, agentName: "late", parentInstanceId: instance.id });
    await say(await store.context(late.id), "late");
    const { instances } = await store.copySession(session.id, { upToSequence: 2 });
    expect(instances.map((copied) => copied.source)).toEqual([instance.id, helper.id]);
    for (const copied of instances) {
      const messages = await messagesOf(await store.context(copied.instance.id));
      expect(messages.map((message) => message["content"])).toEqual(["a", "b"]);
    }
  });

  test("B27: a session that is overwritten from a point forgets what its sub-agents wrote since", async () => {
    const store = await fresh();
    const { session, instance } = await store.startSession({}, "planner");
    const below = (parentInstanceId: string) => store.createInstance({ sessionId: session.id, agentName: "helper", parentInstanceId });
    const say = async (id: string, content: string) => (await store.context(id)).appendMessage({ role: "user", content });
    const said = async (id: string) => (await messagesOf(await store.context(id))).map((message) => message["content"]);
    const early = await below(instance.id);
    await say(instance.id, "a");
    await say(early.id, "early");
    await say(instance.id, "b");
    const late = await below(early.id);
    await say(early.id, "since");
    await say(late.id, "late");
    expect(await store.truncateSession(session.id, 1)).toBe(3);
    expect([await said(instance.id), await said(early.id), await said(late.id)]).toEqual([["a"], ["early"], []]);
  });

  test("B22: of programs that begin at once each gets the same session by its name", async () => {
    const store = await fresh();
    const got = await Promise.all(Array.from({ length: 10 }, () => store.getOrStartSession({ name: "nightly" }, "planner")));
    expect(new Set(got.map(({ instance }) => instance.id)).size).toBe(1);
    expect((await store.listSessions()).items).toHaveLength(1);
  });
});

/** Does to a session what its users may, in an order that the seed makes again, and looks at the context after each. */
async function drive(store: Store, provider: Provider, seed: number): Promise<void> {
  const next = random(seed);
  const upTo = (count: number) => Math.floor(next() * count);
  const done: string[] = [];
  let run: RunRecorder = await store.runs.start({ session: {}, agentName: "agent", messages: [{ role: "user", content: "Begin." }] });
  let calls = 0;
  const open: string[] = [];
  /** What is refused is no fault: what was refused isn't written. */
  const tried = async (name: string, work: () => Promise<unknown>) => {
    const error = await work().then(() => undefined, (error: RunlogError) => error);
    if (error !== undefined) expect(error, `${name}, seed ${seed}`).toBeInstanceOf(RunlogError);
    done.push(error === undefined ? name : `${name} (refused: ${(error as RunlogError).code})`);
    return error === undefined;
  };
  const context = () => store.context(run.run.instanceId);
  const begin = async (instanceId: string, said: string) => {
    run = await store.runs.start({ instanceId, messages: [{ role: "user", content: said }] });
  };
  const steps: (() => Promise<unknown>)[] = [
    () => tried("says", () => run.recordMessage({ role: "assistant", content: "Hm." })),
    () => tried("is told", () => run.recordMessage({ role: "user", content: "And?" })),
    () => {
      const ids = Array.from({ length: 1 + upTo(3) }, () => `call_${(calls += 1)}`);
      return tried(`calls ${ids.length}`, async () => {
        await run.recordMessage(provider.calls(ids));
        open.push(...ids);
      });
    },
    () => {
      const id = open.splice(upTo(open.length), 1)[0] ?? "nobody's";
      return tried("gives a result", () => run.recordToolResult({ toolCallId: id, output: "ok" }));
    },
    () => tried("gives a result twice", () => run.recordToolResult({ toolCallId: `call_${calls}`, output: "again" })),
    () =>
      tried("is paused and resumed", async () => {
        await run.pause("for now");
        const how = upTo(3);
        const answered = open.slice(0, 1).map((toolCallId) => ({ toolCallId, output: "late" }));
        const dangling = how === 0 ? ("report" as const) : how === 1 ? { answer: answered } : undefined;
        run = (await store.runs.resume(run.id, { dangling })).recorder;
      }),
    () =>
      tried("ends and begins again", async () => {
        await (upTo(2) === 0 ? run.cancel() : run.fail("broke"));
        await begin(run.run.instanceId, "Again.");
      }),
    () =>
      tried("is copied up to a point", async () => {
        const upToSequence = 1 + upTo(await (await context()).getLastSequence());
        const { instances } = await store.copySession(run.run.sessionId, { upToSequence });
        await begin(instances[0]?.instance.id as string, "Another way.");
      }),
    () =>
      tried("is overwritten from a point", async () => {
        await run.cancel();
        const last = await (await context()).getLastSequence();
        await store.truncateSession(run.run.sessionId, upTo(last));
        await begin(run.run.instanceId, "From here.");
      }),
  ];
  for (let step = 0; step < 40; step += 1) {
    const before = run;
    await (steps[upTo(steps.length)] as () => Promise<unknown>)();
    if (run === before && run.run.status !== "running") await begin(run.run.instanceId, "On.").catch(() => {});
    const messages = await messagesOf(await context());
    expect(provider.wrong(messages, { open: true }), `seed ${seed}: ${done.join(", ")}`).toBeUndefined();
  }
  await run.pause("the end").catch(() => {});
  if (run.run.status === "paused") {
    const { messages } = await store.runs.resume(run.id);
    expect(provider.wrong(messages), `seed ${seed}, resumed: ${done.join(", ")}`).toBeUndefined();
  }
}
