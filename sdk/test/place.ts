import type { Store } from "#runlog";

/** Where stores are kept. */
export interface Place {
  name: string;
  /** An empty store, closed when the test is over. */
  fresh(): Promise<Store>;
}
