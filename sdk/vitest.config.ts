import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    exclude: ["test/integrations/**", "test/browser/**", "test/million/**", "test/bundlers/**", "**/node_modules/**"],
    globalSetup: "./test/setup.ts",
    // A test that hangs is a failure, not a wait.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    pool: "forks",
    maxWorkers: 2,
    reporters: ["default"],
  },
  resolve: {
    alias: {
      // What is tested: the sources, over the binding of this platform.
      "#runlog": here("./src/index.ts"),
      "#testing": here("./src/testing/index.ts"),
      // Where stores are kept here.
      "#places": here("./test/places.node.ts"),
    },
  },
});
