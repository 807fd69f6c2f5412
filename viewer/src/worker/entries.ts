// What a lane has of events. A fork shares what it inherits with the lane that it is of: a thousand of them take no more than one.

import { type NumberList, i32, u32 } from "./lists.js";

/** No row. */
export const NONE = 0xffffffff;

const NOTHING = new Uint32Array();

/** The events of a lane in the order in which they came, those that it inherits first: rows, which ascend. */
export class Entries {
  readonly #own = u32();

  constructor(private readonly inherited: Uint32Array = NOTHING) {}

  get length(): number {
    return this.inherited.length + this.#own.length;
  }

  at(entry: number): number {
    const { length } = this.inherited;
    return entry < length ? (this.inherited[entry] as number) : this.#own.at(entry - length);
  }

  push(row: number): void {
    this.#own.push(row);
  }

  /** The first of them, shared where they stand together. */
  first(count: number): Uint32Array {
    if (count <= this.inherited.length) return this.inherited.subarray(0, count);
    if (this.inherited.length === 0) return this.#own.items.subarray(0, count);
    return Uint32Array.from({ length: count }, (_, entry) => this.at(entry));
  }
}

/** For each entry of a lane the row of the truncation that forgot it, or {@link NONE}. */
export class Deaths {
  #rows: NumberList<Uint32Array> | undefined;

  at(entry: number): number {
    return this.#rows === undefined || entry >= this.#rows.length ? NONE : this.#rows.at(entry);
  }

  set(entry: number, row: number): void {
    this.#rows ??= u32();
    while (this.#rows.length <= entry) this.#rows.push(NONE);
    this.#rows.set(entry, row);
  }
}

/** The entry at each sequence of a lane now. Up to its first truncation they are the same. */
export class Alive {
  /** As many of the first entries are at the sequences that they came at. */
  #same: number;
  /** Those behind them; -1 where none is known. */
  readonly #others = i32();

  constructor(first = 0) {
    this.#same = first;
  }

  get length(): number {
    return this.#same + this.#others.length;
  }

  /** The entry at a place, from 0; undefined where there is none. */
  at(place: number): number | undefined {
    if (place < this.#same) return place;
    const entry = place < this.length ? this.#others.at(place - this.#same) : -1;
    return entry < 0 ? undefined : entry;
  }

  /** Puts an entry at a place, behind which there is nothing then. */
  put(place: number, entry: number): void {
    this.truncate(place);
    while (this.length < place) this.#others.push(-1);
    if (this.#others.length === 0 && entry === place) this.#same += 1;
    else this.#others.push(entry);
  }

  truncate(length: number): void {
    if (length >= this.length) return;
    this.#others.length = Math.max(0, length - this.#same);
    this.#same = Math.min(this.#same, length);
  }

  /** Whether the first so many entries are at their own places. */
  isSame(count: number): boolean {
    return count <= this.#same;
  }

  *[Symbol.iterator](): Generator<number> {
    for (let place = 0; place < this.length; place++) {
      const entry = this.at(place);
      if (entry !== undefined) yield entry;
    }
  }
}

/** What a fork has of the first events that its parent has now. */
export function inherited(entries: Entries, alive: Alive, count: number): [Entries, Alive] {
  if (alive.isSame(count)) return [new Entries(entries.first(count)), new Alive(count)];
  const own = u32();
  const now = new Alive();
  for (let place = 0; place < count; place++) {
    const entry = alive.at(place);
    if (entry === undefined) continue;
    now.put(place, own.length);
    own.push(entries.at(entry));
  }
  return [new Entries(own.view().slice()), now];
}
