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
    instance: InstanceId;
    options?: AppendOptions | undefined;
  }; value: AppendResult };
  appendMessages: { args: {
    /** What each message says beside its content. */
    events: readonly EventOptions[];
    instance: InstanceId;
    lengths: readonly number[];
    options?: AppendOptions | undefined;
  }; value: AppendResult };
  appendEvent: { args: {
    eventType: ContextEventType;
    instance: InstanceId;
    options?: AppendOptions | undefined;
    toolCallId?: string | undefined;
  }; packed: EventHeads };
  events: { args: {
    from?: number | undefined;
    instance: InstanceId;
  }; packed: EventHeads };
  followed: { args: {
    instance: InstanceId;
    position: number;
    sequence: number;
  }; value: StillThere };
  event: { args: {
    instance: InstanceId;
    sequence: number;
  }; packed: EventHeads };
  getMessages: { args: {
    from?: number | undefined;
    instance: InstanceId;
  }; packed: unknown };
  getRawMessages: { args: {
    from?: number | undefined;
    instance: InstanceId;
  }; packed: MessageHead[] };
  getLastSequence: { args: {
    instance: InstanceId;
  }; value: number };
  deleteEventsAfter: { args: {
    instance: InstanceId;
    sequence: number;
  }; value: number };
  copyEvents: { args: {
    source: InstanceId;
    target: InstanceId;
    upToSequence?: number | undefined;
  }; value: number };
  danglingToolCalls: { args: {
    instance: InstanceId;
  }; value: DanglingToolCall[] };
  closeDanglingToolCalls: { args: {
    instance: InstanceId;
    reason: string;
  }; value: DanglingToolCall[] };
  context: { args: {
    instance: InstanceId;
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
  createInstance: { args: NewInstance; value: AgentInstance };
  getInstance: { args: {
    id: InstanceId;
  }; value: AgentInstance | undefined };
  instances: { args: {
    id: SessionId;
  }; value: AgentInstance[] };
  childInstances: { args: {
    id: InstanceId;
  }; value: AgentInstance[] };
  rootInstance: { args: {
    id: SessionId;
  }; value: AgentInstance };
  startRun: { args: {
    /** How long each of the messages is, which stand beside it one after the other. */
    lengths: readonly number[];
    new: NewRun;
  }; made: Run };
  resumeRun: { args: {
    options?: ResumeOptions | undefined;
    run: RunId;
  }; made: ResumedRunHead };
  recorder: { args: {
    run: RunId;
  }; made: Run };
  describeRun: { args: {
    details: RunDetails;
    run: RunId;
  }; value: Run };
  recoverRuns: { args: undefined; value: RunId[] };
  listRuns: { args: ListRuns; value: Page<RunSummary> };
  childRuns: { args: {
    cursor?: string | undefined;
    limit?: number | undefined;
    run: RunId;
  }; value: Page<RunSummary> };
  getRun: { args: {
    run: RunId;
  }; value: Run | undefined };
  runMessages: { args: {
    options?: ListRunMessages | undefined;
    run: RunId;
  }; packed: Page<RunMessageHead> };
  runMessage: { args: {
    id: number;
    run: RunId;
  }; packed: Page<RunMessageHead> };
  toolCalls: { args: {
    options?: ListToolCalls | undefined;
    run: RunId;
  }; packed: Page<ToolCallHead> };
  toolCall: { args: {
    id: number;
    run: RunId;
  }; packed: Page<ToolCallHead> };
  createFlow: { args: {
    run?: RunId | undefined;
  }; made: FlowState };
  resumeFlow: { args: {
    message?: string | undefined;
    run: RunId;
  }; made: FlowState };
  listFlows: { args: ListFlows; value: Page<FlowSummary> };
  getFlow: { args: {
    run: RunId;
  }; value: FlowSummary | undefined };
  playback: { args: {
    options?: PlaybackOptions | undefined;
    run: RunId;
  }; made: RunSnapshot | undefined };
  createChat: { args: NewChat; value: Chat };
  getChat: { args: {
    chat: string;
  }; value: Chat | undefined };
  updateChat: { args: {
    id: string;
    updates: Updates<Chat>;
  }; value: Chat };
  deleteChat: { args: {
    chat: string;
  }; value: undefined };
  restoreChat: { args: {
    chat: string;
  }; value: Chat };
  listChats: { args: ChatFilter; value: ChatList };
  saveMessages: { args: {
    chat: string;
    messages: readonly NewChatMessage[];
  }; value: ChatMessage[] };
  getChatMessages: { args: {
    chat: string;
    filter?: MessageFilter | undefined;
  }; packed: ChatMessage[] };
  listChatMessages: { args: {
    chat: string;
    filter?: ListMessages | undefined;
  }; value: Page<ChatMessage> };
  countChatMessages: { args: {
    chat: string;
    filter?: MessageFilter | undefined;
  }; value: number };
  updateMessage: { args: {
    id: string;
    updates: Updates<ChatMessage>;
  }; value: ChatMessage };
  redactMessage: { args: {
    id: string;
    reason: string;
  }; value: undefined };
  deleteMessages: { args: {
    chat: string;
    ids: readonly string[];
  }; value: undefined };
  saveSteps: { args: {
    steps: readonly NewStep[];
  }; value: Step[] };
  updateStep: { args: {
    id: string;
    updates: Updates<Step>;
  }; value: Step };
  getSteps: { args: {
    id: string;
  }; value: Step[] };
  listSteps: { args: {
    filter?: ListSteps | undefined;
  }; value: Page<Step> };
  listRequests: { args: ListRequests; value: Page<UnfinishedRequest> };
  getRequest: { args: {
    id: string;
  }; value: ChatRequest | undefined };
  getLastIncompleteStep: { args: {
    chat: string;
  }; value: Step | undefined };
  getStepsByStackId: { args: {
    id: string;
  }; value: Step[] };
  getStackPath: { args: {
    id: string;
  }; value: string[] };
  beginRequest: { args: {
    chat: string;
    message: NewChatMessage;
    request: NewRequest;
  }; made: RequestPlace };
  resumeChat: { args: {
    chat: string;
    requestId?: string | undefined;
  }; made: ResumptionParts | undefined };
  dismiss: { args: {
    id: string;
  }; value: Step[] };
  completeDelegate: { args: {
    chat: string;
    output: unknown;
    stack: string;
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
    run: RunId;
    timeoutMs?: number | undefined;
  }; made: RunId };
  resumeAll: { args: undefined; value: Report };
  spawn: { args: {
    requests: readonly SpawnRequest[];
    run: RunId;
    toolCallId?: string | undefined;
  }; made: (RunId | undefined)[] };
  pause: { args: {
    kind?: StopKind | undefined;
    reason?: string | undefined;
    run: RunId;
  }; value: undefined };
  cancel: { args: {
    run: RunId;
  }; value: undefined };
  send: { args: {
    run: RunId;
  }; value: undefined };
  handle: { args: {
    run: RunId;
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
    run: RunId;
  }; value: undefined };
  send: { args: {
    run: RunId;
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
    id: string;
    value: string;
  }; value: undefined };
  replace: { args: {
    id: string;
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
    id: string;
    output?: unknown | undefined;
  }; value: undefined };
  failStep: { args: {
    error: string;
    id: string;
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
  saveSnapshot: { args: undefined; value: ReceivedCommand[] };
  startAgent: { args: {
    nodeId: string;
    sessionId: string;
  }; value: ReceivedCommand[] };
  finishNode: { args: {
    nodeId: string;
    output: unknown;
  }; value: ReceivedCommand[] };
  command: { args: undefined; value: ReceivedCommand[] };
  refresh: { args: undefined; value: ReceivedCommand[] };
  takeInbox: { args: {
    runId?: string | undefined;
    waits?: boolean | undefined;
  }; value: Taken };
  takeMessage: { args: {
    runId: string;
  }; value: Taken };
  giveBack: { args: undefined; value: ReceivedCommand[] };
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
