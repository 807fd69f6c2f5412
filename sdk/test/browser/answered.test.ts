// A browser that leaves requests for files without an answer, as Chromium may after a worker was ended while it opened some.

import { expect, onTestFinished, test } from "vitest";

import { freshName } from "#places";
import { open } from "#runlog";

import { answered } from "../../src/browser/answered.js";
import { failure } from "../code.js";

const never = () => new Promise<never>(() => {});

test("what isn't answered is asked again, and what is answered late is given to who asked", async () => {
  const late: string[] = [];
  const answers: (() => void)[] = [];
  let asked = 0;
  const ask = () => {
    asked += 1;
    const text = `answer ${asked}`;
    return asked === 1 ? new Promise<string>((resolve) => answers.push(() => resolve(text))) : Promise.resolve(text);
  };
  expect(await answered("for it", ask, (text) => late.push(text), [10, 10_000])).toBe("answer 2");
  for (const answer of answers) answer();
  await Promise.resolve();
  expect([asked, late]).toEqual([2, ["answer 1"]]);
});

test("the first request's answer counts too when it comes after the second request", async () => {
  const late: string[] = [];
  let asked = 0;
  let second: (text: string) => void = () => {};
  const ask = () => {
    asked += 1;
    return new Promise<string>((resolve) => {
      if (asked === 1) setTimeout(() => resolve("first"), 60);
      else second = resolve;
    });
  };
  expect(await answered("for it", ask, (text) => late.push(text), [10, 10_000])).toBe("first");
  second("second");
  await Promise.resolve();
  expect(late).toEqual(["second"]);
});

test("a refusal is told at once, and no answer at all with what to do", async () => {
  const refusal = new DOMException("no such file", "NotFoundError");
  await expect(answered("for it", () => Promise.reject(refusal), undefined, [10_000])).rejects.toBe(refusal);
  const error = await failure(answered("to open file 3", never, undefined, [10, 20]), "io");
  expect(error.message).toBe(
    "the browser's file system was asked 2 times in 0.03 s to open file 3, and has not answered; nothing is lost: close the other tabs of this page and reload it, or restart the browser, and open the store again",
  );
  let isDropped = false;
  const slow = () => new Promise<string>((resolve) => setTimeout(() => resolve("slow"), 50));
  await failure(answered("for it", slow, () => (isDropped = true), [10]), "io");
  await expect.poll(() => isDropped).toBe(true);
});

test("a store opens though the browser leaves its first requests for files without an answer", async () => {
  const worker = new Worker(new URL("./unanswered.ts", import.meta.url), { type: "module" });
  onTestFinished(() => worker.terminate());
  const name = await freshName();
  const told = new Promise<{ text: string; unanswered: number }>((resolve, reject) => {
    worker.addEventListener("error", (event) => reject(new Error(event.message)));
    worker.addEventListener("message", ({ data }) => resolve(data));
  });
  worker.postMessage({ name });
  expect(await told).toEqual({ text: "kept", unanswered: 16 });
  worker.terminate();
  const store = await open(name, { lockTimeoutMs: 10_000, mode: "readOnly" });
  expect((await store.verify()).sound).toBe(true);
  await store.close();
});
