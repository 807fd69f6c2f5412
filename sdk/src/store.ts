import { Agents } from "./agents.js";
import {
  type ArchiveSource,
  type ImportOptions,
  type ImportPiecesOptions,
  type OwnBytes,
  exported,
  imported,
  selectionOf,
} from "./archives.js";
import { type Channel, check, valueOf } from "./binding.js";
import { Chats } from "./chats.js";
import { checkFunction, checkLimit, checkText, fieldsOf, objectOf, optionsOf } from "./checks.js";
import { Context, Contexts } from "./context.js";
import { withKnownFields } from "./error.js";
import { closing } from "./exits.js";
import { Flows } from "./flows.js";
import { follow } from "./follow.js";
import { Handle } from "./handle.js";
import { type HeadsPage, type SearchPage, unpackFound, unpackHeads } from "./heads.js";
import { Orchestrator, type OrchestratorOptions } from "./orchestrator.js";
import { type LogRecord, unpackRecords } from "./packed.js";
import { Pages } from "./pages.js";
import { type ProgressOptions, WATCHED, watched } from "./progress.js";
import { Runs } from "./runs.js";
import type {
  Backup,
  BackupOptions,
  CompactOptions,
  CompactProgress,
  Compaction,
  Erase,
  Erased,
  ExportSelection,
  Exported,
  Imported,
  Recovery,
  RetainProgress,
  Retained,
  RetentionPolicy,
  Stat,
  Verification,
} from "./generated/types.js";
import type { StoreCalls } from "./generated/calls.js";
import { StoreSessions } from "./store-sessions.js";
import type { LogOptions, SharedStore } from "./store-types.js";
import { Streams, scanPage } from "./streams.js";
import { encodeArguments } from "./json.js";
import { newUuid } from "./uuid.js";

/**
 * An open store: sessions, agent instances and their contexts, runs, flows, chats, and the streams they are kept in.
 *
 * Close it, or hold it with `await using` (TypeScript 5.2, Node 24); a store that nobody holds any more is closed when it is collected, and at the
 * end of the process. What was acknowledged is durable whatever happens.
 *
 * @example
 * ```ts
 * await using store = await open("runlog-data");
 * const { session, instance } = await store.startSession({ title: "Weather" }, "planner");
 * const context = await store.context(instance.id);
 * await context.appendMessage({ role: "user", content: "Will it rain?" });
 * ```
 */
export class Store extends StoreSessions implements AsyncDisposable {
  /** The contexts of this store, by instance id. */
  readonly contexts: Contexts;
  /** Its runs. */
  readonly runs: Runs;
  /** Its flows. */
  readonly flows: Flows;
  /** Its chats: sessions as their users see them. */
  readonly chats: Chats;
  /** The definitions of agents. */
  readonly agents: Agents;
  /** Its streams of opaque records. */
  readonly streams: Streams;
  /** What opening found. */
  readonly recovery: Recovery;
  readonly #handle: Handle<StoreCalls>;
  readonly #owns: boolean;
  /** Ends what waits for others than the store. */
  readonly #closing = new AbortController();
  #closed: Promise<void> | undefined;
  /** Lets go of the place that it was opened in. */
  readonly #onClosed: () => void;
  /** Orchestrators of this store; some may be collected already. */
  #orchestrators: WeakRef<Orchestrator>[] = [];
  #orchestratorsMax = 64;

  /** @internal */
  constructor(handle: Handle<StoreCalls>, recovery: Recovery, owns: boolean, onClosed: () => void = () => {}) {
    super(handle);
    this.#handle = handle;
    this.#owns = owns;
    this.#onClosed = onClosed;
    this.recovery = recovery;
    this.contexts = new Contexts(handle);
    this.runs = new Runs(handle);
    this.flows = new Flows(handle);
    this.chats = new Chats(handle);
    this.agents = new Agents(handle);
    this.streams = new Streams(handle);
  }

  /**
   * The context of one agent instance.
   *
   * @throws {@link RunlogError} `not_found` when there is no such instance.
   */
  async context(instanceId: string): Promise<Context> {
    await this.#handle.value("context", { instanceId });
    return new Context(this.#handle, this.contexts, instanceId);
  }

  /**
   * Starts agents whose work is done by functions, and goes on with those that a crash cut off. One for a store is enough;
   * it is closed with the store.
   *
   * @example
   * ```ts
   * await store.agents.put({ name: "greeter" });
   * const orchestrator = await store.orchestrator({ agents: { greeter: async (context) => `hello, ${context.task}` } });
   * const run = await orchestrator.start({ agentName: "greeter", task: "world" });
   * console.log((await run.wait()).summary); // hello, world
   * ```
   */
  async orchestrator(options: OrchestratorOptions = {}): Promise<Orchestrator> {
    const { agents = {}, ...bounds } = fieldsOf(options, "what is asked of an orchestrator");
    for (const [name, work] of Object.entries(objectOf(agents, "the functions of agents"))) checkFunction(work, `the work of ${name}`);
    const made = await withKnownFields({ also: ["agents"] }, this.#handle.made("orchestrate", bounds));
    const orchestrator = new Orchestrator(made.handle("the orchestrator"), made.value.id);
    if (this.#orchestrators.length >= this.#orchestratorsMax) {
      this.#orchestrators = this.#orchestrators.filter((weak) => weak.deref() !== undefined);
      this.#orchestratorsMax = Math.max(64, 2 * this.#orchestrators.length);
    }
    this.#orchestrators.push(new WeakRef(orchestrator));
    for (const [name, work] of Object.entries(agents)) await orchestrator.register(name, work);
    return orchestrator;
  }

  /**
   * The whole log in order of position, a page at a time: as history, what was truncated since included.
   *
   * @example
   * ```ts
   * for await (const record of store.read({ from: 1, limit: 100 })) console.log(record.position, record.kind, record.stream);
   * ```
   */
  read(options: LogOptions = {}): Pages<LogRecord> {
    const { from = 1, limit, signal } = optionsOf(options, ["from", "limit", "signal"]);
    checkLimit(limit);
    const handle = this.#handle;
    async function* pages(): AsyncGenerator<LogRecord[], void, undefined> {
      let next = from;
      let left = limit ?? Number.MAX_SAFE_INTEGER;
      while (left > 0) {
        const page = await scanPage(handle, next, Math.min(left, 4096), signal);
        if (page.records.length === 0) return;
        yield page.records;
        left -= page.records.length;
        next = page.next;
      }
    }
    return new Pages(pages, signal);
  }

  /**
   * Every record from a position on: those that are there, then those that come, without a gap or a repeat, also while
   * another process writes. It ends when the signal is aborted or the store is closed.
   */
  tail(options: Omit<LogOptions, "limit"> = {}): Pages<LogRecord> {
    const { from = 1, signal } = optionsOf(options, ["from", "signal"]);
    return follow(this.#handle, signal, from, async (next, signal) => {
      const page = await scanPage(this.#handle, next, undefined, signal);
      return { items: page.records, next: page.records.length > 0 ? page.next : next };
    });
  }

  /**
   * The whole log as {@link read} gives it, but of events of contexts only what lists show: in columns, without contents, ten
   * times as fast. A page stands for about 1 MiB of contents.
   *
   * @example
   * ```ts
   * let errors = 0;
   * for await (const { events } of store.heads()) for (const flags of events.callFlags) if (flags & CallFlag.Failed) errors += 1;
   * ```
   */
  async *heads(options: Omit<LogOptions, "limit"> = {}): AsyncGenerator<HeadsPage, void, undefined> {
    const { from = 1, signal } = optionsOf(options, ["from", "signal"]);
    for (let next = from; ; ) {
      const page = unpackHeads(await this.#handle.bytes("heads", { from: next }, undefined, { signal }));
      if (page.events.count + page.others.length === 0) return;
      yield page;
      next = page.next;
    }
  }

  /**
   * Looks for a text in the contents of all records, in any case, also where JSON has it with backslashes or
   * as `\u00e9`. What it found comes
   * with each 4 MiB of contents, so that a search can be shown while it goes on, and given up.
   *
   * @throws {@link RunlogError} `invalid_input` for no text, or one of more than 64 KiB.
   *
   * @example
   * ```ts
   * for await (const { found } of store.search("out of memory")) for (const position of found) console.log(position);
   * ```
   */
  async *search(text: string, options: Omit<LogOptions, "limit"> = {}): AsyncGenerator<SearchPage, void, undefined> {
    checkText(text, "the text to look for");
    const { from = 1, signal } = optionsOf(options, ["from", "signal"]);
    for (let next = from; next > 0; ) {
      const page = unpackFound(await this.#handle.bytes("search", { text, from: next }, undefined, { signal }));
      yield page;
      next = page.next;
    }
  }

  /** The record with a position; `undefined` when there is none. */
  async record(position: number): Promise<LogRecord | undefined> {
    return unpackRecords(await this.#handle.bytes("record", { position })).records[0];
  }

  /** The last position that readers see, 0 in an empty store: the tail of the log is after it. */
  async lastPosition(): Promise<number> {
    return await this.#handle.value("lastPosition");
  }

  /**
   * Takes the content of a record out of every read at once, in forks too. Its place and its sequence stay, and its
   * bytes stay on the disk. A time that an event was given goes as well: it tells when it was recorded. Durable when it resolves; the reason is kept.
   *
   * @throws {@link RunlogError} `not_found` when there is no such record; `invalid_input` when it is one of the engine's own, an
   * entry of the store's lists, or says how a run went: without these, what they are of couldn't be found, or read.
   */
  async redact(position: number, reason: string): Promise<void> {
    await this.streams.commit([{ redact: position, reason }]);
  }

  /** How large the store is and what is in it. */
  async stat(): Promise<Stat> {
    return await this.#handle.value("stat");
  }

  /** Reads every byte of the store, also beside a writer, and tells every damage. Changes nothing. */
  async verify(): Promise<Verification> {
    return await this.#handle.value("verify");
  }

  /**
   * Copies the store to another folder while it is used: all that is acknowledged when it begins, of a reader all that it
   * sees. What an earlier backup to the folder has is kept, so that the next one copies what is new. The folder is a store:
   * open it, or copy it back to restore it. Durable when it resolves.
   *
   * @throws {@link RunlogError} `invalid_input` for a folder that has other files, or another store, or lies inside the
   * store's own; `conflict` for a backup that was written to since; `locked` while another writes there; `damaged` where the
   * store is damaged in what was copied, or with `verify` anywhere: everything else was copied then, and the damaged
   * segments too where they don't take the place of what may be whole; else those of reading and writing. What it has copied
   * so far is a store that ends earlier, which the next one completes.
   *
   * @example
   * ```ts
   * const { segmentsCopied, lastPosition } = await store.backup("runlog-backup");
   * ```
   */
  async backup(folder: string, options: BackupOptions = {}): Promise<Backup> {
    checkText(folder, "the path of a backup's folder");
    const { verify } = optionsOf(options, ["verify"]);
    return await this.#handle.value("backup", { folder, options: { verify } });
  }

  /**
   * Gives the disk space back of what nothing refers to any more, and compresses the rest, while the store is used. What was
   * truncated or deleted and no copy shares is gone for good, and so are the payloads of what was redacted; every answer is
   * as before. A damaged segment is left as it is, and counted. Durable when it resolves, and after a crash done in part or not at all.
   *
   * @throws {@link RunlogError} `read_only` for a store opened
   * for reading, unless it's a dry run; `damaged` for what doesn't read back as it was written; `storage_full`: it takes room for the pack of one segment before it
   * gives any back; `aborted` when the signal is. The store goes on in any case.
   *
   * @example
   * ```ts
   * const { bytesBefore, bytesAfter } = await store.compact({ dryRun: true });
   * await store.compact({ onProgress: ({ bytesDone, bytesTotal }) => console.log(`${bytesDone} of ${bytesTotal} bytes`) });
   * ```
   */
  async compact(options: CompactOptions & ProgressOptions<CompactProgress> = {}): Promise<Compaction> {
    const { onProgress, signal, ...rest } = fieldsOf(options, "what a compaction is to do");
    return await watched(
      { onProgress, signal },
      (watch, signal) => withKnownFields({ of: "options", also: WATCHED }, this.#handle.value("compact", { options: rest, watch }, undefined, { signal })),
      (watch) => this.#handle.value("compactProgress", { watch }, undefined, { idle: true }),
    );
  }

  /**
   * Gives up the sessions that a policy doesn't keep, and says which and how much that was; with `dryRun`, what it would be. A
   * session goes when every rule that is given says so: what one of them keeps, stays. What a copy sees stays, and so do
   * sessions with a run at work or paused. The disk space is given back by the next {@link compact}, at once with `compact`. The
   * runs stay listed with how they ended. With `deltasOlderThanMs` alone, streaming deltas of flows go instead, those whose whole
   * text stands. Durable when it resolves; after a crash, asking again does the rest.
   *
   * @throws {@link RunlogError} `invalid_input` for a policy without a rule, or one that would keep nothing; `read_only` for a
   * store opened for reading, where this isn't a dry run; `aborted` when the signal is; else those of reading and writing the
   * store.
   *
   * @example
   * ```ts
   * const month = 30 * 24 * 60 * 60 * 1000;
   * const { sessions, bytes } = await store.retain({ olderThanMs: month, keepLast: 100, dryRun: true });
   * ```
   */
  async retain(policy: RetentionPolicy & ProgressOptions<RetainProgress>): Promise<Retained> {
    const { onProgress, signal, ...rest } = fieldsOf(policy, "a policy");
    return await watched(
      { onProgress, signal },
      (watch, signal) => withKnownFields({ of: "policy", also: WATCHED }, this.#handle.value("retain", { policy: rest, watch }, undefined, { signal })),
      (watch) => this.#handle.value("retainProgress", { watch }, undefined, { idle: true }),
    );
  }

  /**
   * Takes content out of every read, then compacts the store, so that its bytes are gone from the disk; `isGone` says whether
   * they are. The records keep their places, empty, and the sessions stay. Copies lose what they have of it, too; what a
   * session was copied from keeps what they share. It can't be undone. With a session go its title and metadata, and of its runs the details, the flows, and how they ended in words. Names of
   * sessions and ids of chats, by which they are found, backups and exports aren't erased. What was written before it was called
   * is erased, awaited or not; what can't be read, because it is damaged, doesn't keep the rest, and `isGone` is `false` then.
   *
   * @throws {@link RunlogError} `invalid_input` where nothing is named, the reason is empty, or a position is of what says how a run
   * went or of an entry of the store's lists, which nothing could be found without; `not_found` for a session, a chat, a flow,
   * a message or a position that isn't there; `wrong_status` for a session with a run at work or a request under way, and a flow at work.
   * Nothing was erased then. And those of {@link compact}, where the content is out of every read: the same call erases its bytes.
   *
   * @example
   * ```ts
   * const { isGone } = await store.erase({ sessions: [session.id], reason: "asked for by the user" });
   * await store.erase({ users: ["user123"], reason: "the user left" }); // all chats that were made by him
   * ```
   */
  async erase(what: Erase & { reason: string }): Promise<Erased> {
    return await this.#handle.value("erase", { what: fieldsOf(what, "what is to be erased") });
  }

  /**
   * Everything that the store has, or that it has of some sessions and runs, as JSON lines: what `runlog export` writes, byte
   * for byte, in pieces of about 256 KiB. It is as the store was when the first piece was read. A session that was deleted is named by its
   * whole id.
   *
   * Of a damaged store `skipDamaged` writes what can be read. A line `{"runlog":"lost",…}` stands for the records of a stream that
   * can't be, with their sequences; {@link exportTo} tells them too, and an import names what it leaves out for them.
   *
   * @throws {@link RunlogError} `not_found` for a session or run that isn't there; `invalid_input` for a selection of nothing;
   * `damaged` for a record that can't be read; else those of reading the store.
   *
   * @example
   * ```ts
   * import { createWriteStream } from "node:fs";
   * import { pipeline } from "node:stream/promises";
   *
   * await pipeline(store.export({ sessions: [session.id] }), createWriteStream("trip.jsonl"));
   * ```
   */
  export(what: ExportSelection = {}): AsyncIterableIterator<OwnBytes> {
    return exported(this.#handle, what);
  }

  /**
   * As {@link export}, to a file, which must not be there yet and gets its name when it is whole; until then it is a hidden
   * file beside it with a name of its own.
   *
   * @throws {@link RunlogError} as {@link export}; `already_exists` for a file that is there, `io` when it can't be written.
   *
   * @example
   * ```ts
   * const { records, lost } = await store.exportTo("everything.jsonl", { skipDamaged: true });
   * for (const { stream, first, last } of lost) console.error(`${stream}: ${first} to ${last} can't be read`);
   * ```
   */
  async exportTo(path: string, what: ExportSelection = {}): Promise<Exported> {
    checkText(path, "the path of an export");
    return await this.#handle.value("exportTo", { path, what: selectionOf(what) });
  }

  /**
   * Takes in what {@link export} or `runlog export` wrote: sessions, runs, chats, flows and definitions with their ids,
   * sequences and contents; of bytes, a stream of them such as a response's `body`, or a file that was picked in a browser. What is there already is left as it is, so that importing twice changes nothing, and a newer
   * export adds what is new; a session that went another way since, or was deleted, is left out as a whole, and reported as a conflict. All of it is
   * read before anything is written: pieces are kept in a temporary file until then. Nothing else should write to the store
   * meanwhile. Events tell the times they had; records of streams of your own, a flow's playback, and what is redacted, of which
   * the time is lost with the rest, have that of the import.
   *
   * @throws {@link RunlogError} `invalid_input` for what is no archive, breaks off, or has a line that can't be read;
   * `conflict` with `strict`; `aborted` when the signal is; nothing was written then. Else those of reading and writing.
   *
   * @example
   * ```ts
   * import { createReadStream } from "node:fs";
   *
   * const { sessions, conflicts } = await store.import(createReadStream("trip.jsonl"));
   * ```
   */
  async import(source: ArchiveSource, options: ImportPiecesOptions = {}): Promise<Imported> {
    return await imported(this.#handle, source, options, this.#closing.signal);
  }

  /**
   * As {@link import}, of a file.
   *
   * @throws {@link RunlogError} as {@link import}; `not_found` when there is no such file.
   *
   * @example
   * ```ts
   * await store.importFrom("everything.jsonl", { strict: true });
   * ```
   */
  async importFrom(path: string, options: ImportOptions = {}): Promise<Imported> {
    checkText(path, "the path of an archive");
    const { strict } = optionsOf(options, ["strict"]);
    return await this.#handle.value("importFrom", { path, strict: strict ?? false });
  }

  /**
   * Makes everything that was acknowledged so far durable, on the device when it resolves, whatever its durability.
   *
   * @throws {@link RunlogError} `io`: the store then refuses appends until it is reopened.
   */
  async sync(): Promise<void> {
    await this.#handle.value("sync");
  }

  /** A fresh id that sorts by time: a UUID of version 7. */
  newId(): string {
    return newUuid();
  }

  /**
   * Lets other threads of this process use the store: post what this resolves to to a worker, and give it to
   * {@link attach} there.
   */
  async share(): Promise<SharedStore> {
    return { runlogStore: await this.#handle.value("share") };
  }

  /**
   * Waits for the writes of this thread that were called before, writes the requests of chats that are open as interrupted, those of
   * other threads too, flushes, saves what makes the next opening fast, and lets another process write. Later calls are refused with
   * `closed`, those of other threads too, even while it waits; closing twice waits for the same. Whoever waits for an agent's run gets
   * an error that it is `closed`, and the signals of agents at work are aborted. In a thread that was given the store it writes its own
   * requests, and only lets go of it.
   *
   * @throws {@link RunlogError} `io` when the file system refuses; what was acknowledged is safe all the same. `storage_full` and the
   * like, with the request's id, when a request of a chat that is open couldn't be written as interrupted: it is as after a crash then. The
   * store is closed in each case.
   */
  async close(): Promise<void> {
    if (this.#handle.isOpen) this.#closed = this.#close();
    // Whoever closes it again waits for the same.
    await this.#closed;
  }

  async #close(): Promise<void> {
    this.#handle.endAll();
    const closed = closing(this.#handle.value("close"));
    // Whether it failed is said at the end; nobody listens until then.
    closed.catch(() => {});
    this.#handle.release();
    this.#closing.abort();
    for (const weak of this.#orchestrators) await weak.deref()?.close();
    try {
      await closed;
    } finally {
      this.#onClosed();
      // In a thread that was given the store, it goes on elsewhere.
      if (this.#owns) for (const weak of this.#orchestrators) weak.deref()?.abandon();
    }
  }

  /** As {@link close}. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/** A store that a binding has opened. @internal */
export async function openedStore(channel: Channel, method: string, args: object, onClosed?: () => void): Promise<Store> {
  const reply = check(await channel.call(0, method, encodeArguments(args)));
  return new Store(new Handle(channel, reply.handle, "the store"), valueOf<Recovery>(reply), method !== "attach", onClosed);
}
