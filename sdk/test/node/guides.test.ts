import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Readable } from "node:stream";

import { afterAll, beforeAll, expect, test } from "vitest";

import { type Application, type Trial, endedAs, examplesOfPages, layOut, prepared, root, started } from "./documented.js";

const FIXTURE = readFileSync(join(root, "sdk/test/testing/fixtures/recordings/workflow-abc/task-agent.json"), "utf8");

/** Programs that follow one another in one folder: their names, and where they are written. */
const STORIES = {
  readme: { "first.mjs": "README.md 1", "next.mjs": "README.md 2" },
  package: { "first.mjs": "sdk/README.md 1", "next.mjs": "sdk/README.md 2" },
  start: { "agent.mjs": "docs/guides/getting-started-node.md 1", "look.mjs": "docs/guides/getting-started-node.md 2" },
  agent: {
    "agent.mjs": "docs/guides/write-an-agent-node.md 1",
    "fork.mjs": "docs/guides/write-an-agent-node.md 4",
    "spawn.mjs": "docs/guides/write-an-agent-node.md 5",
    "watch.mjs": "docs/guides/write-an-agent-node.md 6",
  },
  chat: {
    "ask.mjs": "docs/guides/build-a-chat.md 1",
    "again.mjs": "docs/guides/build-a-chat.md 2",
    "agent.mjs": "docs/guides/build-a-chat.md 3",
    "page.mjs": "docs/guides/build-a-chat.md 4",
    "crash.mjs": "docs/guides/build-a-chat.md 5",
    "forget.mjs": "docs/guides/build-a-chat.md 6",
  },
};

/** Examples that stand by themselves. */
const TRIALS: Record<string, Trial> = {
  "docs/guides/getting-started-node.md 3": {
    after: "console.log(await store() === await store()); await (await store()).close();",
    says: "true\n",
  },
  "docs/guides/write-an-agent-node.md 2": {
    before: `
      const call = { id: "call_1", type: "function", function: { name: "pay", arguments: "{}" } };
      const paid = await store.runs.start({ session: {}, agentName: "payer" });
      await paid.recordMessage({ role: "assistant", content: null, tool_calls: [call] });
      const last = await paid.pause("cut off");
      const receiptOf = async (id) => "paid once: " + id;
    `,
    after: "console.log(recorder.run.status, (await store.runs.toolCalls(last.id)).items.map((it) => it.output()).join());",
    says: "running paid once: call_1\n",
  },
  "docs/guides/write-an-agent-node.md 3": { says: "paused overloaded, try later\ncompleted\nwrong_status\n" },
  "docs/guides/claude-in-a-flow.md 1": { says: /^flow [0-9a-f-]{36}\nLooked at: Looked at: Plan the work\.\n$/ },
  "docs/guides/claude-in-a-flow.md 2": { says: "error_max_turns failed\nWent on: Go on. done\n" },
  "docs/guides/test-a-flow.md 1": {
    files: { "tests/fixtures/my-workflow/task-agent.json": FIXTURE },
    says: "I've analyzed the tasks... { 'task-agent': 'done' }\n",
  },
  "docs/guides/test-a-flow.md 2": {
    files: { "tests/fixtures/my-workflow/task-agent.json": FIXTURE },
    says: "{ 'task-agent': \"I've analyzed the tasks...\" }\n",
  },
  "docs/guides/test-a-flow.md 3": {
    after: 'import { loadFixtures } from "runlog/testing";\nconsole.log(loadFixtures("tests/fixtures/recordings/my-workflow/").plan?.calls[0]?.output.text);',
    says: "1\nLooked at: Plan the work.\n",
  },
};

const examples = examplesOfPages();
let application: Application;
let wrong: Map<string, string[]>;

beforeAll(async () => {
  ({ application, wrong } = await prepared(examples, TRIALS));
  for (const [story, programs] of Object.entries(STORIES)) {
    const codeOf = (name: string) => examples.find((example) => example.name === name)?.code ?? "throw new Error('there is no such example')";
    const files = Object.entries(programs).map(([file, name]) => [file, codeOf(name)]);
    layOut(application.folderOf(story), Object.fromEntries(files));
  }
}, 120_000);

afterAll(() => application?.remove());

function start(story: keyof typeof STORIES, program: string) {
  const { child, ended } = started(program, application.folderOf(story));
  const data = once(child.stdout as Readable, "data");
  // One that ends without a word would be waited for until the test is given up.
  const silent = () => ended.then(({ stderr }) => Promise.reject(new Error(`${program} ended without a word: ${stderr}`)));
  return { child, ended, hasSaid: () => Promise.race([data, silent()]) };
}

/** All that a program says that ends well. */
async function said(story: keyof typeof STORIES, program: string): Promise<string> {
  const ended = await start(story, program).ended;
  expect(ended).toMatchObject({ code: 0, signal: null, stderr: "" });
  return ended.stdout;
}

test("every example of the pages is tried, and none that isn't there", () => {
  const tried = [...Object.keys(TRIALS), ...Object.values(STORIES).flatMap((programs) => Object.values(programs))];
  expect(examples.map((example) => example.name).sort()).toEqual(tried.sort());
});

test.each(Object.keys(TRIALS))("the example %s compiles, runs, ends, and does what it should", async (name) => {
  expect(wrong.get(name) ?? []).toEqual([]);
  for (const { wanted, ended } of await application.run(name)) expect(ended).toEqual(endedAs(wanted));
});

test.each([
  ["in its first node", "plan", {}, /^flow \S+\nLooked at: Went on: continue\n$/],
  ["in its second node", "work", { plan: "A plan." }, /^flow \S+\nWent on: continue\n$/],
])("the program of the guide goes on with a flow that was cut off %s, and ends it", async (_where, nodeId, outputs, says) => {
  const code = examples.find((example) => example.name === "docs/guides/claude-in-a-flow.md 1")?.code ?? "";
  const folder = application.folderOf(`cut-off-${nodeId}`);
  layOut(folder, {
    "flow.mjs": code,
    "left.mjs": `
      import { open } from "runlog";
      const store = await open("runlog-data");
      const flow = await store.flows.create();
      for (const [nodeId, output] of Object.entries(${JSON.stringify(outputs)})) {
        await flow.startAgent(nodeId, "s0");
        await flow.finishNode(nodeId, output);
      }
      await flow.startAgent("${nodeId}", "s1");
      await store.close();
      console.log(flow.runId);
    `,
    "look.mjs": `
      import { open } from "runlog";
      const store = await open("runlog-data", { mode: "readOnly" });
      console.log((await store.flows.list()).items.map((flow) => flow.status).join());
    `,
  });
  const runId = (await started("left.mjs", folder).ended).stdout.trim();
  expect((await started("flow.mjs", folder, [runId]).ended).stdout).toMatch(says);
  expect((await started("look.mjs", folder).ended).stdout).toBe("completed\n");
});

test.each(["readme", "package"] as const)("the two programs of the %s: one kills itself, the next goes on", async (story) => {
  expect(await start(story, "first.mjs").ended).toEqual(expect.objectContaining({ signal: "SIGKILL", stdout: "", stderr: "" }));
  expect(await said(story, "next.mjs")).toBe("");
  layOut(application.folderOf(story), {
    "look.mjs": `
      import { open } from "runlog";
      const store = await open("runlog-data", { mode: "readOnly" });
      for (const run of (await store.runs.list()).items) console.log(run.status, run.stepCount, run.resumedFrom !== undefined);
    `,
  });
  expect(await said(story, "look.mjs")).toBe("completed 1 true\npaused 1 false\n");
});

test("the programs of the first guide: a run is killed, resumed, and looked at", async () => {
  const first = start("start", "agent.mjs");
  await first.hasSaid();
  // Not before it has counted: the first thing it says is that it began.
  for (let text = ""; !text.includes("2"); ) [text] = await once(first.child.stdout?.setEncoding("utf8") as Readable, "data");
  first.child.kill("SIGKILL");
  expect((await first.ended).stdout).toMatch(/^a new run\n1\n2\n/);
  expect(await said("start", "agent.mjs")).toMatch(/^goes on with \d+ messages\n(\d\n)+10\n$/);
  expect(await said("start", "look.mjs")).toMatch(
    /^completed 10 \S+\npaused \d from the beginning\nuser: Count to ten\.\nassistant: 1\nassistant: 2\n(.*\n)*assistant: 10\n$/,
  );
});

test("the programs of the guide of agents do what it says, with a kill in the middle", async () => {
  const first = start("agent", "agent.mjs");
  await first.hasSaid();
  first.child.kill("SIGKILL");
  await first.ended;

  const second = start("agent", "agent.mjs");
  // Once it has gone on from where the first was killed, there is a run to watch.
  await second.hasSaid();
  const [watched, rest] = await Promise.all([said("agent", "watch.mjs"), second.ended]);
  expect(rest).toMatchObject({ code: 0, stderr: "", stdout: expect.stringContaining('add {"a":4,"b":1} 5') });
  expect(watched).toContain("All is added.");

  expect(await said("agent", "fork.mjs")).toMatch(/^\d+ messages are the same, then [1-9]\d* here and 1 there\n\+ That is enough\.$/m);
  const spawned = await said("agent", "spawn.mjs");
  expect(spawned).toContain("cccccccpcccccccccccc\n");
  expect(spawned).toContain("cancelled 0");
});

test("the programs of the guide ask, answer anew, fork, show, go on after a crash, and forget", async () => {
  const turn = (question: string, answer: string) => `user ${question}\nassistant ${answer}\n`;
  expect(await said("chat", "ask.mjs")).toBe(`${turn("How do I get to Oslo?", "By bus.")}undefined\n`);
  expect(await said("chat", "again.mjs")).toBe(`conflict\n2\n${turn("How do I get to Bergen?", "By train and ship.")}1006 tokens\n`);
  expect(await said("chat", "page.mjs")).toBe("Oslo,Oslo,Oslo, by train\nOslo 2 undefined\n");

  expect(await said("chat", "agent.mjs")).toBe("user Plan my trip.\nassistant 1 messages read.\ncompleted\ncompleted\n");

  // One that dies with a step begun and flushed, and one before it had begun anything.
  layOut(application.folderOf("chat"), {
    "left.mjs": `
      import { open } from "runlog";
      const { chats } = await open("runlog-data");
      const message = { type: "text", props: { content: "And back?" } };
      const request = await chats.beginRequest("trip", { assistantId: "travel", message });
      await request.startStep("llm", { upTo: "the message above" });
      await request.send({ role: "assistant", type: "text", props: { content: "Half of " } });
      await request.flush();
      await chats.beginRequest("trip", { assistantId: "travel", message });
      const half = await chats.beginRequest("trip", { assistantId: "travel", message });
      await half.send({ messageId: "half", role: "assistant", type: "text", props: { content: "Half an " } });
      await half.flush();
      process.kill(process.pid, "SIGKILL");
    `,
    "trip.mjs": `
      import { open } from "runlog";
      const { chats } = await open("runlog-data", { mode: "readOnly" });
      console.log((await chats.getMessages("trip")).slice(2).map((message) => message.props.content).join());
    `,
  });
  expect(await start("chat", "left.mjs").ended).toMatchObject({ signal: "SIGKILL" });
  expect(await said("chat", "crash.mjs")).toBe("trip running answered anew\n".repeat(2) + "trip running restart\n");
  expect(await said("chat", "crash.mjs")).toBe("");
  expect(await said("chat", "trip.mjs")).toBe("And back?,Where was I?,And back?,And back?,Once more, from the beginning.,Once more, from the beginning.\n");
  expect(await said("chat", "forget.mjs")).toBe("4 chats, true\ntrue 0\n");
});
