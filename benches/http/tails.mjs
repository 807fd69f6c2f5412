// A thousand clients that follow a store over HTTP while Node writes it: what that costs the writer, and how soon events come.
//
//   node benches/http/tails.mjs RUNLOG [--clients N] [--seconds N] [--rounds N]
//
// Each client follows a session of its own; all of them are told how far the log has come. The writer appends to the sessions in
// turn, as durably as by default, 64 at a time. It is measured with the clients and without them, in turns.

import { fork, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";

import { open } from "runlog";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { clients: { type: "string", default: "1000" }, seconds: { type: "string", default: "3" }, rounds: { type: "string", default: "3" }, role: { type: "string" } },
});
const CLIENTS = Number(values.clients);
const IN_FLIGHT = 64;

if (values.role === "writer") await write(positionals[0]);
else if (values.role === "clients") await followAll(positionals[0]);
else await measure(positionals[0]);

/** Writes for as long as it is told to, and says how many a second. */
async function write(folder) {
  const store = await open(folder);
  const contexts = [];
  for (let at = 0; at < CLIENTS; at += 100) {
    const some = await Promise.all(Array.from({ length: Math.min(100, CLIENTS - at) }, (_, more) => store.startSession({ title: `Session ${at + more}` }, "agent")));
    for (const { session, instance } of some) contexts.push({ session: session.id, context: await store.context(instance.id) });
  }
  process.send({ sessions: contexts.map(({ session }) => session) });
  let next = 0;
  const append = () => contexts[next++ % CLIENTS].context.appendMessage({ role: "assistant", content: `Event ${next}`, sent: Date.now() });
  for await (const [{ seconds, one }] of eachMessage()) {
    if (seconds === undefined && one === undefined) break;
    if (one !== undefined) {
      await append();
      process.send({ written: 1 });
      continue;
    }
    const began = performance.now();
    let done = 0;
    const run = async () => {
      for (; performance.now() - began < seconds * 1000; done++) await append();
    };
    await Promise.all(Array.from({ length: IN_FLIGHT }, run));
    process.send({ rate: (done * 1000) / (performance.now() - began), written: done });
  }
  await store.close();
  process.disconnect();
}

async function* eachMessage() {
  const waiting = [];
  let wake = () => {};
  process.on("message", (message) => {
    waiting.push([message]);
    wake();
  });
  for (;;) {
    while (waiting.length > 0) yield waiting.shift();
    await new Promise((resolve) => (wake = resolve));
  }
}

/** Follows each session by a connection of its own, and counts what comes. */
async function followAll(url) {
  const { port } = new URL(url);
  let sockets = [];
  let events = 0;
  let delays = [];
  for await (const [{ follow, count, leave }] of eachMessage()) {
    if (follow !== undefined) {
      let open = 0;
      events = 0;
      for (const session of follow) {
        const socket = connect(Number(port), "127.0.0.1");
        sockets.push(socket);
        let text = "";
        let isOpen = false;
        socket.setEncoding("utf8");
        socket.on("data", (data) => {
          text += data;
          if (!isOpen && text.includes("\r\n\r\n")) {
            isOpen = true;
            open += 1;
            if (!text.startsWith("HTTP/1.1 200")) throw new Error(text.slice(0, 200));
          }
          const end = text.lastIndexOf("\n\n");
          if (end < 0) return;
          for (const found of text.slice(0, end).matchAll(/event: context\ndata: .*?"sent":(\d+)/g)) {
            events += 1;
            delays.push(Date.now() - Number(found[1]));
          }
          text = text.slice(end + 2);
        });
        socket.write(`GET /v1/tail?topics=context&session_id=${session} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
        if (sockets.length % 100 === 0) await sleep(5);
      }
      while (open < follow.length) await sleep(10);
      // All of them are told where the log is.
      await sleep(500);
      process.send({ following: open });
    } else if (count !== undefined) {
      for (let left = 600; events < count && left > 0; left--) await sleep(50);
      delays.sort((a, b) => a - b);
      const at = (part) => delays[Math.min(delays.length - 1, Math.floor(delays.length * part))];
      process.send({ events, median: at(0.5), p99: at(0.99), most: delays.at(-1) });
      events = 0;
      delays = [];
    } else if (leave) {
      for (const socket of sockets) socket.destroy();
      sockets = [];
      await sleep(200);
      process.send({ left: true });
    } else break;
  }
  process.exit(0);
}

/** How many milliseconds of the processor a process has taken; 0 where the system doesn't tell it so. */
function processorOf({ pid }) {
  try {
    // Behind the name, which may have blanks and brackets in it.
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).split(" ");
    return (Number(fields[11]) + Number(fields[12])) * 10;
  } catch {
    return 0;
  }
}

async function measure(runlog) {
  if (runlog === undefined) throw new Error("usage: tails.mjs RUNLOG [--clients N] [--seconds N] [--rounds N]");
  const folder = mkdtempSync(join(process.env.RUNLOG_BENCH_DIR ?? tmpdir(), "runlog-bench-tails-"));
  const children = [];
  const child = (role, argument) => {
    const started = fork(import.meta.filename, [argument, "--role", role, "--clients", values.clients]);
    children.push(started);
    return { ask: async (message) => (started.send(message), (await once(started, "message"))[0]), first: async () => (await once(started, "message"))[0] };
  };
  try {
    const writer = child("writer", join(folder, "store"));
    const { sessions } = await writer.first();
    const server = spawn(runlog, ["--store", join(folder, "store"), "serve", "--listen", "127.0.0.1:0"], { stdio: ["ignore", "pipe", "inherit"] });
    children.push(server);
    const url = (await once(createInterface(server.stdout), "line"))[0].trim();
    const clients = child("clients", url);
    const seconds = Number(values.seconds);
    const alone = [];
    const followed = [];
    const seen = [];
    const worked = [];
    await writer.ask({ seconds: 1 });
    for (let round = 0; round < Number(values.rounds); round++) {
      alone.push((await writer.ask({ seconds })).rate);
      await clients.ask({ follow: sessions });
      const before = children.map(processorOf);
      const { rate, written } = await writer.ask({ seconds });
      followed.push(rate);
      const told = await clients.ask({ count: written });
      worked.push(children.map((one, at) => ((processorOf(one) - before[at]) * 1000) / written));
      if (told.events !== written) throw new Error(`${written} events were written, and ${told.events} came`);
      seen.push(told);
      // One by one, with nobody else at work.
      for (let at = 0; at < 50; at++) {
        await writer.ask({ one: true });
        await sleep(20);
      }
      const quiet = await clients.ask({ count: 50 });
      seen.at(-1).quiet = quiet;
      await clients.ask({ leave: true });
    }
    const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
    const show = (list) => list.map(Math.round).join(", ");
    console.log(`events/s written alone: ${show(alone)}; followed by ${CLIENTS} clients: ${show(followed)}; median of the ratios ${median(followed.map((rate, at) => rate / alone[at])).toFixed(2)}`);
    const each = (at) => median(worked.map((of) => of[at])).toFixed(1);
    console.log(`of the processor for each event, µs: writer ${each(0)}, server ${each(1)}, clients ${each(2)}`);
    console.log(`all events came, each once; from being given to the store until a client has it, ms: ${seen.map(({ median, p99, most }) => `median ${median}, p99 ${p99}, most ${most}`).join("; ")}`);
    console.log(`one at a time: ${seen.map(({ quiet }) => `median ${quiet.median}, most ${quiet.most}`).join("; ")}`);
  } finally {
    for (const one of children) one.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  }
}
