// A page of its own, which writes to a store and keeps it open.

import { open } from "../../src/browser/index.js";

const asked = new URLSearchParams(location.search);
const store = await open(asked.get("name") as string, { segmentBytesMax: 64 << 10 });
for (let count = 1; count <= Number(asked.get("count")); count += 1) {
  await store.streams.append(asked.get("stream") as string, `event ${count} ${"x".repeat(500)}`);
}
