import { checkFunction } from "./checks.js";
import { withEither } from "./follow.js";

/** How work that takes long is followed and ended early. */
export interface ProgressOptions<Progress> {
  /**
   * Called now and then with how far the work is, the last time at its end; a promise that it gives is waited for before it is called
   * again. An error that it throws, or that its promise fails with, ends the work, which fails with it. A store in memory, and
   * one in a browser, do the work in one piece: they tell only where it ended.
   */
  onProgress?: ((progress: Progress) => void | Promise<void>) | undefined;
  /**
   * Ends the work early, which fails with `aborted`; it stops within about a megabyte. What was done by then stays done, and
   * whoever asks again goes on from there. In memory and in a browser the work can't be ended once it has begun.
   */
  signal?: AbortSignal | undefined;
}

/** Its options, which the core doesn't get. @internal */
export const WATCHED: readonly string[] = ["onProgress", "signal"] satisfies (keyof ProgressOptions<never>)[];

let lastWatch = 0;

/**
 * Does work, and reports how far it is meanwhile. `next` waits for the next report of the work with a number, and gives
 * nothing at its end.
 *
 * @internal
 */
export async function watched<Progress, Done>(
  { onProgress, signal }: ProgressOptions<Progress>,
  work: (watch: number | undefined, signal: AbortSignal | undefined) => Promise<Done>,
  next: (watch: number) => Promise<Progress | undefined>,
): Promise<Done> {
  if (onProgress === undefined) return await work(undefined, signal);
  checkFunction(onProgress, "onProgress");
  lastWatch += 1;
  const watch = lastWatch;
  const stop = new AbortController();
  return await withEither(stop.signal, signal, async (either) => {
    const done = work(watch, either);
    // It is awaited below: that it fails before is nothing that nobody handles.
    done.catch(() => undefined);
    for (;;) {
      // Where nothing can be reported, because the work was refused or the store closed, the work itself says so.
      const report = await next(watch).catch(() => undefined);
      if (report === undefined) return await done;
      try {
        await onProgress(report);
      } catch (error) {
        stop.abort(error);
        await done.catch(() => undefined);
        throw error;
      }
    }
  });
}
