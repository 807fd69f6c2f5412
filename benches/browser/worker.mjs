// Measures in a dedicated worker, where files of the browser's own file system can be written, and says the figures.

import { inTurns, perSecond } from "/measure.mjs";
import { inMemory, kept } from "./stores.mjs";
import { STREAMS, STREAM_EVENTS } from "/workload.mjs";

const IN_FLIGHT = 1000;
const BATCH = 100;
const FILL = 250;

/** A name for each store; what is left of an earlier run is in a profile that is gone. */
let names = 0;

/** All stores of a kind, opened, as subjects of the same work; and what closes them. */
async function each(stores, work) {
  const opened = [];
  const subjects = {};
  for (const [name, open] of Object.entries(stores)) {
    const store = await open(`store-${names++}`);
    opened.push(store);
    subjects[name] = work(store);
  }
  return { subjects, close: () => Promise.all(opened.map((store) => store.close())) };
}

const oneByOne = (store) => {
  let index = 0;
  return (slice) =>
    perSecond(async () => {
      await store.append(1 + (index % STREAMS), index++);
      return 1;
    }, slice);
};

const batched = (store) => {
  let index = 0;
  return (slice) =>
    perSecond(async () => {
      const first = (index += BATCH);
      await store.appendBatch(1 + ((index / BATCH) % STREAMS), Array.from({ length: BATCH }, (_, at) => first + at));
      return BATCH;
    }, slice);
};

const inFlight = (store) => {
  let index = 0;
  return (slice) =>
    perSecond(async () => {
      await Promise.all(Array.from({ length: IN_FLIGHT }, () => store.append(1 + (index % STREAMS), index++)));
      return IN_FLIGHT;
    }, slice);
};

async function appends(stores, work, { rounds, slice }) {
  const { subjects, close } = await each(stores, work);
  const figures = await inTurns(subjects, rounds, slice);
  await close();
  return figures;
}

/** The stores that are read: streams whose events came in turns. */
const prepared = {};

async function prepare() {
  for (const [name, open] of Object.entries(kept)) {
    if (prepared[name] !== undefined) continue;
    prepared[name] = `read-${names++}`;
    self.postMessage({ measuring: `(filling ${name})` });
    const store = await open(prepared[name]);
    for (let first = 0; first < STREAM_EVENTS; first += FILL) {
      for (let stream = 1; stream <= STREAMS; stream++) {
        await store.appendBatch(stream, Array.from({ length: FILL }, (_, at) => first + at + stream));
      }
    }
    await store.close();
  }
}

async function reads(work, { rounds, slice }) {
  await prepare();
  const opened = [];
  const subjects = {};
  for (const [name, open] of Object.entries(kept)) {
    const store = await open(prepared[name]);
    opened.push(store);
    subjects[name] = work(store);
  }
  const figures = await inTurns(subjects, rounds, slice);
  await Promise.all(opened.map((store) => store.close()));
  return figures;
}

const replay = (store) => {
  let stream = 0;
  return (slice) =>
    perSecond(async () => {
      const events = await store.events(1 + (stream++ % STREAMS));
      if (events.length !== STREAM_EVENTS) throw new Error(`${events.length} events, not ${STREAM_EVENTS}`);
      return events.length;
    }, slice);
};

/** What the first store found: the others have to find it too. */
let found;

const fold = (store) => async () => {
  const began = performance.now();
  const answer = JSON.stringify(await store.fold());
  found ??= answer;
  if (answer !== found || answer.includes(":0")) throw new Error(`a fold says ${answer}, another one ${found}`);
  return performance.now() - began;
};

/** Until the first event of a store that was closed is there. */
async function openings({ rounds }) {
  await prepare();
  const subjects = Object.fromEntries(
    Object.entries(kept).map(([name, open]) => [
      name,
      async () => {
        const began = performance.now();
        const store = await open(prepared[name]);
        const events = await store.first(7);
        const took = performance.now() - began;
        if (events.length !== 1) throw new Error("the store that was opened is empty");
        await store.close();
        return took;
      },
    ]),
  );
  return inTurns(subjects, rounds, 0);
}

const ROWS = {
  "durable, one by one": { group: "durable", unit: "events/s", measure: (options) => appends(kept, oneByOne, options) },
  "durable, 1,000 in flight": { group: "durable", unit: "events/s", measure: (options) => appends(kept, inFlight, options) },
  "durable, batches of 100": { group: "durable", unit: "events/s", measure: (options) => appends(kept, batched, options) },
  "in memory, one by one": { group: "memory", unit: "events/s", measure: (options) => appends(inMemory, oneByOne, options) },
  "in memory, batches of 100": { group: "memory", unit: "events/s", measure: (options) => appends(inMemory, batched, options) },
  "replay of 1,000, as objects": { group: "reads", unit: "events/s", measure: (options) => reads(replay, options) },
  "filter and fold 100,000": { group: "reads", unit: "ms", measure: (options) => reads(fold, options) },
  "open 100,000, and read one": { group: "reads", unit: "ms", measure: openings },
};

self.onmessage = async ({ data: { group: wanted, words, ...options } }) => {
  try {
    for (const [name, { group, unit, measure }] of Object.entries(ROWS)) {
      if (group !== wanted) continue;
      if (words.length > 0 && !words.some((word) => name.includes(word))) continue;
      self.postMessage({ measuring: name });
      self.postMessage({ name, unit, figures: await measure(options) });
    }
    self.postMessage({ done: true });
  } catch (error) {
    self.postMessage({ error: String(error?.stack ?? error) });
  }
};
