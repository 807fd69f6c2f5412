// Generated from the types of Rust by `cargo xtask generate`. A change here is lost.

import type { Page } from "../pages.js";
import type { ReceivedCommand } from "../flow-types.js";
import type { RunSnapshot } from "../flow-types.js";
import type { Updates } from "../updates.js";
import type {
  AgentDefinition,
  AgentInstance,
  AgentSummary,
  AppendOptions,
  AppendResult,
  Appended,
  Backup,
  BackupOptions,
  Chat,
  ChatFilter,
  ChatList,
  ChatMessage,
  ChatRequest,
  Committed,
  CompactOptions,
  CompactProgress,
  Compaction,
  ContextEventType,
  CopiedSession,
  CopySession,
  DanglingToolCall,
  DefinedTool,
  DelegateOptions,
  Durability,
  Erase,
  Erased,
  EventHeads,
  EventOptions,
  ExportSelection,
  Exported,
  FlowState,
  FlowSummary,
  GivenOp,
  ImportReport,
  Imported,
  InboxChange,
  InstanceId,
  ListAgents,
  ListFlows,
  ListMessages,
  ListRequests,
  ListRunMessages,
  ListRuns,
  ListSessions,
  ListSteps,
  ListToolCalls,
  MadeOrchestrator,
  Mark,
  MessageFilter,
  MessageHead,
  NewAgentDefinition,
  NewChat,
  NewChatMessage,
  NewInstance,
  NewMark,
  NewRequest,
  NewRun,
  NewSession,
  NewStep,
  OpenOptions,
  OrchestratorOptions,
  PlaybackOptions,
  PlayedHead,
  Read,
  Recorded,
  Recovery,
  Report,
  RequestDetails,
  RequestEnd,
  RequestPlace,
  ResumeOptions,
  ResumedRunHead,
  ResumptionParts,
  RetainProgress,
  Retained,
  RetentionPolicy,
  Run,
  RunDetails,
  RunId,
  RunMessageHead,
  RunSummary,
  SearchMessages,
  Session,
  SessionId,
  SessionStatus,
  SnapshotHead,
  SpawnRequest,
  SpawnResult,
  StartAgent,
  Stat,
  Step,
  StepType,
  StillThere,
  StopKind,
  StopReason,
  StreamInfo,
  Taken,
  ToolAnswer,
  ToolCallHead,
  ToolOutcome,
  UnfinishedRequest,
  Verification,
  Watched,
} from "./types.js";

export interface RootCalls {
  open: { args: {
    options?: OpenOptions | undefined;
    path: string;
  }; made: Recovery };
  openInMemory: { args: OpenOptions; made: Recovery };
  attach: { args: {
    token: number;
  }; made: Recovery };
  timerOver: { args: {
    timer: number;
  }; value: undefined };
  toolDefinitions: { args: undefined; value: DefinedTool[] };
  version: { args: undefined; value: string };
}

export interface StoreCalls {
  close: { args: undefined; value: undefined };
  stat: { args: undefined; value: Stat };
  verify: { args: undefined; value: Verification };
  backup: { args: {
    folder: string;
    options?: BackupOptions | undefined;
  }; value: Backup };
  compact: { args: {
    options?: CompactOptions | undefined;
    watch?: number | undefined;
  }; value: Compaction };
  compactProgress: { args: {
    watch: number;
  }; value: CompactProgress | undefined };
  retain: { args: {
    policy: RetentionPolicy;
    watch?: number | undefined;
  }; value: Retained };
  retainProgress: { args: {
    watch: number;
  }; value: RetainProgress | undefined };
  erase: { args: {
    what: Erase;
  }; value: Erased };
  share: { args: undefined; value: number };
  mark: { args: {
    watched: Watched;
  }; value: Mark };
  changed: { args: {
    mark: NewMark;
  }; value: undefined };
  sync: { args: undefined; value: undefined };
  newId: { args: undefined; value: string };
  appendMessage: { args: {
    instanceId: InstanceId;
    options?: AppendOptions | undefined;
  }; value: AppendResult };
  appendMessages: { args: {
    /** What each message says beside its content. */
    events: readonly EventOptions[];
    instanceId: InstanceId;
    lengths: readonly number[];
    options?: AppendOptions | undefined;
  }; value: AppendResult };
  appendEvent: { args: {
    eventType: ContextEventType;
    instanceId: InstanceId;
    options?: AppendOptions | undefined;
    toolCallId?: string | undefined;
  }; packed: EventHeads };
  events: { args: {
    from?: number | undefined;
    instanceId: InstanceId;
  }; packed: EventHeads };
  followed: { args: {
    instanceId: InstanceId;
    position: number;
    sequence: number;
  }; value: StillThere };
  event: { args: {
    instanceId: InstanceId;
    sequence: number;
  }; packed: EventHeads };
  getMessages: { args: {
    from?: number | undefined;
    instanceId: InstanceId;
  }; packed: unknown };
  getRawMessages: { args: {
    from?: number | undefined;
    instanceId: InstanceId;
  }; packed: MessageHead[] };
  getLastSequence: { args: {
    instanceId: InstanceId;
  }; value: number };
  deleteEventsAfter: { args: {
    instanceId: InstanceId;
    sequence: number;
  }; value: number };
  copyEvents: { args: {
    source: InstanceId;
    target: InstanceId;
    upToSequence?: number | undefined;
  }; value: number };
  danglingToolCalls: { args: {
    instanceId: InstanceId;
  }; value: DanglingToolCall[] };
  closeDanglingToolCalls: { args: {
    instanceId: InstanceId;
    reason: string;
  }; value: DanglingToolCall[] };
  context: { args: {
    instanceId: InstanceId;
  }; value: AgentInstance };
  append: { args: undefined; value: Appended };
  commit: { args: {
    durability?: Durability | undefined;
    key?: string | undefined;
    ops: readonly GivenOp[];
  }; value: Committed };
  read: { args: Read; packed: undefined };
  scan: { args: {
    from: number;
    limit?: number | undefined;
  }; packed: undefined };
  heads: { args: {
    from: number;
  }; packed: undefined };
  search: { args: {
    from: number;
    text: string;
  }; packed: undefined };
  record: { args: {
    position: number;
  }; packed: undefined };
  stream: { args: {
    stream: string;
  }; value: StreamInfo | undefined };
  streams: { args: undefined; value: StreamInfo[] };
  latestSnapshot: { args: {
    atOrBefore?: number | undefined;
    stream: string;
  }; beside: SnapshotHead | undefined };
  lastPosition: { args: undefined; value: number };
  createSession: { args: NewSession; value: Session };
  startSession: { args: {
    agentName: string;
    session: NewSession;
  }; value: [Session, AgentInstance] };
  getOrStartSession: { args: {
    agentName: string;
    session: NewSession;
  }; value: [Session, AgentInstance] };
  getSession: { args: {
    id: SessionId;
  }; value: Session | undefined };
  findSession: { args: {
    text: string;
  }; value: Session };
  listSessions: { args: ListSessions; value: Page<Session> };
  updateSession: { args: {
    id: SessionId;
    /** The metadata, replaced as a whole. */
    metadata?: unknown | undefined;
    /** Whether it is in use. */
    status?: SessionStatus | undefined;
    /** The title; an empty one takes the title away. */
    title?: string | undefined;
  }; value: Session };
  archiveSession: { args: {
    id: SessionId;
  }; value: Session };
  unarchiveSession: { args: {
    id: SessionId;
  }; value: Session };
  deleteSession: { args: {
    id: SessionId;
  }; value: undefined };
  copySession: { args: {
    id: SessionId;
    options?: CopySession | undefined;
  }; value: CopiedSession };
  truncateSession: { args: {
    afterSequence: number;
    id: SessionId;
  }; value: number };
  sequenceAtMessage: { args: {
    id: SessionId;
    messageId: string;
  }; value: number };
  createInstance: { args: NewInstance; value: AgentInstance };
  getInstance: { args: {
    id: InstanceId;
  }; value: AgentInstance | undefined };
  instances: { args: {
    sessionId: SessionId;
  }; value: AgentInstance[] };
  childInstances: { args: {
    instanceId: InstanceId;
  }; value: AgentInstance[] };
  rootInstance: { args: {
    sessionId: SessionId;
  }; value: AgentInstance };
  startRun: { args: {
    /** How long each of the messages is, which stand beside it one after the other. */
    lengths: readonly number[];
    new: NewRun;
  }; made: Run };
  resumeRun: { args: {
    options?: ResumeOptions | undefined;
    runId: RunId;
  }; made: ResumedRunHead };
  recorder: { args: {
    runId: RunId;
  }; made: Run };
  describeRun: { args: {
    details: RunDetails;
    runId: RunId;
  }; value: Run };
  recoverRuns: { args: undefined; value: RunId[] };
  listRuns: { args: ListRuns; value: Page<RunSummary> };
  childRuns: { args: {
    cursor?: string | undefined;
    limit?: number | undefined;
    runId: RunId;
  }; value: Page<RunSummary> };
  getRun: { args: {
    runId: RunId;
  }; value: Run | undefined };
  runMessages: { args: {
    options?: ListRunMessages | undefined;
    runId: RunId;
  }; packed: Page<RunMessageHead> };
  runMessage: { args: {
    messageId: number;
    runId: RunId;
  }; packed: Page<RunMessageHead> };
  toolCalls: { args: {
    options?: ListToolCalls | undefined;
    runId: RunId;
  }; packed: Page<ToolCallHead> };
  toolCall: { args: {
    callId: number;
    runId: RunId;
  }; packed: Page<ToolCallHead> };
  createFlow: { args: {
    runId?: RunId | undefined;
  }; made: FlowState };
  resumeFlow: { args: {
    message?: string | undefined;
    runId: RunId;
  }; made: FlowState };
  listFlows: { args: ListFlows; value: Page<FlowSummary> };
  getFlow: { args: {
    runId: RunId;
  }; value: FlowSummary | undefined };
  playback: { args: {
    options?: PlaybackOptions | undefined;
    runId: RunId;
  }; made: RunSnapshot | undefined };
  createChat: { args: NewChat; value: Chat };
  getChat: { args: {
    chatId: string;
  }; value: Chat | undefined };
  chatSessionId: { args: {
    chatId: string;
  }; value: SessionId };
  updateChat: { args: {
    chatId: string;
    updates: Updates<Chat>;
  }; value: Chat };
  deleteChat: { args: {
    chatId: string;
  }; value: undefined };
  restoreChat: { args: {
    chatId: string;
  }; value: Chat };
  listChats: { args: ChatFilter; value: ChatList };
  saveMessages: { args: {
    after?: string | undefined;
    chatId: string;
    messages: readonly NewChatMessage[];
  }; value: ChatMessage[] };
  getChatMessages: { args: {
    chatId: string;
    filter?: MessageFilter | undefined;
  }; packed: ChatMessage[] };
  listChatMessages: { args: {
    chatId: string;
    filter?: ListMessages | undefined;
  }; value: Page<ChatMessage> };
  countChatMessages: { args: {
    chatId: string;
    filter?: MessageFilter | undefined;
  }; value: number };
  searchMessages: { args: SearchMessages; value: Page<ChatMessage> };
  updateMessage: { args: {
    messageId: string;
    updates: Updates<ChatMessage>;
  }; value: ChatMessage };
  redactMessage: { args: {
    messageId: string;
    reason: string;
  }; value: undefined };
  deleteMessages: { args: {
    chatId: string;
    messageIds: readonly string[];
  }; value: undefined };
  saveSteps: { args: {
    steps: readonly NewStep[];
  }; value: Step[] };
  updateStep: { args: {
    stepId: string;
    updates: Updates<Step>;
  }; value: Step };
  getSteps: { args: {
    requestId: string;
  }; value: Step[] };
  listSteps: { args: {
    filter?: ListSteps | undefined;
  }; value: Page<Step> };
  listRequests: { args: ListRequests; value: Page<UnfinishedRequest> };
  getRequests: { args: {
    chatId: string;
  }; packed: ChatRequest[] };
  getRequest: { args: {
    requestId: string;
  }; value: ChatRequest | undefined };
  getLastIncompleteStep: { args: {
    chatId: string;
  }; value: Step | undefined };
  getStepsByStackId: { args: {
    stackId: string;
  }; value: Step[] };
  getStackPath: { args: {
    stackId: string;
  }; value: string[] };
  beginRequest: { args: {
    chatId: string;
    message: NewChatMessage;
    request: NewRequest;
  }; made: RequestPlace };
  answerAgain: { args: {
    chatId: string;
    messageId: string;
    request: NewRequest;
  }; made: RequestPlace };
  resumeChat: { args: {
    chatId: string;
    requestId?: string | undefined;
  }; made: ResumptionParts | undefined };
  dismiss: { args: {
    requestId: string;
  }; value: Step[] };
  completeDelegate: { args: {
    chatId: string;
    output: unknown;
    stackId: string;
  }; value: Step };
  importAgentChat: { args: {
    lines: string;
  }; value: ImportReport };
  importAgentMessage: { args: {
    lines: string;
  }; value: ImportReport };
  importAgentStep: { args: {
    lines: string;
  }; value: ImportReport };
  importAgentHistory: { args: {
    lines: string;
  }; value: ImportReport };
  defineAgent: { args: NewAgentDefinition; value: AgentDefinition };
  putAgent: { args: NewAgentDefinition; value: AgentDefinition };
  updateAgent: { args: {
    name: string;
    project?: string | undefined;
    updates: Updates<AgentDefinition>;
  }; value: AgentDefinition };
  deleteAgent: { args: {
    name: string;
    project?: string | undefined;
  }; value: undefined };
  getAgent: { args: {
    name: string;
    project?: string | undefined;
  }; value: AgentDefinition | undefined };
  listAgents: { args: ListAgents; value: Page<AgentDefinition> };
  listAvailableAgents: { args: {
    project?: string | undefined;
  }; value: AgentSummary[] };
  orchestrate: { args: OrchestratorOptions; made: MadeOrchestrator };
  exportTo: { args: {
    path: string;
    what?: ExportSelection | undefined;
  }; value: Exported };
  export: { args: {
    what?: ExportSelection | undefined;
  }; made: undefined };
  importFrom: { args: {
    path: string;
    strict?: boolean | undefined;
  }; value: Imported };
  import: { args: undefined; made: undefined };
}

export interface RecorderCalls {
  run: { args: undefined; value: Run };
  nextStep: { args: undefined; value: number };
  recordMessage: { args: AppendOptions; value: Recorded };
  recordMessages: { args: {
    lengths: readonly number[];
    options?: AppendOptions | undefined;
  }; value: Recorded };
  checkToolCall: { args: {
    toolCallId: string;
  }; value: number };
  recordToolResult: { args: ToolOutcome; value: Recorded };
  recordToolResults: { args: {
    lengths: readonly number[];
    outcomes: readonly ToolOutcome[];
  }; value: Recorded };
  recordToolCall: { args: {
    lengths: readonly number[];
    outcomes: readonly ToolOutcome[];
  }; value: Recorded };
  describe: { args: RunDetails; value: Run };
  pause: { args: {
    kind?: StopKind | undefined;
    reason?: string | undefined;
  }; value: Run };
  complete: { args: {
    summary?: string | undefined;
  }; value: Run };
  fail: { args: {
    error: string;
  }; value: Run };
  cancel: { args: {
    summary?: string | undefined;
  }; value: Run };
}

export interface RunContextCalls {
  end: { args: {
    error?: string | undefined;
    paused?: string | undefined;
    summary?: string | undefined;
  }; value: undefined };
  run: { args: undefined; value: Run };
  getMessages: { args: undefined; packed: unknown };
  getRawMessages: { args: undefined; packed: MessageHead[] };
  nextStep: { args: undefined; value: number };
  describe: { args: RunDetails; value: Run };
  recordMessage: { args: AppendOptions; value: Recorded };
  recordMessages: { args: {
    lengths: readonly number[];
    options?: AppendOptions | undefined;
  }; value: Recorded };
  checkToolCall: { args: {
    toolCallId: string;
  }; value: number };
  recordToolResult: { args: ToolOutcome; value: Recorded };
  recordToolResults: { args: {
    lengths: readonly number[];
    outcomes: readonly ToolOutcome[];
  }; value: Recorded };
  recordToolCall: { args: {
    lengths: readonly number[];
    outcomes: readonly ToolOutcome[];
  }; value: Recorded };
  recordEvents: { args: {
    lengths: readonly number[];
  }; value: undefined };
  saveSnapshot: { args: undefined; value: undefined };
  snapshot: { args: undefined; value: RunSnapshot | undefined };
  nextCommand: { args: undefined; value: ReceivedCommand };
  takeCommand: { args: undefined; value: ReceivedCommand | undefined };
  spawn: { args: {
    requests: readonly SpawnRequest[];
    toolCallId?: string | undefined;
  }; made: (RunId | undefined)[] };
  answerToolCall: { args: {
    name: string;
    toolCallId: string;
  }; value: ToolAnswer | undefined };
  listAvailableAgents: { args: undefined; value: AgentSummary[] };
  cancelled: { args: undefined; value: StopReason | undefined };
}

export interface OrchestratorCalls {
  register: { args: {
    agentName?: string | undefined;
  }; value: undefined };
  start: { args: StartAgent; made: RunId };
  resume: { args: {
    options?: ResumeOptions | undefined;
    runId: RunId;
    timeoutMs?: number | undefined;
  }; made: RunId };
  resumeAll: { args: undefined; value: Report };
  spawn: { args: {
    requests: readonly SpawnRequest[];
    runId: RunId;
    toolCallId?: string | undefined;
  }; made: (RunId | undefined)[] };
  pause: { args: {
    kind?: StopKind | undefined;
    reason?: string | undefined;
    runId: RunId;
  }; value: undefined };
  cancel: { args: {
    runId: RunId;
  }; value: undefined };
  send: { args: {
    runId: RunId;
  }; value: undefined };
  handle: { args: {
    runId: RunId;
  }; made: RunId | undefined };
  liveCount: { args: undefined; value: number };
}

export interface RunHandleCalls {
  wait: { args: undefined; value: SpawnResult };
  cancel: { args: undefined; value: undefined };
  send: { args: undefined; value: undefined };
}

export interface SpawnedCalls {
  next: { args: undefined; value: [number, SpawnResult] | undefined };
  cancel: { args: {
    runId: RunId;
  }; value: undefined };
  send: { args: {
    runId: RunId;
  }; value: undefined };
  results: { args: undefined; value: SpawnResult[] };
}

export interface RequestCalls {
  finish: { args: {
    end: RequestEnd;
  }; value: undefined };
  flush: { args: undefined; value: undefined };
  send: { args: NewChatMessage; value: string };
  describe: { args: RequestDetails; value: undefined };
  append: { args: {
    messageId: string;
    value: string;
  }; value: undefined };
  replace: { args: {
    messageId: string;
    type?: string | undefined;
    value: unknown;
  }; value: undefined };
  startStep: { args: {
    input: unknown;
    stackId?: string | undefined;
    type: StepType;
  }; value: string };
  delegate: { args: {
    assistantId: string;
    options?: DelegateOptions | undefined;
  }; value: string };
  completeStep: { args: {
    output?: unknown | undefined;
    stepId: string;
  }; value: undefined };
  failStep: { args: {
    error: string;
    stepId: string;
  }; value: undefined };
  enter: { args: {
    assistantId: string;
    stackId?: string | undefined;
  }; value: RequestPlace };
  leave: { args: undefined; value: RequestPlace };
}

export interface SpaceCalls {
  spaceGet: { args: {
    key: string;
  }; value: unknown | undefined };
  spaceSet: { args: {
    key: string;
    value: unknown;
  }; value: undefined };
  spaceGetAndDelete: { args: {
    key: string;
  }; value: unknown | undefined };
  spaceSnapshot: { args: undefined; value: unknown };
  spaceRestore: { args: undefined; value: undefined };
  spaceKeys: { args: undefined; value: string[] };
}

export interface ResumptionCalls {
  goOn: { args: undefined; made: RequestPlace };
  complete: { args: {
    output: unknown;
  }; value: Step[] };
}

export interface FlowCalls {
  record: { args: {
    durability?: Durability | undefined;
    lengths: readonly number[];
  }; value: number };
  saveSnapshot: { args: undefined; value: InboxChange };
  startAgent: { args: {
    nodeId: string;
    sessionId: string;
  }; value: InboxChange };
  finishNode: { args: {
    nodeId: string;
    output: unknown;
  }; value: InboxChange };
  command: { args: undefined; value: InboxChange };
  refresh: { args: undefined; value: InboxChange };
  takeInbox: { args: {
    runId?: string | undefined;
    waits?: boolean | undefined;
  }; value: Taken };
  takeMessage: { args: {
    runId: string;
  }; value: Taken };
  giveBack: { args: undefined; value: InboxChange };
}

export interface PlaybackCalls {
  seek: { args: {
    backward?: boolean | undefined;
    sequence: number;
  }; value: undefined };
  nextPage: { args: undefined; packed: PlayedHead[] };
}

export interface ExportCalls {
  next: { args: undefined; packed: undefined };
}

export interface ImportCalls {
  write: { args: undefined; value: undefined };
  finish: { args: {
    strict?: boolean | undefined;
  }; value: Imported };
}
