// A large store, as `npm run measure:browser` opens it: what is read of it, and how long that takes. It asserts what is
// read and answered, and prints the rest.

import { type Store, openFiles, openUrl, readFigures } from "#runlog";
import { commands } from "vitest/browser";
import { afterAll, beforeAll, expect, test } from "vitest";

import { answersOf } from "../browser/answers.js";
import { chosen } from "../browser/choose.js";
import type {} from "../browser/commands.js";

const EVENTS = 1_000_000;

let folder: string;
let answers: unknown;
let bytes: number;

beforeAll(async () => {
  ({ folder, answers, bytes } = await commands.folderOfNode(EVENTS, 64 << 20));
}, 600_000);

afterAll(() => commands.removeFolder(folder));

async function measured(what: string, open: () => Promise<Store>): Promise<void> {
  const lines: string[] = [`${EVENTS} events, ${(bytes / 2 ** 20).toFixed(0)} MiB, ${what}`];
  const lap = async (name: string, store: Store, began: number) => {
    const { reads = 0, bytesRead = 0 } = (await readFigures(store)) ?? {};
    lines.push(`  ${name.padEnd(28)} ${(performance.now() - began).toFixed(0).padStart(7)} ms ${String(reads).padStart(6)} reads ${(bytesRead / 1024).toFixed(0).padStart(8)} KiB so far`);
    return bytesRead;
  };
  let began = performance.now();
  const store = await open();
  // Beginnings and ends of its segments, and the files beside them.
  expect(await lap("opened", store, began)).toBeLessThan(bytes / 50);
  began = performance.now();
  await store.runs.list();
  await store.listSessions();
  expect(await lap("lists of runs and sessions", store, began)).toBeLessThan(bytes / 50);
  began = performance.now();
  const [longest] = (await store.streams.list()).sort((one, other) => other.lastSequence - one.lastSequence);
  expect(await store.streams.read(longest?.id ?? "", { first: 50_000, limit: 100 }).toArray()).toHaveLength(100);
  expect(await lap("a page in the middle", store, began)).toBeLessThan(bytes / 20);
  began = performance.now();
  expect(await answersOf(store)).toEqual(answers);
  expect(await lap("every query, as in Node", store, began)).toBeLessThan(bytes / 5);
  began = performance.now();
  expect((await store.verify()).sound).toBe(true);
  await lap("every byte verified", store, began);
  await store.close();
  console.log(lines.join("\n"));
}

test("from files", { timeout: 300_000 }, async () => {
  const files = await chosen(folder);
  await measured("from files", () => openFiles(files));
});

test("from a web server", { timeout: 300_000 }, async () => {
  const url = await commands.serveFolder(folder);
  await measured("from a web server on this machine", () => openUrl(`${url}plain/store`));
  await commands.endServer(url);
});

test("a gigabyte is opened and scanned, and the page stays alive", { timeout: 900_000 }, async () => {
  const GIGABYTE = 1_000_000_000;
  const large = await commands.largeFolderOfNode(GIGABYTE);
  const files = await chosen(large.folder);
  const tasks: number[] = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration)));
  observer.observe({ type: "longtask" });
  const lines: string[] = ["1 GB in messages of 8 KiB"];
  const lap = async (name: string, work: () => Promise<unknown>) => {
    const began = performance.now();
    await work();
    // What was observed is told in a task of its own.
    await new Promise((resolve) => setTimeout(resolve, 200));
    lines.push(`  ${name.padEnd(28)} ${(performance.now() - began - 200).toFixed(0).padStart(7)} ms, long tasks: ${tasks.splice(0).map(Math.round).join(", ") || "none"}`);
  };
  let store: Store | undefined;
  await lap("opened", async () => (store = await openFiles(files)));
  await lap("every record read", async () => {
    let records = 0;
    for await (const page of (store as Store).read().pages()) records += page.length;
    expect(records).toBe(large.records);
  });
  await lap("searched", async () => {
    for await (const page of (store as Store).search("not there")) expect(page).toBeDefined();
  });
  await lap("verified", async () => expect((await (store as Store).verify()).sound).toBe(true));
  await (store as Store).close();
  observer.disconnect();
  await commands.removeFolder(large.folder);
  console.log(lines.join("\n"));
});
