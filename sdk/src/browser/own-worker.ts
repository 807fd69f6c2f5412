import type { WasmSource } from "./compile.js";
import { turnsBetween } from "./local.js";
import type { Envelope, ToWorker } from "./messages.js";
import { serve } from "./serve.js";
import type { WorkerPort } from "./spawn.js";

type Listener = (event: MessageEvent) => void;
type ErrorListener = (event: Pick<ErrorEvent, "message" | "preventDefault">) => void;

/**
 * The core for a thread that is a worker itself, reached as if it were in another one: a call waits for the browser's files where
 * it has to, and the thread has its other events between calls. Calls that were answered at once, in microtasks, left it none.
 *
 * @internal
 */
export function ownWorker(wasm: WasmSource | undefined): WorkerPort {
  let toCore: Listener = () => {};
  let toCaller: Listener = () => {};
  let onError: ErrorListener = () => {};
  const asked: unknown[] = [];
  const next = turnsBetween(() => {
    try {
      for (const message of asked.splice(0)) toCore({ data: message } as MessageEvent);
    } catch (error) {
      onError({ message: String(error), preventDefault: () => {} });
    }
  });
  serve(wasm, {
    postMessage: (message) => toCaller({ data: message } as MessageEvent),
    addEventListener: (_, listener) => void (toCore = listener),
  });
  return {
    postMessage(message: Envelope<ToWorker>) {
      const { runlog } = message;
      // Nothing is copied on the way, unlike to a worker of its own, and the caller may change its bytes after the call.
      const isGiven = runlog.type === "call" && runlog.data !== undefined;
      asked.push(isGiven ? { runlog: { ...runlog, data: runlog.data?.slice() } } : message);
      if (asked.length === 1) next();
    },
    addEventListener(type: string, listener: unknown) {
      if (type === "message") toCaller = listener as Listener;
      else onError = listener as ErrorListener;
    },
    terminate() {
      asked.length = 0;
    },
  };
}
