// A node whose agent tells a lot that isn't recorded, with a signal and without; run with --expose-gc. Says how many of its
// messages are in memory at most.

import { openInMemory } from "runlog";
import { createClaudeNode } from "runlog/claude";

const store = await openInMemory();
for (const signal of [undefined, new AbortController().signal]) {
  let told = 0;
  let most = 0;
  const gone = new FinalizationRegistry(() => (told -= 1));
  const queryFn = async function* () {
    for (let index = 0; index < 2000; index++) {
      const message = { type: "keep_alive", index };
      gone.register(message, undefined);
      told += 1;
      yield message;
      if (index % 200 !== 199) continue;
      globalThis.gc();
      await new Promise((resolve) => setTimeout(resolve, 5));
      most = Math.max(most, told);
    }
    yield { type: "result", subtype: "success", result: "done", session_id: "s" };
  };
  await createClaudeNode({ queryFn }).run(await store.flows.create(), { nodeId: "a", prompt: "x", signal });
  console.log(most);
}
await store.close();
