// Lists that are awaited, and lists that are iterated over.

import { describe, expect, test } from "vitest";
import { failure } from "../code.js";
import { places } from "#places";

describe.each(places)("lists $name", ({ fresh }) => {
  test("a list that is iterated over gives what all its pages have, and one that is awaited its first", async () => {
    const store = await fresh();
    const run = await store.runs.start({ session: { title: "t" }, agentName: "lead" });
    await run.recordMessage({ role: "user", content: "go" });
    for (let at = 0; at < 5; at++) {
      await store.agents.put({ name: `agent ${at}` });
      await store.createSession({ title: `session ${at}` });
      await run.recordMessage({ role: "assistant", content: null, tool_calls: [{ id: `call ${at}`, type: "function", function: { name: "f", arguments: "{}" } }] });
      await run.recordToolResult({ toolCallId: `call ${at}`, output: at });
      await (await store.runs.start({ session: {}, agentName: "other" })).complete();
    }
    await store.chats.create({ chatId: "c", assistantId: "a", createdBy: "ann" });
    for (let at = 0; at < 5; at++) {
      await store.chats.create({ assistantId: "a", createdBy: "ann" });
      const request = await store.chats.beginRequest("c", { assistantId: "a", message: { type: "text", props: { content: `question ${at}` } } });
      await request.startStep("llm", {});
      await request.finish("interrupted");
    }
    const { runs, chats, agents } = store;
    const id = run.run.id;
    const lists = {
      runs: (limit: number) => runs.list({ limit }),
      messages: (limit: number) => runs.messages(id, { limit }),
      calls: (limit: number) => runs.toolCalls(id, { limit }),
      agents: (limit: number) => agents.list({ limit }),
      sessions: (limit: number) => store.listSessions({ limit }),
      chats: (pageSize: number) => chats.list({ visibleTo: "ann", pageSize, page: 1 }),
      chatMessages: (limit: number) => chats.listMessages("c", { limit, newestFirst: true }),
      requests: (limit: number) => chats.listRequests({ limit, status: "interrupted" }),
      steps: (limit: number) => chats.listSteps({ chatId: "c", limit }),
      search: (limit: number) => chats.searchMessages({ text: "question", visibleTo: "ann", limit }),
    };
    for (const [name, list] of Object.entries(lists)) {
      const whole = await list(100);
      expect(whole.items.length, name).toBeGreaterThan(3);
      expect(whole.next, name).toBeUndefined();
      const items: unknown[] = [];
      for await (const item of list(2)) items.push(item);
      expect(items, name).toEqual(whole.items);
      const page = list(2);
      expect((await page).items, name).toEqual(whole.items.slice(0, 2));
      expect(await page.toArray(), name).toEqual(whole.items);
      expect(await page.toArray(), `${name}, once more`).toEqual(whole.items);
      expect((await page).items, `the page that was awaited, of ${name}`).toHaveLength(Math.min(2, whole.items.length));
    }
  });

  test("a list that is left early reads no further, and one that is refused says so where it is awaited or iterated over", async () => {
    const store = await fresh();
    for (let at = 0; at < 6; at++) await store.createSession({ title: `session ${at}` });
    for await (const session of store.listSessions({ limit: 2 })) {
      expect(session.title).toBe("session 5");
      break;
    }
    const options = { limit: 2 };
    const listed = store.listSessions(options);
    options.limit = 0;
    expect(await listed.toArray()).toHaveLength(6);
    await failure(store.listSessions({ limit: 0 }), "invalid_input");
    await failure(store.listSessions({ limit: 0 }).toArray(), "invalid_input");
    await failure(store.runs.children("no run").toArray(), "invalid_input");
    await failure(store.chats.list({ visibleTo: undefined as never }).toArray(), "invalid_input");
    await failure(store.chats.list(null as never), "invalid_input");
    const iterated = async () => {
      for await (const _ of store.chats.listMessages("none")) throw new Error("there is none");
    };
    await failure(iterated(), "not_found");
  });

  test("a list that is refused and iterated over later says so there", async () => {
    const store = await fresh();
    const listed = [store.chats.listMessages("none"), store.chats.searchMessages({ text: "x", visibleTo: undefined as never }), store.runs.list(null as never)];
    // Long enough for what nobody handles to be told.
    await new Promise((resolve) => setTimeout(resolve, 20));
    for (const [at, code] of (["not_found", "invalid_input", "invalid_input"] as const).entries()) {
      const iterated = async () => {
        for await (const _ of listed[at] as AsyncIterable<unknown>) throw new Error("there is none");
      };
      await failure(iterated(), code);
    }
  });

  test("a list goes on with the filters that it was given, whatever becomes of them", async () => {
    const store = await fresh();
    for (let at = 0; at < 4; at++) await store.chats.create({ assistantId: "a", createdBy: "bob", teamId: "sales", share: "team" });
    const teams = ["sales"];
    const ids: string[] = [];
    for await (const { chatId } of store.chats.list({ visibleTo: "ann", teams, pageSize: 2 })) {
      ids.push(chatId);
      teams.push("dev");
    }
    expect(ids).toHaveLength(4);
  });

  test("what becomes of an awaited page doesn't reach who iterates over the list", async () => {
    const store = await fresh();
    for (let at = 0; at < 3; at++) await store.createSession({ title: `session ${at}` });
    const titles = async (list: AsyncIterable<{ title?: string }>) => {
      const found: unknown[] = [];
      for await (const { title } of list) found.push(title);
      return found;
    };
    const list = store.listSessions({ limit: 2 });
    const page = await list;
    page.items.length = 0;
    delete page.next;
    expect(await titles(list)).toEqual(await titles(store.listSessions()));
  });

  test("an iterator of a list that is refused, and read later, says so then", async () => {
    const store = await fresh();
    const { chats } = store;
    const iterators = [chats.listMessages("nope"), store.listSessions({ nonsense: 1 } as never)].map((list) => list[Symbol.asyncIterator]());
    await new Promise((resolve) => setTimeout(resolve, 20));
    await failure((iterators[0] as AsyncIterator<unknown>).next(), "not_found");
    await failure((iterators[1] as AsyncIterator<unknown>).next(), "invalid_input");
  });

  test("an iterator that is left gives nothing any more, and can be looped over itself", async () => {
    const store = await fresh();
    for (let at = 0; at < 6; at++) await store.createSession({ title: `session ${at}` });
    const list = () => store.listSessions({ limit: 3 })[Symbol.asyncIterator]();
    const left = list();
    const underWay = [left.next(), left.next()];
    await left.return?.();
    const after = await left.next();
    expect(after).toEqual({ done: true, value: undefined });
    expect(await Promise.all(underWay)).toEqual([after, after]);
    const iterator = list();
    await iterator.next();
    const titles: unknown[] = [];
    for await (const { title } of iterator) titles.push(title);
    expect(titles).toEqual([4, 3, 2, 1, 0].map((at) => `session ${at}`));
    const pages = store.read().pages()[Symbol.asyncIterator]() as AsyncIterableIterator<unknown[]>;
    for await (const page of pages) expect(page.length).toBeGreaterThan(0);
  });

  test("the filters of a list are read once, and those that can't be are refused where it is awaited", async () => {
    const store = await fresh();
    for (let at = 0; at < 3; at++) await store.createSession({ title: `session ${at}` });
    let reads = 0;
    const counting = { get limit() { return ++reads; } };
    expect((await store.listSessions(counting)).items).toHaveLength(1);
    expect(reads).toBe(1);
    const fails = { get limit(): number { throw new Error("on purpose"); } };
    expect((await failure(store.listSessions(fails), "invalid_input")).message).toBe("the options can't be read: on purpose");
    class Options {
      get limit() { return 1; }
    }
    expect((await failure(store.listSessions(new Options()), "invalid_input")).message).toMatch(/has `limit` from its class/);
    const cyclic: Record<string, unknown> = {};
    cyclic["status"] = [cyclic];
    await failure(store.listSessions(cyclic), "invalid_input");
  });

  test("no chat is missed in the order in which they were made, and one that gets a message meanwhile is, by last message", async () => {
    const { chats } = await fresh();
    const made: string[] = [];
    for (let at = 0; at < 5; at++) made.unshift((await chats.create({ assistantId: "a" })).chatId);
    const oldest = made.at(-1) as string;
    // In the millisecond in which the others were made it would be among them.
    await new Promise((resolve) => setTimeout(resolve, 5));
    const read = async (order?: "created") => {
      const ids: string[] = [];
      for await (const { chatId } of chats.list({ order, pageSize: 2 })) {
        if (ids.length === 0) await chats.saveMessages(oldest, [{ role: "user", type: "text", props: {} }]);
        ids.push(chatId);
      }
      return ids;
    };
    expect(await read()).toEqual(made.slice(0, -1));
    expect(await read("created")).toEqual(made);
  });
});
