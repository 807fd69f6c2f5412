import type { Answered, Asked, Pushed } from "../protocol.js";
import type { Api } from "../worker/api.js";

type Methods = { [M in keyof Api]: Api[M] extends (...args: infer A) => infer R ? (...args: A) => Promise<Awaited<R>> : never };

/** The worker, by its methods. */
export type Remote = Methods;

/** Why a call about a recording failed whose place another one took meanwhile. Nobody need see it. */
export class Superseded extends Error {
  constructor() {
    super("Another recording was opened meanwhile.");
  }
}

/** What the self-contained page has inside of it: base64 of gzip. */
export function embedded(id: string): string | undefined {
  const text = document.getElementById(id)?.textContent?.trim();
  return text === undefined || text === "" || text.startsWith("{{") ? undefined : text;
}

/** The bytes of something that is embedded. */
export async function unpacked(base64: string): Promise<Blob> {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const isZipped = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const blob = new Blob([bytes]);
  return isZipped ? new Response(blob.stream().pipeThrough(new DecompressionStream("gzip"))).blob() : blob;
}

/** Starts the worker, and gives what calls it. */
export async function startWorker(onPush: (pushed: Pushed) => void, failed: (why: string) => void): Promise<Remote> {
  const script = embedded("runlog-worker");
  const worker = new Worker(script === undefined ? new URL("worker.js", document.baseURI) : URL.createObjectURL(new Blob([await unpacked(script)], { type: "text/javascript" })));
  const waiting = new Map<number, { method: string; resolve: (value: unknown) => void; reject: (error: Error) => void }>();
  let last = 0;
  worker.addEventListener("message", ({ data }: MessageEvent<Answered | Pushed>) => {
    if (!("id" in data)) return onPush(data);
    const call = waiting.get(data.id);
    waiting.delete(data.id);
    if ("error" in data) call?.reject(new Error(data.error));
    else {
      call?.resolve(data.value);
      if (call?.method === "open") supersede();
    }
  });
  worker.addEventListener("error", (event) => failed(event.message || "The worker's script could not be loaded."));
  // Rows and events of the one before mean others in the one that is open now.
  const supersede = () => {
    for (const [id, { method, reject }] of waiting) {
      if (method === "open") continue;
      waiting.delete(id);
      reject(new Superseded());
    }
  };
  const ask = (method: string, args: unknown[]) =>
    new Promise<unknown>((resolve, reject) => {
      last += 1;
      waiting.set(last, { method, resolve, reject });
      worker.postMessage({ id: last, method, args } satisfies Asked);
    });
  const remote = new Proxy({} as Remote, { get: (_, method) => (method === "then" ? undefined : (...args: unknown[]) => ask(String(method), args)) });
  const module = embedded("runlog-module");
  await remote.start(module === undefined ? new URL("runlog.wasm", document.baseURI).href : await (await unpacked(module)).arrayBuffer());
  return remote;
}
