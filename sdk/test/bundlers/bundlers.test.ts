// The packed package in a page, as each bundler makes it, and without any.

import { type ChildProcess, spawn } from "node:child_process";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { expect, onTestFinished, test } from "vitest";

import { run } from "../package/packed.js";
import { answerOf, prepared, serve } from "./pages.js";

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);
const vite = join(dirname(require.resolve("vite/package.json")), "bin/vite.js");
const ANSWER = { status: "completed", agentName: "coder", code: "not_found", persisted: false };

const all = prepared("bundlers", async (packed) => {
  await cp(join(here, "app"), packed.app, { recursive: true });
  await writeFile(join(packed.app, "package.json"), JSON.stringify({ name: "app", private: true, type: "module" }));
  await packed.install();
});

test("Vite builds it", async () => {
  await run(process.execPath, [vite, "build", "--logLevel", "warn"], all.packed.app);
  expect(await answerOf(all.browser, await serve(join(all.packed.app, "dist")))).toEqual(ANSWER);
});

test("Vite's development server has it", async () => {
  const child: ChildProcess = spawn(process.execPath, [vite, "--port", "0", "--host", "127.0.0.1"], { cwd: all.packed.app, env: { ...process.env, NO_COLOR: "1" } });
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
  expect(await answerOf(all.browser, url.replace("localhost", "127.0.0.1"))).toEqual(ANSWER);
});

test("webpack builds it", async () => {
  const app = await installed("webpack", ["webpack@5", "webpack-cli@6"]);
  await run(process.execPath, [join(app, "node_modules/webpack/bin/webpack.js"), "--mode", "production", "--entry", "./main.js", "--output-path", join(app, "dist")], app);
  expect(await answerOf(all.browser, await serve(await withPage(app, '<script src="/main.js"></script>')))).toEqual(ANSWER);
});

test("esbuild builds it, told where the module and the worker are", async () => {
  const app = await installed("esbuild", ["esbuild@0.25"]);
  const esbuild = join(app, "node_modules/esbuild/bin/esbuild");
  await run(esbuild, ["main.js", "node_modules/runlog/dist/browser/browser/worker.js", "--bundle", "--format=esm", "--outdir=dist", "--entry-names=[name]"], app);
  await cp(join(app, "node_modules/runlog/dist/browser/wasm/runlog_wasm_bg.wasm"), join(app, "dist/runlog.wasm"));
  const options = '<script>globalThis.runlogOptions = { wasm: new URL("/runlog.wasm", location.href).href, worker: new Worker("/worker.js", { type: "module" }) }</script>';
  expect(await answerOf(all.browser, await serve(await withPage(app, `${options}<script type="module" src="/main.js"></script>`)))).toEqual(ANSWER);
});

test("a page has it without a bundler, by an import map", async () => {
  const app = join(all.packed.folder, "plain");
  await cp(join(all.packed.app, "node_modules/runlog/dist/browser"), join(app, "dist/runlog"), { recursive: true });
  await cp(join(all.packed.app, "main.js"), join(app, "dist/main.js"));
  const map = '<script type="importmap">{"imports":{"runlog":"/runlog/browser/index.js"}}</script>';
  expect(await answerOf(all.browser, await serve(await withPage(app, `${map}<script type="module" src="/main.js"></script>`)))).toEqual(ANSWER);
});

test("esbuild builds it into one script by `runlog/inline`", async () => {
  const app = await inlined();
  expect(await answerOf(all.browser, await serve(await withPage(app, '<script src="/main.js"></script>')))).toEqual(ANSWER);
});

test("a page of one file works from a disk, in memory, and says why", async () => {
  const app = await inlined("memory.js");
  const script = await readFile(join(app, "dist/memory.js"), "utf8");
  const folder = await withPage(app, `<meta charset="utf-8"><script>${script.replaceAll("</script", "<\\/script")}</script>`);
  const answer = { status: "completed", kind: "memory", code: "io", reason: expect.stringContaining("no file system") };
  expect(await answerOf(all.browser, `file://${folder}/index.html`)).toEqual(answer);
});

test("a page that isn't secure works in memory, and says why", async () => {
  const app = await inlined("memory.js");
  const url = await serve(await withPage(app, '<meta charset="utf-8"><script src="/memory.js"></script>'));
  const answer = { status: "completed", kind: "memory", code: "io", reason: expect.stringContaining("https or localhost") };
  expect(await answerOf(all.browser, url.replace("localhost", "insecure.test"))).toEqual(answer);
  expect(await answerOf(all.browser, url)).toEqual({ status: "completed", kind: "origin" });
});

/** An application of its own with these packages, and ours. */
async function installed(name: string, packages: string[]): Promise<string> {
  const app = join(all.packed.folder, name);
  await mkdir(app);
  await cp(join(all.packed.app, "main.js"), join(app, "main.js"));
  await writeFile(join(app, "package.json"), JSON.stringify({ name, private: true, type: "module" }));
  await run("npm", ["install", "--no-audit", "--no-fund", "--no-save", "--prefer-offline", ...packages, ...all.packed.tarballs], app);
  return app;
}

/** Puts a page beside what was built; the folder of both. */
async function withPage(app: string, head: string): Promise<string> {
  await writeFile(join(app, "dist/index.html"), `<!doctype html>\n${head}\n`);
  return join(app, "dist");
}

/** What esbuild makes of a page's script with `runlog/inline`: one classic script. */
async function inlined(script = "main.js"): Promise<string> {
  const app = await installed(`inline-${Math.random()}`, ["esbuild@0.25"]);
  const text = await readFile(join(here, "app", script), "utf8");
  // A classic script has no `await` of its own.
  const begin = text.search(/^const /m);
  await writeFile(join(app, script), `${text.slice(0, begin).replace('"runlog"', '"runlog/inline"')}void (async () => {\n${text.slice(begin)}})();\n`);
  const esbuild = join(app, "node_modules/esbuild/bin/esbuild");
  await run(esbuild, [script, "--bundle", "--format=iife", "--outdir=dist", "--log-override:empty-import-meta=silent"], app);
  return app;
}
