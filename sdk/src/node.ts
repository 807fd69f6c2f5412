import addon from "runlog-native";

import { type Binding, Channel, type Part } from "./binding.js";
import { isTimeMadeUp, soon } from "./turns.js";

// Kept from the beginning: what a test that makes up the time puts in its place keeps no process alive.
const { setInterval } = globalThis;

/** An application may have this package twice, as ES modules and as CommonJS; the addon it has once for each thread. */
const CHANNEL = Symbol.for("runlog.channel");

/** The way to the core from this thread: a Node addon. @internal */
export function nodeChannel(): Channel {
  const shared = addon as { [CHANNEL]?: Channel };
  shared[CHANNEL] ??= newChannel();
  return shared[CHANNEL];
}

function newChannel(): Channel {
  const channel = new Channel(nodeBinding());
  // The turn in which process.exit() is called has no end; what was appended in it is handed over nevertheless. Then all is
  // closed, and so written, before the process goes on to end: that runs nothing of the addon's any more.
  process.on("exit", () => {
    channel.handOver();
    channel.endAll();
    addon.end();
  });
  return channel;
}

/** For how many milliseconds the core is polled at a stretch before the event loop goes on. */
const STRETCH_MS = 4;

/**
 * Polls when the core wakes this thread. Node calls what wakes it again and again before the event loop goes on, up to a
 * thousand times: a task of the core that does its work in parts and wakes itself would keep timers and sockets waiting.
 */
function inTurns(poll: () => void): () => void {
  let begun: number | undefined;
  return () => {
    const now = performance.now();
    if (begun === undefined) {
      begun = now;
      soon(() => (begun = undefined));
    } else if (now - begun > STRETCH_MS) {
      // Nothing wakes before it has polled.
      soon(poll);
      return;
    }
    poll();
  };
}

function nodeBinding(): Binding {
  let listener: (parts: Part[]) => void = () => {};
  addon.start(inTurns(() => listener(addon.poll())));
  const alive = keeper();
  return {
    call: addon.call,
    append: addon.append,
    cancel: addon.cancel,
    release: addon.release,
    isBusy: addon.isBusy,
    onReplies(to) {
      listener = to;
    },
    // A fault in the addon is caught for each call.
    onEnded() {},
    keepAlive(on) {
      if (on) alive.ref();
      else alive.unref();
    },
  };
}

/** What keeps the process alive while there is something to wait for, which the addon doesn't: a timer that never fires. */
function keeper(): { ref(): unknown; unref(): unknown } {
  const timer = setInterval(() => {}, 2 ** 31 - 1);
  timer.unref();
  if (!isTimeMadeUp()) return timer;
  // One that is made up keeps nothing. A port to which nothing comes does, as long as somebody has the other one; not every platform's.
  const { port1, port2 } = new MessageChannel();
  if (typeof port1.on !== "function") return timer;
  port1.on("message", () => {});
  port1.unref();
  return { ref: () => port1.ref(), unref: () => (void port2, port1.unref()) };
}
