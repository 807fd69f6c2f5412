//! docs/model.md names only calls and tests that exist.

#![allow(
    clippy::unwrap_used,
    reason = "a test that can't read the sources has failed"
)]

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The text of every file with an extension below some folders.
fn sources(folders: &[&str], extension: &str) -> String {
    let mut text = String::new();
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in
            fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        {
            let path = entry.unwrap().path();
            let is_skipped = path
                .file_name()
                .is_some_and(|name| name == "node_modules" || name == "dist");
            if path.is_dir() && !is_skipped {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                text += &fs::read_to_string(&path).unwrap();
            }
        }
    }
    text
}

fn words(text: &str) -> HashSet<&str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
        .collect()
}

/// What stands in backticks.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The rows of each table whose header has a column, as that column's cells.
fn column<'p>(page: &'p str, name: &str) -> Vec<&'p str> {
    let mut cells = Vec::new();
    let mut place = None;
    for line in page.lines() {
        let Some(row) = line
            .strip_prefix('|')
            .and_then(|line| line.strip_suffix('|'))
        else {
            place = None;
            continue;
        };
        let row: Vec<&str> = row.split('|').map(str::trim).collect();
        match place {
            None => place = Some(row.iter().position(|cell| *cell == name)),
            Some(Some(place)) => cells.push(row[place]),
            Some(None) => {}
        }
    }
    cells
}

fn page() -> String {
    fs::read_to_string(root().join("docs/model.md")).unwrap()
}

#[test]
fn every_test_that_the_model_page_names_exists() {
    let page = page();
    let text = sources(
        &["core", "cli/tests", "tests/tests", "tests/agents/tests"],
        "rs",
    );
    let functions: HashSet<&str> = text
        .split("fn ")
        .skip(1)
        .filter_map(|rest| {
            rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .next()
        })
        .collect();
    let in_javascript = column(&page, "test in JavaScript");
    assert_eq!(
        in_javascript.len(),
        column(&page, "Rust").len(),
        "a table has no column of JavaScript's tests"
    );
    let is_named =
        |cell: &&str| cell.contains("---") || quoted(cell).any(|name| name.contains(' '));
    assert!(
        in_javascript.iter().all(is_named),
        "a row has no test in JavaScript"
    );
    let cells = [column(&page, "test"), in_javascript].concat();
    let names: Vec<&str> = cells.iter().flat_map(|cell| quoted(cell)).collect();
    assert!(
        names.len() > 100,
        "only {} tests were found on the page",
        names.len()
    );
    // Those of JavaScript are sentences.
    let sentences = sources(&["sdk/test"], "ts");
    let exists = |name: &str| {
        let mut parts = name.split('…');
        match () {
            () if name.contains(' ') => parts.all(|part| sentences.contains(part)),
            () if name.contains('…') => functions
                .iter()
                .any(|function| name.split('…').all(|part| function.contains(part))),
            () => functions.contains(name),
        }
    };
    let missing: Vec<&&str> = names.iter().filter(|name| !exists(name)).collect();
    assert!(
        missing.is_empty(),
        "docs/model.md names tests that aren't there: {missing:?}"
    );
}

#[test]
fn every_call_that_the_model_page_names_exists() {
    let page = page();
    for (name, folders, extension) in [
        ("Rust", &["core/model/src", "core/runlog/src"][..], "rs"),
        ("JavaScript", &["sdk/src"][..], "ts"),
    ] {
        let text = sources(folders, extension);
        let known = words(&text);
        let cells = column(&page, name);
        let named: HashSet<&str> = cells
            .iter()
            .flat_map(|cell| quoted(cell))
            .flat_map(words)
            .collect();
        assert!(
            named.len() > 60,
            "only {} names of {name} were found on the page",
            named.len()
        );
        let missing: Vec<&&str> = named
            .iter()
            .filter(|word| !word.is_empty() && !known.contains(**word))
            .collect();
        assert!(
            missing.is_empty(),
            "docs/model.md names in {name} what isn't there: {missing:?}"
        );
    }
}
