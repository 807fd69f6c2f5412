/** The kind bytes of records that the viewer tells of; docs/model.md has all of them. */
export const Kind = {
  System: 1,
  User: 2,
  Assistant: 3,
  ToolCall: 4,
  ToolResult: 5,
  SessionCreated: 16,
  SessionUpdated: 17,
  SessionDeleted: 18,
  InstanceCreated: 19,
  SessionRestored: 20,
  /** In the catalog: the title of a session, and what else is known of its subject. */
  SessionDescribed: 21,
  RunCreated: 32,
  StepStarted: 33,
  RunStatus: 34,
  RunResumed: 35,
  RunDescribed: 36,
  /** How a run paused or ended, in words; right behind its status. */
  RunExplained: 37,
  Spawned: 48,
  SpaceSaved: 49,
  CommandsTaken: 50,
  ChatMessage: 64,
  ChatMessageChanged: 65,
  ChatMessagesDeleted: 66,
  ChatStep: 67,
  ChatStepChanged: 68,
  ChatCopied: 69,
  ChatRequest: 70,
  /** A step that was saved as what differs from the one before. */
  ChatStepDifference: 71,
  FlowAgent: 96,
  FlowDelta: 97,
  Flow: 98,
  FlowNode: 99,
  FlowEdge: 100,
  FlowCommand: 101,
  ListedFlow: 112,
  StreamMade: 128,
  Snapshot: 129,
  Truncate: 130,
  Fork: 131,
  Delete: 132,
  Redact: 133,
} as const;

const NAMES = new Map<number, string>([
  [Kind.System, "system"],
  [Kind.User, "user"],
  [Kind.Assistant, "assistant"],
  [Kind.ToolCall, "tool call"],
  [Kind.ToolResult, "tool result"],
  [Kind.RunCreated, "run started"],
  [Kind.StepStarted, "step begun"],
  [Kind.RunStatus, "run status"],
  [Kind.RunResumed, "run resumed"],
  [Kind.RunDescribed, "run described"],
  [Kind.RunExplained, "run outcome"],
  [Kind.Spawned, "spawned"],
  [Kind.SpaceSaved, "space"],
  [Kind.CommandsTaken, "commands taken"],
  [Kind.ChatMessage, "chat message"],
  [Kind.ChatMessageChanged, "message changed"],
  [Kind.ChatMessagesDeleted, "messages deleted"],
  [Kind.ChatStep, "chat step"],
  [Kind.ChatStepChanged, "step changed"],
  [Kind.ChatCopied, "chat copied"],
  [Kind.ChatRequest, "chat request"],
  [Kind.ChatStepDifference, "chat step"],
  [Kind.FlowAgent, "agent"],
  [Kind.FlowDelta, "agent delta"],
  [Kind.Flow, "flow"],
  [Kind.FlowNode, "node"],
  [Kind.FlowEdge, "edge"],
  [Kind.FlowCommand, "command"],
  [Kind.Snapshot, "snapshot"],
  [Kind.Truncate, "truncation"],
  [Kind.Fork, "fork"],
  [Kind.Redact, "redaction"],
]);

/** What a record is called. */
export function kindName(kind: number): string {
  return NAMES.get(kind) ?? `kind ${kind}`;
}

/** Whether a record is one of a run's own stream. Those from 40 on are the catalog's of runs. */
export function isOfRun(kind: number): boolean {
  return (kind >= Kind.RunCreated && kind < 40) || (kind >= Kind.Spawned && kind < 64);
}

/** Whether a record is one of a chat, in the stream of its session. Those from 80 on are the catalog's of sessions. */
export function isOfChat(kind: number): boolean {
  return kind >= 64 && kind < 80;
}

/** Whether a record is one of a flow, in its stream. */
export function isOfFlow(kind: number): boolean {
  return kind >= Kind.FlowAgent && kind <= 111;
}

/** The groups that events are filtered by. */
export const TYPES = ["system", "user", "assistant", "tool", "run", "snapshot", "fork", "truncation", "flow", "chat", "other"] as const;
export type TypeName = (typeof TYPES)[number];

export function typeOf(kind: number): TypeName {
  if (kind === Kind.System) return "system";
  if (kind === Kind.User) return "user";
  if (kind === Kind.Assistant) return "assistant";
  if (kind === Kind.ToolCall || kind === Kind.ToolResult) return "tool";
  if (kind === Kind.Snapshot || kind === Kind.SpaceSaved) return "snapshot";
  if (isOfRun(kind)) return "run";
  if (kind === Kind.Fork) return "fork";
  if (kind === Kind.Truncate) return "truncation";
  if (isOfFlow(kind)) return "flow";
  if (isOfChat(kind)) return "chat";
  return "other";
}
