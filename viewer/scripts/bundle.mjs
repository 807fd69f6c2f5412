// Bundles the worker and the page, a script each, without anything that is loaded later.

import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { build } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * The package starts a worker and finds its module beside itself; the viewer says where both are.
 *
 * @type {import("vite").Plugin}
 */
const withoutAddresses = {
  name: "without-addresses",
  transform(code, id) {
    if (!/sdk\/dist\/browser\//.test(id)) return undefined;
    const replaced = code
      .replace(/new Worker\(new URL\("\.\/worker\.js", import\.meta\.url\)[^)]*\)/g, "undefined")
      .replace(/new URL\("\.\.\/wasm\/runlog_wasm_bg\.wasm", import\.meta\.url\)/g, "undefined")
      .replace(/new URL\('runlog_wasm_bg\.wasm', import\.meta\.url\)/g, "undefined");
    return { code: replaced, map: null };
  },
};

/**
 * @param {string} entry
 * @param {import("vite").PluginOption[]} plugins
 */
async function bundled(entry, plugins) {
  const result = await build({
    root,
    configFile: false,
    logLevel: "warn",
    plugins,
    resolve: { conditions: ["browser", "module", "import", "default"] },
    build: {
      write: false,
      target: "es2023",
      minify: true,
      cssCodeSplit: false,
      rollupOptions: { input: `${root}/${entry}`, output: { format: "iife", name: "viewer", entryFileNames: "[name].js", assetFileNames: "[name][extname]", codeSplitting: false } },
    },
  });
  const [built] = Array.isArray(result) ? result : [result];
  if (built === undefined || !("output" in built)) throw new Error(`${entry} was not bundled`);
  const chunk = built.output.find((part) => part.type === "chunk");
  const style = built.output.find((part) => part.type === "asset" && part.fileName.endsWith(".css"));
  if (chunk?.type !== "chunk") throw new Error(`the bundle of ${entry} has no script`);
  return { code: chunk.code, style: style?.type === "asset" ? String(style.source) : "" };
}

/** The worker's script. */
export const bundledWorker = async () => (await bundled("src/worker/main.ts", [withoutAddresses])).code;

/** The page's script and style. */
export const bundledPage = () => bundled("src/main.ts", [svelte({ configFile: false, compilerOptions: { css: "external" } })]);
