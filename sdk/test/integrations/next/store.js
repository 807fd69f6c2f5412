import { open } from "runlog";

/** The store of this process: one, however many bundles have this file. */
export function store() {
  globalThis.runlogStore ??= open(process.env.RUNLOG_STORE);
  return globalThis.runlogStore;
}
