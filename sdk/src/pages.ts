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
  readonly #open: () => AsyncGenerator<T[], void, undefined>;

  /** @internal */
  constructor(open: () => AsyncGenerator<T[], void, undefined>) {
    this.#open = open;
  }

  /** The items, one by one. */
  [Symbol.asyncIterator](): AsyncIterator<T, void, undefined> {
    const pages = this.#open();
    let page: T[] = [];
    let at = 0;
    const next = async (): Promise<IteratorResult<T, void>> => {
      for (;;) {
        if (at < page.length) return { done: false, value: page[at++] as T };
        const read = await pages.next();
        if (read.done) return { done: true, value: undefined };
        page = read.value;
        at = 0;
      }
    };
    return {
      // Nothing is waited for within a page.
      next: () => (at < page.length ? Promise.resolve({ done: false, value: page[at++] as T }) : next()),
      return: async () => {
        page = [];
        await pages.return();
        return { done: true, value: undefined };
      },
    };
  }

  /** The items a page at a time: fewer waits, the same memory. */
  pages(): AsyncIterable<T[]> {
    return { [Symbol.asyncIterator]: this.#open };
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
   * The cursor of the next page; `undefined` when this is the last. It stays right while more is recorded, and fits the
   * same list with the same filters only.
   */
  next: string | undefined;
}
