//! The commands that read and change a store, through the real binary.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::{
    fs,
    io::{BufRead, BufReader, Read},
    process::Stdio,
    time::{Duration, Instant},
};

use common::{Ends, Place, fixture, said};
use runlog::{
    NewMessage, NewSession,
    blocking::Store,
    chats::{Chat, ChatMessage, ChatRole},
};

#[test]
fn every_fixture_is_imported_and_comes_back_byte_for_byte() {
    for (file, format) in [
        ("openai-runs.jsonl", "openai"),
        ("openai-messages.jsonl", "openai"),
        ("claude-code.jsonl", "claude-code"),
        ("swe-agent.traj", "swe-agent"),
    ] {
        let place = Place::new();
        place.expect(0, &["import", &fixture(file)]);
        let sessions = place.expect(0, &["ls", "--json"]).json();
        let ids: Vec<&str> = sessions
            .iter()
            .rev()
            .map(|session| session["id"].as_str().unwrap())
            .collect();
        let mut arguments = vec!["export", "--format", format];
        arguments.extend(&ids);
        let mut back = place.expect(0, &arguments).out;
        let source = fs::read_to_string(fixture(file)).unwrap();
        if file == "openai-messages.jsonl" {
            // Messages a line each come back as one run.
            let messages: Vec<&str> = source.lines().collect();
            assert_eq!(
                back.trim_end(),
                format!("{{\"messages\": [{}]}}", messages.join(", "))
            );
            continue;
        }
        if file == "claude-code.jsonl" {
            // The summary at the start of the file belongs to the first session.
            back = back.trim_end().to_owned();
        }
        assert_eq!(back.trim_end(), source.trim_end(), "{file}");
    }
}

#[test]
fn what_the_readme_imports_is_there_and_can_be_read_as_it_says() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let commands = readme
        .lines()
        .skip_while(|line| !line.starts_with("runlog import "))
        .take_while(|line| !line.starts_with("runlog run "));
    let place = Place::new();
    let store = place.path("runlog-data").display().to_string();
    let mut told = String::new();
    for line in commands {
        let words = line.split('#').next().unwrap().split_whitespace().skip(1);
        let arguments: Vec<&str> = words.chain(["--store", &store]).collect();
        let said = said(
            place
                .command(&arguments)
                .current_dir(&root)
                .output()
                .unwrap(),
        );
        assert_eq!(said.code, 0, "{line}: {said:?}");
        assert!(
            !said.out.is_empty() && said.err.is_empty(),
            "{line}: {said:?}"
        );
        told += &said.out;
    }
    for expected in [
        "openai, 1 session, 15 messages, 5 tool calls",
        "chat",
        "The parser drops the last line",
        "test_last_line",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[test]
fn an_export_imported_elsewhere_and_exported_again_is_equal() {
    let (place, other) = (Place::new(), Place::new());
    let files = [
        "openai-runs.jsonl",
        "claude-code.jsonl",
        "claude-code-odd.jsonl",
        "swe-agent.traj",
    ]
    .map(fixture);
    for file in &files {
        place.runlog(&["import", file]);
    }
    let sessions = place.expect(0, &["ls", "--json"]).json();
    let ids: Vec<&str> = sessions
        .iter()
        .map(|session| session["id"].as_str().unwrap())
        .collect();
    assert!(ids.len() >= 5);
    for format in ["runlog", "events"] {
        let other = Place::new();
        let file = format!("{format}.jsonl");
        place.expect(
            0,
            &[&["export", "--format", format, "-o", &file], &ids[..]].concat(),
        );
        other.expect(
            0,
            &["import", "--strict", place.path(&file).to_str().unwrap()],
        );
        let events = [&["export", "--format", "events"], &ids[..]].concat();
        assert_eq!(
            other.expect(0, &events).out,
            place.expect(0, &events).out,
            "{format}"
        );
    }
    let mut arguments = vec!["export", "-o", "all.jsonl"];
    arguments.extend(&ids);
    place.expect(0, &arguments);
    let all = place.path("all.jsonl");
    other.expect(0, &["import", "--strict", all.to_str().unwrap()]);
    other.expect(0, &arguments);
    // A second time there is nothing to do, and an export doesn't overwrite a file.
    let again = other
        .expect(0, &["import", "--json", all.to_str().unwrap()])
        .json();
    assert_eq!(again[0]["messages"], 0);
    assert!(
        again[0]["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .all(|session| session["outcome"] == "unchanged")
    );
    assert!(other.expect(4, &arguments).err.contains("is there already"));
}

#[test]
fn a_file_that_grew_adds_what_is_new_and_another_one_gets_a_name_beside() {
    let place = Place::new();
    let source = fs::read_to_string(fixture("openai-messages.jsonl")).unwrap();
    let lines: Vec<&str> = source.lines().collect();
    place.write("chat.jsonl", lines[..4].join("\n"));
    place.expect(0, &["import", "chat.jsonl"]);
    place.write("chat.jsonl", &source);
    let grown = place.expect(0, &["import", "--json", "chat.jsonl"]).json();
    assert_eq!(grown[0]["skipped"], 4);
    assert_eq!(grown[0]["messages"], 6);
    assert_eq!(grown[0]["sessions"][0]["outcome"], "continued");
    let whole = format!("{{\"messages\": [{}]}}\n", lines.join(", "));
    assert_eq!(
        place
            .expect(0, &["export", "--format", "openai", "chat"])
            .out,
        whole
    );

    place.write(
        "chat.jsonl",
        r#"{"role":"user","content":"something else"}"#,
    );
    let other = place.expect(0, &["import", "--json", "chat.jsonl"]).json();
    assert_eq!(other[0]["sessions"][0]["name"], "chat~2");
    let again = place.expect(0, &["import", "--json", "chat.jsonl"]).json();
    assert_eq!(again[0]["sessions"][0]["outcome"], "unchanged");
    assert_eq!(
        place
            .expect(0, &["export", "--format", "openai", "chat"])
            .out,
        whole
    );
}

#[test]
fn an_array_of_messages_is_called_after_its_file_and_imported_once() {
    let place = Place::new();
    place.write(
        "talk.json",
        r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#,
    );
    let outcomes = ["created", "unchanged"].map(|outcome| {
        let report = place
            .expect(0, &["import", "--json", "talk.json"])
            .json()
            .remove(0);
        assert_eq!(report["sessions"][0]["outcome"], outcome);
        report["sessions"][0]["name"].clone()
    });
    assert_eq!(outcomes, ["talk", "talk"]);
    assert_eq!(place.expect(0, &["ls", "--json"]).json().len(), 1);
}

#[test]
fn an_import_that_broke_off_is_completed_and_it_is_said_so() {
    let place = Place::new();
    // So long that a part of it is written before the rest is read.
    let said = "x".repeat(400);
    let line = |number: u32| format!("{{\"role\":\"user\",\"content\":\"{number} {said}\"}}\n");
    let lines = |numbers: std::ops::Range<u32>| numbers.map(line).collect::<String>();
    place.write("chat.jsonl", lines(0..1200) + "no JSON\n");
    place.expect(1, &["import", "--strict", "chat.jsonl"]);
    place.write("chat.jsonl", lines(0..1300));
    let said = place.expect(0, &["import", "chat.jsonl"]).out;
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains(
            "messages there already; completed 1 session that an interrupted import had begun"
        ),
        "{said}"
    );
    // Once only; and a file that grew later is no interrupted import.
    let again = place.expect(0, &["import", "chat.jsonl"]).out;
    assert!(
        again.contains("1,300 messages there already") && !again.contains("completed"),
        "{again}"
    );
    place.write("chat.jsonl", lines(0..1400));
    assert_eq!(
        place.expect(0, &["import", "--json", "chat.jsonl"]).json()[0]["sessions"][0]["outcome"],
        "continued"
    );
}

#[test]
fn a_malformed_line_is_told_and_the_rest_is_imported() {
    let place = Place::new();
    let said = place.expect(6, &["import", &fixture("claude-code-odd.jsonl")]);
    assert!(
        said.err.contains("claude-code-odd.jsonl:9:"),
        "{}",
        said.err
    );
    assert!(said.err.contains("the JSON breaks off"), "{}", said.err);
    assert!(said.out.contains("3 messages"), "{}", said.out);
    assert!(said.out.contains("6 other lines"), "{}", said.out);

    let strict = Place::new();
    let said = strict.expect(
        1,
        &["import", "--strict", &fixture("claude-code-odd.jsonl")],
    );
    assert!(said.err.contains("line 2, column 1"), "{}", said.err);

    place.write("csv", "name,role\nann,user\n");
    let said = place.expect(1, &["import", "csv"]);
    assert!(
        said.err.starts_with("error: csv: can't tell its format"),
        "{}",
        said.err
    );
    // The other files of the same command are imported all the same.
    let said = place.expect(6, &["import", "csv", &fixture("openai-runs.jsonl")]);
    assert!(said.out.contains("2 sessions"), "{}", said.out);
}

#[test]
fn what_can_not_be_imported_leaves_no_store_behind() {
    let place = Place::new();
    place.write(
        "package.json",
        "{\n  \"name\": \"x\",\n  \"version\": \"1\"\n}\n",
    );
    place.write("packed.gz", b"\x1f\x8b\x08\x00\x00");
    let said = place.expect(1, &["import", "package.json"]);
    assert!(
        said.err
            .contains("found text that begins with `{ \"name\": \"x\", \"version\": \"1\" }`"),
        "{}",
        said.err
    );
    let said = place.expect(1, &["import", "packed.gz", "package.json"]);
    assert!(said.err.contains("compressed by gzip"), "{}", said.err);
    assert!(!place.path("runlog-data").exists());
    // With one that can be, there is a store, and the others are told of.
    let runs = fixture("openai-runs.jsonl");
    let said = place.expect(6, &["import", "packed.gz", &runs]);
    assert!(said.err.contains("compressed by gzip"), "{}", said.err);
    assert!(said.out.contains("2 sessions"), "{}", said.out);
}

#[test]
fn a_transcript_comes_from_standard_input_too() {
    let place = Place::new();
    let said = place.with_input(
        &["import", "-"],
        &fs::read(fixture("openai-runs.jsonl")).unwrap(),
    );
    assert_eq!(said.code, 0, "{said:?}");
    assert!(place.expect(0, &["ls"]).out.contains("stdin/1"));
}

#[test]
fn a_conversation_is_shown_with_its_tool_calls() {
    let place = Place::new();
    place.expect(
        0,
        &[
            "import",
            &fixture("openai-runs.jsonl"),
            &fixture("claude-code.jsonl"),
        ],
    );
    let shown = place.expect(0, &["show", "openai-runs/0"]).out;
    for expected in [
        "openai-runs/0",
        "→ find_loan  call_a1",
        "title: The Waves",
        "← call_a3",
        "Error: no address",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colours where nobody looks");
    let shown = place
        .expect(0, &["show", "5b0f2c9e-0000-4000-8000-000000000001"])
        .out;
    for expected in [
        "── searcher ",
        "── tester ",
        "→ Grep  toolu_3",
        "← toolu_2  failed",
        "· {\"type\":\"summary\"",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    let json = place.expect(0, &["show", "--json", "openai-runs/0"]).json();
    assert_eq!(json[0]["session"]["name"], "openai-runs/0");
    assert_eq!(json.len(), 1 + 13);
    assert_eq!(json[4]["event_type"], "tool_call");
    assert_eq!(
        json[4]["content"]["arguments"],
        "{\"title\":  \"The Waves\", \"year\": 1931}"
    );
}

#[test]
fn recorded_text_can_not_command_the_terminal() {
    let place = Place::new();
    place.write(
        "evil.jsonl",
        r#"{"role":"user","content":"\u001b]0;owned\u0007\u001b[2Jhello"}"#,
    );
    place.expect(0, &["import", "evil.jsonl"]);
    for command in [
        &["show", "evil"][..],
        &["replay", "evil"],
        &["tail"],
        &["ls"],
    ] {
        let said = place.expect(0, command);
        assert!(
            !said.out.contains('\u{1b}') && said.out.contains("hello"),
            "{command:?}: {said:?}"
        );
    }
}

#[test]
fn a_session_is_named_by_id_prefix_name_or_last() {
    let place = Place::new();
    place.expect(0, &["import", &fixture("openai-runs.jsonl")]);
    let newest = place.expect(0, &["ls", "--json"]).json()[0].clone();
    let id = newest["id"].as_str().unwrap();
    let shown = place.expect(0, &["show", id]).out;
    let listed = place.expect(0, &["ls"]).out;
    let prefix = listed
        .lines()
        .nth(1)
        .and_then(|line| line.split_whitespace().next())
        .unwrap()
        .to_owned();
    assert!(prefix.len() < id.len() && id.starts_with(&prefix));
    for name in ["@last", "openai-runs/1", &prefix] {
        assert_eq!(place.expect(0, &["show", name]).out, shown);
    }
    let instances = place.expect(0, &["ls", "--json", "--instances"]).json();
    let instance = instances[0]["instances"][0]["id"].as_str().unwrap();
    assert_eq!(place.expect(0, &["show", instance]).out, shown);
    assert_eq!(place.expect(0, &["show", &instance[..30]]).out, shown);
    assert!(
        place
            .expect(3, &["show", "nobody"])
            .err
            .contains("no session or agent instance \"nobody\"")
    );
    assert!(
        place
            .expect(3, &["show", &id[..4]])
            .err
            .contains("several sessions")
    );
}

#[test]
fn a_replay_gives_the_events_in_order_between_two_points() {
    let place = Place::new();
    place.expect(0, &["import", &fixture("openai-runs.jsonl")]);
    let all = place
        .expect(0, &["replay", "--json", "openai-runs/0"])
        .json();
    let sequences: Vec<u64> = all
        .iter()
        .map(|event| event["sequence_number"].as_u64().unwrap())
        .collect();
    assert_eq!(sequences, (1..=13).collect::<Vec<_>>());
    let some = place
        .expect(
            0,
            &[
                "replay",
                "--json",
                "openai-runs/0",
                "--from",
                "3",
                "--to",
                "5",
            ],
        )
        .json();
    assert_eq!(some, all[2..5]);
    let beyond = place.expect(0, &["replay", "openai-runs/0", "--from", "99"]);
    assert_eq!(beyond.out, "");
    assert!(
        beyond.err.contains("no events from 99; the last is 13"),
        "{beyond:?}"
    );
    place.expect(2, &["replay", "openai-runs/0", "--from", "5", "--to", "3"]);
    for speed in ["0", "-1", "NaN", "x"] {
        place.expect(2, &["replay", "openai-runs/0", "--speed", speed]);
    }
}

#[test]
fn a_replay_keeps_the_recorded_pace_times_the_speed() {
    let place = Place::new();
    let line = |second: u32, text: &str| {
        format!(
            r#"{{"timestamp":"2025-01-01T00:00:{second:02}Z","message":{{"role":"user","content":"{text}"}}}}"#
        )
    };
    place.write(
        "paced.jsonl",
        [line(0, "a"), line(10, "b"), line(20, "c")].join("\n"),
    );
    place.expect(0, &["import", "paced.jsonl"]);
    let started = Instant::now();
    let said = place.expect(0, &["replay", "paced", "--speed", "50"]);
    assert!(
        started.elapsed() >= Duration::from_millis(400),
        "20 s at 50 times the pace take 400 ms"
    );
    assert!(said.out.contains("+20.0 s"), "{}", said.out);
    let started = Instant::now();
    place.expect(
        0,
        &["replay", "paced", "--speed", "0.001", "--wait-max", "0.05"],
    );
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "no wait is longer than asked for"
    );
}

#[test]
fn a_copy_shares_and_a_truncation_of_it_leaves_the_source() {
    let place = Place::new();
    place.expect(0, &["import", &fixture("claude-code.jsonl")]);
    let name = "5b0f2c9e-0000-4000-8000-000000000001";
    let before = place
        .expect(0, &["export", "--format", "claude-code", name])
        .out;
    let copy = place
        .expect(0, &["copy", "--json", name, "--name", "copy"])
        .json()
        .remove(0);
    assert_eq!(copy["copied_from"], copy["session"]["copied_from"]);
    assert!(place.expect(0, &["ls"]).out.contains("[copy of "));
    assert_eq!(
        place
            .expect(0, &["export", "--format", "claude-code", "copy"])
            .out,
        before
    );

    let said = place
        .expect(0, &["truncate", "copy", "--after", "2", "--json"])
        .json()
        .remove(0);
    // Five of its own, and seven of the sub-agents that it began after that.
    assert_eq!(said["deleted"], 12);
    let cut = place
        .expect(0, &["replay", "--json", "copy", "--from", "1"])
        .json();
    assert_eq!(cut.len(), 2);
    // What had been kept beside the forgotten events is forgotten too, and the source has everything.
    assert!(
        !place
            .expect(0, &["export", "copy"])
            .out
            .contains("Conversation compacted")
    );
    assert_eq!(
        place
            .expect(0, &["export", "--format", "claude-code", name])
            .out,
        before
    );

    place.expect(0, &["copy", name, "--to-point", "1", "--name", "short"]);
    let short = place
        .expect(0, &["export", "--format", "claude-code", "short"])
        .out;
    assert_eq!(
        short.lines().collect::<Vec<_>>(),
        before.lines().take(2).collect::<Vec<_>>()
    );
    place.expect(2, &["copy", name, "--to-point", "99"]);
    place.expect(2, &["truncate", name, "--after", "99"]);
    place.expect(4, &["copy", name, "--name", "copy"]);
}

#[test]
fn the_newest_events_are_printed_and_followed_while_another_process_writes() {
    let place = Place::new();
    place.expect(0, &["import", &fixture("openai-runs.jsonl")]);
    let tail = place.expect(0, &["tail", "-n", "3", "--json"]).json();
    assert_eq!(tail.len(), 3);
    assert_eq!(tail[2]["content"]["content"], "I could not close it.");
    assert_eq!(
        place
            .expect(0, &["tail", "-n", "1000", "--json"])
            .json()
            .len(),
        19
    );

    let mut follow = Ends(
        place
            .command(&["tail", "-f", "-n", "1", "--json"])
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(follow.0.stdout.take().unwrap()).lines();
    assert!(
        lines
            .next()
            .unwrap()
            .unwrap()
            .contains("I could not close it.")
    );
    assert_eq!(
        place
            .script(&[], &["ready", "say:first", "ack", "say:second", "ack"])
            .code,
        0
    );
    assert!(lines.next().unwrap().unwrap().contains("first"));
    assert!(lines.next().unwrap().unwrap().contains("second"));
}

#[test]
fn a_store_is_counted_and_verified() {
    let place = Place::new();
    place.expect(0, &["import", &fixture("openai-runs.jsonl")]);
    let stat = place.expect(0, &["stat", "--json"]).json().remove(0);
    assert_eq!(
        (&stat["sessions"], &stat["instances"], &stat["events"]),
        (&2.into(), &2.into(), &19.into())
    );
    assert!(place.expect(0, &["stat"]).out.contains("sessions      2"));
    let sound = place.expect(0, &["verify", "--json"]).json().remove(0);
    assert_eq!(sound["sound"], true);
    assert!(place.expect(0, &["verify"]).out.starts_with("sound:"));

    // One byte of a message is turned over.
    let segment = fs::read_dir(place.path("runlog-data"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            fs::read(path)
                .unwrap()
                .windows(9)
                .any(|window| window == b"The Waves")
        })
        .expect("a segment has the message");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes
        .windows(9)
        .position(|window| window == b"The Waves")
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let said = place.expect(5, &["verify"]);
    assert!(
        said.out.contains("lost ") && said.out.contains("--repair"),
        "{}",
        said.out
    );
    let found = place.expect(5, &["verify", "--json"]).json().remove(0);
    assert_eq!(found["sound"], false);
    assert!(found["problems_count"].as_u64() > Some(0));
}

#[test]
fn a_replay_reads_only_the_events_that_are_asked_for() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let (session, agent) = store
        .start_session(NewSession::titled("Deploy"), "deployer")
        .unwrap();
    let context = store.context(agent.id).unwrap();
    for number in 1..=9 {
        let said = NewMessage::user(format!("Message {number}."));
        context.append_message(said).unwrap();
    }
    let chat = store.chats().create_chat(Chat::new("helper")).unwrap();
    let said = ChatMessage::text(ChatRole::User, "hello");
    let chats = store.chats();
    chats.save_messages(&chat.chat_id, vec![said]).unwrap();
    drop((context, chats));
    store.close().unwrap();
    let segment = place.path("runlog-data/00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let found = bytes.windows(10).position(|it| it == b"Message 5.");
    bytes[found.unwrap()] ^= 1;
    fs::write(&segment, bytes).unwrap();
    let session = session.id.to_string();
    let replay = |code, range: &[&str]| {
        let all = [&["replay", &session, "--json"], range].concat();
        let said = place.expect(code, &all);
        let numbers = said.json();
        let numbers = numbers.iter().map(|it| it["sequence_number"].as_u64());
        numbers.map(Option::unwrap).collect::<Vec<_>>()
    };
    assert_eq!(replay(0, &["--from", "6", "--to", "8"]), [6, 7, 8]);
    assert_eq!(replay(0, &["--from", "7"]), [7, 8, 9]);
    assert_eq!(replay(0, &["--to", "4"]), [1, 2, 3, 4]);
    replay(5, &["--from", "4", "--to", "6"]);
    replay(5, &[]);
    let none = place.expect(0, &["replay", &session, "--from", "12"]);
    assert!(none.err.contains("the last is 9"), "{}", none.err);

    let of_chat = place.expect(3, &["replay", &chat.chat_id]);
    assert!(of_chat.err.contains("is a chat"), "{}", of_chat.err);
    assert!(of_chat.err.contains("`runlog show "), "{}", of_chat.err);
}

#[test]
fn a_transcript_of_a_chat_is_not_empty_without_a_word() {
    let place = Place::new();
    let store = Store::open(place.path("runlog-data")).unwrap();
    let (session, agent) = store
        .start_session(NewSession::titled("Deploy"), "deployer")
        .unwrap();
    let context = store.context(agent.id).unwrap();
    context.append_message(NewMessage::user("Go.")).unwrap();
    let chats = store.chats();
    let chat = chats.create_chat(Chat::new("helper")).unwrap().chat_id;
    let said = ChatMessage::text(ChatRole::User, "hello");
    chats.save_messages(&chat, vec![said]).unwrap();
    drop((context, chats));
    store.close().unwrap();
    for format in ["openai", "claude-code"] {
        let export = ["export", "--format", format, &chat];
        let refused = place.expect(2, &export);
        assert!(refused.err.contains("is a chat"), "{}", refused.err);
        let file = [&export[..], &["-o", "chat.jsonl"]].concat();
        place.expect(2, &file);
        assert!(!place.path("chat.jsonl").exists());
        let id = session.id.to_string();
        let both = [&export[..], &[&id]].concat();
        let both = place.expect(6, &both);
        assert!(both.out.contains("Go."), "{}", both.out);
        assert!(both.err.starts_with("left out: "), "{}", both.err);
    }
    assert!(place.expect(0, &["export", &chat]).out.contains("hello"));
}

#[test]
fn a_second_writer_is_refused_and_readers_are_not() {
    let place = Place::new();
    let mut writer = Ends(
        place
            .scripted(&["--json"], &["ready", "say:hello", "ack", "sleep:20000"])
            .spawn()
            .unwrap(),
    );
    let mut lines = BufReader::new(writer.0.stdout.take().unwrap()).lines();
    while !lines.next().unwrap().unwrap().contains("ack") {}
    let said = place.expect(4, &["import", &fixture("openai-runs.jsonl")]);
    assert!(said.err.starts_with("error: "), "{}", said.err);
    assert!(place.expect(0, &["show", "@last"]).out.contains("hello"));
    assert!(place.expect(0, &["tail"]).out.contains("hello"));
    place.expect(0, &["verify"]);
}

#[test]
fn what_is_no_store_is_told_apart() {
    let place = Place::new();
    for command in ["ls", "stat", "verify", "tail"] {
        let said = place.expect(3, &[command]);
        assert!(
            said.err.contains(
                "there is no store at ./runlog-data; name another one with --store or RUNLOG_STORE"
            ),
            "{command}: {}",
            said.err
        );
    }
    place.expect(3, &["truncate", "x", "--after", "1"]);
    assert!(
        !place.path("runlog-data").exists(),
        "reading makes no store"
    );
    fs::create_dir(place.path("runlog-data")).unwrap();
    place.write("runlog-data/letter.txt", "hello");
    let said = place.expect(3, &["ls"]);
    assert!(said.err.contains("not a runlog store"), "{}", said.err);
    let said = place.expect(3, &["import", &fixture("openai-runs.jsonl")]);
    assert!(said.err.contains("letter.txt"), "{}", said.err);
    let json = place.expect(3, &["ls", "--json"]);
    let error: serde_json::Value = serde_json::from_str(json.err.trim()).unwrap();
    assert_eq!(error["error"]["exit"], 3);
    assert_eq!(error["error"]["kind"], "not_a_store");
}

#[test]
fn what_is_missing_or_out_of_range_is_told_with_all_that_would_do() {
    let place = Place::new();
    let said = place.expect(2, &["run", "describe", "@last"]).err;
    assert!(
        said.contains("<--usage <JSON>|--metadata <JSON>>"),
        "{said}"
    );
    let said = place.expect(2, &["export"]).err;
    assert!(said.contains("<SESSION|--all>"), "{said}");
    let said = place.expect(2, &["export", "--all", "@last"]).err;
    assert!(said.contains("cannot be used with"), "{said}");
    let said = place.expect(2, &["retain", "--older-than", "0d"]).err;
    assert!(said.contains("an age of 0 for --older-than"), "{said}");
    for size in ["0", "1001"] {
        let said = place.expect(2, &["chats", "--page-size", size]).err;
        assert!(said.contains("from 1 to 1000\n"), "{said}");
    }
}

#[test]
fn a_misspelt_option_and_a_number_that_is_none_are_told_without_tips_that_lead_nowhere() {
    let place = Place::new();
    for arguments in [["show", "--formt"], ["chats", "--limti"]] {
        let said = place.expect(2, &arguments);
        assert!(said.err.contains("unexpected argument"), "{}", said.err);
        assert!(!said.err.contains("as a value"), "{}", said.err);
    }
    let said = place.expect(2, &["chats", "--limit", "ten"]);
    assert!(
        said.err.contains(
            "invalid value 'ten' for '--limit <N>': it should be a whole number, from 1 to 1000"
        ),
        "{}",
        said.err
    );
    // The usage is the command's own, where there is any.
    assert!(!said.err.contains("<COMMAND>"), "{}", said.err);
    for refused in [
        &["compact", "--bytes-per-second", "0"][..],
        &["run", "--agent", "", "--", "true"],
        &["serve", "--allow-host", "http://logs.example"],
        &["serve", "--allow-host", "logs.example:80"],
        &["serve", "--allow-host", ""],
    ] {
        let said = place.expect(2, refused);
        assert!(said.err.contains(refused[1]), "{}", said.err);
    }
    assert!(!place.path("runlog-data").exists());
    let said = place.expect(2, &["ls", "--limit", "99999999999999999999999"]);
    assert!(
        said.err.contains("': 99999999999999999999999 is too large"),
        "{}",
        said.err
    );
    let said = place.expect(2, &["retain", "--older-than", "3x"]);
    assert!(
        said.err
            .contains("\"3x\" has an unknown unit; d, h, m or s"),
        "{}",
        said.err
    );
    let said = place.expect(2, &["ls", "--limit", "x", "--json"]);
    let error: serde_json::Value = serde_json::from_str(said.err.trim()).unwrap();
    assert_eq!(
        error["error"]["message"],
        "invalid value 'x' for '--limit <N>': it should be a whole number, at least 1"
    );
}

#[test]
#[cfg(unix)]
fn a_folder_that_can_not_be_written_to_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let folder = place.path("closed");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o500)).unwrap();
    let is_root = fs::write(folder.join("probe"), "").is_ok();
    let said = place.runlog(&[
        "--store",
        "closed/store",
        "import",
        &fixture("openai-runs.jsonl"),
    ]);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    if is_root {
        println!("not checked: this user may write anywhere; /proc is tried instead");
        let said = place.expect(
            1,
            &[
                "--store",
                "/proc/runlog-store",
                "import",
                &fixture("openai-runs.jsonl"),
            ],
        );
        assert!(said.err.starts_with("error: "), "{}", said.err);
        return;
    }
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.starts_with("error: "), "{}", said.err);
}

#[test]
fn nobody_reading_is_no_failure() {
    let place = Place::new();
    let text = "x".repeat(100_000);
    let lines: Vec<String> = (0..50)
        .map(|_| format!(r#"{{"role":"user","content":"{text}"}}"#))
        .collect();
    place.write("long.jsonl", lines.join("\n"));
    place.expect(0, &["import", "long.jsonl"]);
    for command in [
        &["show", "--full", "long"][..],
        &["export", "long"],
        &["replay", "--json", "long"],
        &["ls"],
    ] {
        let mut child = place.command(command).spawn().unwrap();
        let mut first = [0; 1];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            output.stderr.is_empty(),
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn the_store_comes_from_the_environment_unless_it_is_named() {
    let place = Place::new();
    let mut command = place.command(&["import", &fixture("openai-runs.jsonl")]);
    assert!(
        command
            .env("RUNLOG_STORE", "elsewhere")
            .status()
            .unwrap()
            .success()
    );
    assert!(place.path("elsewhere").exists());
    let mut command = place.command(&["--store", "nowhere", "ls"]);
    assert_eq!(
        command
            .env("RUNLOG_STORE", "elsewhere")
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .code(),
        Some(3)
    );
}

#[test]
fn the_manual_and_the_completions_name_every_command() {
    let place = Place::new();
    let help = place.expect(0, &["--help"]).out;
    assert!(
        help.contains("Exit codes:") && !help.contains("__"),
        "{help}"
    );
    let commands: Vec<_> = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .map_while(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|command| !command.is_empty())
        .collect();
    assert!(
        commands.len() > 20 && commands.contains(&"salvage"),
        "{help}"
    );
    place.expect(0, &["man", "pages"]);
    for command in commands {
        assert!(
            place.path(&format!("pages/runlog-{command}.1")).exists(),
            "{command}"
        );
        assert!(
            place.expect(0, &[command, "--help"]).out.contains("--json"),
            "{command}"
        );
    }
    // What the demo starts is no command.
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = place.expect(0, &["completions", shell]).out;
        assert!(script.contains("salvage") && !script.contains("demo-agent"));
    }
    assert!(place.expect(0, &["man"]).out.starts_with(".ie"));
    assert_eq!(place.expect(0, &["help"]).out, help);
    let of_run = |arguments| place.expect(0, arguments).out;
    assert_eq!(
        of_run(&["help", "run", "show"]),
        of_run(&["run", "show", "--help"])
    );
    assert!(
        place
            .expect(2, &["help", "nothing"])
            .err
            .contains("'nothing'")
    );
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(
            place
                .expect(0, &["completions", shell])
                .out
                .contains("truncate"),
            "{shell}"
        );
    }
    place.expect(2, &["frobnicate"]);
    place.expect(2, &[]);
}

#[test]
#[cfg(unix)]
fn the_tail_of_an_empty_store_is_empty_and_one_that_is_followed_ends_with_its_reader() {
    let place = Place::new();
    let empty = Store::open(place.path("runlog-data")).unwrap();
    empty.close().unwrap();
    for follow in [false, true] {
        let mut arguments = vec!["tail"];
        arguments.extend(follow.then_some("-f"));
        let mut child = Ends(place.command(&arguments).spawn().unwrap());
        if follow {
            drop(child.0.stdout.take());
        }
        let started = Instant::now();
        while child.0.try_wait().unwrap().is_none() {
            assert!(
                started.elapsed() < Duration::from_secs(10),
                "{arguments:?} doesn't end"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(child.0.wait().unwrap().code(), Some(0));
    }
}

#[test]
#[cfg(unix)]
fn names_of_files_can_not_command_the_terminal() {
    let place = Place::new();
    let name = "\u{1b}[31mz.jsonl";
    place.write(name, "{\"role\":\"user\",\"content\":\"hi\"}\nnot json\n");
    let store = "\u{1b}[31mstore";
    for (code, command) in [
        (6, &["import", name][..]),
        (0, &["stat"]),
        (0, &["export", "@last", "-o", "\u{1b}[31mx"]),
    ] {
        let said = place.expect(code, &[&["--store", store], command].concat());
        assert!(
            !said.out.contains('\u{1b}') && !said.err.contains('\u{1b}'),
            "{said:?}"
        );
        assert!(
            said.out.contains("␛[31m") || said.err.contains("␛[31m"),
            "{said:?}"
        );
    }
}

#[test]
#[cfg(unix)]
fn what_a_full_disk_did_not_take_is_not_counted() {
    let place = Place::new();
    let text = "x".repeat(1500);
    let lines: Vec<String> = (0..16_000)
        .map(|_| format!(r#"{{"role":"user","content":"{text}"}}"#))
        .collect();
    place.write("many.jsonl", lines.join("\n"));
    // The system lets no file grow beyond this, as on a full disk: 10 or 20 MB, as the shell counts.
    let script = format!(
        "trap '' XFSZ; ulimit -f 20000; {} import --json many.jsonl",
        env!("CARGO_BIN_EXE_runlog")
    );
    let output = std::process::Command::new("sh")
        .args(["-c", &script])
        .current_dir(place.path("."))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let told = report["messages"].as_u64().unwrap();
    let stored = place.expect(0, &["ls", "--json"]).json()[0]["events"]
        .as_u64()
        .unwrap();
    assert!(told < 16_000);
    assert_eq!(told, stored, "what wasn't acknowledged wasn't kept either");
}

#[test]
fn a_session_of_another_format_is_left_alone() {
    let place = Place::new();
    place.write(
        "f.jsonl",
        "{\"role\":\"user\",\"content\":\"one\"}\n{\"role\":\"user\",\"content\":\"two\"}\n",
    );
    place.expect(0, &["import", "f.jsonl"]);
    // Nothing in it is a message of that format, which is told each time.
    for outcome in ["created", "unchanged"] {
        let report = place
            .expect(
                6,
                &["import", "--json", "--format", "claude-code", "f.jsonl"],
            )
            .json()
            .remove(0);
        assert_eq!(report["sessions"][0]["name"], "f~2");
        assert_eq!(report["sessions"][0]["outcome"], outcome);
    }
    let sessions = place.expect(0, &["ls", "--json", "--instances"]).json();
    assert_eq!(sessions.len(), 2);
    assert!(
        sessions
            .iter()
            .all(|session| session["instances"].as_array().unwrap().len() == 1),
        "{sessions:?}"
    );
    // Lines that were kept, beside one that wasn't, are a part.
    place.write(
        "g.jsonl",
        "{\"type\":\"summary\",\"leafUuid\":\"a\"}\nnot json\n",
    );
    place.expect(6, &["import", "g.jsonl"]);
}

#[test]
fn runs_without_messages_come_back_with_what_stood_around_them() {
    let place = Place::new();
    let lines = "{\"id\":\"r1\",\"reward\":0.5,\"messages\":[]}\n{\"id\":\"r2\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n";
    place.write("runs.jsonl", lines);
    place.expect(0, &["import", "runs.jsonl"]);
    let told = place.expect(0, &["export", "--format", "openai", "r1", "r2"]);
    assert_eq!(told.out, lines);
}

#[test]
#[cfg(unix)]
fn a_source_that_is_no_text_is_refused_at_once() {
    let place = Place::new();
    for format in [&[][..], &["--format", "openai"]] {
        let arguments = [&["import", "/dev/zero"], format].concat();
        let said = place.expect(1, &arguments);
        assert!(said.err.contains("not text"), "{said:?}");
    }
}

#[test]
fn text_is_as_wide_as_it_is_asked_to_be() {
    let place = Place::new();
    let text = "word ".repeat(100);
    place.write(
        "long.jsonl",
        format!(r#"{{"role":"user","content":"{text}"}}"#),
    );
    place.expect(0, &["import", "long.jsonl"]);
    place.expect(
        0,
        &[
            "import",
            &fixture("claude-code.jsonl"),
            &fixture("openai-runs.jsonl"),
        ],
    );
    for (columns, expected) in [(None, 80), (Some("60"), 60), (Some("nonsense"), 80)] {
        for command in [
            &["show", "long"][..],
            &["tail"],
            &["replay", "long"],
            &["ls", "--instances"],
            &["run", "--help"],
            &["--help"],
        ] {
            let mut command = place.command(command);
            command
                .env_remove("COLUMNS")
                .envs(columns.map(|columns| ("COLUMNS", columns)));
            let out = String::from_utf8(command.output().unwrap().stdout).unwrap();
            let widest = out.lines().map(|line| line.chars().count()).max().unwrap();
            // Beside its fixed columns a line has room for a few words in any case.
            let is_shown = command.get_args().next().is_some_and(|it| it == "show");
            let most = if is_shown { expected } else { 80 };
            assert!(widest <= most, "{command:?}: {widest}\n{out}");
        }
    }
}

#[test]
fn wrong_arguments_are_told_as_asked_and_hidden_commands_are_not() {
    let place = Place::new();
    for arguments in [
        &["--json"][..],
        &["--json", "frobnicate"],
        &["ls", "--json", "-n", "0"],
        &["run", "--json"],
    ] {
        let said = place.expect(2, arguments);
        let error: serde_json::Value = serde_json::from_str(said.err.trim()).unwrap();
        assert_eq!(
            (&error["error"]["kind"], &error["error"]["exit"]),
            (&"usage".into(), &2.into())
        );
    }
    let said = place.expect(2, &["--store", "x"]);
    assert!(
        said.err.contains("subcommands: demo") && !said.err.contains("__"),
        "{said:?}"
    );
    // What follows `--` is the agent's.
    assert!(
        place
            .expect(2, &["run", "--nonsense", "--", "x", "--json"])
            .err
            .starts_with("error: ")
    );
}

#[test]
fn sizes_say_of_what_they_are() {
    let place = Place::new();
    let message = format!(
        "{{\"role\":\"user\",\"content\":\"{}\"}}\n",
        "hello ".repeat(100)
    );
    place.write("long.jsonl", message.repeat(500));
    place.expect(0, &["import", "long.jsonl"]);
    let said = place.expect(0, &["compact"]).out;
    assert!(said.contains("rewrote "), "{said}");
    let stat = place.expect(0, &["stat"]).out;
    let on_disk = stat.lines().find(|line| line.starts_with("on disk"));
    let on_disk = on_disk.unwrap().trim_start_matches("on disk").trim();
    assert!(on_disk.ends_with("in 2 segments"), "{on_disk}");
    assert!(
        said.ends_with(&format!("the store has {on_disk} now\n")),
        "{said}{stat}"
    );
    let said = place.expect(0, &["verify"]).out;
    assert!(
        said.ends_with(" KiB, free space and what packs decompress to included\n"),
        "{said}"
    );
}

#[test]
fn no_session_that_matches_is_told_apart_from_none_at_all() {
    let place = Place::new();
    place.expect(0, &["import", &fixture("openai-runs.jsonl")]);
    assert_eq!(
        place.expect(0, &["ls", "--project", "nope"]).out,
        "no sessions match\n"
    );
    let said = place.expect(
        1,
        &["import", "--strict", &fixture("claude-code-odd.jsonl")],
    );
    assert!(
        said.err.contains("stopped here")
            && !said.err.contains("kept")
            && !said.err.contains("left out"),
        "{said:?}"
    );
    place.expect(2, &["copy", "openai-runs/0", "--name", "@last"]);
}

#[test]
fn a_file_of_another_agents_is_kept_and_is_no_success() {
    let place = Place::new();
    let mut lines = String::new();
    for n in 0..10 {
        lines += &format!(
            "{{\"role\":\"user\",\"content\":\"{n}\"}}\n{{\"role\":\"toolResult\",\"content\":\"{n}\"}}\n"
        );
    }
    place.write("pi.jsonl", &lines);
    let said = place.expect(6, &["import", "pi.jsonl"]);
    assert!(
        said.err.contains("looks like another agent's format"),
        "{said:?}"
    );
    place.write(
        "rows.jsonl",
        "{\"message\":{\"id\":1},\"x\":1}\n{\"message\":{\"id\":2}}\n",
    );
    place.write(
        "summary.jsonl",
        "{\"type\":\"summary\",\"summary\":\"x\",\"leafUuid\":\"y\"}\n",
    );
    for file in ["rows.jsonl", "summary.jsonl"] {
        // Also where it is there already.
        for _ in 0..2 {
            let said = place.expect(6, &["import", file]);
            assert!(said.err.contains("there is no message in it"), "{said:?}");
        }
    }
    let said = place.expect(6, &["import", "pi.jsonl"]);
    assert!(
        said.err.contains("looks like another agent's format"),
        "{said:?}"
    );
}

#[test]
fn a_backup_is_made_while_the_store_is_used_and_grows() {
    let place = Place::new();
    place.script(&["--name", "one"], &["ready", "say:one", "ack"]);
    place.expect(0, &["backup", "copy"]);
    place.script(&["--name", "two"], &["ready", "say:two", "ack"]);
    let report = place
        .expect(0, &["backup", "copy", "--json"])
        .json()
        .remove(0);
    assert_eq!(
        (
            report["segments_copied"].as_u64(),
            report["backup"].as_str()
        ),
        (Some(1), Some("copy"))
    );
    let of = |store: &str, command: &[&str]| {
        place
            .expect(0, &[&["--store", store], command].concat())
            .out
    };
    for command in [&["ls", "--json"][..], &["runs", "--json"], &["show", "two"]] {
        assert_eq!(of("copy", command), of("runlog-data", command));
    }
    place.expect(0, &["--store", "copy", "verify"]);
    fs::create_dir(place.path("notes")).unwrap();
    place.write("notes/note.txt", "");
    let refused = place.runlog(&["backup", "notes"]);
    assert!(
        refused.code != 0 && refused.err.contains("give an empty folder"),
        "{refused:?}"
    );
}

#[test]
fn a_backup_tells_damage_of_the_store() {
    let place = Place::new();
    place.script(&["--name", "one"], &["ready", "say:one", "ack"]);
    let inside = place.expect(2, &["backup", "runlog-data/backup", "--json"]);
    assert!(
        inside.err.contains("invalid_input")
            && inside.err.contains("inside the store's own folder"),
        "{inside:?}"
    );
    let segment = place.path("runlog-data/00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes
        .windows(5)
        .position(|found| found == b"\"one\"")
        .unwrap();
    bytes[at + 1] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    for arguments in [&["backup", "copy"][..], &["backup", "copy", "--verify"]] {
        let said = place.expect(5, arguments);
        let words = said.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("00000001.seg: offset ") && words.contains("but the store is damaged"),
            "{said:?}"
        );
    }
    assert_eq!(
        fs::read(place.path("copy/00000001.seg")).unwrap()[at],
        bytes[at],
        "the rest is worth having"
    );
    place.expect(5, &["--store", "copy", "verify"]);
}

#[test]
fn sessions_are_given_up_by_rules_and_a_dry_run_says_which() {
    let place = Place::new();
    place.expect(0, &["import", &fixture("openai-runs.jsonl")]);
    let before = place.expect(0, &["ls", "--json"]).json();
    assert!(before.len() > 1);
    for refused in [
        &["retain"][..],
        &["retain", "--dry-run", "--compact"],
        &["retain", "--keep-last", "0"],
        &["retain", "--older-than", "30"],
        &["retain", "--max-bytes", "10X"],
        &["retain", "--status", "running"],
        &["retain", "--status", "done"],
    ] {
        place.expect(2, refused);
    }
    let rules = ["retain", "--keep-last", "1", "--max-bytes", "1", "--json"];
    let dry = place
        .expect(0, &[&rules[..], &["--dry-run"]].concat())
        .json();
    assert_eq!(place.expect(0, &["ls", "--json"]).json(), before);
    let done = place
        .expect(0, &[&rules[..], &["--compact"]].concat())
        .json();
    for name in ["sessions", "session_ids", "runs", "records", "bytes"] {
        assert_eq!(dry[0][name], done[0][name], "{name}");
    }
    assert_eq!(done[0]["sessions"], before.len() - 1);
    assert!(done[0]["compaction"]["records_dropped"].as_u64() >= done[0]["records"].as_u64());
    assert_eq!(place.expect(0, &["ls", "--json"]).json().len(), 1);
    place.expect(0, &["verify"]);
    place.expect(2, &["retain", "--deltas", "1h", "--keep-last", "1"]);
    let deltas = place
        .expect(0, &["retain", "--deltas", "1h", "--dry-run"])
        .out;
    assert!(deltas.contains("nothing to give up"), "{deltas}");
    let nothing = place.expect(0, &["retain", "--older-than", "30d", "--status", "failed"]);
    assert!(nothing.out.contains("nothing to give up"));
    let again = ["retain", "--older-than", "30d", "--compact"];
    let again = place.expect(0, &again).out;
    assert!(again.contains("nothing to compact"), "{again}");
}

#[test]
fn a_store_of_the_environment_is_no_required_option() {
    let place = Place::new();
    let with_env = |value: &str, arguments: &[&str]| {
        let mut command = place.command(arguments);
        said(command.env("RUNLOG_STORE", value).output().unwrap())
    };
    let with = |arguments: &[&str]| with_env("of-env", arguments);
    for wrong in [&["show"][..], &["run"], &["import"], &["copy"]] {
        let said = with(wrong);
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains("Usage: runlog"), "{said:?}");
        assert!(!said.err.contains("--store"), "{said:?}");
    }
    let help = with(&["show", "--help"]).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        help.contains("[env: RUNLOG_STORE]") && help.contains("[default: ./runlog-data]"),
        "{help}"
    );
    let said = with(&["ls"]);
    assert!(
        said.code == 3 && said.err.contains("there is no store at of-env"),
        "{said:?}"
    );
    // The option goes before it, and an empty variable says nothing.
    let said = with(&["ls", "--store", "given"]);
    assert!(said.err.contains("there is no store at given"), "{said:?}");
    let empty = with_env("", &["ls"]);
    assert!(
        empty.code == 3 && empty.err.contains("there is no store at ./runlog-data"),
        "{empty:?}"
    );
}

#[test]
fn an_import_says_what_was_there_already() {
    let place = Place::new();
    let message = "{\"role\":\"user\",\"content\":\"one\"}\n";
    let call = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    place.write("chat.jsonl", message);
    place.expect(0, &["import", "chat.jsonl"]);
    let again = |place: &Place| {
        let said = place.expect(0, &["import", "chat.jsonl"]).out;
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(again(&place).contains("; 1 message there already"));
    place.write("chat.jsonl", format!("{message}{call}\n"));
    place.expect(0, &["import", "chat.jsonl"]);
    let said = again(&place);
    assert!(
        said.contains("0 messages, 0 tool calls; 2 messages there already"),
        "{said}"
    );
    let session = place.expect(0, &["ls", "--json"]).json()[0]["id"].clone();
    place.expect(0, &["export", session.as_str().unwrap(), "-o", "all.jsonl"]);
    let said = place.expect(0, &["import", "all.jsonl"]).out;
    assert!(said.contains(" records there already"), "{said}");
}

#[test]
fn a_retention_without_a_rule_is_told_the_rules() {
    let place = Place::new();
    place.expect(0, &["import", &fixture("openai-runs.jsonl")]);
    for wrong in [
        &["retain"][..],
        &["retain", "--dry-run"],
        &["retain", "--project", "p"],
    ] {
        let said = place.expect(2, wrong);
        for option in [
            "--older-than",
            "--keep-last",
            "--max-bytes",
            "--status",
            "--deleted",
            "--deltas",
        ] {
            assert!(said.err.contains(option), "{option}: {said:?}");
        }
    }
    for (option, wrong) in [
        ("--older-than", "0d"),
        ("--keep-last", "0"),
        ("--max-bytes", "0"),
        ("--deltas", "0s"),
        ("--status", "running"),
    ] {
        let said = place.expect(2, &["retain", option, wrong]);
        assert!(said.err.contains(option), "{option}: {said:?}");
    }
    place.expect(0, &["retain", "--older-than", "0d", "--status", "failed"]);
    for (option, wrong, why) in [
        ("--older-than", "1.5h", "whole number"),
        ("--keep-last", "-1", "-1"),
        ("--max-bytes", "1.5M", "whole number"),
        ("--older-than", "99999999999999999999d", "too large"),
        ("--older-than", "99999999999999999d", "too large"),
        ("--max-bytes", "M", "whole number"),
    ] {
        let said = place.expect(2, &["retain", option, wrong]);
        assert!(said.err.contains(why), "{option} {wrong}: {said:?}");
    }
    let said = place.expect(2, &["retain", "--deltas", "1h", "--keep-last", "1"]);
    assert!(
        said.err.contains("--deltas") && said.err.contains("--keep-last"),
        "{said:?}"
    );
}

#[test]
fn a_program_is_told_all_sessions_and_a_person_that_there_are_more() {
    let place = Place::new();
    let line = "{\"role\":\"user\",\"content\":\"x\"}\n";
    let files: Vec<String> = (0..55).map(|index| format!("s{index}.jsonl")).collect();
    for file in &files {
        place.write(file, line);
    }
    let mut import = vec!["import"];
    import.extend(files.iter().map(String::as_str));
    place.expect(0, &import);
    let lines = |arguments: &[&str]| place.expect(0, arguments).json().len();
    assert_eq!(lines(&["ls", "--json"]), 55);
    assert_eq!(lines(&["ls", "--json", "-n", "7"]), 7);
    let text = place.expect(0, &["ls"]).out;
    assert_eq!(text.lines().count(), 52, "{text}");
    let next = text.lines().last().unwrap();
    let cursor = next.strip_prefix("… there are more: --cursor ").unwrap();
    let rest = place.expect(0, &["ls", "--cursor", cursor]).out;
    assert_eq!(rest.lines().count(), 6, "{rest}");
    assert!(!rest.contains("there are more"), "{rest}");
    assert_eq!(lines(&["ls", "--json", "--cursor", cursor]), 5);
    let said = place.expect(2, &["ls", "--deleted", "--cursor", cursor]);
    assert!(said.err.contains("cursor"), "{said:?}");
}

#[test]
fn a_folder_of_something_else_has_nothing_to_salvage() {
    let place = Place::new();
    place.write("todo.txt", "x");
    fs::create_dir(place.path("empty")).unwrap();
    for folder in ["empty", "."] {
        let said = place.expect(3, &["salvage", folder]);
        assert!(said.err.contains("there is no store in"), "{said:?}");
    }
}

#[test]
fn a_file_whose_name_begins_with_a_dash_is_told_how_it_is_given() {
    let place = Place::new();
    place.write("-dash.jsonl", "{\"role\":\"user\",\"content\":\"x\"}\n");
    let said = place.expect(2, &["import", "-dash.jsonl"]);
    assert!(said.err.contains("./-dash.jsonl"), "{said:?}");
    let said = place.expect(2, &["--json", "import", "-dash.jsonl"]);
    assert!(said.err.contains("given as ./-dash.jsonl"), "{said:?}");
    // As it says.
    place.expect(0, &["import", "./-dash.jsonl"]);
    let said = place.expect(2, &["import", "-other.jsonl"]);
    assert!(!said.err.contains("./"), "{said:?}");
}

#[test]
fn two_stores_to_serve_are_refused() {
    let place = Place::new();
    for arguments in [
        ["--store", "one", "serve", "other"],
        ["serve", "other", "--store", "one"],
    ] {
        let said = place.expect(2, &arguments);
        assert!(
            said.err
                .contains("one with --store and other without; `serve` serves one"),
            "{said:?}"
        );
    }
    // There is no such store, which is told of what is named twice alike.
    place.expect(3, &["--store", "one", "serve", "one"]);
}
