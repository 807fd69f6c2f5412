import { namesOf, renamed } from "./names.js";
import type { RawJson } from "./json.js";

/** One conversation or task, with the agent instances that worked on it. */
export interface Session {
  /** Its id, a UUID. */
  id: string;
  /** Its name elsewhere, such as `claude-code:4f1d…`: unique among the store's sessions. */
  name?: string;
  /** The project it belongs to. */
  project?: string;
  /** Its title, for people. */
  title?: string;
  /** Whether it is in use. */
  status: SessionStatus;
  /** Whatever its source says of it. */
  metadata?: unknown;
  /** The session it was copied from. */
  copiedFrom?: string;
  /** When it was made: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /** When it was last changed: milliseconds since 1970-01-01 UTC. Appending to a context doesn't change it. */
  updatedAtMs: number;
  /** When it was deleted, softly. */
  deletedAtMs?: number;
}

/** Whether a session is in use, or put away; both can be read and written. */
export type SessionStatus = "active" | "archived";

/** A session to make. Everything may be left out. */
export interface NewSession {
  /** Its id, where the caller has one already; else a fresh one. */
  id?: string | undefined;
  /** Its name elsewhere, at most 512 bytes; unique among the store's sessions. */
  name?: string | undefined;
  /** The project it belongs to, at most 256 bytes. */
  project?: string | undefined;
  /** Its title, for people, at most 4 KiB. */
  title?: string | undefined;
  /** Whatever its source says of it, kept as JSON, at most 1 MiB. */
  metadata?: unknown;
  /** When it was made, where that isn't now: milliseconds since 1970-01-01 UTC. */
  createdAtMs?: number | undefined;
}

/** New values for some fields of a session; what is left out stays as it was. An empty title takes the title away. */
export interface SessionChanges {
  /** Its title, at most 4 KiB; an empty one takes the title away. */
  title?: string | undefined;
  /** Whether it is in use. */
  status?: SessionStatus | undefined;
  /** The metadata, replaced as a whole. */
  metadata?: unknown;
}

/** Which sessions to list, and how many. */
export interface ListSessions {
  /** Only sessions of this status. */
  status?: SessionStatus | undefined;
  /** Only sessions of this project. */
  project?: string | undefined;
  /** Whether deleted sessions are listed too. */
  deleted?: boolean | undefined;
  /** At most so many; 50 when left out. */
  limit?: number | undefined;
  /** Where to go on: the `next` of the page before. */
  cursor?: string | undefined;
}

/** Some sessions, newest first. */
export interface SessionPage {
  /** The sessions. */
  sessions: Session[];
  /** The cursor of the next page; `undefined` when this is the last. It stays right while sessions are made. */
  next: string | undefined;
}

/** How much of a session to copy, and what the copy is called. */
export interface CopySession {
  /**
   * The last sequence to copy of the root instance's context; left out, all of it. A message with tool calls is several
   * events ({@link Recorded.lastSequence} is the last of them); calls whose results are beyond it are without one in the
   * copy, for {@link Context.closeDanglingToolCalls}.
   */
  upToSequence?: number | undefined;
  /** The external name of the copy. */
  name?: string | undefined;
  /** The title of the copy; left out, the source's. */
  title?: string | undefined;
}

/** A copy of a session. */
export interface CopiedSession {
  /** The new session. */
  session: Session;
  /** Its instances, each with the one it is a copy of, the root first. */
  instances: CopiedInstance[];
}

/** An instance of a copied session. */
export interface CopiedInstance {
  /** The id of the instance it is a copy of. */
  source: string;
  /** The new instance. */
  instance: AgentInstance;
}

/** What {@link Store.startSession} made. */
export interface StartedSession {
  /** The new session. */
  session: Session;
  /** Its root instance, whose context is empty. */
  instance: AgentInstance;
}

/** One agent at work in a session, with a context of its own. */
export interface AgentInstance {
  /** Its id, and that of the stream its context is kept in. */
  id: string;
  /** The session it works in. */
  sessionId: string;
  /** The agent's name. */
  agentName: string;
  /** The instance that spawned it; a root has none. */
  parentInstanceId?: string;
  /** When it was made: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
}

/** An agent instance to make. */
export interface NewInstance {
  /** The session it works in. */
  sessionId: string;
  /** The agent's name, at most 256 bytes. */
  agentName: string;
  /** The instance that spawned it. */
  parentInstanceId?: string | undefined;
  /** Its id, where the caller has one already; else a fresh one. */
  id?: string | undefined;
  /** When it was made, where that isn't now: milliseconds since 1970-01-01 UTC. */
  createdAtMs?: number | undefined;
}

const SESSION = namesOf(["copied_from", "created_at_ms", "updated_at_ms", "deleted_at_ms"]);
const INSTANCE = namesOf(["session_id", "agent_name", "parent_instance_id", "created_at_ms"]);

/** A session as the core tells it. @internal */
export function sessionOf(wire: object): Session {
  const session = renamed(wire, SESSION.here);
  // What it has as a chat is told by the chats.
  delete session["chat"];
  return session as unknown as Session;
}

/** An instance as the core tells it. @internal */
export function instanceOf(wire: object): AgentInstance {
  return renamed(wire, INSTANCE.here) as unknown as AgentInstance;
}

/** JSON, or a value that is kept as JSON. */
export type JsonInput = RawJson | object | string | number | boolean | null;
