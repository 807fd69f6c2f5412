import { open } from "#runlog";
import { describe, expect, test, vi } from "vitest";

import { failure } from "../code.js";
import { freshFolder } from "../places.node.js";
import { type Running, start } from "./child.js";

/** What the other process said first: the id of its run. */
async function idOf(running: Running): Promise<string> {
  await vi.waitFor(() => expect(running.said()).toContain("\n"), 20_000);
  return running.said().split("\n")[0] ?? "";
}

describe("of a store that another process writes", () => {
  test("a run is sent to and cancelled", async () => {
    const path = await freshFolder();
    const other = start("listening.mjs", [path, "agent"]);
    const run = await idOf(other);
    const reader = await open(path, { mode: "readOnly" });
    const orchestrator = await reader.orchestrator();
    await orchestrator.send(run, { type: "send", message: "hello" });
    await vi.waitFor(() => expect(other.said()).toContain("hello\n"), 20_000);
    await failure(orchestrator.send(run, { type: "send", runId: "another", message: "x" }), "invalid_input");
    await failure(orchestrator.cancel("0198c7e0-0000-7000-8000-000000000000"), "not_found");
    await orchestrator.cancel(run);
    expect(await other.ended).toMatchObject({ code: 0, stderr: "", stdout: `${run}\nhello\ncancelled\n` });
    expect((await reader.runs.get(run))?.status).toBe("cancelled");
    await reader.close();
  });

  test("a run is paused, and goes on in the next process", async () => {
    const path = await freshFolder();
    const other = start("listening.mjs", [path, "agent"]);
    const run = await idOf(other);
    const reader = await open(path, { mode: "readOnly" });
    await (await reader.orchestrator()).pause(run, { reason: "for the night", kind: "shutdown" });
    expect((await other.ended).stdout).toBe(`${run}\npaused\n`);
    await reader.close();
    const store = await open(path);
    expect(await store.runs.get(run)).toMatchObject({ status: "paused", pauseReason: "for the night", stopKind: "shutdown" });
    expect((await store.runs.resume(run)).run.resumedFrom).toBe(run);
    await store.close();
  });

  test("a flow without an orchestrator gets a command", async () => {
    const path = await freshFolder();
    const other = start("listening.mjs", [path, "flow"]);
    const flow = await idOf(other);
    const reader = await open(path, { mode: "readOnly" });
    const orchestrator = await reader.orchestrator();
    await orchestrator.send(flow, { type: "send", runId: flow, message: "go" });
    expect(await other.ended).toMatchObject({ code: 0, stdout: `${flow}\ngo\n` });
    await reader.close();
  });

  test("what nobody takes is told as such, and not done", async () => {
    const path = await freshFolder();
    const store = await open(path);
    const recorder = await store.runs.start({ session: { title: "x" }, agentName: "worker" });
    const reader = await open(path, { mode: "readOnly" });
    const orchestrator = await reader.orchestrator({ answerTimeoutMs: 300 });
    const refused = await failure(orchestrator.cancel(recorder.run.id), "locked");
    expect(refused.message).toContain("nothing was done");
    expect((await store.runs.get(recorder.run.id))?.status).toBe("running");
    await reader.close();
    await store.close();
  });
});
