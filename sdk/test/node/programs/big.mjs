// Reads a large stream slowly, and says how much memory that took.

import { readFileSync } from "node:fs";
import { open } from "runlog";

const [path, megabytes] = process.argv.slice(2);
const store = await open(path, { durability: "os" });
const stream = store.newId();
const event = new Uint8Array(64 << 10).fill(120);
for (let written = 0; written < Number(megabytes) * 16; written += 16) {
  await store.streams.append(stream, Array.from({ length: 16 }, () => event));
}
globalThis.gc();
const before = process.memoryUsage();
let [read, most, mostOutside, mostResident] = [0, 0, 0, 0];
// The pages of the log that are mapped are the system's, to take back when it likes.
const resident = () => {
  const status = process.platform === "linux" ? readFileSync("/proc/self/status", "utf8") : "";
  const anonymous = /RssAnon:\s+(\d+) kB/.exec(status);
  return anonymous === null ? 0 : Number(anonymous[1]) << 10;
};
const residentBefore = resident();
for await (const record of store.streams.read(stream)) {
  read += record.payload.length;
  // A reader that takes its time now and then.
  if (read % (8 << 20) === 0) {
    await new Promise((resolve) => setTimeout(resolve, 2));
    const { heapUsed, arrayBuffers, external } = process.memoryUsage();
    most = Math.max(most, heapUsed - before.heapUsed);
    mostResident = Math.max(mostResident, resident() - residentBefore);
    mostOutside = Math.max(mostOutside, Math.max(arrayBuffers, external) - before.external);
  }
}
await store.close();
console.log(JSON.stringify({ read, heap: most >> 20, outside: mostOutside >> 20, resident: mostResident >> 20 }));
