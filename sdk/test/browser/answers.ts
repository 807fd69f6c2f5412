import type { FlowSummary, LogRecord, Store } from "#runlog";

/** What a store says about everything in it, by every call that only reads, for two that are to say the same. */
export async function answersOf(store: Store): Promise<unknown> {
  const answers = {
    ...(await recordedIn(store)),
    store: {
      lastPosition: await store.lastPosition(),
      stat: await statOf(store),
      log: (await store.read({ limit: 100 }).toArray()).map(shown),
      one: await store.record(3).then((record) => record && shown(record)),
      none: await failureOf(() => store.findSession("nobody")),
    },
    streams: await streamsOf(store),
  };
  return JSON.parse(JSON.stringify(answers));
}

/** What was recorded: what an export of it has too. */
export async function recordedIn(store: Store): Promise<Record<string, unknown>> {
  return { runs: await runsOf(store), sessions: await sessionsOf(store), chats: await chatsOf(store), flows: await flowsOf(store), agents: await store.agents.list() };
}

async function runsOf(store: Store): Promise<unknown> {
  const first = await store.runs.list({ limit: 1 });
  const { items } = await store.runs.list();
  const each = items.map(async ({ id }) => {
    const messages = await store.runs.messages(id);
    const calls = await store.runs.toolCalls(id);
    return {
      run: await store.runs.get(id),
      children: await store.runs.children(id),
      messages: messages.items.map((message) => [message.id, message.json]),
      message: (await store.runs.message(id, messages.items[0]?.id ?? 0))?.json,
      calls,
      call: await store.runs.toolCall(id, calls.items[0]?.id ?? 0),
    };
  });
  return { first, items, failed: await store.runs.list({ status: "failed" }), each: await Promise.all(each) };
}

async function sessionsOf(store: Store): Promise<unknown> {
  const page = await store.listSessions();
  const each = page.items.map(async ({ id }) => {
    const instances = await store.instances(id);
    const contexts = instances.map(async (instance) => {
      const context = await store.context(instance.id);
      return [await context.getEvents(), await context.getLastSequence(), await context.danglingToolCalls()];
    });
    return [await store.getSession(id), await store.findSession(id), instances, await Promise.all(contexts)];
  });
  return { page, each: await Promise.all(each) };
}

async function chatsOf(store: Store): Promise<unknown> {
  const list = await store.chats.list();
  const each = list.items.map(async ({ chatId }) => [await store.chats.get(chatId), await store.chats.getMessages(chatId), await store.chats.listSteps({ chatId }), await store.chats.getLastIncompleteStep(chatId)]);
  return { list, each: await Promise.all(each) };
}

async function flowsOf(store: Store): Promise<unknown> {
  const { items } = await store.flows.list();
  const each = items.map(async ({ runId }) => [saved(await store.flows.get(runId)), await playedBack(store, runId)]);
  return { items: items.map(saved), each: await Promise.all(each) };
}

/** Of a flow that has not ended only who sees the locks of the store's folder can tell that nobody is at work on it. */
function saved(flow: FlowSummary | undefined): unknown {
  if (flow === undefined || flow.isOver) return flow;
  const { isLive: _, ...rest } = flow;
  return rest;
}

async function playedBack(store: Store, runId: string): Promise<unknown> {
  // When each was recorded isn't what an import keeps.
  return (await (await store.flows.playback(runId)).events().toArray()).map((event) => [event.sequence, event.json]);
}

async function streamsOf(store: Store): Promise<unknown> {
  const list = await store.streams.list();
  const each = list.map(async ({ id }) => ({
    info: await store.streams.get(id),
    begin: (await store.streams.read(id, { limit: 20 }).toArray()).map(shown),
    end: (await store.streams.read(id, { backward: true, limit: 20 }).toArray()).map(shown),
    snapshot: await snapshotOf(store, id),
  }));
  return { list, each: await Promise.all(each) };
}

async function snapshotOf(store: Store, id: string): Promise<unknown> {
  const found = await store.streams.latestSnapshot(id);
  return found && { ...found, meta: hex(found.meta), payload: hex(found.payload) };
}

/** What isn't about where it is kept, and who has it open there. */
async function statOf(store: Store): Promise<unknown> {
  const { segmentBytes: _, hasWriter: __, ...stat } = await store.stat();
  return stat;
}

const shown = ({ position, kind, timeMs, meta, payload }: LogRecord) => ({ position, kind, timeMs, meta: hex(meta), payload: hex(payload) });

const hex = (bytes: Uint8Array | undefined) => Array.from(bytes ?? [], (byte) => byte.toString(16)).join(" ");

const failureOf = (call: () => Promise<unknown>) => call().then(() => "none", (error: { code?: string; message: string }) => [error.code, error.message]);
