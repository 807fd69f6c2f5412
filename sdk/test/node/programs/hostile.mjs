// Calls everything there is with everything that is wrong, and says what wasn't answered as it should be: with a value, or
// with an error that names what is wrong.

import { mkdirSync } from "node:fs";

import { RawJson, RecordBatch, RunlogError, attach, open, openInMemory } from "runlog";

const [path, both] = process.argv.slice(2);
// Some of what is called makes folders, by names that it is given.
mkdirSync(`${path}-elsewhere`);
process.chdir(`${path}-elsewhere`);
const found = new Map();
const tell = (what, example = "") => found.set(what, found.get(what) ?? example);
process.on("uncaughtException", (error) => tell(`uncaught: ${error?.stack}`));
process.on("exit", () => {
  if (!tell.done) tell("it ended before it was done");
  for (const [what, kind] of found) console.log(`${what}\n  with ${kind}`);
  console.log(`found ${found.size}`);
});
process.on("unhandledRejection", (error) => tell(`unhandled: ${error?.stack ?? error}`));

const fail = () => {
  throw new Error("on purpose");
};
const cyclic = {};
cyclic.self = cyclic;
const detached = new Uint8Array(8);
structuredClone(detached.buffer, { transfer: [detached.buffer] });
let deep = [];
for (let level = 0; level < 20_000; level++) deep = [deep];
class Liar extends Uint8Array {
  get length() {
    return 1 << 30;
  }
}
/** Values that cost more than others, tried less often. */
const LARGE = { deep, long: "x".repeat(1 << 16) };
const VALUES = {
  undefined: undefined,
  null: null,
  true: true,
  NaN: NaN,
  Infinity: Infinity,
  "-Infinity": -Infinity,
  "-0": -0,
  half: 0.5,
  negative: -1,
  "2**53": 2 ** 53,
  "1e300": 1e300,
  bigint: 5n,
  symbol: Symbol("s"),
  empty: "",
  nul: "a\0b",
  newline: "a\nb",
  surrogate: "\ud800",
  date: new Date(NaN),
  url: new URL("file:///tmp/x"),
  regexp: /x/,
  function: () => 1,
  class: class {},
  array: [],
  nested: [[undefined]],
  object: {},
  bare: Object.create(null),
  proto: JSON.parse('{"__proto__":{"signal":1},"constructor":1}'),
  cyclic,
  getters: { get role() { return fail(); }, get signal() { return fail(); } },
  proxy: new Proxy({}, { get: fail, ownKeys: fail, has: fail }),
  toJSON: { toJSON: fail },
  nothing: { toJSON() {} },
  toString: { toString: fail },
  detached,
  liar: new Liar(4),
  proxied: new Proxy(new Uint8Array(4), {}),
  forged: Object.create(Uint8Array.prototype),
  forgedRaw: Object.create(RawJson.prototype),
  view: new DataView(new ArrayBuffer(4)),
  buffer: new ArrayBuffer(4),
  shared: new Uint8Array(new SharedArrayBuffer(4)),
  resizable: new Uint8Array(new ArrayBuffer(4, { maxByteLength: 8 })),
  floats: new Float64Array(2),
  invalidUtf8: new Uint8Array([0xff, 0xfe]),
  slice: Buffer.from("xyz").subarray(1),
  promise: Promise.resolve(1),
  thenable: { then: (_, reject) => reject(new Error("on purpose")) },
  misspelt: { signall: 1, limt: 2, expcted: 3 },
  aborted: AbortSignal.abort(),
  noSignal: { signal: "x", limit: NaN, from: NaN },
  halfSignal: { signal: { aborted: false } },
  nullSignal: { signal: null },
};

/** What a call answers; what is wrong with how it does is told. */
async function settled(what, kind, call, seconds = 20) {
  // A store in memory answers most calls at once. Without this, the event loop has no turn as long as such calls follow each other,
  // and a call that needs one isn't answered before the timer is over.
  await new Promise(setImmediate);
  let timer;
  const late = new Promise((resolve) => (timer = setTimeout(resolve, seconds * 1000, "late")));
  try {
    const answer = await Promise.race([call(), late]);
    if (answer === "late") tell(`hangs: ${what}`, kind);
    return answer;
  } catch (error) {
    const named = error instanceof RunlogError && error.code !== "internal" && error.message.length > 0;
    if (!named && error?.message !== "on purpose") tell(`wrong error: ${what}: ${error?.stack ?? String(error)}`, kind);
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

/** Begins to read, and stops at once, whatever is still waited for. */
async function look(what, kind, pages) {
  const iterator = await settled(`${what}, iterated`, kind, async () => ({ of: pages[Symbol.asyncIterator]() }));
  if (iterator === undefined) return;
  const next = settled(`${what}, next`, kind, () => iterator.of.next());
  await settled(`${what}, return`, kind, () => iterator.of.return());
  await next;
}

const ENDS = new Set(["close", "finish", "complete", "fail", "cancel", "pause", "goOn"]);
/** Those that wait for what may never come, as they should. */
const WAITS = new Set(["nextCommands"]);
const methodsOf = (object) => {
  const all = Object.entries(Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object)));
  return all.filter(([name, { value }]) => typeof value === "function" && name !== "constructor" && !WAITS.has(name));
};

async function callEverything(what, make, ids) {
  let object = await make();
  for (const [name] of methodsOf(object)) {
    const all = Object.entries(VALUES).concat(Object.entries(LARGE));
    for (const [kind, value] of all) {
      const shapes = [[value], [{ role: "user", content: value }]];
      if (!Object.hasOwn(LARGE, kind)) {
        shapes.push([ids.instance, value], [[value]], [ids.stream, "x", value]);
        shapes.push([ids.stream, [{ payload: value, kind: value, meta: value }]]);
        if (both) shapes.push([ids.instance, [value]], [ids.instance, "user_message", value], [ids.stream, { json: value }]);
        if (both) shapes.push([ids.stream, value], [{ agentName: "a", session: value }]);
      }
      for (const args of shapes) {
        const answer = await settled(`${what}.${name}`, kind, () => object[name](...args));
        if (typeof answer?.[Symbol.asyncIterator] === "function") await look(`${what}.${name}`, kind, answer);
        // What ended the object is tried on another.
        if (ENDS.has(name)) object = await make();
      }
    }
  }
}

async function attack(store, again) {
  const witness = await store.startSession({}, "witness");
  const context = await store.context(witness.instance.id);
  await context.appendMessage({ role: "user", content: "still there" });
  const { instance } = await store.startSession({}, "a");
  const chat = await store.chats.create({ assistantId: "a" });
  const [stream, run] = [store.newId(), await store.runs.start({ session: {}, agentName: "a" })];
  await store.streams.append(stream, ["1", "2"]);
  const ids = { instance: instance.id, stream };
  const request = () => store.chats.beginRequest(chat.chatId, { assistantId: "a", message: { type: "text", props: {} } });
  const flow = await store.flows.create();
  const all = {
    "the store": again,
    contexts: () => store.contexts,
    context: () => store.context(instance.id),
    streams: () => store.streams,
    runs: () => store.runs,
    recorder: () => store.runs.recorder(run.id),
    chats: () => store.chats,
    request,
    space: async () => (await request()).space,
    flows: () => store.flows,
    flow: async () => (await store.flows.resume(flow.runId)).flow,
    playback: () => store.flows.playback(flow.runId, { speed: Infinity }),
    agents: () => store.agents,
    orchestrator: () => store.orchestrator(),
  };
  await Promise.all(Object.entries(all).map(([what, make]) => callEverything(what, make, ids)));
  await settled("the store afterwards", "", async () => {
    if ((await context.getMessages())[0]?.content !== "still there") tell("what was there is gone");
    const { sound, problems } = await store.verify();
    if (!sound) tell(`damaged: ${JSON.stringify(problems)}`);
    await store.close();
  });
}

const closed = (opening) => opening.then((store) => store.close());
for (const [kind, value] of Object.entries({ ...VALUES, ...LARGE })) {
  const isPath = ["newline", "long"].includes(kind);
  if (!isPath) await settled("open", kind, () => open(value).then(() => tell("opened what is no path", kind)));
  await settled("open, options", kind, () => closed(open(`${path}-options`, value)));
  for (const option of ["durability", "mode", "missing", "segmentBytesMax", "preallocation"]) {
    await settled(`open, ${option}`, kind, () => closed(open(`${path}-options`, { [option]: value })));
  }
  await settled("openInMemory", kind, () => closed(openInMemory(value)));
  await settled("attach", kind, () => closed(attach(value)));
  await settled("attach, token", kind, () => closed(attach({ runlogStore: value })));
  await settled("RawJson.parse", kind, async () => RawJson.parse(value));
  await settled("RawJson.from", kind, async () => RawJson.from(value));
  await settled("RecordBatch", kind, async () => new RecordBatch(value));
  const batch = new RecordBatch();
  await settled("RecordBatch.add", kind, async () => batch.add(value)).then((added) => {
    if (added === undefined && batch.count + batch.byteLength > 0) tell("a refused record left something behind", kind);
  });
  await settled("RecordBatch.add, kind", kind, async () => new RecordBatch().add("x", value));
  await settled("RecordBatch.add, meta", kind, async () => new RecordBatch().add("x", 1, value));
}
await attack(await openInMemory(), () => openInMemory());
if (both) await attack(await open(path), () => openInMemory());
tell.done = true;
