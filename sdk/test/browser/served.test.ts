import { openUrl, placeOf, readFigures } from "#runlog";
import { commands } from "vitest/browser";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";

import { failure } from "../code.js";
import { answersOf } from "./answers.js";
import type {} from "./commands.js";

let folder: string;
let answers: unknown;
let bytes: number;
let server: string;

beforeAll(async () => {
  ({ folder, answers, bytes } = await commands.folderOfNode(20_000));
  server = await commands.serveFolder(folder);
}, 120_000);

afterAll(async () => {
  await commands.endServer(server);
  await commands.removeFolder(folder);
});

test("a store that a web server has says what Node says, and no more is fetched than is asked for", async () => {
  const before = await commands.countsOf(server);
  const store = await openUrl(`${server}plain/store`);
  expect(placeOf(store)).toEqual({ kind: "url" });
  const opened = await readFigures(store);
  expect(opened?.bytesTotal).toBe(bytes);
  expect(opened?.bytesRead).toBeLessThan(bytes / 5);
  await store.runs.list();
  expect((await readFigures(store))?.bytesRead).toBeLessThan(bytes / 5);
  const counted = await commands.countsOf(server);
  const figures = await readFigures(store);
  expect(counted.requests - before.requests).toBe(figures?.reads);
  expect(counted.bytes - before.bytes).toBe(figures?.bytesRead);
  expect(await answersOf(store)).toEqual(answers);
  await failure(store.createSession(), "read_only");
  await store.close();
  expect(await readFigures(store)).toBeUndefined();
});

test("every byte of it can be verified, in fewer requests than it has blocks", async () => {
  const store = await openUrl(`${server}plain/store/`);
  expect((await store.verify()).sound).toBe(true);
  const figures = await readFigures(store);
  expect(figures?.reads).toBeLessThan(bytes / (64 << 10));
  await store.close();
});

test.each(["application", "moved", "signed"])("it is opened from a server that is %s", async (way) => {
  const store = await openUrl(`${server}${way}/store?key=s3`);
  expect(await answersOf(store)).toEqual(answers);
  await store.close();
});

test("names that are given need no server that says what is missing", async () => {
  await failure(openUrl(`${server}guarded/store`), "io");
  const files = ["RUNLOG", "END", "CHECKPOINT", ...Array.from({ length: 20 }, (_, at) => `${String(at + 1).padStart(8, "0")}.seg`)];
  await failure(openUrl(`${server}plain/store`, { files }), "not_found");
  const store = await openUrl(`${server}plain/store`);
  const listed = (await store.stat()).segments;
  await store.close();
  const known = await openUrl(`${server}guarded/store`, { files: files.slice(0, 3 + listed) });
  expect(await answersOf(known)).toEqual(answers);
  await known.close();
});

test.each([
  ["whole", "unsupported", "whole file"],
  // It doesn't say how long files are: the first ones are small, and taken.
  ["endless", "unsupported", "CHECKPOINT: the server gave the whole file"],
  ["hidden", "unsupported", "Access-Control-Expose-Headers"],
  ["closed", "io", "CORS"],
  ["failing", "io", "503"],
  ["signed", "io", "403"],
] as const)("a server that is %s is told of", async (way, code, message) => {
  expect((await failure(openUrl(`${server}${way}/store`), code)).message).toContain(message);
});

test("what is no store is told", async () => {
  await failure(openUrl("http://127.0.0.1:9/"), "io");
  await failure(openUrl(new URL("/nothing/here", location.href)), "not_found");
  await failure(openUrl("file:///tmp"), "invalid_input");
  await failure(openUrl("http://"), "invalid_input");
});

test("a file that changes while the store is open is told", async () => {
  const other = await commands.folderOfNode(20_000);
  onTestFinished(() => commands.removeFolder(other.folder));
  const url = await commands.serveFolder(other.folder);
  onTestFinished(async () => void (await commands.endServer(url)));
  const store = await openUrl(`${url}plain/store`);
  onTestFinished(() => store.close());
  await commands.changeFolder(other.folder, { touch: "00000002.seg" });
  expect((await failure(store.verify(), "io")).message).toContain("has changed");
});

test("a server that goes away while the store is open is told", async () => {
  const url = await commands.serveFolder(folder);
  const store = await openUrl(`${url}plain/store`);
  onTestFinished(() => store.close());
  await commands.endServer(url);
  expect((await failure(store.verify(), "io")).message).toContain("can't be fetched");
});

test("a server that fails is asked once in a while, not by each read", async () => {
  const url = await commands.serveFolder(folder);
  onTestFinished(async () => void (await commands.endServer(url)));
  const store = await openUrl(`${url}plain/store`);
  onTestFinished(() => store.close());
  await commands.breakServer(url, true);
  const before = await commands.countsOf(url);
  // Each read of the store reads many blocks, of which none can be had.
  const failed = await failure(store.verify(), "io");
  expect(failed.message).toContain("answered 503");
  for (let round = 0; round < 5; round += 1) await failure(store.read().toArray(), "io");
  const after = await commands.countsOf(url);
  expect(after.requests - before.requests).toBeLessThanOrEqual(3);
  await commands.breakServer(url, false);
  await expect.poll(() => store.verify().then(({ sound }) => sound, () => undefined), { timeout: 20_000, interval: 500 }).toBe(true);
});
