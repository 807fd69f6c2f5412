import { namesOf, renamed, withoutNulls } from "./names.js";
import type { RunStatus } from "./run-types.js";

/** A sub-agent to spawn: a new run of an agent, or one that goes on from a paused run. */
export interface SpawnRequest {
  /** The agent, by its name in the parent's project. */
  agentName: string;
  /** What it is to do: its first user message. For a run that is resumed, what it is told beside to continue. */
  task?: string | undefined;
  /**
   * How long it may work, in milliseconds, in place of its definition's default. Then it is `paused`, and can be
   * resumed.
   */
  timeoutMs?: number | undefined;
  /**
   * The steps that this run may take, a whole number from 1 to 4294967295; where its agent's definition allows fewer, that holds. Then it is
   * `paused`, and can be resumed.
   */
  maxSteps?: number | undefined;
  /** The paused run to go on from. */
  resumeRunId?: string | undefined;
}

/** What became of one agent's run. */
export interface SpawnResult {
  /** Its run, to look into or to resume; a request that was refused has none. */
  runId?: string;
  /** The agent asked for. */
  agentName: string;
  /** How it ended. */
  status: RunStatus;
  /** Its final text. */
  summary?: string;
  /** The steps it took, those of the runs it goes on from included. */
  steps: number;
  /** Why it failed, or was refused. */
  error?: string;
  /** Why it paused. */
  pauseReason?: string;
}

const RESULT = namesOf(["run_id", "agent_name", "pause_reason"]);

/** What became of a run, as the core tells it. @internal */
export function spawnResultOf(wire: object): SpawnResult {
  return withoutNulls(renamed(wire, RESULT.here)) as unknown as SpawnResult;
}
