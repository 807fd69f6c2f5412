// Opens a store in a process of its own, reads a stream, and says how long the opening took and how much memory it holds.

import { stores } from "./stores.mjs";
import { READ_EVENTS } from "./workload.mjs";

const [name, folder] = process.argv.slice(2);
globalThis.gc?.();
const before = process.memoryUsage().rss;
const began = performance.now();
const store = await stores[name](folder);
const openMs = performance.now() - began;
const events = await store.readBytes(1);
if (events.length !== READ_EVENTS) throw new Error(`${name} has ${events.length} events, not ${READ_EVENTS}`);
globalThis.gc?.();
const rssMiB = (process.memoryUsage().rss - before) / 2 ** 20;
await store.close();
process.stdout.write(JSON.stringify({ openMs, rssMiB }));
