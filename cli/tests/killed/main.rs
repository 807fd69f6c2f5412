//! Every writing command, killed before each of its writes and then run again: what is left in the end is what the
//! command leaves that nobody killed, and what it says of it is true.
//!
//! A kill is SIGKILL as the process enters a call that changes a file, so that each state of the folder that a killed
//! command can leave is met, one after the other, without a word of this in the binary.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod commands;
#[path = "../common/mod.rs"]
mod common;
mod imports;
mod state;
mod tracer;

use std::{fs, path::Path};

use common::{Place, Said};
use runlog::blocking::Store;
use state::{STORE, State};

/// Which writes a command is killed before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// Each of them.
    All,
    /// Those to the log, and some of the others; each of them when tortured.
    OfLog,
    /// One of them in so many; each of them when tortured.
    Few,
}

/// What a command left that was killed and run again.
struct Again<'a> {
    /// Which write it was killed before.
    at: String,
    place: &'a Place,
    /// What it had said when it was killed, and what it had left.
    killed_said: &'a Said,
    before: State,
    /// What it said the second time.
    said: Said,
    after: State,
    /// What it leaves and says when nobody kills it.
    whole: &'a State,
    whole_said: &'a Said,
}

/// Runs a command in a place that `arrange` made, killed before one of its writes, and then again; and that for each
/// of its writes.
fn killed_before_each_write(
    writes: Writes,
    arrange: impl Fn(&Place),
    arguments: &[&str],
    judge: impl Fn(&Again<'_>),
) {
    let start = Place::in_memory();
    arrange(&start);
    let unkilled = copy(&start);
    let traced = tracer::run(&unkilled.command(arguments), &unkilled.path(""), usize::MAX);
    assert_eq!(traced.said.code, 0, "{:?}", traced.said);
    assert!(!traced.writes.is_empty(), "it wrote nothing");
    let whole = State::of(&unkilled);
    let is_tortured = std::env::var_os("RUNLOG_TORTURE").is_some();
    // Where a write and its flush aren't one call, all that is written to a segment is looked at.
    let log = if traced
        .writes
        .iter()
        .any(|it| it.starts_with(tracer::DURABLE))
    {
        tracer::DURABLE
    } else {
        "write"
    };
    let mut kills = 0;
    for (index, write) in traced.writes.iter().enumerate() {
        // The last of them is met before and after it.
        let is_log = write.starts_with(log)
            || traced.writes.iter().rposition(|it| it.starts_with(log)) == index.checked_sub(1);
        let is_looked_at = match writes {
            _ if is_tortured => true,
            Writes::All => true,
            Writes::OfLog => is_log || index % SKIPPED == 0,
            Writes::Few => index % SKIPPED == 0,
        };
        if !is_looked_at {
            continue;
        }
        let place = copy(&start);
        let killed = tracer::run(&place.command(arguments), &place.path(""), index + 1);
        // Two threads that write may do so in another order than before.
        if !killed.is_killed {
            continue;
        }
        kills += 1;
        // As the next writer finds it: what wasn't acknowledged yet may be there all the same.
        let found = copy(&place);
        if found.path(STORE).join("RUNLOG").exists() {
            // A damaged one waits to be repaired.
            drop(Store::open(found.path(STORE)));
        }
        let before = State::of(&found);
        let said = place.runlog(arguments);
        let at = format!(
            "killed before write {} ({write}), then again: {said:#?}",
            index + 1
        );
        let after = State::of(&place);
        let (whole, whole_said, killed_said) = (&whole, &traced.said, &killed.said);
        judge(&Again {
            at,
            place: &place,
            killed_said,
            before,
            said,
            after,
            whole,
            whole_said,
        });
        let verified = place.runlog(&["verify"]);
        assert!(
            verified.code == 0 || !place.path(STORE).exists(),
            "{verified:?}"
        );
    }
    println!(
        "runlog {arguments:?}: killed before {kills} of {} writes",
        traced.writes.len()
    );
}

/// Of the writes beside the log, one in so many is looked at in the test command.
const SKIPPED: usize = 5;

/// The second run completed what the first had begun.
fn is_completed(again: &Again<'_>) {
    assert_eq!(again.said.code, 0, "{}", again.at);
    assert_same(again);
}

fn assert_same(again: &Again<'_>) {
    assert_eq!(names(&again.after), names(again.whole), "{}", again.at);
    for ((name, after), (_, whole)) in again.after.sessions.iter().zip(&again.whole.sessions) {
        let differs = after
            .lines()
            .zip(whole.lines())
            .find(|(after, whole)| after != whole);
        assert!(
            after == whole,
            "{name}: {differs:?} or the number of lines, {}",
            again.at
        );
    }
    assert_eq!(again.after, *again.whole, "{}", again.at);
}

fn names(state: &State) -> Vec<&str> {
    state
        .sessions
        .iter()
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Another place with the same files in it.
fn copy(place: &Place) -> Place {
    let copy = Place::in_memory();
    copy_folder(&place.path(""), &copy.path(""));
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (
            entry.as_ref().unwrap(),
            to.join(entry.as_ref().unwrap().file_name()),
        );
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&to).unwrap();
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
