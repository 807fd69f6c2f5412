// Serves the built app as any web server does, and drives Chromium.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { chromium } from "playwright";

const app = fileURLToPath(new URL("../dist", import.meta.url));
/** @type {Record<string, string>} */
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

/** The address of the app, and what stops serving it. */
export async function serveApp(folder = app) {
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    // There is no server of Runlog's behind it.
    if (pathname.startsWith("/v1/")) return void response.writeHead(204).end();
    const path = pathname === "/" ? "index.html" : decodeURIComponent(pathname.slice(1));
    readFile(join(folder, path)).then(
      (bytes) => response.setHeader("content-type", TYPES[extname(path)] ?? "application/octet-stream").end(bytes),
      () => response.writeHead(404).end(),
    );
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
  return { url: `http://127.0.0.1:${port}/`, close: () => server.close() };
}

/** Chromium, with a profile of its own. */
export function launch() {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  return chromium.launch({ executablePath: process.env.RUNLOG_CHROMIUM ?? "/usr/bin/chromium", args });
}
