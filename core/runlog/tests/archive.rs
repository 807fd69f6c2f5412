//! An archive gives back what a store had.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]
#![cfg(not(target_family = "wasm"))]

#[path = "archive/answers.rs"]
mod answers;
#[path = "archive/rich.rs"]
mod rich;

use std::{
    io::{BufRead, Cursor},
    path::Path,
    sync::Arc,
};

use answers::Answers;
use runlog::{
    Error, ErrorKind, NewMessage, NewRun, NewSession, SessionId, StoreOptions,
    archive::{self, Exported, ImportClock, Imported, Outcome, What},
    blocking::Store,
    engine::SystemHost,
    log::Position,
    retention::RetentionPolicy,
    sessions::{CopySession, SessionChanges},
};

fn export(store: &Store, what: What<'_>) -> Vec<u8> {
    let (lines, _) = exported(store, what);
    lines
}

fn exported(store: &Store, what: What<'_>) -> (Vec<u8>, Exported) {
    let mut lines = Vec::new();
    let told = archive::export(store, what, &mut |line| {
        lines.extend_from_slice(line);
        Ok::<(), Error>(())
    });
    (lines, told.unwrap())
}

/// Opens a store to read these lines into.
fn open(folder: &Path, lines: &[u8]) -> (Store, Arc<ImportClock>) {
    let clock = ImportClock::new(Arc::new(SystemHost));
    clock.stand_at(
        archive::first_time(&mut Cursor::new(lines))
            .unwrap()
            .unwrap(),
    );
    let store = Store::open_with(folder, StoreOptions::with_host(clock.clone())).unwrap();
    clock.go_on();
    (store, clock)
}

fn try_import(
    store: &Store,
    clock: Option<&ImportClock>,
    lines: &[u8],
) -> runlog::Result<Imported> {
    let mut source = || Ok(Box::new(Cursor::new(lines.to_vec())) as Box<dyn BufRead>);
    archive::import(store, clock, false, &mut source)
}

fn import(store: &Store, lines: &[u8]) -> Imported {
    try_import(store, None, lines).unwrap()
}

fn outcomes(imported: &Imported) -> Vec<Outcome> {
    imported
        .sessions
        .iter()
        .map(|session| session.outcome)
        .collect()
}

fn assert_same(expected: &Answers, found: &Answers) {
    for (expected, found) in expected.0.iter().zip(&found.0) {
        assert_eq!(expected, found);
    }
    assert_eq!(expected.0.len(), found.0.len());
}

fn last_position(store: &Store) -> Position {
    pollster::block_on(store.backend().maintenance().last_position()).unwrap()
}

#[test]
fn an_archive_of_everything_gives_a_store_that_answers_as_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let original = rich::open(&folder.path().join("original"));
    rich::fill(&original);
    let expected = Answers::of(&original);
    assert!(expected.0.len() > 300, "{} answers", expected.0.len());
    let (lines, told) = exported(&original, What::All);
    let (other, clock) = open(&folder.path().join("other"), &lines);
    let imported = try_import(&other, Some(&clock), &lines).unwrap();
    assert_eq!(imported.conflicts, []);
    assert!(
        imported.sessions.len() > 10
            && outcomes(&imported).iter().all(|it| *it == Outcome::Created)
    );
    assert_eq!(
        (
            imported.messages + imported.tool_calls + imported.chat_messages + imported.other,
            imported.skipped
        ),
        (told.records + told.snapshots, 0)
    );
    assert_same(&expected, &Answers::of(&other));

    // Once more, it changes nothing, and a copy of the copy is the copy.
    let end = last_position(&other);
    let again = try_import(&other, Some(&clock), &lines).unwrap();
    assert_eq!(
        (
            again.messages,
            again.tool_calls,
            again.other,
            again.conflicts.len()
        ),
        (0, 0, 0, 0)
    );
    assert!(outcomes(&again).iter().all(|it| *it == Outcome::Unchanged));
    assert_eq!(last_position(&other), end);
    assert_eq!(exported(&other, What::All).1, told);
    // Nor does it in the store that it came from, which may be a reader's to compare with.
    other.close().unwrap();
    drop(other);
    let reader = Store::open_read_only(folder.path().join("other")).unwrap();
    assert_same(&expected, &Answers::of(&reader));
    let back = import(&original, &lines);
    assert_eq!(
        (back.messages + back.tool_calls + back.other, back.conflicts),
        (0, Vec::new())
    );
}

#[test]
fn one_session_comes_with_all_that_is_its_own_and_the_runs_it_hangs_on() {
    let original = Store::in_memory();
    rich::fill(&original);
    let sessions = original
        .list_sessions(&runlog::sessions::ListSessions {
            limit: 100,
            ..Default::default()
        })
        .unwrap()
        .items;
    for session in &sessions {
        let (lines, told) = exported(&original, What::Sessions(&[session.id]));
        // The run of `far` was spawned by one of `tree`.
        let with_it = if session.name.as_deref() == Some("far") {
            2
        } else {
            1
        };
        assert_eq!(told.sessions.len(), with_it, "{session:?}");
        let other = Store::in_memory();
        let imported = import(&other, &lines);
        assert!(
            imported.conflicts.is_empty()
                && outcomes(&imported).iter().all(|it| *it == Outcome::Created)
        );
        let answers = |store| {
            let mut answers = Answers::default();
            answers.session(store, session.id);
            without_log_times(answers)
        };
        let (mut of_original, mut of_other) = (answers(&original), answers(&other));
        if session.name.as_deref() == Some("tree") {
            let is_children = |line: &String| line.starts_with("children:");
            of_original.0.retain(|line| !is_children(line));
            of_other.0.retain(|line| !is_children(line));
        }
        assert_same(&of_original, &of_other);
        // Then the whole store beside it, and with it the run that one of `tree` spawned elsewhere.
        let all = import(&other, &export(&original, What::All));
        // A session that is deleted can't come after another one has taken its name.
        let left_out = usize::from(session.name.as_deref() == Some("deleted"));
        assert_eq!(
            all.conflicts.len(),
            left_out,
            "after {session:?}: {:?}",
            all.conflicts
        );
        assert_eq!(
            other
                .list_sessions(&runlog::sessions::ListSessions {
                    limit: 100,
                    ..Default::default()
                })
                .unwrap()
                .items
                .len(),
            sessions.len()
        );
        assert_same(&answers(&original), &answers(&other));
    }
    let nobody = SessionId(uuid::Uuid::from_u128(1));
    let refused = archive::export(&original, What::Sessions(&[nobody]), &mut |_| {
        Ok::<(), Error>(())
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
}

const LOG_TIMES: [&str; 3] = ["record:", "snapshot:", "playback:"];

/// Without the times of the log, which only a store with an import's clock keeps.
fn without_log_times(answers: Answers) -> Answers {
    let is_timed = |line: &String| LOG_TIMES.iter().any(|it| line.starts_with(it));
    Answers(
        answers
            .0
            .into_iter()
            .filter(|line| !is_timed(line))
            .collect(),
    )
}

#[test]
fn an_import_that_was_cut_off_lists_nothing_and_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    let original = rich::open(&folder.path().join("original"));
    rich::fill(&original);
    let lines = export(&original, What::All);
    let mut cuts = 0;
    for batches in 0.. {
        let place = folder.path().join(format!("cut-{batches}"));
        let (whole, clock) = open(&place, &lines);
        // A device that is full after so many writes is what a kill leaves, as far as the log goes.
        let failing = Store::with_backend(Arc::new(rich::Failing::new(
            Arc::clone(whole.backend()),
            batches,
        )));
        match try_import(&failing, Some(&clock), &lines) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::StorageFull),
        }
        cuts += 1;
        drop(failing);
        drop(whole);
        let (other, clock) = open(&place, &lines);
        assert_eq!(
            other
                .list_sessions(&runlog::sessions::ListSessions::default())
                .unwrap()
                .items,
            []
        );
        assert!(
            other
                .runs()
                .list(&runlog::runs::ListRuns::default())
                .unwrap()
                .items
                .is_empty()
        );
        let imported = try_import(&other, Some(&clock), &lines).unwrap();
        assert_eq!(imported.conflicts, []);
        assert_eq!(
            outcomes(&imported).contains(&Outcome::Completed),
            batches > 0
        );
        assert_same(&Answers::of(&original), &Answers::of(&other));
    }
    assert!(cuts > 20, "{cuts} cuts");
}

#[test]
fn what_is_new_is_added_and_what_went_another_way_is_told_and_left() {
    let original = Store::in_memory();
    let (one, agent) = original
        .start_session(NewSession::named("one"), "main")
        .unwrap();
    let (two, _) = original
        .start_session(NewSession::named("two"), "main")
        .unwrap();
    let context = original.context(agent.id).unwrap();
    context.append_message(NewMessage::user("a")).unwrap();
    let other = Store::in_memory();
    import(&other, &export(&original, What::All));
    let run = original.runs().start(NewRun::new(agent.id)).unwrap();
    run.next_step().unwrap();
    run.record_message(NewMessage::assistant("b")).unwrap();
    run.complete(None).unwrap();
    let grown = import(&other, &export(&original, What::All));
    assert_eq!(outcomes(&grown), [Outcome::Continued, Outcome::Unchanged]);
    assert_eq!((grown.messages, grown.conflicts.len()), (1, 0));
    assert_eq!(other.runs().get(run.id()).unwrap(), Some(run.run()));

    // The store goes on by itself: an export from before changes nothing of it.
    let before = export(&original, What::All);
    other
        .context(agent.id)
        .unwrap()
        .append_message(NewMessage::user("here"))
        .unwrap();
    assert_eq!(
        outcomes(&import(&other, &before)),
        [Outcome::Unchanged, Outcome::Unchanged]
    );
    // Both went on: that session is left out as a whole, the other is not.
    context.append_message(NewMessage::user("there")).unwrap();
    let changes = SessionChanges {
        title: Some("T".into()),
        ..SessionChanges::default()
    };
    original.update_session(one.id, changes.clone()).unwrap();
    original.update_session(two.id, changes).unwrap();
    let both = import(&other, &export(&original, What::All));
    assert_eq!(outcomes(&both), [Outcome::Conflict, Outcome::Continued]);
    let told = &both.conflicts[0].what;
    assert!(
        told.contains("\"one\"")
            && told.contains(&agent.id.to_string())
            && told.contains("sequence 3"),
        "{told}"
    );
    assert_eq!(other.get_session(one.id).unwrap().unwrap().title, None);
    assert_eq!(
        other.get_session(two.id).unwrap().unwrap().title.as_deref(),
        Some("T")
    );
    // Strictly, nothing is written at all.
    let strictly = archive::import(&Store::in_memory(), None, true, &mut || {
        Ok(Box::new(Cursor::new(before.clone())) as Box<dyn BufRead>)
    });
    assert!(strictly.is_ok());
    let lines = export(&original, What::All);
    let mut source = || Ok(Box::new(Cursor::new(lines.clone())) as Box<dyn BufRead>);
    assert_eq!(
        archive::import(&other, None, true, &mut source)
            .unwrap_err()
            .kind(),
        ErrorKind::Conflict
    );
}

#[test]
fn a_name_that_is_taken_leaves_the_session_out() {
    let original = Store::in_memory();
    let session = original.create_session(NewSession::named("n")).unwrap();
    original
        .start_session(NewSession::named("free"), "main")
        .unwrap();
    let other = Store::in_memory();
    other.create_session(NewSession::named("n")).unwrap();
    let imported = import(&other, &export(&original, What::All));
    assert_eq!(outcomes(&imported), [Outcome::Conflict, Outcome::Created]);
    assert!(
        imported.conflicts[0]
            .what
            .contains("another session of the name \"n\""),
        "{:?}",
        imported.conflicts
    );
    assert_eq!(other.get_session(session.id).unwrap(), None);
    assert!(other.find_session("free").is_ok());
}

/// An archive as somebody leaves it who changes it on purpose.
fn without_crc(archive: Vec<u8>) -> String {
    let lines = String::from_utf8(archive).unwrap();
    let at = lines.rfind(",\"crc\":").expect("it ends with the CRC");
    format!("{}}}\n", &lines[..at])
}

#[test]
fn a_changed_byte_is_told_wherever_it_is_and_ends_of_lines_do_not_matter() {
    let original = Store::in_memory();
    rich::runs(&original);
    let archive = export(&original, What::All);
    let lines = String::from_utf8(archive.clone()).unwrap();
    let refused = |archive: &[u8]| {
        let other = Store::in_memory();
        let error = try_import(&other, None, archive).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(last_position(&other).0, 0);
        error.to_string()
    };
    // A byte of a text, and a kind that is one as good as the other.
    for (from, to) in [
        ("\"payload\":{", "\"payload\": {"),
        ("\"kind\":2", "\"kind\":3"),
    ] {
        let changed = lines.replacen(from, to, 1);
        assert_ne!(changed, lines);
        refused(changed.as_bytes());
        let told = refused(lines.replacen("fix", "fax", 1).as_bytes());
        assert!(told.contains("damaged or changed"), "{told}");
    }
    // Of each line the last letter within quotes, whatever it is.
    for (number, line) in lines.lines().enumerate() {
        let mut changed = archive.clone();
        let start = line.as_ptr() as usize - lines.as_ptr() as usize;
        let at = start
            + line
                .rfind(|char: char| char.is_ascii_alphanumeric())
                .unwrap();
        changed[at] ^= 1;
        let told = refused(&changed);
        assert!(
            told.contains("nothing was written"),
            "line {number}: {told}"
        );
    }
    for same in [
        without_crc(archive.clone()),
        lines.replace('\n', "\r\n"),
        lines.replace('\n', "\n\n"),
    ] {
        let other = Store::in_memory();
        import(&other, same.as_bytes());
        let again = String::from_utf8(export(&other, What::All)).unwrap();
        assert_eq!(again.lines().count(), lines.lines().count());
    }
}

#[test]
fn what_is_no_archive_is_told_as_that() {
    for (bytes, told) in [
        (&b""[..], "there is nothing in it"),
        (b"Dear diary,\n", "line 1: this is no export of a store"),
        (
            b"{\"role\":\"user\",\"content\":\"hi\"}\n",
            "line 1: this is no export of a store",
        ),
        (
            b"\x1f\x8b\x08\0\0\0\0\0\0\x03",
            "line 1: this is compressed by gzip; unpack it",
        ),
    ] {
        let mut source = || Ok(Box::new(bytes) as Box<dyn BufRead>);
        let error = archive::import(&Store::in_memory(), None, true, &mut source).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains(told), "{bytes:?}: {error}");
    }
}

#[test]
fn what_is_not_a_whole_archive_writes_nothing() {
    let original = Store::in_memory();
    rich::runs(&original);
    let lines = without_crc(export(&original, What::All));
    let all: Vec<&str> = lines.lines().collect();
    let without = |left_out: usize| {
        let kept = all
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != left_out)
            .map(|(_, line)| *line);
        kept.collect::<Vec<_>>().join("\n")
    };
    let mut broken: Vec<String> = (0..all.len()).map(without).collect();
    broken.extend([
        String::new(),
        lines.repeat(2),
        lines.replace("\"kind\":2", "\"kind\":131"),
        format!("{lines}x"),
    ]);
    broken.push(lines.replacen("\"sequence\":2", "\"sequence\":3", 1));
    broken.push(lines.replace(
        "session_created\",\"meta\":\"",
        "session_created\",\"meta\":\"/w==",
    ));
    // What could be written, but never be read again.
    let changed = |holds: &str, from: &str, to: &str| {
        let mut streams = Vec::new();
        let changed: Vec<String> = all
            .iter()
            .map(|line| {
                if line.starts_with(r#"{"runlog":"stream""#) {
                    if line.contains(&format!(r#""of":"{holds}""#)) {
                        streams.extend(line.split('"').nth(7));
                    }
                    return (*line).to_owned();
                }
                let is_of = streams.iter().any(|stream: &&str| line.contains(stream));
                match is_of {
                    true => line.replace(from, to),
                    false => (*line).to_owned(),
                }
            })
            .collect();
        let changed = changed.join("\n");
        assert_ne!(changed, all.join("\n"), "{holds}: {from}");
        changed
    };
    let with_content = |content: &str| {
        let changed = all
            .iter()
            .map(|line| match line.split_once("\"payload\":") {
                Some((before, _)) if line.contains("\"what\":\"user_message\"") => {
                    format!("{before}{content}}}")
                }
                _ => (*line).to_owned(),
            });
        changed.collect::<Vec<_>>().join("\n")
    };
    broken.extend([
        with_content("\"payload_text\":\"\""),
        with_content("\"payload_text\":\"no JSON\""),
        changed("context", r#""kind":2"#, r#""kind":96"#),
        changed("run", r#""status":"running""#, r#""status":"completed""#),
        changed("run", r#""step_number":1"#, r#""step":1"#),
        lines.replacen(r#""of":"context""#, r#""of":"run""#, 1),
        lines.replacen(r#""of":"run""#, r#""of":"stream""#, 1),
        lines.replacen(r#""of":"context""#, r#""of":"stream""#, 1),
    ]);
    let other = Store::in_memory();
    for text in &broken {
        let refused = try_import(&other, None, text.as_bytes()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{refused}: {text}");
        assert!(
            refused.to_string().contains("nothing was written"),
            "{refused}"
        );
    }
    assert_eq!(
        pollster::block_on(other.backend().scan(Position(1), 10))
            .unwrap()
            .records,
        []
    );
}

#[test]
fn what_is_written_or_truncated_meanwhile_is_told_or_not_in_it() {
    let three = |store: &Store| {
        let (_, agent) = store.start_session(NewSession::named("n"), "main").unwrap();
        let context = store.context(agent.id).unwrap();
        for text in ["a", "b", "c"] {
            context.append_message(NewMessage::user(text)).unwrap();
        }
        context
    };
    let export_and = |store: &Store, meanwhile: &dyn Fn()| {
        let mut lines = Vec::new();
        archive::export(store, What::All, &mut |line| {
            if lines.is_empty() {
                meanwhile();
            }
            lines.extend_from_slice(line);
            Ok::<(), Error>(())
        })
        .map(|_| lines)
    };
    let store = Store::in_memory();
    let context = three(&store);
    let lines = export_and(&store, &|| {
        context.truncate_after_sequence(1).unwrap();
        context.append_message(NewMessage::user("later")).unwrap();
        store.create_session(NewSession::named("later")).unwrap();
    });
    let other = Store::in_memory();
    assert_eq!(
        outcomes(&import(&other, &lines.unwrap())),
        [Outcome::Created]
    );
    assert_eq!(
        other
            .context(context.instance_id())
            .unwrap()
            .get_messages()
            .unwrap()
            .len(),
        1
    );

    let store = Store::in_memory();
    three(&store);
    let given_up = export_and(&store, &|| {
        let policy = RetentionPolicy {
            max_bytes: Some(1),
            ..RetentionPolicy::default()
        };
        assert_eq!(store.retain(&policy).unwrap().sessions, 1);
    });
    let refused = given_up.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(refused.to_string().contains("given up"), "{refused}");
    // What is only deleted is in it as it was.
    let store = Store::in_memory();
    let context = three(&store);
    let session = store.find_session("n").unwrap().id;
    let deleted = export_and(&store, &|| store.delete_session(session).unwrap());
    let other = Store::in_memory();
    import(&other, &deleted.unwrap());
    let copy = other.context(context.instance_id()).unwrap();
    assert_eq!(copy.get_messages().unwrap().len(), 3);
}

#[test]
fn copies_have_what_is_truncated_meanwhile_in_what_they_were_copied_from() {
    // One of a context of nine, then one of that copy, each with a message of its own and a run.
    let made = || {
        let store = Store::in_memory();
        let (session, agent) = store.start_session(NewSession::named("n"), "main").unwrap();
        let (mut id, mut contexts) = (session.id, Vec::new());
        let context = store.context(agent.id).unwrap();
        for text in 0..9 {
            let message = NewMessage::user(text.to_string());
            context.append_message(message).unwrap();
        }
        contexts.push(context);
        for _ in 0..2 {
            let copy = store.copy_session(id, &CopySession::default()).unwrap();
            id = copy.session.id;
            let context = store.context(copy.instances[0].instance.id).unwrap();
            context.append_message(NewMessage::user("own")).unwrap();
            contexts.push(context);
        }
        (store, contexts)
    };
    let (store, _) = made();
    let lines = export(&store, What::All)
        .split(|byte| *byte == b'\n')
        .count();
    for at in 0..lines {
        for (cut, keep) in [(0, 0), (0, 1), (0, 5), (1, 0), (1, 4), (1, 9)] {
            let (store, contexts) = made();
            let (mut bytes, mut count) = (Vec::new(), 0);
            let exported = archive::export(&store, What::All, &mut |line| {
                if count == at {
                    let kept = contexts[cut].truncate_after_sequence(keep);
                    assert!(kept.unwrap() > 0);
                }
                count += 1;
                bytes.extend_from_slice(line);
                Ok::<(), Error>(())
            });
            exported.unwrap();
            let other = Store::in_memory();
            import(&other, &bytes);
            for (index, context) in contexts.iter().enumerate() {
                let there = other.context(context.instance_id()).unwrap();
                let there = there.get_messages().unwrap();
                let there = there.iter().map(|message| message.json.as_str());
                let (own, there) = (context.get_messages().unwrap(), there.collect::<Vec<_>>());
                let own: Vec<_> = own.iter().map(|message| message.json.as_str()).collect();
                // What was truncated may have been written before.
                let is_same = match index == cut {
                    true => there.starts_with(&own),
                    false => there == own,
                };
                assert!(
                    is_same,
                    "line {at}, context {cut} cut to {keep}: {index} has {there:?}"
                );
            }
        }
    }
}

#[test]
fn nothing_is_added_to_a_session_that_was_deleted_and_given_up() {
    let original = Store::in_memory();
    let started = original.start_session(NewSession::named("n"), "main");
    let (session, agent) = started.unwrap();
    let context = original.context(agent.id).unwrap();
    context.append_message(NewMessage::user("a PIN")).unwrap();
    let session = session.id;
    let before = export(&original, What::All);
    // Only deleted, it is there as it was: nothing is to be added.
    original.delete_session(session).unwrap();
    assert_eq!(import(&original, &before).conflicts, []);
    let policy = RetentionPolicy {
        deleted: true,
        ..RetentionPolicy::default()
    };
    assert_eq!(original.retain(&policy).unwrap().sessions, 1);
    let again = import(&original, &before);
    assert_eq!(outcomes(&again), [Outcome::Conflict]);
    assert!(again.conflicts[0].what.contains("was deleted"), "{again:?}");
    assert_eq!(context.get_last_sequence().unwrap(), 0);
}

#[test]
fn records_of_the_future_do_not_take_the_log_there() {
    let folder = tempfile::tempdir().unwrap();
    let original = rich::open(&folder.path().join("original"));
    let (_, agent) = original
        .start_session(NewSession::named("n"), "main")
        .unwrap();
    original
        .context(agent.id)
        .unwrap()
        .append_message(NewMessage::user("a"))
        .unwrap();
    let lines = without_crc(export(&original, What::All));
    let later = lines.replace("\"time_ms\":16", "\"time_ms\":96");
    let (other, clock) = open(&folder.path().join("other"), later.as_bytes());
    try_import(&other, Some(&clock), later.as_bytes()).unwrap();
    let record = other.backend().maintenance().record(last_position(&other));
    let last = pollster::block_on(record).unwrap().unwrap();
    assert!(
        (1_700_000_000_000..9_600_000_000_000).contains(&last.time_ms),
        "{last:?}"
    );
    let told = |store: &Store| store.contexts().get_events(agent.id, 1).unwrap()[0].created_at_ms;
    assert_eq!(told(&other), told(&original) + 8_000_000_000_000);
}

#[test]
fn imports_of_one_archive_at_once_stand_in_line() {
    let original = Store::in_memory();
    rich::fill(&original);
    let lines = export(&original, What::All);
    let store = Store::in_memory();
    let imported: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..10)
            .map(|_| scope.spawn(|| try_import(&store, None, &lines)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let imported: Vec<Imported> = imported.into_iter().map(|it| it.unwrap()).collect();
    assert!(
        imported.iter().all(|it| it.conflicts.is_empty()),
        "{imported:?}"
    );
    let made = imported.iter().filter(|it| {
        outcomes(it)
            .iter()
            .all(|outcome| *outcome == Outcome::Created)
    });
    assert_eq!(made.count(), 1, "one finds nothing there");
    let unchanged = imported.iter().filter(|it| {
        outcomes(it)
            .iter()
            .all(|outcome| *outcome == Outcome::Unchanged)
    });
    assert_eq!(unchanged.count(), 9, "the others find all of it there");
}
