import type { WasmSource } from "./compile.js";
import { turnsBetween } from "./local.js";
import { serve } from "./serve.js";
import type { WorkerPort } from "./spawn.js";

type Listener = (event: MessageEvent) => void;

/**
 * The core for a thread that is a worker itself, as if it were in one of its own: what is asked of it waits for the browser's
 * files where it has to, and leaves the thread its other events. An await that is answered in the same turn would never.
 *
 * @internal
 */
export function ownWorker(wasm: WasmSource | undefined): WorkerPort {
  let toCore: Listener = () => {};
  let toCaller: Listener = () => {};
  const asked: unknown[] = [];
  const next = turnsBetween(() => {
    for (const message of asked.splice(0)) toCore({ data: message } as MessageEvent);
  });
  serve(wasm, {
    postMessage: (message) => toCaller({ data: message } as MessageEvent),
    addEventListener: (_, listener) => void (toCore = listener),
  });
  return {
    postMessage(message) {
      asked.push(message);
      if (asked.length === 1) next();
    },
    addEventListener(type: string, listener: unknown) {
      // It has no script that could fail.
      if (type === "message") toCaller = listener as Listener;
    },
    terminate() {
      asked.length = 0;
    },
  };
}
