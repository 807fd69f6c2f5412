// The packed package in the server code of an application of Next's, built by both of its bundlers.

import { type ChildProcess, spawn } from "node:child_process";
import { cp, rename, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type Packed, pack, run } from "../package/packed.js";

const here = dirname(fileURLToPath(import.meta.url));
const ENV = { ...process.env, NEXT_TELEMETRY_DISABLED: "1", NODE_ENV: "production" as const };

let packed: Packed;
let app: string;
let next: string;

beforeAll(async () => {
  packed = await pack("next");
  app = packed.app;
  await cp(join(here, "next"), app, { recursive: true });
  await run("npm", ["ci", "--no-audit", "--no-fund", "--prefer-offline"], app);
  await packed.install();
  next = join(app, "node_modules/next/dist/bin/next");
}, 240_000);

afterAll(() => packed?.remove());

/** A port that nobody has. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

/** A server under way, and what it has printed. */
interface Served {
  url: string;
  said(): string;
  stop(): Promise<void>;
}

async function serve(program: string[], cwd: string, store: string): Promise<Served> {
  const port = await freePort();
  const env = { ...ENV, RUNLOG_STORE: store, PORT: `${port}`, HOSTNAME: "127.0.0.1" };
  const child: ChildProcess = spawn(process.execPath, program, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (text) => (said += String(text)));
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const url = `http://127.0.0.1:${port}`;
  const until = Date.now() + 60_000;
  while (!(await fetch(`${url}/api/none`).then(() => true, () => false))) {
    if (child.exitCode !== null || Date.now() > until) throw new Error(`the server doesn't answer:\n${said}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  const stop = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  return { url, said: () => said, stop };
}

/** Records a run over HTTP, and looks at it by the route and by the page. */
async function isAnswered(program: string[], cwd: string): Promise<void> {
  const served = await serve(program, cwd, join(packed.folder, `store-${Math.random()}`));
  try {
    const message = { role: "user", content: "hi" };
    const made = await fetch(`${served.url}/api/runs`, { method: "POST", body: JSON.stringify(message) });
    expect(made.status, served.said()).toBe(200);
    const { id } = (await made.json()) as { id: string };
    expect(await (await fetch(`${served.url}/api/runs?id=${id}`)).json()).toEqual([message]);
    const none = await fetch(`${served.url}/api/runs?id=01a1fcc3-c6fa-758c-81a0-cca944f8a178`);
    expect(await none.json()).toEqual({ code: "not_found" });
    expect(await (await fetch(served.url)).text()).toContain("1 run, paused");
  } finally {
    await served.stop();
  }
}

async function build(bundler: string, config: object): Promise<void> {
  // A folder above may have a lock file too, which Next would take for the application's.
  const root = { outputFileTracingRoot: app, turbopack: { root: app } };
  await writeFile(join(app, "next.config.mjs"), `export default ${JSON.stringify({ ...config, ...root })};\n`);
  await rm(join(app, ".next"), { recursive: true, force: true });
  await run(process.execPath, [next, "build", `--${bundler}`], app, ENV);
}

/** Builds a copy that needs nothing of the application's folder, and gives its place. */
async function standalone(bundler: string, config: object): Promise<string> {
  await build(bundler, { output: "standalone", ...config });
  const elsewhere = join(packed.folder, `standalone-${bundler}`);
  await rm(elsewhere, { recursive: true, force: true });
  await rename(join(app, ".next/standalone"), elsewhere);
  return elsewhere;
}

describe.each(["turbopack", "webpack"])("an application that %s built", (bundler) => {
  test("uses a store, without any configuration", { timeout: 150_000 }, async () => {
    await build(bundler, {});
    await isAnswered([next, "start"], app);
  });

  test("uses a store where it is copied, with runlog kept out of its bundles", { timeout: 150_000 }, async () => {
    await isAnswered(["server.js"], await standalone(bundler, { serverExternalPackages: ["runlog"] }));
  });
});

test("a copy whose bundles hold runlog says what to do where its addon is left behind", { timeout: 150_000 }, async () => {
  const copy = await standalone("webpack", {});
  const served = await serve(["server.js"], copy, join(packed.folder, "none"));
  try {
    expect((await fetch(`${served.url}/api/runs?id=none`)).status).toBe(500);
    expect(served.said()).toContain("could not be loaded");
    expect(served.said()).toContain('serverExternalPackages: ["runlog"]');
  } finally {
    await served.stop();
  }
});
