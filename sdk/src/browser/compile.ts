import { classOf } from "../checks.js";
import { RunlogError, invalid } from "../error.js";

/** What the module is made from: its address, its bytes, or the compiled module. */
export type WasmSource = string | URL | Response | BufferSource | WebAssembly.Module;

/**
 * Compiles the module, from whatever it is made. Addresses are the document's: a page compiles for its worker too, since an
 * address or a response can't be handed over as it is, and so that the worker's scripts load meanwhile.
 *
 * @internal
 */
export async function compiled(source: WasmSource): Promise<WebAssembly.Module> {
  if (typeof source === "object" && classOf(source) === "Promise") throw invalid("`wasm` is a promise; await it");
  try {
    return await compiledFrom(source);
  } catch (cause) {
    throw new RunlogError("io", `Runlog's WebAssembly module could not be loaded: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

async function compiledFrom(source: WasmSource): Promise<WebAssembly.Module> {
  if (isModule(source)) return source as WebAssembly.Module;
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return WebAssembly.compile(source as BufferSource);
  const response = source instanceof Response ? source : await fetch(source as string | URL);
  if (!response.ok) throw new Error(`${response.url} was answered with ${response.status} ${response.statusText}`.trimEnd());
  // What comes as another type isn't compiled while it is read.
  const isTyped = response.headers.get("content-type")?.split(";")[0]?.trim() === "application/wasm";
  return isTyped ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}

/** Also one of another frame's, which is an instance of another class. */
function isModule(source: WasmSource): boolean {
  return Object.prototype.toString.call(source) === "[object WebAssembly.Module]";
}
