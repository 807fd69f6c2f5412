//! One file, one reason to change: no file has more than 500 lines of production code, comments not counted. The limit
//! is not a measure of quality; it prompts a review before a file has grown too large.

use std::{fs, path::Path};

use crate::{
    child::root,
    report::Outcome,
    sources::{files, is_test, production_lines},
};

const LINES_MAX: usize = 500;

/// Whether a file is generated.
fn is_generated(path: &Path) -> bool {
    path.iter().any(|part| part == "generated")
}

/// Names the files that are too long.
pub(crate) fn check() -> Outcome {
    let root = root();
    let mut count = 0;
    for path in files(&root, &["rs", "ts", "tsx"]).map_err(|error| error.to_string())? {
        let name = path.strip_prefix(&root).unwrap_or(&path);
        if is_test(name) || is_generated(name) {
            continue;
        }
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", name.display()))?;
        let lines = production_lines(&text).count();
        if lines > LINES_MAX {
            eprintln!(
                "{}: {lines} lines of production code, at most {LINES_MAX} are wanted: what of it has another reason to change?",
                name.display()
            );
            count += 1;
        }
    }
    match count {
        0 => Ok(String::new()),
        count => Err(format!("{count} too long")),
    }
}
