import type { NewChatMessage } from "./chat-types.js";
import { shown } from "./checks.js";
import { invalid } from "./error.js";

/** The message of a user that begins a request. Its role may be left out. */
export type UserMessage = Omit<NewChatMessage, "role" | "props"> & {
  /** It is the user's. */
  role?: "user" | undefined;
  /** What it shows. */
  props: object;
};

/** What a request is begun with, besides what it answers. */
export interface RequestOptions {
  /** The assistant it is for: the root of the call stack. */
  assistantId: string;
  /** Its id; left out, a fresh one. */
  requestId?: string | undefined;
  /** The root's id in the call stack; left out, a fresh one. */
  stackId?: string | undefined;
  /**
   * The id of the message that its user saw as the chat's last one; `null` if there was none. If another one is, as when two pages show
   * the chat, the request is refused as a `conflict`, and nothing is written.
   */
  after?: string | null;
  /**
   * Whether it is refused, as a `conflict`, while another request of the chat is under way. Two questions at once would otherwise be two
   * messages, with the answers to both behind them.
   */
  exclusive?: boolean | undefined;
  /**
   * The first of the messages that it replaces: this one and all behind it are deleted in the write that saves what is there instead. That
   * is the user's new `message`, or the first message of the answer to one that is there: an answer that fails before it says anything
   * leaves the old one. What their requests took stays in {@link Chats.getRequests}; those that aren't over are dismissed. The contexts of
   * agents have what they had: {@link Store.truncateSession}.
   */
  replaces?: string;
}

/**
 * A request to begin: with a new message of its user, or for one that the chat has.
 *
 * @example
 * ```ts
 * const message = { type: "text", props: { content: "To Oslo, please." } };
 * const { items } = await store.chats.listMessages(chat.chatId, { newestFirst: true, limit: 2 });
 * const [answer, question] = items.map((message) => message.messageId) as [string, string];
 * // The user wants another answer:
 * let request = await store.chats.beginRequest(chat.chatId, { assistantId: "travel", answers: question, replaces: answer, after: answer });
 * await request.send({ role: "assistant", type: "text", props: { content: "By train?" } });
 * await request.finish("completed");
 * // The user asks in other words:
 * request = await store.chats.beginRequest(chat.chatId, { assistantId: "travel", message, replaces: question });
 * await request.finish("completed");
 * ```
 */
export type NewRequest = RequestOptions &
  (
    | {
        /** The user's message, of any type. */
        message: UserMessage;
        /** Not with a message of its own. */
        answers?: undefined;
      }
    | {
        /**
         * The id of a message of the user that the chat has, and that is answered instead of a new one: its own request was never answered,
         * or another answer is wanted. An answer that is there stays unless {@link RequestOptions.replaces | replaced}.
         */
        answers: string;
        /** Not with a message that is there. */
        message?: undefined;
      }
  );

/**
 * How the work of a request is stopped.
 *
 * @example
 * ```ts
 * const stop = new AbortController();
 * const { signal } = stop;
 * button.addEventListener("click", () => stop.abort("the user pressed Stop"));
 * await store.chats.withRequest(chat.chatId, asked, async (request) => {
 *   await request.send({ role: "assistant", type: "text", props: { content: await model({ signal }) } });
 * }, { signal });
 * ```
 */
export interface WithRequestOptions {
  /**
   * The signal that stops the work, which is to heed it. What the work throws once it is aborted, whatever that is, interrupts the request
   * and is no failure. Aborted before, the request isn't begun.
   */
  signal?: AbortSignal | undefined;
}

/** What saving messages depends on. */
export interface SaveMessagesOptions {
  /** The id of the message that must be the chat's last one, `null` where there must be none; left out, whatever there is. */
  after?: string | null;
}

/**
 * Fields without which something else would be written. Given as `undefined`, one is a mistake, such as the last message of a chat that
 * has none.
 *
 * @internal
 */
export function guarded<T extends { after?: unknown; replaces?: unknown; answers?: unknown }>(given: T): T & { after?: string } {
  for (const name of ["after", "replaces", "answers"] as const) {
    const value = given[name];
    if (!(name in given) || (typeof value === "string" && value !== "") || (name === "after" && value === null)) continue;
    const none = name === "after" ? "null where there is none" : "or leave it out";
    throw invalid(`\`${name}\` must be the id of a message, not ${shown(value)}; give ${name === "after" ? none : `it, ${none}`}`);
  }
  // No message has an empty id.
  return (given.after === null ? { ...given, after: "" } : given) as T & { after?: string };
}
