import type { Handle } from "./handle.js";
import { valueOf } from "./binding.js";
import { fieldsOf, optionsOf } from "./checks.js";
import {
  type ContextEvent,
  type FollowedEvent,
  type Message,
  type MessageInput,
  unpackEvents,
  unpackMessages,
} from "./context-types.js";
import { withKnownFields } from "./error.js";
import type { StoreCalls } from "./generated/calls.js";
import type { AppendOptions, AppendResult, ContextEventType, DanglingToolCall } from "./generated/types.js";
import { type RawJson, jsonBytes, messageBytes, messageList } from "./json.js";
import { parseList } from "./long-lists.js";
import { Pages } from "./pages.js";
import { follow } from "./follow.js";

/** Where a follower stands: the next sequence, and the position of the event before it, 0 where it was given none. */
interface Given {
  from: number;
  position: number;
}

/** The contexts of a store, by instance id. {@link Context} has the same for one instance. Got from {@link Store.contexts}. */
export class Contexts {
  readonly #handle: Handle<StoreCalls>;

  /** @internal */
  constructor(handle: Handle<StoreCalls>) {
    this.#handle = handle;
  }

  /**
   * Appends one event. Durable when it resolves. `toolCallId` names the call that a tool_result answers, where its
   * content doesn't.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance, or its session was deleted; `invalid_input`
   * when content, type and tool call id don't fit each other; `conflict`, also when the event of this idempotency key
   * was truncated since (one that is there is given as it is).
   */
  async appendEvent(
    instanceId: string,
    eventType: ContextEventType,
    content: RawJson | Uint8Array | object,
    options: AppendOptions & { toolCallId?: string | undefined } = {},
  ): Promise<ContextEvent> {
    const { toolCallId, ...rest } = fieldsOf(options, "the options");
    const args = { instanceId, eventType, toolCallId, options: rest };
    const appended = this.#handle.bytes("appendEvent", args, jsonBytes(content));
    const bytes = await withKnownFields({ of: "options", also: ["toolCallId"] }, appended);
    return unpackEvents(bytes).events[0] as ContextEvent;
  }

  /**
   * The events of a context from a sequence on; 0 and 1 are all of them.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance.
   */
  async getEvents(instanceId: string, fromSequence = 0): Promise<ContextEvent[]> {
    return await this.events(instanceId, { from: fromSequence }).toArray();
  }

  /**
   * The events of a context from a sequence on, a page at a time.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance, at the first read.
   */
  events(instanceId: string, options: { from?: number | undefined; signal?: AbortSignal | undefined } = {}): Pages<ContextEvent> {
    const { from = 0, signal } = optionsOf(options, ["from", "signal"]);
    return new Pages(() => this.#eventPages(instanceId, from, signal), signal);
  }

  async *#eventPages(instance: string, first: number, signal: AbortSignal | undefined) {
    let from: number | undefined = first;
    while (from !== undefined) {
      const page: ReturnType<typeof unpackEvents> = await this.eventPage(instance, from, signal);
      if (page.events.length > 0) yield page.events;
      from = page.next;
    }
  }

  /** One page of events. @internal */
  async eventPage(instance: string, from: number, signal?: AbortSignal): Promise<ReturnType<typeof unpackEvents>> {
    return unpackEvents(await this.#handle.bytes("events", { instanceId: instance, from }, undefined, { signal }));
  }

  /**
   * The event at a sequence of a context; `undefined` when the context doesn't reach it.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance.
   */
  async event(instanceId: string, sequence: number): Promise<ContextEvent | undefined> {
    return unpackEvents(await this.#handle.bytes("event", { instanceId, sequence })).events[0];
  }

  /**
   * The last sequence of a context, 0 when it is empty.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance.
   */
  async lastSequence(instanceId: string): Promise<number> {
    return await this.#handle.value("getLastSequence", { instanceId });
  }

  /**
   * Deletes the events after a sequence, and says how many they were. Forks keep what they share. Durable when it
   * resolves.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance; `invalid_input` when the context ends
   * before the sequence.
   */
  async deleteEventsAfter(instanceId: string, sequence: number): Promise<number> {
    return await this.#handle.value("deleteEventsAfter", { instanceId, sequence });
  }

  /**
   * Copies the events of one context, up to a sequence, to another one that is empty, and says how many they were. To an
   * instance that never had an event this is a fork: no bytes are copied, however many events. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when either instance isn't there; `already_exists` when the target has
   * events; `invalid_input` when the source ends before the sequence. Nothing is copied then.
   */
  async copyEvents(sourceInstanceId: string, targetInstanceId: string, upToSequence?: number): Promise<number> {
    return await this.#handle.value("copyEvents", { source: sourceInstanceId, target: targetInstanceId, upToSequence });
  }
}

/**
 * One agent's context: the messages that its model sees, and the events they are kept as. Got from {@link Store.context}.
 *
 * @example
 * ```ts
 * const context = await store.context(agent.id);
 * await context.appendMessage({ role: "user", content: "Will it rain?" }); // durable when it resolves
 * const answer = await callModel(await context.getMessages());
 * await context.appendMessage(answer);
 * ```
 */
export class Context {
  /** The instance whose context this is. */
  readonly instanceId: string;
  readonly #handle: Handle<StoreCalls>;
  readonly #contexts: Contexts;
  /** The arguments of an append without options. */
  readonly #appendArguments: string;

  /** @internal */
  constructor(handle: Handle<StoreCalls>, contexts: Contexts, instanceId: string) {
    this.#handle = handle;
    this.#contexts = contexts;
    this.instanceId = instanceId;
    this.#appendArguments = JSON.stringify({ instanceId });
  }

  /**
   * Appends a message: one event for it and one for each tool call it asks for, all or none. Role, tool calls and tool
   * results are read out of it, in the form of its provider. Durable when it resolves. Whether a result's call is there is
   * checked by `recordMessage` of a run, and not here.
   *
   * @throws {@link RunlogError} `invalid_input` when it isn't an object with a known role, or a tool call in it can't be
   * read; `not_found` when the session was deleted; `conflict` when the last sequence isn't the expected one.
   */
  async appendMessage(message: MessageInput, options?: AppendOptions): Promise<AppendResult> {
    const data = messageBytes(message);
    const reply = await (options === undefined
      ? this.#handle.callText("appendMessage", this.#appendArguments, data)
      : this.#handle.call("appendMessage", { instanceId: this.instanceId, options }, data));
    return valueOf(reply);
  }

  /**
   * Appends several messages, all or none of them: one flush for a whole conversation. Durable when it resolves. An empty list appends
   * nothing, and isn't an error: `lastSequence` is that of the context then, and `firstSequence` the one after it. An expectation is
   * checked all the same; an idempotency key is refused, for there is nothing to keep it beside.
   *
   * @throws {@link RunlogError} as {@link appendMessage}, for any of them.
   */
  async appendMessages(messages: readonly MessageInput[], options: AppendOptions = {}): Promise<AppendResult> {
    const { event, ...rest } = fieldsOf(options, "the options");
    const { lengths, data } = messageList(messages);
    const events = lengths.map(() => event ?? {});
    return await this.#handle.value("appendMessages", { instanceId: this.instanceId, options: rest, events, lengths }, data);
  }

  /** Appends one event. As {@link Contexts.appendEvent}. */
  async appendEvent(
    eventType: ContextEventType,
    content: RawJson | Uint8Array | object,
    options: AppendOptions & { toolCallId?: string | undefined } = {},
  ): Promise<ContextEvent> {
    return await this.#contexts.appendEvent(this.instanceId, eventType, content, options);
  }

  /**
   * The messages of the context: what was sent to the model, in order, as values to be sent again. Numbers are
   * JavaScript's; {@link getRawMessages} has the bytes. A long list is read in pieces, between which the event loop goes on.
   */
  async getMessages<T = Record<string, unknown>>(): Promise<T[]> {
    return await this.replayFromSequence<T>(0);
  }

  /** The messages from a sequence on, as values; a sequence beyond the end is none. */
  async replayFromSequence<T = Record<string, unknown>>(sequence: number): Promise<T[]> {
    return await parseList<T>(await this.#handle.bytes("getMessages", { instanceId: this.instanceId, from: sequence }));
  }

  /** The messages from a sequence on, each byte for byte. */
  async getRawMessages(fromSequence = 0): Promise<Message[]> {
    return await unpackMessages(await this.#handle.bytes("getRawMessages", { instanceId: this.instanceId, from: fromSequence }));
  }

  /** The events from a sequence on; 0 and 1 are all of them. All are held in memory; {@link events} holds a page. */
  async getEvents(fromSequence = 0): Promise<ContextEvent[]> {
    return await this.#contexts.getEvents(this.instanceId, fromSequence);
  }

  /** The events from a sequence on, a page at a time. */
  events(options: { from?: number | undefined; signal?: AbortSignal | undefined } = {}): Pages<ContextEvent> {
    return this.#contexts.events(this.instanceId, options);
  }

  /** The event at a sequence; `undefined` when the context doesn't reach it. */
  async event(sequence: number): Promise<ContextEvent | undefined> {
    return await this.#contexts.event(this.instanceId, sequence);
  }

  /**
   * The events from a sequence on, then those that come, also while another process writes them. It ends when the
   * signal is aborted, the store is closed or the session was deleted; not with a run: another one may go on in the context.
   *
   * What was given may be taken back: after a truncation comes a {@link ContextChange}, and then the events behind the last
   * one that is left, whose sequences were given before.
   */
  follow(options: { from?: number | undefined; signal?: AbortSignal | undefined } = {}): Pages<FollowedEvent> {
    const { from = 1, signal } = optionsOf(options, ["from", "signal"]);
    const instance = this.instanceId;
    // The position of the last event that was given tells whether it is still the one at its sequence.
    return follow<FollowedEvent, Given>(this.#handle, signal, { from, position: 0 }, async (given, signal) => {
      const at = ({ from, position }: Given) => ({ instanceId: instance, sequence: position > 0 ? from - 1 : 0, position });
      const wire = at(given);
      const [kept, position, isDeleted] = await this.#handle.value("followed", wire, undefined, { signal });
      const changes: FollowedEvent[] = [];
      let next = given;
      if (kept < wire.sequence) {
        changes.push({ eventType: "truncated", instanceId: instance, sequenceNumber: kept });
        next = { from: kept + 1, position };
      }
      const { events } = await this.#contexts.eventPage(instance, next.from, signal);
      const last = events.at(-1);
      if (last !== undefined && next.position > 0) {
        // What was given may have been truncated before the page was read, whose events are others at sequences behind it then.
        const [still] = await this.#handle.value("followed", at(next), undefined, { signal });
        if (still < next.from - 1) return { items: changes, next };
      }
      if (last !== undefined) next = { from: last.sequenceNumber + 1, position: last.position };
      const isEnd = isDeleted && last === undefined;
      if (isEnd) changes.push({ eventType: "deleted", instanceId: instance, sequenceNumber: next.from - 1 });
      return { items: [...changes, ...events], next, isEnd };
    }, { context: instance });
  }

  /** The last sequence of the context, 0 when it is empty. */
  async getLastSequence(): Promise<number> {
    return await this.#contexts.lastSequence(this.instanceId);
  }

  /**
   * Copies the context, up to a sequence, to another instance whose context is empty; says how many events that were.
   *
   * @throws {@link RunlogError} as {@link Contexts.copyEvents}.
   */
  async copyToNewInstance(targetInstanceId: string, upToSequence?: number): Promise<number> {
    return await this.#contexts.copyEvents(this.instanceId, targetInstanceId, upToSequence);
  }

  /**
   * Deletes the events after a sequence, and says how many they were.
   *
   * @throws {@link RunlogError} `invalid_input` when the context ends before the sequence.
   */
  async truncateAfterSequence(sequence: number): Promise<number> {
    return await this.#contexts.deleteEventsAfter(this.instanceId, sequence);
  }

  /** The tool calls without a result, in the order they were made. */
  async danglingToolCalls(): Promise<DanglingToolCall[]> {
    return await this.#handle.value("danglingToolCalls", { instanceId: this.instanceId });
  }

  /**
   * Appends an error result for every tool call without one, so that no provider refuses the context; says which calls
   * they were.
   *
   * @throws {@link RunlogError} `conflict` when the context changed meanwhile.
   */
  async closeDanglingToolCalls(reason: string): Promise<DanglingToolCall[]> {
    return await this.#handle.value("closeDanglingToolCalls", { instanceId: this.instanceId, reason });
  }
}
