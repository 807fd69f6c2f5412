/// <reference lib="esnext.disposable" preserve="true" />

/**
 * Runlog in workerd, which Cloudflare Workers run in: stores in memory, and exports. There are no files, and no threads.
 *
 * @module
 */

import wasm from "../wasm/runlog_wasm_bg.wasm";
import { useEntry } from "./setup.js";

export * from "../api.js";
export {
  type ExportSource,
  type InitOptions,
  type OpenExportOptions,
  type StorePlace,
  type WasmSource,
  init,
  openExport,
  openInMemory,
  placeOf,
  toolDefinitions,
} from "./entry.js";

useEntry({ wasm: () => wasm });
