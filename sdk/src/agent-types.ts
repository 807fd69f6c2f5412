import { type Reply, valueOf } from "./binding.js";
import { classWithoutFields, fieldsOf, shown } from "./checks.js";
import { type GivenAs, type RunlogError, invalid, messageOf } from "./error.js";
import type { RunContextCalls } from "./generated/calls.js";
import type { DefinedTool, NewSession, SpawnResult, StartAgent as GivenStart, StartPlace } from "./generated/types.js";
import { wellFormed } from "./json.js";
import type { RunContext } from "./run-context.js";
import type { OneOf } from "./run-types.js";

/** What an agent's function returns: its final text, or nothing, or that it stopped on the way and can be resumed. */
export type AgentEnd = string | void | null | AgentDone | AgentPaused;

/** An agent has done its work. */
export interface AgentDone {
  /** Its final text, the `summary` of its run. */
  summary?: string | undefined;
}

/** An agent stops on the way: its run becomes `paused`, and can be resumed. */
export interface AgentPaused {
  /** Why. */
  paused: string;
}

/**
 * Does the work of an agent. It reads what to do from the context's messages, which is the same for a run that begins and
 * for one that goes on after a pause or a crash. What it throws fails the run; when its signal is aborted it has a while
 * to record what it has.
 */
export type AgentFunction = (context: RunContext) => AgentEnd | Promise<AgentEnd>;

/** An agent to start that no other agent spawns: in a new session, or one that is there, or a context that is there. */
export type StartAgent = Omit<GivenStart, "place"> & OneOf<StartInNewSession | StartInSession | StartInInstance>;

/** An agent starts in a session that is made with its run. */
export interface StartInNewSession {
  /** The session to make; one of no project when nothing is given. */
  session?: NewSession | undefined;
}

/** An agent starts in a session that is there. */
export interface StartInSession {
  /** The session, in which it gets a context of its own. */
  sessionId?: string | undefined;
}

/** An agent starts in a context that is there. */
export interface StartInInstance {
  /** The agent instance whose context it is, to go on with. */
  instanceId?: string | undefined;
}

/** A run that was resumed. */
export interface ResumedAgent {
  /** The paused run. */
  runId: string;
  /** What became of the run that went on from it. */
  result: SpawnResult;
}

/** A run that was left paused. */
export interface LeftPaused {
  /** The paused run. */
  runId: string;
  /** Why it couldn't be resumed. */
  error: RunlogError;
}

/** What became of the runs that a crash had cut off. */
export interface ResumeReport {
  /** The runs that were resumed, by the id of the paused one, and what became of each. */
  resumed: ResumedAgent[];
  /** The runs that were left paused, and why. */
  left: LeftPaused[];
}

/** A tool as a model is told of it. */
export interface ToolDefinition {
  /** Its name. */
  name: string;
  /** What it does. */
  description: string;
  /** What its arguments are: a JSON Schema. */
  inputSchema: Record<string, unknown>;
  /** The same, as an entry of the `tools` of a request to OpenAI. */
  openai: Record<string, unknown>;
  /** The same, as an entry of the `tools` of a request to Anthropic. */
  anthropic: Record<string, unknown>;
}

/** How an error begins that tells of another end. @internal */
export const NO_END = "the agent's function returned neither text nor { summary } or { paused }";

/** How a run ends whose agent's function returned something. @internal */
export function endOf(returned: AgentEnd): RunContextCalls["end"]["args"] {
  if (returned === undefined || returned === null) return {};
  if (typeof returned === "string") return { summary: wellFormed(returned) };
  if (typeof returned !== "object" || Array.isArray(returned)) throw invalid(`${NO_END}, but ${shown(returned)}`);
  const name = classWithoutFields(returned);
  if (name?.endsWith("Generator")) throw invalid(`${NO_END}: it is a generator (function*), whose body never ran; make it an async function`);
  if (name === "Error") throw invalid(`${NO_END}, but an Error, which is to be thrown: ${messageOf(returned)}`);
  if (name !== undefined) throw invalid(`${NO_END}, but a ${name}`);
  if (Object.keys(returned).length === 0) throw invalid(`${NO_END}, but an object without fields`);
  return { ...returned, ...("summary" in returned && { summary: wellFormed(returned.summary) }) };
}

/** The tools that models are given, as the core tells them. @internal */
export function toolsOf(reply: Reply): ToolDefinition[] {
  return valueOf<DefinedTool[]>(reply).map(({ definition, ...forms }) => ({ ...definition, ...forms }) as ToolDefinition);
}

/** The fields of the place of an agent that starts, in the call of the core. @internal */
export const START_GIVEN_AS: GivenAs = [
  ["place.newSession", "session"],
  ["place.session", "sessionId"],
  ["place.instance", "instanceId"],
];

/** An agent to start, as it is sent to the core. @internal */
export function givenStart(agent: StartAgent): GivenStart {
  const { session, sessionId, instanceId, ...rest } = fieldsOf(agent, "an agent to start");
  const places: StartPlace[] = [];
  if (session !== undefined) places.push({ newSession: session });
  if (sessionId !== undefined) places.push({ session: sessionId });
  if (instanceId !== undefined) places.push({ instance: instanceId });
  if (places.length > 1) throw invalid("an agent starts in a session, a sessionId or an instanceId; give one");
  return { ...rest, place: places[0] };
}
