// Kept from the beginning: those of a test that makes up the time don't go on by themselves.
const { setImmediate, MessageChannel } = globalThis as unknown as Turns;

/** What gives others a turn: the first in Node, the second in browsers, whose timers wait for 4 ms. */
interface Turns {
  setImmediate?: (resolve: (value: unknown) => void) => void;
  MessageChannel: new () => { port1: Port; port2: Port };
}

interface Port {
  onmessage: ((event: unknown) => void) | null;
  postMessage(message: null): void;
  close(): void;
}

/** Lets go on what waits for the event loop. @internal */
export async function turnOfOthers(): Promise<void> {
  if (setImmediate !== undefined) {
    await new Promise(setImmediate);
    return;
  }
  const { port1, port2 } = new MessageChannel();
  await new Promise((resolve) => {
    port1.onmessage = resolve;
    port2.postMessage(null);
  });
  port1.close();
}

/** For how many milliseconds who awaits what is answered at once may keep the event loop waiting. */
const STRETCH_MS = 50;
let begun: number | undefined;

/**
 * The same where it has waited for long. Who awaits what is answered at once, again and again, never comes to the event loop otherwise:
 * no timer fires, no socket is read, and no signal ends the process.
 *
 * @internal
 */
export function turnWhereDue(): Promise<void> | undefined {
  const now = performance.now();
  if (begun === undefined) {
    begun = now;
    void turnOfOthers().then(() => (begun = undefined));
    return undefined;
  }
  return now - begun < STRETCH_MS ? undefined : turnOfOthers();
}
