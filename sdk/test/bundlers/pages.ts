// Pages in Chromium, and what serves them.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";

import { type Browser, chromium } from "playwright";
import { afterAll, beforeAll, onTestFinished } from "vitest";

import { type Packed, pack } from "../package/packed.js";

/** The packed package and a browser, for all tests of a file. */
export interface Prepared {
  packed: Packed;
  browser: Browser;
}

/** Packs the package into a folder of this name and starts a browser, before all tests of the file; `install` makes the application. */
export function prepared(name: string, install: (packed: Packed) => Promise<void>): Prepared {
  const all = {} as Prepared;
  beforeAll(async () => {
    all.packed = await pack(name);
    await install(all.packed);
    all.browser = await launch();
  }, 240_000);
  afterAll(async () => {
    await all.browser?.close();
    await all.packed?.remove();
  });
  return all;
}

async function launch(): Promise<Browser> {
  const executablePath = process.env.RUNLOG_CHROMIUM ?? "/usr/bin/chromium";
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  // Another name of this machine, which is no secure context as localhost is.
  return chromium.launch({ executablePath, args: [...args, "--host-resolver-rules=MAP insecure.test 127.0.0.1"] });
}

/** What the page says once it is done, or what went wrong in it. */
export async function answerOf(browser: Browser, url: string): Promise<unknown> {
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
export async function serve(folder: string): Promise<string> {
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
