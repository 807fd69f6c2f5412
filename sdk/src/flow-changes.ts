import type { RunSnapshot } from "./flow-types.js";

/** A new value of a node, in one of the parts of a state. @internal */
export type Change = readonly [part: "agentSessions" | "nodeStatus" | "outputs", node: string, value: unknown];

/** The changes of one value that are being saved, in their order, and what it was before, or what was saved of it last. */
interface Unsaved {
  before: PropertyDescriptor | undefined;
  changes: { value: unknown }[];
}

/** Of each part of a state that is being saved, by node. */
const unsaved = new WeakMap<object, Map<string, Unsaved>>();

/**
 * Makes a change, and says what to do once it was saved, or couldn't be: then it is taken back, unless something else was
 * written over it.
 *
 * @internal
 */
export function changed(state: RunSnapshot, [part, node, value]: Change): { saved(): void; back(): void } {
  const values = state[part] as Record<string, unknown> | undefined;
  // What isn't as it should be is refused where the state is read.
  if (typeof values !== "object" || values === null) return { saved() {}, back() {} };
  const of = unsaved.get(values) ?? new Map<string, Unsaved>();
  unsaved.set(values, of);
  const entry = of.get(node) ?? { before: Object.getOwnPropertyDescriptor(values, node), changes: [] };
  of.set(node, entry);
  const change = { value };
  entry.changes.push(change);
  const write = (value: unknown): PropertyDescriptor => ({ value, writable: true, enumerable: true, configurable: true });
  // Any name can be a node's, `__proto__` too.
  Object.defineProperty(values, node, write(value));
  const forget = (from: number, count: number) => {
    entry.changes.splice(from, count);
    if (entry.changes.length === 0) of.delete(node);
  };
  return {
    saved() {
      const place = entry.changes.indexOf(change);
      if (place < 0) return;
      entry.before = write(value);
      // Those before it are written over, whatever comes of them.
      forget(0, place + 1);
    },
    back() {
      const place = entry.changes.indexOf(change);
      if (place < 0) return;
      const isLast = place === entry.changes.length - 1;
      const own = Object.getOwnPropertyDescriptor(values, node);
      forget(place, 1);
      if (!isLast || own?.value !== value) return;
      const last = entry.changes.at(-1);
      const before = last === undefined ? entry.before : write(last.value);
      if (before === undefined) delete values[node];
      else Object.defineProperty(values, node, before);
    },
  };
}
