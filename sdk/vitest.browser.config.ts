import { fileURLToPath } from "node:url";
import { playwright } from "@vitest/browser-playwright";
import { defineConfig } from "vitest/config";

import * as folders from "./test/browser/folders.server.js";
import { answersOfNode, setQuota, storeOfNode } from "./test/browser/store.server.js";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** The contracts of calls, in Chromium, over WebAssembly. */
export default defineConfig({
  test: {
    include: ["test/contract/**/*.test.ts", "test/browser/**/*.test.ts"],
    // It is about files; test/browser/archives.test.ts has what a browser has of it.
    exclude: ["test/contract/archives.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    browser: {
      enabled: true,
      headless: true,
      screenshotFailures: false,
      provider: playwright({
        launchOptions: {
          executablePath: process.env.RUNLOG_CHROMIUM ?? "/usr/bin/chromium",
          args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
        },
      }),
      commands: { storeOfNode, answersOfNode, setQuota, ...folders },
      instances: [{ browser: "chromium" }],
    },
  },
  // A page with these has shared memory, which the tests try too.
  server: { headers: { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp" } },
  resolve: {
    alias: {
      "#runlog": here("./src/browser/index.ts"),
      "#places": here("./test/places.browser.ts"),
    },
  },
});
