import type { Binding, Part } from "../binding.js";
import type { WasmSource } from "./compile.js";
import { figuresHere, load, localBinding, mountHere, readyHere, unmountHere } from "./local.js";
import { type Ask, type Envelope, type FromWorker, type ToWorker, failureOf } from "./messages.js";

/** Takes a lock for as long as this worker lives, and tells its name; `undefined` where there are no locks, as in a page of a file. */
function holdLock(): Promise<string | undefined> {
  const locks = (globalThis.navigator as Partial<Navigator> | undefined)?.locks;
  if (locks === undefined) return Promise.resolve(undefined);
  const name = `runlog worker ${crypto.randomUUID()}`;
  return new Promise((resolve) => {
    const held = () => {
      resolve(name);
      return new Promise<void>(() => {});
    };
    locks.request(name, held).catch(() => resolve(undefined));
  });
}

/** What is used of a worker's own side. @internal */
export interface WorkerScope {
  postMessage(message: unknown, transfer: Transferable[]): void;
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void;
}

/** Does for a page, in its worker, what it asks for; `wasm` is the module, where the page doesn't give one. @internal */
export function serve(wasm: WasmSource | undefined, scope: WorkerScope): void {
  const served = new Served(wasm, scope);
  /** What waits for files, in order: the first one is what is waited for. */
  const waiting: ToWorker[] = [];
  const handleInTurn = async (wait: Promise<unknown>) => {
    await wait;
    for (let message = waiting[0]; message !== undefined; message = waiting[0]) {
      try {
        served.handle(message);
      } catch (error) {
        // As where nothing waits: the page gets an event, and the others have their turn.
        reportError(error);
      }
      waiting.shift();
      const next = waiting[0];
      if (next !== undefined) await readyFor(next);
    }
  };
  scope.addEventListener("message", ({ data }: MessageEvent<Partial<Envelope<ToWorker>> | null>) => {
    const message = data?.runlog;
    if (message === undefined) return;
    const wait = waiting.length === 0 ? readyFor(message) : undefined;
    if (wait === undefined && waiting.length === 0) return served.handle(message);
    waiting.push(message);
    if (wait !== undefined) void handleInTurn(wait);
  });
}

/** The core, for one page. */
class Served {
  private binding: Binding | undefined;
  /** The page's ticket, by the core's, and the reverse. */
  private readonly tickets = new Map<number, number>();
  private readonly cores = new Map<number, number>();

  constructor(
    private readonly wasm: WasmSource | undefined,
    private readonly scope: WorkerScope,
  ) {}

  handle(message: ToWorker): void {
    switch (message.type) {
      case "init":
        this.begin(message.module);
        break;
      case "call":
        this.call(message);
        break;
      case "append":
        try {
          // Tickets of appends follow each other here as they do for the page.
          this.reply((this.binding as Binding).append(message.packed, 0).slice(1));
        } catch (error) {
          this.send({ type: "failed", failure: failureOf(error) });
        }
        break;
      case "cancel": {
        const core = this.cores.get(message.ticket);
        if (core !== undefined && this.binding?.cancel(core) === true) this.forget(core);
        break;
      }
      case "release":
        this.binding?.release(message.handle);
        break;
      case "unmount":
        unmountHere(message.path);
        break;
      case "ask": {
        const { id } = message;
        answerOf(message.ask).then(
          (answer) => this.send({ type: "answer", id, answer }),
          (error: unknown) => this.send({ type: "answer", id, failure: failureOf(error) }),
        );
        break;
      }
    }
  }

  private begin(module: WebAssembly.Module | undefined): void {
    this.send({ type: "begun" });
    Promise.all([holdLock(), load(module ?? this.wasm)]).then(
      ([lock]) => {
        this.binding = localBinding();
        this.binding.onReplies((parts) => this.answer(parts));
        this.binding.onEnded((message) => this.send({ type: "failed", failure: { code: "internal", message } }));
        this.send({ type: "ready", lock });
      },
      (error: unknown) => this.send({ type: "failed", failure: failureOf(error) }),
    );
  }

  private call({ ticket, handle, method, args, data }: Extract<ToWorker, { type: "call" }>): void {
    let started: number | Part[];
    try {
      started = (this.binding as Binding).call(handle, method, args, data);
    } catch (error) {
      const fault = JSON.stringify({ ...failureOf(error), code: "internal" });
      return this.reply([ticket, 0, undefined, fault, undefined]);
    }
    if (typeof started !== "number") return this.reply([ticket, ...started]);
    this.tickets.set(started, ticket);
    this.cores.set(ticket, started);
  }

  /** Hands on what the core answered, under the page's tickets. */
  private answer(parts: Part[]): void {
    for (let at = 0; at < parts.length; at += 5) {
      const core = parts[at] as number;
      if (core !== 0) parts[at] = this.forget(core);
    }
    this.reply(parts);
  }

  private forget(core: number): number {
    const ticket = this.tickets.get(core) as number;
    this.tickets.delete(core);
    this.cores.delete(ticket);
    return ticket;
  }

  private reply(parts: Part[]): void {
    if (parts.length === 0) return;
    // Bytes are the module's copies for us: the page may have them.
    this.send({ type: "replies", parts }, parts.flatMap((part) => (part instanceof Uint8Array ? [part.buffer as ArrayBuffer] : [])));
  }

  private send(message: FromWorker, transfer: Transferable[] = []): void {
    this.scope.postMessage({ runlog: message } satisfies Envelope<FromWorker>, transfer);
  }
}

/** Waits for the files that a message may need; `undefined` when they are there. */
function readyFor(message: ToWorker): Promise<unknown> | undefined {
  switch (message.type) {
    case "append":
      return readyHere(message.packed.length);
    case "call":
      return readyHere(message.args.length + (message.data?.length ?? 0));
    default:
      return undefined;
  }
}

async function answerOf(ask: Ask): Promise<Extract<FromWorker, { type: "answer" }>["answer"]> {
  return ask.ask === "mount" ? mountHere(ask.mount) : figuresHere(ask.path);
}
