//! Readers in other processes, beside a writer that turns to a new segment all the time: a sound store is never
//! refused, never told as damaged, and never shown shorter than what was acknowledged.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use runlog_tests::{
    budget::{self, Budget},
    command,
};

/// How long one round reads, and after how many segments its writer ends in any case.
const ROUND: Duration = Duration::from_millis(2500);
const SEGMENTS_MAX: u64 = 600;

/// A folder with a writer at work in it, which is killed at the end.
struct Scene {
    folder: tempfile::TempDir,
    writer: Child,
}

impl Scene {
    fn new(prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        prepare(&folder.path().join("store"));
        let mut writer = turner("write", folder.path(), SEGMENTS_MAX);
        let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "open");
        Self { folder, writer }
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = self.writer.kill();
        let _ = self.writer.wait();
    }
}

fn turner(mode: &str, folder: &Path, amount: u64) -> Child {
    Command::new(env!("CARGO_BIN_EXE_turner"))
        .arg(mode)
        .args([folder.join("store"), folder.join("tally")])
        .arg(amount.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Reads beside a writer in each of these ways at once, round after round; the errors there were.
fn read_beside_a_writer(budget: &Budget, modes: &[&str]) -> Vec<String> {
    let mut errors = Vec::new();
    loop {
        let scene = Scene::new(|_| {});
        let millis = u64::try_from(ROUND.as_millis()).unwrap();
        let readers: Vec<_> = modes
            .iter()
            .map(|mode| (mode, turner(mode, scene.folder.path(), millis)))
            .collect();
        for (mode, reader) in readers {
            let output = reader.wait_with_output().unwrap();
            assert!(output.status.success(), "{mode}: {}", output.status);
            for line in String::from_utf8(output.stdout).unwrap().lines() {
                match line.split_once(' ').unwrap() {
                    ("error", error) => errors.push(format!("{mode}: {error}")),
                    ("rounds", count) => {
                        budget.add(&format!("rounds of {mode}"), count.parse().unwrap())
                    }
                    ("seen", count) => {
                        budget.add(&format!("records seen by {mode}"), count.parse().unwrap())
                    }
                    (word, _) => panic!("{word}"),
                }
            }
        }
        budget.add("errors", 0);
        budget.add("segments", segments(&scene.store()));
        if !budget.goes_on() {
            break;
        }
    }
    budget.add("errors", errors.len() as u64);
    errors
}

fn segments(store: &Path) -> u64 {
    let names = std::fs::read_dir(store)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".seg"))
        .count() as u64
}

fn assert_none(errors: &[String]) {
    let told: Vec<_> = errors.iter().take(10).map(String::as_str).collect();
    assert!(
        errors.is_empty(),
        "{} errors beside a sound writer:\n{}",
        errors.len(),
        told.join("\n")
    );
}

#[test]
fn store_opens_and_verifies_while_segments_turn() {
    assert_none(&read_beside_a_writer(
        &budget::of("turning open"),
        &["open", "verify"],
    ));
}

#[test]
fn reader_follows_while_segments_turn() {
    assert_none(&read_beside_a_writer(
        &budget::of("turning follow"),
        &["follow", "list"],
    ));
}

#[test]
fn commands_read_a_store_while_segments_turn() {
    let budget = budget::of("turning commands");
    let runlog = command::runlog();
    let run = |store: &Path, arguments: &[&str]| {
        Command::new(runlog)
            .arg("--store")
            .arg(store)
            .args(arguments)
            .output()
            .unwrap()
    };
    let chats = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../cli/tests/fixtures/openai-messages.jsonl"
    );
    let mut errors = Vec::new();
    loop {
        let scene = Scene::new(|store| {
            let imported = run(store, &["import", chats]);
            assert!(
                imported.status.success(),
                "{}",
                String::from_utf8_lossy(&imported.stderr)
            );
        });
        let since = Instant::now();
        while since.elapsed() < ROUND {
            for arguments in [&["verify"][..], &["stat"], &["ls"]] {
                let output = run(&scene.store(), arguments);
                if !output.status.success() {
                    let (said, told) = (
                        String::from_utf8_lossy(&output.stdout),
                        String::from_utf8_lossy(&output.stderr),
                    );
                    errors.push(format!("{arguments:?}: {}: {said}{told}", output.status));
                }
                budget.add("commands", 1);
            }
        }
        if !budget.goes_on() {
            break;
        }
    }
    budget.add("errors", errors.len() as u64);
    assert_none(&errors);
}
