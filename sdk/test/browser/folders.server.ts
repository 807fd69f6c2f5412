// Folders with stores that Node has written, which the tests in the browser are given as a user or a web server has them.

import { createReadStream } from "node:fs";
import { type Server, createServer } from "node:http";
import { appendFile, cp, mkdir, mkdtemp, readFile, readdir, rm, stat, truncate, utimes, writeFile } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";

import type { Page } from "playwright";
import type { BrowserCommand } from "vitest/node";
import type {} from "@vitest/browser-playwright";

import { open } from "../../src/index.js";
import { answersOf, recordedIn } from "./answers.js";
import { fill, withStore } from "./store.server.js";

/** A store in a folder of its own, what Node answers about it, and how large it is. */
export interface FolderOfNode {
  folder: string;
  answers: unknown;
  bytes: number;
}

/** Each lies in a folder with another beside it. */
export const folderOfNode: BrowserCommand<[events: number, segmentBytesMax?: number]> = async (_, events, segmentBytesMax = 1 << 20): Promise<FolderOfNode> => {
  const root = await mkdtemp(join(tmpdir(), "runlog-folder-"));
  const folder = join(root, "project", "store");
  await withStore(folder, (store) => fill(store, events), { segmentBytesMax });
  const reader = await open(folder, { mode: "readOnly" });
  const answers = await answersOf(reader);
  await reader.close();
  // Nothing of a store that was closed.
  await rm(join(folder, "LOCK"), { force: true });
  const sizes = await Promise.all((await readdir(folder)).map(async (name) => (await stat(join(folder, name))).size));
  await writeFile(join(root, "project", "README.md"), "not of the store");
  return { folder, answers, bytes: sizes.reduce((sum, size) => sum + size, 0) };
};

/** A store with a log of so many bytes, in messages of eight kibibytes. */
export const largeFolderOfNode: BrowserCommand<[bytes: number]> = async (_, bytes): Promise<{ folder: string; records: number }> => {
  const folder = join(await mkdtemp(join(tmpdir(), "runlog-folder-")), "project", "store");
  const payload = new TextEncoder().encode(JSON.stringify({ role: "user", content: "It will rain tomorrow. ".repeat(356) }));
  const count = Math.ceil(bytes / payload.length);
  const streams = Array.from({ length: 100 }, () => crypto.randomUUID());
  const records = await withStore(
    folder,
    async (store) => {
      for (let at = 0; at < count; at += 1000) {
        const some = Array.from({ length: Math.min(1000, count - at) }, (_, more) => store.streams.append(streams[(at + more) % 100] as string, payload, { durability: "os" }));
        await Promise.all(some);
      }
      let records = 0;
      for await (const page of store.read().pages()) records += page.length;
      return records;
    },
    { segmentBytesMax: 64 << 20 },
  );
  await rm(join(folder, "LOCK"), { force: true });
  return { folder, records };
};

export const removeFolder: BrowserCommand<[folder: string]> = async (_, folder) => {
  await rm(dirname(dirname(folder)), { recursive: true, force: true });
};

/** Changes a file of the folder: makes it longer, another by its time alone, or as short as is said, or a copy of the whole folder beside it. */
export const changeFolder: BrowserCommand<[folder: string, change: { longer?: string; touch?: string; cut?: string; bytes?: number; copyTo?: string }]> = async (_, folder, change) => {
  if (change.longer !== undefined) await appendFile(join(folder, change.longer), "x");
  if (change.touch !== undefined) await utimes(join(folder, change.touch), 1, 1);
  if (change.cut !== undefined) await truncate(join(folder, change.cut), change.bytes ?? 0);
  if (change.copyTo !== undefined) await cp(folder, join(dirname(folder), change.copyTo), { recursive: true });
};

/** Gives the page's `<input>` a folder, as a user picks it. */
export const chooseFolder: BrowserCommand<[selector: string, folder: string]> = async ({ iframe }, selector, folder) => {
  await iframe.locator(selector).setInputFiles(folder);
};

/** Drops folders on an element of the page. */
export const dropFolders: BrowserCommand<[selector: string, folders: string[]]> = async ({ page, iframe, context }, selector, folders) => {
  const box = await iframe.locator(selector).boundingBox();
  if (box === null) throw new Error(`nothing to drop on: ${selector}`);
  const session = await context.newCDPSession(page);
  const at = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  const data = { items: [], files: folders, dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"] as const) await session.send("Input.dispatchDragEvent", { type, ...at, data });
  await session.detach();
};

const servers = new Map<string, { server: Server; requests: number; bytes: number; isBroken: boolean }>();

/**
 * Serves folders as a web server does that is another origin's, in the way that the first part of the path says: `plain`, or with
 * something wrong. What lies under it is the folder by this path.
 */
export const serveFolder: BrowserCommand<[folder: string]> = async (_, folder): Promise<string> => {
  const counted = { server: createServer(), requests: 0, bytes: 0, isBroken: false };
  counted.server.on("request", (request, response) => {
    const url = new URL(request.url ?? "/", "http://localhost");
    const [, way = "", ...rest] = url.pathname.split("/");
    void (async () => {
      counted.requests += 1;
      const name = basename(rest.join("/"));
      if (way !== "closed") response.setHeader("access-control-allow-origin", "*");
      if (way !== "hidden") response.setHeader("access-control-expose-headers", "Content-Range, ETag");
      if (counted.isBroken) return response.writeHead(503).end();
      if (way === "failing" && name.endsWith(".seg")) return response.writeHead(503).end();
      if (way === "moved") return response.writeHead(302, { location: `/plain/${rest.join("/")}` }).end();
      if (way === "signed" && url.searchParams.get("key") !== "s3") return response.writeHead(403).end();
      const found = await stat(join(folder, name)).catch(() => undefined);
      if (found === undefined) {
        if (way === "application") return response.writeHead(200, { "content-type": "text/html; charset=utf-8" }).end("<!doctype html>");
        return response.writeHead(way === "guarded" ? 403 : 404).end();
      }
      const { mtimeMs, size } = found;
      const etag = `"${mtimeMs}-${size}"`;
      response.setHeader("etag", etag);
      response.setHeader("content-type", "application/octet-stream");
      const [, from = "", to = ""] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "") ?? [];
      if (request.headers["if-none-match"] === etag) return response.writeHead(304).end();
      const isOther = (request.headers["if-range"] ?? etag) !== etag;
      if (way === "whole" || from === "" || isOther) return response.writeHead(200, { "content-length": size }).end(await readFile(join(folder, name)));
      if (way === "endless") return createReadStream(join(folder, name)).pipe(response);
      const start = Number(from);
      const end = Math.min(Number(to) + 1, size);
      if (start >= size) return response.writeHead(416, { "content-range": `bytes */${size}` }).end();
      counted.bytes += end - start;
      response.writeHead(206, { "content-range": `bytes ${start}-${end - 1}/${size}`, "content-length": end - start });
      return createReadStream(join(folder, name), { start, end: end - 1 }).pipe(response);
    })();
  });
  await new Promise<void>((resolve) => counted.server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(counted.server.address() as AddressInfo).port}/`;
  servers.set(url, counted);
  return url;
};

/** Ends a server, and tells how many requests it got, and how many bytes of parts it gave. */
export const endServer: BrowserCommand<[url: string]> = async (_, url): Promise<{ requests: number; bytes: number }> => {
  const counted = servers.get(url);
  if (counted === undefined) throw new Error(`no server at ${url}`);
  servers.delete(url);
  counted.server.closeAllConnections();
  counted.server.close();
  return { requests: counted.requests, bytes: counted.bytes };
};

/** Has a server answer nothing but 503, or as before. */
export const breakServer: BrowserCommand<[url: string, isBroken: boolean]> = async (_, url, isBroken) => {
  const counted = servers.get(url);
  if (counted !== undefined) counted.isBroken = isBroken;
};

/** What a server has counted so far. */
export const countsOf: BrowserCommand<[url: string]> = async (_, url): Promise<{ requests: number; bytes: number }> => {
  const { requests = 0, bytes = 0 } = servers.get(url) ?? {};
  return { requests, bytes };
};

/** What Node writes as an export of a folder's store, and what Node answers of a store in memory that has it. */
export const exportOfNode: BrowserCommand<[folder: string]> = async (_, folder): Promise<{ text: string; answers: unknown }> => {
  const to = await mkdtemp(join(tmpdir(), "runlog-export-"));
  try {
    const file = join(to, "all.jsonl");
    await withStore(folder, (store) => store.exportTo(file));
    await mkdir(join(to, "again"));
    const answers = await withStore(join(to, "again"), async (store) => {
      await store.importFrom(file);
      return JSON.parse(JSON.stringify(await recordedIn(store))) as unknown;
    });
    return { text: await readFile(file, "utf8"), answers };
  } finally {
    await rm(to, { recursive: true, force: true });
  }
};

const pages = new Map<string, Page>();

/** Opens another tab. */
export const openPage: BrowserCommand<[url: string]> = async ({ context }, url) => {
  const page = await context.newPage();
  pages.set(url, page);
  await page.goto(url);
};

/** Closes it, as its user does. */
export const closePage: BrowserCommand<[url: string]> = async (_, url) => {
  await pages.get(url)?.close();
  pages.delete(url);
};
