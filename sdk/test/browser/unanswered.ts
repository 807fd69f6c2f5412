// A worker in a browser that leaves the first requests for files without an answer, and opens a store all the same.

import { open } from "#runlog";

const scope = globalThis as unknown as { postMessage(message: unknown): void; addEventListener(type: "message", listener: (event: MessageEvent<{ name: string }>) => void): void };

let unanswered = 0;
const files = FileSystemFileHandle.prototype as unknown as { createSyncAccessHandle(options?: object): Promise<unknown> };
const create = files.createSyncAccessHandle;
files.createSyncAccessHandle = function (options) {
  if (unanswered < 16) {
    unanswered += 1;
    return new Promise(() => {});
  }
  return create.call(this, options);
};

scope.addEventListener("message", ({ data: { name } }) => {
  void (async () => {
    const store = await open(name);
    const stream = store.newId();
    await store.streams.append(stream, "kept");
    const [record] = await store.streams.read(stream).toArray();
    await store.close();
    scope.postMessage({ text: record?.text(), unanswered });
  })();
});
