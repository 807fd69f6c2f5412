import type { Part } from "../binding.js";
import type { Failure } from "../error.js";
import type { ReadFigures } from "./files.js";
import type { Mount } from "./local.js";

/** What a page asks its worker for beside calls of the core, and what is answered. @internal */
export type Ask = { ask: "mount"; mount: Mount } | { ask: "figures"; path: string };

/** What a page tells its worker. Messages are handled in their order. @internal */
export type ToWorker =
  | { type: "init"; module?: WebAssembly.Module | undefined }
  | { type: "call"; ticket: number; handle: number; method: string; args: string; data?: Uint8Array | undefined }
  | { type: "append"; packed: Uint8Array }
  | { type: "cancel"; ticket: number }
  | { type: "release"; handle: number }
  | { type: "ask"; id: number; ask: Ask }
  | { type: "unmount"; path: string };

/** What the worker tells its page: answers, as `Binding.onReplies` has them, and those to what it was asked beside. @internal */
export type FromWorker =
  /** It was told to begin. */
  | { type: "begun" }
  /** `lock` is the name of a lock that the worker holds as long as it lives, where it has locks. */
  | { type: "ready"; lock: string | undefined }
  | { type: "failed"; failure: Failure }
  | { type: "replies"; parts: Part[] }
  | { type: "answer"; id: number; answer?: string | ReadFigures | undefined; failure?: Failure };

/** What is recognised as Runlog's among a worker's messages. @internal */
export interface Envelope<T> {
  runlog: T;
}

/** An error, as it goes from one thread to another. @internal */
export function failureOf(error: unknown): Failure {
  const { code = "internal", message } = error as { code?: Failure["code"]; message: string };
  // Errors of the browser's have codes too, which are numbers.
  return { code: typeof code === "string" ? code : "internal", message };
}
