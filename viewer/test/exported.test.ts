// A run that `runlog export --html` wrote, opened from a disk.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { open } from "runlog";
import { beforeAll, expect, onTestFinished, test } from "vitest";

import { command, runlog } from "./command.js";
import { lines, viewer } from "./page.js";

const app = viewer();
let path = "";
beforeAll(async () => void (path = await command()), 900_000);

const HOSTILE = "</title></script><script>alert(1)</script> \u2028\u2029 <!-- ]]> {{RUNLOG_RECORDING}} & ünïcode 🦀";

/** A page of a run that spawned another one, with a run beside them that isn't in it. */
async function exported() {
  const folder = await mkdtemp(join(tmpdir(), "runlog-exported-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const store = await open(join(folder, "store"));
  const beside = await store.runs.start({ session: { title: "Beside" }, agentName: "other", messages: [{ role: "user", content: "Not for you." }] });
  await beside.complete("done");
  const run = await store.runs.start({ session: { title: HOSTILE }, agentName: "coder", messages: [{ role: "user", content: HOSTILE }] });
  const below = await store.runs.start({ session: { title: "Below" }, agentName: "tester", parentRunId: run.id, messages: [{ role: "user", content: "Test it." }] });
  await below.recordMessage({ role: "assistant", content: "It holds." });
  await below.complete("done");
  await run.recordMessage({ role: "assistant", content: "The end of it." });
  await run.complete("done");
  await store.close();
  const page = async (id: string, name: string) => {
    const file = join(folder, name);
    await runlog(path, "--store", join(folder, "store"), "export", "--html", id, "--output", file);
    return file;
  };
  return { run: run.id, below: below.id, page };
}

test("a run is there by itself when its file is opened, with those that it spawned, and nothing of it is markup", async () => {
  const { run, page: pageOf } = await exported();
  const { page, told, close } = await app.open(pathToFileURL(await pageOf(run, "run.html")).href);
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("The end of it.");
  expect((await lines(page)).join("\n")).toContain("</script><script>alert(1)</script>");
  await expect.poll(() => page.title()).toContain("</title></script><script>alert(1)</script>");
  const tree = page.getByRole("tree", { name: "Sessions and agents" });
  await expect.poll(() => tree.innerText()).toContain("tester");
  await expect.poll(() => tree.innerText()).not.toContain("Beside");
  await tree.getByText("tester").first().click();
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("It holds.");
  const asked = await page.evaluate(() => performance.getEntriesByType("resource").filter((entry) => !/^(blob|data):/.test(entry.name)).map((entry) => entry.name));
  expect(asked).toEqual([]);
  expect(told).toEqual([]);
  await close();
});

test("what was said in a chat has its own time, not that at which the file is opened", async () => {
  const folder = await mkdtemp(join(tmpdir(), "runlog-chat-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const store = await open(join(folder, "store"));
  const { chatId } = await store.chats.create({ assistantId: "travel" });
  const createdAt = new Date(2026, 0, 5, 12, 34, 56, 789);
  const message = { type: "text", props: { content: "Oslo?" }, createdAtMs: createdAt.getTime() };
  const request = await store.chats.beginRequest(chatId, { assistantId: "travel", message });
  await request.send({ role: "assistant", type: "text", props: { content: "By train." }, createdAtMs: createdAt.getTime() + 1000 });
  await request.finish("completed");
  await store.close();
  const file = join(folder, "chat.html");
  await runlog(path, "--store", join(folder, "store"), "export", "--html", chatId, "--output", file);
  const { page, told, close } = await app.open(pathToFileURL(file).href);
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("By train.");
  await page.getByRole("tab", { name: "events" }).click();
  const events = page.locator("#view");
  await expect.poll(() => events.innerText()).toContain("2026-01-05 12:34:56.789");
  await expect.poll(() => events.innerText()).toContain("2026-01-05 12:34:57.789");
  expect(told).toEqual([]);
  await close();
});

test("a call that a fork shares has the result that each of the two gave it", async () => {
  const folder = await mkdtemp(join(tmpdir(), "runlog-forked-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const store = await open(join(folder, "store"));
  const run = await store.runs.start({ session: { title: "The first" }, agentName: "coder", messages: [{ role: "user", content: "Run the tests." }] });
  const call = { id: "call_1", type: "function", function: { name: "run_tests", arguments: "{}" } };
  await run.recordMessage({ role: "assistant", content: null, tool_calls: [call] });
  const { sessionId } = (await store.runs.get(run.id)) as { sessionId: string };
  const forked = async (title: string) => (await store.copySession(sessionId, { title })).instances[0]?.instance.id as string;
  const [answered] = [await forked("The second"), await forked("The third")];
  await run.recordMessage({ role: "tool", tool_call_id: "call_1", content: "three passed" });
  await run.complete("done");
  const fork = await store.context(answered);
  await fork.appendMessage({ role: "tool", tool_call_id: "call_1", content: "one failed", is_error: true });
  await store.close();
  const file = join(folder, "all.html");
  await runlog(path, "--store", join(folder, "store"), "export", "--all", "--html", "--output", file);
  const { page, told, close } = await app.open(pathToFileURL(file).href);
  const callOf = async (agent: RegExp) => {
    await page.getByRole("treeitem", { name: agent }).first().click();
    await expect.poll(() => page.getByRole("treeitem", { name: agent }).first().getAttribute("aria-selected")).toBe("true");
    if ((await page.locator(".call.open").count()) === 0) await page.getByRole("button", { name: /run_tests/ }).first().click();
    return page.locator(".call.open").innerText();
  };
  await expect.poll(() => callOf(/coder/)).toContain("three passed");
  await expect.poll(() => callOf(/The third/)).not.toMatch(/passed|failed/);
  await expect.poll(() => callOf(/The second/)).toContain("one failed");
  await page.keyboard.press("c");
  await expect.poll(() => page.locator(".compare .pair.changed").count()).toBe(1);
  expect(told).toEqual([]);
  await close();
});

test("the agent whose run was exported is shown first, and a link to a place is followed", async () => {
  const { below, page: pageOf } = await exported();
  const url = pathToFileURL(await pageOf(below, "below.html")).href;
  const { page, told, close } = await app.open(url);
  await expect.poll(async () => (await lines(page)).join("\n")).toContain("It holds.");
  await page.locator("#tab-events").click();
  const link = page.url();
  expect(link).toContain("tab=events");
  await close();
  const again = await app.open(link);
  await again.page.locator("#tab-events[aria-selected=true]").waitFor();
  expect([...told, ...again.told]).toEqual([]);
  await again.close();
});

test("a file that lost its end says so", async () => {
  const { run, page: pageOf } = await exported();
  const file = await pageOf(run, "cut.html");
  const whole = await readFile(file, "utf8");
  const [before, recording] = whole.split('id="runlog-recording">') as [string, string];
  const end = recording.indexOf("</script>");
  await writeFile(file, `${before}id="runlog-recording">${recording.slice(0, Math.floor(end / 2))}${recording.slice(end)}`);
  const { page, close } = await app.open(pathToFileURL(file).href);
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("damaged");
  await page.getByRole("button", { name: "Look at an example" }).click();
  await page.getByText("I'll look at the project first.").waitFor();
  await close();
});
