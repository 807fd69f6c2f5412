import { type OpenOptions, type RunlogError, type Store, deleteStore, open, openInMemory } from "#runlog";
import { onTestFinished } from "vitest";

import type { Place } from "./place.js";

/** The name of a store of this test's own, gone after it. */
export async function freshName(): Promise<string> {
  const name = `test ${crypto.randomUUID()}`;
  onTestFinished(async () => {
    // One whose opening was refused left no store.
    await deleteStore(name).catch((error: RunlogError) => {
      if (error.code !== "not_found") throw error;
    });
  });
  return name;
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
  name: "in the browser's file system",
  async fresh() {
    const store = await open(await freshName());
    onTestFinished(() => store.close());
    return store;
  },
};

/** Every place that a store can be kept in here. */
export const places: Place[] = [memory, folder];

/** A place whose stores can be opened again. */
export async function lastingPlace(): Promise<{ open(options?: OpenOptions): Promise<Store> }> {
  const name = await freshName();
  return {
    async open(options) {
      const store = await open(name, options);
      onTestFinished(() => store.close());
      return store;
    },
  };
}
