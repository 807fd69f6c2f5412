/// <reference lib="esnext.disposable" preserve="true" />

/**
 * An embedded event log for AI-agent runs: every message, tool call and tool result is durable before the next, so that a
 * run can be replayed, resumed, truncated and forked at any point.
 *
 * Begin with {@link open}.
 *
 * @packageDocumentation
 */

import { check } from "./binding.js";
import { checkText, objectOf } from "./checks.js";
import { nodeChannel } from "./node.js";
import { type ToolDefinition, toolsOf } from "./orchestrator.js";
import { type OpenOptions, type SharedStore, type Store, openedStore } from "./store.js";

/**
 * Opens the store in a folder, or makes one there. What a crash left is recovered, and runs that were left running are
 * paused.
 *
 * @throws {@link RunlogError} `locked` when another process has it open for writing; `not_a_store` when the folder holds
 * something else; `damaged` when what was durable is damaged; `not_found` for a reader where there is none.
 */
export async function open(path: string, options: OpenOptions = {}): Promise<Store> {
  checkText(path, "the path of a store's folder");
  return openedStore(nodeChannel(), "open", { ...objectOf(options, "how a store is opened"), path });
}

/** Opens a store in memory, gone when it is closed. Everything works as in a folder, but for lasting. */
export async function openInMemory(options: Pick<OpenOptions, "segmentBytesMax"> = {}): Promise<Store> {
  return openedStore(nodeChannel(), "openInMemory", objectOf(options, "how a store is opened"));
}

/**
 * Uses a store that another thread of this process has open, named by what its {@link Store.share} returned. Both write
 * to it, in one log.
 *
 * @throws {@link RunlogError} `closed` when it was closed.
 */
export async function attach(shared: SharedStore): Promise<Store> {
  return openedStore(nodeChannel(), "attach", { token: objectOf(shared, "what a store was shared as").runlogStore });
}

/**
 * The definitions of the tools `list_available_agents` and `spawn_agents`, for the tools that a model is given; its calls
 * are answered by {@link RunContext.answerToolCall}.
 */
export async function toolDefinitions(): Promise<ToolDefinition[]> {
  return toolsOf(check(await nodeChannel().call(0, "toolDefinitions")));
}

export { ClaudeNodeError, createClaudeNode } from "./claude/node.js";
export type { ClaudeNode, ClaudeNodeInput, ClaudeNodeOptions, ClaudeNodeResult } from "./claude/node.js";
export type { QueryFn, QueryMessage, QueryParams } from "./claude/query.js";
export { type ErrorCode, RunlogError } from "./error.js";
export { RawJson } from "./json.js";
export { RecordBatch } from "./packed.js";
export type { Durability, Expected, LogRecord } from "./packed.js";
export type { Page, Pages } from "./pages.js";
export type { LogOptions, OpenOptions, Recovery, SharedStore, Stat, Store, Verification } from "./store.js";
export type {
  AgentInstance,
  CopiedSession,
  CopySession,
  ListSessions,
  NewInstance,
  NewSession,
  Session,
  SessionChanges,
  SessionPage,
  SessionStatus,
} from "./sessions.js";
export type {
  AppendOptions,
  AppendResult,
  Context,
  ContextEvent,
  ContextEventType,
  Contexts,
  DanglingToolCall,
  EventOptions,
  Message,
  MessageInput,
  Role,
  ToolResultMark,
} from "./context.js";
export type {
  AppendRecordsOptions,
  Appended,
  Committed,
  NewRecord,
  ReadOptions,
  StreamInfo,
  StreamOperation,
  StreamSnapshot,
  Streams,
} from "./streams.js";
export type { ResumedRun, Runs } from "./runs.js";
export type { RunRecorder } from "./recorder.js";
export type {
  ListRunMessages,
  ListRuns,
  ListToolCalls,
  NewRun,
  Recorded,
  ResumeOptions,
  Run,
  RunMessage,
  RunPlace,
  RunStatus,
  RunSummary,
  ToolCall,
  ToolCallStatus,
  ToolOutcome,
} from "./run-types.js";
export type { AgentDefinition, AgentSummary, AgentVisibility, Agents, ListAgents, NewAgent } from "./agents.js";
export type {
  AgentEnd,
  AgentFunction,
  Orchestrator,
  OrchestratorOptions,
  ResumeReport,
  RunHandle,
  StartAgent,
  ToolDefinition,
} from "./orchestrator.js";
export type { RunContext } from "./run-context.js";
export type { SpawnRequest, SpawnResult } from "./spawn.js";
export type { FlowRun, Flows, Playback } from "./flows.js";
export type * from "./flow-types.js";
export type { Chats, NewRequest, Resumption, StackLevel } from "./chats.js";
export type { RequestBuffer, RequestEnd, Space } from "./request.js";
export type {
  Chat,
  ChatFilter,
  ChatList,
  ChatMessage,
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
