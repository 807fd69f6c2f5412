/// <reference lib="esnext.disposable" preserve="true" />

/**
 * The same as `runlog` in a browser, with the WebAssembly module and the worker inside of the script: for bundlers that carry no other
 * files, and for pages of one file, also those that are opened from a disk. It is a third larger to download than the
 * module by itself, and a Content Security Policy has to allow workers of `blob:`.
 *
 * @module
 */

import { MODULE, WORKER } from "./embedded.js";
import { useEntry } from "./setup.js";

export * from "./entry.js";

useEntry({
  wasm: compiled,
  worker: () => new Worker((script ??= URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" }))), { name: "runlog" }),
  givesModule: true,
});

let script: string | undefined;

async function compiled(): Promise<WebAssembly.Module> {
  const packed = Uint8Array.from(atob(MODULE), (character) => character.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compile(await new Response(unpacked).arrayBuffer());
}
