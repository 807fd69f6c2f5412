import addon from "runlog-native";

import { type Binding, Channel, type Part } from "./binding.js";

let channel: Channel | undefined;

/** The way to the core from this thread: an addon of Node's. @internal */
export function nodeChannel(): Channel {
  channel ??= new Channel(nodeBinding());
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
    cancel: addon.cancel,
    release: addon.release,
    onReplies(to) {
      listener = to;
    },
    keepAlive(on) {
      if (on) timer.ref();
      else timer.unref();
    },
  };
}
