// An agent with tools, recorded as it works: every message and result is durable before the next.
//
//   node examples/agent.mjs [STORE]

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { open } from "runlog";

/** Stands in for a provider's API: answers by how far the conversation is. */
function scriptedModel(messages) {
  const call = (id, name, args) => ({
    role: "assistant",
    content: null,
    tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }],
  });
  switch (messages.filter((message) => message.role === "assistant").length) {
    case 0:
      return call("call_1", "list_files", { path: "src" });
    case 1:
      return call("call_2", "read_file", { path: "src/missing.ts" });
    case 2:
      return call("call_3", "read_file", { path: "src/parser.ts" });
    default:
      return { role: "assistant", content: "The loop ends one line too early." };
  }
}

const files = { "src/parser.ts": "for (let i = 0; i < lines.length - 1; i++) parse(lines[i]);" };
const tools = {
  list_files: ({ path }) => Object.keys(files).filter((name) => name.startsWith(path)).join("\n"),
  read_file: ({ path }) => {
    if (!(path in files)) throw new Error(`no such file: ${path}`);
    return files[path];
  },
};

const path = process.argv[2] ?? join(mkdtempSync(join(tmpdir(), "runlog-example-")), "store");
const store = await open(path);
const run = await store.runs.start({
  session: { title: "Fix the parser" },
  agentName: "coder",
  maxSteps: 20,
  messages: [
    { role: "system", content: "You are a careful software engineer." },
    { role: "user", content: "The parser drops the last line." },
  ],
});
const context = await store.context(run.run.instanceId);

for (;;) {
  await run.nextStep();
  const answer = scriptedModel(await context.getMessages());
  await run.recordMessage(answer);
  if (!answer.tool_calls) {
    await run.complete(answer.content);
    break;
  }
  for (const { id, function: called } of answer.tool_calls) {
    const began = performance.now();
    try {
      const output = tools[called.name](JSON.parse(called.arguments));
      await run.recordToolResult({ toolCallId: id, output, durationMs: performance.now() - began });
    } catch (error) {
      await run.recordToolResult({ toolCallId: id, output: error.message, status: "error" });
    }
  }
}

const { status, summary, stepCount } = await store.runs.get(run.id);
console.log(`${status} after ${stepCount} steps: ${summary}`);
for (const call of (await store.runs.toolCalls(run.id)).items) {
  console.log(`  step ${call.stepNumber}: ${call.toolName}(${call.inputJson}) ${call.status}`);
}
await store.close();
console.log(`kept in ${path}: runlog --store ${path} show @last`);
