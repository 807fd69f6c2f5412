// How a store is read and shared.

/** From where on, and until when, to read the log. */
export interface LogOptions {
  /** The first position; 1 when left out. */
  from?: number | undefined;
  /** At most so many records. */
  limit?: number | undefined;
  /** Gives up reading. */
  signal?: AbortSignal | undefined;
}

/** Names an open store to another thread of this process; it can be posted there. */
export interface SharedStore {
  /** Opaque. */
  readonly runlogStore: number;
}
