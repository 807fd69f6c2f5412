import type { StopKind, StopReason } from "./generated/types.js";

/**
 * What the caller can do about a {@link RunlogError}; the same words as in Rust, the CLI and HTTP.
 *
 * | code | meaning |
 * | --- | --- |
 * | `invalid_input` | the argument is refused; change it |
 * | `too_large` | over a documented limit; make it smaller |
 * | `not_found` | no such session, instance, event or store |
 * | `already_exists` | it exists already, or its id was used before |
 * | `ambiguous` | more than one thing fits; be more precise |
 * | `conflict` | the last sequence isn't the expected one; read again, then decide |
 * | `wrong_status` | the run has ended, or isn't paused |
 * | `limit_reached` | a budget of steps is spent, or a bound reached: depth, agents at work, commands that wait |
 * | `locked` | another process, or another handle of this one, has the store open for writing |
 * | `read_only` | the store was opened for reading, or its file system is mounted for reading only |
 * | `permission_denied` | the operating system, or the browser, doesn't allow a file to be read or written |
 * | `storage_full` | no space is left on the device; nothing acknowledged is lost |
 * | `io` | the operating system refused or failed an operation |
 * | `damaged` | bytes that were durable are damaged; verify, then restore or repair |
 * | `unsupported_version` | a newer build wrote it |
 * | `not_a_store` | the folder holds something else |
 * | `unsupported` | where this store is kept, there is no such call |
 * | `outcome_unknown` | a write failed while this was under way: it may or may not be there after reopening |
 * | `poisoned` | an earlier write failed: the store refuses appends until it is reopened |
 * | `closed` | the store, or what the handle named, was closed |
 * | `aborted` | the `AbortSignal` that was given is aborted |
 * | `internal` | a fault in Runlog itself |
 *
 * Where nothing else is said, a call that fails has written nothing, unless it fails with `outcome_unknown`. Any call can
 * fail with `closed`, `io` or `damaged`, and any write with `storage_full`, `read_only`, `outcome_unknown` or `poisoned`;
 * what a call says it throws comes beside those.
 */
export type ErrorCode =
  /** The argument is refused; change it. Nothing was written. */
  | "invalid_input"
  /** Over a documented limit; make it smaller. Nothing was written. */
  | "too_large"
  /** No such session, instance, event or store. */
  | "not_found"
  /** It exists already, or its id was used before. Nothing was written. */
  | "already_exists"
  /** More than one thing fits; be more precise. */
  | "ambiguous"
  /** The last sequence isn't the expected one; read again, then decide. Nothing was written. */
  | "conflict"
  /** The run isn't in a status that allows it: it has ended, or isn't paused. Nothing was written. */
  | "wrong_status"
  /** A budget of steps is spent, or a bound reached: of depth, of agents at work, of commands that wait. */
  | "limit_reached"
  /** Another process, or another handle of this one, has the store open for writing. */
  | "locked"
  /** The store was opened for reading, or is on a file system that is mounted for reading only. */
  | "read_only"
  /** The operating system, or the browser, doesn't allow a file to be read or written; change the permissions, or the account. */
  | "permission_denied"
  /** No space is left on the device. Nothing acknowledged is lost; free some space. */
  | "storage_full"
  /** The operating system refused or failed an operation. */
  | "io"
  /** Bytes that were durable are damaged; verify, then restore or repair. */
  | "damaged"
  /** A format version this build doesn't know; use a newer one. */
  | "unsupported_version"
  /** The folder holds something else, not a store. */
  | "not_a_store"
  /** Where this store is kept, there is no such call. */
  | "unsupported"
  /** A write failed while this was under way: it may or may not be there after reopening. */
  | "outcome_unknown"
  /** An earlier write failed, so the store refuses appends until it is reopened. */
  | "poisoned"
  /** The store, or what the handle named, was closed. */
  | "closed"
  /** The `AbortSignal` that was given is aborted; `cause` is its reason. */
  | "aborted"
  /** A fault in Runlog itself. Please report it. */
  | "internal";

const BRAND = Symbol.for("runlog.RunlogError");

/**
 * The error of everything in this package.
 *
 * `instanceof` works across copies of the package: an application that loads it as ESM and as CommonJS has two.
 *
 * @example
 * ```ts
 * try {
 *   await store.findSession("nobody");
 * } catch (error) {
 *   if (error instanceof RunlogError && error.code === "not_found") console.log("no such session");
 *   else throw error;
 * }
 * ```
 */
export class RunlogError extends Error {
  /** What the caller can do about it. */
  readonly code: ErrorCode;

  /** An error of this package; for what stands in for it in tests. `cause` is the error below it. */
  constructor(code: ErrorCode, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "RunlogError";
    this.code = code;
    Object.defineProperty(this, BRAND, { value: true });
  }

  /** Whether a value is such an error, of this copy of the package or of another one. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    // A caller's subclass has a check of its own, as usual.
    if (this !== RunlogError) return Function.prototype[Symbol.hasInstance].call(this, value);
    return typeof value === "object" && value !== null && BRAND in value;
  }
}

/**
 * Why a run is to stop: the reason of its agent's {@link RunContext.signal}. Its code is `aborted`, or `closed` when the store
 * was closed, after which nothing can be recorded any more.
 *
 * @example
 * ```ts
 * const { signal } = context;
 * signal.addEventListener("abort", () => {
 *   const stop: StopError = signal.reason;
 *   console.log(stop.kind, stop.resumable ? "the run will be resumed" : "nobody wants it any more");
 * });
 * ```
 */
export class StopError extends RunlogError {
  /** What stops the run: what its `stopKind` is then. */
  readonly kind: StopKind;
  /** Whether the run will be paused, and can be resumed; else it will be cancelled. */
  readonly resumable: boolean;

  /** @internal */
  constructor(code: "aborted" | "closed", { kind, message, resumable }: StopReason) {
    super(code, message);
    this.name = "StopError";
    this.kind = kind;
    this.resumable = resumable;
  }
}

/** A failure as a binding tells it. @internal */
export interface Failure {
  code: ErrorCode;
  message: string;
  causes?: string[];
}

/** The error of a failure. @internal */
export function errorOf(failure: Failure): RunlogError {
  const { code, message, causes = [] } = failure;
  const cause = causes.reduceRight<Error | undefined>(
    (below, text) => new Error(text, below && { cause: below }),
    undefined,
  );
  return new RunlogError(code, message, cause && { cause });
}

/** Fields by their paths in the call of the core, with the names under which they are given. @internal */
export type GivenAs = readonly (readonly [there: string, given: string])[];

/**
 * What a call gives, with errors that name the fields as they were given: a path in such an error begins with the first of
 * the paths that fits. An empty name stands for the fields of the only argument. @internal
 */
export async function withGivenNames<Value>(fields: GivenAs, call: Promise<Value>): Promise<Value> {
  return await reworded(call, (message) => asGiven(fields, message));
}

/** How the fields that a call takes differ from those that the core knows of it. @internal */
export interface TakenHere {
  /** The argument whose fields they are, as the core calls it; left out, they are the call's own. */
  of?: string;
  /** Those that the core doesn't get. */
  also?: readonly string[];
  /** Those that are arguments of their own. */
  not?: readonly string[];
}

/** What a call gives, with errors that list, where a field isn't known, those that the caller can give. @internal */
export async function withKnownFields<Value>({ of, also = [], not = [] }: TakenHere, call: Promise<Value>): Promise<Value> {
  return await reworded(call, (message) => {
    const [, where, known] = UNKNOWN_FIELD.exec(message) ?? [];
    if (known === undefined || where !== of) return message;
    const named = (name: string) => `\`${name}\``;
    const names = [...known.split(", ").filter((name) => !not.map(named).includes(name)), ...also.map(named)];
    return message.slice(0, -known.length) + names.join(", ");
  });
}

/** What the core says of a field that it doesn't know: where that is, and which it knows there. */
const UNKNOWN_FIELD = /^(?:`([^`]*)`: )?`[^`]*` is not a field that is known here; known are (.*)$/;

/** What a call gives, with other words where an argument is refused. */
async function reworded<Value>(call: Promise<Value>, reword: (message: string) => string): Promise<Value> {
  try {
    return await call;
  } catch (error) {
    if (!(error instanceof RunlogError) || error.code !== "invalid_input") throw error;
    throw new RunlogError(error.code, reword(error.message), error.cause === undefined ? {} : { cause: error.cause });
  }
}

function asGiven(fields: GivenAs, said: string): string {
  // Where a field isn't known, those that are known are listed.
  const names = new Set(fields.map(([, given]) => given).filter((given) => given !== ""));
  const message = said.replace(/(; known are .*)`place`/, (_, before: string) => before + [...names].map((name) => `\`${name}\``).join(", "));
  const found = fields.find(([there]) => message.startsWith(`\`${there}`) && /^[.[`]/.test(message.slice(there.length + 1)));
  if (found === undefined) return message;
  const [there, given] = found;
  const rest = message.slice(there.length + 1);
  if (given !== "") return `\`${given}${rest}`;
  return rest.startsWith(".") ? `\`${rest.slice(1)}` : rest.replace(/^`: /, "");
}

/**
 * What an error says; anything can be thrown, also what refuses to be text. Half a surrogate pair in it, as where text was cut, is
 * replaced: what went wrong is said nevertheless.
 *
 * @internal
 */
export function messageOf(error: unknown): string {
  return textOfError(error).toWellFormed();
}

/** The same of an error that a caller gives. @internal */
export function givenError(error: unknown): string {
  if (error instanceof Promise) throw invalid("a promise was given; await it");
  return messageOf(error);
}

function textOfError(error: unknown): string {
  try {
    if (error instanceof Error) return String(error.message || error.name);
    if (typeof error === "object" && error !== null) return JSON.stringify(error) ?? String(error);
    return String(error);
  } catch {
    return `a value of type ${typeof error} that has no text`;
  }
}

/** Whether an error says that work was given up. @internal */
export function isAbort(error: unknown): boolean {
  try {
    const { name, code } = error as { name?: unknown; code?: unknown };
    return name === "AbortError" || code === "ABORT_ERR" || code === "aborted";
  } catch {
    // `null`, or what can't be looked at, such as a revoked proxy.
    return false;
  }
}

/** The error of a call that its signal ended. @internal */
export function abortedError(signal: AbortSignal): RunlogError {
  const reason: unknown = signal.reason;
  return new RunlogError("aborted", `given up: ${messageOf(reason)}`, { cause: reason });
}

/** Throws when a signal is aborted already, or is none. @internal */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal === undefined) return;
  checkSignal(signal);
  if (signal.aborted) throw abortedError(signal);
}

/** Throws when a signal is none. @internal */
export function checkSignal(signal: AbortSignal): void {
  const isSignal =
    typeof signal === "object" &&
    signal !== null &&
    typeof signal.aborted === "boolean" &&
    typeof signal.addEventListener === "function" &&
    typeof signal.removeEventListener === "function";
  if (!isSignal) throw invalid(`a signal must be an AbortSignal, not ${signal === null ? "null" : typeof signal}`);
}

/** An argument that is refused. @internal */
export function invalid(message: string, cause?: unknown): RunlogError {
  return new RunlogError("invalid_input", message, cause === undefined ? undefined : { cause });
}
