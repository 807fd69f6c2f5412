import { fieldsOf, objectOf, shown, withOptions } from "./checks.js";
import { invalid, withKnownFields } from "./error.js";
import type { StoreCalls } from "./generated/calls.js";
import type { AgentInstance, ListSessions, NewInstance, NewSession } from "./generated/types.js";
import type { Handle } from "./handle.js";
import { type Listing, listing } from "./pages.js";
import { type CopiedSession, type CopySession, type Session, type SessionChanges, type StartedSession, sessionOf } from "./sessions.js";

/** The sessions of a {@link Store}, and the instances of agents in them. */
export abstract class StoreSessions {
  readonly #handle: Handle<StoreCalls>;

  /** @internal */
  constructor(handle: Handle<StoreCalls>) {
    this.#handle = handle;
  }

  /**
   * Makes a session. Durable when it resolves.
   *
   * @throws {@link RunlogError} `already_exists` when its id or name is taken; `invalid_input`, `too_large` for a field
   * that is refused.
   */
  async createSession(session: NewSession = {}): Promise<Session> {
    return sessionOf(await this.#handle.value("createSession", objectOf(session, "a session")));
  }

  /**
   * Makes a session and its root instance together, as one batch. Durable when it resolves.
   *
   * @throws {@link RunlogError} as {@link createSession} and {@link createInstance}. Nothing is made then.
   */
  async startSession(session: NewSession, agentName: string): Promise<StartedSession> {
    const [made, instance] = await this.#handle.value("startSession", { session: fieldsOf(session, "a session"), agentName });
    return { session: sessionOf(made), instance };
  }

  /**
   * The session with this name and its root instance, made where they aren't there: for a program that is started again and
   * goes on in its own session. What is there stays as it is: title and metadata are those of the first call, and the root instance that of its
   * agent, also where another one is named. Of several that call it at once, one makes them. Durable when it resolves.
   *
   * @example
   * ```ts
   * const { instance } = await store.getOrStartSession({ name: "nightly" }, "coder");
   * const context = await store.context(instance.id);
   * ```
   *
   * @throws {@link RunlogError} `invalid_input` without a name, or with an id; else as {@link startSession}.
   */
  async getOrStartSession(session: NewSession & { name: string }, agentName: string): Promise<StartedSession> {
    const [made, instance] = await this.#handle.value("getOrStartSession", { session: fieldsOf(session, "a session"), agentName });
    return { session: sessionOf(made), instance };
  }

  /** The session with this id; `undefined` when there is none, or it was deleted. */
  async getSession(id: string): Promise<Session | undefined> {
    const found = await this.#handle.value("getSession", { id });
    return found && sessionOf(found);
  }

  /**
   * The session with this id, this external name, or an id that begins so.
   *
   * @throws {@link RunlogError} `not_found` when none fits, `ambiguous` when the beginning of an id fits several.
   */
  async findSession(text: string): Promise<Session> {
    return sessionOf(await this.#handle.value("findSession", { text }));
  }

  /**
   * One page of sessions, newest first.
   *
   * @throws {@link RunlogError} `invalid_input` for a limit of 0, or a cursor of another list.
   */
  listSessions(options: ListSessions = {}): Listing<Session> {
    return listing(async (asked) => {
      const { items, ...rest } = await this.#handle.value("listSessions", asked);
      return { items: items.map(sessionOf), ...rest };
    }, options);
  }

  /**
   * Changes a session's title, status or metadata, and says what it became. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when there is no such session, or it was deleted; `too_large` for a field
   * over its limit.
   */
  async updateSession(id: string, changes: SessionChanges): Promise<Session> {
    const updated = this.#handle.value("updateSession", withOptions({ id }, changes, "the changes of a session"));
    return sessionOf(await withKnownFields({ not: ["id"] }, updated));
  }

  /**
   * Puts a session away: it is listed as archived, and can still be read and written.
   *
   * @throws {@link RunlogError} as {@link updateSession}.
   */
  async archiveSession(id: string): Promise<Session> {
    return sessionOf(await this.#handle.value("archiveSession", { id }));
  }

  /**
   * Takes an archived session back into use.
   *
   * @throws {@link RunlogError} as {@link updateSession}.
   */
  async unarchiveSession(id: string): Promise<Session> {
    return sessionOf(await this.#handle.value("unarchiveSession", { id }));
  }

  /**
   * Deletes a session, softly: it is no longer found or listed, its name is free again, and nothing can be appended to
   * its contexts; its events stay in the log. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when there is no such session, or it was deleted already.
   */
  async deleteSession(id: string): Promise<void> {
    await this.#handle.value("deleteSession", { id });
  }

  /**
   * Copies a session: a new one with a fork of every instance's context, all of them or nothing. No content is copied,
   * however long the contexts are. Durable when it resolves.
   *
   * With `upToSequence` it is the session as it was at that event of its root's context, with `upToMessage` as it was when that
   * message of its chat was saved, without messages that were deleted since, and with what was changed until one that isn't of its request was
   * saved or another request was begun. An answer comes with the steps and the end of its request, a user's message without the request that it began.
   * Messages and steps have ids of their own in the copy. An `upToMessage` or `createdBy` that is there must be text: without it, more
   * would be copied, or for somebody else.
   *
   * ```ts
   * const chat = await store.chats.create({ assistantId: "travel" });
   * await store.chats.saveMessages(chat.chatId, [
   *   { messageId: "m1", role: "user", type: "text", props: { content: "Oslo, please." } },
   *   { messageId: "m2", role: "assistant", type: "text", props: { content: "By train?" } },
   * ]);
   * const { session } = await store.copySession(await store.chats.sessionId(chat.chatId), { upToMessage: "m1" });
   * ```
   *
   * @throws {@link RunlogError} `not_found` when there is no such session, or no such message in its chat; `invalid_input` when
   * the root's context ends before the sequence, or both are given; `already_exists` when the name is taken.
   */
  async copySession(id: string, options: CopySession = {}): Promise<CopiedSession> {
    const given = fieldsOf(options, "the options");
    for (const name of ["upToMessage", "createdBy"] as const)
      if (name in given && typeof given[name] !== "string")
        throw invalid(`\`${name}\` must be text, not ${shown(given[name])}; leave it out where there is none`);
    const { session, instances } = await this.#handle.value("copySession", { id, options: given });
    return { session: sessionOf(session), instances };
  }

  /**
   * Deletes the events of a session's root instance after a sequence. What its sub-agents, and theirs, wrote behind the first
   * of these goes too, by the order of the log. Resolves to the number of events that were deleted, those of sub-agents
   * included. Its chat isn't changed, whose messages are replaced ({@link NewRequest}) or deleted by themselves. A run at work
   * in it goes on behind what is left. Durable when it resolves;
   * copies of the session keep what they share.
   *
   * @throws {@link RunlogError} `not_found` when there is no such session, or it has no instance; `invalid_input` when
   * the root's context ends before the sequence.
   */
  async truncateSession(id: string, afterSequence: number): Promise<number> {
    return await this.#handle.value("truncateSession", { id, afterSequence });
  }

  /**
   * How far a session's agents were when a message of its chat was saved: the last sequence that the context of its root had then, which
   * {@link truncateSession} takes. Of an answer it is that at the beginning of what came next; 0 where the root had written nothing.
   *
   * @throws {@link RunlogError} `not_found` when there is no such session, its chat has no such message, or it has no instance.
   */
  async sequenceAtMessage(id: string, messageId: string): Promise<number> {
    return await this.#handle.value("sequenceAtMessage", { id, messageId });
  }

  /**
   * Makes an agent instance in a session, with an empty context. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when there is no such session or parent; `invalid_input` when the parent is
   * in another session, or the name is empty; `already_exists` when the id is taken.
   */
  async createInstance(instance: NewInstance): Promise<AgentInstance> {
    return await this.#handle.value("createInstance", instance);
  }

  /** The instance with this id; `undefined` when there is none. */
  async getInstance(id: string): Promise<AgentInstance | undefined> {
    return await this.#handle.value("getInstance", { id });
  }

  /**
   * The instances of a session, in the order they were made.
   *
   * @throws {@link RunlogError} `not_found` when there is no such session, or it was deleted.
   */
  async instances(sessionId: string): Promise<AgentInstance[]> {
    return await this.#handle.value("instances", { sessionId });
  }

  /**
   * The instances that an instance spawned, in the order they were made.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance, or its session was deleted.
   */
  async childInstances(instanceId: string): Promise<AgentInstance[]> {
    return await this.#handle.value("childInstances", { instanceId });
  }

  /**
   * The first instance of a session that nobody spawned: the one a session is resumed with.
   *
   * @throws {@link RunlogError} `not_found` when there is no such session, or it has no instance yet.
   */
  async rootInstance(sessionId: string): Promise<AgentInstance> {
    return await this.#handle.value("rootInstance", { sessionId });
  }
}
