// Programs that must not compile: `npm run check` fails where one of them does. None is ever run.

import type { Handle } from "../../src/handle.js";
import type { StoreCalls } from "../../src/generated/calls.js";
import type { NewAgent, NewChat, NewChatMessage, NewStep, Orchestrator, RuntimeCommand, Store } from "#runlog";

/** Known fields of a chat have their types, also beside fields that aren't known. */
export async function chats({ chats }: Store): Promise<void> {
  // @ts-expect-error a title is text
  await chats.create({ assistantId: "a", title: 5 });
  // @ts-expect-error a chat is active or archived
  await chats.create({ assistantId: "a", status: "closed" });
  // @ts-expect-error a chat is private, or the team's
  await chats.create({ assistantId: "a", share: "everyone" });
  // @ts-expect-error a chat is with an assistant
  await chats.create({ title: "Travel" });
  // @ts-expect-error a title is text
  await chats.create({ assistantId: "a", title: 5, colour: "blue" });
  // @ts-expect-error a chat is active or archived
  await chats.update("c", { status: "closed" });
  // @ts-expect-error a misspelt field is no other field
  await chats.create({ assistantId: "a", tilte: "Travel" });
  // @ts-expect-error a misspelt field is no other field
  await chats.update("c", { tilte: "Travel" });
  // @ts-expect-error when a chat was made never changes
  await chats.update("c", { createdAtMs: 5 });
  // @ts-expect-error a time is a number of milliseconds
  await chats.create({ assistantId: "a", createdAtMs: "2026-01-01T00:00:00Z" });
  // @ts-expect-error and has its unit in its name
  await chats.create({ assistantId: "a", createdAt: 5 });
  // @ts-expect-error a misspelt field is no field, read either
  console.log((await chats.get("c"))?.titel);
  // @ts-expect-error of a message neither
  console.log((await chats.getMessages("c"))[0]?.rol);
  // @ts-expect-error a list is in one of three orders
  await chats.list({ order: "title" });
}

/** Known fields of a message have their types. */
export async function messages({ chats }: Store): Promise<void> {
  // @ts-expect-error a block's id is text
  await chats.saveMessages("c", [{ role: "user", type: "text", props: {}, blockId: 7 }]);
  // @ts-expect-error a message has properties
  await chats.saveMessages("c", [{ role: "user", type: "text" }]);
  // @ts-expect-error a message is from the user or the assistant
  await chats.saveMessages("c", [{ role: "tool", type: "text", props: {} }]);
  // @ts-expect-error a misspelt field is no other field
  await chats.saveMessages("c", [{ role: "user", type: "text", props: {}, blockID: "b" }]);
  // @ts-expect-error a thread's id is text
  await chats.updateMessage("m", { threadId: 7 });
  // @ts-expect-error who made a chat stays
  await chats.update("c", { createdBy: "eve" });
  // @ts-expect-error the user's message has a type
  await chats.beginRequest("c", { assistantId: "a", message: { props: {} } });
  // @ts-expect-error a misspelt field is no other field
  await chats.beginRequest("c", { assistantId: "a", message: { type: "text", props: {}, blockID: "b" } });
  // @ts-expect-error a misspelt field is no other field
  await chats.updateMessage("m", { prop: {} });
  // @ts-expect-error a misspelt field is no other field
  await chats.updateStep("s", { error: "e", outptu: {} });
  // @ts-expect-error a block's id is text
  await chats.beginRequest("c", { assistantId: "a", message: { type: "text", props: {}, blockId: 7 } });
  // @ts-expect-error it has a message of its own, or answers one that is there
  await chats.beginRequest("c", { assistantId: "a" });
  // @ts-expect-error and not both
  await chats.beginRequest("c", { assistantId: "a", message: { type: "text", props: {} }, answers: "m" });
}

/** Known fields of a step have their types. */
export async function steps({ chats }: Store): Promise<void> {
  const step = { chatId: "c", requestId: "r", assistantId: "a", stackId: "s" };
  // @ts-expect-error a depth is a number
  await chats.saveSteps([{ ...step, type: "llm", status: "pending", stackDepth: "one" }]);
  // @ts-expect-error no step is of this type
  await chats.saveSteps([{ ...step, type: "thought", status: "pending" }]);
  // @ts-expect-error a misspelt field is no other field
  await chats.saveSteps([{ ...step, type: "llm", status: "pending", stackdepth: 1 }]);
  // @ts-expect-error a step is in a request
  await chats.saveSteps([{ chatId: "c", assistantId: "a", stackId: "s", type: "llm", status: "pending" }]);
  // @ts-expect-error no step has this status
  await chats.updateStep("s", { status: "done" });
}

/** What of a message or a step never changes, or is kept by the store, is in no update. */
export async function fixed({ chats }: Store): Promise<void> {
  // @ts-expect-error a step's id stays
  await chats.updateStep("s", { stepId: "t" });
  // @ts-expect-error a step stays in its chat
  await chats.updateStep("s", { chatId: "c" });
  // @ts-expect-error a step's place in the log stays
  await chats.updateStep("s", { id: 7 });
  // @ts-expect-error when a step was made stays
  await chats.updateStep("s", { createdAtMs: 5 });
  // @ts-expect-error when a step was last changed is the store's to say
  await chats.updateStep("s", { updatedAtMs: 5 });
  // @ts-expect-error when a message was made stays
  await chats.updateMessage("m", { createdAtMs: 5 });
  // @ts-expect-error when a message was last changed is the store's to say
  await chats.updateMessage("m", { updatedAtMs: 5 });
}

/** Whoever doesn't know of whom chats are asked for doesn't get everybody's. */
export async function ofWhom(store: Store, known?: string): Promise<void> {
  const { chats } = store;
  // @ts-expect-error who may see the chats is known
  await chats.list({ visibleTo: known });
  // @ts-expect-error who made the chats is known
  await chats.list({ userId: known });
  // @ts-expect-error whose team it is, is known
  await chats.list({ teamId: known });
  // @ts-expect-error whose tenant it is, is known
  await chats.list({ tenantId: known });
  // @ts-expect-error who may see the messages is known
  await chats.searchMessages({ text: "x", visibleTo: known });
  // @ts-expect-error who made the chats is known
  await chats.searchMessages({ text: "x", userId: known });
  // @ts-expect-error whose tenant it is, is known
  await chats.searchMessages({ text: "x", tenantId: known });
  // @ts-expect-error the last message to copy is known
  await store.copySession("s", { upToMessage: known });
  // @ts-expect-error whose the copy is, is known
  await store.copySession("s", { createdBy: known });
}

/** Known fields of an agent have their types. */
export async function agents({ agents }: Store): Promise<void> {
  // @ts-expect-error steps are counted
  await agents.define({ name: "a", maxSteps: "many" });
  // @ts-expect-error steps are counted
  await agents.put({ name: "a", maxSteps: "many" });
  // @ts-expect-error tools are named in a list
  await agents.put({ name: "a", tools: "grep" });
  // @ts-expect-error a misspelt field is no other field
  await agents.put({ name: "a", maxStep: 5 });
  // @ts-expect-error an agent has a name
  await agents.put({ description: "Finds papers." });
  // @ts-expect-error no agent is visible so
  await agents.update("a", { visibility: "secret" });
}

/** The same where a variable is given its type first. */
export const variables: [NewChat, NewChatMessage, NewStep, NewAgent] = [
  // @ts-expect-error a place is a number
  { assistantId: "a", sort: "first" },
  // @ts-expect-error a request's id is text
  { role: "user", type: "text", props: {}, requestId: 7 },
  // @ts-expect-error why it failed is text
  { chatId: "c", requestId: "r", assistantId: "a", stackId: "s", type: "llm", status: "failed", error: 7 },
  // @ts-expect-error a time is a number
  { name: "a", defaultTimeoutMs: "60s" },
];

/** A run is in one place, and so is an agent that starts. */
export async function places({ runs }: Store, orchestrator: Orchestrator): Promise<void> {
  const place = { session: {}, agentName: "a" };
  await runs.start(place);
  // @ts-expect-error it can't be in a session that is made, and in an instance
  await runs.start({ ...place, instanceId: "i" });
  // @ts-expect-error an agent of a new session has a name
  await runs.start({ session: {} });
  await orchestrator.start({ agentName: "a", task: "t" });
  // @ts-expect-error it starts in one of them
  await orchestrator.start({ agentName: "a", task: "t", session: {}, sessionId: "s" });
  // @ts-expect-error it starts in one of them
  await orchestrator.start({ agentName: "a", task: "t", sessionId: "s", instanceId: "i" });
}

/** Commands for one run say which. */
export async function commands({ flows }: Store): Promise<void> {
  const flow = await flows.create();
  // @ts-expect-error a message is for a run
  await flow.command({ type: "send", message: "Hurry!" });
  // @ts-expect-error a reply is for a run
  await flow.command({ type: "reply" });
  // @ts-expect-error what is told an agent is text
  await flow.command({ type: "send", runId: "r1", message: 7 });
  // @ts-expect-error what is told an agent is text
  await flow.command({ type: "resume", message: 7 });
  // @ts-expect-error a message is for a run
  const command: RuntimeCommand = { type: "send", message: "Hurry!" };
  await flow.command(command);
}

/** A message is from somebody whom providers know. */
export async function roles(store: Store): Promise<void> {
  const context = await store.context("i");
  // @ts-expect-error no message is from a bot
  await context.appendMessage({ role: "bot", content: "Hi." });
  // @ts-expect-error no message is from a bot
  await context.appendMessages([{ role: "user", content: "Hi." }, { role: "bot", content: "Hi." }]);
  // @ts-expect-error a message is from somebody
  await context.appendMessage({ content: "Hi." });
  const recorder = await store.runs.start({
    agentName: "a",
    session: {},
    // @ts-expect-error no message is from a bot
    messages: [{ role: "bot", content: "Hi." }],
  });
  // @ts-expect-error no message is from a bot
  await recorder.recordMessage({ role: "bot", content: "Hi." });
}

/** What is asked for is asked for by its name, where nothing else is kept. */
export async function options({ runs }: Store): Promise<void> {
  // @ts-expect-error a list has no such filter
  await runs.list({ state: "paused" });
  // @ts-expect-error no run has this status
  await runs.list({ status: "sleeping" });
}

/** What is called of the core is a call that it has, with the arguments that it takes, and answers what it does. */
export async function calls(store: Handle<StoreCalls>): Promise<void> {
  // @ts-expect-error no call has this name
  await store.value("lisRuns", {});
  // @ts-expect-error a limit is a number
  await store.value("listRuns", { limit: "10" });
  // @ts-expect-error a run is named
  await store.value("getRun");
  // @ts-expect-error it answers contents
  await store.value("runMessages", { run: "r" });
  // @ts-expect-error a page has items
  (await store.value("listRuns")).runs;
}
