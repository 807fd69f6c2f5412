// A chat server whose requests are two writes each: the user's message at the entry, everything else at the exit, also when
// the request is interrupted in between.
//
//   node examples/chat-server.mjs [PORT]     serves until Ctrl-C; without a port it talks to itself, and ends
//
// What a crash cuts off, and how it is gone on with, is in docs/guides/build-a-chat.md.

import { mkdtempSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RunlogError, open } from "runlog";

const path = join(mkdtempSync(join(tmpdir(), "runlog-example-")), "store");
const store = await open(path);
const text = (content) => ({ role: "assistant", type: "text", props: { content } });

/** POST /chats/ID {"content": "…"}: answers word by word. */
async function answer(chatId, content, response) {
  (await store.chats.get(chatId)) ?? (await store.chats.create({ chatId, assistantId: "parrot" }));
  const request = await store.chats.beginRequest(chatId, {
    assistantId: "parrot",
    message: { type: "text", props: { content } },
  });
  try {
    const step = await request.startStep("llm", { temperature: 0 });
    let said;
    for (const word of content.split(" ")) {
      if (response.destroyed) return; // The user clicked stop.
      if (said === undefined) said = await request.send(text(`${word}! `));
      else await request.append(said, `${word}! `);
      response.write(`${word}! `);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await request.completeStep(step, { content: "said" });
    await request.finish("completed");
  } finally {
    await request.close(); // However it ends: what wasn't completed is written as interrupted.
  }
}

const server = createServer(async (request, response) => {
  const [, , chatId] = request.url.split("/");
  try {
    if (request.method === "POST") {
      let body = "";
      for await (const data of request) body += data;
      await answer(chatId, JSON.parse(body).content, response);
    } else {
      response.setHeader("content-type", "application/json");
      const step = await store.chats.getLastIncompleteStep(chatId);
      const messages = await store.chats.getMessages(chatId); // After it: both are of one write.
      response.write(JSON.stringify({ messages: messages.map((it) => it.props.content), waiting: step?.status ?? null }));
    }
  } catch (error) {
    response.statusCode = error instanceof RunlogError && error.code === "not_found" ? 404 : 500;
    response.write(String(error));
  }
  response.end();
});

const port = process.argv[2];
server.listen(Number(port ?? 0), "127.0.0.1", async () => {
  const address = `http://127.0.0.1:${server.address().port}/chats/1`;
  if (port !== undefined) return console.log(`try: curl -d '{"content":"hello there"}' ${address}`);

  const ask = (content, signal) => fetch(address, { method: "POST", body: JSON.stringify({ content }), signal });
  console.log(await (await ask("hello there")).text());
  const stop = new AbortController();
  const long = await ask("word ".repeat(200).trim(), stop.signal);
  for await (const _ of long.body) break; // It has begun to answer …
  stop.abort();
  for (let tries = 0; tries < 100; tries++) {
    const { messages, waiting } = await (await fetch(address)).json();
    if (waiting === null) await new Promise((resolve) => setTimeout(resolve, 10));
    else {
      console.log(`${messages.length} messages; the last request was ${waiting}`);
      break;
    }
  }
  server.close();
  server.closeAllConnections();
  await store.close();
  console.log(`kept in ${path}: runlog --store ${path} chats`);
});
