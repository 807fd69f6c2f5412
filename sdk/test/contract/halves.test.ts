import type { RequestBuffer } from "#runlog";
import { lastingPlace, places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

// Text of requests that ends within a character.

const message = { role: "assistant", type: "text" } as const;
const text = (content: string) => ({ ...message, props: { content } });

/** What says of itself what it is in JSON, where fields of it aren't. */
class Answer {
  readonly #said: string;
  constructor(said: string) {
    this.#said = said;
  }
  toJSON(): object {
    return { content: this.#said, made: "by toJSON", score: Number.NaN };
  }
}

describe.each(places)("halves of characters $name", ({ fresh }) => {
  const asked = async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "a" });
    return {
      chats,
      chatId,
      begin: (): Promise<RequestBuffer> => chats.beginRequest(chatId, { assistantId: "a", message: { type: "text", props: { content: "q" } } }),
      said: async () => (await chats.getMessages(chatId, { role: "assistant" })).map(({ props }) => props.content),
      props: async () => (await chats.getMessages(chatId, { role: "assistant" })).map(({ props }) => props),
    };
  };

  test("what is no end of a request leaves them waiting for the other half", async () => {
    const { begin, said } = await asked();
    const request = await begin();
    const id = await request.send(text(""));
    await request.append(id, "A\ud83d");
    await failure(request.finish("done" as never), "invalid_input");
    await request.append(id, "\ude00B");
    await request.finish("completed");
    expect(await said()).toEqual(["A😀B"]);
  });

  test("an end that can't be written has told of them, and what was missing is told of once", async () => {
    const { chats, chatId, begin, said } = await asked();
    const request = await begin();
    const id = await request.send(text("A\ud83d"));
    await chats.delete(chatId);
    await failure(request.finish("completed"), "not_found");
    await chats.restore(chatId);
    await request.append(id, "");
    await request.append(id, "\ude00B\ud83d");
    await request.append(id, "\ude00");
    await request.finish("completed");
    expect(await said()).toEqual(["A\ufffdB😀"]);
  });

  test("the end tells of those of a message whose id nobody waited for", async () => {
    const { begin, said } = await asked();
    const request = await begin();
    void request.send(text("A\ud83d"));
    await request.finish("completed");
    expect(await said()).toEqual(["A\ufffd"]);
  });

  test("fields of a message are read once", async () => {
    const { begin, props } = await asked();
    const request = await begin();
    let reads = 0;
    const counting = {
      get content() {
        return `${++reads}\ud83d`;
      },
    };
    const id = await request.send({ ...message, props: counting });
    await request.replace(id, counting);
    await request.append(id, "\ude00");
    await request.finish("completed");
    expect(await props()).toEqual([{ content: "2😀" }]);
  });

  test.each(["whole", "half\ud83d"])("what says what it is in JSON is kept as that: %j", async (said) => {
    const { begin, props } = await asked();
    const request = await begin();
    await request.send({ ...message, props: new Answer(said) });
    await request.replace(await request.send({ ...message, props: {} }), new Answer(said));
    await request.send({ toJSON: () => ({ ...message, props: new Answer(said) }) } as never);
    await request.finish("completed");
    const kept = { content: said.toWellFormed(), made: "by toJSON", score: null };
    expect(await props()).toEqual([kept, kept, kept]);
  });
});

test("a store that is closed tells of them in what it writes of its requests, and no other store of theirs", async () => {
  const places = [await lastingPlace(), await lastingPlace()];
  const [store, other] = await Promise.all(places.map((place) => place.open()));
  const begun: RequestBuffer[] = [];
  for (const { chats } of [store, other] as NonNullable<typeof store>[]) {
    await chats.create({ chatId: "c", assistantId: "a" });
    begun.push(await chats.beginRequest("c", { assistantId: "a", message: { type: "text", props: { content: "q" } } }));
  }
  const ids: string[] = [];
  for (const request of begun) ids.push(await request.send(text("")));
  for (const [at, request] of begun.entries()) await request.append(ids[at] as string, "A\ud83d");
  void begun[0]?.send(text("B\ud83d"));
  await store?.close();
  await begun[1]?.append(ids[1] as string, "\ude00");
  await other?.close();
  const said: unknown[] = [];
  for (const place of places) {
    const messages = await (await place.open()).chats.getMessages("c", { role: "assistant" });
    said.push(messages.map(({ props }) => props.content));
  }
  expect(said).toEqual([["A\ufffd", "B\ufffd"], ["A😀"]]);
});
