// What every entry of the package exports beside the ways to open a store.

export { type ErrorCode, RunlogError, StopError } from "./error.js";
export { RawJson } from "./json.js";
export type { Appended } from "./appends.js";
export { type Expected, type LastRecord, RecordBatch } from "./batch.js";
export type { LogRecord } from "./packed.js";
export { CallFlag, type EventHeads, HeadFlag, type HeadsPage, NO_VALUE, type SearchPage } from "./heads.js";
export type { Listing, Page, Pages } from "./pages.js";
export type { Store } from "./store.js";
export type { StoreSessions } from "./store-sessions.js";
export type { ArchiveSource, ByteReader, ByteStream, BytesRead, ImportOptions, ImportPiecesOptions, OwnBytes, StreamedBytes } from "./archives.js";
export type { LogOptions, SharedStore } from "./store-types.js";
export type { ProgressOptions } from "./progress.js";
export type { CopiedSession, CopySession, Session, SessionChanges, StartedSession } from "./sessions.js";
export type {
  ContextChange,
  ContextDeleted,
  ContextEvent,
  ContextTruncated,
  FollowedEvent,
  Message,
  MessageInput,
  MessageObject,
  MessageRole,
  ResponseItem,
} from "./context-types.js";
export type { Context, Contexts } from "./context.js";
export type {
  AppendOperation,
  AppendRecordsOptions,
  Committed,
  CommittedOperation,
  DeleteOperation,
  ForkOperation,
  JsonRecord,
  NewRecord,
  PayloadRecord,
  ReadOptions,
  RecordHead,
  RedactOperation,
  SnapshotOperation,
  StreamOperation,
  StreamSnapshot,
  Streams,
  TruncateOperation,
} from "./streams.js";
export type { ResumedRun, Runs } from "./runs.js";
export type { RunRecorder } from "./recorder.js";
export type {
  PauseReason,
  NewRun,
  OneOf,
  RunInInstance,
  RunInNewInstance,
  RunInNewSession,
  RunMessage,
  RunPlace,
  ToolCall,
  ToolOutcome,
} from "./run-types.js";
export type { Agents, NewAgent } from "./agents.js";
export type {
  AgentDone,
  AgentEnd,
  AgentFunction,
  AgentPaused,
  LeftPaused,
  ResumeReport,
  ResumedAgent,
  StartAgent,
  StartInInstance,
  StartInNewSession,
  StartInSession,
  ToolDefinition,
} from "./agent-types.js";
export type { Orchestrator, OrchestratorOptions, RunHandle } from "./orchestrator.js";
export type { RunContext } from "./run-context.js";
export type { RunWriter } from "./run-writer.js";
export type { EndedAgent, SpawnOptions, Spawned, SpawnedAgent } from "./spawned.js";
export type { FlowRun, Flows, ResumedFlow } from "./flows.js";
export type { Playback } from "./playback.js";
export type * from "./flow-types.js";
export type { Chats } from "./chats.js";
export type { NewRequest, RequestOptions, SaveMessagesOptions, UserMessage, WithRequestOptions } from "./new-request.js";
export type { Resumption } from "./resumption.js";
export type { RequestBuffer, RequestEnd, RequestFailed, Space } from "./request.js";
export type { ChatFilter, ChatList, NewChat, NewChatMessage, NewStep, ResumeChatOptions, SearchMessages } from "./chat-types.js";
export type { Sure, Updates } from "./updates.js";
export type {
  AgentDefinition,
  AgentInstance,
  AgentSummary,
  AgentVisibility,
  AppendOptions,
  AppendResult,
  Backup,
  BackupOptions,
  Chat,
  ChatMessage,
  ChatOrder,
  ChatRequest,
  ChatRole,
  ChatShare,
  Codec,
  Compaction,
  CompactOptions,
  CompactProgress,
  CompactScope,
  ContextEventType,
  CopiedInstance,
  DanglingToolCall,
  DelegateOptions,
  Durability,
  EdgeStatus,
  Erase,
  Erased,
  EventOptions,
  ExportSelection,
  Exported,
  FlowSummary,
  FlushInterval,
  ImportConflict,
  ImportIssue,
  ImportReport,
  Imported,
  ImportedSession,
  ListAgents,
  ListFlows,
  ListRunMessages,
  ListRuns,
  ListSessions,
  ListMessages,
  ListRequests,
  ListSteps,
  ListToolCalls,
  LostRecords,
  MessageFilter,
  NewInstance,
  NewSession,
  NodeStatus,
  OpenOptions,
  Problem,
  Recorded,
  Recovery,
  RequestDetails,
  RequestStatus,
  ResumeOptions,
  Retained,
  RetainProgress,
  RetainStage,
  RetentionPolicy,
  Resumed,
  Role,
  Run,
  RunDetails,
  RunStatus,
  RunSummary,
  RunningNode,
  SessionStatus,
  SpawnRequest,
  SpawnResult,
  StackLevel,
  Stat,
  Step,
  StepStatus,
  StepType,
  StopKind,
  StreamInfo,
  ToolAnswer,
  ToolCallStatus,
  ToolMark,
  UnfinishedRequest,
  Verification,
  Outcome,
  SpawnStyle,
  ToolStyle,
} from "./generated/types.js";
