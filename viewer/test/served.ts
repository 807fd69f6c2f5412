// The store of a server that gives the viewer too, as `runlog serve` does: its files, and how far its log has come.

import { createHash } from "node:crypto";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { open } from "runlog";
import { onTestFinished } from "vitest";

const dist = fileURLToPath(new URL("../dist", import.meta.url));
const TYPES: Record<string, string> = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

/** Answers what the viewer asks of a server, for the store in a folder. */
export async function served(first: string, { isLocked = false } = {}) {
  let folder = first;
  const streams = new Set<ServerResponse>();
  /** The names of the files of the store that were sent, from where on, and how many bytes. */
  const sent: [name: string, from: number, bytes: number][] = [];
  let seen: (segment: Buffer) => void = () => {};
  let refusing = false;
  let held: Promise<void> = Promise.resolve();
  let heldFiles: Promise<void> = Promise.resolve();
  /** How often the files of the store were asked for. */
  let asked = 0;
  let told = 0;
  /** Where the log ends, of which nothing behind is given; and how often it was asked for all the same. */
  let end = Number.MAX_SAFE_INTEGER;
  let beyond = 0;
  let failure: string | undefined;
  let isWritten = true;
  const eventOf = (position: number) => `event: position\ndata: {"position":${position}}\n\n`;
  const server = createServer(async (request, response) => {
    const path = new URL(request.url ?? "/", "http://localhost").pathname;
    const name = path.slice(path.lastIndexOf("/") + 1);
    if (path === "/v1/store/files" && isLocked) {
      response.writeHead(401, { "content-type": "application/problem+json" }).end(JSON.stringify({ status: 401, code: "unauthorized", detail: "give a token" }));
    } else if (path === "/v1/store/files" && failure !== undefined) {
      asked += 1;
      response.writeHead(500, { "content-type": "application/problem+json" }).end(JSON.stringify({ status: 500, code: "io", detail: failure }));
    } else if (path === "/v1/store/files" && refusing) {
      asked += 1;
      response.writeHead(503, { "content-type": "text/plain" }).end("The server is away.");
    } else if (path === "/v1/store") {
      response.setHeader("content-type", "application/json").end(JSON.stringify({ has_writer: isWritten, last_position: end === Number.MAX_SAFE_INTEGER ? undefined : end }));
    } else if (path === "/v1/store/files") {
      asked += 1;
      await held;
      const names = (await readdir(folder)).filter((file) => /^(RUNLOG|END|CHECKPOINT|WATERMARK|\d+\.seg|[\d-]+\.\d+\.pack)$/.test(file));
      response.setHeader("content-type", "application/json").end(JSON.stringify({ files: names.map((file) => ({ name: file, size: 0 })) }));
    } else if (path === "/v1/tail" && refusing) {
      response.writeHead(503, { "content-type": "text/plain" }).end("The server is away.");
    } else if (path === "/v1/tail" && Number(new URL(request.url ?? "", "http://localhost").searchParams.get("after")) > end) {
      beyond += 1;
      response.writeHead(400, { "content-type": "application/problem+json" }).end(JSON.stringify({ status: 400, code: "invalid_input", detail: "the log ends before" }));
    } else if (path === "/v1/tail") {
      response.writeHead(200, { "content-type": "text/event-stream" }).write("retry: 100\n\n");
      streams.add(response);
      // As the server does, which tells what came since.
      if (told > Number(new URL(request.url ?? "", "http://localhost").searchParams.get("after"))) response.write(eventOf(told));
    } else {
      if (path.startsWith("/v1/")) await heldFiles;
      const file = path.startsWith("/v1/") ? join(folder, name) : join(dist, path === "/" ? "index.html" : name);
      const bytes = await readFile(file);
      if (name.endsWith(".seg")) seen(bytes);
      const tag = `"${createHash("sha256").update(bytes).digest("hex")}"`;
      response.setHeader("content-type", TYPES[extname(file)] ?? "application/octet-stream").setHeader("etag", tag);
      if (request.headers["if-none-match"] === tag) return void response.writeHead(304).end();
      const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? "");
      const [from, end] = range === null ? [0, bytes.length] : [Number(range[1]), Number(range[2]) + 1];
      if (path.startsWith("/v1/")) sent.push([name, from, end - from]);
      if (range !== null) response.writeHead(206, { "content-range": `bytes ${from}-${end - 1}/${bytes.length}` });
      response.end(bytes.subarray(from, end));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const drop = () => {
    for (const stream of streams) stream.destroy();
    streams.clear();
  };
  const stop = () => {
    drop();
    server.close();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    tell: (position: number) => {
      told = position;
      for (const stream of streams) stream.write(eventOf(position));
    },
    sent,
    asked: () => asked,
    /** Answers only after this what files the store has. */
    hold: (until: Promise<void>) => void (held = until),
    /** Sends files of the store only after this. */
    holdFiles: (until: Promise<void>) => void (heldFiles = until),
    drop,
    /** Serves another store. */
    from: (other: string) => void (folder = other),
    /** Refuses to tell of the log behind a position, as the server does. */
    endsAt: (position: number) => void (end = position),
    beyond: () => beyond,
    /** Answers that the store can't be read, until it can. */
    fail: (detail: string | undefined) => void (failure = detail),
    /** Whether a process has the store open for writing, as the server says. */
    written: (is: boolean) => void (isWritten = is),
    /** Answers as a proxy does whose server is away. */
    refuse: (is: boolean) => void (refusing = is),
    /** Changes what is sent of segments. */
    seen: (change: (segment: Buffer) => void) => void (seen = change),
    stop,
  };
}

/** A store without anything in it, which is served until the test is over. */
export async function nothing() {
  const folder = await mkdtemp(join(tmpdir(), "runlog-live-"));
  const store = await open(join(folder, "store"));
  const server = await served(join(folder, "store"));
  onTestFinished(async () => {
    server.stop();
    await store.close();
    await rm(folder, { recursive: true });
  });
  return { store, server, folder: join(folder, "store") };
}

/** A run that is at work, told so much before, in a store that is served until the test is over. */
export async function recording(said: string[]) {
  const { store, server, folder } = await nothing();
  const run = await store.runs.start({ session: { title: "Live" }, agentName: "coder", messages: said.map((content) => ({ role: "user", content })) });
  return { store, run, server, folder };
}
