import type { StoreCalls } from "./generated/calls.js";
import type { AgentInstance, CopiedSession as ToldCopy, CopySession as GivenCopy, Session as ToldSession } from "./generated/types.js";
import type { Sure } from "./updates.js";

/** One conversation or task, with the agent instances that worked on it. */
export type Session = Omit<ToldSession, "chat">;

/** New values for some fields of a session; what is left out stays as it was. */
export type SessionChanges = Omit<StoreCalls["updateSession"]["args"], "id">;

/** How a session is copied. A message or a user that is `undefined` is refused: without it, more would be copied, or for somebody else. */
export interface CopySession extends Sure<GivenCopy, "upToMessage" | "createdBy"> {}

/** A copy of a session. */
export type CopiedSession = Omit<ToldCopy, "session"> & {
  /** The new session. */
  session: Session;
};

/** What {@link Store.startSession} made. */
export interface StartedSession {
  /** The new session. */
  session: Session;
  /** Its root instance, whose context is empty. */
  instance: AgentInstance;
}

/** A session without its fields as a chat, which the chats give. @internal */
export function sessionOf({ chat: _, ...session }: ToldSession): Session {
  return session;
}
