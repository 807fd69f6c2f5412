"use strict";

// Finds and loads the addon of this platform: the one that was built here, or that of the platform's package.

const { createRequire } = require("node:module");
const { join } = require("node:path");

/** The platforms there is a package for, by what Node calls them. On Linux the right C library is the one that loads. */
const PLATFORMS = {
  "linux-x64": ["linux-x64-gnu", "linux-x64-musl"],
  "linux-arm64": ["linux-arm64-gnu", "linux-arm64-musl"],
  "darwin-x64": ["darwin-x64"],
  "darwin-arm64": ["darwin-arm64"],
  "win32-x64": ["win32-x64-msvc"],
};

/** Whether this file is where it was installed; a bundler moves it, or makes an ES module of it, which has no folder. */
function isInstalled() {
  try {
    return createRequire(join(__dirname, "index.js"))("./package.json").name === "runlog-native";
  } catch {
    return false;
  }
}

/** Where the addon of a name may be: what finds modules from there, and what to find. */
function places(name) {
  const found = [];
  if (typeof __dirname === "string") {
    const own = createRequire(join(__dirname, "index.js"));
    // Nothing is required by a name that a bundler can read, since no bundler can bundle an addon. The paths stand by
    // themselves, as tools that trace an application's files want them; what those copy has no package.json.
    const builtHere = join(__dirname, `runlog.${name}.node`);
    const beside = join(__dirname, `../runlog-native-${name}/runlog.${name}.node`);
    found.push([own, builtHere], [own, beside], [own, `runlog-native-${name}`]);
  }
  if (!isInstalled()) {
    // A bundler has moved this file: from the folder of the application, in which it runs. Never otherwise, since that
    // folder may be anybody's.
    const application = createRequire(join(process.cwd(), "package.json"));
    found.push([application, `./node_modules/runlog-native-${name}/runlog.${name}.node`]);
    try {
      const runlog = createRequire(application.resolve("runlog/package.json"));
      found.push([createRequire(runlog.resolve("runlog-native")), `runlog-native-${name}`]);
    } catch {
      // The application has no package of that name either.
    }
  }
  return found;
}

function load() {
  const platform = `${process.platform}-${process.arch}`;
  const names = PLATFORMS[platform];
  if (names === undefined) {
    const known = Object.keys(PLATFORMS).join(", ");
    throw new Error(`runlog has no addon for ${platform}; it has one for ${known}`);
  }
  const lines = [];
  let cause;
  for (const name of names) {
    let why = "not installed";
    for (const [find, place] of places(name)) {
      try {
        return find(place);
      } catch (error) {
        // One that is there but doesn't load tells more than those that aren't.
        if (error?.code === "MODULE_NOT_FOUND" && String(error.message).includes(place)) continue;
        why = error?.message;
        cause ??= error;
      }
    }
    lines.push(`  runlog-native-${name}: ${why}`);
  }
  const help = isInstalled()
    ? "It comes as an optional dependency: install again without --omit=optional, on the platform that runs it."
    : "A bundler has put runlog in a bundle, from where its addon isn't found: keep runlog out of the bundle, or run it " +
      'where node_modules has it. In Next: serverExternalPackages: ["runlog"].';
  throw new Error(`the addon of runlog for ${platform} could not be loaded:\n${lines.join("\n")}\n${help}`, { cause });
}

module.exports = load();
