import { places } from "#places";
import { describe, expect, test } from "vitest";

import { failure } from "../code.js";

describe.each(places)("sessions $name", ({ fresh }) => {
  test("a session is got by its name, or started, once", async () => {
    const store = await fresh();
    const both = await Promise.all([1, 2].map(() => store.getOrStartSession({ name: "nightly", title: "T" }, "coder")));
    expect(both[0]).toEqual(both[1]);
    const { session, instance } = await store.getOrStartSession({ name: "nightly" }, "other");
    expect([session.title, instance.agentName]).toEqual(["T", "coder"]);
    expect((await store.listSessions()).items).toHaveLength(1);
    const made = { sessionId: session.id, agentName: "helper", parentInstanceId: instance.id };
    const child = await store.createInstance(made);
    expect(await store.childInstances(instance.id)).toEqual([child]);
    expect(await store.childInstances(child.id)).toEqual([]);
    await failure(store.childInstances(store.newId()), "not_found");
    await failure(store.getOrStartSession({} as never, "coder"), "invalid_input");
  });

  test("a session is made, found, changed, put away and deleted", async () => {
    const store = await fresh();
    const metadata = { source: { format: "openai" }, score: 0.5 };
    const made = await store.createSession({ name: "trip-1", title: "Trip", project: "travel", metadata });
    expect(made).toMatchObject({ name: "trip-1", title: "Trip", project: "travel", metadata, status: "active" });
    expect(made.createdAtMs).toBeGreaterThan(1_700_000_000_000);
    expect(await store.getSession(made.id)).toEqual(made);
    expect(await store.findSession("trip-1")).toEqual(made);
    expect(await store.findSession(made.id.slice(0, 13))).toEqual(made);
    expect((await store.updateSession(made.id, { title: "Oslo" })).title).toBe("Oslo");
    expect((await store.archiveSession(made.id)).status).toBe("archived");
    expect((await store.listSessions({ status: "archived" })).items).toHaveLength(1);
    expect((await store.unarchiveSession(made.id)).status).toBe("active");
    await store.deleteSession(made.id);
    expect(await store.getSession(made.id)).toBeUndefined();
    expect((await store.listSessions()).items).toEqual([]);
    const [deleted] = (await store.listSessions({ deleted: true })).items;
    expect(deleted?.deletedAtMs).toBeGreaterThan(0);
    await failure(store.findSession("trip-1"), "not_found");
    await failure(store.deleteSession(made.id), "not_found");
  });

  test("sessions are listed in pages that stay right while more are made", async () => {
    const store = await fresh();
    for (let index = 0; index < 5; index++) await store.createSession({ title: `${index}` });
    const first = await store.listSessions({ limit: 2 });
    await store.createSession({ title: "new" });
    const second = await store.listSessions({ limit: 2, cursor: first.next as string });
    const third = await store.listSessions({ limit: 2, cursor: second.next as string });
    const titles = [first, second, third].flatMap((page) => page.items.map((session) => session.title));
    expect(titles).toEqual(["4", "3", "2", "1", "0"]);
    expect(third.next).toBeUndefined();
    await failure(store.listSessions({ limit: 0 }), "invalid_input");
  });

  test("names and ids are unique, and what isn't known is refused by name", async () => {
    const store = await fresh();
    const made = await store.createSession({ name: "one" });
    await failure(store.createSession({ name: "one" }), "already_exists");
    await failure(store.createSession({ id: made.id }), "already_exists");
    const error = await failure(store.createSession({ titel: "typo" } as never), "invalid_input");
    expect(error.message).toContain("titel");
    await failure(store.createSession({ title: 7 } as never), "invalid_input");
    await failure(store.createSession({ title: "x".repeat(10_000) }), "too_large");
  });

  test("instances belong to a session, and to a parent in it", async () => {
    const store = await fresh();
    const { session, instance } = await store.startSession({}, "planner");
    const child = await store.createInstance({
      sessionId: session.id,
      agentName: "coder",
      parentInstanceId: instance.id,
    });
    expect(await store.instances(session.id)).toEqual([instance, child]);
    expect(await store.rootInstance(session.id)).toEqual(instance);
    expect(await store.getInstance(child.id)).toEqual(child);
    expect(await store.getInstance(session.id)).toBeUndefined();
    const other = await store.createSession();
    const wrong = { sessionId: other.id, agentName: "x", parentInstanceId: instance.id };
    await failure(store.createInstance(wrong), "invalid_input");
    await failure(store.rootInstance(other.id), "not_found");
  });

  test("a session is copied up to a point with all its instances, and truncated", async () => {
    const store = await fresh();
    const { session, instance } = await store.startSession({ title: "Trip" }, "planner");
    const context = await store.context(instance.id);
    for (const content of ["a", "b", "c"]) await context.appendMessage({ role: "user", content });
    const copied = await store.copySession(session.id, { upToSequence: 2, name: "copy" });
    expect(copied.session).toMatchObject({ title: "Trip", name: "copy", copiedFrom: session.id });
    expect(copied.instances[0]?.source).toBe(instance.id);
    expect(await store.truncateSession(copied.session.id, 1)).toBe(1);
    expect(await context.getLastSequence()).toBe(3);
    const copy = await store.context(copied.instances[0]?.instance.id as string);
    expect(await copy.getMessages()).toEqual([{ role: "user", content: "a" }]);
    await failure(store.copySession(session.id, { upToSequence: 9 }), "invalid_input");
  });
});
