//! The demo holds what it promises, and what it ends with works.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::{Place, said};

#[test]
fn every_check_holds_in_one_screen() {
    let place = Place::new();
    let told = place.expect(0, &["demo", "--keep", "kept"]).out;
    assert!(told.lines().count() <= 40, "{told}");
    let own = told.lines().filter(|line| !line.contains("--store"));
    assert!(
        own.into_iter().all(|line| line.chars().count() <= 80),
        "{told}"
    );
    assert_eq!(told.matches("ok:").count(), 5, "{told}");
    assert!(told.contains("0 lost"), "{told}");

    // The commands at the end work as they are, in a shell.
    let commands: Vec<&str> = told
        .lines()
        .filter(|line| line.starts_with("  ") && line.contains("--store kept"))
        .collect();
    assert!(commands.len() >= 4, "{told}");
    for command in commands {
        let command = command
            .trim()
            .replace("less", "cat")
            .replace("--speed 2", "--speed 200");
        let output = place.command(&[]).get_current_dir().map(|folder| {
            std::process::Command::new("sh")
                .args(["-c", &format!("set -e; {command}")])
                .current_dir(folder)
                .output()
                .unwrap()
        });
        let shown = said(output.unwrap());
        assert_eq!(shown.code, 0, "{command}: {shown:?}");
        assert!(
            !shown.out.is_empty() && shown.err.is_empty(),
            "{command}: {shown:?}"
        );
    }
    // It never works in a folder that has something in it.
    place.expect(4, &["demo", "--keep", "kept"]);
}

#[test]
fn a_store_that_is_named_is_refused_and_the_place_for_one_is_told() {
    let place = Place::new();
    for arguments in [["--store", "mine", "demo"], ["demo", "--store", "mine"]] {
        let refused = place.expect(2, &arguments);
        assert!(refused.err.contains("`--keep DIR`"), "{refused:?}");
        assert!(!place.path("mine").exists());
    }
    // The environment names the store of other commands.
    let mut command = place.command(&["demo", "--keep", "kept"]);
    let done = said(command.env("RUNLOG_STORE", "mine").output().unwrap());
    assert_eq!(done.code, 0, "{done:?}");
}

#[test]
fn what_was_measured_is_there_as_json() {
    let place = Place::new();
    let report = place
        .expect(0, &["demo", "--json", "--keep", "kept"])
        .json()
        .remove(0);
    assert_eq!(report["ok"], true);
    assert_eq!(report["lost"], 0);
    assert!(report["events"].as_u64() >= Some(60));
    assert!(report["acknowledged"].as_u64() >= report["events"].as_u64().map(|events| events / 2));
    assert!(report["open_seconds"].as_f64() > Some(0.0));
    // What told the agent to go on is there too.
    assert_eq!(
        report["original_events"].as_u64(),
        report["events"].as_u64()
    );
    // Both halves are runs, the second going on from the first.
    let runs = place
        .expect(0, &["--store", "kept", "runs", "--json"])
        .json()
        .remove(0);
    let (second, first) = (&runs["items"][0], &runs["items"][1]);
    assert_eq!(
        (&first["status"], &second["status"]),
        (&"paused".into(), &"completed".into())
    );
    assert_eq!(second["resumed_from"], first["id"]);
}
