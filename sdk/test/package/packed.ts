import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const require = createRequire(import.meta.url);

/** The folder of the SDK. */
export const sdk = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
/** The folder of the native part. */
export const native = join(sdk, "..", "bindings-node");

/** Runs a program to its end, and says what it printed. One that takes too long is a failure. */
export async function run(program: string, args: readonly string[], cwd: string, env = process.env): Promise<string> {
  const options = { cwd, env, timeout: 120_000, maxBuffer: 64 << 20 };
  const { stdout } = await promisify(execFile)(program, args, options);
  return stdout;
}

/** The addon that was built for this machine. */
function addon(): string {
  require("runlog-native");
  const loaded = Object.keys(require.cache).find((file) => file.endsWith(".node") && file.startsWith(native));
  if (loaded === undefined) throw new Error("the addon wasn't built; run `cargo xtask addon`");
  return loaded;
}

/** The packages as npm packs them, and an empty folder of an application's that is to have them. */
export interface Packed {
  /** What holds everything here. */
  folder: string;
  /** The application's folder. */
  app: string;
  /** The packed packages, the SDK first. */
  tarballs: string[];
  /** Installs them in the application's folder as a user would. */
  install(): Promise<void>;
  /** Deletes everything. */
  remove(): Promise<void>;
}

/** Packs the packages. */
export async function pack(name: string): Promise<Packed> {
  const folder = await mkdtemp(join(tmpdir(), `runlog-${name}-`));
  const app = join(folder, "app");
  await mkdir(app);
  const platform = addon().replace(/^.*runlog\.|\.node$/g, "");
  const stage = [join(native, "scripts/stage.mjs"), join(folder, "npm"), `${platform}=${addon()}`];
  const staged = await run(process.execPath, stage, folder);
  const tarballs: string[] = [];
  for (const place of [sdk, ...staged.trim().split("\n")]) {
    const packed = await run("npm", ["pack", "--silent", "--pack-destination", folder, place], folder);
    tarballs.push(join(folder, packed.trim()));
  }
  return {
    folder,
    app,
    tarballs,
    async install() {
      await run("npm", ["install", "--no-audit", "--no-fund", "--no-save", ...tarballs], app);
    },
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}
