import { defineConfig, mergeConfig } from "vitest/config";

import config from "./vitest.config.js";

/** The tests that install what others have published, which takes a while: `cargo xtask integrations`. */
export default defineConfig(() => {
  const merged = mergeConfig(config, {});
  return { ...merged, test: { ...merged.test, include: ["test/integrations/*.test.ts"], exclude: [], fileParallelism: false } };
});
