import type { Binding, Part } from "../binding.js";
import { RunlogError, errorOf } from "../error.js";
import type { Mount, WasmSource } from "./local.js";
import type { Envelope, FromWorker, ToWorker } from "./messages.js";

/** The core in a worker of this page. @internal */
export interface Remote {
  binding: Binding;
  mount(mount: Mount): Promise<string>;
  unmount(path: string): void;
}

/**
 * Starts the worker that does the work, so that the page stays responsive, and waits until it is ready.
 *
 * @internal
 */
export async function spawnWorker(worker: Worker, wasm: WasmSource | undefined): Promise<Remote> {
  let listener: (parts: Part[]) => void = () => {};
  /** What to answer when the worker fails. */
  const calls = new Set<number>();
  const mounts = new Map<number, (done: Extract<FromWorker, { type: "mounted" }>) => void>();
  let lastTicket = 0;
  let lastAppend = 0;
  let failure: string | undefined;

  const send = (message: ToWorker, transfer: Transferable[] = []) => {
    if (failure !== undefined) throw new Error(failure);
    worker.postMessage({ runlog: message } satisfies Envelope<ToWorker>, transfer);
  };
  /** The worker is gone, and what was asked of it: nobody knows what of that was done. */
  const fail = (why: string) => {
    failure = why;
    const message = JSON.stringify({ code: "internal", message: why });
    const parts = [...calls].flatMap((ticket) => [ticket, 0, undefined, message, undefined]);
    calls.clear();
    listener(parts);
    for (const [id, done] of mounts) done({ type: "mounted", id, failure: { code: "internal", message: why } });
  };
  const ready = new Promise<void>((resolve, reject) => {
    const receive = (message: FromWorker) => {
      switch (message.type) {
        case "ready":
          resolve();
          break;
        case "failed":
          reject(errorOf(message.failure));
          fail(message.failure.message);
          break;
        case "replies":
          for (let at = 0; at < message.parts.length; at += 5) calls.delete(message.parts[at] as number);
          listener(message.parts);
          break;
        case "mounted":
          mounts.get(message.id)?.(message);
          mounts.delete(message.id);
          break;
      }
    };
    worker.addEventListener("message", ({ data }: MessageEvent<Partial<Envelope<FromWorker>> | null>) => {
      if (data?.runlog !== undefined) receive(data.runlog);
    });
    worker.addEventListener("error", (event) => {
      event.preventDefault();
      const why = `Runlog's worker failed: ${event.message === "" ? "its script could not be loaded" : event.message}`;
      reject(new RunlogError("internal", why));
      fail(why);
    });
  });
  send({ type: "init", wasm });
  await ready;

  return {
    binding: {
      call(handle, method, args, data) {
        lastTicket += 1;
        send({ type: "call", ticket: lastTicket, handle, method, args, data });
        calls.add(lastTicket);
        return lastTicket;
      },
      append(packed, count) {
        const first = lastAppend + 1;
        lastAppend += count;
        // The queue uses its memory again at once.
        const copy = packed.slice();
        send({ type: "append", packed: copy }, [copy.buffer]);
        return [first];
      },
      cancel(ticket) {
        send({ type: "cancel", ticket });
        return calls.delete(ticket);
      },
      release(handle) {
        // With the worker everything is let go.
        if (failure === undefined) send({ type: "release", handle });
      },
      isBusy: () => false,
      onReplies: (to) => void (listener = to),
      keepAlive: () => {},
    },
    unmount: (path) => send({ type: "unmount", path }),
    mount(mount) {
      lastTicket += 1;
      const id = lastTicket;
      return new Promise((resolve, reject) => {
        mounts.set(id, ({ path, failure }) => {
          if (path !== undefined) resolve(path);
          else reject(errorOf(failure ?? { code: "internal", message: "the worker gave no path" }));
        });
        send({ type: "mount", id, mount });
      });
    },
  };
}
