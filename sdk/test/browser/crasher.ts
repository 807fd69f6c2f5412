// A worker that appends to a store of the browser's file system, and tells what was acknowledged, until it is terminated.

import { open } from "#runlog";

const scope = globalThis as unknown as { postMessage(message: unknown): void; addEventListener(type: "message", listener: (event: MessageEvent<{ name: string; stream: string; from: number; pauseMs?: number }>) => void): void };

scope.addEventListener("message", ({ data: { name, stream, from, pauseMs } }) => {
  void (async () => {
    scope.postMessage({ opening: true });
    // The one before was terminated: its lock is free soon.
    const store = await open(name, { segmentBytesMax: 64 << 10, lockTimeoutMs: 10_000 });
    // Several at a time, so that some are in the middle of whatever is done.
    for (let count = from + 1; ; count += 4) {
      const some = [0, 1, 2, 3].map(async (index) => {
        await store.streams.append(stream, `event ${count + index} ${"x".repeat(500)}`);
        scope.postMessage({ count: count + index });
      });
      await Promise.all(some);
      if (pauseMs !== undefined) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  })();
});
