import { type ChatFilter, type ChatList, type NewChat, type NewChatMessage, type NewStep, type ResumeChatOptions, type SearchMessages, chatListOf, checkOwners, checkUsers } from "./chat-types.js";
import { fieldsOf, listOf, optionsOf } from "./checks.js";
import { invalid, throwIfAborted, withKnownFields } from "./error.js";
import type { StoreCalls } from "./generated/calls.js";
import type {
  Chat,
  ChatMessage,
  ChatRequest,
  ImportReport,
  ListMessages,
  ListRequests,
  ListSteps,
  MessageFilter,
  Step,
  UnfinishedRequest,
} from "./generated/types.js";
import { followChat } from "./follow-chat.js";
import type { Handle } from "./handle.js";
import type { RawJson } from "./json.js";
import { parseList } from "./long-lists.js";
import { type NewRequest, type SaveMessagesOptions, type WithRequestOptions, guarded } from "./new-request.js";
import { type Listing, type Pages, listing } from "./pages.js";
import { type RequestBuffer, requestOf } from "./request.js";
import { Resumption } from "./resumption.js";
import { workOn } from "./work-on.js";
import type { Updates } from "./updates.js";

/**
 * The chats of a store: sessions as their users see them, with messages and steps. Got from {@link Store.chats}.
 *
 * @example
 * ```ts
 * const chat = await store.chats.create({ assistantId: "travel", createdBy: "user123" });
 * await using request = await store.chats.beginRequest(chat.chatId, {
 *   assistantId: "travel",
 *   message: { type: "text", props: { content: "Oslo, please." } },
 * }); // the user's message is durable
 * await request.send({ role: "assistant", type: "text", props: { content: "By train?" } });
 * await request.finish("completed"); // everything else, as one batch
 * ```
 */
export class Chats {
  readonly #handle: Handle<StoreCalls>;

  /** @internal */
  constructor(handle: Handle<StoreCalls>) {
    this.#handle = handle;
  }

  /**
   * Makes a chat. Durable when it resolves.
   *
   * @throws {@link RunlogError} `already_exists` when the id is taken; `invalid_input`, `too_large` for a field that is
   * refused.
   */
  async create(chat: NewChat): Promise<Chat> {
    return await this.#handle.value("createChat", checkOwners(chat));
  }

  /** The chat with this id; `undefined` when there is none, or it was deleted. */
  async get(chatId: string): Promise<Chat | undefined> {
    return await this.#handle.value("getChat", { chatId });
  }

  /**
   * The id of the session that a chat is, which {@link Store.copySession}, {@link Store.erase} and {@link Store.export} take. A chat that was
   * made without an id has its session's.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or it was deleted.
   */
  async sessionId(chatId: string): Promise<string> {
    return await this.#handle.value("chatSessionId", { chatId });
  }

  /**
   * Changes fields of a chat, and says what it became. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or it was deleted; `invalid_input`, `too_large`
   * for a field that is refused.
   */
  async update(chatId: string, updates: Updates<Chat, "chatId" | "id" | "createdAtMs" | "createdBy" | "lastMessageAtMs" | "updatedAtMs">): Promise<Chat> {
    return await this.#handle.value("updateChat", { chatId, updates });
  }

  /**
   * Deletes a chat, softly: it is no longer found, listed or written to; its events stay in the log.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or it was deleted already.
   */
  async delete(chatId: string): Promise<void> {
    await this.#handle.value("deleteChat", { chatId });
  }

  /**
   * Makes a chat that was deleted be there again, as it was. Of several that had the id, the one deleted last. What was
   * deleted is listed by `list({ deleted: true })`. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when no chat of this id was deleted; `already_exists` when another has its id now.
   */
  async restore(chatId: string): Promise<Chat> {
    return await this.#handle.value("restoreChat", { chatId });
  }

  /**
   * One page of chats, the one with the latest message first unless asked otherwise, by page and page size, or by cursor. One that gets a
   * message meanwhile is at the top again, and on none of the pages to come: whoever must miss none asks for `order: "created"`.
   *
   * @example
   * ```ts
   * // What a user may see: his own, what his teams share, and what is public.
   * const page = await store.chats.list({ visibleTo: "user123", teams: ["sales"], pageSize: 20 });
   * const rest = await store.chats.list({ visibleTo: "user123", teams: ["sales"], pageSize: 20, cursor: page.next });
   * ```
   *
   * @throws {@link RunlogError} `invalid_input` for a page that is too large, a cursor of another list, teams of nobody, or a `visibleTo`,
   * `userId` or `tenantId` that is `undefined`.
   */
  list(filter: ChatFilter = {}): Listing<Chat, ChatList> {
    const read = async (asked: ChatFilter): Promise<ChatList> => chatListOf(await this.#handle.value("listChats", checkUsers(asked, "chats would be listed")));
    return listing(read, filter);
  }

  /**
   * Saves messages: all of them or none. Durable when it resolves. A sequence that is given is at most 2^52; messages that are
   * given the same one stand in the order in which they were saved. With `after`, they are saved only if that message is the chat's
   * last one: of two that answer it at the same time, one saves.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat; `already_exists` for a message id that is taken;
   * `conflict` when another message than the one of `after` is the last; `invalid_input`, `too_large` for a field that is refused.
   */
  async saveMessages(chatId: string, messages: readonly NewChatMessage[], options: SaveMessagesOptions = {}): Promise<ChatMessage[]> {
    const { after } = guarded(optionsOf(options, ["after"]));
    return await this.#handle.value("saveMessages", { chatId, messages: listOf(messages, "messages"), after });
  }

  /**
   * The messages of a chat that a filter admits, in the chat's order. All are held in memory; {@link listMessages} holds a page.
   * A long list is read in pieces, between which the event loop goes on.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or it was deleted.
   */
  async getMessages(chatId: string, filter: MessageFilter = {}): Promise<ChatMessage[]> {
    return await parseList(await this.#handle.bytes("getChatMessages", { chatId, filter }));
  }

  /**
   * One page of a chat's messages, the oldest or the newest first. It costs the page, however long the chat is.
   *
   * @example
   * ```ts
   * const last = await store.chats.listMessages(chatId, { newestFirst: true, limit: 20 });
   * const before = await store.chats.listMessages(chatId, { newestFirst: true, limit: 20, cursor: last.next });
   * ```
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, it was deleted, or it has no message `startAfter`;
   * `invalid_input` for a limit of 0, or a cursor of another list.
   */
  listMessages(chatId: string, options: ListMessages = {}): Listing<ChatMessage> {
    return listing((filter) => this.#handle.value("listChatMessages", { chatId, filter }), options);
  }

  /**
   * The chat as it is, then again whenever something of it was changed, also by another process: a message was saved, changed, deleted or
   * redacted, a step or a request was written, or the chat has another title. Changes that come faster than they are taken are given
   * once. It ends when the chat is deleted, the signal is aborted or the store is closed.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat.
   *
   * @example
   * ```ts
   * const gone = new AbortController();
   * for await (const { title } of store.chats.follow(chat.chatId, { signal: gone.signal })) {
   *   const { items } = await store.chats.listMessages(chat.chatId, { newestFirst: true });
   *   show(title, items);
   * }
   * ```
   */
  follow(chatId: string, options: { signal?: AbortSignal | undefined } = {}): Pages<Chat> {
    return followChat(this.#handle, chatId, optionsOf(options, ["signal"]).signal);
  }

  /**
   * How many messages of a chat a filter admits, whatever its limit and offset.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or it was deleted.
   */
  async countMessages(chatId: string, filter: MessageFilter = {}): Promise<number> {
    return await this.#handle.value("countChatMessages", { chatId, filter });
  }

  /**
   * One page of the requests that aren't over, anywhere in the store, the newest first: those that run, those that a process
   * left without an answer when it died, those that were interrupted or failed. Each chat has at most its newest 256 among
   * them; what was saved by hand or came from tables, and a copied chat's, isn't among them.
   *
   * @example
   * ```ts
   * // After a crash: what was being answered then, in every chat. Without a status, also what was stopped, or failed.
   * for await (const { chatId, requestId } of store.chats.listRequests({ unattended: true, status: "running" })) {
   *   const resumption = await store.chats.resume(chatId, { requestId });
   * }
   * ```
   *
   * @throws {@link RunlogError} `invalid_input` for a limit of 0, or a cursor of another list.
   */
  listRequests(options: ListRequests = {}): Listing<UnfinishedRequest> {
    return listing((asked) => this.#handle.value("listRequests", asked), options);
  }

  /**
   * The requests of a chat, in the order in which they were begun: how each ended, and what it took, also of those whose answer was
   * replaced. A copied chat has those of its original, too. They are all held in memory.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or it was deleted.
   */
  async getRequests(chatId: string): Promise<ChatRequest[]> {
    return await parseList(await this.#handle.bytes("getRequests", { chatId }));
  }

  /**
   * What became of a request, wherever it is: its status, error, usage and run; `undefined` for one that was never begun
   * here, whose steps were saved by hand.
   *
   * @throws {@link RunlogError} `not_found` when no chat has the request; `ambiguous` when several have.
   */
  async getRequest(requestId: string): Promise<ChatRequest | undefined> {
    return await this.#handle.value("getRequest", { requestId });
  }

  /**
   * One page of the messages that have a text in their `props`, in any case: those of the chat that was made last first, and of each chat
   * the newest first. Messages are as they are now; deleted ones and those of deleted chats aren't found. A page may have fewer than `limit`,
   * or none, and yet have a `next`, since it ends after 10,000 messages that it looked at.
   *
   * @throws {@link RunlogError} `invalid_input` for no text, a cursor of another search, teams of nobody, or a `visibleTo`, `userId` or `tenantId` that
   * is `undefined`; `not_found` when there is no such chat.
   *
   * @example
   * ```ts
   * const search = { text: "oslo", visibleTo: "user123", teams: ["sales"] };
   * for await (const { chatId, messageId } of store.chats.searchMessages(search)) console.log(chatId, messageId);
   * ```
   */
  searchMessages(search: SearchMessages): Listing<ChatMessage> {
    return listing((asked) => this.#handle.value("searchMessages", checkUsers(asked, "messages would be found")), search);
  }

  /**
   * Changes fields of a message, and says what it became. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when no chat has the message; `ambiguous` when several have;
   * `invalid_input`, `too_large` for a field that is refused.
   */
  async updateMessage(messageId: string, updates: Updates<ChatMessage, "messageId" | "chatId" | "id" | "createdAtMs" | "updatedAtMs">): Promise<ChatMessage> {
    return await this.#handle.value("updateMessage", { messageId, updates });
  }

  /**
   * Deletes messages of a chat: all of them or none. Their events stay in the log.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or one of the messages isn't in it.
   */
  async deleteMessages(chatId: string, messageIds: readonly string[]): Promise<void> {
    await this.#handle.value("deleteMessages", { chatId, messageIds });
  }

  /**
   * Saves steps of one chat: all of them or none. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or it was deleted; `already_exists` for a step
   * id that is taken, or a request or node that another chat has; `invalid_input` when they are of several chats, or a field is refused.
   */
  async saveSteps(steps: readonly NewStep[]): Promise<Step[]> {
    return await this.#handle.value("saveSteps", { steps: listOf(steps, "steps") });
  }

  /**
   * Changes fields of a step, its status among them, and says what it became. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when no chat has the step; `ambiguous` when several have; `invalid_input`,
   * `too_large` for a field that is refused.
   */
  async updateStep(stepId: string, updates: Updates<Step, "stepId" | "chatId" | "id" | "createdAtMs" | "updatedAtMs">): Promise<Step> {
    return await this.#handle.value("updateStep", { stepId, updates });
  }

  /**
   * The steps of a request, in its order.
   *
   * @throws {@link RunlogError} `not_found` when no chat has the request; `ambiguous` when several have.
   */
  async getSteps(requestId: string): Promise<Step[]> {
    return await this.#handle.value("getSteps", { requestId });
  }

  /**
   * One page of the steps of a chat (`chatId`), in the order in which they were saved, or of all chats, in the order in which
   * each came to be what is asked for: saved so, or changed to it.
   *
   * @example
   * ```ts
   * const { items } = await store.chats.listSteps({ status: "interrupted", assistantId: "travel", limit: 10 });
   * ```
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or it was deleted; `invalid_input` for a limit
   * of 0, or a cursor of another list.
   */
  listSteps(options: ListSteps = {}): Listing<Step> {
    return listing((filter) => this.#handle.value("listSteps", { filter }), options);
  }

  /**
   * The chat's last step that isn't completed; `undefined` when there is nothing to resume.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or it was deleted.
   */
  async getLastIncompleteStep(chatId: string): Promise<Step | undefined> {
    return await this.#handle.value("getLastIncompleteStep", { chatId });
  }

  /**
   * The steps of a node of the call stack, in their order.
   *
   * @throws {@link RunlogError} `not_found` when no chat has the node; `ambiguous` when several have.
   */
  async getStepsByStackId(stackId: string): Promise<Step[]> {
    return await this.#handle.value("getStepsByStackId", { stackId });
  }

  /**
   * The nodes of the call stack from the root to this one.
   *
   * @throws {@link RunlogError} `not_found` when no chat has the node; `invalid_input` when its steps' parents go round
   * in a circle.
   */
  async getStackPath(stackId: string): Promise<string[]> {
    return await this.#handle.value("getStackPath", { stackId });
  }

  /**
   * Takes the content of a message out of every read, with all that it was changed to. The message is gone then, no import
   * brings it back, and its sequence stays its own; its bytes stay on the disk. Durable when it resolves; the reason is kept.
   *
   * **A message and its copies are one message here.** A copy of a chat shares what it copied, so that redacting the message
   * in any of these chats redacts it in all of them: in the one where it was saved, in the copies of that, and in copies of
   * copies, each with what the message was changed to there. Else its text could still be read in the others. A message that
   * was saved in a copy after it was made is shared with that copy's own copies alone. To take a message out of one chat and
   * leave it in the others, use {@link deleteMessages}.
   *
   * @throws {@link RunlogError} as {@link updateMessage}.
   */
  async redactMessage(messageId: string, reason: string): Promise<void> {
    await this.#handle.value("redactMessage", { messageId, reason });
  }

  /**
   * Begins a request: the user's message is durable when it resolves; everything else is in memory until the request
   * ends, and is then written as one atomic batch.
   *
   * An id names one request of a chat, so that it is begun once: what was interrupted is {@link resume | resumed}, and whoever
   * asks again asks under another id. Who {@link NewRequest | answers} a message that is there, replaces messages, or says which is
   * the last one, has the chat read whole, once.
   *
   * @throws {@link RunlogError} `conflict` while a request of this id in the chat, one for the message that it answers, one that it
   * replaces, or any of the chat where it is `exclusive`, is under way: it was begun or resumed, and hasn't ended; or when the chat's
   * last message isn't the one it is to come after; `already_exists` when the chat has messages or steps of such a request, or another chat has it;
   * `invalid_input` when the message isn't the user's; `not_found` when the chat hasn't what it answers or replaces; else as {@link saveMessages}.
   */
  async beginRequest(chatId: string, request: NewRequest): Promise<RequestBuffer> {
    this.#handle.check();
    const { message, answers, ...rest } = guarded(fieldsOf(request, "a request"));
    const known = { of: "request", also: ["message", "answers"] };
    if (answers !== undefined) {
      if (message !== undefined) throw invalid("a request has either a `message` of its own, or `answers` one that the chat has");
      const args = { chatId, request: rest, messageId: answers };
      return await requestOf(() => withKnownFields(known, this.#handle.made("answerAgain", args)));
    }
    if (message === undefined) throw invalid("a request needs a `message` of its user, or with `answers` the id of one that the chat has");
    const given = fieldsOf(message, "`message`");
    const args = { chatId, request: rest, message: { ...given, role: given.role ?? "user" } };
    return await requestOf(() => withKnownFields(known, this.#handle.made("beginRequest", args)));
  }

  /**
   * Does the work of a request, and ends it as the work ended: `completed` when it returns, `interrupted` when it was stopped (it throws
   * an `AbortError`, or anything once the `signal` of the options is aborted), `failed` with the error when it throws anything else, such as the
   * `TimeoutError` of a signal that isn't given here; what it throws is thrown on. A request that the work has ended itself is left as it is.
   * A message whose id is taken by then is written with a fresh one.
   *
   * @throws {@link RunlogError} as {@link beginRequest} and {@link RequestBuffer.finish}; `aborted` when the signal is before it begins; whatever the work throws.
   *
   * @example
   * ```ts
   * const chat = await store.chats.create({ assistantId: "travel" });
   * const message = { type: "text", props: { content: "Oslo, please." } };
   * const answer = await store.chats.withRequest(chat.chatId, { assistantId: "travel", message }, async (request) => {
   *   const step = await request.startStep("llm", { model: "m" });
   *   await request.send({ role: "assistant", type: "text", props: { content: "By train?" } });
   *   await request.completeStep(step);
   *   return "By train?";
   * });
   * ```
   */
  async withRequest<T>(chatId: string, request: NewRequest, work: (request: RequestBuffer) => T | Promise<T>, options: WithRequestOptions = {}): Promise<T> {
    if (typeof work !== "function") throw invalid("the work of a request is a function that is given the request");
    const { signal } = optionsOf(options, ["signal"]);
    throwIfAborted(signal);
    return await workOn(await this.beginRequest(chatId, request), work, signal);
  }

  /**
   * How to go on with the chat's interrupted request, of several the last one, or the one with `requestId`; `undefined` when
   * there is nothing to resume: it was completed, or dismissed, or none of its steps was cut off, in which case it is asked again
   * and {@link dismiss | dismissed}. Nothing is written: who goes on with it has it to himself.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or it was deleted, or it has no such request;
   * `invalid_input` for an empty id, or when the step's space or stack can't be restored.
   *
   * @example
   * ```ts
   * const older = await store.chats.resume(chat.chatId, { requestId: "req_1" });
   * ```
   */
  async resume(chatId: string, options: ResumeChatOptions = {}): Promise<Resumption | undefined> {
    const { requestId } = optionsOf(options, ["requestId"]);
    const { value, handle } = await this.#handle.made("resumeChat", { chatId, requestId });
    return value && new Resumption(handle("the interrupted request"), value);
  }

  /**
   * Tells that an interrupted request isn't to be resumed any more: the user asked again, say. Its steps keep their status,
   * and say when it was dismissed. Gives those that could have been resumed, none for a request that was completed.
   *
   * @throws {@link RunlogError} `not_found` when no chat has the request; `ambiguous` when several have; `conflict` while
   * somebody is at work on it; `invalid_input` for an empty id.
   *
   * @example
   * ```ts
   * const interrupted = await store.chats.resume(chat.chatId);
   * if (interrupted !== undefined) await store.chats.dismiss(interrupted.step.requestId);
   * ```
   */
  async dismiss(requestId: string): Promise<Step[]> {
    return await this.#handle.value("dismiss", { requestId });
  }

  /**
   * Tells that the assistant of a node has returned with an output: the delegate step that waits for it is completed. For
   * the levels above the one that was resumed.
   *
   * @throws {@link RunlogError} `not_found` when there is no such chat, or no step waits for the node.
   */
  async completeDelegate(chatId: string, stackId: string, output: object | RawJson): Promise<Step> {
    return await this.#handle.value("completeDelegate", { chatId, stackId, output });
  }

  /**
   * Imports the old table `agent_chat`, one JSON object a line. What is there already is left as it is.
   *
   * @throws {@link RunlogError} those of the storage; what was imported so far stays. A line that can't be read is reported
   * in the report.
   */
  async importAgentChat(lines: string): Promise<ImportReport> {
    return await this.#handle.value("importAgentChat", { lines });
  }

  /**
   * Imports the table `agent_message`, one JSON object a line: ids, sequences and times stay, and a chat that isn't there is
   * made with what its rows tell, so import `agent_chat` first where there is one. A row that was deleted is passed over, and
   * what is there already is left as it is. A row whose sequence another message of the chat has is left out and listed in the
   * report, since the table doesn't say which of them comes first.
   *
   * @throws {@link RunlogError} as {@link importAgentChat}.
   */
  async importAgentMessage(lines: string): Promise<ImportReport> {
    return await this.#handle.value("importAgentMessage", { lines });
  }

  /**
   * Imports the table `agent_step`, one JSON object a line; else as {@link importAgentMessage}.
   *
   * @throws {@link RunlogError} as {@link importAgentChat}.
   */
  async importAgentStep(lines: string): Promise<ImportReport> {
    return await this.#handle.value("importAgentStep", { lines });
  }

  /**
   * Imports the old table `agent_history`, one JSON object a line; the chats have to be there. The rows of a chat are ordered by
   * `created_at`, then by `id` where that is a number, whatever the order of the lines.
   *
   * @throws {@link RunlogError} those of the storage; what was imported so far stays. A line that can't be read is reported
   * in the report.
   */
  async importAgentHistory(lines: string): Promise<ImportReport> {
    return await this.#handle.value("importAgentHistory", { lines });
  }
}
