import type { ChatFilter, ListRequests, RequestBuffer, SearchMessages } from "#runlog";
import { lastingPlace, places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

const text = (content: string) => ({ role: "assistant", type: "text", props: { content } }) as const;

describe.each(places)("chats $name", ({ fresh }) => {
  test("a field whose name is nearly that of one that is known is refused, not kept beside it", async () => {
    const { chats } = await fresh();
    const make = (fields: object) => chats.create({ assistantId: "travel", ...fields });
    const refused = await failure(make({ chatID: "chat_1" }), "invalid_input");
    expect(refused.message).toBe('"chatID" is not a field of a chat, `chatId` is; call it that, or by a name that isn\'t so alike');
    // The chat would be nobody's: no list for "ann" would have it, and no erasure of hers.
    for (const name of ["userId", "user_id"]) {
      const { message } = await failure(make({ [name]: "ann" }), "invalid_input");
      expect(message).toBe(`"${name}" is what chats are listed by; whose a new chat is, is said by \`createdBy\``);
    }
    await make({ chatId: "chat_1" });
    expect((await failure(make({ chatId: "chat_1" }), "already_exists")).message).toBe(
      'there is a chat "chat_1" already; choose another id, or leave it out for a fresh one',
    );
    for (const Title of ["Trip", null]) await failure(chats.update("chat_1", { Title } as object), "invalid_input");
    await failure(chats.saveMessages("chat_1", [{ ...text("Oslo?"), ...{ threadid: "t" } }]), "invalid_input");
    expect(await chats.get("chat_1")).not.toHaveProperty("Title");
    expect(await chats.countMessages("chat_1")).toBe(0);
    await chats.saveMessages("chat_1", [{ messageId: "m", ...text("Oslo?") }]);
    for (const name of ["Props", "blockID", "messageID"]) {
      for (const value of ["x", null]) await failure(chats.updateMessage("m", { [name]: value } as object), "invalid_input");
    }
    const node = { chatId: "chat_1", requestId: "r", assistantId: "a", stackId: "s" };
    await chats.saveSteps([{ stepId: "s", ...node, type: "llm", status: "running" }]);
    for (const name of ["Status", "stackID", "stepID"]) await failure(chats.updateStep("s", { [name]: "completed" } as object), "invalid_input");
    expect((await chats.getSteps("r")).map(({ status }) => status)).toEqual(["running"]);
  });

  test("a field that isn't known is kept with a chat, a message and a step, and refused beside a request's message", async () => {
    const { chats } = await fresh();
    const own: object = { colour: "blue" };
    expect(await chats.create({ chatId: "c", assistantId: "a", ...own })).toMatchObject(own);
    expect(await chats.update("c", { ...own, title: "Sea", ...{ stars: 5 } })).toMatchObject({ colour: "blue", stars: 5 });
    await chats.saveMessages("c", [{ messageId: "m1", ...text("Oslo?"), ...own }]);
    const asked = { messageId: "m2", type: "text", props: {} };
    await (await chats.beginRequest("c", { assistantId: "a", message: { ...asked, ...own } })).close();
    expect(await chats.getMessages("c")).toMatchObject([own, own]);
    expect(await chats.updateMessage("m1", { colour: null } as object)).not.toHaveProperty("colour");
    const step = { chatId: "c", requestId: "r", assistantId: "a", stackId: "s", type: "llm", status: "running" } as const;
    expect(await chats.saveSteps([{ ...step, ...own }])).toMatchObject([own]);
    await failure(chats.beginRequest("c", { assistantId: "a", message: asked, ...own }), "invalid_input");
  });

  test("whose a chat is, is not left open by a value that isn't there", async () => {
    const { chats } = await fresh();
    const login = {} as { user?: string };
    for (const name of ["createdBy", "teamId", "tenantId"])
      for (const value of [login.user, null, ""]) {
        const refused = await failure(chats.create({ assistantId: "a", ...{ [name]: value } }), "invalid_input");
        expect(refused.message).toMatch(new RegExp(`^\`${name}\` is ${value === "" ? "empty" : String(value)}`));
      }
    await failure(chats.list({ visibleTo: "" }), "invalid_input");
    await failure(chats.searchMessages({ text: "x", userId: "" }), "invalid_input");
    expect((await chats.list({})).items).toEqual([]);
  });

  test("a second question is refused while the first is being answered, where it is to be the only one", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "a" });
    const ask = (content: string) => ({ assistantId: "a", exclusive: true, message: { type: "text", props: { content } } }) as const;
    const first = await chats.beginRequest(chatId, ask("Q1"));
    await failure(chats.beginRequest(chatId, ask("Q2")), "conflict");
    await failure(chats.withRequest(chatId, { assistantId: "a", exclusive: true, answers: (await chats.getMessages(chatId))[0]?.messageId as string }, () => {}), "conflict");
    await first.send(text("A1"));
    await first.finish("completed");
    await chats.withRequest(chatId, ask("Q2"), (request) => request.send(text("A2")));
    expect((await chats.getMessages(chatId)).map(({ props }) => (props as { content: string }).content)).toEqual(["Q1", "A1", "Q2", "A2"]);
  });

  test("whom chats are listed for is not left open by a value that isn't there", async () => {
    const { chats } = await fresh();
    await chats.create({ assistantId: "travel", createdBy: "ann" });
    const login = {} as { user?: string };
    expect((await failure(chats.list({ visibleTo: login.user as string }), "invalid_input")).message).toContain("everybody's chats");
    await failure(chats.list({ userId: undefined as never }), "invalid_input");
    await failure(chats.list({ userId: null as never }), "invalid_input");
    await failure(chats.list({ teamId: undefined as never }), "invalid_input");
    expect((await chats.list({})).items).toHaveLength(1);
    expect((await chats.list({ visibleTo: "eve" })).items).toHaveLength(0);
  });

  test("a question is answered anew, or asked in other words, and what that replaces is gone", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "travel" });
    const asked = (messageId: string) => ({ messageId, type: "text", props: { content: messageId } });
    const answering = (messageId: string) => async (request: RequestBuffer) => {
      await request.send({ ...text(messageId), messageId });
      await request.describe({ usage: { tokens: 7 } });
    };
    const ids = async () => (await chats.getMessages(chatId)).map((message) => message.messageId);
    await chats.withRequest(chatId, { assistantId: "a", message: asked("q1") }, answering("a1"));
    const again = { assistantId: "a", answers: "q1", replaces: "a1", after: "a1" };
    const failing = chats.withRequest(chatId, again, () => Promise.reject(new Error("overloaded")));
    await expect(failing).rejects.toThrow("overloaded");
    expect(await ids()).toEqual(["q1", "a1"]);
    await chats.withRequest(chatId, again, answering("a2"));
    expect(await ids()).toEqual(["q1", "a2"]);
    // Another page has shown the answer that is gone.
    const stale = await failure(chats.withRequest(chatId, again, answering("a3")), "conflict");
    expect(stale.message).toBe(
      'the chat\'s last message is "a2", not "a1": it was written to meanwhile; read it again, and decide by what is there',
    );
    await chats.withRequest(chatId, { assistantId: "a", message: asked("q2"), replaces: "q1" }, answering("a3"));
    expect(await ids()).toEqual(["q2", "a3"]);
    const requests = await chats.getRequests(chatId);
    expect(requests.map(({ answers, usage }) => [answers, usage])).toEqual([
      [undefined, { tokens: 7 }],
      ["q1", undefined],
      ["q1", { tokens: 7 }],
      [undefined, { tokens: 7 }],
    ]);
    await failure(chats.getRequests("else"), "not_found");
  });

  test("messages are found by what they say, of whom one may see, page by page", async () => {
    const { chats } = await fresh();
    const made = async (createdBy: string, says: string[]) => {
      const { chatId } = await chats.create({ assistantId: "travel", createdBy });
      await chats.saveMessages(chatId, says.map(text));
      return chatId;
    };
    const ann = await made("ann", ["Oslo?", "Bergen?", "OSLO!"]);
    const bob = await made("bob", ["oslo"]);
    const found = async (search: SearchMessages) => (await chats.searchMessages(search)).items.map((each) => [each.chatId, each.props.content]);
    expect(await found({ text: "oslo" })).toEqual([[bob, "oslo"], [ann, "OSLO!"], [ann, "Oslo?"]]);
    expect(await found({ text: "oslo", visibleTo: "ann" })).toEqual([[ann, "OSLO!"], [ann, "Oslo?"]]);
    expect(await found({ text: "oslo", chatId: bob, userId: "ann" })).toEqual([]);
    const first = await chats.searchMessages({ text: "oslo", limit: 2 });
    expect([first.items.length, first.next === undefined]).toEqual([2, false]);
    expect(await found({ text: "oslo", limit: 2, cursor: first.next })).toEqual([[ann, "Oslo?"]]);
    const { user } = {} as { user?: string };
    expect((await failure(chats.searchMessages({ text: "oslo", visibleTo: user as string }), "invalid_input")).message).toContain("everybody's messages");
    await failure(chats.searchMessages({ text: "" }), "invalid_input");
    await failure(chats.searchMessages({ text: "oslo", cursor: "x" }), "invalid_input");
  });

  test("a chat is followed from how it is to its end, and what happens in others wakes nobody", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ chatId: "trip", assistantId: "travel", title: "Oslo" });
    const { chatId: other } = await chats.create({ assistantId: "travel" });
    expect(await chats.sessionId(other)).toBe(other);
    expect(await chats.sessionId(chatId)).not.toBe(chatId);
    await failure(chats.sessionId("else"), "not_found");
    await failure(chats.follow("else").toArray(), "not_found");
    const changes = chats.follow(chatId)[Symbol.asyncIterator]();
    const next = async () => {
      const { value } = await changes.next();
      return value && [value.title, await chats.countMessages(chatId)];
    };
    expect(await next()).toEqual(["Oslo", 0]);
    const waiting = next();
    let hasCome = false;
    void waiting.then(() => (hasCome = true));
    for (let count = 0; count < 20; count += 1) await chats.saveMessages(other, [text("x")]);
    expect(hasCome).toBe(false);
    await chats.saveMessages(chatId, [{ ...text("a"), messageId: "a" }, text("b")]);
    expect(await waiting).toEqual(["Oslo", 2]);
    await chats.update(chatId, { title: "Bergen" });
    expect(await next()).toEqual(["Bergen", 2]);
    await chats.updateMessage("a", { props: { content: "c" } });
    expect(await next()).toEqual(["Bergen", 2]);
    await chats.deleteMessages(chatId, ["a"]);
    await chats.update(chatId, { title: "Tromsø" });
    expect(await next()).toEqual(["Tromsø", 1]);
    await chats.delete(chatId);
    // Another chat has its id by the time that is looked at.
    await chats.create({ chatId: "trip", assistantId: "travel", title: "Another" });
    expect(await changes.next()).toEqual({ done: true, value: undefined });
  });

  test("a follower of a chat ends with its signal, and with the store", async () => {
    const store = await fresh();
    const { chatId } = await store.chats.create({ assistantId: "travel" });
    const gone = new AbortController();
    const seen: string[] = [];
    const follow = async (signal?: AbortSignal) => {
      for await (const chat of store.chats.follow(chatId, { signal })) seen.push(chat.chatId);
    };
    const both = [follow(gone.signal), follow()];
    await expect.poll(() => seen.length).toBe(2);
    gone.abort();
    await both[0];
    await store.close();
    await both[1];
    expect(() => store.chats.follow(chatId, { from: 1 } as object)).toThrow("`from` is not a field that is known here");
  });

  test("of what answers a message at the same time, one is saved", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "travel" });
    await chats.saveMessages(chatId, [{ ...text("first"), messageId: "first" }]);
    const pages = Array.from({ length: 20 }, (_, page) => chats.saveMessages(chatId, [text(String(page))], { after: "first" }));
    const ended = await Promise.allSettled(pages);
    expect(ended.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await chats.countMessages(chatId)).toBe(2);
  });

  test("of two first messages of a chat one is saved, and a copy is no larger and for nobody else because a value isn't there", async () => {
    const store = await fresh();
    const { chats } = store;
    const { chatId } = await chats.create({ assistantId: "travel", createdBy: "ann" });
    const message = { type: "text", props: { content: "Oslo?" } };
    const pages = ["a", "b", "c"].map((page) => chats.beginRequest(chatId, { assistantId: page, message, after: null }));
    const ended = await Promise.allSettled(pages);
    expect(ended.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected", "rejected"]);
    await failure(chats.saveMessages(chatId, [], { after: null }), "conflict");
    const login = {} as { user?: string };
    for (const options of [{ createdBy: login.user }, { createdBy: "" }, { createdBy: null }, { upToMessage: login.user }]) {
      await failure(store.copySession(chatId, options as object), "invalid_input");
    }
    expect((await chats.list({ userId: "ann" })).total).toBe(1);
  });

  test("who lets go of a request of a deleted chat isn't told of that instead of what went wrong", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "travel" });
    const message = { type: "text", props: { content: "Oslo?" } };
    const request = await chats.beginRequest(chatId, { assistantId: "a", message });
    await request.send(text("By train?"));
    await chats.delete(chatId);
    await failure(request.finish("completed"), "not_found");
    await chats.restore(chatId);
    await request.finish("completed");
    expect(await chats.countMessages(chatId)).toBe(2);
    const other = await chats.beginRequest(chatId, { assistantId: "a", message });
    await chats.delete(chatId);
    await other.close();
    await chats.restore(chatId);
    const { items } = await chats.listRequests({ chatId });
    expect(items.map(({ requestId }) => requestId)).toEqual([other.requestId]);
    await expect.poll(async () => (await chats.listRequests({ unattended: true })).items.length).toBe(1);
  });

  test("what is to be last, replaced or answered is not left open by a value that isn't there", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "travel" });
    const message = { type: "text", props: {} };
    const none = [][0] as unknown as string;
    const begin = (fields: object) => chats.beginRequest(chatId, { assistantId: "a", message, ...fields });
    expect((await failure(begin({ after: none }), "invalid_input")).message).toBe(
      "`after` must be the id of a message, not undefined; give null where there is none",
    );
    await failure(begin({ after: "" }), "invalid_input");
    await failure(begin({ replaces: null }), "invalid_input");
    await failure(begin({ message: undefined, answers: none }), "invalid_input");
    await failure(begin({ answers: "q1" }), "invalid_input");
    expect((await failure(begin({ message: undefined }), "invalid_input")).message).toContain("`answers`");
    await failure(begin({ requestId: "r1", message: { ...message, requestId: "r2" } }), "invalid_input");
    await failure(begin({ message: undefined, answers: "q1" }), "not_found");
    await failure(chats.saveMessages(chatId, [text("a")], { after: none }), "invalid_input");
    await failure(chats.saveMessages(chatId, [text("a")], { afterMessage: "q1" } as object), "invalid_input");
    await failure(chats.saveMessages(chatId, [text("a")], "q1" as unknown as object), "invalid_input");
    expect(await chats.countMessages(chatId)).toBe(0);
  });

  test("a request whose work was stopped is interrupted, and one whose work failed has failed", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "travel" });
    const message = { type: "text", props: { content: "Oslo?" } };
    const ended = async (error: Error) => {
      let id = "";
      const work = chats.withRequest(chatId, { assistantId: "travel", message }, (request) => {
        id = request.requestId;
        throw error;
      });
      await expect(work).rejects.toBe(error);
      return (await chats.getRequest(id))?.status;
    };
    expect(await ended(new DOMException("The user stopped it.", "AbortError"))).toBe("interrupted");
    expect(await ended(new Error("model down"))).toBe("failed");
    expect(await ended(new DOMException("The operation timed out.", "TimeoutError"))).toBe("failed");
  });

  test("a request whose signal was aborted is interrupted, whatever its work throws, and is not begun after that", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "travel" });
    const asked = { assistantId: "travel", message: { type: "text", props: { content: "Oslo?" } } };
    const ended = async (thrown: unknown, stop: (controller: AbortController) => void) => {
      let id = "";
      const controller = new AbortController();
      const { signal } = controller;
      const work = chats.withRequest(
        chatId,
        asked,
        async (request) => {
          id = request.requestId;
          await request.startStep("llm", {});
          stop(controller);
          throw thrown;
        },
        { signal },
      );
      expect(await work.catch((error: unknown) => error)).toBe(thrown);
      const { status, error } = (await chats.getRequest(id)) ?? {};
      return [status, error];
    };
    const stopped = ["interrupted", undefined];
    expect(await ended("user stop", (controller) => controller.abort("user stop"))).toEqual(stopped);
    const late = new DOMException("The operation timed out.", "TimeoutError");
    expect(await ended(late, (controller) => controller.abort(late))).toEqual(stopped);
    expect(await ended(undefined, (controller) => controller.abort(null))).toEqual(stopped);
    expect(await ended("user stop", () => {})).toEqual(["failed", "user stop"]);
    expect(await ended(late, () => {})).toEqual(["failed", "The operation timed out."]);

    const after = new AbortController();
    expect(await chats.withRequest(chatId, asked, () => (after.abort(), "said"), { signal: after.signal })).toBe("said");
    expect((await chats.getRequests(chatId)).at(-1)?.status).toBe("completed");

    const count = await chats.countMessages(chatId);
    const work = () => { throw new Error("it began"); };
    expect((await failure(chats.withRequest(chatId, asked, work, { signal: AbortSignal.abort("user stop") }), "aborted")).cause).toBe("user stop");
    await failure(chats.withRequest(chatId, asked, work, { signal: "x" as never }), "invalid_input");
    await failure(chats.withRequest(chatId, asked, work, { signl: after.signal } as object), "invalid_input");
    await failure(chats.withRequest(chatId, asked, work, null as never), "invalid_input");
    expect(await chats.countMessages(chatId)).toBe(count);
  });

  test("a chat is copied up to any of its messages, without an agent", async () => {
    const store = await fresh();
    const { chats } = store;
    const { chatId } = await chats.create({ assistantId: "travel" });
    const messages = ["a", "b", "c"].map((content) => ({ messageId: `m-${content}`, ...text(content) }));
    await chats.saveMessages(chatId, messages);
    const copied = async (upToMessage: string) => (await store.copySession(chatId, { upToMessage })).session.id;
    const said = async (id: string) => (await chats.getMessages(id)).map(({ props }) => props.content).join("");
    expect(await said(await copied("m-a"))).toBe("a");
    const copy = await copied("m-b");
    await chats.saveMessages(copy, [text("else")]);
    await chats.deleteMessages(chatId, ["m-a"]);
    expect([await said(copy), await said(chatId), await said(await copied("m-b"))]).toEqual(["abelse", "bc", "b"]);
    expect((await failure(store.copySession(chatId, { upToMessage: "m-a" }), "not_found")).message).toBe(
      `the chat of session ${chatId} has no message "m-a", or it was deleted`,
    );
    await failure(store.copySession(chatId, { upToMessage: "m-b", upToSequence: 0 }), "invalid_input");
    await failure(store.copySession(chatId, { upToMessage: 2 } as never), "invalid_input");
    expect((await store.listSessions({ limit: 100 })).items).toHaveLength(4);
  });

  test("a chat is made, found, changed and deleted, with every field", async () => {
    const { chats } = await fresh();
    const made = await chats.create({
      chatId: "chat_123",
      title: "Trip",
      assistantId: "travel",
      createdBy: "user123",
      teamId: "team1",
      metadata: { colour: "red" },
      share: "team",
      sort: 3,
      ...{ own_field: 7 },
    });
    expect(made).toMatchObject({
      chatId: "chat_123",
      mode: "chat",
      status: "active",
      preset: false,
      public: false,
      share: "team",
      sort: 3,
      createdBy: "user123",
      teamId: "team1",
      metadata: { colour: "red" },
      own_field: 7,
    });
    expect(made.createdAtMs).toBeGreaterThan(1_700_000_000_000);
    expect(await chats.get("chat_123")).toEqual(made);
    const changed = await chats.update("chat_123", { title: "Oslo", metadata: null, updatedBy: "user9" });
    expect(changed).toMatchObject({ title: "Oslo", updatedBy: "user9" });
    expect(changed.metadata).toBeUndefined();
    await failure(chats.update("chat_123", { createdAtMs: 5 } as never), "invalid_input");
    await failure(chats.create({ chatId: "chat_123", assistantId: "x" }), "already_exists");
    await chats.delete("chat_123");
    expect(await chats.get("chat_123")).toBeUndefined();
    expect((await chats.create({ assistantId: "x" })).chatId).not.toBe("");
  });

  test("chats are listed by filter, page and cursor", async () => {
    const { chats } = await fresh();
    for (let index = 0; index < 5; index++) {
      await chats.create({ assistantId: index % 2 ? "a" : "b", title: `Trip ${index}`, createdBy: "u" });
    }
    const page = await chats.list({ userId: "u", page: 2, pageSize: 2 });
    expect(page).toMatchObject({ page: 2, pageSize: 2, pageCount: 3, total: 5 });
    expect(page.items.map((chat) => chat.title)).toEqual(["Trip 2", "Trip 1"]);
    expect((await chats.list({ assistantId: "a" })).total).toBe(2);
    expect((await chats.list({ keywords: "trip 4" })).items).toHaveLength(1);
    const first = await chats.list({ pageSize: 3 });
    const second = await chats.list({ pageSize: 3, cursor: first.next as string });
    await failure(chats.list({ page: 2, pageSize: 3, cursor: first.next as string }), "invalid_input");
    expect(second.items.map((chat) => chat.title)).toEqual(["Trip 1", "Trip 0"]);
    expect(second.next).toBeUndefined();
  });

  test("chats are listed in three orders", async () => {
    const { chats } = await fresh();
    const createdAtMs = Date.UTC(2024, 0, 2, 3, 4, 5);
    for (const [chatId, sort] of [["a", 3], ["b", 1], ["c", 2]] as const) {
      await chats.create({ chatId, sort, assistantId: "x", createdAtMs });
    }
    const listed = async (order: "created" | "last_message" | "sort") =>
      (await chats.list({ order })).items.map((chat) => chat.chatId);
    expect(await listed("created")).toEqual(["c", "b", "a"]);
    expect(await listed("sort")).toEqual(["b", "c", "a"]);
    await chats.saveMessages("b", [text("hello")]);
    expect((await listed("last_message"))[0]).toBe("b");
    expect((await chats.get("b"))?.lastMessageAtMs).toBeGreaterThan(createdAtMs);
  });

  test("times are milliseconds, and one without its unit is refused", async () => {
    const { chats } = await fresh();
    const made = await chats.create({ assistantId: "x", createdAtMs: 5 });
    expect(made.createdAtMs).toBe(5);
    const [saved] = await chats.saveMessages(made.chatId, [{ ...text("hello"), createdAtMs: 1_000 }]);
    expect(saved?.createdAtMs).toBe(1_000);
    expect((await chats.get(made.chatId))?.lastMessageAtMs).toBe(1_000);
    const wrong = { assistantId: "x", createdAt: "2024-01-02T03:04:05Z" } as never;
    const refused = await failure(chats.create(wrong), "invalid_input");
    expect(refused.message).toContain("a time is `createdAtMs`, in milliseconds since 1970-01-01 UTC");
    const late = { ...text("late"), createdAt: new Date() } as never;
    await failure(chats.saveMessages(made.chatId, [late]), "invalid_input");
    expect(await chats.countMessages(made.chatId)).toBe(1);
  });

  test("messages are saved, filtered, changed and deleted", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "travel" });
    const saved = await chats.saveMessages(chatId, [
      { role: "user", type: "text", props: { content: "Oslo" }, requestId: "r1", messageId: "m1" },
      { role: "assistant", type: "image", props: { url: "a.png", alt: "A" }, requestId: "r1", blockId: "b1" },
      { ...text("By train?"), requestId: "r2", ...{ own_field: [1] } },
    ]);
    expect(saved.map((message) => message.sequence)).toEqual([1, 2, 3]);
    expect(saved[2]).toMatchObject({ requestId: "r2", own_field: [1], chatId });
    expect(await chats.getMessages(chatId)).toEqual(saved);
    expect(await chats.getMessages(chatId, { requestId: "r1", role: "assistant" })).toEqual([saved[1]]);
    expect(await chats.getMessages(chatId, { offset: 1, limit: 1 })).toEqual([saved[1]]);
    expect((await chats.get(chatId))?.lastMessageAtMs).toBeDefined();
    const changed = await chats.updateMessage("m1", { props: { content: "Bergen" } });
    expect(changed.props).toEqual({ content: "Bergen" });
    await chats.deleteMessages(chatId, ["m1"]);
    expect(await chats.getMessages(chatId)).toHaveLength(2);
    await failure(chats.deleteMessages(chatId, ["m1"]), "not_found");
    await failure(chats.saveMessages("nobody", [text("x")]), "not_found");
    await failure(chats.saveMessages(chatId, [{ ...text("x"), role: "tool" as never }]), "invalid_input");
  });

  test("messages are listed from the end, in pages", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "a" });
    const message = (n: number) => ({ ...text(`${n}`), messageId: `m${n}`, threadId: n % 2 ? "odd" : "even" });
    await chats.saveMessages(chatId, [1, 2, 3, 4, 5].map(message));
    const last = await chats.listMessages(chatId, { newestFirst: true, limit: 2 });
    expect(last.items.map((it) => it.messageId)).toEqual(["m5", "m4"]);
    const before = await chats.listMessages(chatId, { newestFirst: true, limit: 2, cursor: last.next });
    expect(before.items.map((it) => it.messageId)).toEqual(["m3", "m2"]);
    const odd = await chats.listMessages(chatId, { threadId: "odd", startAfter: "m1" });
    expect([odd.items.map((it) => it.messageId), odd.next]).toEqual([["m3", "m5"], undefined]);
    expect(await chats.countMessages(chatId)).toBe(5);
    expect(await chats.countMessages(chatId, { threadId: "even" })).toBe(2);
    await failure(chats.listMessages(chatId, { limit: 2, cursor: last.next }), "invalid_input");
    await failure(chats.listMessages(chatId, { startAfter: "m9" }), "not_found");
  });

  test("chats are listed by who may see them, deleted ones restored", async () => {
    const { chats } = await fresh();
    const named = { assistantId: "a", teamId: "red" };
    await chats.create({ ...named, chatId: "mine", createdBy: "ann", tenantId: "x" });
    await chats.create({ ...named, chatId: "ours", createdBy: "ben", share: "team" });
    await chats.create({ ...named, chatId: "his", createdBy: "ben" });
    await chats.create({ ...named, chatId: "all", createdBy: "ben", public: true });
    const ids = async (filter: ChatFilter) =>
      (await chats.list({ order: "created", ...filter })).items.map((chat) => chat.chatId);
    expect(await ids({ visibleTo: "ann", teams: ["red"] })).toEqual(["all", "ours", "mine"]);
    expect(await ids({ visibleTo: "ann" })).toEqual(["all", "mine"]);
    expect(await ids({ tenantId: "x" })).toEqual(["mine"]);
    expect(await ids({ share: "team" })).toEqual(["ours"]);
    expect(await ids({ public: false, userId: "ben" })).toEqual(["his", "ours"]);
    await failure(chats.list({ teams: ["red"] }), "invalid_input");
    await chats.delete("his");
    expect(await ids({ deleted: true })).toEqual(["his"]);
    expect((await chats.restore("his")).chatId).toBe("his");
    await failure(chats.restore("his"), "already_exists");
  });

  test("flushes that nobody awaits one by one write all that was gathered before each, once", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    const asked = { assistantId: "a", message: { type: "text", props: { content: "q" } } };
    const said = (content: string, messageId?: string) => ({ role: "assistant" as const, type: "text", props: { content }, ...(messageId === undefined ? {} : { messageId }) });
    const answers = async (requestId: string) => (await chats.getMessages("c", { requestId })).filter(({ role }) => role === "assistant").map(({ messageId, props }) => [messageId, props["content"]]);
    for (let round = 0; round < 12; round++) {
      const given = round % 2 === 0 ? undefined : `given ${round}`;
      // A flush beside another resolves once what was appended before it is there.
      const request = await chats.beginRequest("c", asked);
      const answer = await request.send(said("A", given));
      await Promise.all([request.flush(), request.append(answer, "B"), request.flush()]);
      expect(await answers(request.requestId)).toEqual([[answer, "AB"]]);
      // The exit comes behind flushes that are under way, and nothing is written twice.
      const pieces = ["C", "D", "E"].flatMap((piece) => [request.append(answer, piece), request.flush()]);
      await Promise.all([...pieces, request.append(answer, "F"), request.finish("completed")]);
      expect(await answers(request.requestId)).toEqual([[answer, "ABCDEF"]]);
      // An update that was called before is there before, and what was appended stands behind it.
      const second = await chats.beginRequest("c", asked);
      const other = await second.send(said("x"));
      await second.flush();
      await second.append(other, "y");
      await Promise.all([chats.updateMessage(other, { props: { content: "x", rating: 1 } }), round % 3 === 0 ? second.flush() : second.finish("completed")]);
      const saved = (await chats.getMessages("c", { requestId: second.requestId })).at(-1);
      expect(saved?.props).toEqual({ content: "xy", rating: 1 });
      await second.close();
    }
  });

  test("a request is flushed while it goes on, and its messages change their type", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "travel" });
    const message = { type: "text", props: { content: "?" } };
    const request = await chats.beginRequest(chatId, { assistantId: "travel", requestId: "req_1", message });
    const step = await request.startStep("llm", { n: 1 });
    const waiting = await request.send({ role: "assistant", type: "loading", props: {} });
    await Promise.all([
      request.flush(),
      request.flush(),
      request.replace(waiting, { content: "By " }, "text"),
      request.append(waiting, "train"),
    ]);
    const told = async () => (await chats.getMessages(chatId)).map((it) => [it.type, it.props]);
    expect((await told())[1]).toEqual(["loading", {}]);
    expect((await chats.getSteps("req_1")).map((it) => it.status)).toEqual(["running"]);
    await request.flush();
    await request.flush();
    expect((await told()).slice(1)).toEqual([["text", { content: "By train" }]]);
    await failure(request.replace(waiting, {}, ""), "invalid_input");
    await request.completeStep(step, { n: 2 });
    await request.append(waiting, "?");
    await Promise.all([request.flush(), request.finish("completed")]);
    await failure(request.flush(), "invalid_input");
    expect((await told()).slice(1)).toEqual([["text", { content: "By train?" }]]);
    const steps = await chats.getSteps("req_1");
    expect(steps.map((it) => [it.status, it.input, it.output])).toEqual([["completed", { n: 1 }, { n: 2 }]]);
  });

  test("a request is recorded in two writes, with its steps and its space", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "travel" });
    const request = await chats.beginRequest(chatId, {
      assistantId: "travel",
      requestId: "req_1",
      message: { type: "text", props: { content: "Oslo, please." } },
    });
    expect(await chats.getMessages(chatId)).toHaveLength(1);
    await request.space.set("currency", { code: "NOK" });
    const step = await request.startStep("llm", { messages: [] });
    const answer = await request.send(text("By "));
    await request.append(answer, "train");
    await request.append(answer, "?");
    await request.completeStep(step, { content: "By train?" });
    const failed = await request.startStep("tool", { server: "s", tool: "t", args: {} });
    await request.failStep(failed, new Error("no such tool"));
    const image = await request.send({ role: "assistant", type: "loading", props: { done: false } });
    await request.replace(image, { done: true });
    expect(await chats.getMessages(chatId)).toHaveLength(1);
    await request.finish("completed");
    const messages = await chats.getMessages(chatId);
    expect(messages.map((message) => message.props)).toEqual([
      { content: "Oslo, please." },
      { content: "By train?" },
      { done: true },
    ]);
    const steps = await chats.getSteps("req_1");
    expect(steps.map((it) => [it.type, it.status, it.error])).toEqual([
      ["llm", "completed", undefined],
      ["tool", "failed", "no such tool"],
    ]);
    const first = await chats.listSteps({ chatId, limit: 1 });
    expect(first.items).toEqual([steps[0]]);
    const rest = await chats.listSteps({ chatId, limit: 10, cursor: first.next as string });
    expect([rest.items, rest.next]).toEqual([[steps[1]], undefined]);
    expect((await chats.listSteps({ chatId, status: "failed", type: "tool" })).items).toEqual([steps[1]]);
    expect((await chats.listSteps({ status: "failed" })).items).toEqual([steps[1]]);
    await failure(chats.listSteps({ chatId, status: "failed", cursor: first.next as string }), "invalid_input");
    expect(steps[0]).toMatchObject({ spaceSnapshot: { currency: { code: "NOK" } }, stackDepth: 0, chatId });
    await failure(request.finish("completed"), "invalid_input");
    await failure(request.send(text("late")), "invalid_input");
    expect(request.hasEnded).toBe(true);
    await request.close();
  });

  test.each([
    ["interrupted", "interrupted", undefined],
    [{ failed: "the model is gone" }, "failed", "the model is gone"],
  ] as const)("a request that ends as %j keeps what it sent, and says so of its step", async (end, status, error) => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "a" });
    const message = { type: "text", props: { content: "hi" } };
    const request = await chats.beginRequest(chatId, { assistantId: "a", requestId: "r", message });
    await request.completeStep(await request.startStep("hook_create", {}), {});
    await request.startStep("llm", { prompt: "hi" });
    await request.send(text("partly"));
    expect(await chats.getMessages(chatId)).toHaveLength(1);
    await request.finish(end);
    expect((await chats.getMessages(chatId)).map(({ role }) => role)).toEqual(["user", "assistant"]);
    const steps = await chats.getSteps("r");
    expect(steps.map((step) => [step.type, step.status, step.error])).toEqual([
      ["hook_create", "completed", undefined],
      ["llm", status, error],
    ]);
    expect((await chats.resume(chatId))?.input).toEqual({ prompt: "hi" });
  });

  test("requests that aren't over are found in every chat, with what was said of them", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "a" });
    const begin = (requestId: string) =>
      chats.beginRequest(chatId, { assistantId: "a", requestId, message: { type: "text", props: {} } });
    const done = await begin("done");
    await done.describe({ usage: { tokens: 812, cost: 0.0041 } });
    await done.finish("completed");
    expect(await chats.getRequest("done")).toMatchObject({ status: "completed", usage: { tokens: 812, cost: 0.0041 } });
    await (await begin("stopped")).finish("interrupted");
    await (await begin("failed")).finish({ failed: new Error("no") });
    const live = await begin("live");
    await failure(live.describe({ usage: 7 as never }), "invalid_input");
    const all = await chats.listRequests({ limit: 2 });
    expect(all.items.map((it) => [it.chatId, it.requestId, it.status, it.isLive])).toEqual([
      [chatId, "live", "running", true],
      [chatId, "failed", "failed", false],
    ]);
    const rest = await chats.listRequests({ limit: 2, cursor: all.next });
    expect([rest.items.map((it) => it.requestId), rest.next]).toEqual([["stopped"], undefined]);
    expect((await chats.getRequest("failed"))?.error).toBe("no");
    const ids = async (options: ListRequests) => (await chats.listRequests(options)).items.map((it) => it.requestId);
    expect(await ids({ unattended: true })).toEqual(["failed", "stopped"]);
    await chats.dismiss("failed");
    expect(await ids({ unattended: true, status: "failed" })).toEqual([]);
    await failure(chats.getRequest("nobody's"), "not_found");
    await live.close();
  });

  test("the space is shared, restored and emptied", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "a" });
    await using request = await chats.beginRequest(chatId, { assistantId: "a", message: { type: "text", props: {} } });
    const { space } = request;
    await space.set("a", [1]);
    await space.restore({ b: "x" });
    expect(await space.keys()).toEqual(["a", "b"]);
    expect(await space.get("b")).toBe("x");
    expect(await space.get("c")).toBeUndefined();
    expect(await space.getAndDelete("a")).toEqual([1]);
    expect(await space.snapshot()).toEqual({ b: "x" });
  });

  test("assistants that are called at once have a stack each, and one that is interrupted is resumed alone", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "lead" });
    const message = { type: "text", props: { content: "Oslo or Bergen?" } };
    const request = await chats.beginRequest(chatId, { assistantId: "lead", message });
    const ask = async (city: string): Promise<{ waiting: string; stack: string; step: string }> => {
      const waiting = await request.startStep("delegate", { agent_id: "scout", city });
      const stack = await request.delegate("scout", { stepId: waiting });
      return { waiting, stack, step: await request.startStep("llm", { city }, stack) };
    };
    const [oslo, bergen] = await Promise.all([ask("Oslo"), ask("Bergen")]);
    await request.completeStep(bergen.step);
    await request.completeStep(bergen.waiting, { response: {} });
    await request.finish("interrupted");
    const of = async (stack: string): Promise<unknown[]> =>
      (await chats.getStepsByStackId(stack)).map((it) => [it.stepId, it.delegateStepId, it.status]);
    expect(await of(oslo.stack)).toEqual([[oslo.step, oslo.waiting, "interrupted"]]);
    expect(await of(bergen.stack)).toEqual([[bergen.step, bergen.waiting, "completed"]]);
    const resumption = await chats.resume(chatId);
    expect([resumption?.step.stepId, resumption?.stack[0]?.waiting?.stepId]).toEqual([oslo.step, oslo.waiting]);
    await failure(request.delegate("late"), "invalid_input");
    for (const wrong of [null, { step: "x" }, { stepId: 1 }, "s"]) await failure(request.delegate("late", wrong as never), "invalid_input");
  });

  test("an interrupted request is resumed in its stack and space, nested calls included", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "analyzer" });
    {
      await using request = await chats.beginRequest(chatId, {
        assistantId: "analyzer",
        stackId: "stk_001",
        message: { type: "text", props: { content: "Analyze this." } },
      });
      await request.space.set("choose_prompt", "query");
      await request.startStep("delegate", { agent_id: "visualizer", messages: [] });
      expect(await request.enter("visualizer", "stk_002")).toBe("stk_002");
      expect(request.assistantId).toBe("visualizer");
      await request.startStep("llm", { messages: [{ role: "user", content: "Draw." }] });
    }
    const last = await chats.getLastIncompleteStep(chatId);
    expect(last).toMatchObject({ status: "interrupted", assistantId: "visualizer", stackParentId: "stk_001" });
    expect(await chats.getStackPath("stk_002")).toEqual(["stk_001", "stk_002"]);
    expect(await chats.getStepsByStackId("stk_001")).toHaveLength(1);

    const resumption = await chats.resume(chatId);
    expect(resumption).toMatchObject({ action: "continue", isNested: true, assistantId: "visualizer" });
    expect(resumption?.stackPath).toEqual(["stk_001", "stk_002"]);
    expect(resumption?.space).toEqual({ choose_prompt: "query" });
    expect(resumption?.input).toEqual({ messages: [{ role: "user", content: "Draw." }] });
    expect(resumption?.stack[0]?.waiting).toMatchObject({ type: "delegate", status: "running" });
    const request = await resumption?.goOn();
    expect(request?.stackId).toBe("stk_002");
    expect(await request?.space.getAndDelete("choose_prompt")).toBe("query");
    await request?.leave();
    await request?.finish("completed");
    const done = await resumption?.complete({ content: "drawn" });
    expect(done?.map((step) => [step.type, step.status])).toEqual([
      ["llm", "completed"],
      ["delegate", "completed"],
    ]);
    expect(done?.[1]?.output).toEqual({ response: { content: "drawn" } });
    expect(await chats.resume(chatId)).toBeUndefined();
    await failure(chats.completeDelegate(chatId, "stk_002", {}), "not_found");
  });

  test("steps are saved and changed by hand", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "a" });
    const of = { chatId, requestId: "r", assistantId: "a", stackId: "s" };
    const [step] = await chats.saveSteps([{ ...of, type: "llm", status: "running", stepId: "s1", input: { a: 1 } }]);
    expect(step).toMatchObject({ sequence: 1, input: { a: 1 } });
    const changed = await chats.updateStep("s1", { status: "completed", output: { b: 2 } });
    expect(changed).toMatchObject({ status: "completed", output: { b: 2 } });
    await failure(chats.saveSteps([{ ...of, type: "nap" as never, status: "running" }]), "invalid_input");
  });

  test("one worker goes on with an interrupted request, and older ones are resumed or dismissed by id", async () => {
    const { chats } = await fresh();
    const { chatId } = await chats.create({ assistantId: "travel" });
    for (const requestId of ["old", "middle", "new"]) {
      const message = { type: "text", props: { content: "?" } } as const;
      const request = await chats.beginRequest(chatId, { assistantId: "travel", requestId, message });
      await request.startStep("llm", { of: requestId });
      await request.finish("interrupted");
    }
    const [one, other] = [await chats.resume(chatId), await chats.resume(chatId)];
    expect(one?.step.requestId).toBe("new");
    const request = await one!.goOn();
    await failure(other!.goOn(), "conflict");
    await failure(chats.dismiss("new"), "conflict");
    await request.finish("completed");
    await failure(other!.goOn(), "conflict");

    const old = await chats.resume(chatId, { requestId: "old" });
    expect(old?.input).toEqual({ of: "old" });
    const [dismissed] = await chats.dismiss("middle");
    expect(dismissed).toMatchObject({ status: "interrupted", requestId: "middle" });
    expect(dismissed?.dismissedAtMs).toBeGreaterThan(1_700_000_000_000);
    expect((await chats.resume(chatId))?.step.requestId).toBe("old");
    await failure(chats.dismiss("nobody"), "not_found");
    await failure(chats.resume(chatId, { requestId: "nobody" }), "not_found");
    await failure(chats.resume(chatId, { request: "old" } as never), "invalid_input");
  });

  test("rows of the tables of messages and steps are imported, with their chats", async () => {
    const { chats } = await fresh();
    const row = { id: 1, message_id: "m1", chat_id: "c", role: "user", type: "text", props: { content: "hi" }, sequence: 4 };
    expect(await chats.importAgentMessage(JSON.stringify(row))).toEqual({ imported: 1, chats: 1, skipped: 0, issues: [] });
    expect((await chats.getMessages("c"))[0]).toMatchObject({ messageId: "m1", sequence: 4 });
    const step = { step_id: "s", chat_id: "c", request_id: "r", assistant_id: "a", stack_id: "k", type: "llm", status: "failed" };
    expect((await chats.importAgentStep(JSON.stringify(step))).imported).toBe(1);
    expect((await chats.importAgentStep(JSON.stringify(step))).skipped).toBe(1);
    expect((await chats.resume("c"))?.step.stepId).toBe("s");
  });

  test("the old tables are imported, and what can't be read is told", async () => {
    const { chats } = await fresh();
    const chatLines = '{"chat_id":"c1","title":"Old","assistant_id":"a"}\nnot json\n';
    expect(await chats.importAgentChat(chatLines)).toMatchObject({ imported: 1, issues: [{ line: 2 }] });
    const history = '{"id":1,"chat_id":"c1","role":"user","content":"hello"}\n';
    expect(await chats.importAgentHistory(history)).toMatchObject({ imported: 1, skipped: 0, issues: [] });
    expect((await chats.getMessages("c1"))[0]?.props).toEqual({ content: "hello" });
    expect(await chats.importAgentHistory(history)).toMatchObject({ imported: 0, skipped: 1 });
  });
});

describe("a request of a store that is closed", () => {
  test("has its user's message, and is written as interrupted if it is let go of before", async () => {
    const place = await lastingPlace();
    const store = await place.open();
    const { chatId } = await store.chats.create({ assistantId: "a" });
    const message = { type: "text", props: { content: "hi" } };
    const request = await store.chats.beginRequest(chatId, { assistantId: "a", message });
    await request.startStep("llm", {});
    await store.close();
    await failure(request.finish("completed"), "closed");
    const again = await place.open();
    expect(await again.chats.getMessages(chatId)).toHaveLength(1);
  });
});
