import { checkText, fieldsOf, objectOf, optionsOf, shown } from "./checks.js";
import { checkSignal, invalid, withKnownFields } from "./error.js";
import type {
  PlaybackOptions,
  ReceivedCommand,
  RecordedEvent,
  RunSnapshot,
  RuntimeCommand,
  RuntimeEvent,
} from "./flow-types.js";
import { type Change, changed } from "./flow-changes.js";
import { follow } from "./follow.js";
import type { FlowCalls, StoreCalls } from "./generated/calls.js";
import type { Durability, FlowState, FlowSummary, InboxChange, ListFlows, Resumed, Taken } from "./generated/types.js";
import type { Handle, Made } from "./handle.js";
import { RawJson, jsonList, wellFormedBytes, wellFormedJson } from "./json.js";
import { unpackRecords } from "./packed.js";
import { Playback } from "./playback.js";
import { type Listing, Pages, listing } from "./pages.js";
import { whenAborted } from "./signals.js";

/** The kinds of the records that flow events are kept as. */
const EVENT_KINDS = [96, 97, 98, 99, 100, 101];

/** A flow that goes on. */
export interface ResumedFlow {
  /** The flow, with the state of its latest snapshot. */
  flow: FlowRun;
  /** What it goes on with. */
  resumed: Resumed;
}

/**
 * The flows of a store: runs of nodes and edges, recorded as events, and resumed from snapshots. Got from
 * {@link Store.flows}.
 *
 * A flow is either that of a run, made with the run's id, or has an id of its own. The flow of a run lives and ends with it:
 * it is recorded while the run is `running`; it is resumed by {@link Runs.resume}, which carries its state over to the run
 * that goes on, whose flow is then {@link resume | resumed}; and it takes nothing any more once the run is over. A flow with
 * an id of its own is resumed by {@link resume} alone.
 *
 * @example
 * ```ts
 * const { flow, resumed } = await store.flows.resume(runId);
 * for (const { nodeId, sessionId, prompt } of resumed.running) await callAgent(nodeId, sessionId, prompt);
 *
 * const { items } = await store.flows.list({ resumable: true }); // after a crash: what is to be resumed
 *
 * for await (const { event } of await store.flows.playback(runId, { speed: 8, types: ["node:*", "agent:text"] })) show(event);
 * ```
 */
export class Flows {
  readonly #handle: Handle<StoreCalls>;

  /** @internal */
  constructor(handle: Handle<StoreCalls>) {
    this.#handle = handle;
  }

  /**
   * Begins a flow, with an empty state of status `running`: that of a run, where `runId` is the id of one; else a flow by
   * itself, with this id or a fresh one. Durable when it resolves.
   *
   * A flow by itself has ended when a snapshot says so (`flow.state.status = "completed"`): which node is the last one, only your program
   * knows. Until then it is listed among those to be resumed.
   *
   * @throws {@link RunlogError} `already_exists` when the run has a flow already: resume it; `wrong_status` for a run that
   * isn't running.
   */
  async create(runId?: string): Promise<FlowRun> {
    return this.#flow(await this.#handle.made("createFlow", { runId }));
  }

  /**
   * Resumes a flow from its latest snapshot and the commands received since; says which nodes were running, and what to
   * resume each with: the message, or `continue`.
   *
   * The flow of a run that was paused is resumed with the run: {@link Runs.resume} carries its state over to the run that
   * goes on, and this then resumes the flow of that one.
   *
   * Who resumed a flow has it until the handle is closed, or nobody holds it any more: nobody else resumes it meanwhile, so that
   * no node's agent is called twice. One whose state says that it is completed is resumed, too, for more turns; `list({ resumable: true })` leaves it
   * out. A handle that drove it before, as the one that {@link create | created} it, can record events
   * and send commands from then on, but takes none and saves no state.
   *
   * @throws {@link RunlogError} `conflict` when somebody resumed it already and has it still; `not_found` when the run has no
   * snapshot; `wrong_status` when the flow is that of a run that isn't running; `limit_reached` when the message would wait in an
   * inbox that is full.
   */
  async resume(runId: string, message?: string): Promise<ResumedFlow> {
    const made = await this.#handle.made("resumeFlow", { runId, message });
    return { flow: this.#flow(made), resumed: made.value.resumed ?? { running: [], sequence: 0, unreadableStates: 0 } };
  }

  /**
   * One page of flows, newest first: those of runs, and those with ids of their own. It costs the page, however many flows
   * there are.
   *
   * After a crash, the next opening for writing has paused the runs that were left running, and with `resumable` this lists
   * what is to be resumed. In a store that is open for reading only, flows are among them that the process which writes it
   * may be at work on: their {@link FlowSummary.isLive} is left out.
   *
   * @throws {@link RunlogError} `invalid_input` for a limit of 0, or a cursor of another list.
   */
  list(options: ListFlows = {}): Listing<FlowSummary> {
    return listing((asked) => this.#handle.value("listFlows", asked), options);
  }

  /** The flow of a run, or with this id of its own; `undefined` when there is none. */
  async get(runId: string): Promise<FlowSummary | undefined> {
    return await this.#handle.value("getFlow", { runId });
  }

  #flow({ value, handle }: Made<FlowState>): FlowRun {
    return new FlowRun(handle("the flow"), this.#handle, value.run, value.state);
  }

  /**
   * Plays a flow back: its events in order, each after the time that passed before it, and the latest state for looking
   * at. Nothing is run.
   *
   * @throws {@link RunlogError} `not_found` when there is no such run.
   */
  async playback(runId: string, options: PlaybackOptions = {}): Promise<Playback> {
    const { speed = 1, signal, ...rest } = fieldsOf(options, "how to play back");
    if (!(speed > 0)) throw invalid(`a flow is played back at more than 0 times its speed, not ${shown(speed)}`);
    const wire = { runId, options: { ...rest, speed: speed === Infinity ? 0 : speed } };
    const opened = this.#handle.made("playback", wire, undefined, { signal });
    const { value, handle } = await withKnownFields({ of: "options", also: ["signal"] }, opened);
    return new Playback(handle("the playback"), value, signal);
  }

  /**
   * The events of a flow from a sequence on, then those that come, also while another process records them. It ends when none
   * can come any more: the flow is that of a run that has paused or ended.
   */
  follow(runId: string, options: { from?: number | undefined; signal?: AbortSignal | undefined } = {}): Pages<RecordedEvent> {
    const { from = 1, signal } = optionsOf(options, ["from", "signal"]);
    const isOver = async (signal: AbortSignal) => {
      const flow = await this.#handle.value("getFlow", { runId }, undefined, { signal });
      return (flow?.runStatus ?? "running") !== "running";
    };
    return follow(this.#handle, signal, from, async (first, signal) => {
      const wire = { stream: runId, first, kinds: EVENT_KINDS };
      const read = async () => unpackRecords(await this.#handle.bytes("read", wire, undefined, { signal }));
      let page = await read();
      // Once more after that: the last events may have come in between.
      const mayEnd = page.records.length === 0 && (await isOver(signal));
      if (mayEnd) page = await read();
      const items = page.records
        .filter((record) => !record.redacted)
        .map((record) => ({
          sequence: record.sequence,
          position: record.position,
          recordedAtMs: record.timeMs,
          delayMs: 0,
          event: record.json<RuntimeEvent>(),
          json: record.text(),
        }));
      const last = page.records.at(-1);
      return { items, next: last === undefined ? first : last.sequence + 1, isEnd: mayEnd && last === undefined };
    }, { flow: runId });
  }
}

/**
 * A flow under way: its events, the state it is resumed from, and the commands it is sent. One handle at a time
 * drives a flow, the one that created it or resumed it last, for each saves its own state. A save writes what changed of
 * the state since the ones before, and compares it with them, which takes 2 to 3 ms for each MiB: what is large belongs into a context, and
 * its id into the outputs. Its calls are done one after the other, in the order in which they come, and needn't be awaited for that:
 * what each changes of the state is changed at once, and changed back if it couldn't be saved.
 *
 * @example
 * ```ts
 * const flow = await store.flows.create();
 * await flow.startAgent("plan", sessionId); // durable: the agent may be called now
 * await flow.record({ type: "agent:text", nodeId: "plan", runId: "r1", timestamp: Date.now(), content: "Hello" });
 * await flow.finishNode("plan", { text: "Hello" });
 * ```
 */
export class FlowRun implements AsyncDisposable {
  /** The run. */
  readonly runId: string;
  /**
   * The state that is saved next, to be changed at will. Its inbox is the flow's own: it is changed by {@link command}
   * and {@link takeInbox}.
   */
  state: RunSnapshot;
  readonly #handle: Handle<FlowCalls>;
  readonly #store: Handle<StoreCalls>;
  /** Called whenever a command was received, or none will be. */
  readonly #listeners = new Set<() => void>();
  /** The inbox as the flow sent it last, by so many changes; those that were sent before one that comes first. */
  readonly #inbox: ReceivedCommand[];
  #changes = 0;
  readonly #early = new Map<number, InboxChange>();

  /** @internal */
  constructor(handle: Handle<FlowCalls>, store: Handle<StoreCalls>, runId: string, state: RunSnapshot) {
    this.#handle = handle;
    this.#store = store;
    this.runId = runId;
    this.state = state;
    this.#inbox = [...state.inbox];
  }

  /**
   * Records an event, and says its sequence. Durable when it resolves. Events that are recorded while others are being
   * written go together, in one batch and one flush, so that deltas needn't be awaited one by one.
   *
   * @throws {@link RunlogError} `invalid_input` when its type isn't known, or it lacks a field of its type: an event of an
   * agent has a `nodeId`, a `runId` and a `timestamp`; `wrong_status` when the flow is that of a run that isn't running.
   */
  async record(event: RuntimeEvent | RawJson): Promise<number> {
    return await this.recordAll([event]);
  }

  /**
   * Records events, all of them or none, and says the sequence of the last. Left out, `durability` is the store's own.
   *
   * @throws {@link RunlogError} as {@link record}; it says which of them is wrong.
   */
  async recordAll(events: readonly (RuntimeEvent | RawJson)[], durability?: Durability): Promise<number> {
    const { lengths, data } = jsonList(events, wellFormedBytes);
    return await this.#handle.value("record", { lengths, durability }, data);
  }

  /**
   * Saves the state as the run's latest snapshot. On the device when it resolves, whatever the store's setting.
   *
   * @throws {@link RunlogError} `too_large` when the state is over 16 MiB; `conflict` when another handle has resumed the flow since.
   */
  async saveSnapshot(): Promise<void> {
    await this.#save([], (state) => this.#handle.value("saveSnapshot", undefined, state));
  }

  /**
   * Notes an agent's own session and that its node is running, and saves the snapshot, with what the state says else. To
   * be awaited before the agent is called: from then on a crash can be resumed from.
   *
   * @throws {@link RunlogError} as {@link saveSnapshot}. The state is as before then.
   */
  async startAgent(nodeId: string, sessionId: string): Promise<void> {
    const changes: Change[] = [
      ["agentSessions", nodeId, sessionId],
      ["nodeStatus", nodeId, "running"],
    ];
    await this.#save(changes, (state) => this.#handle.value("startAgent", { nodeId, sessionId }, state));
  }

  /**
   * Notes that a node has finished with an output, and saves the snapshot. The agent's session stays, for more turns. Nodes that no
   * agent worked on are noted alike; an output that is noted again takes the place of the one before.
   *
   * @throws {@link RunlogError} as {@link saveSnapshot}. The state is as before then.
   */
  async finishNode(nodeId: string, output: unknown = null): Promise<void> {
    const kept = RawJson.parse(wellFormedJson(output));
    const changes: Change[] = [
      ["outputs", nodeId, kept.value()],
      ["nodeStatus", nodeId, "done"],
    ];
    await this.#save(changes, (state) => this.#handle.value("finishNode", { nodeId, output: kept }, state));
  }

  /**
   * Saves the state with some entries of it changed. They are changed here before anything is awaited, so that a call that
   * comes meanwhile saves them too, and taken back when they couldn't be saved.
   */
  async #save(changes: readonly Change[], save: (state: Uint8Array) => Promise<InboxChange>): Promise<void> {
    const state = stateOf(this.state);
    for (const [, node] of changes) checkText(node, "the id of a node");
    const made = changes.map((change) => changed(state, change));
    try {
      this.#change(await save(wellFormedBytes(state)));
    } catch (error) {
      for (const { back } of made.reverse()) back();
      throw error;
    }
    for (const { saved } of made) saved();
  }

  /**
   * Receives a command: it is recorded as `command:received`, and waits in the inbox of the run it names.
   *
   * @throws {@link RunlogError} `invalid_input` for a `send` or `reply` without a `runId`: it is recorded all the same,
   * with the error, and waits nowhere; `limit_reached` when the inbox is full, that of an orchestrator that works on the run, or
   * that of the flow, which holds 1,024 commands, or has 16 MiB of JSON: nothing is recorded.
   */
  async command<Type extends string>(command: ({ type: Type } & RuntimeCommand<Type>) | RawJson): Promise<void> {
    const given = wellFormedBytes(command);
    this.#change(await this.#handle.value("command", undefined, given));
    for (const listener of this.#listeners) listener();
  }

  /** Takes in the commands that other handles of the flow received since: they are in the inbox then. */
  async refresh(): Promise<void> {
    this.#change(await this.#handle.value("refresh"));
  }

  /**
   * Takes the commands that wait for a run, or, without one, those for no run in particular, whichever handle of the flow
   * received them. A crash before the next snapshot brings them back: they are delivered at least once.
   *
   * Where an orchestrator of this process works on the flow's own run, the two have one inbox: a command for the run is
   * given to its agent or taken here, whichever asks first.
   */
  async takeInbox(runId?: string): Promise<ReceivedCommand[]> {
    return await this.#take(() => this.#handle.value("takeInbox", { runId }));
  }

  /**
   * Takes the commands that wait for a run, once there are any; `undefined` when the signal is aborted before. Waiting keeps a Node
   * process alive, until the signal is aborted, or the flow or the store is closed.
   *
   * @throws {@link RunlogError} `wrong_status` when none waits and none can come any more: the flow is that of a run that has
   * paused or ended; `closed` when the flow or the store is closed.
   */
  async nextCommands(runId: string, signal: AbortSignal): Promise<ReceivedCommand[] | undefined> {
    checkSignal(signal);
    const take = () => this.#take(() => this.#handle.value("takeInbox", { runId, waits: true }));
    return await this.#next(signal, take, ({ runId: of }) => of === runId, { idle: false });
  }

  /**
   * Takes the first command with a message that waits for a run, once there is one; all others go on waiting. One that comes while
   * the signal is aborted waits again.
   *
   * @internal
   */
  async nextMessage(runId: string, signal: AbortSignal): Promise<unknown> {
    checkSignal(signal);
    const take = () => this.#take(() => this.#handle.value("takeMessage", { runId }));
    const taken = await this.#next(signal, take, ({ runId: of, message }) => of === runId && typeof message === "string", { idle: true });
    const [command] = taken ?? [];
    if (command === undefined || !signal.aborted) return command?.message;
    this.#change(await this.#handle.value("giveBack", undefined, wellFormedBytes(command)));
    return undefined;
  }

  /** Takes commands; what is left is the inbox. */
  async #take(take: () => Promise<Taken>): Promise<ReceivedCommand[]> {
    stateOf(this.state);
    const { taken, inbox } = await take();
    this.#change(inbox);
    return taken;
  }

  /** Changes the inbox as the flow says, one change after the other, and shows it in the state. */
  #change(change: InboxChange): void {
    this.#early.set(change.number, change);
    for (let next; (next = this.#early.get(this.#changes + 1)) !== undefined; this.#changes++) {
      this.#early.delete(next.number);
      this.#inbox.splice(next.kept, Infinity, ...next.added);
    }
    stateOf(this.state).inbox = [...this.#inbox];
  }

  /** Takes commands once there are some that are wanted; where it waits for them idly, that keeps no process alive. */
  async #next(
    signal: AbortSignal,
    take: () => Promise<ReceivedCommand[]>,
    isWanted: (command: ReceivedCommand) => boolean,
    { idle }: { idle: boolean },
  ): Promise<ReceivedCommand[] | undefined> {
    while (!signal.aborted) {
      // Made before the look, so that nothing comes in between unseen.
      const mark = await this.#store.value("mark", { watched: { flow: this.runId } });
      const commands = await take();
      if (commands.length > 0) return commands;
      const stop = new AbortController();
      await new Promise<void>((resolve) => {
        const done = () => {
          this.#listeners.delete(done);
          forget();
          stop.abort();
          resolve();
        };
        this.#listeners.add(done);
        const forget = whenAborted(signal, done);
        // Another handle may have received one. When the store is closed, the next look at the inbox says so.
        this.#store.value("changed", { mark }, undefined, { signal: stop.signal, idle }).then(done, done);
        // One that came since was taken for nobody's.
        if (signal.aborted || this.state.inbox.some(isWanted)) done();
      });
    }
    return undefined;
  }

  /** Lets go of the flow; what was recorded and saved stays. Whoever waits for commands gets the error that it is closed. */
  async close(): Promise<void> {
    this.#handle.release();
    for (const listener of this.#listeners) listener();
  }

  /** As {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** The state of a flow, which callers may set to anything. */
function stateOf(state: RunSnapshot): RunSnapshot {
  return objectOf(state, "the state of a flow");
}
