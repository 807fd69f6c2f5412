// The packed package in workerd, which Cloudflare Workers run in, by miniflare.

import { writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { afterAll, beforeAll, expect, test } from "vitest";

import { type Packed, pack, run } from "../package/packed.js";

/** What of miniflare is used here, which the test installs. */
interface Miniflare {
  dispatchFetch(url: string, init?: { method: string; body: string }): Promise<{ status: number; text(): Promise<string> }>;
  dispose(): Promise<void>;
}

const WORKER = `
import { RunlogError, openExport, openInMemory, placeOf } from "runlog";

let shared;
export default {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const store = pathname === "/shared" ? (shared ??= await openInMemory()) : request.method === "POST" ? await openExport(request.body) : await openInMemory();
    if (request.method !== "POST") {
      const run = await store.runs.start({ session: { title: "Fix it" }, agentName: "coder" });
      await run.recordMessage({ role: "user", content: "hi" });
      await run.complete("fixed");
    }
    const { items } = await store.runs.list();
    let text = "";
    const decoder = new TextDecoder();
    for await (const piece of store.export()) text += decoder.decode(piece, { stream: true });
    const code = await store.findSession("nobody").catch((error) => (error instanceof RunlogError ? error.code : String(error)));
    const sound = (await store.verify()).sound;
    if (store !== shared) await store.close();
    return Response.json({ runs: items.map((it) => it.status), code, sound, kind: placeOf(store).kind, text });
  },
};
`;

let packed: Packed;
let worker: Miniflare;

beforeAll(async () => {
  packed = await pack("workerd");
  await writeFile(join(packed.app, "package.json"), JSON.stringify({ name: "app", private: true, type: "module" }));
  await run("npm", ["install", "--no-audit", "--no-fund", "--no-save", "--prefer-offline", "esbuild@0.25", "miniflare@4", ...packed.tarballs], packed.app);
  await writeFile(join(packed.app, "worker.js"), WORKER);
  // As wrangler does: the conditions of workerd, and modules of WebAssembly beside the script, which workerd compiles.
  const esbuild = join(packed.app, "node_modules/esbuild/bin/esbuild");
  const dist = join(packed.app, "dist");
  const options = ["--bundle", "--format=esm", "--outdir=dist", "--conditions=workerd,worker,browser", "--loader:.wasm=copy", "--asset-names=[name]"];
  await run(esbuild, ["worker.js", ...options], packed.app);
  const { Miniflare } = (await import(pathToFileURL(createRequire(join(packed.app, "package.json")).resolve("miniflare")).href)) as { Miniflare: new (options: object) => Miniflare };
  worker = new Miniflare({
    compatibilityDate: "2026-01-01",
    rootPath: dist,
    modulesRoot: dist,
    modules: [
      { type: "ESModule", path: join(dist, "worker.js") },
      { type: "CompiledWasm", path: join(dist, "runlog_wasm_bg.wasm") },
    ],
  });
}, 240_000);

afterAll(async () => {
  await worker?.dispose();
  await packed?.remove();
});

async function answerOf(path: string, body?: string): Promise<Record<string, unknown>> {
  const response = await worker.dispatchFetch(`http://localhost${path}`, body === undefined ? undefined : { method: "POST", body });
  const text = await response.text();
  expect(response.status, text).toBe(200);
  return JSON.parse(text) as Record<string, unknown>;
}

test("a request has a store in memory, and exports it; another opens the export", async () => {
  const { text, ...answer } = await answerOf("/");
  expect(answer).toEqual({ runs: ["completed"], code: "not_found", sound: true, kind: "memory" });
  // The positions and times of an import are its own.
  const opened = await answerOf("/", text as string);
  expect({ ...opened, text: undefined }).toEqual({ ...answer, kind: "export", text: undefined });
});

test("requests at the same time have stores of their own, and one after the other may share one", async () => {
  const answers = await Promise.all(Array.from({ length: 20 }, () => answerOf("/")));
  for (const answer of answers) expect(answer.runs).toEqual(["completed"]);
  await answerOf("/shared");
  expect((await answerOf("/shared")).runs).toEqual(["completed", "completed"]);
});
