//! The old tables `agent_chat` and `agent_history`, imported through the real binary.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::Place;

const CHATS: &str = concat!(
    r#"{"id":1,"chat_id":"c","title":"Old","assistant_id":"neo","silent":false,"created_at":"2024-02-29 00:00:00"}"#,
    "\n\n",
    r#"{"id":2,"chat_id":"d","title":null,"assistant_id":"neo","public":1}"#,
    "\n",
);

const HISTORY: &str = concat!(
    r#"{"id":7,"chat_id":"c","role":"user","content":"hi \"you\"","sid":"s1","created_at":"2024-02-29T00:00:01Z"}"#,
    "\r\n",
    r#"{"id":8,"chat_id":"c","role":"assistant","content":"hello","assistant_id":"neo"}"#,
);

fn messages(place: &Place, chat: &str) -> Vec<String> {
    let store = runlog::blocking::Store::open_read_only(place.path("runlog-data")).unwrap();
    let found = store
        .chats()
        .get_messages(chat, &runlog::chats::MessageFilter::default())
        .unwrap();
    found
        .into_iter()
        .map(|message| message.props.as_str().to_owned())
        .collect()
}

#[test]
fn the_old_tables_are_found_out_and_imported_once() {
    let place = Place::new();
    place.write("chats.jsonl", CHATS);
    place.write("history.jsonl", HISTORY);
    let said = place.expect(0, &["import", "chats.jsonl", "history.jsonl"]);
    assert!(said.out.contains("agent_chat, 2 chats  ("), "{said:?}");
    assert!(
        said.out.contains("agent_history, 2 messages  ("),
        "{said:?}"
    );
    assert_eq!(
        messages(&place, "c"),
        [r#"{"content":"hi \"you\""}"#, r#"{"content":"hello"}"#]
    );
    assert!(place.expect(0, &["chats"]).out.contains("Old"));

    let again = place
        .expect(0, &["import", "--json", "chats.jsonl", "history.jsonl"])
        .json();
    for (report, format) in again.iter().zip(["agent_chat", "agent_history"]) {
        assert_eq!(
            (&report["format"], &report["skipped"]),
            (&format.into(), &2.into()),
            "{report}"
        );
        assert_eq!(
            (&report["chats"], &report["messages"]),
            (&0.into(), &0.into()),
            "{report}"
        );
    }
    assert_eq!(messages(&place, "c").len(), 2);
    assert!(
        place
            .expect(0, &["import", "chats.jsonl"])
            .out
            .contains("0 chats; 2 rows there already")
    );
}

#[test]
fn rows_of_a_file_without_an_order_are_ordered_also_around_a_bad_line() {
    let place = Place::new();
    place.write("chats.jsonl", CHATS);
    place.expect(0, &["import", "chats.jsonl"]);
    // Larger than what is imported together of other tables.
    let long = "x".repeat(3 << 20);
    let row = |id: u32, second: u32| {
        format!(
            r#"{{"id":{id},"chat_id":"c","role":"user","content":"{second}","created_at":"2024-02-29 00:00:0{second}","note":"{long}"}}"#
        )
        .into_bytes()
    };
    let rows = [
        row(9, 4),
        row(11, 2),
        b"\xff".to_vec(),
        row(3, 3),
        row(12, 1),
    ];
    place.write("history.jsonl", rows.join(&b'\n'));
    let said = place.expect(6, &["import", "history.jsonl"]);
    assert!(
        said.err.contains("history.jsonl:3:1: the line isn't UTF-8"),
        "{said:?}"
    );
    let in_order = [1, 2, 3, 4].map(|second| format!(r#"{{"content":"{second}"}}"#));
    assert_eq!(messages(&place, "c"), in_order);
    let help = place.expect(0, &["import", "--help"]).out;
    let words: Vec<_> = help.split_whitespace().collect();
    assert!(words.join(" ").contains("ordered by created_at"), "{help}");
}

#[test]
fn bad_rows_are_told_with_their_line_and_the_others_are_imported() {
    let place = Place::new();
    place.write("chats.jsonl", CHATS);
    place.expect(0, &["import", "chats.jsonl"]);
    let rows: [&[u8]; 6] = [
        br#"{"id":1,"chat_id":"c","role":"user","content":"fine"}"#,
        b"not json",
        b"{\"id\":2,\"chat_id\":\"c\",\"role\":\"user\",\"content\":\"\xff\"}",
        br#"{"id":3,"chat_id":"nobody","role":"user","content":"x"}"#,
        br#"{"id":4,"chat_id":"c","role":"king\u001b[31m","content":"x"}"#,
        br#"{"id":5,"chat_id":"c","role":"assistant","content":"fine too"}"#,
    ];
    place.write("history.jsonl", rows.join(&b'\n'));
    let said = place.expect(6, &["import", "history.jsonl"]);
    for expected in [
        "history.jsonl:2:1: the line is no JSON",
        "history.jsonl:3:1: the line isn't UTF-8",
        "history.jsonl:4:1: no chat \"nobody\", or it was deleted; import agent_chat first",
        "history.jsonl:5:1: the role should be user or assistant",
    ] {
        assert!(said.err.contains(expected), "{expected}: {said:?}");
    }
    assert!(
        !said.err.contains('\u{1b}') && said.out.contains("2 messages"),
        "{said:?}"
    );
    let report = place
        .expect(6, &["import", "--json", "history.jsonl"])
        .json()
        .remove(0);
    let lines: Vec<_> = report["issues"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["line"].as_u64().unwrap())
        .collect();
    assert_eq!((lines, &report["skipped"]), (vec![2, 3, 4, 5], &2.into()));

    // A strict import takes nothing from the first bad line on.
    let strict = Place::new();
    strict.write("chats.jsonl", CHATS);
    strict.expect(0, &["import", "chats.jsonl"]);
    strict.write("history.jsonl", rows.join(&b'\n'));
    let said = strict.expect(1, &["import", "--strict", "history.jsonl"]);
    assert!(
        said.err.contains("line 2: ") && said.err.contains("stopped here"),
        "{said:?}"
    );
    assert_eq!(messages(&strict, "c"), [r#"{"content":"fine"}"#]);
    // Where nothing of a file was taken, the import failed.
    strict.write(
        "history.jsonl",
        r#"{"id":9,"chat_id":"nobody","role":"user","content":"x"}"#,
    );
    strict.expect(1, &["import", "history.jsonl"]);
}

#[test]
fn a_table_may_be_named_and_come_from_standard_input() {
    let place = Place::new();
    for format in ["agent_chat", "agent-chat"] {
        let said = place.with_input(&["import", "--format", format, "-"], CHATS.as_bytes());
        assert_eq!(said.code, 0, "{said:?}");
    }
    assert_eq!(
        place.with_input(&["import", "-"], HISTORY.as_bytes()).code,
        0
    );
    assert_eq!(messages(&place, "c").len(), 2);
    place.write("chats.jsonl", CHATS);
    let said = place.expect(2, &["import", "--project", "p", "chats.jsonl"]);
    assert!(said.err.contains("agent_chat has no project"), "{said:?}");
    // Rows without an id are those of a transcript.
    place.write(
        "chat.jsonl",
        r#"{"chat_id":"c","role":"user","content":"hi"}"#,
    );
    assert_eq!(
        place.expect(0, &["import", "--json", "chat.jsonl"]).json()[0]["format"],
        "openai"
    );
}

#[test]
fn a_long_table_is_imported_in_parts_with_its_line_numbers() {
    let place = Place::new();
    place.write("chats.jsonl", CHATS);
    place.expect(0, &["import", "chats.jsonl"]);
    let text = "x".repeat(10_000);
    let row = |id: u32| match id {
        900 => "{".to_owned(),
        id => format!(r#"{{"id":{id},"chat_id":"c","role":"user","content":"{text}"}}"#),
    };
    place.write(
        "history.jsonl",
        (1..=1000).map(row).collect::<Vec<_>>().join("\n"),
    );
    let report = place
        .expect(6, &["import", "--json", "history.jsonl"])
        .json()
        .remove(0);
    assert_eq!(
        (&report["messages"], &report["issues"][0]["line"]),
        (&999.into(), &900.into())
    );
    assert_eq!(messages(&place, "c").len(), 999);
}

const MESSAGES: &str = concat!(
    r#"{"id":1,"message_id":"m1","chat_id":"c","request_id":"r1","role":"user","type":"text","props":{"content":"hi"},"block_id":null,"thread_id":null,"assistant_id":null,"sequence":1,"metadata":null,"created_at":"2024-02-29 00:00:01","updated_at":"2024-02-29 00:00:01"}"#,
    "\n",
    r#"{"id":2,"message_id":"m2","chat_id":"c","request_id":"r1","role":"assistant","type":"image","props":"{\"url\":\"a.png\"}","assistant_id":"neo","sequence":2,"created_at":"2024-02-29 00:00:02","updated_at":"2024-02-29 00:00:02"}"#,
    "\n",
    r#"{"id":3,"message_id":"m3","chat_id":"c","role":"user","type":"text","props":{"content":"gone"},"sequence":3,"deleted_at":"2024-03-01 00:00:00"}"#,
    "\n",
);

const STEPS: &str = concat!(
    r#"{"id":1,"step_id":"s1","chat_id":"c","request_id":"r1","assistant_id":"neo","stack_id":"k1","stack_parent_id":null,"stack_depth":0,"type":"llm","status":"interrupted","input":{"a":1.0},"output":null,"space_snapshot":{},"error":null,"sequence":1,"metadata":null,"created_at":"2024-02-29 00:00:01","updated_at":"2024-02-29 00:00:01"}"#,
    "\n",
);

#[test]
fn the_tables_of_messages_and_steps_are_found_out_and_imported_once() {
    let place = Place::new();
    place.write("agent_message.jsonl", MESSAGES);
    place.write("agent_step.jsonl", STEPS);
    let said = place.expect(0, &["import", "agent_message.jsonl", "agent_step.jsonl"]);
    assert!(
        said.out
            .contains("agent_message, 1 chat, 2 messages; 1 row there already"),
        "{said:?}"
    );
    assert!(said.out.contains("agent_step, 1 step  ("), "{said:?}");
    assert_eq!(
        messages(&place, "c"),
        [r#"{"content":"hi"}"#, r#"{"url":"a.png"}"#]
    );
    let store = runlog::blocking::Store::open_read_only(place.path("runlog-data")).unwrap();
    assert_eq!(
        store
            .chats()
            .resume("c")
            .unwrap()
            .unwrap()
            .input()
            .unwrap()
            .as_str(),
        r#"{"a":1.0}"#
    );
    drop(store);
    let again = place
        .expect(
            0,
            &[
                "import",
                "--json",
                "agent_message.jsonl",
                "agent_step.jsonl",
            ],
        )
        .json();
    assert_eq!(
        (
            &again[0]["messages"],
            &again[0]["skipped"],
            &again[0]["chats"]
        ),
        (&0.into(), &3.into(), &0.into())
    );
    assert_eq!(
        (&again[1]["steps"], &again[1]["skipped"]),
        (&0.into(), &1.into())
    );
    let named = place.with_input(&["import", "--format", "agent-step", "-"], STEPS.as_bytes());
    assert_eq!(named.code, 0, "{named:?}");
}
