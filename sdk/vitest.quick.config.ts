import { defineConfig, mergeConfig } from "vitest/config";

import config from "./vitest.config.js";

/** The tests that need no more than the sources and the addon, for `cargo xtask test --quick`: nothing is packed or started. */
export default defineConfig(() => {
  const merged = mergeConfig(config, {});
  return { ...merged, test: { ...merged.test, include: ["test/contract/*.test.ts", "test/testing/*.test.ts"], globalSetup: [] } };
});
