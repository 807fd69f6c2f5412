//! The demo holds what it promises, and what it ends with works.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::Command,
};

use common::{Ends, Place, said};

/// A program that does nothing, in the place of a browser; gives the PATH in which it is found.
fn browser(place: &Place) -> String {
    fs::create_dir_all(place.path("bin")).unwrap();
    for name in ["xdg-open", "gio", "gnome-open", "kde-open", "wslview"] {
        let path = place.write(&format!("bin/{name}"), "#!/bin/sh\n");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let own = std::env::var("PATH").unwrap();
    format!("{}:{own}", place.path("bin").display())
}

/// Runs a command that serves until it is told to end, and ends it once it has said where.
fn served(place: &Place, command: &str) -> String {
    // It may not hold the port that a server of somebody else's has.
    let command = command.replace("--open", "--open --listen 127.0.0.1:0");
    let child = Command::new("sh")
        .args(["-c", &format!("exec {command}")])
        .current_dir(place.path(""))
        .env("PATH", browser(place))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Ends(child);
    let mut url = String::new();
    BufReader::new(child.0.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let id = child.0.id().to_string();
    Command::new("kill").arg(&id).status().unwrap();
    assert!(child.0.wait().unwrap().success(), "{command}");
    url
}

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
    let serves = |command: &&str| command.contains(" serve ");
    let server: Vec<&&str> = commands.iter().filter(|it| serves(it)).collect();
    assert_eq!(
        server.len(),
        usize::from(cfg!(feature = "viewer")),
        "{told}"
    );
    for command in server {
        let url = served(&place, command.trim());
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    }
    for command in commands.iter().filter(|it| !serves(it)) {
        let command = command
            .trim()
            .replace("less", "cat")
            .replace("--speed 2", "--speed 200");
        let output = place.command(&[]).get_current_dir().map(|folder| {
            Command::new("sh")
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
