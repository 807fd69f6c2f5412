import type { Durability } from "./batch.js";
import { showsItsJson } from "./inspect.js";
import { type RawJson, parseBytes, textOf } from "./json.js";
import { namesOf, renamed, withoutNulls } from "./names.js";
import { unpackContents } from "./packed.js";

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

/** A page of events, as they come with their contents beside them. @internal */
export function unpackEvents(bytes: Uint8Array): { events: ContextEvent[]; next: number | null } {
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
