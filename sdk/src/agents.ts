import { objectOf, withOptions } from "./checks.js";
import { withKnownFields } from "./error.js";
import type { AgentDefinition, AgentSummary, ListAgents, NewAgentDefinition } from "./generated/types.js";
import type { StoreCalls } from "./generated/calls.js";
import type { Handle } from "./handle.js";
import { type Listing, listing } from "./pages.js";
import type { Updates } from "./updates.js";

/** An agent to define. The store gives the times. */
export type NewAgent = Omit<NewAgentDefinition, "createdAtMs" | "updatedAtMs">;

/** What the options of a call are, for its errors. */
const OPTIONS = "the options";

/**
 * The definitions of agents. Got from {@link Store.agents}.
 *
 * @example
 * ```ts
 * await store.agents.put({ name: "researcher", description: "Finds papers.", maxSteps: 50, defaultTimeoutMs: 60_000 });
 * ```
 */
export class Agents {
  readonly #handle: Handle<StoreCalls>;

  /** @internal */
  constructor(handle: Handle<StoreCalls>) {
    this.#handle = handle;
  }

  /**
   * Defines an agent. Durable when it resolves.
   *
   * @throws {@link RunlogError} `already_exists` when its project has an agent of this name; `invalid_input`, `too_large` for a
   * field that is refused.
   */
  async define(agent: NewAgent): Promise<AgentDefinition> {
    return await this.#handle.value("defineAgent", objectOf(agent, "an agent"));
  }

  /**
   * Sees to it that an agent is defined so: defines it, or changes it, or leaves it as it is. Durable when it
   * resolves.
   *
   * @throws {@link RunlogError} `invalid_input`, `too_large` for a field that is refused.
   */
  async put(agent: NewAgent): Promise<AgentDefinition> {
    return await this.#handle.value("putAgent", objectOf(agent, "an agent"));
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
    return await this.#handle.value("updateAgent", withOptions({ name, updates }, options, OPTIONS));
  }

  /**
   * Deletes a definition: it is in no list any more, and its agent can't be spawned, started or resumed until it is
   * defined again. Runs that are at work go on, and what the agent has done stays. Durable when it resolves.
   *
   * @throws {@link RunlogError} `not_found` when there is no such agent.
   */
  async delete(name: string, options: { project?: string | undefined } = {}): Promise<void> {
    await withKnownFields({ not: ["name"] }, this.#handle.value("deleteAgent", withOptions({ name }, options, OPTIONS)));
  }

  /** The agent of this name in a project, or in none. */
  async get(name: string, options: { project?: string | undefined } = {}): Promise<AgentDefinition | undefined> {
    return await withKnownFields({ not: ["name"] }, this.#handle.value("getAgent", withOptions({ name }, options, OPTIONS)));
  }

  /**
   * One page of a project's definitions, in the order of their names.
   *
   * @throws {@link RunlogError} `invalid_input` for a limit of 0.
   */
  list(options: ListAgents = {}): Listing<AgentDefinition> {
    return listing((asked) => this.#handle.value("listAgents", asked), options);
  }

  /** What an agent of a project is told of the agents there are: all of them, without their prompts. */
  async listAvailable(options: { project?: string | undefined } = {}): Promise<AgentSummary[]> {
    return await this.#handle.value("listAvailableAgents", options);
  }
}
