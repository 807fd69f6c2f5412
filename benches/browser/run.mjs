// Runlog in Chromium beside what would be used there instead: `cargo xtask bench-browser [--rounds N] [--slice MS] [--json]
// [words]`. Builds the package with the optimised module, and serves it to a browser with a profile of its own.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = join(here, "../..");
const { values: options, positionals: words } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "5" },
    slice: { type: "string", default: "250" },
    json: { type: "boolean", default: false },
    "as-built": { type: "boolean", default: false },
  },
});

function run(command, args, cwd) {
  // What is said on the way isn't the result.
  const { status, error } = spawnSync(command, args, { cwd, stdio: ["inherit", 2, 2] });
  if (error !== undefined) throw error;
  if (status !== 0) process.exit(status ?? 1);
}

if (!existsSync(join(root, "node_modules"))) run("npm", ["ci"], root);
if (!existsSync(join(here, "node_modules"))) run("npm", ["install", "--no-save"], here);
if (!options["as-built"]) run(process.execPath, ["sdk/scripts/build.mjs", "--whole"], root);
const { chromium } = await import("playwright");

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };
const PLACES = [
  ["/sdk/", join(root, "sdk/dist/")],
  ["/sqlite/", join(here, "node_modules/@sqlite.org/sqlite-wasm/dist/")],
  ["/events.mjs", join(root, "benches/js/events.mjs")],
  ["/", here],
];

const server = createServer((request, response) => {
  const path = normalize(decodeURIComponent(new URL(request.url ?? "/", "http://localhost").pathname));
  if (path === "/") return void response.setHeader("content-type", "text/html").end("<!doctype html><title>bench</title>");
  const [from, to] = PLACES.find(([prefix]) => path.startsWith(prefix));
  readFile(to + path.slice(from.length)).then(
    (bytes) => response.setHeader("content-type", TYPES[extname(path)] ?? "application/octet-stream").end(bytes),
    () => response.writeHead(404).end(),
  );
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
const url = `http://127.0.0.1:${server.address().port}/`;

// On the device that the repository is on: a file system in memory has no flush.
const base = process.env.RUNLOG_BENCH_DIR ?? join(root, "target");
mkdirSync(base, { recursive: true });
const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const median = (values) => values.toSorted((one, other) => one - other)[values.length >> 1];
const shown = (figure) => (figure >= 100 ? Math.round(figure).toLocaleString("en") : figure.toFixed(1));
const rounds = Number(options.rounds);
const results = [];
let version = "";

/** Does something in a page of a browser with a profile of its own: what was stored before is no load for what comes next. */
async function inBrowser(work) {
  const profile = mkdtempSync(join(base, "bench-browser-"));
  const context = await chromium.launchPersistentContext(profile, { executablePath: process.env.RUNLOG_CHROMIUM ?? "/usr/bin/chromium", args });
  version = context.browser()?.version() ?? "";
  try {
    const page = await context.newPage();
    page.on("pageerror", (error) => console.error(error));
    await page.goto(url);
    return await work(page);
  } finally {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  }
}

async function pageItself(page) {
  const ready = [];
  for (let round = 0; round <= rounds; round++) {
    await page.goto(url);
    const took = await page.evaluate(async () => (await import("/page.mjs")).ready());
    if (round > 0) ready.push(took);
  }
  await page.goto(url);
  const recording = await page.evaluate(async () => (await import("/page.mjs")).recording(100_000));
  results.push({ name: "page", readyMs: median(ready), ready, recording });
}

/** Rows that a worker of the page measures. */
const inWorker = (group) => async (page) => {
  await page.exposeFunction("said", (result) => {
    if (result.measuring !== undefined) return void console.error(`measuring: ${result.measuring}`);
    if (result.error === undefined && !result.done) results.push(result);
  });
  const ended = await page.evaluate(
    (wanted) =>
      new Promise((resolve) => {
        const worker = new Worker("/worker.mjs", { type: "module" });
        worker.onerror = (event) => resolve({ error: `${event.message} ${event.filename}` });
        worker.onmessage = async ({ data }) => {
          await globalThis.said(data);
          if (data.done || data.error !== undefined) resolve(data);
        };
        worker.postMessage(wanted);
      }),
    { group, words, rounds, slice: Number(options.slice) },
  );
  if (ended.error !== undefined) throw new Error(ended.error);
};

try {
  if (words.length === 0 || words.some((word) => "page".includes(word))) await inBrowser(pageItself);
  for (const group of ["durable", "memory", "reads"]) await inBrowser(inWorker(group));
  if (options.json) {
    console.log(JSON.stringify({ chromium: version, rounds, results }, undefined, 2));
  } else {
    console.log(`Chromium ${version}, medians of ${rounds} rounds, events of 1 KiB\n`);
    for (const result of results) {
      console.log(`${result.name}${result.unit === undefined ? "" : ` (${result.unit})`}`);
      if (result.figures === undefined) {
        const { perSecond, longTasks, longestMs } = result.recording;
        console.log(`  ready after ${shown(result.readyMs)} ms; ${shown(perSecond)} events/s recorded; ${longTasks} long tasks, the longest ${shown(longestMs)} ms`);
      }
      for (const [subject, figures] of Object.entries(result.figures ?? {})) {
        console.log(`  ${subject.padEnd(14)} ${shown(median(figures)).padStart(12)}   ${shown(Math.min(...figures))}–${shown(Math.max(...figures))}`);
      }
    }
  }
} finally {
  server.close();
}
