// Transcripts of other tools: Claude Code's lines, OpenAI-style chats, SWE-agent's trajectories. What isn't a message is left out.

import { RawJson, type Store } from "runlog";

import { oneLine, saidBy } from "./content.js";
import { exactDigits, parseExact, writeExact } from "./exact.js";

type Json = Record<string, unknown>;

/** Whether the beginning of a file looks like a transcript. */
export function isTranscript(name: string, head: string): boolean {
  return /\.(jsonl|ndjson|json|traj)$/i.test(name) || /^\s*[[{]/.test(head);
}

interface Spoken {
  message: Json;
  atMs: number | undefined;
}

/** Puts the conversations of a file into a store, a session each; says how many they were. */
export async function transcriptInto(store: Store, name: string, text: string): Promise<number> {
  const conversations = conversationsOf(name, text);
  let made = 0;
  for (const { title, spoken } of conversations) {
    if (spoken.length === 0) continue;
    const first = spoken.find((one) => one.atMs !== undefined)?.atMs;
    const { instance } = await store.startSession({ title: titleOf(spoken) ?? title, ...(first !== undefined && { createdAtMs: first }) }, "agent");
    const context = await store.context(instance.id);
    for (const { message, atMs } of spoken) {
      const options = atMs === undefined ? {} : { event: { createdAtMs: atMs } };
      try {
        await context.appendMessage(RawJson.parse(writeExact(message, 0) ?? ""), options);
      } catch {
        // What isn't well-formed in it, or answers no call, is no reason to show nothing.
        await context.appendMessage({ role: "user", content: wellFormed(message) }, options);
      }
    }
    made += 1;
  }
  return made;
}

/** The beginning of what the user said first. */
function titleOf(spoken: Spoken[]): string | undefined {
  const first = spoken.find(({ message }) => message["role"] === "user");
  const text = first === undefined ? "" : oneLine(saidBy(first.message).text).toWellFormed();
  return text === "" ? undefined : text.length > 80 ? `${text.slice(0, 79).trimEnd()}…` : text;
}

/** A message that is refused, as text: half a surrogate pair becomes the sign for what can't be shown. */
function wellFormed(message: Json): string {
  const { content } = message;
  return (typeof content === "string" ? content : writeExact(message) ?? "").toWellFormed();
}

interface Conversation {
  title: string;
  spoken: Spoken[];
}

function conversationsOf(name: string, text: string): Conversation[] {
  const whole = parsed(text);
  if (Array.isArray(whole)) return [{ title: name, spoken: (whole as unknown[]).filter(isMessage).map((message) => ({ message: plain(message), atMs: undefined })) }];
  if (isObject(whole)) return ofValue(name, whole);
  const conversations: Conversation[] = [];
  const sessions = new Map<string, Conversation>();
  for (const line of text.split("\n")) {
    const value = parsed(line);
    if (!isObject(value)) continue;
    if (isObject(value["message"]) && typeof value["type"] === "string") addClaude(sessions, name, value);
    else if (isMessage(value)) sessionOf(sessions, name, name).spoken.push({ message: plain(value), atMs: undefined });
    else conversations.push(...ofValue(`${name} ${conversations.length + 1}`, value));
  }
  return [...sessions.values(), ...conversations];
}

/** A file, or a line, that is a conversation by itself. */
function ofValue(name: string, value: Json): Conversation[] {
  if (isMessage(value)) return [{ title: name, spoken: [{ message: plain(value), atMs: undefined }] }];
  for (const field of ["messages", "history"]) {
    const messages = value[field];
    if (!Array.isArray(messages)) continue;
    const spoken = (messages as unknown[]).filter(isMessage).map((message) => ({ message: plain(message), atMs: undefined }));
    const id = value["task_id"] ?? value["title"] ?? value["id"];
    const number = exactDigits(id) ?? (typeof id === "number" ? id : undefined);
    return [{ title: typeof id === "string" ? id : number !== undefined ? `${name} (${number})` : name, spoken }];
  }
  return [];
}

/** Leaves out what only the tool that wrote it knows, and would make a message refused. */
function plain(message: Json): Json {
  const { tool_calls: calls, ...rest } = message;
  return calls === null || calls === undefined ? rest : { ...rest, tool_calls: calls };
}

function addClaude(sessions: Map<string, Conversation>, name: string, line: Json): void {
  const message = line["message"] as Json;
  if (!isMessage(message)) return;
  const session = typeof line["sessionId"] === "string" ? line["sessionId"] : name;
  const at = typeof line["timestamp"] === "string" ? Date.parse(line["timestamp"]) : Number.NaN;
  sessionOf(sessions, session, `${name} ${session}`).spoken.push({ message, atMs: Number.isNaN(at) ? undefined : at });
}

function sessionOf(sessions: Map<string, Conversation>, key: string, title: string): Conversation {
  let session = sessions.get(key);
  if (session === undefined) sessions.set(key, (session = { title, spoken: [] }));
  return session;
}

const ROLES = new Set(["system", "user", "assistant", "tool", "developer", "function"]);

function isMessage(value: unknown): value is Json {
  return isObject(value) && typeof value["role"] === "string" && ROLES.has(value["role"]);
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parsed(text: string): unknown {
  try {
    return parseExact(text);
  } catch {
    return undefined;
  }
}
