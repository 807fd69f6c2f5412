// Flows as the requirements have them, row by row of what was once found wanting.

import { lastingPlace, places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

describe.each(places)("flows $name", ({ fresh }) => {
  test("A3: a command by a flow for a run that isn't its own is refused, and recorded as that", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    const flow = await store.flows.create();
    const error = await failure(flow.command({ type: "send", runId: run.id, message: "astray" }), "invalid_input");
    expect(error.message).toContain(run.id);
    expect(await flow.takeInbox(run.id)).toEqual([]);
    const events = await (await store.flows.playback(flow.runId)).events().toArray();
    expect(events.map(({ event }) => (event as { error?: string }).error !== undefined)).toEqual([true]);
  });

  test("A12, A16: the flow of a run that is over takes nothing, by any call", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    const flow = await store.flows.create(run.id);
    await run.complete("done");
    await failure(flow.record({ type: "node:tick" }), "wrong_status");
    await failure(flow.startAgent("n", "s"), "wrong_status");
    await failure(flow.finishNode("n"), "wrong_status");
    await failure(flow.saveSnapshot(), "wrong_status");
    await failure(flow.command({ type: "send", runId: run.id, message: "late" }), "wrong_status");
    await failure(store.flows.resume(run.id), "wrong_status");
    expect(flow.state).toMatchObject({ nodeStatus: {}, inbox: [] });
  });

  test("who waits for a flow's commands or events is told when its run ends, after what was there before", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    const flow = await store.flows.create(run.id);
    await flow.record({ type: "node:tick" });
    const never = new AbortController().signal;
    const commands = failure(flow.nextCommands(run.id, never), "wrong_status");
    const events = store.flows.follow(run.id).toArray();
    const separate = await store.flows.create();
    const goesOn = separate.nextCommands("r1", never);
    await new Promise((resolve) => setTimeout(resolve, 20));
    await flow.command({ type: "send", runId: "node", message: "before" });
    await flow.record({ type: "node:tock" });
    await run.complete("done");
    expect((await commands).message).toContain(`run ${run.id} is completed`);
    expect((await events).map(({ event }) => event.type)).toEqual(["node:tick", "command:received", "node:tock"]);
    // What waits is still had.
    expect(await flow.nextCommands("node", never)).toMatchObject([{ message: "before" }]);
    await failure(flow.nextCommands("node", never), "wrong_status");
    expect((await store.flows.follow(run.id, { from: 4 }).toArray()).map(({ event }) => event.type)).toEqual(["node:tock"]);
    await separate.command({ type: "send", runId: "r1", message: "on" });
    expect(await goesOn).toMatchObject([{ message: "on" }]);
  });

  test("D5: the state's entries come back, whatever order they were made in", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    for (const node of ["z", "a", "m"]) await flow.startAgent(node, `session of ${node}`);
    await flow.close();
    const { resumed } = await store.flows.resume(flow.runId);
    expect(resumed.running.map(({ nodeId, sessionId }) => [nodeId, sessionId])).toEqual(
      ["a", "m", "z"].map((node) => [node, `session of ${node}`]),
    );
  });

  test("D16: a time with a fraction, as a clock of the browser's gives it, is recorded, or refused by its name", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    const event = { type: "agent:text", nodeId: "n", runId: "r", timestamp: performance.timeOrigin + performance.now() + 0.5, content: "x" } as const;
    const error = await flow.record(event).then(() => undefined, (error: Error) => error.message);
    if (error !== undefined) expect(error).toContain("timestamp");
    else expect((await (await store.flows.playback(flow.runId)).events().toArray())[0]?.event).toEqual(event);
  });

  test("D22: a resume that was asked for earlier isn't taken for the message of a later one", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    await flow.startAgent("n", "s");
    await flow.command({ type: "resume", message: "earlier" });
    await flow.close();
    const { flow: again, resumed } = await store.flows.resume(flow.runId, "later");
    expect(resumed.running[0]?.prompt).toBe("later");
    await again.close();
  });

  test("D34, D35: a playback of nothing plays nothing", async () => {
    const store = await fresh();
    const flow = await store.flows.create();
    await flow.record({ type: "node:tick", timestamp: 1 });
    for (const options of [{ first: 5, last: 2 }, { types: ["node:other"] }, { nodes: ["nobody"] }, { runs: ["nobody"] }]) {
      expect(await (await store.flows.playback(flow.runId, options)).events().toArray()).toEqual([]);
    }
  });
});

describe("flows of a process that is gone", () => {
  test("D23, A12: are found among all there are, with what to resume", async () => {
    const place = await lastingPlace();
    const store = await place.open();
    const run = await store.runs.start({ session: {}, agentName: "coder" });
    const ofRun = await store.flows.create(run.id);
    const own = await store.flows.create();
    const over = await store.flows.create();
    over.state.status = "completed";
    await over.saveSnapshot();
    await own.startAgent("plan", "s1");
    await ofRun.command({ type: "send", runId: run.id, message: "kept" });
    await store.close();

    const again = await place.open();
    const { items } = await again.flows.list({ resumable: true });
    expect(items.map((flow) => [flow.runId, flow.runStatus])).toEqual([
      [own.runId, undefined],
      [run.id, "paused"],
    ]);
    const { recorder } = await again.runs.resume(run.id);
    const { flow } = await again.flows.resume(recorder.id);
    expect(await flow.takeInbox(recorder.id)).toMatchObject([{ message: "kept" }]);
  });
});
