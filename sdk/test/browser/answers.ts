import type { Store } from "#runlog";

/** What a store says about everything in it, for two that are to say the same. */
export async function answersOf(store: Store): Promise<unknown> {
  const runs = await store.runs.list();
  const sessions = await store.listSessions();
  const chats = await store.chats.list();
  const streams = await store.streams.list();
  const records = [];
  for (const { id } of streams.slice(0, 5)) {
    for (const record of (await store.streams.read(id).toArray()).slice(0, 50)) records.push([record.position, record.kind, record.timeMs, record.text()]);
  }
  const messages = await Promise.all(runs.items.map((run) => store.runs.messages(run.id)));
  return JSON.parse(
    JSON.stringify({
      runs,
      sessions,
      chats,
      streams,
      records,
      messages: messages.map((page) => page.items.map((message) => [message.id, message.json])),
      lastPosition: await store.lastPosition(),
    }),
  );
}
