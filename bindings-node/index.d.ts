/** A number, text, bytes, or nothing. */
export type Part = number | string | Uint8Array | null | undefined;

/** Prepares this thread; `wake` is called whenever there is something to poll. */
export function start(wake: () => void): void;
/** A ticket, or the answer: `[ok, handle, json, bytes]`. */
export function call(
  handle: number,
  method: string,
  args: string,
  data?: Uint8Array,
): number | Part[];
/** The answers that have come: `[ticket, ok, handle, json, bytes, …]`. */
export function poll(): Part[];
/** Gives up waiting for an answer. */
export function cancel(ticket: number): boolean;
/** Forgets an object. */
export function release(handle: number): void;
