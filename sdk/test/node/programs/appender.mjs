// Appends until it is killed: a thousand at a time in flight, and says which are acknowledged once they are.

import { writeSync } from "node:fs";
import { open } from "runlog";

const [path, instanceId] = process.argv.slice(2);
const acknowledged = [];
let scheduled = false;
function schedule() {
  if (scheduled) return;
  scheduled = true;
  queueMicrotask(() => {
    scheduled = false;
    writeSync(1, acknowledged.join("\n") + "\n");
    acknowledged.length = 0;
  });
}

const store = await open(path);
const context = await store.context(instanceId);
let last = await context.getLastSequence();
writeSync(1, "ready\n");
for (;;) {
  const appends = Array.from({ length: 1000 }, async () => {
    const sequence = ++last;
    const { firstSequence } = await context.appendMessage({ role: "user", content: `event ${sequence}` });
    if (firstSequence !== sequence) throw new Error(`event ${sequence} became ${firstSequence}`);
    // Written at once: what is said after an acknowledgement must not wait in a buffer.
    acknowledged.push(sequence);
    schedule();
  });
  await Promise.all(appends);
}
