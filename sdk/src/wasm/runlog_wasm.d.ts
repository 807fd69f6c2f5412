// What wasm-bindgen makes of `bindings-wasm`, which `cargo xtask wasm-module` puts beside this file: its own declarations
// would be there only once it was built.

import type { Files } from "../browser/files.js";

/** Loads the module. */
export default function init(options: {
  module_or_path: string | URL | Request | Response | BufferSource | WebAssembly.Module | Promise<Response>;
}): Promise<unknown>;
export function start(wake: () => void): void;
export function end(): void;
export function mount(files: Files): string;
export function unmount(path: string): void;
export function call(handle: number, method: string, args: string, data?: Uint8Array): number | (number | string | Uint8Array | undefined)[];
export function append(packed: Uint8Array): (number | string | Uint8Array | undefined)[];
export function poll(): (number | string | Uint8Array | undefined)[];
export function isBusy(): boolean;
export function cancel(ticket: number): boolean;
export function release(handle: number): void;
