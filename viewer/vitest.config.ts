import { defineConfig } from "vitest/config";

/** The built viewer, in Chromium, as a person uses it. Build it before: `npm run build -w viewer`. */
export default defineConfig({
  test: { include: ["test/**/*.test.ts"], testTimeout: 120_000, hookTimeout: 180_000, maxWorkers: 3, expect: { poll: { timeout: 15_000 } } },
});
