//! One file, one reason to change: files above about 500 lines of production code are named. A warning, no more:
//! a number is a reason to look, not a reason to cut.

use std::{fs, path::Path};

use crate::{
    child::root,
    report::Outcome,
    sources::{files, is_test, production_lines},
};

const LINES_MAX: usize = 500;

/// Whether nobody writes a file.
fn is_generated(path: &Path) -> bool {
    path.iter().any(|part| part == "generated")
}

/// Names the files that are too long. Fails only when the sources cannot be read.
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
                "warning: {}: {lines} lines of production code, about {LINES_MAX} are wanted",
                name.display()
            );
            count += 1;
        }
    }
    Ok(if count == 0 {
        String::new()
    } else {
        format!("{count} warned of")
    })
}
