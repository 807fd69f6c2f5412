import { type Store } from "#runlog";
import { places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

// A field that isn't known is refused with those that are: all that can be given there, and nothing that can't.

const RUN = "01890000-0000-7000-8000-000000000001";
/** Given where the types don't know it. */
const unknown = { misspelt: 1 } as object as never;

type Call = (store: Store) => Promise<unknown>;

const CALLS: [string, Call, string][] = [
  ["store.orchestrator", (store) => store.orchestrator(unknown), "concurrentMax liveMax spawnMax depthMax stopGraceMs answerTimeoutMs maxTotalSteps inboxMax toolStyle agents"],
  ["store.compact", (store) => store.compact(unknown), "scope codec dryRun bytesPerSecond onProgress signal"],
  ["store.retain", (store) => store.retain(unknown), "olderThanMs keepLast maxBytes statuses deleted deltasOlderThanMs project archived dryRun compact onProgress signal"],
  ["store.updateSession", (store) => store.updateSession(RUN, unknown), "title status metadata"],
  ["store.streams.commit", (store) => store.streams.commit([], unknown), "key durability"],
  ["store.streams.read", (store) => store.streams.read(RUN, unknown).toArray(), "first last backward kinds limit signal"],
  ["a step of a batch", (store) => store.streams.commit([{ truncate: RUN, after: 0, ...(unknown as object) }]), "truncate after expected"],
  ["contexts.appendEvent", (store) => store.contexts.appendEvent(RUN, "user_message", {}, unknown), "expectedLastSequence idempotencyKey durability event toolCallId"],
  ["runs.start", (store) => store.runs.start({ session: {}, agentName: "a", ...(unknown as object) }), "instanceId newInstance session agentName id project parentRunId maxSteps nodeId usage metadata dangling concurrent messages"],
  ["runs.children", (store) => store.runs.children(RUN, unknown), "limit cursor"],
  ["flows.playback", (store) => store.flows.playback(RUN, unknown), "first last types nodes runs backward silenceMaxMs speed signal"],
  ["chats.beginRequest", (store) => store.chats.beginRequest("c", { assistantId: "a", message: { type: "text", props: {} }, ...(unknown as object) }), "requestId assistantId stackId after exclusive replaces message answers"],
  ["agents.get", (store) => store.agents.get("a", unknown), "project"],
  ["agents.delete", (store) => store.agents.delete("a", unknown), "project"],
  ["orchestrator.resume", async (store) => (await store.orchestrator()).resume(RUN, unknown), "message maxSteps maxTotalSteps dangling ended id parentRunId timeoutMs"],
  ["orchestrator.spawn", async (store) => (await store.orchestrator()).spawn(RUN, [], unknown), "toolCallId signal"],
  ["orchestrator.pause", async (store) => (await store.orchestrator()).pause(RUN, unknown), "reason kind"],
];

describe.each(places)("fields that aren't known $name", ({ fresh }) => {
  test.each(CALLS)("are told with those that are: %s", async (_, call, known) => {
    const { message } = await failure(call(await fresh()), "invalid_input");
    const names = known.split(" ").map((name) => `\`${name}\``);
    expect(message).toMatch(/`misspelt` is not a field that is known here; known are /);
    expect(message.slice(message.indexOf("; known are ") + "; known are ".length)).toBe(names.join(", "));
  });

  test("are told of a field within another as they are there", async () => {
    const store = await fresh();
    const started = store.runs.start({ session: { titel: "t" } as object, agentName: "a" });
    expect((await failure(started, "invalid_input")).message).toMatch(/^`session`: `titel` is not a field that is known here; known are (?!.*`messages`)/);
  });
});
