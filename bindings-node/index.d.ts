declare namespace addon {
  /** A number, text, bytes, or nothing. */
  type Part = number | string | Uint8Array | null | undefined;
}

/** The addon of this platform, for the npm package `runlog` alone. */
declare const addon: {
  /** Prepares this thread; `wake` is called whenever there is something to poll. */
  start(wake: () => void): void;
  /** A ticket, or the answer: `[ok, handle, json, bytes]`. */
  call(handle: number, method: string, args: string, data?: Uint8Array): number | addon.Part[];
  /** Many appends, packed: the ticket of the first, and what is answered already, as by `poll`. */
  append(packed: Uint8Array): addon.Part[];
  /** The answers that have come: `[ticket, ok, handle, json, bytes, …]`. */
  poll(): addon.Part[];
  /** Whether there is something to do that nobody awaits. */
  isBusy(): boolean;
  /** Closes what this thread has open, and waits for it: the thread is about to end. */
  end(): void;
  /** Gives up waiting for an answer. */
  cancel(ticket: number): boolean;
  /** Forgets an object. */
  release(handle: number): void;
};

export = addon;
