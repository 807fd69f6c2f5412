// What a second tab does with a store.

import { RunlogError, open } from "#runlog";

type Ask = { write?: string; follow?: string; stream: string; count?: number };

const scope = globalThis as unknown as { postMessage(message: unknown): void; addEventListener(type: "message", listener: (event: { data: Ask }) => void): void };

async function answer({ write, follow, stream, count }: Ask): Promise<object> {
  if (write !== undefined) {
    await using store = await open(write, { segmentBytesMax: 64 << 10 });
    const { lastSequence } = await store.streams.append(stream, "from another tab");
    return { lastSequence };
  }
  await using store = await open(follow as string, { mode: "readOnly" });
  let next = 0;
  for await (const record of store.tail()) {
    if (record.stream !== stream || record.kind !== 0) continue;
    if (Number.parseInt(record.text(), 10) !== next) return { inOrder: false, count: next, found: record.text().slice(0, 10) };
    next += 1;
    if (next === count) break;
  }
  return { inOrder: true, count: next };
}

scope.addEventListener("message", ({ data }) => {
  answer(data).then(
    (told) => scope.postMessage(told),
    (error: unknown) => scope.postMessage({ code: error instanceof RunlogError ? error.code : String(error), message: String(error) }),
  );
});
