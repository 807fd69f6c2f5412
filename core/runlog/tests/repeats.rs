//! What is said once more with the same idempotency key is told what it became the first time.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, RawJson,
    blocking::Store,
    contexts::{AppendOptions, ContextEventKind, EventOptions, RawMessage},
    runs::RunEntry,
    transcripts::NewContextEvent,
};

both! {
    a_repeat_after_a_truncation_is_refused_and_never_made_up
    a_repeat_tells_whether_what_it_wrote_is_still_there
    entries_repeated_in_a_later_step_are_told_their_own
    a_repeat_is_told_by_a_run_whose_budget_is_spent_or_that_has_ended
    many_open_calls_are_closed_on_resume
    a_repeat_of_another_length_is_told_what_is_there
}

fn keyed(key: &str) -> AppendOptions {
    AppendOptions {
        idempotency_key: Some(key.to_owned()),
        ..AppendOptions::default()
    }
}

fn user(text: &str) -> RawJson {
    NewMessage::user(text).to_json().unwrap()
}

fn entry(text: &str, begins_step: bool) -> RunEntry {
    let message = NewMessage::assistant(text).to_json().unwrap();
    RunEntry {
        events: NewContextEvent::of_message(message, &EventOptions::default()).unwrap(),
        begins_step,
    }
}

fn a_repeat_after_a_truncation_is_refused_and_never_made_up(store: &Store) {
    let (_, instance) = store.start_session(NewSession::default(), "agent").unwrap();
    let contexts = store.contexts();
    let append = |text: &str, options: &AppendOptions| {
        contexts.append_event_with(
            instance.id,
            ContextEventKind::UserMessage,
            user(text),
            None,
            options,
        )
    };
    let first = append("first", &keyed("key")).unwrap();
    // What is there is told, whatever is said the second time.
    let again = append("second", &keyed("key")).unwrap();
    assert_eq!(
        (again.position, again.sequence_number, &again.content),
        (first.position, 1, &first.content)
    );
    contexts.delete_events_after(instance.id, 0).unwrap();
    for text in ["first", "third"] {
        let refused = append(text, &keyed("key")).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert!(refused.to_string().contains("truncated"), "{refused}");
    }
    assert_eq!(contexts.last_sequence(instance.id).unwrap(), 0);
    // Not a later event that reuses the sequence either.
    append("another", &AppendOptions::default()).unwrap();
    let refused = append("first", &keyed("key")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(contexts.last_sequence(instance.id).unwrap(), 1);
}

fn a_repeat_of_another_length_is_told_what_is_there(store: &Store) {
    let (_, instance) = store.start_session(NewSession::default(), "agent").unwrap();
    let context = store.context(instance.id).unwrap();
    context.append_raw_message(user("before")).unwrap();
    let append = |key: &str, count: usize| {
        let messages = (0..count).map(|_| RawMessage::from(user("x")));
        let appended = context.append_raw_messages(messages, &keyed(key)).unwrap();
        (appended.first_sequence, appended.last_sequence)
    };
    assert_eq!(append("one", 1), (2, 2));
    assert_eq!(append("three", 3), (3, 5));
    assert_eq!(append("one", 2), (2, 2));
    assert_eq!(append("three", 1), (3, 5));
}

fn a_repeat_tells_whether_what_it_wrote_is_still_there(store: &Store) {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "agent"))
        .unwrap();
    let write = || {
        let message = run
            .record_raw_message_with(user("a"), &keyed("message"))
            .unwrap();
        let entries = run
            .record_entries(&[entry("b", false)], Some("entries"))
            .unwrap();
        [message, entries[0]].map(|recorded| (recorded.repeated, recorded.truncated))
    };
    assert_eq!(write(), [(false, false); 2]);
    assert_eq!(write(), [(true, false); 2]);
    store
        .contexts()
        .delete_events_after(run.run().instance_id, 1)
        .unwrap();
    assert_eq!(write(), [(true, false), (true, true)]);
}

fn entries_repeated_in_a_later_step_are_told_their_own(store: &Store) {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "agent"))
        .unwrap();
    let entries = [entry("a", true), entry("b", false), entry("c", true)];
    let first = run.record_entries(&entries, Some("key")).unwrap();
    assert_eq!(
        first.iter().map(|it| it.step_number).collect::<Vec<_>>(),
        [1, 1, 2]
    );
    let message = run
        .record_raw_message_with(user("d"), &keyed("message"))
        .unwrap();
    run.next_step().unwrap();
    run.record_message(NewMessage::assistant("e")).unwrap();
    for again in [run.record_entries(&entries, Some("key")).unwrap(), {
        let another = store.runs().recorder(run.id()).unwrap();
        another.record_entries(&entries, Some("key")).unwrap()
    }] {
        let told: Vec<_> = again
            .iter()
            .map(|it| (it.id, it.sequence_number, it.step_number, it.repeated))
            .collect();
        assert_eq!(
            told,
            first
                .iter()
                .map(|it| (it.id, it.sequence_number, it.step_number, true))
                .collect::<Vec<_>>()
        );
    }
    let again = run
        .record_raw_message_with(user("d"), &keyed("message"))
        .unwrap();
    assert_eq!(
        (again.id, again.step_number, again.repeated),
        (message.id, 2, true)
    );
    assert_eq!(run.run().step_count, 3);
}

fn a_repeat_is_told_by_a_run_whose_budget_is_spent_or_that_has_ended(store: &Store) {
    let new = NewRun {
        max_steps: Some(1),
        ..NewRun::in_new_session(NewSession::default(), "agent")
    };
    let run = store.runs().start(new).unwrap();
    let entries = [entry("a", true)];
    let first = run.record_entries(&entries, Some("entries")).unwrap();
    let message = run
        .record_raw_message_with(user("b"), &keyed("message"))
        .unwrap();
    let check = |refusal| {
        let again = run.record_entries(&entries, Some("entries")).unwrap();
        assert_eq!(
            (again[0].id, again[0].step_number, again[0].repeated),
            (first[0].id, 1, true)
        );
        assert_eq!(
            run.record_entries(&entries, Some("other"))
                .unwrap_err()
                .kind(),
            refusal
        );
        assert_eq!(
            run.record_entries(&entries, None).unwrap_err().kind(),
            refusal
        );
        let again = run
            .record_raw_message_with(user("b"), &keyed("message"))
            .unwrap();
        assert_eq!(
            (again.id, again.step_number, again.repeated),
            (message.id, 1, true)
        );
    };
    check(ErrorKind::LimitReached);
    run.complete(None).unwrap();
    check(ErrorKind::WrongStatus);
    let new = run
        .record_raw_message_with(user("c"), &keyed("new"))
        .unwrap_err();
    assert_eq!(new.kind(), ErrorKind::WrongStatus);
    assert_eq!(
        store
            .contexts()
            .last_sequence(run.run().instance_id)
            .unwrap(),
        2
    );
}

fn many_open_calls_are_closed_on_resume(store: &Store) {
    for (count, id_bytes) in [(3, 60), (800, 60), (100, 1024), (1024, 12)] {
        let run = store
            .runs()
            .start(NewRun::in_new_session(NewSession::default(), "agent"))
            .unwrap();
        let block =
            |n| format!(r#"{{"type":"tool_use","id":"{n:0>id_bytes$}","name":"f","input":{{}}}}"#);
        let blocks: Vec<String> = (0..count).map(block).collect();
        let message = format!(r#"{{"role":"assistant","content":[{}]}}"#, blocks.join(","));
        run.record_raw_message(RawJson::parse(message).unwrap())
            .unwrap();
        run.pause("later").unwrap();
        let resumed = store
            .runs()
            .resume(run.id(), &runlog::runs::ResumeOptions::default())
            .unwrap();
        assert_eq!(resumed.dangling.len(), count);
        let context = store.context(run.run().instance_id).unwrap();
        assert!(context.dangling_tool_calls().unwrap().is_empty());
        // The provider wants one message of results, where that can be.
        assert_eq!(
            resumed.messages.len() == 3,
            count * (id_bytes + 24) < 31 << 10,
            "{}",
            resumed.messages.len()
        );
    }
}
