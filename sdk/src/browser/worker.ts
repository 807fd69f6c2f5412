// The worker of a page that uses Runlog: `new Worker(new URL("runlog/worker", …), { type: "module" })`, which the page's
// entry starts by itself. It never imports what starts it.
import { serve } from "./serve.js";

serve(new URL("../wasm/runlog_wasm_bg.wasm", import.meta.url), globalThis as unknown as Parameters<typeof serve>[1]);
