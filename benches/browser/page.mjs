// What a page sees of Runlog: how long it takes to be there, and whether the page stands still while it records.

import { objects } from "/events.mjs";
import { streamId } from "/workload.mjs";
import { init, open } from "/sdk/browser/browser/index.js";

/** Until the module and its worker are ready, in a page that has just been loaded; milliseconds. */
export async function ready() {
  const began = performance.now();
  await init();
  return performance.now() - began;
}

/** Records from the page, and says how often and how long the page couldn't do anything else; milliseconds. */
export async function recording(events) {
  const tasks = [];
  const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration)));
  observer.observe({ type: "longtask" });
  const store = await open("recorded by the page");
  const began = performance.now();
  for (let index = 0; index < events; index += 1000) {
    const appends = Array.from({ length: 1000 }, (_, at) => store.streams.append(streamId(1), { json: objects[(index + at) % objects.length] }));
    await Promise.all(appends);
  }
  const took = performance.now() - began;
  await store.close();
  observer.disconnect();
  return { perSecond: (events / took) * 1000, longTasks: tasks.length, longestMs: Math.max(0, ...tasks) };
}
