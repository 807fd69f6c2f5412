// The worker of a page, which can be made to fail as a fault in WebAssembly does.

import "../../src/browser/worker.js";

addEventListener("message", ({ data }: MessageEvent<{ breakWith?: "trap" | "panic" | "script" } | null>) => {
  const how = data?.breakWith;
  if (how === undefined) return;
  if (how === "script") throw new Error("the script has a fault");
  // Called from inside of the module, by whatever needs the time next: an error that passes through it as a trap does.
  Date.now = () => {
    if (how === "panic") Object.assign(globalThis, { __runlogPanic: "panicked at core/engine: assertion failed" });
    throw new WebAssembly.RuntimeError("unreachable");
  };
});
