//! Every writing command, killed before each of its writes and then run again: what is left in the end is what the
//! command leaves that nobody killed, and what it says of it is true.
//!
//! A kill is SIGKILL as the process enters a call that changes a file, so that each state of the folder that a killed
//! command can leave is met, one after the other, without a word of this in the binary.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

#[path = "../common/mod.rs"]
mod common;
mod imports;
mod state;
mod tracer;

use std::{fs, path::Path};

use common::{Place, Said};
use state::{STORE, State};

/// More writes than any of the commands does.
const WRITES_MAX: u64 = 2_000;

/// What a command left that was killed and run again.
struct Again<'a> {
    /// Which write it was killed before.
    at: String,
    place: &'a Place,
    /// What it had left when it was killed.
    before: State,
    /// What it said the second time.
    said: Said,
    after: State,
    /// What it leaves and says when nobody kills it.
    whole: &'a State,
    whole_said: &'a Said,
}

/// Runs a command in a place that `arrange` made, killed before its first, second, … write until it does no more of
/// them; and each time again.
fn killed_before_each_write(arrange: impl Fn(&Place), arguments: &[&str], judge: impl Fn(&Again<'_>)) {
    let start = Place::new();
    arrange(&start);
    let unkilled = copy(&start);
    let whole_said = unkilled.expect(0, arguments);
    let whole = State::of(&unkilled);
    for write in 1..WRITES_MAX {
        let place = copy(&start);
        let traced = tracer::run(&place.command(arguments), &place.path(""), write);
        let Some(at) = traced.killed_before else {
            assert_eq!(traced.said.code, 0, "{:?}", traced.said);
            assert!(write > 1, "it wrote nothing");
            println!("runlog {arguments:?}: killed before each of {} writes", write - 1);
            return;
        };
        let before = State::of(&place);
        let said = place.runlog(arguments);
        let after = State::of(&place);
        let at = format!("killed before write {write} ({at}), then again: {said:#?}");
        judge(&Again { at, place: &place, before, said, after, whole: &whole, whole_said: &whole_said });
        let verified = place.runlog(&["verify"]);
        assert!(verified.code == 0 || !place.path(STORE).exists(), "{verified:?}");
    }
    panic!("more than {WRITES_MAX} writes");
}

/// The second run completed what the first had begun.
fn is_completed(again: &Again<'_>) {
    assert_eq!(again.said.code, 0, "{}", again.at);
    assert_same(again);
}

fn assert_same(again: &Again<'_>) {
    assert_eq!(again.after.sessions.len(), again.whole.sessions.len(), "{}", again.at);
    for (after, whole) in again.after.sessions.iter().zip(&again.whole.sessions) {
        assert!(after == whole, "{}\nshould be {}\nbut is    {}", again.at, whole.1, after.1);
    }
    assert_eq!(again.after, *again.whole, "{}", again.at);
}

/// Another place with the same files in it.
fn copy(place: &Place) -> Place {
    let copy = Place::new();
    copy_folder(&place.path(""), &copy.path(""));
    copy
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.as_ref().unwrap(), to.join(entry.as_ref().unwrap().file_name()));
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir(&to).unwrap();
            copy_folder(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
