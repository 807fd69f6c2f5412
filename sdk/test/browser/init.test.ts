// A file of its own, since it sets Runlog up in other ways in its page.

import { type WasmSource, init, openInMemory } from "#runlog";
import { expect, test } from "vitest";

import { spawnWorker } from "../../src/browser/spawn.js";
import { failure } from "../code.js";

const address = new URL("../../src/wasm/runlog_wasm_bg.wasm", import.meta.url);
const newWorker = () => new Worker(new URL("./breaker.ts", import.meta.url), { type: "module" });

/** Ends a worker, so that another can be given to `init`. */
async function end(worker: Worker): Promise<void> {
  const ended = new Promise((resolve) => worker.addEventListener("error", resolve));
  worker.postMessage({ breakWith: "script" });
  await ended;
}

const bytes = async () => (await fetch(address)).arrayBuffer();

test.each<[string, () => WasmSource | Promise<WasmSource>]>([
  ["an address", () => address.href],
  ["an address of this page's server", () => address.pathname],
  ["a URL", () => address],
  ["a response", () => fetch(address)],
  ["a response of a server that doesn't know the type", async () => new Response(await bytes(), { headers: { "content-type": "application/octet-stream" } })],
  ["bytes", bytes],
  ["a view of bytes", async () => new Uint8Array(await bytes())],
  ["a compiled module", async () => WebAssembly.compile(await bytes())],
])("the module may be %s, for a worker", async (_, source) => {
  const worker = newWorker();
  await init({ wasm: await source(), worker });
  const store = await openInMemory();
  const stream = store.newId();
  await store.streams.append(stream, "recorded");
  expect((await store.streams.read(stream).toArray())[0]?.text()).toBe("recorded");
  await store.close();
  await end(worker);
});

test("what isn't known, is no worker, or is one of somebody else's is refused", async () => {
  expect((await failure(init({ wasmUrl: address } as never), "invalid_input")).message).toContain("`wasmUrl` is not a field that is known here");
  expect((await failure(init({ worker: "worker.js" } as never), "invalid_input")).message).toContain("give a Worker, or false");
  await failure(init([address] as never), "invalid_input");
  expect((await failure(init({ wasm: Promise.resolve(address) as never, worker: newWorker() }), "invalid_input")).message).toBe("`wasm` is a promise; await it");
  const other = URL.createObjectURL(new Blob(["onmessage = () => postMessage('hello')"], { type: "text/javascript" }));
  const silent = spawnWorker(new Worker(other), Promise.resolve(undefined), () => {}, 200);
  expect((await failure(silent, "io")).message).toContain("make it from runlog/worker");
  const missing = init({ worker: new Worker(new URL("/no-such-worker.js", address)) });
  expect((await failure(missing, "io")).message).toContain("its script could not be loaded");
});

test("a module that can't be had is told, and another one may be named after that", async () => {
  const missing = await failure(init({ wasm: new URL("no-such-module.wasm?import&url", address.origin), worker: newWorker() }), "io");
  expect(missing.message).toContain("could not be loaded");
  await failure(init({ wasm: new Uint8Array([1, 2, 3]), worker: newWorker() }), "io");
  const refused = await failure(init({ wasm: new Response("gone", { status: 410, statusText: "Gone" }), worker: newWorker() }), "io");
  expect(refused.message).toContain("410 Gone");
  await init({ wasm: address });
  await (await openInMemory()).close();
});
