import type { NewOf } from "./fields.js";
import { namesOf, renamed } from "./names.js";

/** A chat: a conversation as its user sees it. A session with every field of a chat; fields that aren't known are kept. */
export interface Chat {
  /** The store's own number of it, in the order of creation. */
  id: number;
  /** Its id: the session's name, or the session's id where it has no name. */
  chatId: string;
  /** Its title, at most 500 characters. */
  title?: string;
  /** The assistant it is with. */
  assistantId: string;
  /** Its mode, `chat` by default. */
  mode: string;
  /** Whether it is in use. */
  status: "active" | "archived";
  /** Whether it came with the product. */
  preset: boolean;
  /** Whether all teams see it. */
  public: boolean;
  /** With whom it is shared. */
  share: "private" | "team";
  /** Its place in lists, for display. */
  sort: number;
  /** When its last message was saved: RFC 3339, in UTC. */
  lastMessageAt?: string;
  /** Anything else. */
  metadata?: unknown;
  /** When it was made: RFC 3339, in UTC. */
  createdAt: string;
  /** When it was last changed: RFC 3339, in UTC. */
  updatedAt: string;
  /** The user who made it. */
  createdBy?: string;
  /** The user who changed it last. */
  updatedBy?: string;
  /** The team it belongs to. */
  teamId?: string;
  /** The tenant it belongs to. */
  tenantId?: string;
  /** Whatever else a newer build says of it, kept as it is. */
  [field: string]: unknown;
}

/** A chat to make. What is left out is given by the store; a `chatId` that is a UUID becomes the session's id. */
export type NewChat = NewOf<Chat, "assistantId", "id" | "lastMessageAt" | "updatedAt">;

/** Which chats to list, and which page of them. */
export interface ChatFilter {
  /** Only chats that this user made. */
  userId?: string | undefined;
  /** Only chats of this team. */
  teamId?: string | undefined;
  /** Only chats with this assistant. */
  assistantId?: string | undefined;
  /** Only chats of this status. */
  status?: "active" | "archived" | undefined;
  /** Only chats whose title has all these words, in any case. */
  keywords?: string | undefined;
  /** The newest first, the one with the latest message first, or by the `sort` field. Only the first has a cursor. */
  order?: "created" | "last_message" | "sort" | undefined;
  /** The page, from 1. Pages move while chats are made; a cursor doesn't. */
  page?: number | undefined;
  /** How many chats a page has; 20 when left out. */
  pageSize?: number | undefined;
  /** Where to go on, instead of a page number: the `next` of the page before. */
  cursor?: string | undefined;
}

/** One page of chats. */
export interface ChatList {
  /** The chats. */
  data: Chat[];
  /** The page, from 1. */
  page: number;
  /** How many chats a page has. */
  pageSize: number;
  /** How many pages there are. */
  pageCount: number;
  /** How many chats the filter admits. */
  total: number;
  /** The cursor of the next page; on the last page, and in an order that has none, there is none. */
  next?: string;
}

/** A message of a chat. Its type is open: `text`, `image`, `loading`, `error`, `action`, `file`, or any other. */
export interface ChatMessage {
  /** The store's own number of it: its position in the log. */
  id: number;
  /** Its id. */
  messageId: string;
  /** The chat it is in. */
  chatId: string;
  /** The request it belongs to. */
  requestId?: string;
  /** Who it is from. */
  role: "user" | "assistant";
  /** What it is. */
  type: string;
  /** What it shows. */
  props: Record<string, unknown>;
  /** The block it is part of. */
  blockId?: string;
  /** The thread it is part of. */
  threadId?: string;
  /** The assistant it is from. */
  assistantId?: string;
  /** Its place in the chat, from 1. */
  sequence: number;
  /** Anything else. */
  metadata?: unknown;
  /** When it was made: RFC 3339, in UTC. */
  createdAt: string;
  /** When it was last changed: RFC 3339, in UTC. */
  updatedAt: string;
  /** Whatever else a newer build says of it, kept as it is. */
  [field: string]: unknown;
}

/** A message to save. What is left out is given by the store. */
export type NewChatMessage = NewOf<ChatMessage, "role" | "type", "id" | "props"> & {
  /** What it shows: an object, kept as JSON. */
  props: object;
};

/** Which steps of a chat to list. What is left out is all. */
export interface StepFilter {
  /** Only those of this request. */
  requestId?: string | undefined;
  /** Only those of this node of the call stack. */
  stackId?: string | undefined;
  /** Only those of this type. */
  type?: StepType | undefined;
  /** Only those of this status. */
  status?: StepStatus | undefined;
  /** At most so many. */
  limit?: number | undefined;
  /** Where to go on: the `next` of the page before, with the same filter. */
  cursor?: string | undefined;
}

/** Which messages of a chat to get. */
export interface MessageFilter {
  /** Only those of this request. */
  requestId?: string | undefined;
  /** Only those from this side. */
  role?: "user" | "assistant" | undefined;
  /** Only those of this block. */
  blockId?: string | undefined;
  /** At most so many; 0 is all. */
  limit?: number | undefined;
  /** How many to pass over first. */
  offset?: number | undefined;
}

/** What a step is. */
export type StepType = "input" | "hook_create" | "llm" | "tool" | "hook_next" | "delegate";

/** How far a step is. */
export type StepStatus = "pending" | "running" | "completed" | "failed" | "interrupted";

/** One thing an assistant did for a request; it can be resumed unless it is completed. */
export interface Step {
  /** The store's own number of it: its position in the log. */
  id: number;
  /** Its id. */
  stepId: string;
  /** The chat it is in. */
  chatId: string;
  /** The request it belongs to. */
  requestId: string;
  /** The assistant that did it. */
  assistantId: string;
  /** The node of the call stack it was done in. */
  stackId: string;
  /** The node that called this one. */
  stackParentId?: string;
  /** How deep in the call stack: 0 is the root. */
  stackDepth: number;
  /** What it is. */
  type: StepType;
  /** How far it is. */
  status: StepStatus;
  /** What it was given. */
  input?: Record<string, unknown>;
  /** What came of it. */
  output?: Record<string, unknown>;
  /** The space when it began. */
  spaceSnapshot?: Record<string, unknown>;
  /** Why it failed. */
  error?: string;
  /** Its place in the request, from 1. */
  sequence: number;
  /** Anything else. */
  metadata?: unknown;
  /** When its request was dismissed, RFC 3339, in UTC: it isn't to be resumed any more, whatever its status. */
  dismissedAt?: string;
  /** When it was made: RFC 3339, in UTC. */
  createdAt: string;
  /** When it was last changed: RFC 3339, in UTC. */
  updatedAt: string;
  /** Whatever else a newer build says of it, kept as it is. */
  [field: string]: unknown;
}

/** A step to save. What is left out is given by the store. */
export type NewStep = NewOf<Step, "chatId" | "requestId" | "assistantId" | "stackId" | "type" | "status", "id">;

/** New values for some fields; `null` takes a value away, and a field that isn't known is kept. */
export type Updates<T> = { [Field in keyof T]?: T[Field] | null | undefined };

/** A line that an import left out. */
export interface ImportIssue {
  /** Which line, from 1. */
  line: number;
  /** Why. */
  what: string;
}

/** What an import did. */
export interface ImportReport {
  /** How many chats, messages or steps were imported. */
  imported: number;
  /** How many chats were made for the messages or steps. */
  chats: number;
  /** How many were there already, and left as they are. */
  skipped: number;
  /** The lines that were left out, counted from 1, and why. */
  issues: ImportIssue[];
}

const CHAT = namesOf([
  "chat_id",
  "assistant_id",
  "last_message_at",
  "created_at",
  "updated_at",
  "created_by",
  "updated_by",
  "team_id",
  "tenant_id",
]);
const MESSAGE = namesOf([
  "message_id",
  "chat_id",
  "request_id",
  "block_id",
  "thread_id",
  "assistant_id",
  "created_at",
  "updated_at",
]);
const STEP = namesOf([
  "step_id",
  "chat_id",
  "request_id",
  "assistant_id",
  "stack_id",
  "stack_parent_id",
  "stack_depth",
  "space_snapshot",
  "dismissed_at",
  "created_at",
  "updated_at",
]);
const CHAT_FILTER = namesOf(["user_id", "team_id", "assistant_id"], { pagesize: "pageSize" });
const MESSAGE_FILTER = namesOf(["request_id", "block_id"]);

/** As the core tells them, and as it is told them. @internal */
export const wire = {
  chat: (chat: object) => renamed(chat, CHAT.here) as unknown as Chat,
  message: (message: object) => renamed(message, MESSAGE.here) as unknown as ChatMessage,
  step: (step: object) => renamed(step, STEP.here) as unknown as Step,
  toChat: (chat: object) => renamed(chat, CHAT.there),
  toMessage: (message: object) => renamed(message, MESSAGE.there),
  toStep: (step: object) => renamed(step, STEP.there),
  toChatFilter: (filter: object) => renamed(filter, CHAT_FILTER.there),
  toMessageFilter: (filter: object) => renamed(filter, MESSAGE_FILTER.there),
};
