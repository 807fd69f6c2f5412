//! What is thrown at the commands: closed pipes, names that command terminals, paths that are no text, a store in use.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    process::{Command, Stdio},
};

use common::{Ends, Place, fixture, said};

const RUNLOG: &str = env!("CARGO_BIN_EXE_runlog");

/// Names, texts and reasons that a terminal would obey: as bytes of C0 and C1, and turning the reading direction.
fn record_hostile(place: &Place) -> String {
    let evil = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}";
    let json = serde_json::to_string(evil).unwrap();
    let call = format!(
        r#"{{"id":{json},"type":"function","function":{{"name":{json},"arguments":{json}}}}}"#
    );
    let message = format!(r#"{{"role":"assistant","content":{json},"tool_calls":[{call}]}}"#);
    let said = place.script(
        &[
            "--name",
            &format!("n{evil}"),
            "--title",
            evil,
            "--agent",
            &format!("a{evil}"),
            "--message",
            evil,
        ],
        &[
            "ready",
            &format!(r#"raw:{{"type":"message","message":{message}}}"#),
            &format!(r#"raw:{{"type":{json}}}"#),
            &format!(r#"done:{{"pause_reason":{json},"summary":{json}}}"#),
        ],
    );
    assert_eq!(said.code, 0, "{said:?}");
    assert_safe(&format!("{}{}", said.out, said.err));
    place.expect(0, &["run", "show", "@last", "--json"]).json()[0]["id"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[track_caller]
fn assert_safe(text: &str) {
    let is_obeyed = |c: char| (c.is_control() && !"\n\t".contains(c)) || c == '\u{202e}';
    assert!(!text.contains(is_obeyed), "{text:?}");
}

/// Every command that prints what is recorded.
fn commands(run: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["ls", "--instances"],
        vec!["runs"],
        vec!["run", "show", run],
        vec!["messages", run],
        vec!["tool-calls", run],
        vec!["chats"],
        vec!["chat", "show", "@last"],
        vec!["chat", "messages", "@last"],
        vec!["chat", "requests"],
        vec!["steps", "@last"],
        vec!["resume", "--list"],
        vec!["show", "@last"],
        vec!["show", "--full", "@last"],
        vec!["replay", "@last"],
        vec!["tail"],
        vec!["stat"],
    ]
}

#[test]
fn nothing_recorded_reaches_the_terminal_raw() {
    let place = Place::new();
    let run = record_hostile(&place);
    for command in commands(&run) {
        let said = place.expect(0, &command);
        assert_safe(&format!("{}{}", said.out, said.err));
        assert!(!said.out.is_empty(), "{command:?}");
    }
    // What is echoed of the arguments neither.
    for command in [
        &["run", "show", "\u{1b}[31mx"][..],
        &["show", "\u{1b}[31mx"],
        &["steps", "\u{1b}[31mx"],
        &["chat", "messages", "\u{1b}[31mx"],
        &["chat", "restore", "\u{1b}[31mx"],
        &["flow", "show", "\u{1b}[31mx"],
        &["runs", "--status", "\u{1b}[31mx"],
        &["runs", "--cursor", "\u{1b}[31mx"],
        &["run", "--", "./\u{1b}[31mx"],
        &["import", "\u{1b}[31mx"],
    ] {
        let said = place.runlog(command);
        assert_ne!(said.code, 0, "{command:?}");
        assert_safe(&said.err);
    }
}

#[test]
fn a_reader_that_is_gone_is_no_failure_and_a_full_one_is() {
    let place = Place::new();
    let run = record_hostile(&place);
    for command in commands(&run) {
        let mut child = place.command(&command).spawn().unwrap();
        drop(child.stdout.take());
        let gone = said(child.wait_with_output().unwrap());
        assert_eq!((gone.code, gone.err.as_str()), (0, ""), "{command:?}");
        if let Ok(full) = fs::File::options().write(true).open("/dev/full") {
            let full = said(place.command(&command).stdout(full).output().unwrap());
            assert_eq!(full.code, 1, "{command:?}: {full:?}");
            assert!(
                full.err
                    .contains("no space left on device; free some space on the disk"),
                "{full:?}"
            );
        }
    }
}

/// A damaged store, a file that wasn't imported: `| head` doesn't make it good.
#[test]
fn what_the_exit_code_is_about_is_told_to_a_reader_that_is_gone() {
    let place = Place::new();
    place.write(
        "bad.jsonl",
        "{\"role\":\"user\",\"content\":\"x\"}\nnonsense\n",
    );
    place.write("none.md", "# no transcript\n");
    place.expect(0, &["import", &fixture("openai-messages.jsonl")]);
    let gone = |command: &[&str]| {
        let mut child = place.command(command).spawn().unwrap();
        drop(child.stdout.take());
        said(child.wait_with_output().unwrap())
    };
    assert_eq!(gone(&["import", "bad.jsonl"]).code, 6);
    assert_eq!(gone(&["import", "--format", "openai", "none.md"]).code, 1);
    assert_eq!(gone(&["verify"]).code, 0);
    let segment = place.path("runlog-data/00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    bytes[5_000] ^= 1;
    fs::write(&segment, bytes).unwrap();
    for command in [&["verify"][..], &["verify", "--json"]] {
        assert_eq!(gone(command).code, 5, "{command:?}");
    }
}

#[test]
fn closed_standard_streams_do_no_harm() {
    let place = Place::new();
    let shell = |script: &str| {
        let script = script.replace("runlog ", &format!("'{RUNLOG}' "));
        said(
            Command::new("sh")
                .args(["-c", &script])
                .current_dir(place.path("."))
                .output()
                .unwrap(),
        )
    };
    let scripted = env!("CARGO_BIN_EXE_scripted-agent");
    let agent = format!("runlog run -- '{scripted}' -- ready say:hi ack");
    for streams in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        assert_eq!(shell(&format!("{agent} {streams}")).code, 0, "{streams}");
        assert_eq!(
            shell(&format!("runlog runs {streams}")).code,
            0,
            "{streams}"
        );
    }
    let runs = place
        .expect(0, &["runs", "--status", "completed", "--json"])
        .json();
    assert_eq!(runs[0]["items"].as_array().unwrap().len(), 4);
    assert_eq!(shell("runlog import - <&-").code, 1);
}

#[test]
fn paths_that_are_no_text_are_taken() {
    let place = Place::new();
    let path = |name: &[u8]| place.path(".").join(OsStr::from_bytes(name));
    let runlog = |arguments: &[&OsStr]| {
        let mut command = place.command(&["--store"]);
        said(
            command
                .arg(path(b"st\xff\x1b[31more"))
                .args(arguments)
                .stdin(Stdio::null())
                .output()
                .unwrap(),
        )
    };
    let text = |text: &'static str| OsStr::new(text);
    let file = path(b"chat\xfe\x1b[31m.jsonl");
    fs::copy(fixture("openai-messages.jsonl"), &file).unwrap();
    let script = path(b"ag\xff\x1b[31ment");
    let line = r#"{"type":"message","message":{"role":"user","content":"hi"}}"#;
    fs::write(
        &script,
        format!("#!/bin/sh\n[ -f \"$1\" ] && echo '{line}'\n"),
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&script, mode).unwrap();
    let out = path(b"out\xff");
    for arguments in [
        &[text("import"), file.as_os_str()][..],
        &[
            text("run"),
            text("--"),
            text("sh"),
            script.as_os_str(),
            file.as_os_str(),
        ],
        &[text("export"), text("@last"), text("-o"), out.as_os_str()],
        &[text("stat")],
        &[text("ls")],
        &[text("show"), text("@last")],
    ] {
        let said = runlog(arguments);
        assert_eq!(said.code, 0, "{arguments:?}: {said:?}");
        assert_safe(&format!("{}{}", said.out, said.err));
    }
    assert!(
        fs::read_to_string(out)
            .unwrap()
            .contains(r#""content":"hi""#)
    );
    // What has to be text is told to be none.
    let said = runlog(&[text("show"), OsStr::from_bytes(b"x\xff")]);
    assert!(
        said.code == 2 && said.err.contains("invalid UTF-8"),
        "{said:?}"
    );
}

#[test]
fn a_store_in_use_is_read_and_not_written() {
    let place = Place::new();
    let mut writer = Ends(
        place
            .scripted(&["--json"], &["ready", "say:hello", "ack", "sleep:20000"])
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(writer.0.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("ack") {}
    let mark = place.path("started");
    let mark = mark.to_str().unwrap();
    for command in [
        &["run", "--"][..],
        &["run", "--resume", "@last", "--"],
        &["run", "--overwrite", "@last", "--"],
    ] {
        let said = place.expect(4, &[command, &["touch", mark]].concat());
        assert!(
            said.err.contains("is open for writing by another")
                && said
                    .err
                    .ends_with("commands that only read work meanwhile\n"),
            "{said:?}"
        );
    }
    assert!(
        !place.path("started").exists(),
        "no program was started for it"
    );
    let shown = place.expect(0, &["run", "show", "@last"]).out;
    assert!(shown.contains("running"), "{shown}");
    assert!(
        place
            .expect(0, &["messages", "@last"])
            .out
            .contains("hello")
    );
}

#[test]
fn a_cursor_of_another_command_or_filter_is_told() {
    let place = Place::new();
    for _ in 0..2 {
        place.script(&[], &["say:hello", "raw:{\"type\":\"message\",\"message\":{\"role\":\"assistant\",\"tool_calls\":[{\"id\":\"c1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"id\":\"c2\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}}", "done:{\"pause_reason\":\"waits\"}"]);
    }
    let cursor = |command: &[&str]| {
        let page = place
            .expect(0, &[command, &["--limit", "1", "--json"]].concat())
            .json();
        page[0]["next"]
            .as_str()
            .unwrap_or_else(|| panic!("{command:?}: {page:?}"))
            .to_owned()
    };
    let lists: [&[&str]; 5] = [
        &["runs"],
        &["runs", "--status", "paused"],
        &["messages", "@last"],
        &["tool-calls", "@last"],
        &["tool-calls", "@last", "--status", "pending"],
    ];
    for from in lists {
        let next = cursor(from);
        for to in lists {
            let said = place.runlog(&[to, &["--cursor", &next]].concat());
            assert_eq!(
                said.code,
                if from == to { 0 } else { 2 },
                "{from:?} to {to:?}: {said:?}"
            );
            assert!(
                from == to || said.err.contains("the cursor is that of"),
                "{said:?}"
            );
        }
    }
    // The paused runs are what `resume --list` pages through.
    place.expect(
        0,
        &[
            "resume",
            "--list",
            "--cursor",
            &cursor(&["resume", "--list"]),
        ],
    );
    place.expect(2, &["resume", "--list", "--cursor", &cursor(&["runs"])]);
}

#[test]
fn a_line_without_an_end_is_dropped_and_told() {
    let place = Place::new();
    let mut long = place
        .command(&["import", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = long.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        let piece = vec![b'x'; 1 << 20];
        let mut written = 0;
        // The reader may be gone by then.
        while written < 70 && std::io::Write::write_all(&mut stdin, &piece).is_ok() {
            written += 1;
        }
    });
    let mut err = String::new();
    long.stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    writer.join().unwrap();
    assert_eq!(long.wait().unwrap().code(), Some(1), "{err}");
    assert!(
        err.contains("the line is longer than 67108864 bytes") && err.len() < 1000,
        "{err}"
    );
}

#[test]
fn a_damaged_event_of_a_list_ends_it_until_it_is_repaired() {
    let place = Place::new();
    let named = ["--name", "first", "--title", "the first of them"];
    assert_eq!(place.script(&named, &["ready", "done:{}"]).code, 0);
    assert_eq!(
        place
            .script(&["--name", "second"], &["ready", "done:{}"])
            .code,
        0
    );
    let path = place.path("runlog-data").join("00000001.seg");
    let mut bytes = fs::read(&path).unwrap();
    // In the entry that it was made by; its title stands in another.
    let name = b"\"name\":\"first\"";
    let found = bytes.windows(name.len()).position(|it| it == name);
    bytes[found.unwrap() + 8] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let said = place.expect(5, &["export", "--all", "--skip-damaged"]);
    assert!(
        said.err.contains("lists, which `runlog verify --repair`"),
        "{said:?}"
    );
    let said = place.expect(5, &["verify"]);
    assert!(said.out.contains("--repair"), "{said:?}");
    let said = place.expect(5, &["verify", "--repair"]);
    let told = "list of sessions: goes on without event 1, which is lost";
    assert!(
        said.out.contains(told) && said.out.contains("lists go on"),
        "{said:?}"
    );
    let listed = place.expect(0, &["ls"]);
    // It has lost its name, and when it was made.
    let lost = listed
        .out
        .lines()
        .find(|line| line.ends_with("the first of them"));
    assert!(
        lost.is_some_and(|line| line.contains(" - ") && !line.contains("1970")),
        "{listed:?}"
    );
    assert!(listed.out.contains("second"), "{listed:?}");
    let runs = place.expect(0, &["runs", "--json"]).json().remove(0);
    assert_eq!(runs["items"].as_array().unwrap().len(), 2, "{runs}");
    // It is written to again, and exported.
    assert_eq!(
        place
            .script(&["--name", "first"], &["ready", "done:{}"])
            .code,
        0
    );
    place.expect(0, &["export", "--all", "-o", "all.jsonl"]);
    assert!(
        !place
            .expect(5, &["verify", "--repair"])
            .out
            .contains("goes on")
    );
}

#[test]
fn a_pack_whose_index_is_damaged_is_told_with_what_can_be_done() {
    let place = Place::new();
    let script = ["ready", "say:a thing of the first", "done:{}"];
    assert_eq!(place.script(&["--name", "first"], &script).code, 0);
    place.expect(0, &["compact"]);
    assert_eq!(
        place
            .script(&["--name", "second"], &["ready", "done:{}"])
            .code,
        0
    );
    let folder = place.path("runlog-data");
    let pack = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "pack"))
        .unwrap();
    let sound = fs::read(&pack).unwrap();
    let mut bytes = sound.clone();
    // The index is at the end, before the trailer and the table of blocks.
    let at = bytes.len() - 200;
    bytes[at] ^= 1;
    fs::write(&pack, &bytes).unwrap();
    // Where the records are whole, they tell what was in it.
    assert_eq!(place.runlog(&["ls"]).code, 5);
    let said = place.expect(5, &["verify"]);
    assert!(
        said.out.contains("its records tell what was in it") && said.out.contains("--repair"),
        "{said:?}"
    );
    let repaired = place.expect(0, &["verify", "--repair"]);
    assert!(
        repaired.out.contains("wrote its index again"),
        "{repaired:?}"
    );
    assert_eq!(fs::read(&pack).unwrap(), sound);
    assert!(place.expect(0, &["ls"]).out.contains("first"));
    // Where one of them is damaged, too, they don't.
    bytes[4096 + 40] ^= 1;
    fs::write(&pack, &bytes).unwrap();
    let checkpoint = folder.join("CHECKPOINT");
    let saved = fs::read(&checkpoint).unwrap();
    for has_checkpoint in [false, true] {
        if has_checkpoint {
            fs::write(&checkpoint, &saved).unwrap();
        } else {
            fs::remove_file(&checkpoint).unwrap();
        }
        let listed = place.runlog(&["ls"]);
        assert!(
            listed.code == 5 && (has_checkpoint || listed.err.contains("move it elsewhere")),
            "{listed:?}"
        );
        let said = place.expect(5, &["verify"]);
        let name = pack.file_name().unwrap().to_str().unwrap();
        let advice = format!("restore {name} from a copy; or move it elsewhere and repair");
        assert!(
            said.out.contains(&advice) && !said.out.contains("verify --repair` save"),
            "{said:?}"
        );
        let refused = place.expect(5, &["verify", "--repair"]);
        assert!(refused.err.contains("Nothing was changed"), "{refused:?}");
    }
    assert_eq!(fs::read(&checkpoint).unwrap(), saved);
    assert_eq!(fs::read(&pack).unwrap(), bytes);
    // As the advice says.
    fs::rename(&pack, place.path("elsewhere.pack")).unwrap();
    let repaired = place.expect(5, &["verify", "--repair"]);
    assert!(
        repaired.out.contains("what is lost stays lost"),
        "{repaired:?}"
    );
    let listed = place.expect(0, &["ls"]);
    assert!(listed.out.contains("second"), "{listed:?}");
    assert_eq!(
        place
            .script(&["--name", "third"], &["ready", "done:{}"])
            .code,
        0
    );
}
