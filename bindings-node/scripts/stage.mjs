// Lays out the packages of the native part as they are published:
//
//   node stage.mjs FOLDER [NAME=ADDON …]
//
// makes FOLDER/runlog-native, the loader, which names every platform's package as an optional dependency, and
// FOLDER/runlog-native-NAME for each addon that is given.

import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const read = (name) => JSON.parse(readFileSync(join(root, name), "utf8"));
const platforms = read("platforms.json");
const loader = read("package.json");

/** Makes a package's folder, with what every package has. */
function stage(folder, name, manifest, files) {
  const place = join(folder, name);
  rmSync(place, { recursive: true, force: true });
  mkdirSync(place, { recursive: true });
  writeFileSync(join(place, "package.json"), `${JSON.stringify(manifest, null, 2)}\n`);
  for (const license of ["LICENSE-MIT", "LICENSE-APACHE"]) cpSync(join(root, "..", license), join(place, license));
  for (const [from, to] of files) cpSync(from, join(place, to));
  if (!existsSync(join(place, "README.md"))) writeFileSync(join(place, "README.md"), `# ${name}\n\n${manifest.description}\n`);
  return place;
}

const [folder, ...addons] = process.argv.slice(2);
if (folder === undefined) throw new Error("usage: stage.mjs FOLDER [NAME=ADDON …]");

const optionalDependencies = Object.fromEntries(
  platforms.map(({ name }) => [`${loader.name}-${name}`, loader.version]),
);
const own = loader.files.filter((file) => !file.startsWith("LICENSE"));
console.log(
  stage(
    folder,
    loader.name,
    { ...loader, optionalDependencies },
    own.map((file) => [join(root, file), file]),
  ),
);

for (const addon of addons) {
  const [name, path] = addon.split("=");
  const platform = platforms.find((platform) => platform.name === name);
  if (platform === undefined || path === undefined) throw new Error(`no platform has the name ${name}`);
  const { os, cpu, libc, target } = platform;
  const file = `runlog.${name}.node`;
  const { version, license, repository } = loader;
  const manifest = {
    name: `${loader.name}-${name}`,
    version,
    description: `The addon of the npm package \`runlog\` for ${target}`,
    license,
    ...(repository && { repository }),
    main: file,
    files: [file, "LICENSE-MIT", "LICENSE-APACHE"],
    os: [os],
    cpu: [cpu],
    ...(libc && { libc: [libc] }),
  };
  console.log(stage(folder, manifest.name, manifest, [[path, file]]));
}
