// Ends in the way that is asked for, with a store open.

import { open } from "runlog";

const [path, how] = process.argv.slice(2);
const store = await open(path);
const { instance } = await store.startSession({}, "agent");
const context = await store.context(instance.id);
await context.appendMessage({ role: "user", content: "durable" });
console.log("ready");

switch (how) {
  case "leave":
    // Nothing is closed, and nothing is waited for.
    break;
  case "exit": {
    // In the middle of a hundred appends.
    for (let index = 0; index < 100; index++) void context.appendMessage({ role: "user", content: `${index}` });
    process.exit(7);
    break;
  }
  case "exit-in-turn": {
    // Appends to streams that are handed over together, at the end of a turn that has none.
    const stream = store.newId();
    for (let index = 0; index < 100; index++) void store.streams.append(stream, `${index}`, { durability: "os" });
    process.exit(7);
    break;
  }
  case "exit-in-loop": {
    for await (const event of context.events()) if (event.sequenceNumber === 1) process.exit(8);
    break;
  }
  case "throw":
    for (let index = 0; index < 10; index++) void context.appendMessage({ role: "user", content: `${index}` });
    throw new Error("on purpose");
  case "reject":
    void Promise.reject(new Error("on purpose"));
    await context.appendMessage({ role: "user", content: "x" });
    break;
  case "never":
    await new Promise(() => {});
    break;
  case "pending":
    // The process waits for what was begun, though nobody awaits it.
    for (let index = 0; index < 100; index++) void context.appendMessage({ role: "user", content: `${index}` });
    break;
  case "tail":
    // A reader that waits for what comes keeps the process.
    setTimeout(() => process.exit(9), 300);
    for await (const _ of store.tail()) void _;
    break;
  case "unhandled": {
    // A call that fails, and whose promise nobody looks at.
    void store.findSession("nobody");
    await new Promise((resolve) => setTimeout(resolve, 200));
    break;
  }
  default:
    throw new Error(`no ending ${how}`);
}
