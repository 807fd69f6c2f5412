import { type Picked, filesIn, openFiles, placeOf, readFigures } from "#runlog";
import { commands } from "vitest/browser";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";

import { failure } from "../code.js";
import { answersOf } from "./answers.js";
import { chosen } from "./choose.js";
import type {} from "./commands.js";

let folder: string;
let answers: unknown;
let bytes: number;

beforeAll(async () => {
  ({ folder, answers, bytes } = await commands.folderOfNode(20_000));
}, 120_000);

afterAll(() => commands.removeFolder(folder));

/** What is above the store's folder: a README beside it. */
const project = () => folder.slice(0, folder.lastIndexOf("/"));

/** What a page makes of a drop: in its event's turn, since what was dropped is gone after it. */
async function dropped<T>(paths: string[], use: (transfer: DataTransfer) => Promise<T>): Promise<T> {
  document.body.insertAdjacentHTML("beforeend", '<div id="zone" style="width: 200px; height: 200px">Drop it here</div>');
  const zone = document.body.lastElementChild as HTMLElement;
  zone.addEventListener("dragover", (over) => over.preventDefault());
  const used = new Promise<T>((resolve, reject) =>
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      use(event.dataTransfer as DataTransfer).then(resolve, reject);
    }),
  );
  // It may fail while the drop is still under way, before anybody waits for it below.
  used.catch(() => {});
  await commands.dropFolders("#zone", paths);
  return used.finally(() => zone.remove());
}

async function isAnswered(opening: ReturnType<typeof openFiles>): Promise<void> {
  const store = await opening;
  onTestFinished(() => store.close());
  expect(await answersOf(store)).toEqual(answers);
}

test("a folder that a user picks says what Node says, and no more is read than is asked for", async () => {
  const files = await chosen(folder);
  const store = await openFiles(files);
  expect(placeOf(store)).toEqual({ kind: "files" });
  const opened = await readFigures(store);
  expect(opened?.bytesTotal).toBe(bytes);
  // The beginnings and ends of files: no event.
  expect(opened?.bytesRead).toBeLessThan(bytes / 5);
  const { items } = await store.runs.list();
  expect(items).toHaveLength(1);
  expect((await readFigures(store))?.bytesRead).toBeLessThan(bytes / 5);
  expect(await answersOf(store)).toEqual(answers);
  expect((await readFigures(store))?.bytesRead).toBeLessThan(bytes);
  expect((await store.verify()).sound).toBe(true);
  await failure(store.createSession(), "read_only");
  await store.close();
  expect(await readFigures(store)).toBeUndefined();
});

test("the store may lie in a folder below what was picked", async () => {
  await isAnswered(openFiles(await chosen(project())));
});

test("a folder that is dropped is opened, and named by its paths", async () => {
  const [paths, store] = await dropped([project()], (transfer) => Promise.all([filesIn(transfer), openFiles(transfer)]));
  expect([...paths.keys()]).toContain("project/README.md");
  expect([...paths.keys()]).toContain("project/store/RUNLOG");
  await isAnswered(Promise.resolve(store));
});

test("of two stores that are dropped one has to be named", async () => {
  await commands.changeFolder(folder, { copyTo: "copy" });
  const error = await failure(dropped([project()], (transfer) => openFiles(transfer)), "invalid_input");
  expect(error.message).toContain('"project/store"');
  expect(error.message).toContain('"project/copy"');
  await isAnswered(dropped([project()], (transfer) => openFiles(transfer, { folder: "project/copy" })));
  expect((await failure(dropped([project()], (transfer) => openFiles(transfer, { folder: "project/nothing" })), "not_found")).message).toContain('"project/copy"');
});

test("a folder's handle is opened, with the store below", async () => {
  const root = await navigator.storage.getDirectory();
  const name = `picked ${crypto.randomUUID()}`;
  onTestFinished(() => root.removeEntry(name, { recursive: true }));
  const below = await (await root.getDirectoryHandle(name, { create: true })).getDirectoryHandle("below", { create: true });
  for (const file of await chosen(folder)) {
    const stream = await (await below.getFileHandle(file.name, { create: true })).createWritable();
    await file.stream().pipeTo(stream);
  }
  await isAnswered(openFiles(await root.getDirectoryHandle(name)));
});

test("a file that is changed after it was picked is told", async () => {
  const other = await commands.folderOfNode(5000);
  onTestFinished(() => commands.removeFolder(other.folder));
  const store = await openFiles(await chosen(other.folder));
  onTestFinished(() => store.close());
  await commands.changeFolder(other.folder, { longer: "00000001.seg" });
  expect((await failure(store.verify(), "io")).message).toContain("pick it again");
});

test("files that are no store are told", async () => {
  await failure(openFiles(new Map()), "not_found");
  await failure(openFiles([]), "not_found");
  await failure(openFiles(new Map([["RUNLOG", new Blob(["hello"])]])), "not_a_store");
  await failure(openFiles([new File(["# hello"], "README.md")]), "not_a_store");
  const file = new File(["x"], "RUNLOG");
  await failure(openFiles([file, file]), "invalid_input");
  for (const wrong of [[1], 7, null, new Map([["RUNLOG", "text"]])]) await failure(openFiles(wrong as unknown as Picked), "invalid_input");
});
