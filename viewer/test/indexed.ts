import type { Store } from "runlog";

import { LogIndex } from "../src/worker/index.js";
import { namedTools } from "../src/worker/tools.js";

/** What the worker knows of a store. */
export async function indexed(store: Store, isImported = false): Promise<LogIndex> {
  const index = new LogIndex(isImported);
  for await (const page of store.heads()) index.add(page, await namedTools(page.events, (position) => store.record(position)));
  return index;
}
