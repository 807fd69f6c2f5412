"use strict";

// Finds and loads the addon of this platform: the one that was built here, or that of the platform's package.

const { join } = require("node:path");

/** The platforms there is a package for, by what Node calls them. On Linux the right C library is the one that loads. */
const PLATFORMS = {
  "linux-x64": ["linux-x64-gnu", "linux-x64-musl"],
  "linux-arm64": ["linux-arm64-gnu", "linux-arm64-musl"],
  "darwin-x64": ["darwin-x64"],
  "darwin-arm64": ["darwin-arm64"],
  "win32-x64": ["win32-x64-msvc"],
};

function load() {
  const platform = `${process.platform}-${process.arch}`;
  const names = PLATFORMS[platform];
  if (names === undefined) {
    const known = Object.keys(PLATFORMS).join(", ");
    throw new Error(`runlog has no addon for ${platform}; it has one for ${known}`);
  }
  const failures = [];
  for (const name of names) {
    for (const place of [join(__dirname, `runlog.${name}.node`), `runlog-native-${name}`]) {
      try {
        return require(place);
      } catch (error) {
        const missing = error?.code === "MODULE_NOT_FOUND" && String(error.message).includes(place);
        failures.push({ missing, error, line: `  ${place}: ${missing ? "not installed" : error?.message}` });
      }
    }
  }
  // One that is there but doesn't load tells more than those that aren't.
  const cause = (failures.find((failure) => !failure.missing) ?? failures[0])?.error;
  const lines = failures.map((failure) => failure.line).join("\n");
  throw new Error(
    `the addon of runlog for ${platform} could not be loaded:\n${lines}\n` +
      "It comes as an optional dependency: install again without --omit=optional, on the platform that runs it.",
    { cause },
  );
}

module.exports = load();
