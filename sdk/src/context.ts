import type { Handle } from "./handle.js";
import { bytesOf, valueOf } from "./binding.js";
import { objectOf, optionsOf } from "./checks.js";
import { showsItsJson } from "./inspect.js";
import { type RawJson, jsonBytes, messageBytes, messageList, parseBytes, textOf } from "./json.js";
import { namesOf, renamed, withoutNulls } from "./names.js";
import type { Durability } from "./batch.js";
import { unpackContents } from "./packed.js";
import { Pages } from "./pages.js";
import { follow } from "./follow.js";

/** What a context event is. */
export type ContextEventType = "system_message" | "user_message" | "assistant_message" | "tool_call" | "tool_result";

/** Who a message is from. `tool` for every message with tool results, whatever role its JSON names. */
export type Role = "system" | "user" | "assistant" | "tool";

/** Who a message is from, in the providers' own words: `developer` is read as `system`, `function` as `tool`. */
export type MessageRole = Role | "developer" | "function";

/**
 * A message as a provider writes it: OpenAI's form or Anthropic's. An object is kept as `JSON.stringify` writes it; a
 * {@link RawJson}, or JSON in UTF-8, byte for byte. One whose role isn't known when it is compiled goes through
 * {@link RawJson.from}.
 */
export type MessageInput = RawJson | Uint8Array | MessageObject | Pick<MessageObject, "role">;

/** A message as an object, in OpenAI's form or Anthropic's. */
export interface MessageObject {
  /** Who it is from. */
  role: MessageRole;
  /** What it says: text, or an array of content parts. */
  content?: unknown;
  /** Whatever else the provider's form has: `tool_calls`, `tool_call_id`, `name`, … */
  [field: string]: unknown;
}

/** One result of a tool call, as far as its event tells beside the content. */
export interface ToolResultMark {
  /** The call it answers; providers that give calls no id have none. */
  toolCallId?: string;
  /** Whether the tool failed. */
  isError: boolean;
  /** How long the tool itself took, in milliseconds of wall clock. */
  durationMs?: number;
}

/** What an event says beside its content. */
export interface EventOptions {
  /** The run it belongs to. */
  runId?: string | undefined;
  /** The step of the run. */
  stepNumber?: number | undefined;
  /** When it happened, where that isn't now: milliseconds since 1970-01-01 UTC. */
  createdAtMs?: number | undefined;
  /** Whether the tool failed, for a tool result whose message doesn't say. */
  toolIsError?: boolean | undefined;
  /** How long the tool itself took, for a tool result. */
  toolDurationMs?: number | undefined;
}

/** What an append to a context asks for beside its content. */
export interface AppendOptions {
  /** The last sequence that the context must have, 0 for an empty one; anything else is a `conflict`. */
  expectedLastSequence?: number | undefined;
  /** A key of 1 to 255 bytes: the same key again in this context returns the first result, and appends nothing. */
  idempotencyKey?: string | undefined;
  /** How durable it is when acknowledged; left out, the store's own setting. */
  durability?: Durability | undefined;
  /** What the events say beside their content. */
  event?: EventOptions | undefined;
}

/** What an append to a context became. */
export interface AppendResult {
  /** The sequence of the first event: that of the message, with its tool_call events after it. */
  firstSequence: number;
  /** The context's last sequence after it. */
  lastSequence: number;
  /** The position of the first event. */
  position: number;
  /** Whether the same key had been used before, so that nothing was appended now. */
  repeated: boolean;
  /**
   * Of a repeat: whether the context was truncated since, so that what was written then is not in it any more. Its sequences
   * may be those of other events by now.
   */
  truncated: boolean;
}

/** A tool call without a result: the process died, or stopped, between the two. */
export interface DanglingToolCall {
  /** The call's id; providers that give none have none. */
  id?: string;
  /** The tool. */
  name: string;
  /** The arguments as the provider wrote them. */
  arguments: unknown;
  /** The sequence of the event that tells of the call. */
  sequenceNumber: number;
  /** How the provider writes tool calls, and so how it wants the result. */
  style: "openai" | "anthropic" | "function" | "ai_sdk" | "ai_sdk_4";
}

/** A message of a context, exactly as it was sent to the model. */
export class Message {
  /** The sequence of its event. */
  readonly sequenceNumber: number;
  /** Who it is from. */
  readonly role: Role;
  readonly #bytes: Uint8Array;

  /** @internal */
  constructor(sequenceNumber: number, role: Role, bytes: Uint8Array) {
    this.sequenceNumber = sequenceNumber;
    this.role = role;
    this.#bytes = bytes;
  }

  /** The message as text, byte for byte. */
  get json(): string {
    return textOf(this.#bytes);
  }

  /** The bytes of the message. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

  /** The message as a value. */
  value<T = unknown>(): T {
    return parseBytes<T>(this.#bytes);
  }

  /** The message with its place, for `JSON.stringify`. */
  toJSON(): object {
    return { sequenceNumber: this.sequenceNumber, role: this.role, message: this.value() };
  }
}

/** What became of a context that is followed, beside new events. */
export interface ContextChange {
  /**
   * `truncated`: the events after {@link sequenceNumber} are gone, and what comes next has their sequences. `deleted`: the
   * session was deleted, and nothing comes any more.
   */
  eventType: "truncated" | "deleted";
  /** The agent instance whose context it is. */
  instanceId: string;
  /** The last sequence that is left of what was given. */
  sequenceNumber: number;
}

/** What {@link Context.follow} gives: an event, or what became of those it gave before. */
export type FollowedEvent = ContextEvent | ContextChange;

/** Where a follower stands: the next sequence, and the position of the event before it, 0 where it was given none. */
interface Given {
  from: number;
  position: number;
}

/** What an event tells beside its content, as it comes. */
interface EventHead {
  position: number;
  sequenceNumber: number;
  eventType: ContextEventType;
  toolCallId?: string;
  toolResults?: object[];
  runId?: string;
  stepNumber?: number;
  createdAtMs: number;
  redacted?: boolean;
  isContinuation?: boolean;
  length: number;
}

const MARK = namesOf(["tool_call_id", "is_error", "duration_ms"]);
const DANGLING = namesOf(["sequence_number"]);
const RESULT = namesOf(["first_sequence", "last_sequence"]);

/** One immutable entry of an agent's context. Its content is looked at when it is asked for. */
export class ContextEvent {
  /** Its id: its place in the whole log, unique and kept for ever. */
  readonly position: number;
  /** The agent instance whose context it is in. */
  readonly instanceId: string;
  /** Its place in the context: 1, 2, 3, … without holes. */
  readonly sequenceNumber: number;
  /** What it is. */
  readonly eventType: ContextEventType;
  /** The tool call it is, or the (first) one it answers. */
  readonly toolCallId: string | undefined;
  /** The tool calls that it answers, in order. */
  readonly toolResults: ToolResultMark[];
  /** The run it belongs to. */
  readonly runId: string | undefined;
  /** The step of the run. */
  readonly stepNumber: number | undefined;
  /** When it happened: milliseconds since 1970-01-01 UTC. */
  readonly createdAtMs: number;
  /** Whether its content was taken out of the store. */
  readonly redacted: boolean;
  /** Whether a resume added it to tell the agent to go on: nobody said it, so that a user isn't shown it as their words. */
  readonly isContinuation: boolean;
  readonly #bytes: Uint8Array;

  /** @internal */
  constructor(instanceId: string, head: EventHead, bytes: Uint8Array) {
    this.position = head.position;
    this.instanceId = instanceId;
    this.sequenceNumber = head.sequenceNumber;
    this.eventType = head.eventType;
    this.toolCallId = head.toolCallId;
    const marks = head.toolResults ?? [];
    this.toolResults = marks.map((mark) => withoutNulls(renamed(mark, MARK.here)) as unknown as ToolResultMark);
    this.runId = head.runId;
    this.stepNumber = head.stepNumber;
    this.createdAtMs = head.createdAtMs;
    this.redacted = head.redacted ?? false;
    this.isContinuation = head.isContinuation ?? false;
    this.#bytes = bytes;
  }

  /** The content as text, byte for byte; `null` when it was redacted. */
  get json(): string {
    return textOf(this.#bytes);
  }

  /** The bytes of the content. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

  /** The content as a value. */
  content<T = unknown>(): T {
    return parseBytes<T>(this.#bytes);
  }

  /** The event with its content, for `JSON.stringify`. */
  toJSON(): object {
    return { ...this, content: this.content() };
  }
}

showsItsJson(Message, ContextEvent);

/** A page of events, as it comes. */
interface EventPage {
  instance: string;
  events: EventHead[];
  next: number | null;
}

function unpackEvents(bytes: Uint8Array): { events: ContextEvent[]; next: number | null } {
  const { heads, take } = unpackContents<EventPage>(bytes);
  return { events: heads.events.map((head) => new ContextEvent(heads.instance, head, take(head.length))), next: heads.next };
}

/** Messages, as they come with their contents beside them. @internal */
export function unpackMessages(bytes: Uint8Array): Message[] {
  const { heads, take } = unpackContents<[sequence: number, role: Role, length: number][]>(bytes);
  return heads.map(([sequence, role, length]) => new Message(sequence, role, take(length)));
}

/** A call without a result, as the core tells it. @internal */
export function danglingOf(wire: object): DanglingToolCall {
  const { id, ...call } = renamed(wire, DANGLING.here);
  return { ...call, ...(id !== null && { id }) } as unknown as DanglingToolCall;
}

/** The contexts of a store, by instance id. {@link Context} has the same for one instance. Got from {@link Store.contexts}. */
export class Contexts {
  readonly #handle: Handle;

  /** @internal */
  constructor(handle: Handle) {
    this.#handle = handle;
  }

  /**
   * Appends one event. Durable when it resolves. `toolCallId` names the call that a tool_result answers, where its
   * content doesn't.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance, or its session was deleted; `invalid_input`
   * when content, type and tool call id don't fit each other; `conflict`.
   */
  async appendEvent(
    instanceId: string,
    eventType: ContextEventType,
    content: RawJson | Uint8Array | object,
    options: AppendOptions & { toolCallId?: string | undefined } = {},
  ): Promise<ContextEvent> {
    const { toolCallId, ...rest } = objectOf(options, "what is asked for beside it");
    const args = { instance: instanceId, eventType, toolCallId, options: rest };
    const bytes = bytesOf(await this.#handle.call("appendEvent", args, jsonBytes(content)));
    return unpackEvents(bytes).events[0] as ContextEvent;
  }

  /**
   * The events of a context from a sequence on; 0 and 1 are all of them.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance.
   */
  async getEvents(instanceId: string, fromSequence = 0): Promise<ContextEvent[]> {
    return this.events(instanceId, { from: fromSequence }).toArray();
  }

  /**
   * The events of a context from a sequence on, a page at a time.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance, at the first read.
   */
  events(instanceId: string, options: { from?: number | undefined; signal?: AbortSignal | undefined } = {}): Pages<ContextEvent> {
    const { from = 0, signal } = optionsOf(options, ["from", "signal"]);
    return new Pages(() => this.#eventPages(instanceId, from, signal));
  }

  async *#eventPages(instance: string, first: number, signal: AbortSignal | undefined) {
    let from: number | null = first;
    while (from !== null) {
      const page: ReturnType<typeof unpackEvents> = await this.eventPage(instance, from, signal);
      if (page.events.length > 0) yield page.events;
      from = page.next;
    }
  }

  /** One page of events. @internal */
  async eventPage(instance: string, from: number, signal?: AbortSignal): Promise<{ events: ContextEvent[]; next: number | null }> {
    return unpackEvents(await this.#handle.bytes("events", { instance, from }, undefined, { signal }));
  }

  /**
   * The event at a sequence of a context; `undefined` when the context doesn't reach it.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance.
   */
  async event(instanceId: string, sequence: number): Promise<ContextEvent | undefined> {
    return unpackEvents(await this.#handle.bytes("event", { instance: instanceId, sequence })).events[0];
  }

  /**
   * The last sequence of a context, 0 when it is empty.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance.
   */
  async lastSequence(instanceId: string): Promise<number> {
    return this.#handle.value("getLastSequence", { instance: instanceId });
  }

  /**
   * Deletes the events after a sequence, and says how many they were. Forks keep what they share. Durable when it
   * resolves.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance; `invalid_input` when the context ends
   * before the sequence.
   */
  async deleteEventsAfter(instanceId: string, sequence: number): Promise<number> {
    return this.#handle.value("deleteEventsAfter", { instance: instanceId, sequence });
  }

  /**
   * Copies the events of one context, up to a sequence, to another one that is empty, and says how many they were. To an
   * instance that never had an event this is a fork: no bytes are copied, however many events. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when either instance isn't there; `already_exists` when the target has
   * events; `invalid_input` when the source ends before the sequence. Nothing is copied then.
   */
  async copyEvents(sourceInstanceId: string, targetInstanceId: string, upToSequence?: number): Promise<number> {
    return this.#handle.value("copyEvents", { source: sourceInstanceId, target: targetInstanceId, upToSequence });
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
  readonly #handle: Handle;
  readonly #contexts: Contexts;
  /** The arguments of an append without options. */
  readonly #appendArguments: string;

  /** @internal */
  constructor(handle: Handle, contexts: Contexts, instanceId: string) {
    this.#handle = handle;
    this.#contexts = contexts;
    this.instanceId = instanceId;
    this.#appendArguments = JSON.stringify({ instance: instanceId });
  }

  /**
   * Appends a message: one event for it and one for each tool call it asks for, all or none. Role, tool calls and tool
   * results are read out of it, in OpenAI's form or Anthropic's. Durable when it resolves.
   *
   * @throws {@link RunlogError} `invalid_input` when it isn't an object with a known role, or a tool call in it can't be
   * read; `not_found` when the session was deleted; `conflict` when the last sequence isn't the expected one.
   */
  async appendMessage(message: MessageInput, options?: AppendOptions): Promise<AppendResult> {
    const data = messageBytes(message);
    const reply = await (options === undefined
      ? this.#handle.callText("appendMessage", this.#appendArguments, data)
      : this.#handle.call("appendMessage", { instance: this.instanceId, options }, data));
    return appendResultOf(valueOf<object>(reply));
  }

  /**
   * Appends several messages, all or none of them: one flush for a whole conversation. Durable when it resolves.
   *
   * @throws {@link RunlogError} as {@link appendMessage}, for any of them.
   */
  async appendMessages(messages: readonly MessageInput[], options: AppendOptions = {}): Promise<AppendResult> {
    const { event, ...rest } = objectOf(options, "what is asked for beside it");
    const { lengths, data } = messageList(messages);
    const args = { instance: this.instanceId, options: rest, messages: lengths.map((length) => ({ length, event })) };
    return appendResultOf(await this.#handle.value<object>("appendMessages", args, data));
  }

  /** Appends one event. As {@link Contexts.appendEvent}. */
  async appendEvent(
    eventType: ContextEventType,
    content: RawJson | Uint8Array | object,
    options: AppendOptions & { toolCallId?: string | undefined } = {},
  ): Promise<ContextEvent> {
    return this.#contexts.appendEvent(this.instanceId, eventType, content, options);
  }

  /**
   * The messages of the context: what was sent to the model, in order, as values to be sent again. Numbers are
   * JavaScript's; {@link getRawMessages} has the bytes.
   */
  async getMessages<T = Record<string, unknown>>(): Promise<T[]> {
    return this.replayFromSequence<T>(0);
  }

  /** The messages from a sequence on, as values; a sequence beyond the end is none. */
  async replayFromSequence<T = Record<string, unknown>>(sequence: number): Promise<T[]> {
    return parseBytes<T[]>(await this.#handle.bytes("getMessages", { instance: this.instanceId, from: sequence }));
  }

  /** The messages from a sequence on, each byte for byte. */
  async getRawMessages(fromSequence = 0): Promise<Message[]> {
    return unpackMessages(await this.#handle.bytes("getRawMessages", { instance: this.instanceId, from: fromSequence }));
  }

  /** The events from a sequence on; 0 and 1 are all of them. All are held in memory; {@link events} holds a page. */
  async getEvents(fromSequence = 0): Promise<ContextEvent[]> {
    return this.#contexts.getEvents(this.instanceId, fromSequence);
  }

  /** The events from a sequence on, a page at a time. */
  events(options: { from?: number | undefined; signal?: AbortSignal | undefined } = {}): Pages<ContextEvent> {
    return this.#contexts.events(this.instanceId, options);
  }

  /** The event at a sequence; `undefined` when the context doesn't reach it. */
  async event(sequence: number): Promise<ContextEvent | undefined> {
    return this.#contexts.event(this.instanceId, sequence);
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
      const wire = { instance, sequence: given.position > 0 ? given.from - 1 : 0, position: given.position };
      type Followed = [kept: number, position: number, isDeleted: boolean];
      const [kept, position, isDeleted] = await this.#handle.value<Followed>("followed", wire, undefined, { signal });
      const changes: FollowedEvent[] = [];
      let next = given;
      if (kept < wire.sequence) {
        changes.push({ eventType: "truncated", instanceId: instance, sequenceNumber: kept });
        next = { from: kept + 1, position };
      }
      const { events } = await this.#contexts.eventPage(instance, next.from, signal);
      const last = events.at(-1);
      if (last !== undefined) next = { from: last.sequenceNumber + 1, position: last.position };
      const isEnd = isDeleted && last === undefined;
      if (isEnd) changes.push({ eventType: "deleted", instanceId: instance, sequenceNumber: next.from - 1 });
      return { items: [...changes, ...events], next, isEnd };
    });
  }

  /** The last sequence of the context, 0 when it is empty. */
  async getLastSequence(): Promise<number> {
    return this.#contexts.lastSequence(this.instanceId);
  }

  /**
   * Copies the context, up to a sequence, to another instance whose context is empty; says how many events that were.
   *
   * @throws {@link RunlogError} as {@link Contexts.copyEvents}.
   */
  async copyToNewInstance(targetInstanceId: string, upToSequence?: number): Promise<number> {
    return this.#contexts.copyEvents(this.instanceId, targetInstanceId, upToSequence);
  }

  /**
   * Deletes the events after a sequence, and says how many they were.
   *
   * @throws {@link RunlogError} `invalid_input` when the context ends before the sequence.
   */
  async truncateAfterSequence(sequence: number): Promise<number> {
    return this.#contexts.deleteEventsAfter(this.instanceId, sequence);
  }

  /** The tool calls without a result, in the order they were made. */
  async danglingToolCalls(): Promise<DanglingToolCall[]> {
    const calls = await this.#handle.value<object[]>("danglingToolCalls", { instance: this.instanceId });
    return calls.map(danglingOf);
  }

  /**
   * Appends an error result for every tool call without one, so that no provider refuses the context; says which calls
   * they were.
   *
   * @throws {@link RunlogError} `conflict` when the context changed meanwhile.
   */
  async closeDanglingToolCalls(reason: string): Promise<DanglingToolCall[]> {
    const args = { instance: this.instanceId, reason };
    return (await this.#handle.value<object[]>("closeDanglingToolCalls", args)).map(danglingOf);
  }
}

function appendResultOf(wire: object): AppendResult {
  return renamed(wire, RESULT.here) as unknown as AppendResult;
}
