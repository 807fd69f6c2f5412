import { cp, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { type Packed, native, pack, run, sdk } from "./packed.js";

const here = dirname(fileURLToPath(import.meta.url));
const require = createRequire(import.meta.url);

let packed: Packed;
let folder: string;
let app: string;
let tarball: string;

/** Packs the packages, and installs them in an empty folder as a user would. */
beforeAll(async () => {
  packed = await pack("package");
  ({ folder, app } = packed);
  tarball = packed.tarballs[0] as string;
  await writeFile(join(app, "package.json"), JSON.stringify({ name: "app", private: true }));
  await packed.install();
  for (const file of ["smoke.cjs", "smoke.mjs", "consumer.ts"]) await cp(join(here, file), join(app, file));
}, 180_000);

afterAll(() => packed?.remove());

test("the package holds what it should and no more", async () => {
  const listed = await run("tar", ["-tzf", tarball], app);
  const names = listed.trim().split("\n");
  expect(names).toContain("package/dist/esm/index.js");
  expect(names).toContain("package/dist/cjs/index.d.ts");
  for (const entry of ["index", "inline", "workerd", "worker"]) expect(names).toContain(`package/dist/browser/browser/${entry}.js`);
  expect(names).toContain("package/README.md");
  expect(names).toContain("package/LICENSE-MIT");
  const said = await run("tar", ["-xzOf", tarball, "package/package.json"], app);
  // Nothing that a process loads is needed beside the addon.
  expect(Object.keys(JSON.parse(said).dependencies)).toEqual(["runlog-native"]);
  expect(names.filter((name) => /src\/|test\/|\.node$|tsconfig/.test(name))).toEqual([]);
});

test("publint and arethetypeswrong have nothing to say", async () => {
  const { publint } = await import("publint");
  const { messages } = await publint({ pkgDir: sdk, strict: true });
  expect(messages).toEqual([]);
  const attw = join(dirname(require.resolve("@arethetypeswrong/cli/package.json")), "dist/index.js");
  const problems = (...options: string[]) => run(process.execPath, [attw, tarball, ...options], app);
  // They have no types, or are for bundlers alone.
  const untyped = ["./fixture.schema.json", "./worker", "./runlog.wasm"];
  const ofPages = ["./browser", "./inline"];
  expect(await problems("--exclude-entrypoints", ...untyped, ...ofPages)).toContain("No problems found");
  // There is no CommonJS in pages.
  expect(await problems("--entrypoints", ...ofPages, "--ignore-rules", "cjs-resolves-to-esm")).toContain("No problems found");
});

test.each(["nodenext", "bundler", "commonjs"])("its types are right for module %s", async (kind) => {
  const options = {
    strict: true,
    skipLibCheck: false,
    noEmit: true,
    target: "es2022",
    types: [],
    module: kind === "bundler" ? "esnext" : kind === "commonjs" ? "node16" : kind,
    moduleResolution: kind === "commonjs" ? "node16" : kind,
  };
  const config = join(app, `tsconfig.${kind}.json`);
  const file = kind === "commonjs" ? "consumer.cts" : kind === "nodenext" ? "consumer.mts" : "consumer.ts";
  await cp(join(here, "consumer.ts"), join(app, file));
  await writeFile(config, JSON.stringify({ compilerOptions: options, files: [file] }));
  const tsc = require.resolve("typescript/bin/tsc");
  const said = await run(process.execPath, [tsc, "-p", config], app).catch((error: { stdout: string }) => error.stdout);
  expect(said).toBe("");
});

describe("the packed package runs", () => {
  const runtimes = join(sdk, "test/runtimes/node_modules");
  const node = (name: string) => join(runtimes, name, "bin/node");
  const bin = (name: string) => join(runtimes, ".bin", name);
  test.each([
    ["this Node", process.execPath, []],
    ["Node 22", node("node22"), []],
    ["Node 24", node("node24"), []],
    ["Bun", bin("bun"), []],
    ["Deno", bin("deno"), ["run", "--allow-all", "--quiet"]],
  ])("on %s", async (name, program, flags) => {
    const place = (kind: string) => join(folder, `${name}-${kind}`.replace(/\s/g, "-"));
    expect(await run(program, [...flags, "smoke.mjs", place("esm")], app)).toBe("100 100\n");
    expect(await run(program, [...flags, "smoke.cjs", place("cjs")], app)).toBe("100 100\n");
  });
});

test("every package says the same version", async () => {
  const version = async (file: string) => (JSON.parse(await readFile(file, "utf8")) as { version: string }).version;
  const versions = await Promise.all([join(sdk, "package.json"), join(native, "package.json")].map(version));
  const cargo = await readFile(join(sdk, "../Cargo.toml"), "utf8");
  const workspace = /\[workspace\.package\]\s+version = "([^"]+)"/.exec(cargo)?.[1];
  expect(versions).toEqual([workspace, workspace]);
});
