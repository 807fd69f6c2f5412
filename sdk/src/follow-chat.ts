import { follow } from "./follow.js";
import type { StoreCalls } from "./generated/calls.js";
import type { Chat } from "./generated/types.js";
import type { Handle } from "./handle.js";
import type { Pages } from "./pages.js";

/** A chat, and again each time that something of it has changed. @internal */
export function followChat(store: Handle<StoreCalls>, chatId: string, signal: AbortSignal | undefined): Pages<Chat> {
  // The end of a wait may have had another cause: what is marked tells whether there is news.
  return follow<Chat, string>(
    store,
    signal,
    "",
    async (seen, signal, { streams, redactions }) => {
      const next = JSON.stringify([streams, redactions]);
      if (next === seen) return { items: [], next };
      const chat = await store.value("getChat", { chatId }, undefined, { signal });
      return chat === undefined ? { items: [], next, isEnd: true } : { items: [chat], next };
    },
    async () => ({ chat: await store.value("chatSessionId", { chatId }) }),
  );
}
