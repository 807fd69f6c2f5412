//! Every source file is part of its crate: one that no module names is compiled by nobody, and nobody sees that it is stale.

use std::{collections::HashSet, fs};

use crate::{child::root, report::Outcome, sources::files};

/// The folders of crates; `cargo` itself finds what stands in `src/bin`, `tests`, `benches` and `examples`.
const CRATES: [&str; 10] = [
    "core/log",
    "core/engine",
    "core/model",
    "core/runlog",
    "core/bindings",
    "bindings-node",
    "cli",
    "tests",
    "benches",
    "xtask",
];

/// Finds files that no module of their crate names.
pub(crate) fn check() -> Outcome {
    let mut count = 0;
    for folder in CRATES {
        let sources = root().join(folder).join("src");
        let paths = files(&sources, &["rs"]).map_err(|error| format!("{folder}: {error}"))?;
        let mut named = HashSet::new();
        for path in &paths {
            let text =
                fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
            named.extend(modules(&text).map(str::to_owned));
        }
        for path in paths {
            let name = path.strip_prefix(&sources).unwrap_or(&path);
            let stem = name
                .file_stem()
                .map(|stem| stem.to_string_lossy().into_owned())
                .unwrap_or_default();
            let is_root =
                matches!(stem.as_str(), "lib" | "main" | "mod") || name.starts_with("bin");
            if !is_root && !named.contains(&stem) {
                eprintln!("error: {folder}/src/{}: no module names it", name.display());
                count += 1;
            }
        }
    }
    if count == 0 {
        Ok(String::new())
    } else {
        Err(format!("{count} files are compiled by nobody"))
    }
}

/// The modules that a file has in files of their own, by the names of these.
fn modules(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter_map(|line| {
        if let Some(path) = line.strip_prefix("#[path = \"") {
            let file = path.split('"').next()?.strip_suffix(".rs")?;
            return file.rsplit('/').next();
        }
        let declared = line.strip_suffix(';')?;
        let (before, name) = declared.rsplit_once(' ')?;
        (before == "mod" || before.starts_with("pub") && before.ends_with(" mod")).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_however_they_are_declared() {
        let text = "mod a;\npub mod b;\n    pub(in crate::x) mod c;\n#[path = \"deep/d_tests.rs\"]\nmod tests;\nuse e::mod_f;\nmod g {\n}\n";
        assert_eq!(
            modules(text).collect::<Vec<_>>(),
            ["a", "b", "c", "d_tests", "tests"]
        );
    }
}
