// Transcripts of other tools: Claude Code's lines, OpenAI-style chats and items, Gemini's contents, SWE-agent's trajectories.

import { RawJson, type Store } from "runlog";

import { isObject, oneLine, saidBy } from "./content.js";
import { exactDigits, parseExactOrNone, writeExact } from "./exact.js";

type Json = Record<string, unknown>;

/** Whether the beginning of a file looks like a transcript. */
export function isTranscript(name: string, head: string): boolean {
  return /\.(jsonl|ndjson|json|traj)$/i.test(name) || /^\s*[[{]/.test(head);
}

interface Spoken {
  message: Json;
  atMs: number | undefined;
}

/** Puts the conversations of a file into a store, a session each: how many they were, and what of the file isn't among them, for people. */
export async function transcriptInto(store: Store, name: string, text: string): Promise<{ made: number; leftOut: string[] }> {
  const reading = new Reading(name, text);
  let made = 0;
  for (const { title, spoken } of reading.conversations()) {
    if (spoken.length === 0) continue;
    const first = spoken.find((one) => one.atMs !== undefined)?.atMs;
    const { instance } = await store.startSession({ title: titleOf(spoken) ?? title, ...(first !== undefined && { createdAtMs: first }) }, "agent");
    const context = await store.context(instance.id);
    for (const { message, atMs } of spoken) {
      const options = atMs === undefined ? {} : { event: { createdAtMs: atMs } };
      const given = writeExact(message, 0) ?? "";
      try {
        await context.appendMessage(RawJson.parse(given), options);
      } catch {
        // What isn't well-formed in it, or answers no call, is no reason to show nothing.
        const whole = wellFormed(given);
        await context.appendMessage(RawJson.parse(whole), options).catch(() => context.appendMessage(asText(message, whole), options));
      }
    }
    made += 1;
  }
  return { made, leftOut: reading.leftOut() };
}

/** The beginning of what the user said first. */
function titleOf(spoken: Spoken[]): string | undefined {
  const first = spoken.find(({ message }) => message["role"] === "user");
  const text = first === undefined ? "" : oneLine(saidBy(first.message).text).toWellFormed();
  return text === "" ? undefined : text.length > 80 ? `${text.slice(0, 79).trimEnd()}…` : text;
}

/** JSON with the sign for what can't be shown instead of each half of a surrogate pair, which is written as an escape. */
function wellFormed(json: string): string {
  return json.replaceAll(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (found) => (found === "\\\\" ? found : "\ufffd"));
}

/** A message that is refused, as text of whoever said it. */
function asText(message: Json, json: string): { role: "system" | "assistant" | "user"; content: string } {
  const { role, content } = message;
  const isPlain = typeof content === "string" && Object.keys(message).length === 2;
  const speaker = role === "assistant" || role === "model" || role === undefined ? "assistant" : role === "system" || role === "developer" ? "system" : "user";
  return { role: speaker, content: isPlain ? content.toWellFormed() : json };
}

interface Conversation {
  title: string;
  spoken: Spoken[];
}

/** Of what is left out so many places are named. */
const PLACES_MAX = 5;

/** A file while it is read. */
class Reading {
  /** The numbers of what is no JSON, and of what is, but no message. */
  readonly #broken: number[] = [];
  readonly #strange: number[] = [];
  readonly #sessions = new Map<string, Conversation>();
  readonly #chats: Conversation[] = [];
  /** What is numbered: lines, or what a list has. */
  #unit = "line";

  constructor(
    private readonly name: string,
    private readonly text: string,
  ) {}

  conversations(): Conversation[] {
    const whole = parseExactOrNone(this.text);
    if (Array.isArray(whole)) {
      this.#unit = "entry";
      whole.forEach((value, at) => this.#take(value, at + 1));
    } else if (whole !== undefined) this.#take(whole, 1);
    else {
      this.text.split("\n").forEach((line, at) => {
        if (line.trim() === "") return;
        const value = parseExactOrNone(line);
        if (value === undefined) this.#broken.push(at + 1);
        else this.#take(value, at + 1);
      });
    }
    return [...this.#sessions.values(), ...this.#chats];
  }

  /** What of the file isn't shown, for people. */
  leftOut(): string[] {
    const notes = (numbers: number[], what: string, whats: string) => {
      if (numbers.length === 0) return [];
      const units = numbers.length === 1 ? this.#unit : this.#unit === "line" ? "lines" : "entries";
      const more = numbers.length > PLACES_MAX ? ` and ${numbers.length - PLACES_MAX} more` : "";
      return [`Of “${this.name}” ${units} ${numbers.slice(0, PLACES_MAX).join(", ")}${more} ${numbers.length === 1 ? what : whats}.`];
    };
    return [...notes(this.#broken, "is no JSON, or breaks off, and isn't shown", "are no JSON, or break off, and aren't shown"), ...notes(this.#strange, "has what is no message, which isn't shown", "have what is no message, which isn't shown")];
  }

  /** Takes in a line, an entry of a list, or all that a file has: a message, or a chat of several. */
  #take(value: unknown, number: number): void {
    if (isMessage(value)) this.#sessionOf(this.name, this.name).spoken.push({ message: plain(value), atMs: undefined });
    else if (isObject(value) && isMessage(value["message"])) this.#addEnveloped(value, value["message"]);
    else if (messagesOf(value) !== undefined) this.#addChat(value, number);
    // Notes of a tool's own, such as Claude Code's summaries.
    else if (!isObject(value) || typeof value["type"] !== "string" || isObject(value["message"]) || typeof value["role"] === "string") this.#strange.push(number);
  }

  #addChat(value: unknown, number: number): void {
    const all = messagesOf(value) ?? [];
    const messages = all.filter(isMessage);
    if (messages.length < all.length) this.#strange.push(number);
    const { task_id: task, title, id } = isObject(value) ? value : ({} as Json);
    const own = task ?? title ?? id;
    const digits = exactDigits(own) ?? (typeof own === "number" ? own : undefined);
    const numbered = number === 1 ? this.name : `${this.name} ${number}`;
    this.#chats.push({
      title: typeof own === "string" ? own : digits !== undefined ? `${this.name} (${digits})` : numbered,
      spoken: messages.map((message) => ({ message: plain(message), atMs: undefined })),
    });
  }

  /** A line with a message, and with the session and the time of it, as Claude Code's. */
  #addEnveloped(line: Json, message: Json): void {
    const session = typeof line["sessionId"] === "string" ? line["sessionId"] : this.name;
    const at = typeof line["timestamp"] === "string" ? Date.parse(line["timestamp"]) : Number.NaN;
    this.#sessionOf(session, `${this.name} ${session}`).spoken.push({ message, atMs: Number.isNaN(at) ? undefined : at });
  }

  #sessionOf(key: string, title: string): Conversation {
    let session = this.#sessions.get(key);
    if (session === undefined) this.#sessions.set(key, (session = { title, spoken: [] }));
    return session;
  }
}

/** The messages of a chat: a list of them, or one with what belongs to it. */
function messagesOf(value: unknown): unknown[] | undefined {
  if (Array.isArray(value)) return value;
  if (!isObject(value)) return undefined;
  return ["history", "messages", "traj", "contents"].map((field) => value[field]).find((messages) => Array.isArray(messages));
}

/** Leaves out what only the tool that wrote it knows, and would make a message refused. */
function plain(message: Json): Json {
  const { tool_calls: calls, ...rest } = message;
  return calls === null || calls === undefined ? rest : { ...rest, tool_calls: calls };
}

const ROLES = new Set(["system", "user", "assistant", "tool", "developer", "function", "model"]);
/** Items of OpenAI's Responses that have no role. */
const ITEMS = new Set([
  "function_call",
  "function_call_output",
  "custom_tool_call",
  "custom_tool_call_output",
  "reasoning",
  "web_search_call",
  "file_search_call",
  "code_interpreter_call",
  "image_generation_call",
  "mcp_list_tools",
  "mcp_call",
  "mcp_approval_request",
  "mcp_approval_response",
  "compaction",
]);

function isMessage(value: unknown): value is Json {
  if (!isObject(value)) return false;
  const { role, type } = value;
  return typeof role === "string" ? ROLES.has(role) : role === undefined && typeof type === "string" && ITEMS.has(type);
}
