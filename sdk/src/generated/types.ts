// Generated from the types of Rust by `cargo xtask generate`. A change here is lost.

import type { ReceivedCommand } from "../flow-types.js";
import type { RunSnapshot } from "../flow-types.js";

/**
 * The definition of an agent: its name in its project, its prompt, its tools, and its limits. Fields that this build
 * doesn't know are kept in `extra`.
 */
export interface AgentDefinition {
  /** When it was defined: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /** The timeout of one of its runs, unless the request sets one; left out, no timeout. */
  defaultTimeoutMs?: number;
  /** What it is good for, for the agents that choose among several. */
  description: string;
  /** The type of its flow, by a name of the caller's: `single` unless given. */
  flowType: string;
  /** The most steps of one of its runs; left out, no limit. */
  maxSteps?: number;
  /** Further configuration for its executor, as JSON: a model, a command. */
  metadata?: unknown;
  /** Its name, unique in its project. */
  name: string;
  /** The project it belongs to; left out for no project. */
  project?: string;
  /** Its system prompt. Not part of lists. */
  systemPrompt?: string;
  /** The names of the tools it may use. */
  tools: string[];
  /** When it was last changed: milliseconds since 1970-01-01 UTC. */
  updatedAtMs: number;
  /** Its intended users. */
  visibility: AgentVisibility;
}

/** One agent at work in a session, with a context of its own. */
export interface AgentInstance {
  /** The agent's name. */
  agentName: string;
  /** When it was made: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /** Its id, and that of the stream its context is kept in. */
  id: InstanceId;
  /** The instance that spawned it; left out for a root. */
  parentInstanceId?: InstanceId;
  /** The session it works in. */
  sessionId: SessionId;
}

/** The part of a definition that other agents see: without its prompt, which would fill their contexts. */
export interface AgentSummary {
  /** What it is good for. */
  description: string;
  /** The type of its flow. */
  flowType: string;
  /** Its name, to spawn it by. */
  name: string;
  /** The names of its tools. */
  tools: string[];
  /** Its intended users. */
  visibility: AgentVisibility;
}

/** The intended users of an agent. Other agents see agents of every visibility. */
export type AgentVisibility = "external" | "project" | "internal";

/** The options of an append. */
export interface AppendOptions {
  /** How durable it is when acknowledged; left out, the store's own setting. */
  durability?: Durability | undefined;
  /** The metadata of the events. */
  event?: EventOptions | undefined;
  /**
   * The last sequence that the context must have, 0 for an empty one; left out takes any. A mismatch is a `conflict`,
   * and nothing is written.
   */
  expectedLastSequence?: number | undefined;
  /** A key of 1 to 255 bytes, unique in this context: the same key again returns the first result, and appends nothing. */
  idempotencyKey?: string | undefined;
}

/** The result of an append. */
export interface AppendResult {
  /** The sequence of the first event: that of the message, with its tool_call events after it. */
  firstSequence: number;
  /** The context's last sequence after the append. */
  lastSequence: number;
  /** The position of the first event. */
  position: number;
  /** Whether the same idempotency key had been used before, so that nothing was appended now. */
  repeated: boolean;
  /**
   * Of a repeat: whether the context was truncated since, so that the events of the first append are not in it any
   * more. Their sequences may be those of other events by now.
   */
  truncated: boolean;
}

/** What an append of records to one stream became. */
export interface Appended {
  firstSequence: number;
  lastPosition: number;
  lastSequence: number;
  position: number;
  repeated: boolean;
  truncated: boolean;
}

/** What a backup did. */
export interface Backup {
  /** The bytes that were copied. */
  bytesCopied: number;
  /** The last position that the backup contains. */
  lastPosition: number;
  /** Segments that were copied. */
  segmentsCopied: number;
  /** Segments that the backup contained already, unchanged. */
  segmentsKept: number;
}

/** How to make a backup. */
export interface BackupOptions {
  /**
   * Whether all bytes of an earlier backup are compared with the store's, damaged files copied again, and the store's
   * own bytes checked. Otherwise a segment's length, header and end are compared, and samples of its records; whatever
   * is copied is checked in any case.
   */
  verify?: boolean | undefined;
}

/**
 * A chat: a conversation as its user sees it.
 *
 * The JSON has exactly these names. Fields that aren't known are kept.
 */
export interface Chat {
  /** The assistant it is with. */
  assistantId: string;
  /** Its id: the session's name, or the session's id where it has no name. Empty for a fresh one. */
  chatId: string;
  /** When it was made: milliseconds since 1970-01-01 UTC; now where it is left out, or is 0. */
  createdAtMs: number;
  /** The user who made it. */
  createdBy?: string;
  /** The store's own number of it, in the order of creation; given by the store. */
  id: number;
  /** When its last message was made: milliseconds since 1970-01-01 UTC; kept by the store. */
  lastMessageAtMs?: number;
  /** Anything else, as JSON. */
  metadata?: unknown;
  /** Its mode. */
  mode: string;
  /** Whether it came with the product. */
  preset: boolean;
  /** Whether all teams see it. */
  public: boolean;
  /** With whom it is shared. */
  share: ChatShare;
  /** Its rank in lists, for display. */
  sort: number;
  /** Whether it is in use. */
  status: SessionStatus;
  /** The team it belongs to. */
  teamId?: string;
  /** The tenant it belongs to. */
  tenantId?: string;
  /** Its title. */
  title?: string;
  /**
   * When it was last changed, of a deleted one when it was deleted: milliseconds since 1970-01-01 UTC; kept by the
   * store.
   */
  updatedAtMs: number;
  /** The user who changed it last. */
  updatedBy?: string;
}

/** What a `Session` has as a chat, beside its own fields. */
export interface ChatFields {
  /** As `Chat.assistantId`. */
  assistantId: string;
  /** As `Chat.createdBy`. */
  createdBy?: string;
  /** As `Chat.extra`. */
  extra?: Record<string, unknown>;
  /** As `Chat.lastMessageAtMs`. */
  lastMessageAtMs?: number;
  /** As `Chat.mode`. */
  mode: string;
  /** The requests that aren't over, the oldest first. */
  openRequests?: OpenRequest[];
  /** As `Chat.preset`. */
  preset: boolean;
  /** As `Chat.public`. */
  public: boolean;
  /** Whether messages may be in another order than that in which they were saved. */
  reordered?: boolean;
  /** As `Chat.share`. */
  share: ChatShare;
  /** As `Chat.sort`. */
  sort: number;
  /** As `Chat.teamId`. */
  teamId?: string;
  /** As `Chat.tenantId`. */
  tenantId?: string;
  /** As `Chat.updatedBy`. */
  updatedBy?: string;
}

/** Which chats to list, and which page of them. */
export interface ChatFilter {
  /** Only chats with this assistant. */
  assistantId?: string | undefined;
  /** Where to continue, instead of a page number: the `next` of the previous page. */
  cursor?: string | undefined;
  /** Chats that were deleted, instead of those that weren't. */
  deleted?: boolean | undefined;
  /** Only chats whose title has all these words, in any case. */
  keywords?: string | undefined;
  /** The order. `last_message` when left out. */
  order?: ChatOrder | undefined;
  /** The page, from 1; 0 is the first. Pages move while chats are made; a cursor doesn't. */
  page?: number | undefined;
  /** How many chats a page has; 0 is 20. */
  pageSize?: number | undefined;
  /** Only chats that are public, or only those that aren't. */
  public?: boolean | undefined;
  /** Sessions too that nothing was saved in as a chat: those of runs, and of imported transcripts. */
  sessions?: boolean | undefined;
  /** Only chats that are shared so. */
  share?: ChatShare | undefined;
  /** Only chats of this status. */
  status?: SessionStatus | undefined;
  /** Only chats of this team, shared or not. */
  teamId?: string | undefined;
  /** The teams of the user of `visibleTo`. */
  teams?: readonly string[] | undefined;
  /** Only chats of this tenant. */
  tenantId?: string | undefined;
  /** Only chats that this user made. */
  userId?: string | undefined;
  /**
   * Only chats that this user may see: those that he made, those that are shared with one of his `teams`, and public
   * ones. Together with a tenant, public ones of that tenant only.
   */
  visibleTo?: string | undefined;
}

/** One page of chats. */
export interface ChatList {
  /** The chats. */
  items: Chat[];
  /**
   * The cursor of the next page; left out on the last page. It fits the same list with the same filters only, and no
   * chat comes twice that stays where it is in the order; one that gets a message meanwhile is at the top again.
   */
  next?: string;
  /** The page, from 1. */
  page: number;
  /** How many pages there are. */
  pagecount: number;
  /** How many chats a page has. */
  pagesize: number;
  /** How many chats the filter admits. */
  total: number;
}

/**
 * A message of a chat, as its user sees it. Its type is open: `text`, `image`, `loading`, `error`, `action`, `file`, or
 * any other.
 */
export interface ChatMessage {
  /** The assistant it is from. */
  assistantId?: string;
  /** The block it is part of. */
  blockId?: string;
  /** The chat it is in; given by the store. */
  chatId: string;
  /** When it was made: milliseconds since 1970-01-01 UTC; now where it is left out, or is 0. */
  createdAtMs: number;
  /** The store's own number of it: its position in the log; given by the store. */
  id: number;
  /** Its id; empty for a fresh one. */
  messageId: string;
  /** Anything else, as JSON. */
  metadata?: unknown;
  /** What it shows, a JSON object kept byte for byte. */
  props: Record<string, unknown>;
  /** The request it belongs to. */
  requestId?: string;
  /** Who it is from. */
  role: ChatRole;
  /** Its sequence in the chat, from 1; 0 for the next one. */
  sequence: number;
  /** The thread it is part of. */
  threadId?: string;
  /** What it is. */
  type: string;
  /** When it was last changed: milliseconds since 1970-01-01 UTC; kept by the store. */
  updatedAtMs: number;
}

/** The order in which chats are listed. */
export type ChatOrder = "last_message" | "created" | "sort";

/** A request of a chat: one message of its user, and its outcome. */
export interface ChatRequest {
  /** The message that it answers, if it was begun for one that was there; otherwise its user's message has its id. */
  answers?: string;
  /** The assistant it is for: the root of its call stack. */
  assistantId: string;
  /** The chat it is in. */
  chatId: string;
  /** When it was begun: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /** Why it failed. */
  error?: string;
  /**
   * Whether the chat has it of the one that it is a copy of, where it was worked on: what it took is counted there.
   * Once it is gone on with in the copy it is that one's own, and has the run, the usage and the metadata that are told
   * of it there.
   */
  isCopied?: boolean;
  /** Anything else, as JSON. */
  metadata?: unknown;
  /**
   * The messages that its answer replaces, if it was begun to, in their order then: they are deleted in the write that
   * has its first message. Told by the first of its records.
   */
  replaces?: string[];
  /** Its id. */
  requestId: string;
  /** The run that does its work. */
  runId?: RunId;
  /** Its status. */
  status: RequestStatus;
  /** When it ended, or was last changed: milliseconds since 1970-01-01 UTC. */
  updatedAtMs: number;
  /** What it took, such as tokens and their cost: a JSON object of the caller's, kept byte for byte. */
  usage?: Record<string, unknown>;
}

/** Who a message of a chat is from. */
export type ChatRole = "user" | "assistant";

/** With whom a chat is shared. */
export type ChatShare = "private" | "team";

/** How the records of a pack are compressed. */
export type Codec = "plain" | "lz4" | "zstd";

/** What a batch became. */
export interface Committed {
  lastPosition: number;
  ops: CommittedOperation[];
  repeated: boolean;
  truncated: boolean;
}

/** What one operation of a batch became. */
export interface CommittedOperation {
  lastSequence: number;
  position: number;
}

/** The options of a compaction. */
export interface CompactOptions {
  /** The maximum number of bytes read and written per second, together; left out for no limit. */
  bytesPerSecond?: number | undefined;
  /** How the live records are compressed. `zstd` when left out. */
  codec?: Codec | undefined;
  /**
   * Only report what it would do: nothing is written, no segment is started, and a store opened for reading is enough,
   * also while another process writes. It doesn't read the records, so it counts a damaged segment, which a compaction
   * leaves unchanged, as one that would be rewritten.
   */
  dryRun?: boolean | undefined;
  /** Which segments are rewritten. `all` when left out. */
  scope?: CompactScope | undefined;
}

/** The progress of a compaction. */
export interface CompactProgress {
  /** The number of bytes rewritten so far. */
  bytesDone: number;
  /** The number of bytes to rewrite in all. */
  bytesTotal: number;
}

/** Which segments are rewritten. */
export type CompactScope = "dead" | "sparse" | "sealed" | "all";

/** What a compaction did, or would do. */
export interface Compaction {
  /** The size of the files that replace them, in bytes. In a dry run the size without compression, so an upper bound. */
  bytesAfter: number;
  /** The size of the rewritten files, in bytes. */
  bytesBefore: number;
  /** How many files replace them. */
  filesAfter: number;
  /** How many files were rewritten. */
  filesBefore: number;
  /** Whether it was cancelled, with some of its work left. */
  isCancelled: boolean;
  /** How many redacted payloads were erased from the disk. */
  payloadsErased: number;
  /** How many records were dropped: data records that no stream contains, and snapshots that no stream can use. */
  recordsDropped: number;
  /** How many of those are damaged in live records; a verification reports where. All others were compacted. */
  segmentsDamaged: number;
  /**
   * How many segments were left unchanged, because a repair made them, a newer build wrote to them, or they are
   * damaged.
   */
  segmentsLeft: number;
}

/** An event without its content. */
export interface ContextEventHead {
  createdAtMs: number;
  eventType: ContextEventType;
  isContinuation?: boolean;
  length: number;
  position: number;
  redacted?: boolean;
  roleImplied?: boolean;
  runId?: RunId;
  sequenceNumber: number;
  stepNumber?: number;
  toolCallId?: string;
  toolResults?: ToolMark[];
}

/** What a context event is. */
export type ContextEventType = "system_message" | "user_message" | "assistant_message" | "tool_call" | "tool_result";

/** A copy of an agent instance. */
export interface CopiedInstance {
  /** The new instance. */
  instance: AgentInstance;
  /** What it is a copy of. */
  source: InstanceId;
}

/** A copy of a session. */
export interface CopiedSession {
  /** Its instances, each with the one it is a copy of, the root first. */
  instances: CopiedInstance[];
  /** The new session. */
  session: Session;
}

/** How much of a session to copy, and what the copy is called. */
export interface CopySession {
  /**
   * Whose the copy of a chat is: made by this user, who alone sees it. Left out leaves it as the source is, also public
   * or shared.
   */
  createdBy?: string | undefined;
  /** The external name of the copy. */
  name?: string | undefined;
  /** The title of the copy; left out takes the source's. */
  title?: string | undefined;
  /**
   * The id of the last message to copy of the session's chat; left out copies all of it. Not together with
   * `up_to_sequence`.
   */
  upToMessage?: string | undefined;
  /** The last sequence to copy of the root instance's context; left out copies all of it. */
  upToSequence?: number | undefined;
}

/** What becomes of tool calls that have no result when a run is resumed, or started in a context that is there. */
export type Dangling = "close" | {
  closeWith: string;
} | {
  answer: readonly ToolOutcome[];
} | "report";

/** A tool call without a result: the process died, or stopped, between the two. */
export interface DanglingToolCall {
  /** The arguments as the provider wrote them. */
  arguments: unknown;
  /** The call's id, left out with the providers that give none. */
  id?: string;
  /** The tool. */
  name: string;
  /** The sequence of the call's event: the tool_call, or the assistant message if a truncation removed the tool_call. */
  sequenceNumber: number;
  /** How the provider writes tool calls, and so how it wants the result. */
  style: ToolStyle;
}

/** A tool as a model is told of it. */
export interface DefinedTool {
  anthropic: unknown;
  definition: ToolDefinition;
  openai: unknown;
}

/** How another assistant is called beside what else goes on. */
export interface DelegateOptions {
  /** The node that calls; when left out, the one at work. */
  from?: string | undefined;
  /** The id of the new node; a fresh one when left out. */
  stackId?: string | undefined;
  /**
   * The step of type `delegate` that waits for it; when left out, the last one that the calling node has begun and that
   * has no node yet.
   */
  stepId?: string | undefined;
}

/** How durable something is when it is acknowledged. */
export type Durability = "sync" | "os" | FlushInterval;

/** Whether an edge was taken. */
export type EdgeStatus = "pending" | "fired" | "skipped";

/** What is to be erased. */
export interface Erase {
  /** The same of these chats, by their ids; also of each that was deleted and had one of them. */
  chats?: readonly string[] | undefined;
  /** Everything that these flows recorded and saved: those of runs, by the ids of these, and those of no run. */
  flows?: readonly RunId[] | undefined;
  /** These messages of chats, by their ids. */
  messages?: readonly string[] | undefined;
  /**
   * The records at these positions of the log; of a version of a chat's message all versions, and of a title or
   * metadata of a session all that it ever had. Other entries of the store's lists, and what says how a run went, are
   * refused: without them what they are of couldn't be found, or read. So are deletions of a chat's messages, which
   * would be there again.
   */
  positions?: readonly number[] | undefined;
  /** Why, for readers that find the records empty. It must not say what was erased. */
  reason?: string | undefined;
  /**
   * Everything that was said in these sessions and about them: contexts, chats, what was kept with them where they were
   * imported, titles and metadata, who made and changed them; of their runs the details, spaces, flows, and how they
   * ended in words.
   */
  sessions?: readonly SessionId[] | undefined;
  /**
   * The same of all chats that these users made, also deleted ones; nothing of a user who made none, or whose chats are
   * erased: what is written to these afterwards is erased by their ids. What a user said in the chats of others isn't
   * told by who made it.
   */
  users?: readonly string[] | undefined;
}

/** What was erased. */
export interface Erased {
  /** What the compaction did. */
  compaction: Compaction;
  /**
   * Whether their bytes are gone from the files of the store. They aren't where the compaction had to leave segments as
   * they are.
   */
  isGone: boolean;
  /** How many records were taken out of every read by this call. */
  records: number;
  /** The users of whom no chat was found: their names are misspelt, they made none, or what they made was erased before. */
  unknownUsers: string[];
}

/** A page of events. */
export interface EventHeads {
  events: ContextEventHead[];
  instance: InstanceId;
  /** Where the next page begins. */
  next?: number;
}

/** The metadata of an event: run, step, time, and how its tool call went. */
export interface EventOptions {
  /** When it happened, where that isn't now: milliseconds since 1970-01-01 UTC. */
  createdAtMs?: number | undefined;
  /** The run it belongs to; a recorder takes only its own. */
  runId?: RunId | undefined;
  /** The step of the run; a recorder gives it, and takes none. */
  stepNumber?: number | undefined;
  /** How long the tool itself took, for a tool result: milliseconds of wall clock. */
  toolDurationMs?: number | undefined;
  /** Whether the tool failed, for a tool result whose message doesn't say. */
  toolIsError?: boolean | undefined;
}

/** What to write: all there is, or some of it. */
export interface ExportSelection {
  /** The sessions of these runs, by their ids. */
  runs?: readonly string[] | undefined;
  /** Sessions, by their ids, the beginning of them, or their names. */
  sessions?: readonly string[] | undefined;
  /**
   * Whether records that can't be read any more are passed over, and named by lines of the archive; else they are an
   * error.
   */
  skipDamaged?: boolean | undefined;
}

/** What was written. */
export interface Exported {
  /** What couldn't be read, and was passed over. */
  lost: LostRecords[];
  /** How many records. */
  records: number;
  /** The sessions, in the order they were made. */
  sessions: SessionId[];
  /** How many snapshots. */
  snapshots: number;
  /** How many streams. */
  streams: number;
}

/** An error as JavaScript gets it: a code in snake_case that says what to do, a message, and what it came from. */
export interface Failure {
  /** The messages of the errors below it, the nearest first. */
  causes?: string[];
  /** The name of the `ErrorKind`, or `internal` for a fault of Runlog's own. */
  code: string;
  /** What was wrong, where, and what to do. */
  message: string;
}

/** A flow, and what it goes on with where it was resumed. */
export interface FlowState {
  resumed?: Resumed;
  run: RunId;
  state: RunSnapshot;
}

/** A summary of a flow. */
export interface FlowSummary {
  /** When it was begun: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /**
   * Whether a process is working on it. Left out if that isn't known: in a store opened read-only, which doesn't know
   * the state of the writing process. Where it is known that there is none, `false`.
   */
  isLive?: boolean;
  /** Whether it has ended: by its status, by that of its run, or because another flow resumes it. */
  isOver: boolean;
  /** The run that spawned its run. */
  parentRunId?: RunId;
  /** The run whose flow resumes it. */
  resumedBy?: RunId;
  /** The run whose flow it resumes. */
  resumedFrom?: RunId;
  /** Its id: that of its run, where it is the flow of a run. */
  runId: RunId;
  /** The status of its run; left out for a flow without a run. */
  runStatus?: RunStatus;
  /** Its own status, as its latest snapshot says. */
  status: string;
  /** When its status was last saved as another one: milliseconds since 1970-01-01 UTC. */
  updatedAtMs: number;
}

/** When what was handed to the operating system is flushed. */
export interface FlushInterval {
  /** At most so many milliseconds later. */
  intervalMs: number;
}

/** `"exists"`, `"absent"`, a last sequence, or the position of the last record. */
export type GivenExpected = "any" | "exists" | "absent" | number | {
  position: number;
};

export type GivenMissing = "create" | "fail";

export type GivenMode = "write" | "readOnly";

/** One operation of a batch. What is bytes follows in the contents: records packed, metadata and payload as they are. */
export type GivenOp = {
  expected?: GivenExpected | undefined;
  length: number;
  op: "append";
  stream: string;
} | {
  after: number;
  expected?: GivenExpected | undefined;
  op: "truncate";
  stream: string;
} | {
  at: number;
  child: string;
  expected?: GivenExpected | undefined;
  op: "fork";
  parent: string;
} | {
  expected?: GivenExpected | undefined;
  metaLength: number;
  op: "snapshot";
  payloadLength: number;
  sequence: number;
  stream: string;
} | {
  expected?: GivenExpected | undefined;
  op: "delete";
  stream: string;
} | {
  op: "redact";
  position: number;
  reason: string;
};

export type GivenPreallocation = "auto" | "none";

/**
 * Something that was left out, because the store has something else under its id, or because the archive lacks it or
 * what comes before it.
 */
export interface ImportConflict {
  /** The line of the archive, from 1. */
  line: number;
  /** What it is, and what is in the way. */
  what: string;
}

/** A line that was left out of an import, and why. */
export interface ImportIssue {
  /** The line, counted from 1. */
  line: number;
  /** What is wrong with it. */
  what: string;
}

/** What an import did. */
export interface ImportReport {
  /** How many chats were made for the messages or steps. */
  chats: number;
  /** How many chats or messages were imported. */
  imported: number;
  /** The lines that were left out. */
  issues: ImportIssue[];
  /** How many were there already, and left as they are. */
  skipped: number;
}

/** What became of an archive. */
export interface Imported {
  /** How many messages were added to chats. */
  chatMessages: number;
  /** What was left out, and why. */
  conflicts: ImportConflict[];
  /** How many messages were added to contexts. */
  messages: number;
  /** How many other records were added, snapshots among them. */
  other: number;
  /** Its sessions, in its order. */
  sessions: ImportedSession[];
  /** How many records and snapshots were there already. */
  skipped: number;
  /** How many tool calls were added. */
  toolCalls: number;
}

/** A session of an archive. */
export interface ImportedSession {
  /** Its id. */
  id: SessionId;
  /** Its name. */
  name?: string;
  /** What became of it. */
  outcome: Outcome;
}

/**
 * What has changed in a flow's inbox since the change before: so many of its first commands are still there, and these
 * follow. The inbox itself may be large. Answers may come in another order than their changes, which are numbered from
 * 1.
 */
export interface InboxChange {
  added: ReceivedCommand[];
  kept: number;
  number: number;
}

/** Names one agent instance, and the stream that its context is kept in. */
export type InstanceId = string;

/** Which definitions to list, and how many. */
export interface ListAgents {
  /** Where to continue: the `next` of the previous page. */
  cursor?: string | undefined;
  /** The maximum number of definitions. 50 when left out. */
  limit?: number | undefined;
  /** Only definitions of this project; left out lists those of no project. */
  project?: string | undefined;
  /** Only those of this visibility; left out, all. */
  visibility?: AgentVisibility | undefined;
}

/** Which flows to list, and how many. A filter that is left out lets every flow pass. */
export interface ListFlows {
  /** Where to continue: the cursor from the previous page. */
  cursor?: string | undefined;
  /** The maximum number of flows. 50 when left out. */
  limit?: number | undefined;
  /** Only flows of runs that this run spawned. */
  parentRunId?: RunId | undefined;
  /** Only flows to be resumed: those that haven't ended, and on which no process is known to be working. */
  resumable?: boolean | undefined;
  /** Only flows of this status, as their snapshots say it. */
  status?: string | undefined;
}

/** Which messages of a chat to list, from which end, and how many. */
export interface ListMessages {
  /** Only messages of this block; left out, all. */
  blockId?: string | undefined;
  /** Where to go on: what the page before said comes next. */
  cursor?: string | undefined;
  /** At most so many. 50 when left out. */
  limit?: number | undefined;
  /** Whether the list goes from the end of the chat to its beginning. */
  newestFirst?: boolean | undefined;
  /** Only messages of this request; left out, all. */
  requestId?: string | undefined;
  /** Only messages from this side; left out, both. */
  role?: ChatRole | undefined;
  /** Only those that come after the message of this id in the list: with the newest first, those before it in the chat. */
  startAfter?: string | undefined;
  /** Only messages of this thread; left out, all. */
  threadId?: string | undefined;
  /** Only messages of this type; left out, all. */
  type?: string | undefined;
}

/** Which of the requests that aren't over to list, and how many. */
export interface ListRequests {
  /** Only requests for this assistant; left out, all. */
  assistantId?: string | undefined;
  /** Only requests of this chat; left out, all. */
  chatId?: string | undefined;
  /** Where to go on: what the page before said comes next. */
  cursor?: string | undefined;
  /** At most so many. 50 when left out. */
  limit?: number | undefined;
  /**
   * Only requests of this status; left out, all. One of status `running` that nobody is at work on was never answered:
   * its process died.
   */
  status?: RequestStatus | undefined;
  /** Only requests that no process is known to be working on. */
  unattended?: boolean | undefined;
}

/** Which messages of a run to list, and how many. */
export interface ListRunMessages {
  /** Where to go on: what the page before said comes next. */
  cursor?: string | undefined;
  /** At most so many. 50 when left out. */
  limit?: number | undefined;
  /** Whether the list goes from the last message to the first. */
  newestFirst?: boolean | undefined;
  /** Only messages of this step; left out, all. */
  stepNumber?: number | undefined;
}

/** Which runs to list, and how many. A filter that is left out lets every run pass. */
export interface ListRuns {
  /** Only runs of this agent. */
  agentName?: string | undefined;
  /** Where to continue: the cursor from the previous page. */
  cursor?: string | undefined;
  /** The maximum number of runs. 50 when left out. */
  limit?: number | undefined;
  /** Only runs that this run spawned. */
  parentRunId?: RunId | undefined;
  /** Only runs of this project. */
  project?: string | undefined;
  /** Only runs in this session. */
  sessionId?: SessionId | undefined;
  /** Only runs of this status. */
  status?: RunStatus | undefined;
}

/** Which sessions to list, and how many. */
export interface ListSessions {
  /** Where to continue: the `next` of the previous page. */
  cursor?: string | undefined;
  /** Whether deleted sessions are listed too; `true` or `false` in JSON. */
  deleted?: boolean | undefined;
  /** The maximum number of items. 50 when left out. */
  limit?: number | undefined;
  /** Only sessions of this project; left out, all. */
  project?: string | undefined;
  /** Only sessions of this status; left out, both. */
  status?: SessionStatus | undefined;
}

/** Which steps to list, of one chat or of all, and how many. */
export interface ListSteps {
  /** Only steps of this assistant; left out, all. */
  assistantId?: string | undefined;
  /** Only steps of this chat; left out, all that aren't deleted. */
  chatId?: string | undefined;
  /** Where to go on: what the page before said comes next. */
  cursor?: string | undefined;
  /** At most so many. 50 when left out. */
  limit?: number | undefined;
  /** Only steps of this request; left out, all. */
  requestId?: string | undefined;
  /** Only steps of this node of the call stack; left out, all. */
  stackId?: string | undefined;
  /** Only steps of this status; left out, all. */
  status?: StepStatus | undefined;
  /** Only steps of this type; left out, all. */
  type?: StepType | undefined;
}

/** Which tool calls of a run to list, and how many. */
export interface ListToolCalls {
  /** Where to go on: what the page before said comes next. */
  cursor?: string | undefined;
  /** At most so many. 50 when left out. */
  limit?: number | undefined;
  /** Only calls of this status; left out, all. */
  status?: ToolCallStatus | undefined;
  /** Only calls of this tool; left out, all. A call whose own record is redacted is of no tool here. */
  toolName?: string | undefined;
}

/** Records of a stream that couldn't be read, or states saved in it. */
export interface LostRecords {
  /** The first sequence; of saved states the first at which one may be. */
  first: number;
  /** Whether it is states saved at these sequences, and not the records. */
  isSnapshot: boolean;
  /** The last sequence. */
  last: number;
  /** What the stream holds, as its line in the archive says, such as `context` or `run`. */
  of: string;
  /** The session that it belongs to. */
  sessionId?: SessionId;
  /** The stream. */
  stream: string;
}

/** An orchestrator that was made. */
export interface MadeOrchestrator {
  id: number;
}

/**
 * What was there when `Store.mark` looked: the log's last position, the number of redactions, and the last sequence and
 * the number of records ever appended of each stream, left out where there was no such stream; of a chat a checksum of
 * its fields, too. For the process that made it.
 */
export interface Mark {
  position: number;
  redactions: number;
  streams: ([number, number] | undefined)[];
  watched: Watched;
}

/** Which messages of a chat to get. */
export interface MessageFilter {
  /** Only those of this block. */
  blockId?: string | undefined;
  /** The maximum number of messages; 0 is all. */
  limit?: number | undefined;
  /** How many to skip first. */
  offset?: number | undefined;
  /** Only those of this request. */
  requestId?: string | undefined;
  /** Only those from this side. */
  role?: ChatRole | undefined;
  /** Only those of this thread. */
  threadId?: string | undefined;
  /** Only those of this type. */
  type?: string | undefined;
}

/** A message without its content: its sequence, its role and its length. */
export type MessageHead = [number, Role, number];

/**
 * The definition of an agent: its name in its project, its prompt, its tools, and its limits. Fields that this build
 * doesn't know are kept in `extra`.
 */
export interface NewAgentDefinition {
  /** When it was defined: milliseconds since 1970-01-01 UTC. */
  createdAtMs?: number | undefined;
  /** The timeout of one of its runs, unless the request sets one; left out, no timeout. */
  defaultTimeoutMs?: number | undefined;
  /** What it is good for, for the agents that choose among several. */
  description?: string | undefined;
  /** The type of its flow, by a name of the caller's: `single` unless given. */
  flowType?: string | undefined;
  /** The most steps of one of its runs; left out, no limit. */
  maxSteps?: number | undefined;
  /** Further configuration for its executor, as JSON: a model, a command. */
  metadata?: unknown | undefined;
  /** Its name, unique in its project. */
  name: string;
  /** The project it belongs to; left out for no project. */
  project?: string | undefined;
  /** Its system prompt. Not part of lists. */
  systemPrompt?: string | undefined;
  /** The names of the tools it may use. */
  tools?: readonly string[] | undefined;
  /** When it was last changed: milliseconds since 1970-01-01 UTC. */
  updatedAtMs?: number | undefined;
  /** Its intended users. `project` when left out. */
  visibility?: AgentVisibility | undefined;
}

/**
 * A chat: a conversation as its user sees it.
 *
 * The JSON has exactly these names. Fields that aren't known are kept.
 */
export interface NewChat {
  /** The assistant it is with. */
  assistantId: string;
  /** Its id: the session's name, or the session's id where it has no name. Empty for a fresh one. */
  chatId?: string | undefined;
  /** When it was made: milliseconds since 1970-01-01 UTC; now where it is left out, or is 0. */
  createdAtMs?: number | undefined;
  /** The user who made it. */
  createdBy?: string | undefined;
  /** The store's own number of it, in the order of creation; given by the store. */
  id?: number | undefined;
  /** When its last message was made: milliseconds since 1970-01-01 UTC; kept by the store. */
  lastMessageAtMs?: number | undefined;
  /** Anything else, as JSON. */
  metadata?: unknown | undefined;
  /** Its mode. `chat` when left out. */
  mode?: string | undefined;
  /** Whether it came with the product. */
  preset?: boolean | undefined;
  /** Whether all teams see it. */
  public?: boolean | undefined;
  /** With whom it is shared. `private` when left out. */
  share?: ChatShare | undefined;
  /** Its rank in lists, for display. */
  sort?: number | undefined;
  /** Whether it is in use. `active` when left out. */
  status?: SessionStatus | undefined;
  /** The team it belongs to. */
  teamId?: string | undefined;
  /** The tenant it belongs to. */
  tenantId?: string | undefined;
  /** Its title. */
  title?: string | undefined;
  /**
   * When it was last changed, of a deleted one when it was deleted: milliseconds since 1970-01-01 UTC; kept by the
   * store.
   */
  updatedAtMs?: number | undefined;
  /** The user who changed it last. */
  updatedBy?: string | undefined;
}

/**
 * A message of a chat, as its user sees it. Its type is open: `text`, `image`, `loading`, `error`, `action`, `file`, or
 * any other.
 */
export interface NewChatMessage {
  /** The assistant it is from. */
  assistantId?: string | undefined;
  /** The block it is part of. */
  blockId?: string | undefined;
  /** The chat it is in; given by the store. */
  chatId?: string | undefined;
  /** When it was made: milliseconds since 1970-01-01 UTC; now where it is left out, or is 0. */
  createdAtMs?: number | undefined;
  /** The store's own number of it: its position in the log; given by the store. */
  id?: number | undefined;
  /** Its id; empty for a fresh one. */
  messageId?: string | undefined;
  /** Anything else, as JSON. */
  metadata?: unknown | undefined;
  /** What it shows, a JSON object kept byte for byte. */
  props: object;
  /** The request it belongs to. */
  requestId?: string | undefined;
  /** Who it is from. */
  role: ChatRole;
  /** Its sequence in the chat, from 1; 0 for the next one. */
  sequence?: number | undefined;
  /** The thread it is part of. */
  threadId?: string | undefined;
  /** What it is. */
  type: string;
  /** When it was last changed: milliseconds since 1970-01-01 UTC; kept by the store. */
  updatedAtMs?: number | undefined;
}

/** An agent instance to make. */
export interface NewInstance {
  /** The agent's name. */
  agentName: string;
  /** When it was made, where that isn't now: milliseconds since 1970-01-01 UTC. */
  createdAtMs?: number | undefined;
  /** Its id, where the caller has one already; else a fresh one. */
  id?: InstanceId | undefined;
  /** The instance that spawned it. */
  parentInstanceId?: InstanceId | undefined;
  /** The session it works in. */
  sessionId: SessionId;
}

/**
 * What was there when `Store.mark` looked: the log's last position, the number of redactions, and the last sequence and
 * the number of records ever appended of each stream, left out where there was no such stream; of a chat a checksum of
 * its fields, too. For the process that made it.
 */
export interface NewMark {
  position: number;
  redactions: number;
  streams: readonly ([number, number] | undefined)[];
  watched: Watched;
}

/** A request to begin. */
export interface NewRequest {
  /**
   * The message that its user saw as the chat's last one. If another one is, somebody else has written to the chat
   * since, and the request isn't begun. An empty id is none: the chat must have no message. Left out for whatever there
   * is.
   */
  after?: string | undefined;
  /** The assistant it is for: the root of the call stack. */
  assistantId: string;
  /**
   * Whether it is refused while another request of the chat is under way, as when its user asks in two windows: the
   * answer to the first question would stand behind the second one.
   */
  exclusive?: boolean | undefined;
  /**
   * The first of the messages that it replaces: this one and all behind it are deleted in the write that saves what is
   * there instead, the user's new message, or the first message of another answer: one that fails before it says
   * anything leaves them. What their requests took stays; those that aren't over are dismissed as it begins.
   */
  replaces?: string | undefined;
  /** Its id; left out for a fresh one. */
  requestId?: string | undefined;
  /** The root's id in the call stack; left out for a fresh one. */
  stackId?: string | undefined;
}

/** A run to start. */
export interface NewRun {
  /** The agent it is a run of; left out, the instance's. */
  agentName?: string | undefined;
  /**
   * Whether it may write to the context while another run does. Without it such a start is refused: what two runs
   * record into one context alternates, and neither model is sent what it said.
   */
  concurrent?: boolean | undefined;
  /**
   * What becomes of tool calls of the context that have no result. When left out, they are closed where the run begins
   * with messages, because no provider takes a message between a call and its result, and left open where it begins
   * with none.
   */
  dangling?: Dangling | undefined;
  /** Its id, where the caller has one already; else a fresh one. */
  id?: RunId | undefined;
  /** The steps it may take; left out, as many as it likes. */
  maxSteps?: number | undefined;
  /** Anything else about it, as JSON. */
  metadata?: unknown | undefined;
  /** The node of a flow that it runs. */
  nodeId?: string | undefined;
  /** The run that spawned it. */
  parentRunId?: RunId | undefined;
  /** The context that it works in. */
  place: RunPlace;
  /** The project it belongs to; left out, the session's. */
  project?: string | undefined;
  /** What it took so far, such as tokens and their cost: a JSON object. `RunRecorder.describe` says it later. */
  usage?: Record<string, unknown> | undefined;
}

/** A session to make. Everything may be left out. */
export interface NewSession {
  /** When it was made, where that isn't now: milliseconds since 1970-01-01 UTC. */
  createdAtMs?: number | undefined;
  /** Its id, where the caller has one already; else a fresh one. */
  id?: SessionId | undefined;
  /** Whatever its source says of it, as JSON. */
  metadata?: unknown | undefined;
  /** Its name elsewhere, such as `claude-code:4f1d…`; unique among the store's sessions. */
  name?: string | undefined;
  /** The project it belongs to. */
  project?: string | undefined;
  /** Its title, for people. */
  title?: string | undefined;
}

/** One step of a request. */
export interface NewStep {
  /** The assistant that did it. */
  assistantId: string;
  /** The chat it is in; given by the store. */
  chatId?: string | undefined;
  /** When it was made: milliseconds since 1970-01-01 UTC; now where it is left out, or is 0. */
  createdAtMs?: number | undefined;
  /**
   * The delegate step that waits for this node, where it was called by one: of several that the caller delegated at
   * once, its own.
   */
  delegateStepId?: string | undefined;
  /**
   * When it was settled that it isn't to be resumed any more, whatever its status: its request was dismissed, or was
   * gone on with from it and completed. In milliseconds since 1970-01-01 UTC.
   */
  dismissedAtMs?: number | undefined;
  /** Why it failed. */
  error?: string | undefined;
  /** The store's own number of it: its position in the log; given by the store. */
  id?: number | undefined;
  /** What it was given, a JSON object kept byte for byte. */
  input?: object | undefined;
  /** Anything else, as JSON. */
  metadata?: unknown | undefined;
  /** What came of it, a JSON object kept byte for byte. */
  output?: object | undefined;
  /** The request it belongs to. */
  requestId: string;
  /** Its sequence in the request, from 1; 0 for the next one. */
  sequence?: number | undefined;
  /** The space when it began, a JSON object kept byte for byte. */
  spaceSnapshot?: object | undefined;
  /** How deep in the call stack: 0 is the root. */
  stackDepth?: number | undefined;
  /** The node of the call stack it was done in. */
  stackId: string;
  /** The node that called this one. */
  stackParentId?: string | undefined;
  /** How far it is. */
  status: StepStatus;
  /** Its id; empty for a fresh one. */
  stepId?: string | undefined;
  /** What it is. */
  type: StepType;
  /** When it was last changed: milliseconds since 1970-01-01 UTC; kept by the store. */
  updatedAtMs?: number | undefined;
}

/** The status of a node. */
export type NodeStatus = "pending" | "running" | "done" | "failed";

/** How a store is opened; what is left out is as the engine has it. */
export interface OpenOptions {
  /**
   * Whether files of which nothing is in use any more, because all in them was truncated or deleted, are given up by
   * themselves in the background; true when left out. Nothing else is rewritten unless `compact` is called.
   */
  autoCompact?: boolean | undefined;
  /** How durable an append is when acknowledged, unless it says otherwise; `sync` when left out. */
  durability?: Durability | undefined;
  /**
   * How long to wait for another writer to let go of the store, in milliseconds, before it is refused with `locked`; 0
   * when left out. A service that is restarted waits for the one before it to end.
   */
  lockTimeoutMs?: number | undefined;
  /** What a missing store means: it is made (when left out), or the error `not_found`. */
  missing?: GivenMissing | undefined;
  /**
   * `write` (the one writer, refused with `locked` while another has the store; when left out), or `readOnly`: a
   * reader, beside a writer in another process or without one, which changes no file.
   */
  mode?: GivenMode | undefined;
  /** Whether the space of segments is made ahead of need, so that a flush is faster; `auto` when left out. */
  preallocation?: GivenPreallocation | undefined;
  /** The largest size of a segment file in bytes, from 64 KiB to 1 GiB; 32 MiB when left out. */
  segmentBytesMax?: number | undefined;
}

/** A request that hasn't ended: it runs, was never answered, was interrupted, or failed. */
export interface OpenRequest {
  /** The assistant it is for. */
  assistantId: string;
  /** When it was begun: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /** The store's own number of it, in the order in which they were begun; given by the store. */
  number: number;
  /** Its id. */
  requestId: string;
  /** Its status. */
  status: RequestStatus;
  /** When it ended, or was last changed: milliseconds since 1970-01-01 UTC. */
  updatedAtMs: number;
}

/** The bounds of an orchestrator. */
export interface OrchestratorOptions {
  /**
   * How long another process, which writes the store that is open for reading here, is waited for until it begins what
   * it is asked for; 5 seconds by default. Milliseconds in JSON.
   */
  answerTimeoutMs?: number | undefined;
  /**
   * The most agents that work at one time; others wait for their turn. One that waits for its sub-agents doesn't count.
   * At least 1. 1024 when left out.
   */
  concurrentMax?: number | undefined;
  /** How deep agents may spawn agents: the sub-agents of a run that nobody spawned are at depth 1. 8 when left out. */
  depthMax?: number | undefined;
  /**
   * The most commands that wait for one run, with those that it took and has recorded nothing since: they are kept to
   * be delivered again after a crash. 1024 when left out.
   */
  inboxMax?: number | undefined;
  /**
   * The most runs that are begun and not ended at one time; a spawn that would exceed it is refused. 65536 when left
   * out.
   */
  liveMax?: number | undefined;
  /** The cumulative steps from which on no run is resumed. 500 when left out. */
  maxTotalSteps?: number | undefined;
  /** The most sub-agents of one call. 16384 when left out. */
  spawnMax?: number | undefined;
  /**
   * How long an agent that is stopped may take to record what it has, before it is dropped; a quarter of a second by
   * default. Milliseconds in JSON.
   */
  stopGraceMs?: number | undefined;
  /**
   * The provider's form in which tasks are written, and spawns that no model asked for into the context of the run that
   * makes them. Left out, it is that of the context: of its latest message that tells one, by its tool calls or as
   * Gemini and Bedrock write messages; sub-agents get their tasks in the form of their parent's context. OpenAI's where
   * no message tells.
   */
  toolStyle?: SpawnStyle | undefined;
}

/** What became of a session. */
export type Outcome = "created" | "continued" | "completed" | "unchanged" | "conflict";

/** What to play back, and how fast. */
export interface PlaybackOptions {
  /** Whether it goes from the last event to the first. */
  backward?: boolean | undefined;
  /** The first sequence; 0 and 1 are the first event. */
  first?: number | undefined;
  /** The last sequence, inclusive; left out, the last there is. */
  last?: number | undefined;
  /** Only events of these nodes. Empty is all. */
  nodes?: readonly string[] | undefined;
  /** Only events of these executions of nodes, or runs: those whose `runId` it is. Empty is all. */
  runs?: readonly string[] | undefined;
  /**
   * The longest silence between two events, in milliseconds before the speed counts: longer ones are cut to it. Left
   * out lets each be as long as it was.
   */
  silenceMaxMs?: number | undefined;
  /** How fast. In JSON how many times as fast as it was recorded, 0 for without delays. */
  speed?: number | undefined;
  /** Only events of these types; a type that ends in `*` stands for all that begin so. Empty is all. */
  types?: readonly string[] | undefined;
}

/**
 * An event that is played back, without its JSON: delay in milliseconds, sequence, position, when it was recorded,
 * length.
 */
export type PlayedHead = [number, number, number, number, number];

/** Something that is not as it was written. */
export interface Problem {
  /** The file, by its name in the store's folder. */
  file: string;
  /** Whether records are lost by it: only a copy of the store can restore them, a repair can't. */
  isLoss: boolean;
  /** What was expected and what was found, and which records are lost by it. */
  message: string;
  /** Where in the file, in bytes from its beginning. */
  offset: number;
}

/** Which records of a stream to read. */
export interface Read {
  backward?: boolean | undefined;
  first?: number | undefined;
  kinds?: readonly number[] | undefined;
  last?: number | undefined;
  limit?: number | undefined;
  stream: string;
}

/** Where a message was recorded. */
export interface Recorded {
  /** The id of the (first) message: its position in the log. */
  id: number;
  /** The sequence of the last event recorded with it: its tool calls, and their results. */
  lastSequence: number;
  /** Whether an earlier write had the same idempotency key, so that nothing was written now. */
  repeated: boolean;
  /** Its sequence in the instance's context. */
  sequenceNumber: number;
  /** The step it belongs to. */
  stepNumber: number;
  /**
   * Of a repeat: whether the context was truncated since, so that what was written then is not in it any more. Its
   * sequences may be those of other events by now.
   */
  truncated: boolean;
}

/** What opening a log found. */
export interface Recovery {
  /** Whether the store was closed cleanly or just created, not left by a crash. */
  clean: boolean;
  /** How many sealed segments' index blocks were read, because no checkpoint covered them. */
  indexBlocksRead: number;
  /** How many records of the active segment were read, because no checkpoint covered them. */
  recordsScanned: number;
  /** The size in bytes of an incomplete write after the last whole batch, cut off by a crash and never acknowledged. */
  tornBytes: number;
}

/**
 * What became of the runs that a crash had cut off: those that were resumed and those that were left paused, each by
 * its id.
 */
export interface Report {
  left: ([RunId, Failure])[];
  resumed: ([RunId, SpawnResult])[];
}

/** Details that a caller records about a request. */
export interface RequestDetails {
  /** Anything else, as JSON; left out leaves it as it was. */
  metadata?: unknown | undefined;
  /** The run that does its work; left out leaves it as it was. */
  runId?: RunId | undefined;
  /** What it took, such as tokens and their cost: a JSON object; left out leaves it as it was. */
  usage?: object | undefined;
}

/** How a request ended, which decides what becomes of the step that was under way. */
export type RequestEnd = "completed" | "interrupted" | {
  failed: string;
};

/** Where a request is. */
export interface RequestPlace {
  /** The assistant of that node. */
  assistantId: string;
  /** The chat. */
  chatId: string;
  /** The request. */
  requestId: string;
  /** The node of the call stack at which it is. */
  stackId: string;
}

/** The status of a request. */
export type RequestStatus = "running" | "completed" | "interrupted" | "failed" | "dismissed";

/** What to do with the step that was cut off. */
export type ResumeAction = "start" | "restart" | "retry" | "continue";

/** How to resume a run. */
export interface ResumeOptions {
  /** What becomes of tool calls that have no result. */
  dangling?: Dangling | undefined;
  /**
   * Whether a run that is over, however it ended, is resumed too. It stays completed, failed or cancelled, and tells by
   * `resumedBy` which one goes on.
   */
  ended?: boolean | undefined;
  /** The id of the new run, where the caller has one already; else a fresh one. */
  id?: RunId | undefined;
  /** The steps the new run may take; left out, as many as the run before could. */
  maxSteps?: number | undefined;
  /** The cumulative steps from which on no resume is allowed. 500 when left out. */
  maxTotalSteps?: number | undefined;
  /** What the agent is told. In JSON what the user says, `null` for nothing, left out for the default. */
  message?: unknown | undefined;
  /** The run that spawns the new one; left out, the one that spawned the run before. */
  parentRunId?: RunId | undefined;
}

/** What a resumed flow goes on with. */
export interface Resumed {
  /** The nodes that were running, in the order of their names. */
  running: RunningNode[];
  /** The sequence of the `flow:resumed` event. */
  sequence: number;
  /**
   * How many states that were saved later can't be read any more, because they or one that they differ from was
   * redacted, lost, or replaced by a snapshot of the caller's own: nodes that had ended by then may be run again. The
   * event has it as `unreadableStates` where it isn't 0.
   */
  unreadableStates: number;
}

/** A run that goes on; its messages stand beside it. */
export interface ResumedRunHead {
  dangling: DanglingToolCall[];
  run: Run;
  /** How many of the last states of its flow couldn't be read, so that it goes on from an older one. */
  unreadableStates: number;
}

/**
 * An interrupted request, and how to go on with it: which assistant, with which input, in which space, at which place
 * of the call stack.
 */
export interface ResumptionParts {
  /** What to do with the step. */
  action: ResumeAction;
  /** Whether it isn't the root's. */
  nested: boolean;
  /** The space as it was when the step began. */
  space: unknown;
  /** The call stack, from the root to the node of the step. */
  stack: StackLevel[];
  /** The step that was cut off: its assistant goes on, with its input. */
  step: Step;
}

/** How far a retention has come. */
export interface RetainProgress {
  /** So much of it is done: sessions, flows, or bytes of a compaction; … */
  done: number;
  /** What is being done. */
  stage: RetainStage;
  /** … of so much; 0 where nobody knows yet. */
  total: number;
}

/** What a retention is at. */
export type RetainStage = "looking" | "dropping_deltas" | "giving_up" | "compacting";

/** What was given up, or would be. */
export interface Retained {
  /**
   * How many bytes these have: payloads, metadata and headers, before any compression. What a context elsewhere was
   * copied from is among them, and stays until that is given up, too.
   */
  bytes: number;
  /** What the compaction did, where one was asked for. */
  compaction?: Compaction;
  /**
   * How many of these records are streaming deltas that were dropped while their flow stays. Their bytes are payloads
   * and metadata; the headers stay.
   */
  deltas: number;
  /** How many streaming deltas are old enough to be dropped and stay, because no event has their whole text. */
  deltasKept: number;
  /** Whether it ended because it was told to, with some of its work left. */
  isCancelled: boolean;
  /** How many sessions the rules don't keep stay because something is at work in them, or paused. */
  keptAtWork: number;
  /**
   * How many because they were written to, changed or copied after the rules were applied, or sessions were made or
   * changed each time that it was tried. Always 0 in a dry run.
   */
  keptChanged: number;
  /** How many because a copy of them sees what they have. */
  keptForCopies: number;
  /** How many records. */
  records: number;
  /** How many runs they had. */
  runs: number;
  /** Their ids, the one made last first; at most 1,000 of them. */
  sessionIds: SessionId[];
  /** How many sessions. */
  sessions: number;
}

/**
 * Which sessions are given up. A session goes when **every** rule that is given says so: what one of them keeps, stays.
 * To have each of several limits for itself, ask once for each.
 *
 * Never given up are sessions with a run at work or paused, or with a request that somebody in this process is at work
 * on, and those that a copy was made of which isn't given up itself.
 */
export interface RetentionPolicy {
  /** The policy is for sessions that were archived, no others. */
  archived?: boolean | undefined;
  /** Compact the store then, so that the disk space is given back at once. A dry run doesn't. */
  compact?: boolean | undefined;
  /** Rule, and what the policy is for: sessions that were deleted, instead of those that weren't. */
  deleted?: boolean | undefined;
  /**
   * A policy of its own, which goes with no other rule and gives up no session: the streaming deltas of flows, once
   * their whole text has stood for so many milliseconds, in an `agent:text`, `agent:thinking` or `agent:complete` of
   * the same node and run. Deltas of which no event has the whole text, as those of an agent that was killed, are its
   * only text and stay.
   */
  deltasOlderThanMs?: number | undefined;
  /** Only say what would be given up, and how much. */
  dryRun?: boolean | undefined;
  /** Rule: so many sessions had something happen in them later. They are counted among those the policy is for. */
  keepLast?: number | undefined;
  /**
   * Rule: the session and those that had something happen in them later are more than so many bytes together: payloads,
   * metadata and headers, before any compression.
   */
  maxBytes?: number | undefined;
  /**
   * Rule: nothing has happened in the session for so many milliseconds; for a deleted one, since it was deleted. 0 is
   * refused where nothing else restricts the policy.
   */
  olderThanMs?: number | undefined;
  /** The policy is for sessions of this project; left out, all. */
  project?: string | undefined;
  /**
   * Rule: the last run of the session that no other spawned has one of these statuses. With `paused`, paused runs don't
   * keep their sessions. `running` is refused.
   */
  statuses?: readonly RunStatus[] | undefined;
}

/** Who a message is from. */
export type Role = "system" | "user" | "assistant" | "tool";

/** One run of an agent. Fields that this build doesn't know are kept in `extra`. */
export interface Run {
  /** The agent's name. */
  agentName: string;
  /** When it ended: milliseconds since 1970-01-01 UTC. Left out while it runs, or is paused. */
  completedAtMs?: number;
  /** When it was made: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /**
   * How long it ran, until it paused or ended; of one whose process died, until the last record of it or of its
   * context.
   */
  durationMs?: number;
  /** Why it failed. */
  errorMessage?: string;
  /** Its id, and that of the stream its events are kept in. */
  id: RunId;
  /** The agent instance whose context it writes. */
  instanceId: InstanceId;
  /** The most steps of this run itself; left out, no limit. */
  maxSteps?: number;
  /** Anything else, as JSON. A run that resumes another starts with that one's. */
  metadata?: unknown;
  /** The node of a flow that it runs. */
  nodeId?: string;
  /** The run that spawned it. */
  parentRunId?: RunId;
  /** Why it paused, in words. */
  pauseReason?: string;
  /** The project it belongs to. */
  project?: string;
  /** The run that resumes this one. */
  resumedBy?: RunId;
  /** The run it resumes. */
  resumedFrom?: RunId;
  /** The session it works in. */
  sessionId: SessionId;
  /** Its status. */
  status: RunStatus;
  /** The steps begun so far, those of the runs it was resumed from included. */
  stepCount: number;
  /** What stopped it, if it is paused or cancelled; not set in runs of older builds. */
  stopKind?: StopKind;
  /** Its summary. */
  summary?: string;
  /**
   * What it took, such as tokens and their cost: a JSON object of the caller's, kept byte for byte. Of this run alone,
   * without the runs that it resumes.
   */
  usage?: Record<string, unknown>;
}

/** The details that a caller records about a run, with the same names as of a chat's request. */
export interface RunDetails {
  /** Anything else, as JSON; left out leaves it as it was, `null` removes it. */
  metadata?: unknown | undefined;
  /** What it took, such as tokens and their cost: a JSON object; left out leaves it as it was, `null` removes it. */
  usage?: object | null | undefined;
}

/** Names one run of an agent. */
export type RunId = string;

/** One message of a run, without its content. */
export interface RunMessageHead {
  createdAtMs: number;
  id: number;
  length: number;
  role: Role;
  runId: RunId;
  sequenceNumber: number;
  stepNumber: number;
}

/** The context that a run works in. */
export type RunPlace = {
  instance: InstanceId;
} | {
  newInstance: NewInstance;
} | {
  newSession: [NewSession, string];
};

/** The status of a run. */
export type RunStatus = "running" | "paused" | "completed" | "failed" | "cancelled";

/** The fields of a `Run` in lists, with the same meaning. */
export interface RunSummary {
  /** The agent's name. */
  agentName: string;
  /** When it ended: milliseconds since 1970-01-01 UTC. */
  completedAtMs?: number;
  /** When it was made: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /**
   * How long it ran, until it paused or ended; of one whose process died, until the last record of it or of its
   * context.
   */
  durationMs?: number;
  /** Its id. */
  id: RunId;
  /** The agent instance whose context it writes. */
  instanceId: InstanceId;
  /** Anything else, as JSON. A run that resumes another starts with that one's. */
  metadata?: unknown;
  /** The run that spawned it. */
  parentRunId?: RunId;
  /** The project it belongs to. */
  project?: string;
  /** The run that resumes this one. */
  resumedBy?: RunId;
  /** The run it resumes. */
  resumedFrom?: RunId;
  /** The session it works in. */
  sessionId: SessionId;
  /** Its status. */
  status: RunStatus;
  /** The steps begun so far, those of the runs it was resumed from included. */
  stepCount: number;
  /**
   * What it took, such as tokens and their cost: a JSON object of the caller's, kept byte for byte. Of this run alone,
   * without the runs that it resumes.
   */
  usage?: Record<string, unknown>;
}

/** A node that was running when the flow stopped. */
export interface RunningNode {
  /** The node. */
  nodeId: string;
  /** What to resume the agent with. */
  prompt: string;
  /** The agent's own session; left out for a node that is no agent, or whose agent hadn't begun. */
  sessionId?: string;
}

/** What to look for in the messages of chats, and in which chats. All that is given must fit. */
export interface SearchMessages {
  /** Only in this chat; left out, all. */
  chatId?: string | undefined;
  /** Where to go on: what the page before said comes next. */
  cursor?: string | undefined;
  /** At most so many. 20 when left out. */
  limit?: number | undefined;
  /** The teams of the user of `visibleTo`. */
  teams?: readonly string[] | undefined;
  /** Only in chats of this tenant. */
  tenantId?: string | undefined;
  /** The text that a message has, in any string of its `props`. Case doesn't matter. */
  text: string;
  /** Only in chats that this user made. */
  userId?: string | undefined;
  /** Only in chats that this user may see, as `ChatFilter.visibleTo`. */
  visibleTo?: string | undefined;
}

/** One conversation or task, with the agent instances that worked on it. */
export interface Session {
  /** What it has as a chat; `Chat` is the whole view. */
  chat?: ChatFields;
  /** The session it was copied from. */
  copiedFrom?: SessionId;
  /** When it was made: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /** When it was deleted, softly: its contexts can still be read. */
  deletedAtMs?: number;
  /** Its id. */
  id: SessionId;
  /** Metadata from its source, as JSON. */
  metadata?: unknown;
  /** Its name elsewhere, such as `claude-code:4f1d…`: unique among the store's sessions. */
  name?: string;
  /** The project it belongs to. */
  project?: string;
  /** Whether it is in use. */
  status: SessionStatus;
  /** Its title, for people. */
  title?: string;
  /** When it was last changed: milliseconds since 1970-01-01 UTC. Appending to a context doesn't change it. */
  updatedAtMs: number;
}

/** Names one session. */
export type SessionId = string;

/** Whether a session is in use. */
export type SessionStatus = "active" | "archived";

/** A snapshot, without its contents. */
export interface SnapshotHead {
  metaLength: number;
  position: number;
  sequence: number;
  timeMs: number;
}

/**
 * A sub-agent to spawn: a new run of an agent, or one that goes on from a paused run. Models give seconds and names
 * with `_` instead, as the tool's definition says.
 */
export interface SpawnRequest {
  /** The agent, by its name in the parent's project. */
  agentName: string;
  /**
   * The steps that this run may take, a whole number from 1 to 4294967295; where its agent's definition allows fewer,
   * that holds. Then it is `paused`, and can be resumed.
   */
  maxSteps?: number | undefined;
  /** The paused run to go on from. */
  resumeRunId?: RunId | undefined;
  /** What it is to do: its first user message. For a run that is resumed, what it is told besides to continue. */
  task?: string | undefined;
  /**
   * How long it may work, in milliseconds, in place of its definition's default. Then it is `paused`, and can be
   * resumed.
   */
  timeoutMs?: number | undefined;
}

/** What became of one sub-agent. */
export interface SpawnResult {
  /** The agent asked for. */
  agentName: string;
  /** Why it failed, or was refused. */
  error?: string;
  /** Why it paused. */
  pauseReason?: string;
  /** Its run, to look into or to resume; left out where the request was refused. */
  runId?: RunId;
  /** Completed, paused, failed or cancelled. */
  status: RunStatus;
  /** The steps it took, those of the runs it goes on from included. */
  steps: number;
  /** What stopped it, where it is paused or cancelled. */
  stopKind?: StopKind;
  /** Its final text. */
  summary?: string;
}

/** How a spawn that no model asked for can be written. */
export type SpawnStyle = "openai" | "anthropic" | "aiSdk" | "openaiResponses" | "gemini" | "openaiCamel" | "bedrock";

/** One level of a call stack. */
export interface StackLevel {
  /** Its assistant. */
  assistantId: string;
  /** The node. */
  stackId: string;
  /** Its steps, in their order. */
  steps: Step[];
  /** The step that waits for the level below. */
  waiting?: Step;
}

/** An agent to start that no other agent spawns. */
export interface StartAgent {
  /** The agent, by its name in the session's project. */
  agentName: string;
  /** Anything else about its run, as JSON. */
  metadata?: unknown | undefined;
  /** Where it works; in a new session of no project when left out. */
  place?: StartPlace | undefined;
  /** The id of its run, where the caller has one already, by which it is known before it begins; else a fresh one. */
  runId?: RunId | undefined;
  /** What it is to do: its first user message, or the next one of a context that is there. */
  task: string;
  /** How long it may work, in place of its definition's default. Milliseconds in JSON. */
  timeoutMs?: number | undefined;
}

/** Where an agent starts to work. */
export type StartPlace = {
  newSession: NewSession;
} | {
  session: SessionId;
} | {
  instance: InstanceId;
};

/** The size of a store and of its contents. */
export interface Stat {
  /** When it was made: milliseconds since 1970-01-01 UTC. */
  createdMs: number;
  /**
   * Whether a process has the store open for writing. Where none has, nobody is at work on what is `running`: its
   * process was killed. The next one that opens it for writing pauses runs; requests of chats stay `running` until they
   * are gone on with, or dismissed. Left out where it can't be told: of files that were handed over one by one, as in a
   * browser, where they can't be read, and on a file system without locks.
   */
  hasWriter?: boolean;
  /** The last position, which is also how many records were ever appended. */
  lastPosition: number;
  /** The time of the last record: milliseconds since 1970-01-01 UTC; 0 when there is none. */
  lastTimeMs: number;
  /**
   * Why readers in other processes don't see newer records: the error of writing the watermark file that they follow.
   * The records are safe nevertheless. Always left out for a reader.
   */
  readersBehind?: string;
  /** The size of the segment files in bytes, preallocated space included. */
  segmentBytes: number;
  /** How many segments it has, the active one included. */
  segments: number;
  /** The id of the store, given when it was made. */
  store: string;
  /** How many streams it has, without those deleted. */
  streams: number;
  /** How many streams were deleted. */
  streamsDeleted: number;
  /** How many of these bytes are used by records, their headers included, and index blocks. */
  usedBytes: number;
}

/** One step of a request. */
export interface Step {
  /** The assistant that did it. */
  assistantId: string;
  /** The chat it is in; given by the store. */
  chatId: string;
  /** When it was made: milliseconds since 1970-01-01 UTC; now where it is left out, or is 0. */
  createdAtMs: number;
  /**
   * The delegate step that waits for this node, where it was called by one: of several that the caller delegated at
   * once, its own.
   */
  delegateStepId?: string;
  /**
   * When it was settled that it isn't to be resumed any more, whatever its status: its request was dismissed, or was
   * gone on with from it and completed. In milliseconds since 1970-01-01 UTC.
   */
  dismissedAtMs?: number;
  /** Why it failed. */
  error?: string;
  /** The store's own number of it: its position in the log; given by the store. */
  id: number;
  /** What it was given, a JSON object kept byte for byte. */
  input?: Record<string, unknown>;
  /** Anything else, as JSON. */
  metadata?: unknown;
  /** What came of it, a JSON object kept byte for byte. */
  output?: Record<string, unknown>;
  /** The request it belongs to. */
  requestId: string;
  /** Its sequence in the request, from 1; 0 for the next one. */
  sequence: number;
  /** The space when it began, a JSON object kept byte for byte. */
  spaceSnapshot?: Record<string, unknown>;
  /** How deep in the call stack: 0 is the root. */
  stackDepth: number;
  /** The node of the call stack it was done in. */
  stackId: string;
  /** The node that called this one. */
  stackParentId?: string;
  /** How far it is. */
  status: StepStatus;
  /** Its id; empty for a fresh one. */
  stepId: string;
  /** What it is. */
  type: StepType;
  /** When it was last changed: milliseconds since 1970-01-01 UTC; kept by the store. */
  updatedAtMs: number;
}

/** The status of a step. */
export type StepStatus = "pending" | "running" | "completed" | "failed" | "interrupted";

/** The type of a step. */
export type StepType = "input" | "hook_create" | "llm" | "tool" | "hook_next" | "delegate";

/** What a follower of a context was given, as far as it is still there. */
export type StillThere = [number, number, boolean];

/** What stopped a run that is paused or cancelled, for programs to tell apart; the reason beside it is for people. */
export type StopKind = "requested" | "timeout" | "budget" | "cancelled" | "parent" | "orphaned" | "shutdown";

/** Why a run is to stop, as its agent is told it. */
export interface StopReason {
  /** What stops it: what `Run.stopKind` is then. */
  kind: StopKind;
  /** Why, in words. */
  message: string;
  /** Whether it will be paused, and can be resumed; else it will be cancelled. */
  resumable: boolean;
}

/** A stream. */
export interface StreamInfo {
  /** Its id, a UUID. */
  id: string;
  /** The sequence of its last record; 0 when it is empty. */
  lastSequence: number;
}

/** The commands that were taken from a flow's inbox, and what has changed in it. */
export interface Taken {
  inbox: InboxChange;
  taken: ReceivedCommand[];
}

/** What a tool call came to. */
export interface ToolAnswer {
  /** Whether the call was refused; the output then has an `error`. */
  isError: boolean;
  /** JSON: what to send to the model as the content of the result. */
  output: unknown;
}

/** One invocation of a tool, without its input and output. */
export interface ToolCallHead {
  createdAtMs: number;
  durationMs?: number;
  id: number;
  inputLength: number;
  messageId?: number;
  outputLength?: number;
  runId: RunId;
  sequenceNumber: number;
  status: ToolCallStatus;
  stepNumber: number;
  toolCallId?: string;
  toolName: string;
}

/** How a tool call ended. */
export type ToolCallStatus = "pending" | "completed" | "error";

/** A tool as a model is told of it. */
export interface ToolDefinition {
  /** What it does. */
  description: string;
  /** What its arguments are: a JSON Schema. */
  inputSchema: unknown;
  /** Its name. */
  name: string;
}

/** The metadata of an event about one tool call: its id, and how it ended if that is known. */
export interface ToolMark {
  /** How long the tool itself took, in milliseconds of wall clock. */
  durationMs?: number;
  /** Whether the tool failed. `false` for a call that has no result yet. */
  isError: boolean;
  /**
   * Whether the tool gave a value that no provider takes as a result, such as an object: the message has its JSON as
   * text.
   */
  outputIsJson?: boolean;
  /** The call's id, left out with the providers that give none. */
  toolCallId?: string;
}

/** What a tool gave for one call. */
export interface ToolOutcome {
  /** How long the tool itself took, in milliseconds of wall clock, without the model's time. */
  durationMs?: number | undefined;
  /**
   * What the tool gave, or the details of its error. Providers take text or an array of content parts: another value is
   * put into the message as its JSON text, where the form of the provider has no place for it. The history
   * (`ToolCall.output`) has it as it was given.
   */
  output?: unknown | undefined;
  /** Whether it is an error; `completed` when left out. */
  status?: ToolCallStatus | undefined;
  /** The call it answers; of one to which its provider gave no id, the name of its tool. */
  toolCallId: string;
}

/** How a provider writes tool calls, and so how it wants their results. */
export type ToolStyle = "openai" | "anthropic" | "function" | "ai_sdk" | "ai_sdk_4" | "openai_responses" | "openai_responses_custom" | "gemini" | "openai_camel" | "bedrock";

/** A request that isn't over. */
export interface UnfinishedRequest {
  /** The assistant it is for. */
  assistantId: string;
  /** The chat it is in. */
  chatId: string;
  /** When it was begun. */
  createdAtMs: number;
  /**
   * Whether somebody in this process is at work on it; left out in a store that is open for reading only, where the
   * process that writes it may be. Where it is known that no process writes it, `false`.
   */
  isLive?: boolean;
  /** Its id. */
  requestId: string;
  /** How far it has come. */
  status: RequestStatus;
  /** When it was interrupted, or failed. */
  updatedAtMs: number;
}

/** A verification, with its verdict. */
export interface Verification {
  /** How many bytes were read. */
  bytes: number;
  /** How many records are lost: they had a position, and can't be read. */
  lost: number;
  /** Each problem, at most 1,000 of them. */
  problems: Problem[];
  /** How many problems there are. */
  problemsCount: number;
  /** How many records were read and found whole. */
  records: number;
  /** How many segments there are. */
  segments: number;
  /** Whether nothing is damaged. */
  sound: boolean;
  /**
   * Files that a repair neither makes again nor puts aside, because it would lose whole records: it changes nothing
   * until they are restored from a copy, or moved elsewhere.
   */
  toRestore: string[];
  /** Bytes after the last whole batch that a crash cut off, never acknowledged: no damage. */
  tornBytes: number;
}

/** What is watched. */
export type Watched = "store" | {
  context: InstanceId;
} | {
  chat: SessionId;
} | {
  flow: RunId;
};
