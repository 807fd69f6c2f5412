/// <reference lib="esnext.disposable" preserve="true" />

/**
 * An embedded event log for AI-agent runs: every message, tool call and tool result is durable before the next, so that a
 * run can be replayed, resumed, truncated and forked at any point.
 *
 * Begin with {@link open}, which gives a {@link Store}. On it hang:
 *
 * - {@link Runs}: start, record, pause, resume and look back on runs, each written by a {@link RunRecorder}
 * - {@link Context}: what an agent's model sees, message by message; {@link Store.copySession} forks whole sessions
 * - {@link Orchestrator}: agents as functions, which spawn others, and go on after a crash; what they are says {@link Agents}
 * - {@link Flows}: runs of nodes and edges, resumed from snapshots, played back; `runlog/claude` has nodes that Claude works in, `runlog/testing` tests
 *   them without it
 * - {@link Chats}: conversations as their users see them, with requests of two writes ({@link RequestBuffer})
 * - {@link Streams}: the log below all of it, records of bytes
 *
 * What resolves is durable, unless its documentation says otherwise: on the device with {@link OpenOptions.durability} left
 * as it is. Writes are done in the order in which they are called, also those that aren't awaited: of several changes of one thing the
 * last one called is what stays, and what looks at what is there (an update, a truncation, a copy) sees what was called before it. Appends
 * that wait at the same time share one flush; changes of one thing take one each.
 * Everything that fails rejects with a {@link RunlogError}, whose {@link ErrorCode} says what to do. Positions, sequences and
 * ids that are numbers are whole numbers from 1; times end in `Ms`, and are milliseconds, since 1970-01-01 UTC where they are
 * points in time.
 *
 * @module runlog
 */

import { type ToolDefinition, toolsOf } from "./agent-types.js";
import { check } from "./binding.js";
import { checkText, fieldsOf, objectOf } from "./checks.js";
import { invalid } from "./error.js";
import { nodeChannel } from "./node.js";
import type { OpenOptions } from "./generated/types.js";
import type { SharedStore } from "./store-types.js";
import { type Store, openedStore } from "./store.js";

/**
 * Opens the store in a folder, or makes one there. What a crash left is recovered, and runs that were left running are
 * paused.
 *
 * @throws {@link RunlogError} `locked` when another process has it open for writing; `not_a_store` when the folder holds
 * something else; `damaged` when what was durable is damaged; `not_found` for a reader where there is none;
 * `unsupported_version` when a newer build wrote it; `invalid_input` for options out of range.
 *
 * @example
 * ```ts
 * const store = await open("runlog-data");
 * const { items: [last] } = await store.runs.list({ limit: 1 }); // its status is `paused` when the process died with it
 *
 * const reader = await open("runlog-data", { mode: "readOnly" }); // in another process, while this one writes
 * ```
 */
export async function open(path: string, options: OpenOptions = {}): Promise<Store> {
  checkText(path, "the path of a store's folder");
  return await openedStore(nodeChannel(), "open", { path, options: fieldsOf(options, "how a store is opened") });
}

/**
 * Opens a store in memory, gone when it is closed. Everything works as in a folder, but for lasting.
 *
 * @throws {@link RunlogError} `invalid_input` for a segment size out of range.
 *
 * @example
 * ```ts
 * const store = await openInMemory(); // in a test
 * ```
 */
export async function openInMemory(options: Pick<OpenOptions, "segmentBytesMax"> = {}): Promise<Store> {
  return await openedStore(nodeChannel(), "openInMemory", fieldsOf(options, "how a store is opened"));
}

/**
 * Uses a store that another thread of this process has open, named by what its {@link Store.share} returned. Both write
 * to it, in one log.
 *
 * @throws {@link RunlogError} `closed` when it was closed.
 *
 * @example
 * ```ts
 * const worker = new Worker("./worker.mjs", { workerData: await store.share() });
 * // worker.mjs
 * const store = await attach(workerData);
 * ```
 */
export async function attach(shared: SharedStore): Promise<Store> {
  const { runlogStore: token } = objectOf(shared, "a shared store");
  if (token === undefined) throw invalid("this is no shared store, for it has no `runlogStore`: give what `store.share()` returned");
  return await openedStore(nodeChannel(), "attach", { token });
}

/**
 * The definitions of the tools `list_available_agents` and `spawn_agents`, for the tools that a model is given; its calls
 * are answered by {@link RunContext.answerToolCall}.
 */
export async function toolDefinitions(): Promise<ToolDefinition[]> {
  return toolsOf(check(await nodeChannel().call(0, "toolDefinitions")));
}

export * from "./api.js";
