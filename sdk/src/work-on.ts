import { RunlogError, isAbort, messageOf } from "./error.js";
import type { RequestBuffer, RequestEnd } from "./request.js";

/** Does the work of a request that was begun, and ends it as the work ended. @internal */
export async function workOn<T>(
  begun: RequestBuffer,
  work: (request: RequestBuffer) => T | Promise<T>,
  signal: AbortSignal | undefined,
): Promise<T> {
  // Refused because a message's id is taken by now, it is written with a fresh one at the second try.
  const finish = async (end: RequestEnd): Promise<void> => {
    const isTaken = (cause: unknown) => cause instanceof RunlogError && cause.code === "already_exists";
    await begun.finish(end).catch((cause: unknown) => (isTaken(cause) ? begun.finish(end) : Promise.reject(cause)));
  };
  let result: T;
  try {
    result = await work(begun);
  } catch (error) {
    // The error of the work matters more than that its end couldn't be written, which the store tells the next one.
    // A signal may be aborted with any reason, and `fetch` throws that.
    const end: RequestEnd = signal?.aborted || isAbort(error) ? "interrupted" : { failed: messageOf(error) };
    if (!begun.hasEnded) await finish(end).catch(() => begun.close().catch(() => {}));
    throw error;
  }
  try {
    if (!begun.hasEnded) await finish("completed");
  } catch (error) {
    // Nobody else can end it: let go, it is written as interrupted as far as it can be, and may be resumed. What can't be written now is
    // when the store is closed, or it is collected.
    await begun.close().catch(() => {});
    throw error;
  }
  return result;
}
