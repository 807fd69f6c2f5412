/// <reference lib="esnext.disposable" preserve="true" />

/**
 * An embedded event log for AI-agent runs, in the browser: the same stores, files and calls as in Node, over WebAssembly.
 *
 * - {@link open}: a store of this origin, kept in the browser's own file system (OPFS)
 * - {@link openInMemory}: gone with the page
 * - {@link openFiles}: a store that Node or the command wrote, read only, from files that the user picks or drops
 * - {@link openUrl}: the same, from a web server, by ranges
 * - {@link openExport}: what `runlog export` wrote, in memory
 *
 * The work is done in a worker of its own, so that the page stays responsive; inside of a worker it is done there.
 *
 * @module
 */

import { useEntry } from "./setup.js";

export * from "./entry.js";

useEntry({
  wasm: () => new URL("../wasm/runlog_wasm_bg.wasm", import.meta.url),
  worker: () => new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "runlog" }),
});
