//! The commands that the README and the guides show are such as `runlog` takes.

#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{fs, path::Path};

use common::Place;

/// The words of a line of a shell, without what is behind `#`, `>` and `|`.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        // Every other part is quoted.
        if index % 2 == 1 {
            words.push(part.to_owned());
            continue;
        }
        let end = part.find(['#', '>', '|']);
        let shown = part[..end.unwrap_or(part.len())].split_whitespace();
        words.extend(shown.map(str::to_owned));
        if end.is_some() {
            break;
        }
    }
    words
}

/// A command that a comment names after `also: `, where it is given with what it takes.
fn also(line: &str) -> Option<String> {
    let (_, also) = line.split_once("also: ")?;
    let takes = |word: &str| word.len() > 1 && word.chars().all(|it| it.is_ascii_uppercase());
    also.split_whitespace()
        .any(takes)
        .then(|| format!("runlog {also}"))
}

#[test]
fn a_command_that_is_shown_has_the_arguments_it_needs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let guides = fs::read_dir(root.join("docs/guides")).unwrap();
    let mut pages: Vec<_> = guides.map(|page| page.unwrap().path()).collect();
    pages.push(root.join("README.md"));
    // No store can be opened or made here, so that none of them does anything, or stays.
    let place = Place::new();
    place.write("runlog-data", "no folder");
    let mut tried = 0;
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        let shown = text.lines().filter(|line| line.starts_with("runlog "));
        let commands = shown.flat_map(|line| [Some(line.to_owned()), also(line)]);
        for line in commands.flatten() {
            let words = words(&line);
            let arguments: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
            let said = place.runlog(&arguments);
            assert_ne!(said.code, 2, "{}: {line}: {}", page.display(), said.err);
            tried += 1;
        }
    }
    assert!(tried > 40, "{tried}");
}
