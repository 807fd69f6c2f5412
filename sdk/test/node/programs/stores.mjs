// Opens stores in memory and lets go of them; says by how many MiB the process has grown.

import { openInMemory } from "runlog";

const mebibytes = () => process.memoryUsage().rss / (1 << 20);
await openInMemory();
const before = mebibytes();
for (let opened = 0; opened < 150; opened++) await (await openInMemory()).createSession({});
console.log(Math.round(mebibytes() - before));
process.exit(0);
