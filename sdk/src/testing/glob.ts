import { type Dirent, type Stats, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

import { invalid } from "../error.js";

/**
 * The files that a glob names, in order: `*` and `?` stand for characters of a name, `[…]` for one of several, `**` for any
 * folders on the way, `{…,…}` for each of its parts. What begins with a dot is found only where the glob says so; `**` doesn't
 * go through symbolic links.
 *
 * @internal
 */
export function filesOfGlob(glob: string): string[] {
  const search: Search = { found: new Set(), seen: new Set() };
  for (const pattern of withoutBraces(glob)) {
    const [, root = "", rest = ""] = /^((?:[A-Za-z]:)?\/+)?(.*)$/s.exec(pattern) ?? [];
    walk(root, rest.split("/").filter((part) => part !== ""), search);
  }
  return [...search.found].sort();
}

/** The `.json` files below a folder, whatever its name is. @internal */
export function filesBelow(folder: string): string[] {
  const search: Search = { found: new Set(), seen: new Set() };
  walk(folder, ["**", "*.json"], search);
  return [...search.found].sort();
}

interface Search {
  found: Set<string>;
  /** Folders, with what is left to be found in them: several `**` lead to the same more than once. */
  seen: Set<string>;
}

/** Finds in a folder what the parts of a pattern name. */
function walk(folder: string, parts: readonly string[], search: Search): void {
  const [part, ...rest] = parts;
  const place = `${folder}\n${parts.join("/")}`;
  if (part === undefined || search.seen.has(place)) return;
  search.seen.add(place);
  if (part === "**") {
    // No folder on the way; or one, and any others.
    walk(folder, rest.length === 0 ? ["*"] : rest, search);
    for (const entry of entriesOf(folder)) {
      if (entry.isDirectory() && !entry.name.startsWith(".")) walk(join(folder, entry.name), parts, search);
    }
    return;
  }
  const names = /[*?[]/.test(part) ? namesLike(folder, part) : [part];
  for (const path of names.map((name) => join(folder, name))) {
    const kind = kindOf(path);
    if (rest.length > 0 && kind?.isDirectory()) walk(path, rest, search);
    else if (rest.length === 0 && kind?.isFile()) search.found.add(path);
  }
}

/** What is at a path; nothing where it can't be looked at. */
function kindOf(path: string): Stats | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}

function namesLike(folder: string, part: string): string[] {
  const pattern = patternOf(part);
  return entriesOf(folder)
    .map((entry) => entry.name)
    .filter((name) => pattern.test(name) && (part.startsWith(".") || !name.startsWith(".")));
}

/** What is in a folder; nothing where it can't be read. */
function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder === "" ? "." : folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** What names of files a part of a glob stands for. */
function patternOf(part: string): RegExp {
  const source = part.replaceAll(/\[(!|\^)?(\]?[^\]]*)\]|[*?]|[\\^$.|+()[\]{}]/g, (found, not, set) => {
    if (found === "*") return ".*";
    if (found === "?") return ".";
    if (set === undefined) return `\\${found}`;
    return `[${not === undefined ? "" : "^"}${set.replaceAll(/[\\\]^[]/g, "\\$&")}]`;
  });
  try {
    return new RegExp(`^${source}$`, "su");
  } catch (cause) {
    throw invalid(`the glob has ${JSON.stringify(part)}, whose brackets stand for no characters`, cause);
  }
}

/** The globs that one with `{…,…}` stands for. */
function withoutBraces(glob: string): string[] {
  for (let open = glob.indexOf("{"); open >= 0; open = glob.indexOf("{", open + 1)) {
    const parts: string[] = [];
    let depth = 0;
    let from = open + 1;
    for (let at = open; at < glob.length; at += 1) {
      if (glob[at] === "{") depth += 1;
      else if (glob[at] === "}") depth -= 1;
      const ends = depth === 0;
      if (ends || (depth === 1 && glob[at] === ",")) {
        parts.push(glob.slice(from, at));
        from = at + 1;
      }
      // One part alone is no choice: its braces are characters of a name.
      if (ends && parts.length > 1) return parts.flatMap((part) => withoutBraces(glob.slice(0, open) + part + glob.slice(from)));
      if (ends) break;
    }
  }
  return [glob];
}
