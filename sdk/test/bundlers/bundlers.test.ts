// The packed package in a page, as each bundler makes it, and without any.

import { type ChildProcess, spawn } from "node:child_process";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { type Browser, chromium } from "playwright";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";

import { type Packed, pack, run } from "../package/packed.js";

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);
const vite = join(dirname(require.resolve("vite/package.json")), "bin/vite.js");
const ANSWER = { status: "completed", agentId: "coder", code: "not_found", persisted: false };

let packed: Packed;
let browser: Browser;

beforeAll(async () => {
  packed = await pack("bundlers");
  await cp(join(here, "app"), packed.app, { recursive: true });
  await writeFile(join(packed.app, "package.json"), JSON.stringify({ name: "app", private: true, type: "module" }));
  await packed.install();
  const executablePath = process.env.RUNLOG_CHROMIUM ?? "/usr/bin/chromium";
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  browser = await chromium.launch({ executablePath, args });
}, 240_000);

afterAll(async () => {
  await browser?.close();
  await packed?.remove();
});

/** What the page says once it is done, or what went wrong in it. */
async function answerOf(url: string): Promise<unknown> {
  const context = await browser.newContext();
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const told: string[] = [];
  page.on("console", (message) => told.push(message.text()));
  page.on("pageerror", (error) => told.push(String(error)));
  page.on("requestfailed", (request) => told.push(`${request.url()}: ${request.failure()?.errorText}`));
  await page.goto(url);
  try {
    await page.waitForFunction('document.title.startsWith("{")', undefined, { timeout: 30_000 });
  } catch {
    throw new Error(`the page did not get ready: ${told.join("\n")}`);
  }
  return JSON.parse(await page.title());
}

const TYPES: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };

/** Serves a folder, as any web server does. */
async function serve(folder: string): Promise<string> {
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? "/", "http://localhost").pathname;
    readFile(join(folder, path === "/" ? "index.html" : decodeURIComponent(path))).then(
      (bytes) => response.setHeader("content-type", TYPES[extname(path === "/" ? ".html" : path)] ?? "text/html").end(bytes),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return `http://localhost:${(server.address() as AddressInfo).port}/`;
}

test("Vite builds it", async () => {
  await run(process.execPath, [vite, "build", "--logLevel", "warn"], packed.app);
  expect(await answerOf(await serve(join(packed.app, "dist")))).toEqual(ANSWER);
});

test("Vite's development server has it", async () => {
  const child: ChildProcess = spawn(process.execPath, [vite, "--port", "0", "--host", "127.0.0.1"], { cwd: packed.app, env: { ...process.env, NO_COLOR: "1" } });
  onTestFinished(() => void child.kill("SIGKILL"));
  const url = await new Promise<string>((resolve, reject) => {
    let said = "";
    child.stdout?.on("data", (data: Buffer) => {
      said += data.toString();
      const found = /http:\/\/127\.0\.0\.1:(\d+)/.exec(said);
      if (found !== null) resolve(`http://localhost:${found[1]}/`);
    });
    child.on("exit", () => reject(new Error(said)));
    setTimeout(() => reject(new Error(`no server: ${said}`)), 30_000).unref();
  });
  expect(await answerOf(url.replace("localhost", "127.0.0.1"))).toEqual(ANSWER);
});

test("webpack builds it", async () => {
  const app = await installed("webpack", ["webpack@5", "webpack-cli@6"]);
  await run(process.execPath, [join(app, "node_modules/webpack/bin/webpack.js"), "--mode", "production", "--entry", "./main.js", "--output-path", join(app, "dist")], app);
  expect(await answerOf(await serve(await withPage(app, '<script src="/main.js"></script>')))).toEqual(ANSWER);
});

test("esbuild builds it, told where the module and the worker are", async () => {
  const app = await installed("esbuild", ["esbuild@0.25"]);
  const esbuild = join(app, "node_modules/esbuild/bin/esbuild");
  await run(esbuild, ["main.js", "node_modules/runlog/dist/browser/browser/worker.js", "--bundle", "--format=esm", "--outdir=dist", "--entry-names=[name]"], app);
  await cp(join(app, "node_modules/runlog/dist/browser/wasm/runlog_wasm_bg.wasm"), join(app, "dist/runlog.wasm"));
  const options = '<script>globalThis.runlogOptions = { wasm: new URL("/runlog.wasm", location.href).href, worker: new Worker("/worker.js", { type: "module" }) }</script>';
  expect(await answerOf(await serve(await withPage(app, `${options}<script type="module" src="/main.js"></script>`)))).toEqual(ANSWER);
});

test("a page has it without a bundler, by an import map", async () => {
  const app = join(packed.folder, "plain");
  await cp(join(packed.app, "node_modules/runlog/dist/browser"), join(app, "dist/runlog"), { recursive: true });
  await cp(join(packed.app, "main.js"), join(app, "dist/main.js"));
  const map = '<script type="importmap">{"imports":{"runlog":"/runlog/browser/index.js"}}</script>';
  expect(await answerOf(await serve(await withPage(app, `${map}<script type="module" src="/main.js"></script>`)))).toEqual(ANSWER);
});

/** An application of its own with these packages, and ours. */
async function installed(name: string, packages: string[]): Promise<string> {
  const app = join(packed.folder, name);
  await mkdir(app);
  await cp(join(packed.app, "main.js"), join(app, "main.js"));
  await writeFile(join(app, "package.json"), JSON.stringify({ name, private: true, type: "module" }));
  await run("npm", ["install", "--no-audit", "--no-fund", "--no-save", "--prefer-offline", ...packages, ...packed.tarballs], app);
  return app;
}

/** Puts a page beside what was built; the folder of both. */
async function withPage(app: string, head: string): Promise<string> {
  await writeFile(join(app, "dist/index.html"), `<!doctype html>\n${head}\n`);
  return join(app, "dist");
}
