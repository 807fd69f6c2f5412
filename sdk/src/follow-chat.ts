import { RunlogError } from "./error.js";
import { follow } from "./follow.js";
import type { StoreCalls } from "./generated/calls.js";
import type { Chat } from "./generated/types.js";
import type { Handle } from "./handle.js";
import type { Pages } from "./pages.js";

/** A chat, and again each time that something of it has changed. @internal */
export function followChat(store: Handle<StoreCalls>, chatId: string, signal: AbortSignal | undefined): Pages<Chat> {
  const sessionId = () => store.value("chatSessionId", { chatId });
  let session: string | undefined;
  // Another chat may have its id since.
  const isGone = async (): Promise<boolean> => {
    const now = await sessionId().catch((error: unknown) => {
      if (error instanceof RunlogError && error.code === "not_found") return undefined;
      throw error;
    });
    return now !== session;
  };
  return follow<Chat, string>(
    store,
    signal,
    "",
    async (seen, signal, { streams, redactions }) => {
      // The end of a wait may have had another cause: what is marked tells whether there is news.
      const next = JSON.stringify([streams, redactions]);
      if (next === seen) return { items: [], next };
      const chat = await store.value("getChat", { chatId }, undefined, { signal });
      if (chat === undefined || (await isGone())) return { items: [], next, isEnd: true };
      return { items: [chat], next };
    },
    async () => {
      session = await sessionId();
      return { chat: session };
    },
  );
}
