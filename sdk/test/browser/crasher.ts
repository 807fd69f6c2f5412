// A worker that appends to a store of the browser's file system, and tells what was acknowledged, until it is terminated.

import { open } from "#runlog";

const scope = globalThis as unknown as { postMessage(message: unknown): void; addEventListener(type: "message", listener: (event: MessageEvent<string>) => void): void };

scope.addEventListener("message", ({ data: name }) => {
  void (async () => {
    const store = await open(name, { segmentBytesMax: 64 << 10 });
    const stream = store.newId();
    scope.postMessage({ stream });
    for (let count = 1; ; count += 1) {
      await store.streams.append(stream, `event ${count} ${"x".repeat(500)}`);
      scope.postMessage({ count });
    }
  })();
});
