"use strict";

// Finds and loads the addon of this platform: the one that was built here, or that of the platform's package.

const { existsSync } = require("node:fs");
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

/** Whether a package is there, whatever comes of loading it. */
function isInstalled(name) {
  try {
    require.resolve(name);
    return true;
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

function load() {
  const failures = [];
  const packages = [];
  for (const { name } of candidates()) {
    const built = join(__dirname, `runlog.${name}.node`);
    const fromPackage = `${own}-${name}`;
    packages.push(fromPackage);
    for (const place of [existsSync(built) && built, isInstalled(fromPackage) && fromPackage]) {
      if (!place) continue;
      try {
        return require(place);
      } catch (error) {
        failures.push({ place, error });
      }
    }
  }
  if (failures.length === 0) throw new Error(missing(packages));
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
