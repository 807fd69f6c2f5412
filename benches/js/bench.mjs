// Runlog from JavaScript beside the stores that would be used instead, measured in turns in one run. Started by run.mjs,
// which builds what it needs.

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { once } from "node:events";
import { cpus } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { Quiet, inTurns, median, perSecond, ratio } from "./measure.mjs";
import { stores } from "./stores.mjs";
import { READ_EVENTS, READ_STREAMS, STREAMS, objects } from "./workload.mjs";

const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "5" },
    slice: { type: "string", default: "150" },
    quiet: { type: "string", default: "0" },
    json: { type: "boolean", default: false },
  },
});
if (!process.env.RUNLOG_IN_FLIGHT) {
  console.error("start it by run.mjs, which builds what it needs");
  process.exit(2);
}
const rounds = Number(options.rounds);
const sliceMs = Number(options.slice);
// How many seconds in all it may wait for other work on the machine to be over.
const quiet = new Quiet(Number(options.quiet) * 1000);
const IN_FLIGHT = 1000;
const BATCH = 100;
const BUFFERED_BATCH = 256;
const PEERS = Object.keys(stores).filter((name) => name !== "runlog");

// On the device that the repository is on: a file system in memory has no flush.
const base = process.env.RUNLOG_BENCH_DIR ?? fileURLToPath(new URL("../../target/", import.meta.url));
mkdirSync(base, { recursive: true });
const folder = mkdtempSync(join(base, "bench-js-"));
let folders = 0;
const fresh = (name) => join(folder, `${folders++}-${name.replaceAll(":", "-")}`);

const wanted = (name) => words.length === 0 || words.some((word) => name.includes(word));
const results = [];

/** Measures a row: the figures of each subject, its medians, and how Runlog stands to what it is held to. */
async function row(name, unit, subjects, targets = []) {
  if (!wanted(name)) return;
  const { figures, processorUs } = await inTurns(await subjects(), rounds, sliceMs, quiet);
  const medians = Object.fromEntries(Object.entries(figures).map(([subject, all]) => [subject, median(all)]));
  const processor = Object.fromEntries(Object.entries(processorUs).map(([subject, all]) => [subject, median(all)]));
  // What another process does isn't seen here.
  delete processor.Rust;
  results.push({ name, unit, medians, figures, processor, targets: targets.map((target) => target(figures, medians)) });
}

/** Runlog against another subject. */
const against = (other, atLeast) => (figures) => {
  return { what: `× ${other}`, is: ratio(figures, "runlog", other), atLeast };
};

/** Runlog against the best of the peers. */
const againstBest = (atLeast) => (figures, medians) => {
  const best = PEERS.filter((name) => name in medians).reduce((one, other) => (medians[other] > medians[one] ? other : one));
  return { what: `× the best of them (${best})`, is: ratio(figures, "runlog", best), atLeast };
};

const absolute = (atLeast) => (_, medians) => ({ what: "a second", is: medians.runlog, atLeast });

const opened = [];

/** All stores, opened, as subjects of the same work. */
async function each(work) {
  const subjects = {};
  for (const [name, open] of Object.entries(stores)) {
    const store = await open(fresh(name));
    opened.push(store);
    subjects[name] = work(store);
  }
  return subjects;
}

/** Appends one by one. */
const oneByOne = (store) => {
  let index = 0;
  return (slice) =>
    perSecond(async () => {
      await store.append(1 + (index % STREAMS), index++);
      return 1;
    }, slice);
};

/** Appends from a thousand callers, each of which awaits its own. */
const inFlight = (store) => {
  let index = 0;
  return async (slice) => {
    const began = performance.now();
    const first = index;
    // Looked at now and then, since it costs as much as a tenth of an append; a timer would never come where appends
    // block the thread.
    let isOver = false;
    const caller = async () => {
      do {
        await store.append(1 + (index % STREAMS), index++);
        if (index % 64 === 0) isOver = performance.now() - began >= slice;
      } while (!isOver);
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, caller));
    return ((index - first) / (performance.now() - began)) * 1000;
  };
};

/** Appends batches, each awaited. */
const batched = (store) => {
  let index = 0;
  return (slice) =>
    perSecond(async () => {
      const first = (index += BATCH);
      await store.appendBatch(1 + ((index / BATCH) % STREAMS), Array.from({ length: BATCH }, (_, at) => first + at));
      return BATCH;
    }, slice);
};

/** The same from Rust: a process that is told when to go. */
function fromRust() {
  const child = spawn(process.env.RUNLOG_IN_FLIGHT, [fresh("rust"), String(IN_FLIGHT)], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  opened.push({
    async close() {
      child.stdin.end();
      await once(child, "exit");
    },
  });
  return async (slice) => {
    child.stdin.write(`${slice}\n`);
    const [line] = await Promise.race([once(lines, "line"), once(child, "exit").then(() => [undefined])]);
    if (line === undefined) throw new Error("the process that measures Rust ended");
    return Number(line);
  };
}

/** Buffered appends of batches into a store that is new each time, with a few of them under way. */
function buffered(append) {
  return async (slice) => {
    const path = fresh("buffered");
    const store = await stores.runlog(path, { durability: "os" });
    const under = [];
    let count = 0;
    const indexes = Array.from({ length: BUFFERED_BATCH }, (_, at) => at);
    const figure = await perSecond(async () => {
      under.push(append(store, 1 + (count++ % STREAMS), indexes));
      if (under.length === 16) await under.shift();
      return BUFFERED_BATCH;
    }, slice);
    await Promise.all(under);
    await store.close();
    rmSync(path, { recursive: true, force: true });
    return figure;
  };
}

async function readers(read) {
  const subjects = {};
  for (const [name, open] of Object.entries(stores)) {
    const store = await open(prepared(name));
    opened.push(store);
    let stream = 0;
    subjects[name] = (slice) =>
      perSecond(async () => {
        const events = await read(store, 1 + (stream++ % READ_STREAMS));
        if (events.length !== READ_EVENTS) throw new Error(`${name} has ${events.length} events, not ${READ_EVENTS}`);
        return events.length;
      }, slice);
  }
  return subjects;
}

const preparedFolders = new Map();
const prepared = (name) => preparedFolders.get(name);

/** Makes the stores that are read: streams whose events came in turns. */
async function prepare() {
  const PART = 50;
  for (const [name, open] of Object.entries(stores)) {
    const path = fresh(name);
    preparedFolders.set(name, path);
    const store = await open(path);
    for (let part = 0; part < READ_EVENTS / PART; part++) {
      for (let stream = 1; stream <= READ_STREAMS; stream++) await store.fill(stream, PART);
    }
    await store.close();
  }
}

async function closeAll() {
  for (const store of opened.splice(0)) await store.close();
}

/** Opens each store in a process of its own. */
function openings() {
  const figures = {};
  for (const name of Object.keys(stores)) figures[name] = { openMs: [], rssMiB: [] };
  const script = fileURLToPath(new URL("opened.mjs", import.meta.url));
  for (let round = 0; round <= rounds; round++) {
    for (const name of Object.keys(stores)) {
      const said = execFileSync(process.execPath, ["--expose-gc", "--no-warnings", script, name, prepared(name)]);
      const { openMs, rssMiB } = JSON.parse(said);
      if (round === 0) continue;
      figures[name].openMs.push(openMs);
      figures[name].rssMiB.push(rssMiB);
    }
  }
  for (const [what, name, unit] of [
    ["openMs", "open, and import the package", "ms"],
    ["rssMiB", "memory once open and 1,000 events read", "MiB"],
  ]) {
    const all = Object.fromEntries(Object.entries(figures).map(([store, its]) => [store, its[what]]));
    const medians = Object.fromEntries(Object.entries(all).map(([store, its]) => [store, median(its)]));
    results.push({ name, unit, medians, figures: all, targets: [] });
  }
}

function report() {
  if (options.json) {
    console.log(JSON.stringify({ node: process.version, cpus: cpus().length, rounds, sliceMs, results }, undefined, 2));
    return;
  }
  const shown = (figure) => (figure >= 100 ? Math.round(figure).toLocaleString("en") : figure.toFixed(2));
  console.log(`Node ${process.version}, ${cpus().length} processors, medians of ${rounds} rounds, events of 1 KiB\n`);
  for (const { name, unit, medians, figures, processor = {}, targets } of results) {
    console.log(`${name} (${unit})`);
    for (const [subject, figure] of Object.entries(medians)) {
      const range = `${shown(Math.min(...figures[subject]))}–${shown(Math.max(...figures[subject]))}`;
      const took = subject in processor ? `   ${shown(processor[subject])} µs of processor time each` : "";
      console.log(`  ${subject.padEnd(24)} ${shown(figure).padStart(12)}   ${range}${took}`);
    }
    for (const { what, is, atLeast } of targets) {
      const verdict = is >= atLeast ? "met" : "MISSED";
      console.log(`  ${verdict}: ${shown(is)} ${what}, wanted at least ${atLeast.toLocaleString("en")}`);
    }
    console.log();
  }
}

try {
  await row("durable, one by one", "events/s", () => each(oneByOne));
  await closeAll();
  const both = async () => ({ ...(await each(inFlight)), Rust: fromRust() });
  await row("durable, 1,000 in flight", "events/s", both, [against("Rust", 0.5), againstBest(5)]);
  await closeAll();
  await row("durable, batches of 100", "events/s", () => each(batched), [againstBest(1)]);
  await closeAll();
  const packed = { runlog: buffered((store, stream, indexes) => store.appendBatch(stream, indexes)) };
  await row("buffered, bytes in batches of 256", "events/s", async () => packed, [absolute(1_000_000)]);
  const encoded = {
    runlog: buffered((store, stream, indexes) => store.appendObjects(stream, indexes)),
    "JSON.stringify alone": (slice) => {
      let length = 0;
      const stringified = perSecond(async () => {
        for (let index = 0; index < BUFFERED_BATCH; index++) length += JSON.stringify(objects[index]).length;
        return BUFFERED_BATCH;
      }, slice);
      return stringified.then((figure) => (length > 0 ? figure : 0));
    },
  };
  await row("buffered, objects", "events/s", async () => encoded, [against("JSON.stringify alone", 0.8)]);
  if (["replay", "open", "memory"].some(wanted)) {
    await prepare();
    await row("replay of 1,000, as bytes", "events/s", () => readers((store, stream) => store.readBytes(stream)), [againstBest(3)]);
    await closeAll();
    await row("replay of 1,000, as objects", "events/s", () => readers((store, stream) => store.readObjects(stream)), [againstBest(1.2)]);
    await closeAll();
    if (wanted("open") || wanted("memory")) openings();
  }
  report();
} finally {
  await closeAll();
  rmSync(folder, { recursive: true, force: true });
}
