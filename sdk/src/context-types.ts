import type { ContextEventHead, ContextEventType, EventHeads, Role, ToolMark } from "./generated/types.js";
import { showsItsJson } from "./inspect.js";
import { type RawJson, parseBytes, textOf } from "./json.js";
import { inPieces, parseList } from "./long-lists.js";
import { splitContents, unpackContents } from "./packed.js";

/**
 * Who a message is from, in the providers' own words: `developer` is read as `system`, `function` as `tool`, and `model`, Gemini's, as
 * `assistant`.
 */
export type MessageRole = Role | "developer" | "function" | "model";

// In this order: of a role that is misspelt, the compiler says what a message lacks, not what an item does.
/**
 * A message as a provider writes it, in the form of any that docs/model.md lists. An object is kept as `JSON.stringify` writes it; a
 * {@link RawJson}, or JSON in UTF-8, byte for byte. One whose role isn't known when it is compiled goes through
 * {@link RawJson.from}.
 */
export type MessageInput = RawJson | Uint8Array | ResponseItem | MessageObject | Pick<MessageObject, "role">;

/** An item of OpenAI's Responses that has no role. */
export interface ResponseItem {
  /** What it is: a call or its result, what the model thought, or what a tool of the provider's own did. */
  type:
    | "function_call"
    | "function_call_output"
    | "custom_tool_call"
    | "custom_tool_call_output"
    | "reasoning"
    | "web_search_call"
    | "file_search_call"
    | "code_interpreter_call"
    | "image_generation_call"
    | "mcp_list_tools"
    | "mcp_call"
    | "mcp_approval_request"
    | "mcp_approval_response"
    | "compaction";
  /** Whatever else it has: `call_id`, `name`, `arguments`, `output`, … */
  [field: string]: unknown;
}

/** A message as an object, in its provider's form. */
export interface MessageObject {
  /** Who it is from. */
  role: MessageRole;
  /** What it says: text, or an array of content parts. */
  content?: unknown;
  /** Whatever else the provider's form has: `tool_calls`, `tool_call_id`, `name`, … */
  [field: string]: unknown;
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
export type ContextChange = ContextTruncated | ContextDeleted;

/** Events of a context that is followed were truncated. */
export interface ContextTruncated {
  /** The events after {@link sequenceNumber} are gone, and what comes next has their sequences. */
  eventType: "truncated";
  /** The agent instance whose context it is. */
  instanceId: string;
  /** The last sequence that is left of what was given. */
  sequenceNumber: number;
}

/** The session of a context that is followed was deleted. */
export interface ContextDeleted {
  /** Nothing comes any more. */
  eventType: "deleted";
  /** The agent instance whose context it is. */
  instanceId: string;
  /** The last sequence that is left of what was given. */
  sequenceNumber: number;
}

/** What {@link Context.follow} gives: an event, or what became of those it gave before. */
export type FollowedEvent = ContextEvent | ContextChange;

/** One immutable entry of an agent's context. Its content is looked at when it is asked for. */
export class ContextEvent {
  /** Its id: its position in the log, unique and kept for ever. */
  readonly position: number;
  /** The agent instance whose context it is in. */
  readonly instanceId: string;
  /** Its sequence in the context: 1, 2, 3, … without holes. */
  readonly sequenceNumber: number;
  /** What it is. */
  readonly eventType: ContextEventType;
  /** The tool call it is, or the (first) one it answers. */
  readonly toolCallId: string | undefined;
  /** The tool calls that it answers, in order. */
  readonly toolResults: ToolMark[];
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
  constructor(instanceId: string, head: ContextEventHead, bytes: Uint8Array) {
    this.position = head.position;
    this.instanceId = instanceId;
    this.sequenceNumber = head.sequenceNumber;
    this.eventType = head.eventType;
    this.toolCallId = head.toolCallId;
    this.toolResults = head.toolResults ?? [];
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

/** A page of events. @internal */
export function unpackEvents(bytes: Uint8Array): { events: ContextEvent[]; next: number | undefined } {
  const { heads, take } = unpackContents<EventHeads>(bytes);
  return { events: heads.events.map((head) => new ContextEvent(heads.instance, head, take(head.length))), next: heads.next };
}

/** Messages, each with its content. Many are read in pieces, between which the event loop goes on. @internal */
export async function unpackMessages(bytes: Uint8Array): Promise<Message[]> {
  const { heads, take } = splitContents(bytes);
  const list = await parseList<[sequence: number, role: Role, length: number]>(heads);
  return await inPieces(list, () => 0, ([sequence, role, length]) => new Message(sequence, role, take(length)));
}
