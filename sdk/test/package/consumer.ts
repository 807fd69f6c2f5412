// A program of a user's, checked with the types of the packed package.
import { type AgentEvent, RawJson, RunlogError, type Store, open } from "runlog";

export async function main(path: string): Promise<string[]> {
  await using store: Store = await open(path, { durability: { intervalMs: 100 } });
  const { instance } = await store.startSession({ title: "x", metadata: { a: 1 } }, "agent");
  const context = await store.context(instance.id);
  await context.appendMessage(RawJson.parse('{"role":"user","content":"hi"}'));
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
