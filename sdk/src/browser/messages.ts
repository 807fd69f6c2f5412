import type { Part } from "../binding.js";
import type { Failure } from "../error.js";
import type { Mount, WasmSource } from "./local.js";

/** What a page tells its worker. Messages are handled in their order. @internal */
export type ToWorker =
  | { type: "init"; wasm?: WasmSource | undefined }
  | { type: "call"; ticket: number; handle: number; method: string; args: string; data?: Uint8Array | undefined }
  | { type: "append"; packed: Uint8Array }
  | { type: "cancel"; ticket: number }
  | { type: "release"; handle: number }
  | { type: "mount"; id: number; mount: Mount }
  | { type: "unmount"; path: string };

/** What the worker tells its page: answers, as `Binding.onReplies` has them, and folders that were mounted. @internal */
export type FromWorker =
  | { type: "ready" }
  | { type: "failed"; failure: Failure }
  | { type: "replies"; parts: Part[] }
  | { type: "mounted"; id: number; path?: string; failure?: Failure };

/** What is recognised as Runlog's among a worker's messages. @internal */
export interface Envelope<T> {
  runlog: T;
}

/** An error, as it goes from one thread to another. @internal */
export function failureOf(error: unknown): Failure {
  const { code = "internal", message } = error as { code?: Failure["code"]; message: string };
  return { code, message };
}
