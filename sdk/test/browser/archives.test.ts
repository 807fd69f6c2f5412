import { type Store, open, openExport, openInMemory, placeOf, readFigures } from "#runlog";
import { freshName } from "#places";
import { commands } from "vitest/browser";
import { expect, onTestFinished, test } from "vitest";

import { failure } from "../code.js";
import { recordedIn } from "./answers.js";
import type {} from "./commands.js";

// What test/contract/archives.test.ts has by files, which a browser has none of.

async function bytesOf(pieces: AsyncIterable<Uint8Array<ArrayBuffer>>): Promise<Uint8Array<ArrayBuffer>> {
  const all: Uint8Array<ArrayBuffer>[] = [];
  for await (const piece of pieces) all.push(piece);
  return new Uint8Array(await new Blob(all).arrayBuffer());
}

async function filled(): Promise<{ store: Store; runId: string }> {
  const store = await open(await freshName());
  onTestFinished(() => store.close());
  const run = await store.runs.start({ session: { title: "Fix it", name: "work" }, agentName: "coder" });
  for (let at = 0; at < 300; at += 1) await run.recordMessage({ role: "user", content: `${at} ${"é".repeat(1000)}` });
  await run.complete("fixed");
  return { store, runId: run.id };
}

test("a store comes back from its export, which is larger than a piece", async () => {
  const { store, runId } = await filled();
  const bytes = await bytesOf(store.export() );
  expect(bytes.length).toBeGreaterThan(512 << 10);
  const other = await openInMemory();
  onTestFinished(() => other.close());
  const imported = await other.import(bytes);
  expect(imported.sessions.map((it) => it.outcome)).toEqual(["created"]);
  expect(await other.runs.get(runId)).toEqual(await store.runs.get(runId));
  expect((await other.import(bytes)).sessions.map((it) => it.outcome)).toEqual(["unchanged"]);
  await failure(other.import(bytes.subarray(0, 100_000)), "invalid_input");
});

test("calls by path are refused, and say what to use", async () => {
  const { store } = await filled();
  expect((await failure(store.exportTo("x.jsonl"), "invalid_input")).message).toContain("export");
  expect((await failure(store.importFrom("x.jsonl"), "invalid_input")).message).toContain("import");
  await failure(store.backup("folder"), "unsupported");
});

test("an export that Node wrote is opened, and says what Node says of it", async () => {
  const { folder } = await commands.folderOfNode(5000);
  onTestFinished(() => commands.removeFolder(folder));
  const { text, answers } = await commands.exportOfNode(folder);
  const bytes = new TextEncoder().encode(text);
  const stream = () => new Blob([bytes]).stream();
  for (const source of [bytes, new File([bytes], "all.jsonl"), new Response(bytes), stream(), [bytes.subarray(0, 1000), bytes.subarray(1000)]]) {
    const store = await openExport(source);
    expect(placeOf(store)).toEqual({ kind: "export" });
    expect(await readFigures(store)).toBeUndefined();
    expect(JSON.parse(JSON.stringify(await recordedIn(store)))).toEqual(answers);
    await store.close();
  }
  expect((await failure(openExport(new Blob([bytes]), { bytesMax: 1000 }), "too_large")).message).toContain("1000");
  await failure(openExport(stream(), { bytesMax: 1000 }), "too_large");
});

test("what is no export is told", async () => {
  for (const text of ["", "hello", '{"runlog":"archive","version":2}\n', '{"runlog":"archive","version":99}\n']) await failure(openExport(new Blob([text])), "invalid_input");
  await failure(openExport(await fetch(new URL("/nothing/here.jsonl", location.href))), "not_found");
  await failure(openExport(7 as never), "invalid_input");
  await failure(openExport(["text"] as never), "invalid_input");
  expect((await failure(openExport(fetch("/x.jsonl").catch(() => undefined) as never), "invalid_input")).message).toContain("not a promise; await it");
  const packed = new Blob(["x"]).stream().pipeThrough(new CompressionStream("gzip"));
  expect((await failure(openExport(packed), "invalid_input")).message).toContain("this is compressed by gzip; unpack it");
  await failure(openExport(new Blob(), { bytesMax: 0 }), "invalid_input");
  await failure(openExport(new Blob(), { max: 1 } as never), "invalid_input");
});
