import { type Stats, readFileSync, statSync } from "node:fs";
import { basename } from "node:path";

import { checkText } from "../checks.js";
import { awaited } from "../claude/given.js";
import { RunlogError, invalid, messageOf } from "../error.js";
import { check } from "./check.js";
import { filesBelow, filesOfGlob } from "./glob.js";
import { fixtureSchema } from "./schema.js";
import type { Fixture, FixtureSet } from "./types.js";

/**
 * Loads fixtures: a file, every `.json` file below a folder, or the files that a glob names. A file's name is its node's:
 * `task-agent.json` has the calls of `task-agent`. A glob has `*`, `?`, `[…]`, `**` for any folders, and `{…,…}`.
 *
 * @throws {@link RunlogError} `not_found` when nothing is there; `invalid_input` when it is given no text, or a file isn't as
 * {@link fixtureSchema} says, naming the file, the place in it, and what to do; `ambiguous` when two files are for one node.
 *
 * @example
 * ```ts
 * const fixtures = loadFixtures("tests/fixtures/recordings/my-workflow/");
 * const mockQuery = createMockQuery({ fixtures });
 * ```
 */
export function loadFixtures(pathOrGlob: string): FixtureSet {
  checkText(awaited(pathOrGlob, GIVEN), GIVEN);
  const fixtures = noFixtures();
  const from = new Map<string, string>();
  for (const file of filesOf(pathOrGlob)) {
    const nodeId = nodeOf(file);
    const other = from.get(nodeId);
    if (other !== undefined) {
      const message = `two fixtures are for the node ${JSON.stringify(nodeId)}: ${other} and ${file}`;
      throw new RunlogError("ambiguous", `${message}; load the folder of one workflow`);
    }
    from.set(nodeId, file);
    fixtures[nodeId] = loadFixture(file);
  }
  return fixtures;
}

const GIVEN = "what loadFixtures is given";

function filesOf(pathOrGlob: string): string[] {
  const kind = kindOf(pathOrGlob);
  if (kind?.isFile()) return [pathOrGlob];
  const files = kind?.isDirectory() ? filesBelow(pathOrGlob) : filesOfGlob(pathOrGlob);
  if (files.length > 0) return files;
  const what = kind?.isDirectory() ? "no .json file in the folder" : "no file or folder, and nothing that fits the glob,";
  throw new RunlogError(
    "not_found",
    `there is ${what} ${pathOrGlob}; give a file, a folder, or a glob from ${process.cwd()}, or record fixtures with recordFixtures`,
  );
}

function kindOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (cause) {
    throw new RunlogError("io", `fixtures can't be looked for at ${path}: ${messageOf(cause)}`, { cause });
  }
}

/** The fixture of one file, checked. */
function loadFixture(file: string): Fixture {
  let value: unknown;
  try {
    // Some editors write a byte order mark, which is no JSON.
    value = JSON.parse(readFileSync(file, "utf8").replace(/^\uFEFF/, ""));
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw new RunlogError("io", `can't read the fixture ${file}`, { cause });
    throw invalid(`the fixture ${file} is no JSON: ${cause.message}; mend it, or record it again`, cause);
  }
  const misfit = check(value, fixtureSchema);
  if (misfit !== undefined) {
    const place = misfit.place === "" ? "the file" : misfit.place;
    throw invalid(`the fixture ${file} isn't right: ${place} ${misfit.message}`);
  }
  return value as Fixture;
}

/** A set that has nothing, also for a node that is called `constructor` or `__proto__`. @internal */
export function noFixtures(): FixtureSet {
  return Object.create(null) as FixtureSet;
}

/** The name of a node's file. @internal */
export function fileOf(nodeId: string): string {
  // Letters of file names only; `%` is among what is escaped, so that the name can be read back.
  const escaped = encodeURIComponent(nodeId).replaceAll(/[*']/g, (it) => `%${it.charCodeAt(0).toString(16).toUpperCase()}`);
  const name = escaped.startsWith(".") ? `%2E${escaped.slice(1)}` : escaped;
  return `${name}.json`;
}

/** The node of a file. */
function nodeOf(file: string): string {
  const name = basename(file).replace(/\.json$/, "");
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
