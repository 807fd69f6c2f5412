"use strict";

// Finds and loads the addon of this platform: the one that was built here, or that of the platform's package.

const { existsSync } = require("node:fs");
const { createRequire } = require("node:module");
const { join } = require("node:path");
const platforms = require("./platforms.json");
const { name: own, version } = require("./package.json");

/**
 * The C library that this process runs on: what it says of itself, where the files of the system may be those of another.
 * `null` when it doesn't say.
 */
function libc() {
  const { report } = process;
  if (report === undefined) return null;
  // Otherwise the report asks for the names of everything that this process is connected to.
  const { excludeNetwork } = report;
  report.excludeNetwork = true;
  try {
    const { header, sharedObjects } = report.getReport();
    if (header?.glibcVersionRuntime) return "glibc";
    return sharedObjects?.some((path) => path.includes("ld-musl-") || path.includes("libc.musl-")) ? "musl" : null;
  } catch {
    return null;
  } finally {
    report.excludeNetwork = excludeNetwork;
  }
}

/** The platforms that this process may be: one, unless its C library isn't known. */
function candidates() {
  const { platform: os, arch: cpu } = process;
  const found = platforms.filter((platform) => platform.os === os && platform.cpu === cpu);
  if (found.length === 0) {
    const known = platforms.map(({ name }) => name).join(", ");
    throw new Error(
      `runlog has no addon for ${os}-${cpu}; it has one for ${known}. ` +
        "Elsewhere it has to be built from its sources: bindings-node/README.md in its repository tells how.",
    );
  }
  const known = os === "linux" ? libc() : null;
  return known === null ? found : found.filter((platform) => platform.libc === known);
}

/** What finds modules from this file; a bundler may make an ES module of it, which has no folder. */
const here = typeof __dirname === "string" ? createRequire(join(__dirname, "index.js")) : undefined;

/** Whether a package is there, whatever comes of loading it. */
function isInstalled(name) {
  try {
    here.resolve(name);
    return true;
  } catch {
    return false;
  }
}

/** Whether this file is where it was installed; a bundler moves it. */
function isInPlace() {
  try {
    return here("./package.json").name === own;
  } catch {
    return false;
  }
}

/** Why there is nothing to load, and what to do. */
function missing(packages) {
  if (existsSync(join(__dirname, "Cargo.toml"))) {
    return "the addon of runlog isn't built yet; in a clone of its repository `cargo xtask addon --release` does that";
  }
  const others = platforms.map(({ name }) => `${own}-${name}`).filter(isInstalled);
  const why =
    others.length === 0
      ? "The package manager left it out: optional dependencies were omitted, or the lock file was made on another platform."
      : `There is ${others.join(" and ")} instead: node_modules was installed for another platform.`;
  const wanted = packages.map((name) => `${name}@${version}`).join(" or ");
  return (
    `the addon of runlog for this platform is not installed; it is in ${wanted}. ${why} ` +
    "On the platform that runs it, delete node_modules and install again, without --omit=optional or --no-optional; " +
    "if that doesn't help, without the lock file."
  );
}

/** Why a bundle finds nothing to load, and what to do. */
function bundled(packages) {
  return (
    `the addon of runlog for this platform could not be loaded; it is in ${packages.join(" or ")}. A bundler has put runlog ` +
    "in a bundle, from where its addon isn't found: keep runlog out of the bundle, or run it where node_modules has it. " +
    'In Next: serverExternalPackages: ["runlog"].'
  );
}

/** Where the addon of a name may be: what finds modules from there, and what to find. */
function places(name) {
  const found = [];
  if (here !== undefined) {
    // Nothing is required by a name that a bundler can read, since no bundler can bundle an addon. The paths stand by
    // themselves, as tools that trace an application's files want them; what those copy has no package.json.
    const builtHere = join(__dirname, `runlog.${name}.node`);
    const beside = join(__dirname, `../runlog-native-${name}/runlog.${name}.node`);
    found.push([here, builtHere], [here, beside], [here, `${own}-${name}`]);
  }
  if (!isInPlace()) {
    // A bundler has moved this file: from the folder of the application, in which it runs. Never otherwise, since that
    // folder may be anybody's.
    const application = createRequire(join(process.cwd(), "package.json"));
    found.push([application, `./node_modules/runlog-native-${name}/runlog.${name}.node`]);
    try {
      const runlog = createRequire(application.resolve("runlog/package.json"));
      found.push([createRequire(runlog.resolve(own)), `${own}-${name}`]);
    } catch {
      // The application has no package of that name either.
    }
  }
  return found;
}

function load() {
  const failures = [];
  const packages = [];
  for (const { name } of candidates()) {
    packages.push(`${own}-${name}`);
    for (const [find, place] of places(name)) {
      try {
        return find(place);
      } catch (error) {
        // One that is there but doesn't load tells more than those that aren't.
        if (error?.code !== "MODULE_NOT_FOUND" || !String(error.message).includes(place)) failures.push({ place, error });
      }
    }
  }
  if (failures.length === 0) throw new Error(isInPlace() ? missing(packages) : bundled(packages));
  const lines = failures.map(({ place, error }) => `  ${place}: ${error?.message}`).join("\n");
  const promised = platforms.find(({ name }) => failures[0].place.includes(name))?.versionMin;
  const system = { linux: "glibc", darwin: "macOS" }[process.platform];
  throw new Error(
    `the addon of runlog is there, but doesn't load:\n${lines}` +
      (promised ? `\nIt needs ${system} ${promised} or later.` : ""),
    { cause: failures[0].error },
  );
}

module.exports = load();
