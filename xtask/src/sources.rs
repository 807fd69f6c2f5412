//! The source files of the workspace, and their production code.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Folders that hold no source of ours.
const SKIPPED: [&str; 6] = ["target", "node_modules", "dist", "pkg", "corpus", "golden"];

/// Every file below `folder` with one of these extensions, sorted.
pub(crate) fn files(folder: &Path, extensions: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (name, path) = (
                entry.file_name().to_string_lossy().into_owned(),
                entry.path(),
            );
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if path
                .extension()
                .is_some_and(|have| extensions.iter().any(|wanted| have == *wanted))
            {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a file contains only tests.
pub(crate) fn is_test(path: &Path) -> bool {
    path.file_stem()
        .is_some_and(|stem| stem == "tests" || stem.to_string_lossy().ends_with(".test"))
        || path.iter().any(|part| part == "tests")
}

/// The lines of production code: without blank lines, comments that have lines of their own, and the unit tests at the end.
pub(crate) fn production_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .map(str::trim)
        .take_while(|line| *line != "#[cfg(test)]")
        .filter(|line| !line.is_empty() && !is_comment(line))
}

/// Whether a line is a comment as Rust and TypeScript write them: `// …`, or a line of `/** … */`.
fn is_comment(line: &str) -> bool {
    ["//", "/*", "*/"]
        .iter()
        .any(|start| line.starts_with(start))
        || line == "*"
        || line.starts_with("* ")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A folder of files for a test, gone with it.
    pub(crate) struct Folder(PathBuf);

    impl Folder {
        pub(crate) fn of(files: &[(&str, &str)]) -> Self {
            static LAST: AtomicU32 = AtomicU32::new(0);
            let number = LAST.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("xtask-{}-{number}", std::process::id()));
            for (name, text) in files {
                let file = path.join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            Self(path)
        }

        pub(crate) fn path(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn comments_blank_lines_and_tests_are_not_production() {
        let text = "//! What it is.\n\nuse a;\n// why\n    let b = 1; // c\n#[cfg(test)]\nmod tests {\n  let d = 2;\n}\n";
        assert_eq!(
            production_lines(text).collect::<Vec<_>>(),
            ["use a;", "let b = 1; // c"]
        );
        let text = "/** What it is. */\n/**\n * How.\n *\n */\nlet a = 1;\n*b = 2;\n";
        assert_eq!(
            production_lines(text).collect::<Vec<_>>(),
            ["let a = 1;", "*b = 2;"]
        );
    }

    #[test]
    fn test_files_are_known_by_name_or_folder() {
        for test in [
            "a/tests.rs",
            "tests/src/checker.rs",
            "core/engine/tests/crash.rs",
            "viewer/src/list.test.ts",
        ] {
            assert!(is_test(Path::new(test)), "{test}");
        }
        assert!(!is_test(Path::new("core/engine/src/testing.rs")));
    }
}
