// Kept from the beginning: what a test that makes up the time puts in their place doesn't go on by itself.
const { process, setImmediate, MessageChannel } = globalThis as unknown as Turns;

/** What gives others a turn: the first in Node, the second in browsers, whose timers wait for 4 ms. */
interface Turns {
  process?: { versions?: { node?: string } };
  setImmediate?: Soon;
  MessageChannel?: new () => { port1: Port; port2: Port };
}

interface Port {
  onmessage: ((event: unknown) => void) | null;
  postMessage(message: null): void;
  close(): void;
}

type Soon = (call: () => void) => unknown;

let chosen: Soon | undefined;

/** Calls what waits for the event loop to go on. @internal */
export function soon(call: () => void): void {
  // Not as this is loaded: workerd has neither before a request.
  chosen ??= MessageChannel === undefined || (setImmediate !== undefined && isOwn(setImmediate)) ? setImmediate : byMessage;
  chosen?.(call);
}

/** Whether somebody who makes up the time was here before, such as a test's set-up. @internal */
export function isTimeMadeUp(): boolean {
  return setImmediate !== undefined && !isOwn(setImmediate);
}

/** Whether it is the platform's: Node's is told by what it returns. */
function isOwn(setImmediate: Soon): boolean {
  if (process?.versions?.node === undefined) return true;
  const made = setImmediate(() => {});
  return typeof made === "object" && made?.constructor.name === "Immediate";
}

function byMessage(call: () => void): void {
  const { port1, port2 } = new (MessageChannel as NonNullable<typeof MessageChannel>)();
  port1.onmessage = () => {
    port1.close();
    call();
  };
  port2.postMessage(null);
}

/** Lets go on what waits for the event loop. @internal */
export function turnOfOthers(): Promise<void> {
  return new Promise(soon);
}

/** For how many milliseconds who awaits what is answered at once may keep the event loop waiting. */
const STRETCH_MS = 50;
/** And for how many calls, where the time is made up and stands. */
const STRETCH_CALLS = 10_000;
let begun: number | undefined;
let calls = 0;

/**
 * The same where it has waited for long. Who awaits what is answered at once, again and again, never comes to the event loop otherwise:
 * no timer fires, no socket is read, and no signal ends the process.
 *
 * @internal
 */
export function turnWhereDue(): Promise<void> | undefined {
  const now = performance.now();
  calls += 1;
  if (begun === undefined) {
    begun = now;
    soon(() => {
      begun = undefined;
      calls = 0;
    });
    return undefined;
  }
  return now - begun < STRETCH_MS && calls < STRETCH_CALLS ? undefined : turnOfOthers();
}
