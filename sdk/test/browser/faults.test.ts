// A file of its own, since it sets Runlog up in another way in its page.

import { init, open, openFiles, openInMemory } from "#runlog";
import { freshName } from "#places";
import { commands } from "vitest/browser";
import { expect, onTestFinished, test } from "vitest";

import { failure } from "../code.js";
import type {} from "./commands.js";

const newWorker = () => new Worker(new URL("./breaker.ts", import.meta.url), { type: "module" });

test.each(["trap", "panic", "script", "termination"] as const)("a worker that ends by a %s is told by every call, and its locks are free", async (breakWith) => {
  const worker = newWorker();
  await init({ worker });
  const name = await freshName();
  const store = await open(name);
  const stream = store.newId();
  await store.streams.append(stream, "acknowledged");
  const follower = store.tail()[Symbol.asyncIterator]();
  const followed = (async () => {
    for (;;) if ((await follower.next()).done === true) return undefined;
  })().catch((error: unknown) => error);
  // One that the page terminates says nothing of it.
  if (breakWith === "termination") worker.terminate();
  else worker.postMessage({ breakWith });
  const lost = await Promise.allSettled([store.streams.append(stream, "lost"), store.createSession({ title: "lost" }), store.streams.append(stream, "lost too")]);
  for (const one of lost) expect(one).toMatchObject({ status: "rejected", reason: { name: "RunlogError" } });
  // What waited is told too, and doesn't wait for ever.
  const told = await followed;
  expect(told).toMatchObject({ code: "outcome_unknown" });
  expect((told as Error).message).toContain({ trap: "unreachable", panic: "assertion failed", script: "the script has a fault", termination: "Runlog's worker was terminated" }[breakWith]);
  await failure(store.createSession(), "internal");
  await store.close().catch(() => {});
  // The page lives, the lock is free, and what was acknowledged is there.
  const next = newWorker();
  await init({ worker: next });
  const again = await open(name, { lockTimeoutMs: 10_000 });
  const records = await again.streams.read(stream).toArray();
  expect(records[0]?.text()).toBe("acknowledged");
  expect((await again.verify()).sound).toBe(true);
  await again.close();
  await end(next);
});

/** Ends a worker, so that another can be given to `init`. */
async function end(worker: Worker): Promise<void> {
  const ended = new Promise((resolve) => worker.addEventListener("error", resolve));
  worker.postMessage({ breakWith: "script" });
  await ended;
}

test("memory that runs out is told, and the next store gets a worker of its own", { timeout: 120_000 }, async () => {
  const bytes = new Uint8Array(await (await fetch(new URL("../../src/wasm/runlog_wasm_bg.wasm", import.meta.url))).arrayBuffer());
  await init({ wasm: withMemoryOf(bytes, 48), worker: newWorker() });
  const store = await openInMemory();
  const stream = store.newId();
  const filling = (async () => {
    for (let at = 0; at < 200; at += 1) await store.streams.append(stream, new Uint8Array(1 << 20));
  })();
  const error = await filling.then(() => undefined, (error: Error) => error);
  expect(error).toMatchObject({ name: "RunlogError" });
  expect(error?.message).toMatch(/memory/);
  await store.close().catch(() => {});
  const next = await openInMemory();
  await next.streams.append(stream, "goes on");
  await next.close();
});

test("files that are damaged, cut off or random are told, and the page goes on", { timeout: 120_000 }, async () => {
  const { files } = await commands.storeOfNode(5000);
  const names = Object.keys(files).filter((name) => name !== "LOCK");
  const sound = new Map(names.map((name) => [name, Uint8Array.from(atob(files[name] as string), (character) => character.charCodeAt(0))]));
  const random = randomOf(7);
  const codes = new Map<string, number>();
  for (let round = 0; round < 150; round += 1) {
    const hostile = new Map(sound);
    const name = names[Math.floor(random() * names.length)] as string;
    const bytes = (hostile.get(name) as Uint8Array).slice();
    const kind = Math.floor(random() * 4);
    if (kind === 0) hostile.set(name, bytes.subarray(0, Math.floor(random() * bytes.length)));
    else if (kind === 1) for (let at = 0; at < 20; at += 1) bytes[Math.floor(random() * bytes.length)] = Math.floor(random() * 256);
    else if (kind === 2) bytes.set(Array.from({ length: 64 }, () => Math.floor(random() * 256)), Math.floor(random() * Math.max(bytes.length - 64, 1)) % Math.max(bytes.length - 64, 1));
    else for (let at = 0; at < bytes.length; at += 1) bytes[at] = Math.floor(random() * 256);
    if (kind !== 0) hostile.set(name, bytes);
    const code = await looked(hostile);
    codes.set(code, (codes.get(code) ?? 0) + 1);
  }
  // Some damage lies where nothing is.
  expect([...codes.keys()].sort()).toEqual(expect.arrayContaining(["damaged", "not_a_store"]));
  expect(codes.has("internal")).toBe(false);
  const store = await openFiles(new Map(Array.from(sound, ([name, bytes]) => [name, new Blob([bytes])])));
  onTestFinished(() => store.close());
  expect((await store.verify()).sound).toBe(true);
});

/** Opens it and reads everything; how that ends. */
async function looked(files: Map<string, Uint8Array<ArrayBuffer>>): Promise<string> {
  try {
    const store = await openFiles(new Map(Array.from(files, ([name, bytes]) => [name, new Blob([bytes])])));
    try {
      await store.runs.list();
      for (const { id } of await store.streams.list()) await store.streams.read(id).toArray();
      return (await store.verify()).sound ? "sound" : "unsound";
    } finally {
      await store.close();
    }
  } catch (error) {
    return (error as { code?: string }).code ?? `no error of Runlog's: ${String(error)}`;
  }
}

/** The module with that many MiB of memory at most: its memory section says so. */
function withMemoryOf(bytes: Uint8Array, mebibytes: number): Uint8Array<ArrayBuffer> {
  const number = (value: number) => {
    const digits: number[] = [];
    do digits.push((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    while ((value >>>= 7) > 0);
    return digits;
  };
  for (let at = 8; at < bytes.length; ) {
    const id = bytes[at];
    let size = 0;
    let digits = 0;
    do size |= ((bytes[at + 1 + digits] as number) & 0x7f) << (7 * digits);
    while (((bytes[at + 1 + digits++] as number) & 0x80) !== 0);
    const begin = at + 1 + digits;
    if (id === 5) {
      // One memory, without a bound: its flags, and the pages that it has at first.
      expect([bytes[begin], bytes[begin + 1]]).toEqual([1, 0]);
      const section = [1, 1, ...bytes.subarray(begin + 2, begin + size), ...number(mebibytes * 16)];
      return new Uint8Array([...bytes.subarray(0, at), 5, ...number(section.length), ...section, ...bytes.subarray(begin + size)]);
    }
    at = begin + size;
  }
  throw new Error("the module has no memory");
}

/** The same numbers each time. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
