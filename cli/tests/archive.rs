//! `runlog export` keeps what it promises, and `runlog import` gives it back.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use std::fs;

use common::Place;
use runlog::{
    NewMessage, NewRun, NewSession,
    blocking::{FlowRun, Playback, Store},
    chats::{Chat, ChatFilter, ChatMessage, ChatRole, MessageFilter},
    flows::{PlaybackOptions, RuntimeEvent},
};

/// A store with a chat, and a run with a flow.
fn filled(place: &Place) {
    let store = Store::open(place.path("runlog-data")).unwrap();
    let chats = store.chats();
    chats
        .create_chat(Chat {
            chat_id: "c".into(),
            ..Chat::new("weather")
        })
        .unwrap();
    let said = ["Rain?", "Again?"].map(|text| ChatMessage::text(ChatRole::User, text));
    chats.save_messages("c", said.into()).unwrap();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::named("work"), "coder"))
        .unwrap();
    run.next_step().unwrap();
    run.record_message(NewMessage::assistant("Hello.")).unwrap();
    let mut flow = FlowRun::create(&store, Some(run.id())).unwrap();
    flow.record(&RuntimeEvent::parse(r#"{"type":"node:a"}"#).unwrap())
        .unwrap();
    run.complete(Some("done")).unwrap();
    store.close().unwrap();
}

#[test]
fn chats_are_counted_where_the_store_is_looked_at_and_imported() {
    let place = Place::new();
    filled(&place);
    let listed = place.expect(0, &["ls"]).out;
    assert_eq!(listed.matches("[chat]").count(), 1, "{listed}");
    assert!(listed.contains("`runlog chat messages "), "{listed}");
    let stat = place.expect(0, &["stat", "--json"]).json().remove(0);
    assert_eq!((&stat["sessions"], &stat["chats"]), (&2.into(), &1.into()));
    let stat = place.expect(0, &["stat"]).out;
    assert!(stat.contains("chats         1 of these"), "{stat}");
    place.expect(0, &["export", "--all", "-o", "all.jsonl"]);
    let import = |options: &[&str]| {
        let elsewhere = Place::new();
        let file = place.path("all.jsonl").display().to_string();
        elsewhere.expect(0, &[&["import", &file], options].concat())
    };
    let said = import(&[]).out.replace("\n  ", " ");
    let expected = "2 sessions, 1 chat among them, 1 message, 2 chat messages, 0 tool calls";
    assert!(said.contains(expected), "{said}");
    let report = import(&["--json"]).json().remove(0);
    assert_eq!(
        [
            &report["chats"],
            &report["messages"],
            &report["chat_messages"]
        ],
        [&1.into(), &1.into(), &serde_json::Value::from(2)],
        "{report}"
    );
}

#[test]
fn what_needs_events_says_once_which_session_is_a_chat() {
    let place = Place::new();
    filled(&place);
    let sessions = place.expect(0, &["ls", "--json"]).json();
    let chat = sessions.iter().find(|it| it["name"] == "c").unwrap();
    let id = chat["id"].as_str().unwrap();
    let shown = place.expect(0, &["show", "c"]).out;
    assert!(
        shown.contains("2 messages") && shown.contains("Again?"),
        "{shown}"
    );
    let shown = place.expect(0, &["show", "c", "--json"]).json();
    assert_eq!(shown.len(), 3, "{shown:?}");
    for arguments in [
        &["truncate", "c", "--after", "0"][..],
        &["copy", "c", "--to-point", "1"],
    ] {
        let said = place.expect(3, arguments).err;
        assert_eq!(said.matches(&format!("session {id}")).count(), 1, "{said}");
        let messages = format!("runlog chat messages {id}");
        assert!(said.contains(&messages) && !said.contains("create_instance"));
    }
    let copied = place.expect(0, &["copy", "c"]).out;
    assert!(copied.ends_with("0 events, and its chat\n"), "{copied}");
}

/// What the commands say of a store, and what is there of chats and flows.
fn told(place: &Place, store: &str) -> Vec<String> {
    let mut told = Vec::new();
    for command in [
        &["ls", "--json"][..],
        &["runs", "--json"],
        &["chats", "--json"],
    ] {
        told.push(
            place
                .expect(0, &[&["--store", store], command].concat())
                .out,
        );
    }
    let store = Store::open_read_only(place.path(store)).unwrap();
    for run in store
        .runs()
        .list(&runlog::runs::ListRuns::default())
        .unwrap()
        .items
    {
        for played in Playback::new(&store, run.id, PlaybackOptions::default()).unwrap() {
            let (delay, event) = played.unwrap();
            told.push(format!(
                "{delay:?} {} {:?}",
                event.recorded_at_ms, event.event
            ));
        }
    }
    for chat in store
        .chats()
        .list_chats(&ChatFilter::default())
        .unwrap()
        .items
    {
        for message in store
            .chats()
            .get_messages(&chat.chat_id, &MessageFilter::default())
            .unwrap()
        {
            told.push(format!(
                "{:?}",
                ChatMessage {
                    id: None,
                    ..message
                }
            ));
        }
    }
    told
}

#[test]
fn a_whole_store_comes_back_from_a_file_and_through_a_pipe() {
    let place = Place::new();
    filled(&place);
    place.expect(0, &["export", "--all", "-o", "all.jsonl"]);
    let expected = told(&place, "runlog-data");
    assert_eq!(expected.len(), 3 + 1 + 2, "{expected:?}");
    // As long lines are wrapped.
    let words = |said: String| said.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = words(
        place
            .expect(0, &["--store", "from-file", "import", "all.jsonl"])
            .out,
    );
    assert!(
        said.contains("1 chat among them, 1 message, 2 chat messages, 0 tool calls, ")
            && said.contains("other records"),
        "{said}"
    );
    let all = fs::read(place.path("all.jsonl")).unwrap();
    let piped = place.with_input(&["--store", "from-pipe", "import", "--json", "-"], &all);
    assert_eq!(
        (piped.code, &piped.json()[0]["sessions"][0]["outcome"]),
        (0, &"created".into()),
        "{piped:?}"
    );
    // As Python's `json.dumps` writes it. Whoever changes an archive takes the CRC out of its last line, too.
    let spaced = String::from_utf8(all).unwrap().replacen(
        r#"{"runlog":"archive","version":"#,
        r#"{"runlog": "archive", "version": "#,
        1,
    );
    assert!(spaced.starts_with(r#"{"runlog": "archive""#));
    fs::write(place.path("spaced.jsonl"), &spaced).unwrap();
    let refused = place.expect(1, &["--store", "spaced", "import", "spaced.jsonl"]);
    assert!(refused.err.contains("`crc`"), "{}", refused.err);
    let crc = spaced.rfind(",\"crc\":").unwrap();
    fs::write(
        place.path("spaced.jsonl"),
        format!("{}}}\n", &spaced[..crc]),
    )
    .unwrap();
    place.expect(0, &["--store", "spaced", "import", "spaced.jsonl"]);
    for store in ["from-file", "from-pipe", "spaced"] {
        assert_eq!(told(&place, store), expected, "{store}");
    }
    let again = words(
        place
            .expect(
                0,
                &[
                    "--store",
                    "from-file",
                    "import",
                    "--format",
                    "runlog",
                    "all.jsonl",
                ],
            )
            .out,
    );
    assert!(
        again.contains("2 sessions, 1 chat among them, 0 messages, 0 tool calls; ")
            && again.contains(" records there already"),
        "{again}"
    );
    assert_eq!(told(&place, "from-file"), expected);
}

#[test]
fn the_demos_fork_comes_back_with_its_runs() {
    let place = Place::new();
    place.expect(0, &["demo", "--keep", "kept"]);
    place.expect(
        0,
        &["--store", "kept", "export", "demo-fork", "-o", "fork.jsonl"],
    );
    let said = place.expect(0, &["--store", "new", "import", "fork.jsonl"]);
    assert_eq!(said.err, "");
    let shown = |store| {
        place
            .expect(
                0,
                &[
                    "--store",
                    store,
                    "export",
                    "--format",
                    "events",
                    "demo-fork",
                ],
            )
            .out
    };
    assert_eq!(shown("new"), shown("kept"));
    // With the rest of the demo beside it, nothing is there twice.
    place.expect(
        0,
        &["--store", "kept", "export", "--all", "-o", "all.jsonl"],
    );
    let said = place.expect(0, &["--store", "new", "import", "all.jsonl"]);
    assert_eq!(said.err, "");
    assert_eq!(
        place.expect(0, &["--store", "new", "runs", "--json"]).out,
        place.expect(0, &["--store", "kept", "runs", "--json"]).out
    );
    assert_eq!(shown("new"), shown("kept"));
}

#[test]
fn what_went_another_way_is_told_and_what_is_damaged_is_refused() {
    let place = Place::new();
    filled(&place);
    place.expect(0, &["export", "--all", "-o", "all.jsonl"]);
    let other = Store::open(place.path("other")).unwrap();
    other.create_session(NewSession::named("work")).unwrap();
    other.close().unwrap();
    drop(other);
    let strict = place.expect(4, &["--store", "other", "import", "--strict", "all.jsonl"]);
    assert!(strict.err.contains("nothing was written"), "{strict:?}");
    let said = place.expect(6, &["--store", "other", "import", "all.jsonl"]);
    assert!(
        said.err.contains("session \"work\"") && said.err.contains("another session of the name"),
        "{said:?}"
    );
    let store = Store::open_read_only(place.path("other")).unwrap();
    assert_eq!(
        store
            .chats()
            .get_messages("c", &MessageFilter::default())
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        store
            .runs()
            .list(&runlog::runs::ListRuns::default())
            .unwrap()
            .items,
        []
    );

    let lines = fs::read_to_string(place.path("all.jsonl")).unwrap();
    let cut: String = lines.split_inclusive('\n').take(5).collect();
    place.write("cut.jsonl", cut);
    let said = place.expect(1, &["--store", "third", "import", "cut.jsonl"]);
    assert!(
        said.err
            .contains("line 5: the export breaks off here; nothing was written"),
        "{said:?}"
    );
    let whole: String = lines.split_inclusive('\n').take(4).collect();
    place.write("cut.jsonl", &whole[..whole.len() - 20]);
    let said = place.expect(1, &["--store", "third", "import", "cut.jsonl"]);
    assert!(
        said.err
            .contains("line 4: the line breaks off; the file was cut off"),
        "{said:?}"
    );
}

#[test]
fn what_does_not_go_together_is_refused() {
    let place = Place::new();
    filled(&place);
    place.expect(2, &["export"]);
    place.expect(2, &["export", "--all", "work"]);
    place.expect(2, &["export", "--all", "--format", "openai"]);
    place.expect(0, &["export", "work", "-o", "work.jsonl"]);
    let said = place.expect(
        2,
        &["--store", "other", "import", "--project", "p", "work.jsonl"],
    );
    assert!(said.err.contains("leave --project out"), "{said:?}");
}

#[test]
fn a_file_beside_an_export_stays_as_it_is() {
    let place = Place::new();
    filled(&place);
    place.write("all.jsonl.partial", "notes of my own");
    place.expect(0, &["export", "--all", "-o", "all.jsonl"]);
    assert_eq!(
        fs::read_to_string(place.path("all.jsonl.partial")).unwrap(),
        "notes of my own"
    );
    // What fails leaves nothing: neither the file nor what was to become it.
    place.write("there.jsonl", "before");
    place.expect(4, &["export", "--all", "-o", "there.jsonl"]);
    assert_ne!(
        place.runlog(&["export", "nobody", "-o", "none.jsonl"]).code,
        0
    );
    let mut names: Vec<String> = fs::read_dir(place.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "all.jsonl",
            "all.jsonl.partial",
            "runlog-data",
            "there.jsonl"
        ]
    );
    assert_eq!(
        fs::read_to_string(place.path("there.jsonl")).unwrap(),
        "before"
    );
}

/// Whoever comes second is told so; the file is what the other one was asked for.
#[test]
fn of_two_exports_to_one_file_one_is_refused() {
    let place = Place::new();
    filled(&place);
    let exports = [
        &["export", "--all"][..],
        &["export", "work", "--format", "openai"],
    ];
    let whole: Vec<String> = exports
        .iter()
        .map(|export| place.expect(0, export).out)
        .collect();
    for round in 0..30 {
        let file = format!("{round}.jsonl");
        let started = exports.map(|export| {
            let mut command = place.command(&[export, &["-o", &file]].concat());
            command
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap()
        });
        let ended = started.map(|process| common::said(process.wait_with_output().unwrap()));
        let mut codes = [&ended[0], &ended[1]].map(|said| said.code);
        let winner = usize::from(codes[0] != 0);
        codes.sort_unstable();
        assert_eq!(codes, [0, 4], "{ended:?}");
        assert!(
            ended[1 - winner].err.contains("is there already"),
            "{ended:?}"
        );
        assert_eq!(
            fs::read_to_string(place.path(&file)).unwrap(),
            whole[winner],
            "round {round}"
        );
    }
}

#[test]
fn a_damaged_store_is_exported_with_what_is_missing_told_by_both_sides() {
    let place = Place::new();
    let script = ["ready", "say:the first thing", "say:the second", "done:{}"];
    assert_eq!(place.script(&["--name", "first"], &script).code, 0);
    let other = ["ready", "say:unharmed", "done:{}"];
    assert_eq!(place.script(&["--name", "second"], &other).code, 0);
    let path = place.path("runlog-data").join("00000001.seg");
    let mut bytes = fs::read(&path).unwrap();
    let said = b"the first thing";
    let found = bytes.windows(said.len()).position(|it| it == said);
    bytes[found.unwrap()] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let refused = place.expect(5, &["export", "--all", "-o", "all.jsonl"]);
    assert!(refused.err.contains("export --skip-damaged"), "{refused:?}");
    let arguments = ["export", "--all", "--skip-damaged", "-o", "all.jsonl"];
    let told = place.expect(6, &arguments);
    assert!(
        told.err.contains("lost: session") && told.err.contains("can't be read"),
        "{told:?}"
    );
    let imported = place.expect(6, &["--store", "new", "import", "all.jsonl"]);
    let all = format!("{}{}", imported.out, imported.err);
    assert!(all.contains("was lost before it was exported"), "{all}");
    let shown = place.expect(0, &["--store", "new", "show", "second"]);
    assert!(shown.out.contains("unharmed"), "{shown:?}");
    place.expect(0, &["--store", "new", "show", "first"]);
    // Of what is whole there is nothing to tell.
    place.expect(
        0,
        &["export", "second", "--skip-damaged", "-o", "one.jsonl"],
    );
    place.expect(
        2,
        &["export", "second", "--skip-damaged", "--format", "openai"],
    );
}
