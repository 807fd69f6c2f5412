// The worker: answers what the page asks, one after the other.

import type { Answered, Asked } from "../protocol.js";
import { Api } from "./api.js";

const api = new Api((pushed) => postMessage(pushed));
const methods = api as unknown as Record<string, (...args: unknown[]) => unknown>;

addEventListener("message", ({ data }: MessageEvent<Asked>) => {
  const { id, method, args } = data;
  Promise.resolve()
    .then(() => methods[method]?.(...args))
    .then(
      (value) => postMessage({ id, value } satisfies Answered),
      (error: unknown) => postMessage({ id, error: error instanceof Error ? error.message : String(error) } satisfies Answered),
    );
});
