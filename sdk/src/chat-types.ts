import { fieldsOf } from "./checks.js";
import { invalid } from "./error.js";
import type {
  Chat,
  ChatFilter as GivenFilter,
  ChatList as ToldList,
  NewChat as GivenChat,
  NewChatMessage as GivenMessage,
  NewStep as GivenStep,
  SearchMessages as GivenSearch,
} from "./generated/types.js";
import type { Page } from "./pages.js";
import type { Sure } from "./updates.js";

/**
 * A chat to make. What is left out is given by the store; a `chatId` that is a UUID becomes the session's id. A user, a team or a tenant that
 * isn't known is left out only where the chat is to be nobody's: `undefined` is refused.
 */
export type NewChat = Sure<Omit<GivenChat, "id" | "lastMessageAtMs" | "updatedAtMs">, "createdBy" | "teamId" | "tenantId">;

/** A message to save. What is left out is given by the store. */
export type NewChatMessage = Omit<GivenMessage, "id" | "chatId" | "updatedAtMs">;

/** A step to save. What is left out is given by the store. */
export type NewStep = Omit<GivenStep, "id" | "updatedAtMs" | "chatId"> & {
  /** The chat it is in. */
  chatId: string;
};

/**
 * Which chats to list, and which page of them. A user, a team or a tenant that isn't known is left out only where everybody's chats are meant:
 * `undefined` is refused. In the order `last_message`, which is the default, a chat that gets a message while the pages are read moves to
 * the first one, and is missed by whoever is past that; in the order `created` each stays where it is.
 */
export interface ChatFilter extends Sure<GivenFilter, "visibleTo" | "userId" | "teamId" | "tenantId"> {}

/** What messages to look for, in which chats. A user or a tenant that is `undefined` is refused, as in {@link ChatFilter}. */
export interface SearchMessages extends Sure<GivenSearch, "visibleTo" | "userId" | "tenantId"> {}

/** One page of chats, and how many there are. */
export type ChatList = Page<Chat> &
  Omit<ToldList, "pagesize" | "pagecount"> & {
    /** How many chats a page has. */
    pageSize: number;
    /** How many pages there are. */
    pageCount: number;
  };

/** A list with the names that it has here. @internal */
export function chatListOf({ pagesize: pageSize, pagecount: pageCount, ...list }: ToldList): ChatList {
  return { ...list, pageSize, pageCount };
}

/** Which of a chat's interrupted requests to resume. */
export interface ResumeChatOptions {
  /** This one; left out, the last one. */
  requestId?: string | undefined;
}

/** Of which users chats or messages are looked for. */
interface OfUsers {
  visibleTo?: string | undefined;
  userId?: string | undefined;
  teamId?: string | undefined;
  tenantId?: string | undefined;
}

/**
 * The chat, unless whose it is isn't known, as when a login is missing: in no list of its user, it would be erased with none.
 *
 * @internal
 */
export function checkOwners<T extends { createdBy?: string; teamId?: string; tenantId?: string }>(chat: T): T {
  const given = fieldsOf(chat, "a chat");
  for (const name of ["createdBy", "teamId", "tenantId"] as const)
    if (name in given && (given[name] ?? undefined) === undefined)
      throw invalid(`\`${name}\` is ${String(given[name])}, with which the chat would be nobody's; give it, or leave it out where that is meant`);
  return given;
}

/**
 * The filter, unless it has a user or a tenant that isn't known, as when a login is missing: everybody's would be found.
 *
 * @internal
 */
export function checkUsers<T extends OfUsers>(filter: T, found: string): T {
  const given = fieldsOf(filter, "a filter");
  for (const name of ["visibleTo", "userId", "teamId", "tenantId"] as const)
    if (name in given && (given[name] ?? undefined) === undefined)
      throw invalid(`\`${name}\` is ${String(given[name])}, with which everybody's ${found}; give it, or leave it out where that is meant`);
  return filter;
}
