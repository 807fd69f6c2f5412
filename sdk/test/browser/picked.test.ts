import { openFiles } from "#runlog";
import { commands } from "vitest/browser";
import { expect, test } from "vitest";

import { failure } from "../code.js";
import { answersOf } from "./answers.js";
import type {} from "./commands.js";

function blobs(files: Record<string, string>): Map<string, Blob> {
  const bytes = (base64: string) => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  return new Map(Object.entries(files).map(([name, base64]) => [name, new Blob([bytes(base64)])]));
}

test("a store that Node wrote is opened from its files, and says what Node says", async () => {
  const { files, answers } = await commands.storeOfNode(20_000);
  const store = await openFiles(blobs(files));
  expect(await answersOf(store)).toEqual(answers);
  expect((await store.verify()).sound).toBe(true);
  await failure(store.createSession(), "read_only");
  await store.close();
});

test("files that are no store are told, and those of two stores", async () => {
  await failure(openFiles(new Map()), "not_found");
  await failure(openFiles(new Map([["RUNLOG", new Blob(["hello"])]])), "not_a_store");
  const file = new File(["x"], "RUNLOG");
  await failure(openFiles([file, file]), "invalid_input");
  await failure(openFiles([1 as never]), "invalid_input");
});
