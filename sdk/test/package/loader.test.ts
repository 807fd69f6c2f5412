import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { afterEach, beforeEach, describe, expect, test } from "vitest";

const native = fileURLToPath(new URL("../../../bindings-node", import.meta.url));
const execute = promisify(execFile);
const require = createRequire(join(native, "package.json"));

let folder: string;
let modules: string;

/** The loader alone, as its package has it. */
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "runlog-loader-"));
  modules = join(folder, "node_modules");
  for (const file of ["index.js", "package.json", "platforms.json"]) {
    await cp(join(native, file), join(modules, "runlog-native", file));
  }
});

afterEach(() => rm(folder, { recursive: true, force: true }));

/** Puts a package in place of a platform's, which says its name. */
async function install(platform: string, content = `module.exports = "${platform}"`): Promise<void> {
  const place = join(modules, `runlog-native-${platform}`);
  await mkdir(place);
  await writeFile(join(place, "index.js"), content);
}

/** Loads the addon in a process that takes itself for another platform: what it got, or why not. */
async function load(platform: string, arch: string, libc?: "glibc" | "musl"): Promise<string> {
  const glibc = { header: { glibcVersionRuntime: "2.36" }, sharedObjects: [`/lib/${arch}-linux-gnu/libc.so.6`] };
  const musl = { header: {}, sharedObjects: [`/usr/bin/node`, `/lib/ld-musl-${arch}.so.1`] };
  const report = { glibc, musl, unknown: {} }[libc ?? "unknown"];
  const script = `
    process.report.getReport = () => (${JSON.stringify(report)});
    for (const [name, value] of Object.entries(${JSON.stringify({ platform, arch })})) Object.defineProperty(process, name, { value });
    try { console.log(require("runlog-native")) } catch (error) { console.log(error.message) }`;
  const { stdout } = await execute(process.execPath, ["-e", script], { cwd: folder });
  return stdout.trim();
}

describe("the loader", () => {
  test.each([
    ["linux-x64-gnu", "linux", "x64", "glibc"],
    ["linux-x64-musl", "linux", "x64", "musl"],
    ["linux-arm64-gnu", "linux", "arm64", "glibc"],
    ["linux-arm64-musl", "linux", "arm64", "musl"],
    ["darwin-x64", "darwin", "x64"],
    ["darwin-arm64", "darwin", "arm64"],
    ["win32-x64", "win32", "x64"],
  ] as const)("takes %s where the packages of every platform are", async (expected, platform, arch, libc?: "glibc" | "musl") => {
    const platforms = require("./platforms.json") as { name: string }[];
    for (const { name } of platforms) await install(name);
    expect(await load(platform, arch, libc)).toBe(expected);
  });

  test("tries both packages of Linux where the C library isn't known", async () => {
    await install("linux-x64-gnu", `throw new Error("libc.so.6: no such file")`);
    await install("linux-x64-musl");
    expect(await load("linux", "x64")).toBe("linux-x64-musl");
  });

  test("tells the C library of this process by what that says of itself", async () => {
    const script = `require(${JSON.stringify(join(modules, "runlog-native/index.js"))})`;
    const platforms = require("./platforms.json") as { name: string; os: string }[];
    const here = platforms.filter(({ os }) => os === process.platform);
    for (const { name } of here) await install(name);
    const { stdout } = await execute(process.execPath, ["-p", script], { cwd: folder });
    const { header } = process.report.getReport() as { header: { glibcVersionRuntime?: string } };
    const libc = process.platform === "linux" ? (header.glibcVersionRuntime ? "-gnu" : "-musl") : "";
    expect(stdout.trim()).toBe(`${process.platform}-${process.arch}${libc}`);
  });

  test("names the package that is missing, and says what to do", async () => {
    const said = await load("linux", "x64", "musl");
    const { version } = require("./package.json") as { version: string };
    expect(said).toContain(`not installed; it is in runlog-native-linux-x64-musl@${version}.`);
    expect(said).toContain("--omit=optional");
    expect(said).toContain("delete node_modules and install again");
  });

  test("says that what is installed is for another platform", async () => {
    await install("linux-x64-gnu");
    const said = await load("linux", "x64", "musl");
    expect(said).toContain("it is in runlog-native-linux-x64-musl@");
    expect(said).toContain("There is runlog-native-linux-x64-gnu instead");
  });

  test("says why an addon that is there doesn't load, and what it needs", async () => {
    await install("linux-arm64-gnu", `throw new Error("version 'GLIBC_2.28' not found")`);
    const said = await load("linux", "arm64", "glibc");
    expect(said).toContain("runlog-native-linux-arm64-gnu: version 'GLIBC_2.28' not found");
    expect(said).toContain("It needs glibc 2.28 or later.");
  });

  test("says which platforms there are, on one that there is no addon for", async () => {
    const said = await load("freebsd", "x64");
    expect(said).toContain("no addon for freebsd-x64");
    expect(said).toContain("linux-arm64-musl, darwin-x64");
    expect(await load("linux", "riscv64", "glibc")).toContain("no addon for linux-riscv64");
  });

  test("says in a clone of the repository how the addon is built", async () => {
    await writeFile(join(modules, "runlog-native", "Cargo.toml"), "");
    expect(await load("darwin", "arm64")).toContain("`cargo xtask addon --release`");
  });
});
