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

/** Does for a page, in its worker, what it asks for; `wasm` is the module, where the page doesn't give one. @internal */
export function serve(wasm: WasmSource | undefined, scope: { postMessage(message: unknown, transfer: Transferable[]): void; addEventListener(type: "message", listener: (event: MessageEvent) => void): void }): void {
  let binding: Binding | undefined;
  /** The page's ticket, by the core's. */
  const tickets = new Map<number, number>();
  const cores = new Map<number, number>();

  const send = (message: FromWorker, transfer: Transferable[] = []) => scope.postMessage({ runlog: message } satisfies Envelope<FromWorker>, transfer);
  const reply = (parts: Part[]) => {
    if (parts.length === 0) return;
    // Bytes are the module's copies for us: the page may have them.
    send({ type: "replies", parts }, parts.flatMap((part) => (part instanceof Uint8Array ? [part.buffer as ArrayBuffer] : [])));
  };
  const onReplies = (parts: Part[]) => {
    for (let at = 0; at < parts.length; at += 5) {
      const core = parts[at] as number;
      if (core === 0) continue;
      parts[at] = tickets.get(core) as number;
      tickets.delete(core);
      cores.delete(parts[at] as number);
    }
    reply(parts);
  };
  const fault = (ticket: number, error: unknown): Part[] => [ticket, 0, undefined, JSON.stringify({ ...failureOf(error), code: "internal" }), undefined];

  const handle = (message: ToWorker) => {
    switch (message.type) {
      case "init":
        send({ type: "begun" });
        Promise.all([holdLock(), load(message.module ?? wasm)]).then(
          ([lock]) => {
            binding = localBinding();
            binding.onReplies(onReplies);
            binding.onEnded((message) => send({ type: "failed", failure: { code: "internal", message } }));
            send({ type: "ready", lock });
          },
          (error: unknown) => send({ type: "failed", failure: failureOf(error) }),
        );
        break;
      case "call": {
        const { ticket } = message;
        let started: number | Part[];
        try {
          started = (binding as Binding).call(message.handle, message.method, message.args, message.data);
        } catch (error) {
          reply(fault(ticket, error));
          break;
        }
        if (typeof started === "number") {
          tickets.set(started, ticket);
          cores.set(ticket, started);
        } else {
          reply([ticket, ...started]);
        }
        break;
      }
      case "append":
        try {
          // Tickets of appends follow each other here as they do for the page.
          reply((binding as Binding).append(message.packed, 0).slice(1));
        } catch (error) {
          send({ type: "failed", failure: failureOf(error) });
        }
        break;
      case "cancel": {
        const core = cores.get(message.ticket);
        if (core === undefined || binding?.cancel(core) !== true) break;
        tickets.delete(core);
        cores.delete(message.ticket);
        break;
      }
      case "release":
        binding?.release(message.handle);
        break;
      case "unmount":
        unmountHere(message.path);
        break;
      case "ask": {
        const { id } = message;
        answerOf(message.ask).then(
          (answer) => send({ type: "answer", id, answer }),
          (error: unknown) => send({ type: "answer", id, failure: failureOf(error) }),
        );
        break;
      }
    }
  };
  /** What waits for files, in order: the first one is what is waited for. */
  const waiting: ToWorker[] = [];
  const handleInTurn = async (wait: Promise<unknown>) => {
    await wait;
    for (let message = waiting[0]; message !== undefined; message = waiting[0]) {
      try {
        handle(message);
      } catch (error) {
        // As where nothing waits: the page is told by an event, and the others have their turn.
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
    if (wait === undefined && waiting.length === 0) return handle(message);
    waiting.push(message);
    if (wait !== undefined) void handleInTurn(wait);
  });
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
