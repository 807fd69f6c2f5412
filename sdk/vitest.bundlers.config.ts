import { defineConfig, mergeConfig } from "vitest/config";

import config from "./vitest.config.js";

/** The packed package in pages, as bundlers make them; needs Chromium. */
export default defineConfig(() => {
  const merged = mergeConfig(config, {});
  return { ...merged, test: { ...merged.test, include: ["test/bundlers/*.test.ts"], exclude: [], testTimeout: 180_000 } };
});
