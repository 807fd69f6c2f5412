// Measuring in turns: every store gets a slice, then each again, so that what the machine does else meets all of them.

import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

/** The median of numbers. */
export function median(values) {
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Runs `work`, which says how many it did, again and again for so many milliseconds; says how many a second. */
export async function perSecond(work, sliceMs) {
  const began = performance.now();
  let done = 0;
  let elapsed = 0;
  do {
    done += await work();
    elapsed = performance.now() - began;
  } while (elapsed < sliceMs);
  return (done / elapsed) * 1000;
}

/** How much of the machine's processors was at work, from 0 to 1, while so many milliseconds pass. Linux only. */
async function busy(ms) {
  const times = () => {
    const fields = readFileSync("/proc/stat", "utf8").split("\n", 1)[0].trim().split(/\s+/).slice(1).map(Number);
    return { idle: fields[3] + fields[4], all: fields.slice(0, 8).reduce((sum, it) => sum + it, 0) };
  };
  const before = times();
  await sleep(ms);
  const after = times();
  return 1 - (after.idle - before.idle) / Math.max(1, after.all - before.all);
}

/** Where nothing else is at work is where to measure: waits for it, but no longer than there are milliseconds left. */
export class Quiet {
  #leftMs;
  constructor(budgetMs) {
    this.#leftMs = process.platform === "linux" ? budgetMs : 0;
  }
  /** Whether it was quiet in the end. */
  async wait() {
    while (this.#leftMs > 0) {
      const began = performance.now();
      const share = await busy(100);
      if (share * cpus().length < 0.2) return true;
      await sleep(100);
      this.#leftMs -= performance.now() - began;
    }
    return false;
  }
}

/**
 * Measures subjects, by name, in turns; the first round warms up and doesn't count. Each is a function of a slice's length
 * that says a figure. Says the figures of each round, and how many microseconds of processor time each event took in this
 * process. Each round waits until the machine is quiet.
 */
export async function inTurns(subjects, rounds, sliceMs, quiet) {
  const names = Object.keys(subjects);
  const figures = Object.fromEntries(names.map((name) => [name, []]));
  const processorUs = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    // Each round begins with another one, so that nobody always follows the same.
    const order = names.map((_, index) => names[(index + round) % names.length]);
    if (round > 0) await quiet.wait();
    for (const name of order) {
      globalThis.gc?.();
      const [before, began] = [process.cpuUsage(), performance.now()];
      const figure = await subjects[name](sliceMs);
      const [used, seconds] = [process.cpuUsage(before), (performance.now() - began) / 1000];
      if (round === 0) continue;
      figures[name].push(figure);
      processorUs[name].push((used.user + used.system) / (figure * seconds));
    }
  }
  return { figures, processorUs };
}

/** The median of the ratios of two subjects, round by round. */
export function ratio(figures, of, to) {
  return median(figures[of].map((figure, round) => figure / figures[to][round]));
}
