import type { Updates } from "./chat-types.js";
import type { NewOf } from "./fields.js";
import type { Handle } from "./handle.js";
import { namesOf, renamed } from "./names.js";

/** Who is meant to use an agent. Other agents are told of all of them. */
export type AgentVisibility = "external" | "project" | "internal";

/** What an agent is: its name in its project, its prompt, its tools, and how long it may work. */
export interface AgentDefinition {
  /** The project it belongs to; left out, none. */
  project?: string;
  /** Its name, unique in its project, at most 256 bytes. */
  name: string;
  /** What it is good for, for the agents that choose among several; at most 64 KiB. */
  description: string;
  /** What it is told first, at most 1 MiB. Never listed. */
  systemPrompt?: string;
  /** The names of the tools it may use, at most 1,024. */
  tools: string[];
  /** How it works, by a name of the caller's; `single` unless given. */
  flowType: string;
  /** Who is meant to use it; `project` unless given. */
  visibility: AgentVisibility;
  /** How long one run of it may take, in milliseconds, where the request doesn't say; left out, as long as it likes. */
  defaultTimeoutMs?: number;
  /** The steps one run of it may take; left out, as many as it likes. */
  maxSteps?: number;
  /** Whatever its function needs to know beside: a model, a command. Kept as JSON, at most 1 MiB. */
  metadata?: unknown;
  /** When it was defined: milliseconds since 1970-01-01 UTC. */
  createdAtMs: number;
  /** When it was last changed: milliseconds since 1970-01-01 UTC. */
  updatedAtMs: number;
  /** Whatever else a newer build says of it, kept as it is. */
  [field: string]: unknown;
}

/** An agent to define. */
export type NewAgent = NewOf<AgentDefinition, "name", "createdAtMs" | "updatedAtMs">;

/** What other agents are told of an agent: not its prompt, which would fill their contexts. */
export interface AgentSummary {
  /** Its name, to spawn it by. */
  name: string;
  /** What it is good for. */
  description: string;
  /** The names of its tools. */
  tools: string[];
  /** How it works. */
  flowType: string;
  /** Who is meant to use it. */
  visibility: AgentVisibility;
}

/** One page of definitions. */
export interface AgentPage {
  /** The definitions, in the order of their names. */
  agents: AgentDefinition[];
  /** The cursor of the next page; `undefined` when this is the last. */
  next: string | undefined;
}

/** Which definitions to list, and how many. */
export interface ListAgents {
  /** Those of this project; left out, those of no project. */
  project?: string | undefined;
  /** Only those of this visibility. */
  visibility?: AgentVisibility | undefined;
  /** At most so many; 50 when left out. */
  limit?: number | undefined;
  /** Where to go on: the `next` of the page before. */
  after?: string | undefined;
}

const AGENT = namesOf([
  "system_prompt",
  "flow_type",
  "default_timeout_ms",
  "max_steps",
  "created_at_ms",
  "updated_at_ms",
]);

/** A definition as the core tells it. @internal */
export function agentOf<T = AgentDefinition>(wire: object): T {
  return renamed(wire, AGENT.here) as T;
}

/**
 * The definitions of agents. Got from {@link Store.agents}.
 *
 * @example
 * ```ts
 * await store.agents.put({ name: "researcher", description: "Finds papers.", maxSteps: 50, defaultTimeoutMs: 60_000 });
 * ```
 */
export class Agents {
  readonly #handle: Handle;

  /** @internal */
  constructor(handle: Handle) {
    this.#handle = handle;
  }

  /**
   * Defines an agent. Durable when it resolves.
   *
   * @throws {@link RunlogError} `already_exists` when its project has an agent of this name; `invalid_input`, `too_large` for a
   * field that is refused.
   */
  async define(agent: NewAgent): Promise<AgentDefinition> {
    return agentOf(await this.#handle.value<object>("defineAgent", renamed(agent, AGENT.there)));
  }

  /**
   * Sees to it that an agent is defined so: defines it, or changes it, or leaves it as it is. Durable when it
   * resolves.
   *
   * @throws {@link RunlogError} `invalid_input`, `too_large` for a field that is refused.
   */
  async put(agent: NewAgent): Promise<AgentDefinition> {
    return agentOf(await this.#handle.value<object>("putAgent", renamed(agent, AGENT.there)));
  }

  /**
   * Changes some fields of a definition; runs that have begun are not concerned.
   *
   * @throws {@link RunlogError} `not_found` when there is no such agent.
   */
  async update(
    name: string,
    updates: Updates<AgentDefinition>,
    options: { project?: string | undefined } = {},
  ): Promise<AgentDefinition> {
    const wire = { ...options, name, updates: renamed(updates, AGENT.there) };
    return agentOf(await this.#handle.value<object>("updateAgent", wire));
  }

  /**
   * Deletes a definition: it is in no list any more, and its agent can't be spawned, started or resumed until it is
   * defined again. Runs that are at work go on, and what the agent has done stays. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when there is no such agent.
   */
  async delete(name: string, options: { project?: string | undefined } = {}): Promise<void> {
    await this.#handle.value("deleteAgent", { ...options, name });
  }

  /** The agent of this name in a project, or in none. */
  async get(name: string, options: { project?: string | undefined } = {}): Promise<AgentDefinition | undefined> {
    const wire = await this.#handle.value<object | null>("getAgent", { ...options, name });
    return wire === null ? undefined : agentOf(wire);
  }

  /**
   * One page of a project's definitions, in the order of their names.
   *
   * @throws {@link RunlogError} `invalid_input` for a limit of 0.
   */
  async list(options: ListAgents = {}): Promise<AgentPage> {
    const page = await this.#handle.value<{ agents: object[]; next: string | null }>("listAgents", options);
    return { agents: page.agents.map((agent) => agentOf(agent)), next: page.next ?? undefined };
  }

  /** What an agent of a project is told of the agents there are: all of them, without their prompts. */
  async listAvailable(options: { project?: string | undefined } = {}): Promise<AgentSummary[]> {
    const agents = await this.#handle.value<object[]>("listAvailableAgents", options);
    return agents.map((agent) => agentOf<AgentSummary>(agent));
  }
}
