// What every entry of the package exports beside the ways to open a store.

export { type ErrorCode, RunlogError } from "./error.js";
export { RawJson } from "./json.js";
export type { Appended } from "./appends.js";
export { type Durability, type Expected, type FlushInterval, type LastRecord, RecordBatch } from "./batch.js";
export type { LogRecord } from "./packed.js";
export type { Page, Pages } from "./pages.js";
export type { Store } from "./store.js";
export type { Exported, ExportSelection, Imported, ImportConflict, ImportedSession, ImportOptions } from "./archives.js";
export type {
  Backup,
  BackupOptions,
  LogOptions,
  OpenOptions,
  Problem,
  Recovery,
  SharedStore,
  Stat,
  Verification,
} from "./store-types.js";
export type {
  AgentInstance,
  CopiedInstance,
  CopiedSession,
  CopySession,
  ListSessions,
  NewInstance,
  NewSession,
  Session,
  SessionChanges,
  SessionPage,
  SessionStatus,
  StartedSession,
} from "./sessions.js";
export type {
  AppendOptions,
  AppendResult,
  ContextChange,
  ContextEvent,
  ContextEventType,
  FollowedEvent,
  DanglingToolCall,
  EventOptions,
  Message,
  MessageInput,
  MessageObject,
  MessageRole,
  Role,
  ToolResultMark,
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
  StreamInfo,
  StreamOperation,
  StreamSnapshot,
  Streams,
  TruncateOperation,
} from "./streams.js";
export type { ResumedRun, Runs } from "./runs.js";
export type { RunRecorder } from "./recorder.js";
export type {
  AnswerDangling,
  CloseDangling,
  ListRunMessages,
  ListRuns,
  ListToolCalls,
  NewRun,
  Recorded,
  ResumeOptions,
  Run,
  RunInInstance,
  RunInNewInstance,
  RunInNewSession,
  RunMessage,
  RunPlace,
  RunStatus,
  RunSummary,
  ToolCall,
  ToolCallStatus,
  ToolOutcome,
} from "./run-types.js";
export type { KnownField, NewOf, OtherFields } from "./fields.js";
export type {
  AgentDefinition,
  AgentPage,
  AgentSummary,
  AgentVisibility,
  Agents,
  ListAgents,
  NewAgent,
} from "./agents.js";
export type {
  AgentDone,
  AgentEnd,
  AgentFunction,
  AgentPaused,
  LeftPaused,
  Orchestrator,
  OrchestratorOptions,
  ResumeReport,
  ResumedAgent,
  RunHandle,
  StartAgent,
  ToolDefinition,
} from "./orchestrator.js";
export type { RunContext, ToolAnswer } from "./run-context.js";
export type { SpawnRequest, SpawnResult } from "./spawn.js";
export type { FlowRun, Flows, Playback, ResumedFlow } from "./flows.js";
export type * from "./flow-types.js";
export type { Chats, NewRequest, ResumeChatOptions, Resumption, StackLevel, UserMessage } from "./chats.js";
export type { RequestBuffer, RequestEnd, RequestFailed, Space } from "./request.js";
export type {
  Chat,
  ChatFilter,
  ChatList,
  ChatMessage,
  ImportIssue,
  ImportReport,
  MessageFilter,
  NewChat,
  NewChatMessage,
  NewStep,
  Step,
  StepFilter,
  StepStatus,
  StepType,
  Updates,
} from "./chat-types.js";
