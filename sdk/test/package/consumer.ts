// A program of a user's, checked with the types of the packed package.
import { type AgentEvent, RawJson, RunlogError, type Store, open } from "runlog";
import { createClaudeNode } from "runlog/claude";
import { type FixtureSet, createMockQuery, loadFixtures, recordFixtures } from "runlog/testing";

/** A message as a library types it: an interface, without a place for other fields. */
interface LibraryMessage {
  role: "assistant";
  content: string | null;
  tool_calls?: { id: string }[];
}

export async function main(path: string): Promise<string[]> {
  await using store: Store = await open(path, { durability: { intervalMs: 100 } });
  const { instance } = await store.startSession({ title: "x", metadata: { a: 1 } }, "agent");
  const context = await store.context(instance.id);
  await context.appendMessage(RawJson.parse('{"role":"user","content":"hi"}'));
  const typed: LibraryMessage = { role: "assistant", content: "Hello." };
  await context.appendMessages([typed, { role: "assistant", content: null, tool_calls: [] }]);
  const event: AgentEvent = { type: "agent:text", nodeId: "n", runId: "r", timestamp: 1, content: "x" };
  const flow = await store.flows.create();
  await flow.record(event);
  const contents: string[] = [];
  for await (const message of context.events()) contents.push(message.json);
  try {
    await store.findSession("nobody");
  } catch (error) {
    if (error instanceof RunlogError && error.code === "not_found") return contents;
    throw error;
  }
  return [];
}

/** A flow in production, and in a test. */
export async function flow(store: Store): Promise<string> {
  const fixtures: FixtureSet = loadFixtures("tests/fixtures/my-workflow/");
  const mockQuery = createMockQuery({ fixtures });
  const claudeNode = createClaudeNode({ queryFn: mockQuery });
  const recorded = recordFixtures(createMockQuery<typeof mockQuery>({ fixtures }), { output: "tests/fixtures/recordings/" });
  for await (const message of recorded({ prompt: "Analyze the task list...", options: { maxTurns: 10 } })) {
    if (message.type === "agent:text") return message.content;
    if (message.type === "result") return message.text;
  }
  const { text } = await claudeNode.run(await store.flows.create(), { nodeId: "task-agent", prompt: "Analyze the task list..." });
  return text;
}
