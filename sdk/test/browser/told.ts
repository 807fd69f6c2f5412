import { onTestFinished } from "vitest";

type Given = { api: typeof import("#runlog"); state: any };

/** A worker of an application's, which does what it is told until the test is over. */
export interface ToldWorker {
  run<Args, Value>(work: (given: Given, args: Args) => Value | Promise<Value>, args?: Args): Promise<Value>;
}

/** Starts one. What it is told sees nothing but what it is given. */
export function toldWorker(): ToldWorker {
  const worker = new Worker(new URL("./worker-told.ts", import.meta.url), { type: "module" });
  onTestFinished(() => worker.terminate());
  const asked = new Map<number, { resolve(value: never): void; reject(error: Error): void }>();
  let last = 0;
  worker.addEventListener("error", (event) => {
    for (const { reject } of asked.values()) reject(new Error(event.message));
  });
  worker.addEventListener("message", ({ data }: MessageEvent<{ ask: number; value?: never; failed?: string }>) => {
    const found = asked.get(data.ask);
    asked.delete(data.ask);
    if (data.failed === undefined) found?.resolve(data.value as never);
    else found?.reject(new Error(data.failed));
  });
  return {
    run: (work, args) =>
      new Promise((resolve, reject) => {
        last += 1;
        asked.set(last, { resolve, reject });
        worker.postMessage({ ask: last, source: work.toString(), args });
      }),
  };
}

export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
