import type { Binding, Part } from "../binding.js";
import { type Failure, errorOf } from "../error.js";
import type { ReadFigures } from "./files.js";
import type { Mount } from "./local.js";
import { type Ask, type Envelope, type FromWorker, type ToWorker, failureOf } from "./messages.js";

/** What is used of a worker. @internal */
export type WorkerPort = Pick<Worker, "postMessage" | "addEventListener" | "terminate">;

/** The core in a worker of this page. @internal */
export interface Remote {
  binding: Binding;
  mount(mount: Mount): Promise<string>;
  unmount(path: string): void;
  figures(path: string): Promise<ReadFigures | undefined>;
}

/**
 * Has a worker do the work, so that the page stays responsive, and waits until it is ready. The module may still be being
 * compiled, while the worker's scripts load; where it is none, the worker loads its own. `onEnded` is called once when the worker
 * can't be used any more. One that says nothing for `silentMs` after it was told to begin is given up: it may be anybody's.
 *
 * @internal
 */
export async function spawnWorker(worker: WorkerPort, module: Promise<WebAssembly.Module | undefined>, onEnded: () => void, silentMs?: number): Promise<Remote> {
  const connection = new Connection(worker, onEnded);
  await connection.begin(module, silentMs);
  return {
    binding: new RemoteBinding(connection),
    unmount: (path) => connection.tell({ type: "unmount", path }),
    mount: async (mount) => (await connection.ask({ ask: "mount", mount })) as string,
    figures: async (path) => (await connection.ask({ ask: "figures", path })) as ReadFigures | undefined,
  };
}

/** Browsers tell neither which script it was nor why: mostly a bundler hasn't put it beside the page's. */
const UNLOADED =
  "its script could not be loaded; where a bundler doesn't put it beside the page's script, import `runlog/inline`, or give `worker` and `wasm` to init()";

/** The messages to a worker and from it, until it fails. */
class Connection {
  onReplies: (parts: Part[]) => void = () => {};
  onEnded: (why: string) => void = () => {};
  private readonly ready = withResolvers();
  private readonly asked = new Map<number, (answer: Extract<FromWorker, { type: "answer" }>) => void>();
  private lastTicket = 0;
  private failure: Failure | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly worker: WorkerPort,
    private readonly onGone: () => void,
  ) {
    worker.addEventListener("message", ({ data }: MessageEvent<Partial<Envelope<FromWorker>> | null>) => {
      if (data?.runlog !== undefined) this.receive(data.runlog);
    });
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      // Of a script that can't be loaded browsers tell no more than that, some by an event without a message.
      const said = (event as Partial<ErrorEvent>).message ?? "";
      const code = said === "" ? "io" : "internal";
      this.receive({ type: "failed", failure: { code, message: `Runlog's worker failed: ${said === "" ? UNLOADED : said}` } });
    });
  }

  async begin(module: Promise<WebAssembly.Module | undefined>, silentMs: number | undefined): Promise<void> {
    module.then(
      (module) => {
        if (this.failure !== undefined) return;
        this.send({ type: "init", module });
        if (silentMs === undefined) return;
        const message = `the worker that was given has said nothing for ${silentMs / 1000} s; make it from runlog/worker`;
        this.timer = setTimeout(() => this.receive({ type: "failed", failure: { code: "io", message } }), silentMs);
      },
      (error: unknown) => this.receive({ type: "failed", failure: failureOf(error) }),
    );
    await this.ready.promise.finally(() => clearTimeout(this.timer));
  }

  nextTicket(): number {
    this.lastTicket += 1;
    return this.lastTicket;
  }

  send(message: ToWorker, transfer: Transferable[] = []): void {
    if (this.failure !== undefined) throw new Error(this.failure.message);
    this.worker.postMessage({ runlog: message } satisfies Envelope<ToWorker>, transfer);
  }

  /** Sends what a worker that is gone needs not be sent: everything was let go with it. */
  tell(message: ToWorker): void {
    if (this.failure === undefined) this.send(message);
  }

  ask(ask: Ask): Promise<unknown> {
    const id = this.nextTicket();
    return new Promise((resolve, reject) => {
      this.asked.set(id, ({ answer, failure }) => (failure === undefined ? resolve(answer) : reject(errorOf(failure))));
      this.send({ type: "ask", id, ask });
    });
  }

  private receive(message: FromWorker): void {
    switch (message.type) {
      case "begun":
        // From here on it takes as long as it takes: the module may still have to be fetched.
        clearTimeout(this.timer);
        break;
      case "ready":
        this.ready.resolve();
        // A worker that is terminated tells nothing; the browser gives its lock to whoever waits for it.
        if (message.lock !== undefined) {
          const gone = () => this.fail({ code: "internal", message: "Runlog's worker was terminated" });
          navigator.locks.request(message.lock, gone).catch(() => {});
        }
        break;
      case "failed":
        this.ready.reject(errorOf(message.failure));
        this.fail(message.failure);
        break;
      case "replies":
        this.onReplies(message.parts);
        break;
      case "answer":
        this.asked.get(message.id)?.(message);
        this.asked.delete(message.id);
        break;
    }
  }

  /** The worker is gone, and what was asked of it: nobody knows what of that was done. With it go its locks and open files. */
  private fail(why: Failure): void {
    if (this.failure !== undefined) return;
    this.failure = why;
    this.worker.terminate();
    this.onGone();
    this.onEnded(why.message);
    for (const [id, done] of this.asked) done({ type: "answer", id, failure: why });
    this.asked.clear();
  }
}

class RemoteBinding implements Binding {
  private lastAppend = 0;

  constructor(private readonly connection: Connection) {}

  call(handle: number, method: string, args: string, data?: Uint8Array): number {
    const ticket = this.connection.nextTicket();
    this.connection.send({ type: "call", ticket, handle, method, args, data });
    return ticket;
  }

  append(packed: Uint8Array, count: number): Part[] {
    const first = this.lastAppend + 1;
    this.lastAppend += count;
    // The queue uses its memory again at once.
    const copy = packed.slice();
    this.connection.send({ type: "append", packed: copy }, [copy.buffer]);
    return [first];
  }

  cancel(ticket: number): boolean {
    this.connection.tell({ type: "cancel", ticket });
    return true;
  }

  release(handle: number): void {
    this.connection.tell({ type: "release", handle });
  }

  isBusy(): boolean {
    return false;
  }

  onReplies(listener: (parts: Part[]) => void): void {
    this.connection.onReplies = listener;
  }

  onEnded(listener: (why: string) => void): void {
    this.connection.onEnded = listener;
  }

  keepAlive(): void {}
}

/** `Promise.withResolvers`, which browsers have since 2024 only. */
function withResolvers(): { promise: Promise<void>; resolve: () => void; reject: (error: unknown) => void } {
  let resolve: () => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<void>((onDone, onFailed) => ([resolve, reject] = [onDone, onFailed]));
  return { promise, resolve, reject };
}
