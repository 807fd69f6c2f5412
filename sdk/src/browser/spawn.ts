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
  let listener: (parts: Part[]) => void = () => {};
  let endListener: (why: string) => void = () => {};
  const asked = new Map<number, (answer: Extract<FromWorker, { type: "answer" }>) => void>();
  let lastTicket = 0;
  let lastAppend = 0;
  let failure: Failure | undefined;

  const send = (message: ToWorker, transfer: Transferable[] = []) => {
    if (failure !== undefined) throw new Error(failure.message);
    worker.postMessage({ runlog: message } satisfies Envelope<ToWorker>, transfer);
  };
  /** The worker is gone, and what was asked of it: nobody knows what of that was done. With it go its locks and open files. */
  const fail = (why: Failure) => {
    if (failure !== undefined) return;
    failure = why;
    worker.terminate();
    onEnded();
    endListener(why.message);
    for (const [id, done] of asked) done({ type: "answer", id, failure: why });
    asked.clear();
  };
  const { promise: ready, resolve: isReady, reject: isNotReady } = withResolvers();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const receive = (message: FromWorker) => {
    switch (message.type) {
      case "begun":
        // From here on it takes as long as it takes: the module may still have to be fetched.
        clearTimeout(timer);
        break;
      case "ready":
        isReady();
        // A worker that is terminated tells nothing; the browser gives its lock to whoever waits for it.
        if (message.lock !== undefined) {
          const gone = () => fail({ code: "internal", message: "Runlog's worker was terminated" });
          navigator.locks.request(message.lock, gone).catch(() => {});
        }
        break;
      case "failed":
        isNotReady(errorOf(message.failure));
        fail(message.failure);
        break;
      case "replies":
        listener(message.parts);
        break;
      case "answer":
        asked.get(message.id)?.(message);
        asked.delete(message.id);
        break;
    }
  };
  worker.addEventListener("message", ({ data }: MessageEvent<Partial<Envelope<FromWorker>> | null>) => {
    if (data?.runlog !== undefined) receive(data.runlog);
  });
  worker.addEventListener("error", (event) => {
    event.preventDefault();
    // Of a script that can't be loaded browsers tell no more than that, some by an event without a message.
    const said = (event as Partial<ErrorEvent>).message ?? "";
    const code = said === "" ? "io" : "internal";
    receive({ type: "failed", failure: { code, message: `Runlog's worker failed: ${said === "" ? "its script could not be loaded" : said}` } });
  });
  module.then(
    (module) => {
      if (failure !== undefined) return;
      send({ type: "init", module });
      if (silentMs === undefined) return;
      const message = `the worker that was given has said nothing for ${silentMs / 1000} s; make it from runlog/worker`;
      timer = setTimeout(() => receive({ type: "failed", failure: { code: "io", message } }), silentMs);
    },
    (error: unknown) => receive({ type: "failed", failure: failureOf(error) }),
  );
  await ready.finally(() => clearTimeout(timer));

  const ask = (what: Ask) => {
    lastTicket += 1;
    const id = lastTicket;
    return new Promise((resolve, reject) => {
      asked.set(id, ({ answer, failure }) => (failure === undefined ? resolve(answer) : reject(errorOf(failure))));
      send({ type: "ask", id, ask: what });
    });
  };
  return {
    binding: {
      call(handle, method, args, data) {
        lastTicket += 1;
        send({ type: "call", ticket: lastTicket, handle, method, args, data });
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
        if (failure === undefined) send({ type: "cancel", ticket });
        return true;
      },
      release(handle) {
        // With the worker everything is let go.
        if (failure === undefined) send({ type: "release", handle });
      },
      isBusy: () => false,
      onReplies: (to) => void (listener = to),
      onEnded: (to) => void (endListener = to),
      keepAlive: () => {},
    },
    unmount(path) {
      if (failure === undefined) send({ type: "unmount", path });
    },
    mount: async (mount) => (await ask({ ask: "mount", mount })) as string,
    figures: async (path) => (await ask({ ask: "figures", path })) as ReadFigures | undefined,
  };
}

/** `Promise.withResolvers`, which browsers have since 2024 only. */
function withResolvers(): { promise: Promise<void>; resolve: () => void; reject: (error: unknown) => void } {
  let resolve: () => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<void>((onDone, onFailed) => ([resolve, reject] = [onDone, onFailed]));
  return { promise, resolve, reject };
}
