import { readFileSync } from "node:fs";
import { join } from "node:path";

import { afterAll, beforeAll, expect, test } from "vitest";

import { type Application, type Trial, endedAs, examplesOfSources, prepared, root } from "./documented.js";

/** Fixtures of one node, as examples name them. */
const FIXTURE = readFileSync(join(root, "sdk/test/testing/fixtures/recordings/workflow-abc/task-agent.json"), "utf8");
const WORKFLOW = { "tests/fixtures/my-workflow/task-agent.json": FIXTURE };

const PLAYED = /^I've analyzed the tasks\.\.\.\n$/;

const CONTEXT = `
  const { instance: agent } = await store.startSession({ title: "Weather" }, "planner");
  const context = await store.context(agent.id);
`;

/** The context of an agent that works until `end` is called, as a variable. */
const AGENT = `
  import type { RunContext } from "runlog";
  for (const name of ["lead", "worker", "searcher"]) await store.agents.put({ name });
  let give: (context: RunContext) => void = () => {};
  const given = new Promise<RunContext>((resolve) => (give = resolve));
  let end: (text: string) => void = () => {};
  const ended = new Promise<string>((resolve) => (end = resolve));
  const orchestrator = await store.orchestrator({
    agents: {
      lead: async (context) => {
        give(context);
        return ended;
      },
      worker: async (context) => context.task,
      searcher: async (context) => {
        if (context.task === "the web") await new Promise((resolve) => context.signal.addEventListener("abort", resolve));
        return context.task;
      },
    },
  });
  const lead = await orchestrator.start({ agentName: "lead", task: "x" });
  const context = await given;
`;

/** What the examples in the comments of the sources take for granted, and what they do. */
const TRIALS: Record<string, Trial> = {
  "agents.ts: Agents": {
    after: 'console.log((await store.agents.get("researcher"))?.maxSteps, (await store.agents.get("nobody")));',
    says: "50 undefined\n",
  },
  "batch.ts: RecordBatch": {
    before: 'const stream = store.newId(); const events = ["a", "b"].map((text) => ({ bytes: Buffer.from(text) }));',
    after: "console.log((await store.streams.read(stream).toArray()).map((it) => it.text()).join(), batch.count);",
    says: "a,b 0\n",
  },
  "chats.ts: Chats": {
    after: "for (const { role, props } of await store.chats.getMessages(chat.chatId)) console.log(role, props.content);",
    says: "user Oslo, please.\nassistant By train?\n",
  },
  "store-sessions.ts: copySession": {
    after: "for (const { role, props } of await store.chats.getMessages(session.id)) console.log(role, props.content);",
    says: "user Oslo, please.\n",
  },
  "store.ts: backup": {
    after: "console.log(segmentsCopied, lastPosition > 0, (await open('runlog-backup', { mode: 'readOnly' })).recovery.clean);",
    says: "1 false false\n",
  },
  "store.ts: heads": {
    before: `
      const run = await store.runs.start({ session: {}, agentName: "coder" });
      const tool_calls = [{ id: "call_1", type: "function", function: { name: "search", arguments: "{}" } }];
      await run.recordMessage({ role: "assistant", content: null, tool_calls });
      await run.recordToolResult({ toolCallId: "call_1", status: "error", output: new Error("no network") });
    `,
    after: "console.log(errors);",
    says: "1\n",
  },
  "store.ts: search": {
    before: 'const stream = store.newId(); await store.streams.append(stream, [{ json: { text: "Out of memory" } }]);',
    says: "2\n",
  },
  "store.ts: compact": { after: "console.log(bytesBefore, bytesAfter);", says: "0 of 0 bytes\n0 0\n" },
  "store.ts: retain": { after: "console.log(sessions, bytes);", says: "0 0\n" },
  "store.ts: erase": {
    before: `
      const { session, instance } = await store.startSession({}, "planner");
      await (await store.context(instance.id)).appendMessage({ role: "user", content: "My PIN is 1234." });
    `,
    after: "console.log(isGone);",
    says: "true\n",
  },
  "store.ts: export": {
    before: 'const session = await store.createSession({ title: "trip" });',
    after: 'console.log((await import("node:fs")).readFileSync("trip.jsonl", "utf8").startsWith(\'{"runlog":"archive"\'));',
    says: "true\n",
  },
  "store.ts: exportTo": { before: "await store.createSession();", after: "console.log(records > 0);", says: "true\n" },
  "store.ts: import": {
    before: 'await store.createSession(); await store.exportTo("trip.jsonl");',
    after: "console.log(sessions.map((session) => session.outcome), conflicts);",
    says: "[ 'unchanged' ] []\n",
  },
  "store.ts: importFrom": {
    before: 'await store.createSession(); await store.exportTo("everything.jsonl");',
    after: "console.log((await store.listSessions()).items.length);",
    says: "1\n",
  },
  "chats.ts: searchMessages": {
    before: `
      await store.chats.create({ chatId: "c1", assistantId: "travel", createdBy: "user123" });
      await store.chats.saveMessages("c1", [{ messageId: "m1", role: "user", type: "text", props: { content: "Oslo, please." } }]);
    `,
    says: "c1 m1\n",
  },
  "chats.ts: follow": {
    before: `
      const chat = await store.chats.create({ assistantId: "travel", title: "Oslo" });
      const show = (title: string | undefined, items: unknown[]) => {
        console.log(title, items.length);
        if (items.length === 1) gone.abort();
        else void store.chats.saveMessages(chat.chatId, [{ role: "user", type: "text", props: { content: "Oslo?" } }]);
      };
    `,
    says: "Oslo 0\nOslo 1\n",
  },
  "new-request.ts: NewRequest": {
    before: `
      const chat = await store.chats.create({ assistantId: "travel" });
      const asked = { type: "text", props: { content: "Oslo, please." } };
      await store.chats.withRequest(chat.chatId, { assistantId: "travel", message: asked }, async (first) => {
        await first.send({ role: "assistant", type: "text", props: { content: "By bus?" } });
      });
    `,
    after: `
      for (const { role, props } of await store.chats.getMessages(chat.chatId)) console.log(role, props.content);
      console.log((await store.chats.getRequests(chat.chatId)).map((each) => each.status).join());
    `,
    says: "user To Oslo, please.\ncompleted,completed,completed\n",
  },
  "chats.ts: list": {
    before: `
      for (const createdBy of ["user123", "nobody"]) await store.chats.create({ assistantId: "travel", createdBy });
    `,
    after: "console.log(page.total, rest.items.length);",
    says: "1 1\n",
  },
  "chats.ts: listMessages": {
    before: `
      const { chatId } = await store.chats.create({ assistantId: "travel" });
      const messages = Array.from({ length: 25 }, () => ({ role: "user", type: "text", props: {} }) as const);
      await store.chats.saveMessages(chatId, messages);
    `,
    after: "console.log(last.items[0]?.sequence, before.items.map((message) => message.sequence).join());",
    says: "25 5,4,3,2,1\n",
  },
  "chats.ts: listRequests": {
    before: `
      const chat = await store.chats.create({ assistantId: "travel" });
      const message = { type: "text", props: { content: "?" } } as const;
      const begun = await store.chats.beginRequest(chat.chatId, { assistantId: "travel", requestId: "req_1", message });
      await begun.finish("interrupted");
    `,
    after: "console.log((await store.chats.listRequests()).items.map((it) => it.requestId + it.status));",
    says: "[ 'req_1interrupted' ]\n",
  },
  "chats.ts: listSteps": {
    before: `
      const { chatId } = await store.chats.create({ assistantId: "travel" });
      const message = { type: "text", props: { content: "?" } } as const;
      const begun = await store.chats.beginRequest(chatId, { assistantId: "travel", requestId: "req_1", message });
      await begun.startStep("llm", {});
      await begun.finish("interrupted");
    `,
    after: "console.log(items.map((step) => step.type + step.status).join());",
    says: "llminterrupted\n",
  },
  "request.ts: delegate": {
    before: `
      const chat = await store.chats.create({ assistantId: "lead" });
      const message = { type: "text", props: { content: "?" } } as const;
      const request = await store.chats.beginRequest(chat.chatId, { assistantId: "lead", requestId: "req_1", message });
    `,
    after: `
      await request.finish("completed");
      const steps = await store.chats.getSteps("req_1");
      const asked = (id: string | undefined) => JSON.parse(JSON.stringify(steps.find((step) => step.stepId === id)?.input)).question;
      for (const step of steps.filter((step) => step.type === "llm")) console.log(asked(step.stepId), asked(step.delegateStepId));
    `,
    says: "Oslo? Oslo?\nBergen? Bergen?\n",
  },
  "request.ts: describe": {
    before: `
      const run = await store.runs.start({ session: {}, agentName: "travel" });
      const chat = await store.chats.create({ assistantId: "travel" });
      const message = { type: "text", props: { content: "?" } } as const;
      const request = await store.chats.beginRequest(chat.chatId, { assistantId: "travel", requestId: "req_1", message });
    `,
    after: 'await request.finish("completed"); console.log((await store.chats.getRequest("req_1"))?.usage);',
    says: "{ inputTokens: 812, outputTokens: 97, cost: 0.0041 }\n",
  },
  "run-writer.ts: tool": {
    before: `
      const run = await store.runs.start({ session: {}, agentName: "coder" });
      const tool_calls = [{ id: "call_1", type: "function", function: { name: "search", arguments: "{}" } }];
      await run.recordMessage({ role: "assistant", content: null, tool_calls });
      const search = async (city: string) => [city];
    `,
    after: "console.log(rows, (await store.runs.toolCalls(run.id)).items[0]?.status);",
    says: "[ 'Oslo' ] completed\n",
  },
  "run-writer.ts: recordMessages": {
    before: 'const run = await store.runs.start({ session: {}, agentName: "coder" });',
    after: "console.log((await store.runs.toolCalls(run.id)).items.map((call) => call.toolName).join());",
    says: "ls\n",
  },
  "run-writer.ts: recordToolResults": {
    before: `
      const run = await store.runs.start({ session: {}, agentName: "coder" });
      const calls = ["call_1", "call_2"].map((id) => ({ id, type: "function", function: { name: "search", arguments: "{}" } }));
      await run.recordMessage({ role: "assistant", content: null, tool_calls: calls });
      const work = async (call: { id: string }) => call.id.toUpperCase();
    `,
    after: "console.log((await store.runs.toolCalls(run.id)).items.map((call) => call.status + call.output()).join());",
    says: "completedCALL_1,completedCALL_2\n",
  },
  "recorder.ts: describe": {
    before: 'const run = await store.runs.start({ session: {}, agentName: "coder" });',
    after: "console.log((await store.runs.get(run.id))?.usage, (await store.runs.get(run.id))?.metadata);",
    says: "{ inputTokens: 812, outputTokens: 97, cost: 0.0041 } { user: 'ann' }\n",
  },
  "request.ts: flush": {
    before: `
      const chat = await store.chats.create({ assistantId: "travel" });
      const message = { type: "text", props: { content: "?" } } as const;
      const request = await store.chats.beginRequest(chat.chatId, { assistantId: "travel", requestId: "req_1", message });
      const questions = ["where", "when"];
      const ask = async (question: string) => question.toUpperCase();
    `,
    after: `
      console.log((await store.chats.getSteps("req_1")).map((step) => step.status + " " + JSON.stringify(step.output)).join());
      await request.finish("completed");
    `,
    says: 'completed {"answer":"WHERE"},running undefined\n',
  },
  "request.ts: replace": {
    before: `
      const chat = await store.chats.create({ assistantId: "travel" });
      const message = { type: "text", props: { content: "?" } } as const;
      const request = await store.chats.beginRequest(chat.chatId, { assistantId: "travel", message });
    `,
    after: `
      await request.finish("completed");
      console.log((await store.chats.getMessages(chat.chatId)).map(({ type, props }) => [type, props]).at(-1));
    `,
    says: "[ 'text', { content: 'By train?' } ]\n",
  },
  "playback.ts: seek": {
    before: `
      const flow = await store.flows.create();
      const at = { nodeId: "plan", runId: flow.runId, timestamp: 1 };
      for (let n = 0; n < 45; n += 1) await flow.record({ type: "agent:text", ...at, content: String(n) });
      const playback = await store.flows.playback(flow.runId, { speed: Infinity });
    `,
    says: /^40\n39\n38\n(\d+\n)*$/,
  },
  "store-sessions.ts: getOrStartSession": {
    after: "console.log(instance.agentName, (await store.listSessions()).items.length);",
    says: "coder 1\n",
  },
  "chats.ts: resume": { before: `
      const chat = await store.chats.create({ assistantId: "travel" });
      const message = { type: "text", props: { content: "?" } } as const;
      const begun = await store.chats.beginRequest(chat.chatId, { assistantId: "travel", requestId: "req_1", message });
      await begun.startStep("llm", {});
      await begun.finish("interrupted");
    `, after: "console.log(older?.step.requestId);", says: "req_1\n" },
  "chats.ts: dismiss": { before: `
      const chat = await store.chats.create({ assistantId: "travel" });
      const message = { type: "text", props: { content: "?" } } as const;
      const begun = await store.chats.beginRequest(chat.chatId, { assistantId: "travel", requestId: "req_1", message });
      await begun.startStep("llm", {});
      await begun.finish("interrupted");
    `, after: "console.log(await store.chats.resume(chat.chatId));", says: "undefined\n" },
  "chats.ts: withRequest": {
    after: "console.log(answer, (await store.chats.getMessages(chat.chatId)).length);",
    says: "By train? 2\n",
  },
  "new-request.ts: WithRequestOptions": {
    before: `
      const chat = await store.chats.create({ assistantId: "travel" });
      const asked = { assistantId: "travel", requestId: "req_1", message: { type: "text", props: { content: "Oslo, please." } } };
      const button = new EventTarget();
      const model = async ({ signal }: { signal: AbortSignal }) => {
        button.dispatchEvent(new Event("click"));
        signal.throwIfAborted();
        return "By train?";
      };
      process.on("uncaughtException", async (thrown) => console.log(thrown, (await store.chats.getRequest("req_1"))?.status));
    `,
    says: "the user pressed Stop interrupted\n",
  },
  "resumption.ts: Resumption": {
    before: `
      const chat = await store.chats.create({ assistantId: "travel" });
      const message = { type: "text", props: { content: "Oslo, please." } };
      const cutOff = await store.chats.beginRequest(chat.chatId, { assistantId: "travel", message });
      await cutOff.startStep("llm", { city: "Oslo" });
      await cutOff.close();
      const ask = async (input: Record<string, unknown> | undefined) => \`By train to \${input?.city}?\`;
    `,
    after: "console.log((await store.chats.getMessages(chat.chatId)).at(-1)?.props.content);",
    says: "By train to Oslo?\n",
  },
  "claude/index.ts: runlog/claude": { after: "console.log(text);", says: "Looked at: Plan the work.\n" },
  "claude/node.ts: createClaudeNode": {
    before: 'const mockQuery = createMockQuery({ fixtures: loadFixtures("tests/fixtures/my-workflow/") });',
    after: 'console.log(text, flow.state.nodeStatus["task-agent"], resumed.running.length);',
    files: WORKFLOW,
    says: "I've analyzed the tasks... done 0\n",
  },
  "context.ts: Context": {
    before: `
      import type { MessageObject } from "runlog";
      const { instance: agent } = await store.startSession({ title: "Weather" }, "planner");
      const callModel = async (sent: object[]): Promise<MessageObject> => ({ role: "assistant", content: \`No; \${sent.length} asked.\` });
    `,
    after: "for (const { json } of await context.getRawMessages()) console.log(json);",
    says: '{"role":"user","content":"Will it rain?"}\n{"role":"assistant","content":"No; 1 asked."}\n',
  },
  "error.ts: RunlogError": { says: "no such session\n" },
  "flows.ts: Flows": {
    before: `
      const { runId, ...left } = await store.flows.create();
      const cutOff = (await store.flows.resume(runId)).flow;
      await cutOff.startAgent("plan", "s1");
      await cutOff.record({ type: "agent:text", nodeId: "plan", runId, timestamp: 1, content: "Hello" });
      await cutOff.close();
      const callAgent = async (...what: unknown[]) => console.log(...what);
      const show = (event: object) => console.log(event);
    `,
    says: /^plan s1 continue\n(.*\n)*.*content: 'Hello'/,
  },
  "flows.ts: FlowRun": {
    before: 'const sessionId = "s1";',
    after: 'console.log((await store.flows.resume(flow.runId)).flow.state.outputs["plan"]);',
    says: "{ text: 'Hello' }\n",
  },
  "index.ts: open": { after: "console.log(last, reader.recovery.clean);", says: /^undefined (true|false)\n$/ },
  "index.ts: openInMemory": { after: "console.log((await store.createSession({ title: 'x' })).title);", says: "x\n" },
  "index.ts: attach": {
    before: 'import { Worker } from "node:worker_threads";',
    after: 'await new Promise((resolve) => worker.on("exit", resolve)); console.log((await store.listSessions()).items[0]?.title);',
    says: "from the worker\n",
    then: {
      from: "// worker.mjs",
      as: "worker",
      before: 'import { workerData } from "node:worker_threads";',
      after: 'await store.createSession({ title: "from the worker" }); await store.close();',
      says: "",
    },
  },
  "json.ts: RawJson": { before: CONTEXT, says: "true\n" },
  "orchestrator.ts: Orchestrator": { says: "2 parts are done\n" },
  "orchestrator.ts: cancel": {
    before: `${AGENT} const { runId } = lead;`,
    after: "console.log((await lead.wait()).status); await reader.close();",
    says: "cancelled\n",
  },
  "error.ts: StopError": {
    before: AGENT.replace("import type { RunContext }", "import type { RunContext, StopError }"),
    after: "await orchestrator.cancel(lead.runId); console.log((await lead.wait()).status);",
    says: "cancelled nobody wants it any more\ncancelled\n",
  },
  "run-context.ts: recordEvent": {
    before: AGENT,
    after: "for await (const { event } of await store.flows.playback(context.runId, { speed: Infinity })) console.log(event.runId === context.runId, event); end('done');",
    says: /^true \{\s+type: 'agent:text',.*content: 'Done\.'.*timestamp: \d+/s,
  },
  "run-context.ts: spawn": {
    before: AGENT,
    after: "end('done'); console.log(inOrder.map((result) => result.summary).join(), (await lead.wait()).summary);",
    says: /^\[\s+'[0-9a-f-]{36}',\s+'[0-9a-f-]{36}'\s+\]\n(0 completed\n1 completed|1 completed\n0 completed)\na,b done\n$/,
  },
  "spawned.ts: Spawned": {
    before: AGENT,
    after: "end('done'); console.log(results.map((result) => result.status).join(), (await lead.wait()).summary);",
    says: "completed,cancelled done\n",
  },
  "recorder.ts: pause": {
    before: 'const recorder = await store.runs.start({ session: {}, agentName: "coder" });',
    after: "console.log(recorder.run.status, recorder.run.stopKind, recorder.run.pauseReason);",
    says: "paused shutdown SIGTERM\n",
  },
  "flow-types.ts: RuntimeCommand": {
    before: 'import type { RuntimeCommand } from "runlog"; const flow = await store.flows.create();',
    after: "for (const command of [hurry, rate]) await flow.command(command); console.log(await flow.takeInbox(flow.runId), await flow.takeInbox());",
    says: /type: 'send'.*Hurry!.*\] \[.*type: 'rate'.*stars: 5/s,
  },
  "pages.ts: Listing": {
    before: `
      for (const id of ["one", "two"]) await (await store.runs.start({ session: {}, agentName: id })).fail("down");
    `,
    after: "console.log(items.length, next);",
    says: /^\S+\n\S+\n2 undefined\n$/,
  },
  "pages.ts: Pages": {
    before: `${CONTEXT}
      await context.appendMessages([{ role: "user", content: "a" }, { role: "user", content: "b" }]);
      const send = async (page: object[]) => console.log("sent", page.length);
    `,
    after: "console.log(all.map((event) => event.json));",
    says: /^1\n2\nsent 2\n\[.*"b".*\]/s,
  },
  "recorder.ts: RunRecorder": {
    after: "console.log(run.run.status, (await store.runs.get(run.id))?.stepCount, await run.nextStep().catch((error) => error.code));",
    says: "completed 1 wrong_status\n",
  },
  "runs.ts: Runs": {
    after: 'process.kill(process.pid, "SIGKILL");',
    says: { signal: "SIGKILL" },
    then: {
      from: "// In the next process",
      before: `
        import type { RunRecorder } from "runlog";
        const work = async (recorder: RunRecorder, messages: object[]) => console.log(recorder.run.stepCount, messages.length);
      `,
      says: "1 2\n",
    },
  },
  "store.ts: Store": {
    after: "console.log((await context.getMessages()).length, session.title);",
    says: "1 Weather\n",
  },
  "store.ts: orchestrator": { says: "hello, world\n" },
  "store.ts: read": { before: 'await store.createSession({ title: "x" });', says: /^1 \d+ [0-9a-f-]{36}\n/ },
  "testing/index.ts: runlog/testing": { files: WORKFLOW, after: "console.log(text);", says: PLAYED },
  "testing/load.ts: loadFixtures": {
    files: { "tests/fixtures/recordings/my-workflow/task-agent.json": FIXTURE },
    after: "for await (const message of mockQuery({ prompt: 'Analyze the task list...' })) if (message.type === 'result') console.log(message.text);",
    says: PLAYED,
  },
  "testing/mock.ts: createMockQuery": {
    files: WORKFLOW,
    after: `
      const { text } = await claudeNode.run(await store.flows.create(), { nodeId: "task-agent", prompt: "Analyze the task list..." });
      console.log(text);
    `,
    says: PLAYED,
  },
  "testing/record.ts: recordFixtures": {
    before: 'import { query } from "@anthropic-ai/claude-agent-sdk";',
    after: `
      await claudeNode.run(await store.flows.create(), { nodeId: "plan", prompt: "Plan." });
      console.log(loadFixtures("tests/fixtures/recordings/my-workflow/").plan?.calls[0]?.output.text);
    `,
    says: "Looked at: Plan.\n",
  },
};

const examples = examplesOfSources();
let application: Application;
let wrong: Map<string, string[]>;

beforeAll(async () => {
  ({ application, wrong } = await prepared(examples, TRIALS));
}, 120_000);

afterAll(() => application?.remove());

test("every example of the sources is tried, and none that isn't there", () => {
  expect(examples.map((example) => example.name).sort()).toEqual(Object.keys(TRIALS).sort());
});

test.each(Object.keys(TRIALS))("the example of %s compiles, runs, ends, and does what it should", async (name) => {
  expect(wrong.get(name) ?? []).toEqual([]);
  for (const { wanted, ended } of await application.run(name)) expect(ended).toEqual(endedAs(wanted));
});
