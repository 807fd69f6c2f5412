//! More segments than a process may have files open: the store is opened, read, verified and written all the same.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::process::Command;

use runlog_tests::{
    budget::{self, Budget},
    command,
};

const LIMITED: &str = env!("CARGO_BIN_EXE_limited");

/// Runs a program that may have so many files open; what it says when it fails.
fn limited(files: &str, program: &str, arguments: &[&str]) -> Result<(), String> {
    let script = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
    let output = Command::new("sh")
        .args(["-c", &script, program])
        .args(arguments)
        .output()
        .unwrap();
    let said = || {
        format!(
            "{arguments:?}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )
    };
    output.status.success().then_some(()).ok_or_else(said)
}

/// In memory where that can be: a turn of a segment is some flushes.
fn place() -> tempfile::TempDir {
    let on_disk = |_| tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"));
    tempfile::tempdir_in("/dev/shm").or_else(on_disk).unwrap()
}

/// Makes a store of so many segments, and uses it in every way with fewer files open. Each way is tried, whatever came of
/// those before.
fn use_with_few_files(segments: u64, files: u64, budget: &Budget) {
    let folder = place();
    let store = folder.path().join("store");
    let store = store.to_str().unwrap();
    let (records, files) = (segments.to_string(), files.to_string());
    // What is made with as many as the system gives is not what is tried.
    let made = limited("$(ulimit -H -n)", LIMITED, &["make", store, &records]);
    made.unwrap_or_else(|error| panic!("making {segments} segments: {error}"));
    let runlog = command::runlog().to_str().unwrap();
    let tried = [
        limited(&files, runlog, &["--store", store, "stat"]),
        limited(&files, runlog, &["--store", store, "verify"]),
        limited(&files, LIMITED, &["use", store, &records, "10"]),
    ];
    budget.add("segments", segments);
    budget.add("ways", tried.len() as u64);
    let wrong: Vec<_> = tried.into_iter().filter_map(Result::err).collect();
    budget.add("errors", wrong.len() as u64);
    assert!(
        wrong.is_empty(),
        "{segments} segments, {files} files:\n{}",
        wrong.join("\n")
    );
}

/// One process that goes past its limit as it appends.
fn grow_past_the_limit(segments: u64, files: u64, budget: &Budget) {
    let folder = place();
    let store = folder.path().join("store");
    budget.add("segments", segments);
    let grown = limited(
        &files.to_string(),
        LIMITED,
        &["make", store.to_str().unwrap(), &segments.to_string()],
    );
    grown.unwrap_or_else(|error| panic!("{segments} segments, {files} files: {error}"));
}

#[test]
fn store_of_more_segments_than_files_may_be_open_is_used_in_every_way() {
    let budget = budget::of("limits of open files");
    if budget::is_torture() {
        use_with_few_files(1500, 256, &budget);
        use_with_few_files(5000, 1024, &budget);
        // More than the maps that a process may have: 65,530 on Linux.
        use_with_few_files(100_000, 1024, &budget);
    } else {
        use_with_few_files(400, 128, &budget);
    }
}

#[test]
fn store_grows_past_the_files_that_may_be_open() {
    let budget = budget::of("limits while growing");
    if budget::is_torture() {
        grow_past_the_limit(1500, 256, &budget);
    } else {
        grow_past_the_limit(400, 128, &budget);
    }
}
