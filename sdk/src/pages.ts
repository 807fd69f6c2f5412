import { classOf, readable } from "./checks.js";
import { abortedError } from "./error.js";

/**
 * Items that are read a page at a time: only this page and the next are in memory, so that a slow reader holds up the
 * reading and nothing piles up.
 *
 * @example
 * ```ts
 * for await (const event of context.events()) console.log(event.sequenceNumber);
 * for await (const page of context.events().pages()) await send(page);
 * const all = await context.events().toArray();
 * ```
 */
export class Pages<T> implements AsyncIterable<T> {
  readonly #open: (stop: AbortSignal) => AsyncGenerator<T[], void, undefined>;
  readonly #signal: AbortSignal | undefined;
  readonly #ends: boolean;

  /**
   * `open` begins to read; what it waits for ends when its signal is aborted. Once `signal` is, what is in memory isn't given any
   * more: that is an error, or where it `ends` the end.
   *
   * @internal
   */
  constructor(open: (stop: AbortSignal) => AsyncGenerator<T[], void, undefined>, signal?: AbortSignal, { ends = false } = {}) {
    this.#open = open;
    this.#signal = signal;
    this.#ends = ends;
  }

  /** The items, one by one. */
  [Symbol.asyncIterator](): AsyncIterator<T, void, undefined> & AsyncIterable<T> {
    const stop = new AbortController();
    const pages = this.#open(stop.signal);
    let page: T[] = [];
    let at = 0;
    /** Whether nobody wants more. */
    let isLeft = false;
    /** How many wait for a page, and the last of them: they are served one after the other. */
    let waiting = 0;
    let last: Promise<unknown> = Promise.resolve();
    const next = async (): Promise<IteratorResult<T, void>> => {
      for (;;) {
        if (this.#signal?.aborted && at < page.length) {
          page = [];
          pages.return().catch(() => {});
          if (!this.#ends) throw abortedError(this.#signal);
          return { done: true, value: undefined };
        }
        if (at < page.length) return { done: false, value: page[at++] as T };
        const read = await pages.next();
        // A page that was under way when the iterator was left is for nobody: what is asked for later would begin with it.
        if (read.done || isLeft) return { done: true, value: undefined };
        page = read.value;
        at = 0;
      }
    };
    const turn = async (before: Promise<unknown> | undefined): Promise<IteratorResult<T, void>> => {
      waiting += 1;
      try {
        // An error of the earlier call is reported to its own caller.
        if (before !== undefined) await before.catch(() => {});
        return await next();
      } finally {
        waiting -= 1;
      }
    };
    const iterator: AsyncIterator<T, void, undefined> & AsyncIterable<T> = {
      [Symbol.asyncIterator]: () => iterator,
      next: () => {
        // Nothing is waited for within a page.
        if (waiting === 0 && at < page.length && !this.#signal?.aborted) return Promise.resolve({ done: false, value: page[at++] as T });
        const mine = turn(waiting === 0 ? undefined : last);
        last = mine;
        return mine;
      },
      return: async () => {
        isLeft = true;
        page = [];
        // What is waited for may never come.
        stop.abort();
        await pages.return();
        return { done: true, value: undefined };
      },
    };
    return iterator;
  }

  /** The items a page at a time: fewer waits, the same memory. */
  pages(): AsyncIterable<T[]> {
    return {
      [Symbol.asyncIterator]: () => {
        const stop = new AbortController();
        const pages = this.#open(stop.signal);
        const end = async (): Promise<IteratorResult<T[], void>> => {
          stop.abort();
          return await pages.return();
        };
        const iterator = { [Symbol.asyncIterator]: () => iterator, next: () => pages.next(), return: end };
        return iterator;
      },
    };
  }

  /** All items at once. */
  async toArray(): Promise<T[]> {
    let all: T[] | undefined;
    for await (const page of this.pages()) {
      if (all === undefined) all = page;
      else for (const item of page) all.push(item);
    }
    return all ?? [];
  }
}

/** One page of a list, and where the next begins. */
export interface Page<T> {
  /** What there is on the page. */
  items: T[];
  /**
   * The cursor of the next page; left out when this is the last. It stays right while more is recorded, and fits the
   * same list with the same filters only. What moves to the front of its list meanwhile, as a chat in the order `last_message`
   * does that gets a message, is on none of the pages to come.
   */
  next?: string;
}

/**
 * One page of a list where it is awaited; the items of this page and all that follow where it is iterated over. Of the pages, one is
 * in memory at a time. The first page is asked for at once; what refuses it is thrown where the list is awaited or iterated over, and one
 * that is neither is no error.
 *
 * @example
 * ```ts
 * const { items, next } = await store.runs.list({ status: "failed" }); // a page
 * for await (const run of store.runs.list({ status: "failed" })) console.log(run.id); // all of them
 * ```
 */
export interface Listing<T, P extends Page<T> = Page<T>> extends Promise<P>, AsyncIterable<T> {
  /** The items, one by one. */
  [Symbol.asyncIterator](): AsyncIterator<T, void, undefined> & AsyncIterable<T>;
  /** The items of all pages at once. */
  toArray(): Promise<T[]>;
}

/** The list that `read` reads a page of. The first one is asked for at once, in the order of the calls. @internal */
export function listing<T, O extends { cursor?: string | undefined }, P extends Page<T> = Page<T>>(
  read: (options: O) => Promise<P>,
  options: O,
): Listing<T, P> {
  let asked: O;
  // What the iteration goes on with: the first page is that of who awaits it, too, and can be changed there.
  let own: Page<T>;
  const ask = async (): Promise<P> => {
    try {
      asked = readable("the options", () => copyOf(options));
      const page = await read(asked);
      own = { ...page, items: [...page.items] };
      return page;
    } catch (cause) {
      // Who iterates over it may come to that later, and is told then. Not before it fails: a second one that waits would take
      // the first from the error's stack.
      await undefined;
      first.catch(() => {});
      throw cause;
    }
  };
  const first = ask();
  const next = (cursor: string): Promise<P> => {
    // A list may begin at a page of a number; behind it the cursor says where it goes on.
    const { page: _, ...filters } = asked as O & { page?: unknown };
    return read({ ...filters, cursor } as unknown as O);
  };
  const all = new Pages<T>(() => pagesAfter(async () => (await first, own), next));
  return Object.assign(first, {
    [Symbol.asyncIterator]: () => all[Symbol.asyncIterator](),
    toArray: () => all.toArray(),
  });
}

/**
 * The filters as they are now, to which the cursors belong, with the lists and objects in them, each read once; what says what it is
 * in JSON is that. What is no object with fields is as it was given: it is refused where it is looked at.
 */
function copyOf<V>(value: V, within: readonly unknown[] = []): V {
  if (typeof value !== "object" || value === null || within.includes(value)) return value;
  const inside = [...within, value];
  if (Array.isArray(value)) return Array.from(value, (item: unknown) => copyOf(item, inside)) as V;
  if ("toJSON" in value && typeof value.toJSON === "function") return copyOf((value as { toJSON: () => V }).toJSON(), inside);
  if (value instanceof Error || classOf(value) !== "Object") return value;
  const fields = Object.entries({ ...value }).map(([name, field]) => [name, copyOf(field, inside)]);
  const copy = Object.fromEntries(fields) as V & object;
  // A class whose getters would be left out is refused, too.
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === Object.prototype ? copy : (Object.setPrototypeOf(copy, prototype) as V);
}

async function* pagesAfter<T>(first: () => Promise<Page<T>>, read: (cursor: string) => Promise<Page<T>>): AsyncGenerator<T[], void, undefined> {
  for (let page = await first(); ; page = await read(page.next)) {
    // A copy: who takes all of them adds to the first.
    yield [...page.items];
    if (page.next === undefined) return;
  }
}
