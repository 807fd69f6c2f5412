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
  RunCreated: 32,
  StepStarted: 33,
  RunStatus: 34,
  RunResumed: 35,
  ListedRun: 40,
  ListedRunStatus: 41,
  Spawned: 48,
  SpaceSaved: 49,
  FlowAgent: 96,
  FlowDelta: 97,
  Flow: 98,
  FlowNode: 99,
  FlowEdge: 100,
  FlowCommand: 101,
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
  [Kind.Spawned, "spawned"],
  [Kind.SpaceSaved, "space"],
  [64, "chat message"],
  [65, "chat message changed"],
  [66, "chat messages deleted"],
  [67, "chat step"],
  [68, "chat step changed"],
  [69, "chat copied"],
  [71, "chat step"],
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

/** The groups that events are filtered by. */
export const TYPES = ["system", "user", "assistant", "tool", "run", "snapshot", "fork", "truncation", "flow", "other"] as const;
export type TypeName = (typeof TYPES)[number];

export function typeOf(kind: number): TypeName {
  if (kind === Kind.System) return "system";
  if (kind === Kind.User) return "user";
  if (kind === Kind.Assistant) return "assistant";
  if (kind === Kind.ToolCall || kind === Kind.ToolResult) return "tool";
  if (kind >= 32 && kind <= 48) return "run";
  if (kind === Kind.Snapshot || kind === Kind.SpaceSaved) return "snapshot";
  if (kind === Kind.Fork) return "fork";
  if (kind === Kind.Truncate) return "truncation";
  if (kind >= 96 && kind <= 111) return "flow";
  return "other";
}
