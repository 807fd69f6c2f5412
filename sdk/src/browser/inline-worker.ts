// The worker of `runlog/inline`, bundled into one script that the page has as text. The page gives it the module.
import { serve } from "./serve.js";

serve(undefined, globalThis as unknown as Parameters<typeof serve>[1]);
