// Examples of the documentation as programs: found where they are written, compiled, and run in processes of their own.

import { type ChildProcess, spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import ts from "typescript";
import { expect } from "vitest";

export const root = fileURLToPath(new URL("../../../", import.meta.url));
const sdk = join(root, "sdk");

/** A program that doesn't end by itself is killed after so long. */
const HANGS_MS = 45_000;

/** An example as it is written. */
export interface Example {
  /** The file, and what in it the example is of: `store.ts: Store`, `README.md 1`. */
  name: string;
  language: "ts" | "js";
  code: string;
}

/** Every fenced block of TypeScript in the comments of the sources, by what it documents. */
export function examplesOfSources(): Example[] {
  const folder = join(sdk, "src");
  // What only a browser has is tried there: test/browser and test/bundlers.
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts") && !file.startsWith("browser"));
  return files.sort().flatMap((file) => {
    const text = readFileSync(join(folder, file), "utf8");
    return [...text.matchAll(/^( *)\/\*\*([^]*?)\*\//gm)].flatMap((found) => {
      const comment = (found[2] as string).replaceAll(/^ *\* ?/gm, "");
      const name = /@module (\S+)/.exec(comment)?.[1] ?? declared(text.slice(found.index + found[0].length));
      return blocksOf(comment).map((block, index) => ({
        ...block,
        name: `${file.replaceAll("\\", "/")}: ${name}${index > 0 ? ` ${index + 1}` : ""}`,
      }));
    });
  });
}

/** What a comment is of: the name that is declared after it. */
function declared(text: string): string {
  const words = "(?:export|declare|abstract|async|static|readonly|class|interface|type|function|const) ";
  return new RegExp(`^\\s*(?:${words})*\\*?([\\w$]+)`).exec(text)?.[1] ?? "?";
}

/** Every fenced block of JavaScript or TypeScript in the pages, by page and number, but those marked `browser`. */
export function examplesOfPages(): Example[] {
  const pages = ["README.md", "sdk/README.md", "examples/README.md", "bindings-node/README.md"];
  for (const folder of ["docs", "docs/guides"]) {
    for (const file of readdirSync(join(root, folder))) if (file.endsWith(".md")) pages.push(`${folder}/${file}`);
  }
  return pages.flatMap((page) => {
    const blocks = blocksOf(readFileSync(join(root, page), "utf8"));
    return blocks.map((block, index) => ({ ...block, name: `${page} ${index + 1}` }));
  });
}

function blocksOf(text: string): Omit<Example, "name">[] {
  const blocks = text.matchAll(/^```(js|mjs|javascript|ts|typescript)\b(?! browser).*\n([^]*?)^```$/gm);
  return [...blocks].map(([, language = "", code = ""]) => ({ language: /^(?:js|mjs|javascript)$/.test(language) ? "js" : "ts", code }));
}

/** What an example needs around it, and what it then says. */
export interface Trial {
  /** What it takes for granted. What it uses of the package is imported, and a `store` opened, without being asked for. */
  before?: string;
  /** What shows what it did. */
  after?: string;
  /** Files in the folder it runs in. */
  files?: Readonly<Record<string, string>>;
  /** All that it prints; or the signal that ends it. */
  says: string | RegExp | { signal: NodeJS.Signals };
  /** The lines from the one that begins so on are another program: run after the first one, or loaded by it under a name. */
  then?: Trial & { from: string; as?: string };
}

/** What is left of an example to be laid out. */
interface Part {
  code: string;
  trial: Omit<Trial, "says"> & { says: Trial["says"] | undefined };
  file: string;
}

/** One file of an example. */
interface Program {
  example: string;
  file: string;
  /** What it says; what another program loads isn't run, and says nothing. */
  says: Trial["says"] | undefined;
}

/** An application's folder with the package as npm would install it, and in it a folder of programs for each example. */
export class Application {
  readonly folder = mkdtempSync(join(tmpdir(), "runlog-documented-"));
  readonly #programs: Program[] = [];

  constructor() {
    const modules = join(this.folder, "node_modules");
    mkdirSync(join(modules, "@anthropic-ai/claude-agent-sdk"), { recursive: true });
    // A copy, so that what it loads is looked for here and not beside its sources.
    for (const part of ["dist", "package.json"]) cpSync(join(sdk, part), join(modules, "runlog", part), { recursive: true });
    symlinkSync(join(root, "bindings-node"), join(modules, "runlog-native"), "junction");
    symlinkSync(join(root, "node_modules/@types"), join(modules, "@types"), "junction");
    const agent = join(modules, "@anthropic-ai/claude-agent-sdk");
    writeFileSync(join(agent, "package.json"), JSON.stringify({ name: "@anthropic-ai/claude-agent-sdk", type: "module", exports: "./index.mjs" }));
    writeFileSync(join(agent, "index.mjs"), AGENT);
    writeFileSync(join(agent, "index.d.mts"), AGENT_TYPES);
  }

  /** The folder of an example, in which its programs run. */
  folderOf(example: string): string {
    return join(this.folder, example.replaceAll(/[^\w.]+/g, "-"));
  }

  /** Lays an example out as programs. */
  add({ name, language, code }: Example, trial: Trial, exported: ReadonlyMap<string, readonly string[]>): void {
    const folder = this.folderOf(name);
    const parts: Part[] = [{ code, trial, file: "program" }];
    for (const { code, trial, file } of parts) {
      let own = code;
      if (trial.then !== undefined) {
        const { from, as } = trial.then;
        const at = code.indexOf(`\n${from}`) + 1;
        if (at === 0) throw new Error(`${name} has no line that begins with ${from}`);
        own = code.slice(0, at);
        const then = as === undefined ? trial.then : { ...trial.then, says: undefined };
        parts.push({ code: code.slice(at), trial: then, file: as ?? "then" });
      }
      const { before = "", after = "", says, files = {} } = trial;
      const body = `${before}\n${own}\n${after}`;
      const store = /\bstore\b/.test(body) && !/\b(?:const|using) store\b/.test(body) ? 'const store = await open("runlog-data");\n' : "";
      const source = `${importsFor(store + body, exported)}${store}${body}\nexport {};\n`;
      const program = `${file}.${language === "ts" ? "mts" : "mjs"}`;
      layOut(folder, { ...files, [program]: source });
      this.#programs.push({ example: name, file: program, says });
    }
  }

  /** Compiles what is TypeScript; what is wrong with each example, by its name. */
  compile(): Map<string, string[]> {
    const typed = this.#programs.filter((program) => program.file.endsWith(".mts"));
    const paths = typed.map(({ example, file }) => join(this.folderOf(example), file));
    const program = ts.createProgram(paths, {
      strict: true,
      skipLibCheck: true,
      noEmitOnError: false,
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      lib: ["lib.es2023.d.ts", "lib.es2024.string.d.ts", "lib.esnext.disposable.d.ts"],
      types: ["node"],
      typeRoots: [join(root, "node_modules/@types")],
    });
    program.emit();
    const wrong = new Map<string, string[]>();
    for (const { file, start = 0, messageText } of ts.getPreEmitDiagnostics(program)) {
      const name = typed.find((_, index) => paths[index]?.replaceAll("\\", "/") === file?.fileName)?.example ?? "the package";
      const line = file?.text.slice(file.text.lastIndexOf("\n", start) + 1).split("\n")[0] ?? "";
      wrong.set(name, [...(wrong.get(name) ?? []), `${ts.flattenDiagnosticMessageText(messageText, "\n")} in: ${line}`]);
    }
    return wrong;
  }

  /** Runs the programs of an example, one after the other; what each should say, and what it did. */
  async run(example: string): Promise<{ wanted: Trial["says"]; ended: Ended }[]> {
    const runs = [];
    for (const { file, says } of this.#programs.filter((program) => program.example === example)) {
      if (says === undefined) continue;
      runs.push({ wanted: says, ended: await started(file.replace(/\.mts$/, ".mjs"), this.folderOf(example)).ended });
    }
    return runs;
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** An application with a trial of each example, and what is wrong with each as it is compiled. */
export async function prepared(
  examples: readonly Example[],
  trials: Readonly<Record<string, Trial>>,
): Promise<{ application: Application; wrong: Map<string, string[]> }> {
  const application = new Application();
  const exported = await exportedNames();
  for (const example of examples) {
    const trial = trials[example.name];
    if (trial !== undefined) application.add(example, trial, exported);
  }
  return { application, wrong: application.compile() };
}

/** How a process ended, and all that it said. */
export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** Starts a program in a bare process. One that hangs is killed, and says so. */
export function started(program: string, folder: string, args: readonly string[] = []): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [program, ...args], { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const said = { stdout: "", stderr: "" };
  child.stdout.on("data", (part) => (said.stdout += part));
  child.stderr.on("data", (part) => (said.stderr += part));
  const timer = setTimeout(() => {
    said.stderr += `it hangs: killed after ${HANGS_MS} ms`;
    child.kill("SIGKILL");
  }, HANGS_MS);
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ code, signal, ...said });
    });
  });
  return { child, ended };
}

/** What a trial wants of how a process ended, to be compared with. */
export function endedAs(says: Trial["says"]): object {
  if (typeof says === "object" && "signal" in says) return expect.objectContaining({ signal: says.signal, stderr: "" });
  return { code: 0, signal: null, stdout: typeof says === "string" ? says : expect.stringMatching(says), stderr: "" };
}

/** What each entry of the package exports, by its name. */
async function exportedNames(): Promise<Map<string, string[]>> {
  const entries = { runlog: "index.js", "runlog/claude": "claude/index.js", "runlog/testing": "testing/index.js" };
  const names = new Map<string, string[]>();
  for (const [entry, file] of Object.entries(entries)) {
    names.set(entry, Object.keys((await import(join(sdk, "dist/esm", file))) as object));
  }
  return names;
}

/** Imports what a program uses of the package, each from the first entry that has it. */
function importsFor(source: string, exported: ReadonlyMap<string, readonly string[]>): string {
  const taken = new Set<string>();
  let imports = "";
  for (const [entry, names] of exported) {
    const used = names.filter((name) => {
      const isOwn = new RegExp(`import [^;]*\\b${name}\\b[^;]* from|\\b(?:const|function|class) ${name}\\b`).test(source);
      return !taken.has(name) && !isOwn && new RegExp(`(?<![.\\w$"'])${name}\\b(?=[\\s(<.)])`).test(source);
    });
    for (const name of used) taken.add(name);
    if (used.length > 0) imports += `import { ${used.join(", ")} } from "${entry}";\n`;
  }
  return imports;
}

/** Writes files below a folder. */
export function layOut(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
}

/** In the place of the agent's library: it answers at once, and says which session goes on. */
const AGENT = `export async function* query({ prompt, options = {} }) {
  const session_id = options.resume ?? options.sessionId;
  yield { type: "system", subtype: "init", session_id, model: "stand-in" };
  const text = options.resume === undefined ? "Looked at: " + prompt : "Went on: " + prompt;
  yield { type: "assistant", session_id, message: { role: "assistant", content: [{ type: "text", text }] } };
  const usage = { input_tokens: 10, output_tokens: 5 };
  if (options.maxTurns === 1) return yield { type: "result", subtype: "error_max_turns", session_id, usage, duration_ms: 1, num_turns: 1 };
  yield { type: "result", subtype: "success", session_id, result: text, usage, duration_ms: 1, num_turns: 1, total_cost_usd: 0 };
}
`;
const AGENT_TYPES = `export function query(params: { prompt: string | AsyncIterable<unknown>; options?: object }): AsyncGenerator<{ type: "result"; result: string }>;
`;
