//! The engine's floors: a module imports from its own floor and lower ones, never from a higher one.

use std::fs;

use crate::{
    child::root,
    report::Outcome,
    sources::{files, is_test, production_lines},
};

/// The floors of `core/engine/src`, lowest first; what is not named here stands below them all.
const FLOORS: [&str; 6] = ["format", "storage", "log", "index", "store", "embedded"];

/// Finds paths that point up.
pub(crate) fn check() -> Outcome {
    let sources = root().join("core/engine/src");
    let mut count = 0;
    for path in files(&sources, &["rs"]).map_err(|error| error.to_string())? {
        let name = path.strip_prefix(&sources).unwrap_or(&path);
        let module = name
            .iter()
            .next()
            .map(|part| part.to_string_lossy().trim_end_matches(".rs").to_owned());
        let module = module.unwrap_or_default();
        if module == "lib" || is_test(name) {
            continue;
        }
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", name.display()))?;
        let code = production_lines(&text).collect::<Vec<_>>().join("\n");
        for higher in points_up(&module, &code) {
            eprintln!(
                "error: core/engine/src/{}: `{module}` imports from `{higher}`, a higher floor",
                name.display()
            );
            count += 1;
        }
    }
    if count == 0 {
        Ok(String::new())
    } else {
        Err(format!("{count} imports point up"))
    }
}

/// The higher floors that the code of `module` names.
fn points_up(module: &str, code: &str) -> Vec<&'static str> {
    let height = FLOORS.iter().position(|floor| *floor == module);
    let higher = FLOORS
        .get(height.map_or(0, |height| height + 1)..)
        .unwrap_or(&[]);
    let named: Vec<&str> = code.split("crate::").skip(1).flat_map(heads).collect();
    higher
        .iter()
        .copied()
        .filter(|floor| named.contains(floor))
        .collect()
}

/// The first words of the paths that follow `crate::`: one, or each of a group in braces.
fn heads(path: &str) -> Vec<&str> {
    let Some(group) = path.strip_prefix('{') else {
        return vec![word(path)];
    };
    let mut heads = Vec::new();
    let (mut depth, mut start) = (0_usize, Some(0));
    for (index, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => start = Some(index + 1),
            c if c.is_whitespace() && start == Some(index) => start = Some(index + c.len_utf8()),
            _ if start == Some(index) => {
                heads.push(word(group.get(index..).unwrap_or("")));
                start = None;
            }
            _ => {}
        }
    }
    heads
}

/// The identifier at the start of a text.
fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
        .unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [&str; 0] = [];

    #[test]
    fn an_import_that_points_up_is_found() {
        assert_eq!(points_up("format", "use crate::log::Writer;"), ["log"]);
        assert_eq!(
            points_up("log", "let a = crate::store::open(crate::index::Index);"),
            ["index", "store"]
        );
        assert_eq!(points_up("ids", "use crate::format;"), ["format"]);
    }

    #[test]
    fn a_group_is_looked_into() {
        assert_eq!(
            points_up(
                "format",
                "use crate::{\n    Result,\n    log::{Reader, Writer},\n};"
            ),
            ["log"]
        );
        assert_eq!(
            points_up(
                "log",
                "use crate::{format::{frame, index}, Store};\nstore();"
            ),
            NONE
        );
    }

    #[test]
    fn level_and_downward_imports_are_fine() {
        assert_eq!(points_up("log", "use crate::{Position, Result};"), NONE);
        assert_eq!(points_up("log", "use crate::log::segment::Segment;"), NONE);
        assert_eq!(points_up("store", "use crate::format::frame;"), NONE);
        assert_eq!(points_up("format", "use crate::logical::Clock;"), NONE);
    }
}
