// Records runs into a store, and takes them out again over HTTP as tables: both sides have the same.

import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { finished } from "node:stream/promises";

import { open } from "runlog";

export const PROJECT = "papers";
const STEPS = 10;

/** Records so many runs of a project: a task, then steps of an answer with a call and its result. Every 20th failed. */
export async function record(folder, count) {
  const store = await open(folder, { durability: "os" });
  for (let made = 0; made < count; made += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, at) => recordRun(store, made + at)));
  }
  await store.close();
}

async function recordRun(store, number) {
  const task = `Find papers on topic ${number}, and say which of them are worth reading and why.`;
  const run = await store.runs.start({
    session: { title: `Topic ${number}`, project: PROJECT },
    agentName: `finder-${number % 7}`,
    messages: [{ role: "user", content: task }],
  });
  for (let step = 0; step < STEPS; step++) {
    const id = `call_${step}`;
    const query = JSON.stringify({ query: `topic ${number} part ${step}`, limit: 20 });
    await run.recordMessage({
      role: "assistant",
      content: `I look at part ${step} of topic ${number}.`,
      tool_calls: [{ id, type: "function", function: { name: ["search", "read", "rank"][step % 3], arguments: query } }],
    });
    const output = `${(number * 7919 + step) % 1000} papers; ${"the first of them is about logs, and ".repeat(8)}so on`;
    await run.recordToolResult({ toolCallId: id, output, status: step % 9 === 8 ? "error" : "completed", durationMs: 40 + step });
  }
  if (number % 20 === 0) await run.fail("the index wasn't there");
  else await run.complete(`Topic ${number} has ${number % 40} papers.`);
}

/** Writes what the addresses of the history answer as three files for COPY; says the ids. */
export async function tables(url, folder) {
  const write = ["runs", "messages", "calls"].map((name) => createWriteStream(join(folder, `${name}.tsv`)));
  const [runsOut, messagesOut, callsOut] = write;
  const at = (ms) => (ms === undefined || ms === null ? null : new Date(ms).toISOString());
  const json = (value) => (value === undefined || value === null ? null : JSON.stringify(value));
  const ids = { runs: [], messages: [], calls: [] };
  const runs = await all(`${url}/api/projects/${PROJECT}/agent-runs`);
  for (const { id } of runs) {
    const run = await (await fetch(`${url}/api/projects/${PROJECT}/agent-runs/${id}`)).json();
    ids.runs.push(id);
    row(runsOut, [id, PROJECT, run.agent_id, run.session_id, run.instance_id, run.parent_run_id, run.status, run.step_count, run.max_steps, run.resumed_from, run.summary, run.error_message, at(run.created_at), at(run.completed_at)]);
    for (const one of await all(`${url}/api/projects/${PROJECT}/agent-runs/${id}/messages`)) {
      ids.messages.push(`${id}/messages/${one.id}`);
      row(messagesOut, [one.id, id, one.role, json(one.content), one.step_number, at(one.created_at)]);
    }
    for (const one of await all(`${url}/api/projects/${PROJECT}/agent-runs/${id}/tool-calls`)) {
      ids.calls.push(`${id}/tool-calls/${one.id}`);
      row(callsOut, [one.id, id, one.message_id, one.tool_call_id, one.tool_name, json(one.input), json(one.output), one.status, one.duration, one.step_number, at(one.created_at)]);
    }
  }
  for (const out of write) out.end();
  await Promise.all(write.map((out) => finished(out)));
  return ids;
}

async function all(address) {
  const items = [];
  for (let cursor = ""; ; ) {
    const answer = await fetch(`${address}?limit=1000${cursor}`);
    if (!answer.ok) throw new Error(`${address}: ${answer.status} ${await answer.text()}`);
    const page = await answer.json();
    items.push(...page.items);
    if (page.next === undefined || page.next === null) return items;
    cursor = `&cursor=${page.next}`;
  }
}

function row(out, values) {
  const text = (value) => (value === undefined || value === null ? "\\N" : String(value).replace(/[\\\t\n\r]/g, (char) => ({ "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" })[char]));
  out.write(`${values.map(text).join("\t")}\n`);
}
