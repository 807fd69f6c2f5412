// One session continued in two ways from the same point. Nothing is written twice, and neither sees the other.
//
//   node examples/fork-and-compare.mjs

import { openInMemory } from "runlog";

const store = await openInMemory();
const { session, instance } = await store.startSession({ title: "Trip to Oslo" }, "travel");
const context = await store.context(instance.id);
for (const message of [
  { role: "user", content: "How do I get to Oslo?" },
  { role: "assistant", content: "From where?" },
  { role: "user", content: "From Copenhagen." },
]) {
  await context.appendMessage(message);
}
const point = await context.getLastSequence();
await context.appendMessage({ role: "assistant", content: "By train, in eight hours." });

// Again from the same point, in a copy.
const { instances } = await store.copySession(session.id, { upToSequence: point, title: "The other way" });
const copy = await store.context(instances[0].instance.id);
await copy.appendMessage({ role: "assistant", content: "By ship, over night." });
await copy.appendMessage({ role: "user", content: "Nice!" });

const [one, other] = [await context.getMessages(), await copy.getMessages()];
let same = 0;
while (same < one.length && JSON.stringify(one[same]) === JSON.stringify(other[same])) same += 1;
console.log(`the first ${same} messages are the same`);
for (const message of one.slice(same)) console.log(`- ${message.role}: ${message.content}`);
for (const message of other.slice(same)) console.log(`+ ${message.role}: ${message.content}`);

// Taking something back is no rewriting either: the log keeps what was, the context forgets it.
await copy.truncateAfterSequence(point);
console.log(`the copy has ${await copy.getLastSequence()} events again, the original ${await context.getLastSequence()}`);
await store.close();
