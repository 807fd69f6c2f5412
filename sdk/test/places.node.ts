import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type OpenOptions, type Store, open, openInMemory } from "#runlog";
import { onTestFinished } from "vitest";

import type { Place } from "./place.js";

/** A folder of this test's own, gone after it. */
export async function freshFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "runlog-test-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return join(folder, "store");
}

const memory: Place = {
  name: "in memory",
  async fresh() {
    const store = await openInMemory();
    onTestFinished(() => store.close());
    return store;
  },
};

const folder: Place = {
  name: "in a folder",
  async fresh() {
    const store = await open(await freshFolder());
    onTestFinished(() => store.close());
    return store;
  },
};

/** Every place that a store can be kept in here. */
export const places: Place[] = [memory, folder];

/** A place whose stores can be opened again, and by readers. */
export async function lastingPlace(): Promise<{ open(options?: OpenOptions): Promise<Store> }> {
  const path = await freshFolder();
  return {
    async open(options) {
      const store = await open(path, options);
      onTestFinished(() => store.close());
      return store;
    },
  };
}
