// Builds the viewer twice: dist, a folder that any web server serves, and dist/runlog-viewer.html, one file with everything
// inside of it that opens by double-click. In that file {{RUNLOG_RECORDING}} stands where a recording goes: base64 of what
// `runlog export` writes, gzip or not; {{RUNLOG_AGENT}} is where the id of the agent goes that is shown first. Left as it is,
// the file asks for a recording.

import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { bundledPage, bundledWorker } from "./bundle.mjs";

/** @param {string} path */
const here = (path) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const module = await readFile(here("../sdk/dist/browser/wasm/runlog_wasm_bg.wasm")).catch(() => {
  console.error("The package isn't built for browsers yet: `cargo xtask wasm-module && npm run build -w sdk -- --whole` does that.");
  process.exit(1);
});
const [template, example, worker, page] = await Promise.all([readFile(here("index.html"), "utf8"), readFile(here("example/example.runlog")), bundledWorker(), bundledPage()]);

/** @param {Record<string, string>} parts */
const policy = (parts) => Object.entries(parts).map(([name, value]) => `${name} ${value}`).join("; ");
/** @param {string} text */
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
/** @param {Record<string, string>} parts */
const filled = (parts) => template.replace(/\{\{(\w+)\}\}/g, (_, name) => parts[name] ?? "");
const never = { "default-src": "'none'", "base-uri": "'none'", "form-action": "'none'" };

// Nothing of a recording is ever a script, a style or an address; images of it are data: URLs.
const app = filled({
  POLICY: policy({ ...never, "script-src": "'self' 'wasm-unsafe-eval'", "worker-src": "'self'", "style-src": "'self'", "connect-src": "'self'", "img-src": "data:" }),
  STYLE: '<link rel="stylesheet" href="viewer.css" />',
  SCRIPT: '<script src="viewer.js"></script>',
});
await rm(here("dist"), { recursive: true, force: true });
await mkdir(here("dist"), { recursive: true });
const files = { "index.html": app, "viewer.js": page.code, "viewer.css": page.style, "worker.js": worker, "runlog.wasm": module, "example.runlog": example };
for (const [name, content] of Object.entries(files)) await writeFile(here(`dist/${name}`), content);

// `</` can't stand in an inlined script; in JavaScript's strings and templates `<\/` is the same.
const script = page.code.replaceAll("</", "<\\/");
/** @param {string | Buffer} bytes */
const packed = (bytes) => gzipSync(bytes, { level: 9 }).toString("base64");
/**
 * @param {string} id
 * @param {string} content
 */
const data = (id, content) => `<script type="text/plain" id="${id}">${content}</script>`;
const single = filled({
  POLICY: policy({ ...never, "script-src": `${hash(script)} 'wasm-unsafe-eval'`, "worker-src": "blob:", "style-src": hash(page.style), "img-src": "data:" }),
  STYLE: `<style>${page.style}</style>`,
  SCRIPT: [
    data("runlog-recording", "{{RUNLOG_RECORDING}}"),
    data("runlog-agent", "{{RUNLOG_AGENT}}"),
    data("runlog-example", example.toString("base64")),
    data("runlog-module", packed(module)),
    data("runlog-worker", packed(worker)),
    `<script>${script}</script>`,
  ].join("\n    "),
});
await writeFile(here("dist/runlog-viewer.html"), single);
console.log(`dist: page ${page.code.length}, worker ${worker.length}, module ${module.length} bytes\ndist/runlog-viewer.html: ${single.length} bytes`);
