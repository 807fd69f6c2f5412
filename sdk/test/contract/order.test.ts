import { type Store } from "#runlog";
import { places } from "#places";
import { describe, expect, test } from "vitest";

const ROUNDS = 10;
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index);
const text = (content: string) => ({ type: "text", props: { content } });

/** A chat with one message and one step. */
async function chatted(store: Store, chatId: string) {
  await store.chats.create({ chatId, assistantId: "a" });
  const [message] = await store.chats.saveMessages(chatId, [{ role: "assistant", ...text("") }]);
  const [step] = await store.chats.saveSteps([{ chatId, requestId: `${chatId}-r`, assistantId: "a", stackId: `${chatId}-k`, type: "llm", status: "running" }]);
  if (message === undefined || step === undefined) throw new Error("nothing was saved");
  return { messageId: message.messageId, stepId: step.stepId };
}

// What isn't awaited one by one is done in the order of the calls all the same.
describe.each(places)("the order of calls $name", ({ fresh }) => {
  test("of several changes of one thing the last one called is what stays", async () => {
    const store = await fresh();
    const { messageId, stepId } = await chatted(store, "c");
    const { session } = await store.startSession({}, "a");
    await store.agents.put({ name: "a" });
    for (const round of numbers(ROUNDS)) {
      const changes = numbers(5).map((number) => `${round}.${number}`);
      await Promise.all(
        changes.flatMap((name) => [
          store.chats.updateMessage(messageId, { props: { content: name } }),
          store.chats.updateStep(stepId, { output: { name } }),
          store.chats.update("c", { title: name }),
          store.updateSession(session.id, { title: name }),
          store.agents.update("a", { description: name }),
        ]),
      );
      const last = changes.at(-1);
      expect((await store.chats.getMessages("c"))[0]?.props).toEqual({ content: last });
      expect((await store.chats.getSteps("c-r"))[0]?.output).toEqual({ name: last });
      expect((await store.chats.get("c"))?.title).toBe(last);
      expect((await store.getSession(session.id))?.title).toBe(last);
      expect((await store.agents.get("a"))?.description).toBe(last);
    }
    await store.close();
  });

  test("what looks at what is there sees what was called before it, and not what was called after", async () => {
    const store = await fresh();
    for (const round of numbers(ROUNDS)) {
      const { session, instance } = await store.startSession({}, "a");
      const context = await store.context(instance.id);
      const says = (content: string) => context.appendMessage({ role: "user", content });
      const contents = async (id: string) => (await (await store.context(id)).getMessages<{ content: string }>()).map(({ content }) => content);
      const [, , , , copied] = await Promise.all([says("a"), context.truncateAfterSequence(0), says("b"), says("c"), store.copySession(session.id)]);
      expect(await contents(instance.id)).toEqual(["b", "c"]);
      expect(await contents((await store.rootInstance(copied.session.id)).id)).toEqual(["b", "c"]);

      const chatId = `c${round}`;
      await Promise.all([
        store.chats.create({ chatId, assistantId: "a" }),
        store.chats.saveMessages(chatId, [{ messageId: `${chatId}-m`, role: "assistant", ...text("x") }]),
        store.chats.updateMessage(`${chatId}-m`, text("y")),
      ]);
      expect((await store.chats.getMessages(chatId)).map(({ props }) => props)).toEqual([{ content: "y" }]);

      await Promise.all([store.chats.updateMessage(`${chatId}-m`, text("z")), store.chats.deleteMessages(chatId, [`${chatId}-m`])]);
      expect(await store.chats.getMessages(chatId)).toEqual([]);

      const [sessionId, id] = [store.newId(), store.newId()];
      await Promise.all([
        store.createSession({ id: sessionId }),
        store.createInstance({ sessionId, agentName: "a", id }),
        store.contexts.appendEvent(id, "user_message", { role: "user", content: "x" }),
        store.updateSession(sessionId, { title: "t" }),
      ]);
      expect([(await store.getSession(sessionId))?.title, await contents(id)]).toEqual(["t", ["x"]]);

      await Promise.all([store.agents.put({ name: "gone" }), store.agents.delete("gone")]);
      expect(await store.agents.get("gone")).toBeUndefined();
    }
    await store.close();
  });

  test("what is added to a chat beside changes of it stands in the order of the calls", async () => {
    const store = await fresh();
    for (const round of numbers(ROUNDS)) {
      const chatId = `c${round}`;
      const { messageId, stepId } = await chatted(store, chatId);
      const say = (number: number) => store.chats.saveMessages(chatId, [{ role: "user", ...text(`${number}`) }]);
      const step = (number: number) => store.chats.saveSteps([{ chatId, requestId: `${chatId}-r`, assistantId: "a", stackId: `${chatId}-k`, type: "llm", status: "running", input: { number } }]);
      // A message that was deleted can't be updated: those calls fail.
      await Promise.allSettled(
        numbers(30).flatMap((number) => [
          ...(number % 3 === 0 ? [store.chats.updateMessage(messageId, { props: { content: `${number}` } })] : []),
          ...(number === 7 ? [store.chats.redactMessage(messageId, "why")] : []),
          ...(number === 10 ? [store.chats.updateStep(stepId, { output: { number } }), store.chats.deleteMessages(chatId, [messageId])] : []),
          ...(number < 10 || number % 3 !== 0 ? [say(number), step(number)] : []),
        ]),
      );
      const kept = numbers(30).filter((number) => number < 10 || number % 3 !== 0);
      expect((await store.chats.getMessages(chatId)).map(({ props }) => Number((props as { content: string }).content))).toEqual(kept);
      expect((await store.chats.getSteps(`${chatId}-r`)).slice(1).map(({ input }) => (input as { number: number }).number)).toEqual(kept);
    }
    await store.close();
  });

  test("a store that is closed meanwhile has all that was called before", async () => {
    const store = await fresh();
    const { messageId } = await chatted(store, "c");
    const changes = numbers(20).map((number) => store.chats.updateMessage(messageId, { props: { content: `${number}` } }));
    await store.close();
    const changed = await Promise.all(changes);
    expect(changed.map(({ props }) => props)).toEqual(numbers(20).map((number) => ({ content: `${number}` })));
  });
});
