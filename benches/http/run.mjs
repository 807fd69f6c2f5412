// The history of runs over HTTP, by `runlog serve` and by a server over tables of PostgreSQL, in turns, each asked by wrk.
//
//   node benches/http/run.mjs RUNLOG OTHER [--rounds N] [--seconds N] [--runs N] [--json]
//
// RUNLOG is the command, OTHER the server of this folder; `cargo xtask bench-http` builds both. The same rows are in both,
// taken from the one and copied into the other; connections and addresses are the same.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";

import { PROJECT, record, tables } from "./fill.mjs";
import { startPostgres } from "./postgres.mjs";

const here = import.meta.dirname;
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: "string", default: "5" }, seconds: { type: "string", default: "2" }, runs: { type: "string", default: "2000" }, connections: { type: "string", default: "32" }, json: { type: "boolean", default: false } },
});
const [runlog, other] = positionals;
if (runlog === undefined || other === undefined) throw new Error("usage: run.mjs RUNLOG OTHER [--rounds N] [--seconds N] [--runs N] [--json]");
try {
  execFileSync("wrk", ["--version"], { stdio: "ignore" });
} catch (error) {
  // Its version is told with an error code.
  if (error.code === "ENOENT") throw new Error("wrk is missing, which asks the servers: `apt-get install wrk`");
}

const folder = mkdtempSync(join(tmpdir(), "runlog-bench-http-"));
const ends = [() => rmSync(folder, { recursive: true, force: true })];
try {
  await measure();
} finally {
  for (const end of ends.reverse()) end();
}

async function measure() {
  const store = join(folder, "store");
  await record(store, Number(values.runs));
  const ours = await started(runlog, ["--store", store, "serve", "--listen", "127.0.0.1:0"]);
  const ids = await tables(ours, folder);
  const file = (name) => join(folder, `${name}.tsv`);
  const postgres = await startPostgres(folder, readFileSync(join(here, "schema.sql")), { agent_runs: file("runs"), agent_run_messages: file("messages"), agent_run_tool_calls: file("calls") });
  ends.push(() => postgres.stop());
  const theirs = await started(other, [folder, "postgres", postgres.user]);
  const base = `/api/projects/${PROJECT}/agent-runs`;
  const some = (list) => list.filter((_, at) => at % Math.ceil(list.length / 500) === 0);
  const queries = {
    "runs, first 50": [`${base}?limit=50`],
    "runs that failed, first 50": [`${base}?status=failed&limit=50`],
    "one run": some(ids.runs).map((id) => `${base}/${id}`),
    "messages of a run": some(ids.runs).map((id) => `${base}/${id}/messages?limit=50`),
    "one message": some(ids.messages).map((path) => `${base}/${path}`),
    "tool calls of a run": some(ids.runs).map((id) => `${base}/${id}/tool-calls?limit=50`),
    "tool calls that failed": some(ids.runs).map((id) => `${base}/${id}/tool-calls?status=error&limit=50`),
    "one tool call": some(ids.calls).map((path) => `${base}/${path}`),
  };
  const figures = {};
  for (const [name, paths] of Object.entries(queries)) {
    await compare(name, ours, theirs, paths);
    writeFileSync(join(folder, "paths"), paths.join("\n"));
    const rounds = { runlog: [], postgres: [] };
    for (let round = 0; round <= Number(values.rounds); round++) {
      // Each round begins with the other one; the first warms up and doesn't count.
      for (const side of round % 2 === 0 ? ["runlog", "postgres"] : ["postgres", "runlog"]) {
        const figure = asked(side === "runlog" ? ours : theirs);
        if (round > 0) rounds[side].push(figure);
      }
    }
    figures[name] = rounds;
  }
  tell(figures);
}

/** An answer over a connection of its own: wrk is waited for without looking at those that a server closes meanwhile. */
async function answerOf(url) {
  const response = await new Promise((resolve, reject) => get(url, { agent: false }, resolve).on("error", reject));
  return JSON.parse(Buffer.concat(await response.toArray()).toString());
}

/** Starts a server, and gives the address that it prints. */
async function started(program, args) {
  const server = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], env: { ...process.env, RUNLOG_READ_TOKEN: undefined, RUNLOG_WRITE_TOKEN: undefined } });
  ends.push(() => server.kill("SIGTERM"));
  for await (const line of createInterface(server.stdout)) return line.trim().replace(/\/$/, "");
  throw new Error(`${program} doesn't serve`);
}

/** Both sides have to answer the same, but for the cursor, and what only one of them tells. */
async function compare(name, ours, theirs, paths) {
  const [one, two] = await Promise.all([ours, theirs].map(async (url) => answerOf(url + paths[0])));
  const [mine, other] = [one, two].map((page) => page.items ?? [page]);
  if (mine.length !== other.length || (one.next === null) !== (two.next === null)) throw new Error(`${name}: ${mine.length} items and ${other.length}`);
  // Runs of the same millisecond may come in another order.
  const known = new Map(other.map((item) => [item.id, item]));
  const both = mine.filter((item) => known.has(item.id));
  if (both.length < mine.length / 2) throw new Error(`${name}: the items are others`);
  for (const item of both) {
    for (const [key, value] of Object.entries(known.get(item.id))) {
      if (JSON.stringify(sorted(item[key] ?? null)) !== JSON.stringify(sorted(value))) throw new Error(`${name}: ${key} is ${JSON.stringify(item[key])} and ${JSON.stringify(value)}`);
    }
  }
}

/** jsonb has keys in an order of its own. */
function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])]));
}

function asked(url) {
  const said = execFileSync("wrk", ["-t", "1", "-c", values.connections, "-d", `${values.seconds}s`, "--latency", "-s", join(here, "rotate.lua"), url], { env: { ...process.env, RUNLOG_PATHS: join(folder, "paths") }, encoding: "utf8" });
  if (/^status|Non-2xx|Socket errors/m.test(said)) throw new Error(`${url}: ${said}`);
  const rate = Number(/Requests\/sec:\s+([\d.]+)/.exec(said)?.[1]);
  const [, amount, unit] = /99%\s+([\d.]+)(us|ms|s)/.exec(said) ?? [];
  return { rate, p99: Number(amount) * { us: 0.001, ms: 1, s: 1000 }[unit] };
}

function tell(figures) {
  if (values.json) return console.log(JSON.stringify(figures));
  const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
  console.log(`medians of ${values.rounds} rounds of ${values.seconds} s, ${values.connections} connections, ${values.runs} runs\n`);
  console.log("| | runlog, requests/s | PostgreSQL, requests/s | ratio | p99 of runlog, ms | p99 of PostgreSQL, ms |\n| --- | --- | --- | --- | --- | --- |");
  for (const [name, { runlog, postgres }] of Object.entries(figures)) {
    const [rate, otherRate] = [runlog, postgres].map((rounds) => median(rounds.map((one) => one.rate)));
    const [p99, otherP99] = [runlog, postgres].map((rounds) => median(rounds.map((one) => one.p99)));
    console.log(`| ${name} | ${Math.round(rate).toLocaleString("en")} | ${Math.round(otherRate).toLocaleString("en")} | ${(rate / otherRate).toFixed(1)} | ${p99.toFixed(1)} | ${otherP99.toFixed(1)} |`);
  }
}
