import addon from "runlog-native";

import { type Binding, Channel, type Part } from "./binding.js";

/** An application may have this package twice, as ES modules and as CommonJS; the addon it has once for each thread. */
const CHANNEL = Symbol.for("runlog.channel");

/** The way to the core from this thread: an addon of Node's. @internal */
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
    addon.end();
  });
  return channel;
}

function nodeBinding(): Binding {
  let listener: (parts: Part[]) => void = () => {};
  addon.start(() => listener(addon.poll()));
  // The addon doesn't keep the process alive; a timer that never fires does, while there is something to wait for.
  const timer = setInterval(() => {}, 2 ** 31 - 1);
  timer.unref();
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
      if (on) timer.ref();
      else timer.unref();
    },
  };
}
