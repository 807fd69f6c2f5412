import { fieldsOf } from "./checks.js";
import { type GivenAs, invalid } from "./error.js";
import type {
  NewInstance,
  NewRun as GivenRun,
  NewSession,
  Role,
  RunMessageHead,
  RunPlace as GivenPlace,
  StopKind,
  ToolCallHead,
  ToolCallStatus,
  ToolOutcome as GivenOutcome,
} from "./generated/types.js";
import { showsItsJson } from "./inspect.js";
import type { MessageInput } from "./context-types.js";
import { parseBytes, textOf } from "./json.js";

/** Why a run is paused. */
export interface PauseReason {
  /** What stops it; `requested` when left out. */
  kind?: StopKind | undefined;
  /** Why, in words. */
  reason?: string | undefined;
}

/** A run works in the context of an instance that is there. */
export interface RunInInstance {
  /** The instance. */
  instanceId: string;
  /** The agent that it is a run of, where that isn't the instance's. */
  agentName?: string | undefined;
}

/** A run works in a context that is made with it, in a session that is there. */
export interface RunInNewInstance {
  /** The instance to make. */
  newInstance: NewInstance;
}

/** A run works in the root context of a session that is made with it. */
export interface RunInNewSession {
  /** The session to make. */
  session: NewSession;
  /** The agent that it is a run of, and that the session's root instance is of. */
  agentName: string;
}

/** The context that a run works in: an instance that is there, one made with the run, or a session made with it. */
export type RunPlace = OneOf<RunInInstance | RunInNewInstance | RunInNewSession>;

/**
 * One of some alternatives, without the fields of the others: giving two of them doesn't compile.
 *
 * @typeParam All - The alternatives, as a union.
 * @typeParam One - One of them; all, unless given.
 */
export type OneOf<All, One = All> = One extends unknown
  ? One & { [Field in Exclude<All extends unknown ? keyof All : never, keyof One>]?: undefined }
  : never;

/** A run to start. */
export type NewRun = RunPlace &
  Omit<GivenRun, "place" | "agentName"> & {
    /** Messages it begins with, before its first step. */
    messages?: readonly MessageInput[] | undefined;
  };

/** What a tool gave for one call. */
export type ToolOutcome = Omit<GivenOutcome, "output" | "status"> & {
  /**
   * What the tool gave, or the details of its error. Providers take text or an array of content parts: another value is put into
   * the message as its JSON text, where the form of the provider has no place for it. The history ({@link ToolCall.output}) has it
   * as it was given.
   */
  output: unknown;
  /** Whether it is an error; `completed` when left out. */
  status?: "completed" | "error" | undefined;
};

/** One message of a run. Its content is looked at when it is asked for. */
export class RunMessage {
  /** Its id: its position in the log. */
  readonly id: number;
  /** The run it belongs to. */
  readonly runId: string;
  /** Who it is from. */
  readonly role: Role;
  /** The step of the run; before the first one, the steps of the runs it was resumed from. */
  readonly stepNumber: number;
  /** When it was recorded: milliseconds since 1970-01-01 UTC. */
  readonly createdAtMs: number;
  /** Its sequence in the instance's context. */
  readonly sequenceNumber: number;
  readonly #bytes: Uint8Array;

  /** @internal */
  constructor(head: RunMessageHead, bytes: Uint8Array) {
    this.id = head.id;
    this.runId = head.runId;
    this.role = head.role;
    this.stepNumber = head.stepNumber;
    this.createdAtMs = head.createdAtMs;
    this.sequenceNumber = head.sequenceNumber;
    this.#bytes = bytes;
  }

  /** The whole message as it was sent to the model, byte for byte; what was redacted says `[redacted]`. */
  get json(): string {
    return textOf(this.#bytes);
  }

  /** The whole message as a value: tool calls with their ids and arguments too. */
  content<T = unknown>(): T {
    return parseBytes<T>(this.#bytes);
  }

  /** The message with its place, for `JSON.stringify`. */
  toJSON(): object {
    return { ...this, content: this.content() };
  }
}

/** One invocation of a tool. Its input and output are looked at when they are asked for. */
export class ToolCall {
  /** Its id: the place of its event in the whole log. */
  readonly id: number;
  /** The run it belongs to. */
  readonly runId: string;
  /** The assistant message that asked for it. */
  readonly messageId: number | undefined;
  /** The provider's id of the call, with those that give one. */
  readonly toolCallId: string | undefined;
  /** The tool. */
  readonly toolName: string;
  /** How it ended. A redacted result has lost whether the tool failed: its call is completed. */
  readonly status: ToolCallStatus;
  /** How long the tool itself took, in milliseconds of wall clock, without the model's time. */
  readonly durationMs: number | undefined;
  /** The step of the run. */
  readonly stepNumber: number;
  /** When the call was recorded: milliseconds since 1970-01-01 UTC. */
  readonly createdAtMs: number;
  /** The sequence of its event in the instance's context. */
  readonly sequenceNumber: number;
  readonly #input: Uint8Array;
  readonly #output: Uint8Array | undefined;

  /** @internal */
  constructor(head: ToolCallHead, input: Uint8Array, output: Uint8Array | undefined) {
    this.id = head.id;
    this.runId = head.runId;
    this.messageId = head.messageId;
    this.toolCallId = head.toolCallId;
    this.toolName = head.toolName;
    this.status = head.status;
    this.durationMs = head.durationMs;
    this.stepNumber = head.stepNumber;
    this.createdAtMs = head.createdAtMs;
    this.sequenceNumber = head.sequenceNumber;
    this.#input = input;
    this.#output = output;
  }

  /** What it was called with, as text. Arguments that the provider wrote as a string of JSON are given as that JSON. */
  get inputJson(): string {
    return textOf(this.#input);
  }

  /** What it gave, as text; `undefined` while there is no result. */
  get outputJson(): string | undefined {
    return this.#output && textOf(this.#output);
  }

  /** What it was called with. */
  input<T = unknown>(): T {
    return parseBytes<T>(this.#input);
  }

  /** What it gave, the error's details where it failed; `undefined` while there is no result. */
  output<T = unknown>(): T | undefined {
    return this.#output && parseBytes<T>(this.#output);
  }

  /** The call with what it was given and what it gave, for `JSON.stringify`. */
  toJSON(): object {
    return { ...this, input: this.input(), output: this.output() };
  }
}

showsItsJson(RunMessage, ToolCall);

/** The fields of a run that is started, by their places in the call of the core. @internal */
export const RUN_GIVEN_AS: GivenAs = [
  ["new.place.instance", "instanceId"],
  ["new.place.newInstance", "newInstance"],
  // By the errors of the core, and by those of values that JSON has no form for.
  ["new.place.newSession[0]", "session"],
  ["new.place.newSession.0", "session"],
  ["new.place.newSession[1]", "agentName"],
  ["new.place.newSession.1", "agentName"],
  ["new", ""],
];

/** The place of a run, as it is sent to the core, and what else was given. @internal */
export function placeOf<Rest extends object>(run: RunPlace & Rest): { place: GivenPlace; rest: Omit<Rest, PlaceField> & { agentName?: string } } {
  type All = RunInInstance & RunInNewInstance & RunInNewSession;
  type Given = { [Field in PlaceField]?: All[Field] | undefined };
  const { instanceId, newInstance, session, agentName, ...rest } = fieldsOf(run, "a run") as Given & Rest;
  const unknown = Object.keys(rest).find((name) => !(name in BESIDE_PLACE));
  if (unknown !== undefined) throw invalid(`\`${unknown}\` is not a field that is known here; known are ${FIELDS_OF_RUN.map((name) => `\`${name}\``).join(", ")}`);
  const given = [instanceId, newInstance, session].filter((place) => place !== undefined);
  if (given.length !== 1 || (session !== undefined && agentName === undefined) || (newInstance !== undefined && agentName !== undefined)) {
    throw invalid("a run is started in an instance, in a newInstance, which has an agentName of its own, or in a session with an agentName; give one of them");
  }
  if (session !== undefined) return { place: { newSession: [session, agentName as string] }, rest };
  const place = instanceId === undefined ? { newInstance: newInstance as NewInstance } : { instance: instanceId };
  return { place, rest: agentName === undefined ? rest : { ...rest, agentName } };
}

type PlaceField = "instanceId" | "newInstance" | "session" | "agentName";

/** What a run to start has beside its place. */
const BESIDE_PLACE: Record<Exclude<keyof NewRun, PlaceField>, true> = {
  id: true,
  project: true,
  parentRunId: true,
  maxSteps: true,
  nodeId: true,
  usage: true,
  metadata: true,
  dangling: true,
  concurrent: true,
  messages: true,
};

/** All that a run to start may have: a misspelt name is refused before it is missed. */
const FIELDS_OF_RUN = ["instanceId", "newInstance", "session", "agentName", ...Object.keys(BESIDE_PLACE)];
