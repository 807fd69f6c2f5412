import { defineConfig, mergeConfig } from "vitest/config";

import config from "./vitest.browser.config.js";

/** A large store in Chromium, with figures: `npm run measure:browser`. */
export default defineConfig(() => {
  const merged = mergeConfig(config, {});
  return { ...merged, test: { ...merged.test, include: ["test/million/*.test.ts"] } };
});
