import { RunlogError } from "../error.js";

/**
 * How long an answer is waited for before the browser is asked once more, each time. An answer takes milliseconds, seconds on
 * a device that is very busy.
 */
const WAITS_MS: readonly number[] = [1_000, 3_000, 10_000];

/**
 * Asks the browser's file system for something, and asks again when no answer comes: Chromium may leave a request without one
 * when a worker was ended while it opened files of the same folder, as happens when a tab is closed or reloaded at once. The
 * first answer counts, whichever request it is for; `drop` gets those that come later.
 *
 * @param what - What is asked for, as in "to open file 3".
 * @throws what the browser refuses it with; {@link RunlogError} `io` when none of the requests was answered.
 *
 * @internal
 */
export async function answered<T>(what: string, ask: () => Promise<T>, drop: (late: T) => void = () => {}, waitsMs = WAITS_MS): Promise<T> {
  const asked: Promise<T>[] = [];
  let isSettled = false;
  try {
    for (const ms of waitsMs) {
      const request = ask();
      asked.push(request.then((answer) => {
        if (isSettled) drop(answer);
        isSettled = true;
        return answer;
      }));
      const first = await within(ms, Promise.any(asked));
      if (first !== undefined) return first.answer;
    }
  } catch (error) {
    // All that was asked was refused.
    throw error instanceof AggregateError ? error.errors[0] : error;
  }
  isSettled = true;
  const seconds = waitsMs.reduce((sum, ms) => sum + ms, 0) / 1000;
  const asks = `the browser's file system was asked ${waitsMs.length} times in ${seconds} s ${what}, and has not answered`;
  throw new RunlogError("io", `${asks}; nothing is lost: close the other tabs of this page and reload it, or restart the browser, and open the store again`);
}

/** What a promise gives, or nothing when that takes longer. */
async function within<T>(ms: number, promise: Promise<T>): Promise<{ answer: T } | undefined> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), ms)));
  try {
    return await Promise.race([promise.then((answer) => ({ answer })), late]);
  } finally {
    clearTimeout(timer);
  }
}
