import type { Chats, RequestBuffer } from "#runlog";
import { lastingPlace, places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

// What was asked of chats (S4), row by row: what a user tries first, and what has gone wrong before.

const text = (content: string, fields: object = {}) => ({ role: "assistant", type: "text", props: { content }, ...fields }) as const;
const asked = { type: "text", props: { content: "?" } } as const;
const lines = (...rows: object[]): string => rows.map((row) => JSON.stringify(row)).join("\n");

async function begun(chats: Chats, chatId: string, requestId: string): Promise<RequestBuffer> {
  return chats.beginRequest(chatId, { assistantId: "a", requestId, message: asked });
}

async function contents(chats: Chats, chatId: string): Promise<unknown[]> {
  return (await chats.getMessages(chatId)).map((message) => message.props["content"]);
}

describe.each(places)("S4 rows $name", ({ fresh }) => {
  test.each(["550E8400E29B41D4A716446655440000", "d41d8cd98f00b204e9800998ecf8427e", "{550e8400-e29b-41d4-a716-446655440000}"])(
    "S4 row 2: the chat id %s is kept as it is given, and free once its chat is deleted",
    async (chatId) => {
      const { chats } = await fresh();
      await chats.create({ chatId, assistantId: "a" });
      const [saved] = await chats.saveMessages(chatId, [text("x", { chatId })]);
      expect([saved?.chatId, (await chats.list()).items[0]?.chatId]).toEqual([chatId, chatId]);
      await chats.delete(chatId);
      expect((await chats.create({ chatId, assistantId: "b" })).assistantId).toBe("b");
    },
  );

  test("S4 row 2: an id that is a session's, a UUID in lower case, comes back by restoring its chat alone", async () => {
    const { chats } = await fresh();
    const chatId = "550e8400-e29b-41d4-a716-446655440001";
    await chats.create({ chatId, assistantId: "a" });
    await chats.delete(chatId);
    await failure(chats.create({ chatId, assistantId: "b" }), "already_exists");
    expect((await chats.restore(chatId)).assistantId).toBe("a");
  });

  test("S4 row 3: an update takes no chat its assistant", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    await failure(chats.update("c", { assistantId: "" }), "invalid_input");
    await failure(chats.update("c", { assistantId: null } as never), "invalid_input");
    expect((await chats.update("c", { assistantId: "b" })).assistantId).toBe("b");
  });

  test("S4 row 5: a chat's last message is as old as it says, and an imported one as it was", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    await chats.saveMessages("c", [text("x", { createdAtMs: Date.UTC(2020, 0, 2, 3, 4, 5) })]);
    expect((await chats.get("c"))?.lastMessageAtMs).toBe(Date.UTC(2020, 0, 2, 3, 4, 5));
  });

  test.each([{ createdBy: "a" }, { userID: "a" }, { mode: "chat" }, { limit: 3 }, { share: "everyone" }])(
    "S4 row 11: the filter %j of chats, which isn't known, is refused by its name",
    async (filter) => {
      const { chats } = await fresh();
      await chats.create({ assistantId: "a", createdBy: "a" });
      const refused = await failure(chats.list(filter as never), "invalid_input");
      expect(refused.message).toContain(`\`${Object.keys(filter)[0]}\``);
    },
  );

  test.each([{ blockID: "b" }, { order: "desc" }, { cursor: "x" }])(
    "S4 row 20: the filter %j of messages, which isn't known, is refused by its name",
    async (filter) => {
      const { chats } = await fresh();
      await chats.create({ chatId: "c", assistantId: "a" });
      await chats.saveMessages("c", [text("x")]);
      const refused = await failure(chats.getMessages("c", filter as never), "invalid_input");
      expect(refused.message).toContain(`\`${Object.keys(filter)[0]}\``);
    },
  );

  test("S4 row 16: a message id names one message of the store, whoever saves, sends or asks for it", async () => {
    const { chats } = await fresh();
    for (const chatId of ["c", "d"]) await chats.create({ chatId, assistantId: "a" });
    await chats.saveMessages("c", [text("first", { messageId: "m" })]);
    await failure(chats.saveMessages("d", [text("second", { messageId: "m" })]), "already_exists");
    await failure(chats.beginRequest("d", { assistantId: "a", message: { ...asked, messageId: "m" } }), "already_exists");
    expect((await chats.updateMessage("m", { props: { content: "changed" } })).chatId).toBe("c");
    expect(await contents(chats, "d")).toEqual([]);
  });

  test("S4 row 22: 300 saves at once in one chat have sequences without a hole", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    const saves = Array.from({ length: 300 }, (_, index) => chats.saveMessages("c", [text(`${index}`)]));
    await Promise.all(saves);
    const sequences = (await chats.getMessages("c")).map((message) => message.sequence);
    expect(sequences).toEqual(Array.from({ length: 300 }, (_, index) => index + 1));
  });

  test("S4 row 27: a message that is redacted is gone at once with what it was changed to, and its sequence stays its own", async () => {
    const { chats, redact } = await fresh().then((store) => ({ chats: store.chats, redact: store.redact.bind(store) }));
    await chats.create({ chatId: "c", assistantId: "a" });
    const [kept] = await chats.saveMessages("c", [text("my secret 1234", { messageId: "m" }), text("other")]);
    await chats.updateMessage("m", { props: { content: "my secret 5678" } });
    await redact(kept?.id as number, "asked for");
    expect(JSON.stringify(await chats.getMessages("c"))).not.toContain("secret");
    const [next] = await chats.saveMessages("c", [text("next")]);
    expect(next?.sequence).toBe(3);
  });

  test("S4 row 32: a request that isn't there is told, by steps, by its own record and by a resume", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    await failure(chats.getSteps("nobody"), "not_found");
    await failure(chats.getRequest("nobody"), "not_found");
    await failure(chats.resume("c", { requestId: "nobody" }), "not_found");
  });

  test("S4 row 37: a space keeps any key, and its keys tell null from nothing", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    const { space } = await begun(chats, "c", "r");
    await space.set("", 1);
    await space.set("__proto__", { a: 1 });
    await space.set("null", null);
    expect(await space.keys()).toEqual(["", "__proto__", "null"]);
    expect([await space.get("null"), await space.get("none"), await space.get("__proto__")]).toEqual([undefined, undefined, { a: 1 }]);
    expect(Object.entries(await space.snapshot())).toContainEqual(["null", null]);
    await failure(space.set("f", () => 1), "invalid_input");
  });

  test("S4 row 39: a request has more steps of a large space than one batch takes, and each has it", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    const request = await begun(chats, "c", "r");
    const large = "x".repeat(1 << 20);
    await request.space.set("large", large);
    for (let index = 0; index < 66; index++) await request.completeStep(await request.startStep("tool", { index }));
    await request.finish("completed");
    const steps = await chats.getSteps("r");
    expect(steps).toHaveLength(66);
    expect(steps.every((step) => step.spaceSnapshot?.["large"] === large)).toBe(true);
  });

  test("S4 row 44: what was sent before an interruption is changed by the request that is gone on with", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    const request = await begun(chats, "c", "r");
    await request.startStep("llm", {});
    const waiting = await request.send({ role: "assistant", type: "loading", props: {} });
    await request.finish("interrupted");
    const again = await (await chats.resume("c"))!.goOn();
    await again.replace(waiting, { content: "By train" }, "text");
    await again.append(waiting, " and ship");
    const [question] = await chats.getMessages("c");
    const told = await failure(again.append(question!.messageId, "?"), "not_found");
    expect(told.message).toContain("by an update");
    await again.finish("completed");
    expect((await chats.getMessages("c")).map((it) => [it.type, it.props])).toEqual([
      ["text", asked.props],
      ["text", { content: "By train and ship" }],
    ]);
  });

  test("S4 row 46: a request whose work throws has failed with the error, also where no step was under way", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    const timeout = new Error("LLM timeout");
    const doing = (requestId: string, work: (request: RequestBuffer) => Promise<unknown>) =>
      chats.withRequest("c", { assistantId: "a", requestId, message: asked }, async (request) => {
        await work(request);
        throw timeout;
      });
    await expect(doing("r1", (request) => request.startStep("llm", {}))).rejects.toBe(timeout);
    await expect(doing("r2", async () => {})).rejects.toBe(timeout);
    for (const requestId of ["r1", "r2"]) {
      expect(await chats.getRequest(requestId)).toMatchObject({ status: "failed", error: "LLM timeout" });
      expect((await chats.getSteps(requestId)).map((step) => [step.status, step.error])).toEqual([["failed", "LLM timeout"]]);
    }
    expect((await chats.resume("c"))?.action).toBe("retry");
  });

  test("S4 row 49: a message that is sent takes no other's place, be it saved before or the user's own", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    await chats.saveMessages("c", [text("precious", { messageId: "keep" })]);
    const request = await chats.beginRequest("c", { assistantId: "a", message: { ...asked, messageId: "own" } });
    await chats.create({ chatId: "d", assistantId: "a" });
    await chats.saveMessages("d", [text("precious", { messageId: "of another" })]);
    for (const messageId of ["keep", "own", "of another"]) {
      await failure(request.send(text("OVER", { messageId })), "already_exists");
    }
    await request.finish("completed");
    expect(await contents(chats, "c")).toEqual(["precious", "?"]);
    expect((await chats.getRequest(request.requestId))?.status).toBe("completed");
  });

  test("S4 row 49: a message whose id is taken by now is written with a fresh one when its request is finished again", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    const request = await chats.beginRequest("c", { assistantId: "a", message: asked });
    await request.send(text("ours", { messageId: "m" }));
    await chats.saveMessages("c", [text("theirs", { messageId: "m" })]);
    await failure(request.flush(), "already_exists");
    await request.append("m", "!");
    await request.flush();
    await request.send(text("more", { messageId: "n" }));
    await chats.saveMessages("c", [text("theirs too", { messageId: "n" })]);
    await failure(request.finish("completed"), "already_exists");
    await request.finish("completed");
    expect(await contents(chats, "c")).toEqual(["?", "theirs", "ours!", "theirs too", "more"]);
    for (const [requestId, fails] of [["r1", false], ["r2", true]] as const) {
      const doing = chats.withRequest("c", { assistantId: "a", requestId, message: asked }, async (own) => {
        await own.send(text("ours", { messageId: requestId }));
        await chats.saveMessages("c", [text("theirs", { messageId: requestId })]);
        if (fails) throw new Error("on purpose");
      });
      if (fails) await expect(doing).rejects.toThrow("on purpose");
      else await doing;
      expect((await chats.getRequest(requestId))?.status).toBe(fails ? "failed" : "completed");
    }
    expect((await chats.getRequest(request.requestId))?.status).toBe("completed");
  });

  test("S4 row 51: a request that was completed isn't resumed, whatever failed in it", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    const request = await begun(chats, "c", "r");
    await request.failStep(await request.startStep("tool", { city: "Oslo" }), new Error("no such city"));
    await request.completeStep(await request.startStep("llm", {}), { content: "I couldn't find it." });
    await request.finish("completed");
    expect(await chats.resume("c")).toBeUndefined();
    expect((await chats.listRequests()).items).toEqual([]);
  });

  test("S4 row 52: finishing what was resumed ends the step that was cut off, however often it was, and says what was interrupted", async () => {
    const { chats } = await fresh();
    await chats.create({ chatId: "c", assistantId: "a" });
    const request = await begun(chats, "c", "r");
    await request.startStep("llm", { n: 1 });
    await request.finish("interrupted");
    const again = await (await chats.resume("c"))!.goOn();
    await again.startStep("llm", { n: 2 });
    await again.finish("interrupted");
    const second = await chats.resume("c");
    expect(second?.input).toEqual({ n: 2 });
    await (await second!.goOn()).finish("completed");
    expect((await chats.getSteps("r")).map((step) => step.status)).toEqual(["interrupted", "completed"]);
    expect(await chats.resume("c")).toBeUndefined();
    expect(await chats.getLastIncompleteStep("c")).toBeUndefined();
  });

  test("S4 row 54: imported chats keep their deletions, their times and their ids", async () => {
    const { chats } = await fresh();
    const md5 = "d41d8cd98f00b204e9800998ecf8427e";
    const rows = [
      { chat_id: "gone", assistant_id: "a", deleted_at: "2024-01-02 03:04:05" },
      { chat_id: md5, assistant_id: "a", created_at: "0000-00-00 00:00:00", preset: "0", sort: "3", public: 1 },
      { chat_id: "none", assistant_id: null },
    ];
    expect(await chats.importAgentChat(`\ufeff${lines(...rows)}`)).toMatchObject({ imported: 3, issues: [] });
    const history = { id: 1, role: "user", content: "hello", created_at: "2024-05-05 05:05:05" };
    const imported = await chats.importAgentHistory(lines({ ...history, chat_id: md5 }, { ...history, id: 2, chat_id: "none" }));
    expect(imported).toMatchObject({ imported: 2, issues: [] });
    expect(await chats.get("gone")).toBeUndefined();
    expect((await chats.list({ deleted: true })).items.map((chat) => chat.chatId)).toEqual(["gone"]);
    expect(await chats.get(md5)).toMatchObject({ chatId: md5, sort: 3, public: true, preset: false, lastMessageAtMs: Date.UTC(2024, 4, 5, 5, 5, 5) });
    expect((await chats.getMessages(md5))[0]?.chatId).toBe(md5);
    expect(await contents(chats, "none")).toEqual(["hello"]);
  });

  test("S4 row 55: importing a table again brings back nothing that was deleted since", async () => {
    const { chats } = await fresh();
    const chat = lines({ chat_id: "c", assistant_id: "a" });
    const history = lines({ id: 1, chat_id: "c", role: "user", content: "one" }, { id: 2, chat_id: "c", role: "user", content: "two" });
    await chats.importAgentChat(chat);
    await chats.importAgentHistory(history);
    await chats.deleteMessages("c", [(await chats.getMessages("c"))[0]?.messageId as string]);
    expect(await chats.importAgentHistory(history)).toMatchObject({ imported: 0, skipped: 2 });
    expect(await contents(chats, "c")).toEqual(["two"]);
    await chats.delete("c");
    expect(await chats.importAgentChat(chat)).toMatchObject({ imported: 0, skipped: 1 });
    expect(await chats.get("c")).toBeUndefined();
  });
});

describe("S4 rows of a store that is opened again", () => {
  test("S4 row 16: an id names the same message whatever was read before", async () => {
    const place = await lastingPlace();
    let store = await place.open();
    for (const chatId of ["c", "d"]) await store.chats.create({ chatId, assistantId: "a" });
    await store.chats.saveMessages("c", [text("first", { messageId: "m" })]);
    await store.close();
    store = await place.open();
    await store.chats.getMessages("d");
    await failure(store.chats.saveMessages("d", [text("second", { messageId: "m" })]), "already_exists");
    expect((await store.chats.updateMessage("m", { props: { content: "changed" } })).chatId).toBe("c");
  });

  test("S4 row 48: a request that was flushed and whose steps are all over is found, dismissed and asked again", async () => {
    const place = await lastingPlace();
    let store = await place.open();
    await store.chats.create({ chatId: "c", assistantId: "a" });
    const request = await begun(store.chats, "c", "r");
    await request.completeStep(await request.startStep("llm", {}), {});
    await request.send(text("half"));
    await request.flush();
    await store.close();
    store = await place.open();
    const { chats } = store;
    expect(await contents(chats, "c")).toEqual(["?", "half"]);
    expect((await chats.listRequests({ unattended: true })).items.map((it) => it.requestId)).toEqual(["r"]);
    // No step was cut off, so that there is none to go on with.
    expect(await chats.resume("c")).toBeUndefined();
    expect(await chats.dismiss("r")).toEqual([]);
    expect((await chats.listRequests()).items).toEqual([]);
    await (await begun(chats, "c", "r2")).finish("completed");
  });

  test("S4 row 51: a request is resumed by one handle, also after the process that had it is gone", async () => {
    const place = await lastingPlace();
    let store = await place.open();
    await store.chats.create({ chatId: "c", assistantId: "a" });
    const request = await begun(store.chats, "c", "r");
    await request.startStep("llm", { n: 1 });
    await request.finish("interrupted");
    await (await store.chats.resume("c"))!.goOn();
    await store.close();
    store = await place.open();
    const [one, other] = [await store.chats.resume("c"), await store.chats.resume("c")];
    const again = await one!.goOn();
    await failure(other!.goOn(), "conflict");
    await again.send(text("answer"));
    await again.finish("completed");
    await failure(other!.goOn(), "conflict");
    expect(await contents(store.chats, "c")).toEqual(["?", "answer"]);
  });
});
