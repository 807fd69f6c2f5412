//! What the history of a run shows of what was redacted: the same messages and calls, at the same places and steps, with
//! placeholders in the place of their contents.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod both;

use proptest::{collection::vec, prelude::*};
use runlog::{
    NewRun, NewSession, RawJson, RunId, archive,
    blocking::{RunRecorder, Store},
    log::{Batch, Op, Position},
    runs::{ListRunMessages, ListToolCalls, RunMessage, ToolCall, ToolCallStatus, ToolOutcome},
};

both! {
    one_redacted_event_changes_nothing_but_its_content
    whatever_is_redacted_stays_in_its_place
    a_redacted_result_is_of_the_call_that_no_other_answers
    a_call_that_waits_for_its_result_goes_on_waiting_whatever_else_is_redacted
    what_was_redacted_beside_a_run_is_not_its_own
    the_step_of_what_was_redacted_does_not_hang_on_what_is_near
    a_page_that_begins_within_an_answer_gives_no_call_the_output_of_another
    a_call_that_a_run_left_open_takes_its_late_result
    all_calls_of_an_answer_that_is_redacted_too_have_their_results
}

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

/// A run of three steps: two calls, one call, an answer.
fn run_of(store: &Store, asks: [&str; 2]) -> RunRecorder {
    let user = raw(r#"{"role":"user","content":"go"}"#);
    let run = store
        .runs()
        .start(NewRun {
            messages: vec![user],
            ..NewRun::in_new_session(NewSession::default(), "coder")
        })
        .unwrap();
    for (ask, ids) in asks.into_iter().zip([&["a", "b"][..], &["c"]]) {
        run.record_raw_message(raw(ask)).unwrap();
        // In another order than they were made.
        for id in ids.iter().rev() {
            let output = RawJson::string(&format!("secret {id}"));
            run.record_tool_result(&ToolOutcome::completed(*id, output))
                .unwrap();
        }
        run.next_step().unwrap();
    }
    run.record_raw_message(raw(r#"{"role":"assistant","content":"done"}"#))
        .unwrap();
    run
}

const OPENAI: [&str; 2] = [
    r#"{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"ls","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"rm","arguments":"{}"}}]}"#,
    r#"{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"cat","arguments":"{}"}}]}"#,
];
const ANTHROPIC: [&str; 2] = [
    r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{}},{"type":"tool_use","id":"b","name":"rm","input":{}}]}"#,
    r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"cat","input":{}}]}"#,
];

/// The events of the run's context as they are now: sequence, position, whether redacted.
fn events(store: &Store, run: &RunRecorder) -> Vec<(u64, u64, bool)> {
    let events = store.contexts().get_events(run.run().instance_id, 1);
    let events = events.unwrap().into_iter();
    events
        .map(|event| (event.sequence_number, event.position, event.redacted))
        .collect()
}

fn redact(store: &Store, position: u64) {
    let ops = Op::redactions(&[Position(position)], "asked for");
    pollster::block_on(store.backend().commit(Batch::new(ops))).unwrap();
}

/// All messages of a run, in pages of two; backwards they are the same, and those of each step are those of it.
fn messages(store: &Store, id: RunId) -> Vec<RunMessage> {
    let list = |newest_first, step_number| {
        let mut options = ListRunMessages {
            step_number,
            newest_first,
            limit: 2,
            cursor: None,
        };
        let mut messages = Vec::new();
        loop {
            let page = store.runs().messages(id, &options).unwrap();
            messages.extend(page.items);
            options.cursor = page.next;
            if options.cursor.is_none() {
                return messages;
            }
        }
    };
    let forward = list(false, None);
    let mut backward = list(true, None);
    backward.reverse();
    assert_eq!(backward, forward);
    for step in 0..5 {
        let of_step: Vec<_> = forward
            .iter()
            .filter(|message| message.step_number == step)
            .cloned()
            .collect();
        assert_eq!(list(false, Some(step)), of_step, "of step {step}");
        let mut backward = list(true, Some(step));
        backward.reverse();
        assert_eq!(backward, of_step, "of step {step}, backwards");
    }
    for message in &forward {
        let alone = store.runs().message(id, message.id).unwrap();
        assert_eq!(alone.as_ref(), Some(message));
    }
    forward
}

fn calls(store: &Store, id: RunId) -> Vec<ToolCall> {
    let calls = store.runs().tool_calls(id, &ListToolCalls::default());
    let calls = calls.unwrap().items;
    for call in &calls {
        let alone = store.runs().tool_call(id, call.id).unwrap();
        assert_eq!(alone.as_ref(), Some(call));
    }
    calls
}

/// Where messages are, and their steps.
fn places(messages: &[RunMessage]) -> Vec<(u64, u64, u32)> {
    messages
        .iter()
        .map(|message| (message.id, message.sequence_number, message.step_number))
        .collect()
}

fn one_redacted_event_changes_nothing_but_its_content(store: &Store) {
    for form in [OPENAI, ANTHROPIC] {
        let count = {
            let run = run_of(store, form);
            events(store, &run).len()
        };
        for place in 0..count {
            let run = run_of(store, form);
            let (before, before_calls) = (messages(store, run.id()), calls(store, run.id()));
            let (sequence, position, _) = events(store, &run)[place];
            redact(store, position);
            let now = messages(store, run.id());
            assert_eq!(places(&now), places(&before), "event {sequence}");
            for (now, before) in now.iter().zip(&before) {
                assert_eq!(now.role, before.role);
                let is_it = now.sequence_number == sequence;
                assert_eq!(now.content == before.content, !is_it, "event {sequence}");
                assert_eq!(now.content.as_str().contains("[redacted]"), is_it);
            }
            let now = calls(store, run.id());
            let told = |calls: &[ToolCall]| -> Vec<_> {
                calls
                    .iter()
                    .map(|call| {
                        let id = call.tool_call_id.clone();
                        (
                            call.id,
                            id,
                            call.tool_name.clone(),
                            call.status,
                            call.step_number,
                        )
                    })
                    .collect()
            };
            assert_eq!(told(&now), told(&before_calls), "event {sequence}");
            let changed = |(now, before): (&ToolCall, &ToolCall)| {
                now.input != before.input || now.output != before.output
            };
            let changed = now.iter().zip(&before_calls).filter(|it| changed(*it));
            let is_message = before.iter().any(|it| {
                it.sequence_number == sequence && !it.content.as_str().contains("secret")
            });
            assert_eq!(
                changed.count(),
                usize::from(!is_message),
                "event {sequence}: {now:?}"
            );
        }
    }
}

fn whatever_is_redacted_stays_in_its_place(store: &Store) {
    let count = {
        let run = run_of(store, OPENAI);
        events(store, &run).len()
    };
    for subset in (0..1_u32 << count).step_by(7) {
        let run = run_of(store, OPENAI);
        let before = messages(store, run.id());
        let all = events(store, &run);
        for (place, (_, position, _)) in all.iter().enumerate() {
            if subset & 1 << place != 0 {
                redact(store, *position);
            }
        }
        let now = messages(store, run.id());
        let ids = |messages: &[RunMessage]| -> Vec<_> { messages.iter().map(|it| it.id).collect() };
        assert_eq!(ids(&now), ids(&before), "subset {subset:b}");
        assert!(
            now.is_sorted_by_key(|message| message.step_number),
            "subset {subset:b}"
        );
        let now = calls(store, run.id());
        // All calls have their results.
        let statuses: Vec<_> = now.iter().map(|call| call.status).collect();
        assert_eq!(
            statuses,
            [ToolCallStatus::Completed; 3],
            "subset {subset:b}: {now:?}"
        );
    }
}

#[test]
fn what_was_redacted_has_its_step_in_an_import_too() {
    let count = {
        let store = Store::in_memory();
        let run = run_of(&store, OPENAI);
        events(&store, &run).len()
    };
    for subset in (0..1_u32 << count).step_by(7) {
        let store = Store::in_memory();
        let run = run_of(&store, OPENAI);
        let before = steps(&messages(&store, run.id()));
        for (place, (_, position, _)) in events(&store, &run).iter().enumerate() {
            if subset & 1 << place != 0 {
                redact(&store, *position);
            }
        }
        let imported = imported(&store);
        let now = steps(&messages(&imported, run.id()));
        assert_eq!(now, before, "subset {subset:b}");
        let of_call = |call: &ToolCall| (call.sequence_number, call.step_number);
        let places = |store| -> Vec<_> { calls(store, run.id()).iter().map(of_call).collect() };
        assert_eq!(places(&imported), places(&store), "subset {subset:b}");
    }
}

/// The whole of a store, exported and imported into another.
fn imported(store: &Store) -> Store {
    let mut lines = Vec::new();
    archive::export(store, archive::What::All, &mut |line| {
        lines.push(line.to_vec());
        Ok::<_, runlog::Error>(())
    })
    .unwrap();
    let imported = Store::in_memory();
    archive::import(&imported, None, true, &mut || {
        Ok(Box::new(std::io::Cursor::new(lines.concat())))
    })
    .unwrap();
    imported
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_import_tells_the_steps_of_what_was_redacted(actions in vec((0..7u8, 0..8usize), 1..16)) {
        let store = Store::in_memory();
        let start = || {
            let new = NewRun::in_new_session(NewSession::default(), "coder");
            store.runs().start(new).unwrap()
        };
        let (run, beside) = (start(), start());
        for (action, number) in actions {
            let here = events(&store, &run);
            match action {
                0 => drop(run.next_step()),
                1 | 2 => {
                    let role = ["user", "assistant"][number % 2];
                    let message = format!(r#"{{"role":"{role}","content":"{number}"}}"#);
                    run.record_raw_message(raw(&message)).unwrap();
                }
                3 => {
                    let context = store.context(run.run().instance_id).unwrap();
                    let kept = here.len().saturating_sub(number);
                    context.truncate_after_sequence(kept as u64).unwrap();
                }
                4 => {
                    beside.next_step().unwrap();
                    beside.record_raw_message(raw(r#"{"role":"user","content":"of another"}"#)).unwrap();
                }
                _ => {
                    if let Some((_, position, false)) = here.get(number) {
                        redact(&store, *position);
                    }
                }
            }
        }
        let told = steps(&messages(&store, run.id()));
        let once = imported(&store);
        prop_assert_eq!(&steps(&messages(&once, run.id())), &told);
        prop_assert_eq!(steps(&messages(&imported(&once), run.id())), told);
    }
}

fn a_redacted_result_is_of_the_call_that_no_other_answers(store: &Store) {
    let run = run_of(store, OPENAI);
    // The result of the second call comes first.
    let result = messages(store, run.id())[2].clone();
    assert!(result.content.as_str().contains("secret b"));
    redact(store, result.id);
    let outputs: Vec<_> = calls(store, run.id())
        .into_iter()
        .map(|call| call.output.unwrap().as_str().to_owned())
        .collect();
    assert_eq!(
        outputs,
        [r#""secret a""#, r#""[redacted]""#, r#""secret c""#]
    );
}

fn a_call_that_waits_for_its_result_goes_on_waiting_whatever_else_is_redacted(store: &Store) {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    run.record_raw_message(raw(OPENAI[0])).unwrap();
    run.record_tool_result(&ToolOutcome::completed("b", RawJson::string("secret")))
        .unwrap();
    let all = events(store, &run);
    redact(store, all.last().unwrap().1);
    let statuses: Vec<_> = calls(store, run.id())
        .iter()
        .map(|call| call.status)
        .collect();
    // Which of the two it was is lost until the other is answered.
    assert_eq!(
        statuses,
        [ToolCallStatus::Completed, ToolCallStatus::Pending]
    );
    run.record_tool_result(&ToolOutcome::completed("a", RawJson::string("x")))
        .unwrap();
    let outputs: Vec<_> = calls(store, run.id())
        .into_iter()
        .map(|call| call.output.unwrap().as_str().to_owned())
        .collect();
    assert_eq!(outputs, [r#""x""#, r#""[redacted]""#]);
}

fn what_was_redacted_beside_a_run_is_not_its_own(store: &Store) {
    let run = run_of(store, OPENAI);
    let before = messages(store, run.id()).len();
    run.complete(None).unwrap();
    let context = store.context(run.run().instance_id).unwrap();
    let after = context
        .append_message(runlog::NewMessage::user("a secret of nobody's run"))
        .unwrap();
    redact(store, after.position);
    assert_eq!(messages(store, run.id()).len(), before);
}

/// Sequences and steps.
fn steps(messages: &[RunMessage]) -> Vec<(u64, u32)> {
    let place = |message: &RunMessage| (message.sequence_number, message.step_number);
    messages.iter().map(place).collect()
}

fn the_step_of_what_was_redacted_does_not_hang_on_what_is_near(store: &Store) {
    let say = |run: &RunRecorder, role: &str, text: &str| {
        let message = format!(r#"{{"role":"{role}","content":"{text}"}}"#);
        run.record_raw_message(raw(&message)).unwrap();
    };
    let start = || NewRun::in_new_session(NewSession::default(), "coder");
    let redact_from = |run: &RunRecorder, first: u64, last: u64| {
        for (sequence, position, _) in events(store, run) {
            if (first..=last).contains(&sequence) {
                redact(store, position);
            }
        }
    };
    // Much of others stands in between.
    let run = store.runs().start(start()).unwrap();
    for _ in 0..3 {
        run.next_step().unwrap();
        say(&run, "assistant", "one");
    }
    let context = store.context(run.run().instance_id).unwrap();
    for _ in 0..70 {
        context
            .append_message(runlog::NewMessage::user("of nobody"))
            .unwrap();
    }
    say(&run, "user", "a secret");
    say(&run, "user", "more");
    redact_from(&run, 74, 74);
    let told = steps(&messages(store, run.id()));
    assert_eq!(told, [(1, 1), (2, 2), (3, 3), (74, 3), (75, 3)]);

    // Much is redacted in a row, the answers that begin steps among it.
    let run = store.runs().start(start()).unwrap();
    for _ in 0..4 {
        run.next_step().unwrap();
        say(&run, "assistant", "an answer");
        for _ in 0..99 {
            say(&run, "user", "more");
        }
    }
    let before = steps(&messages(store, run.id()));
    redact_from(&run, 50, 350);
    assert_eq!(steps(&messages(store, run.id())), before);

    // The answer that began the next step was truncated.
    let run = store.runs().start(start()).unwrap();
    run.next_step().unwrap();
    say(&run, "assistant", "one");
    say(&run, "user", "more");
    run.next_step().unwrap();
    say(&run, "assistant", "two");
    let context = store.context(run.run().instance_id).unwrap();
    context.truncate_after_sequence(2).unwrap();
    redact_from(&run, 2, 2);
    let told = steps(&messages(store, run.id()));
    assert_eq!(told, [(1, 1), (2, 1)]);

    // A user's message follows the answer that begins the step.
    let run = store.runs().start(start()).unwrap();
    say(&run, "user", "go");
    run.next_step().unwrap();
    say(&run, "assistant", "one");
    say(&run, "user", "more");
    redact_from(&run, 2, 2);
    let told = steps(&messages(store, run.id()));
    assert_eq!(told, [(1, 0), (2, 1), (3, 1)]);
}

fn a_page_that_begins_within_an_answer_gives_no_call_the_output_of_another(store: &Store) {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    for id in ["c1", "c2", "c3"] {
        let item = format!(
            r#"{{"type":"function_call","call_id":"{id}","name":"ls","arguments":"{{}}"}}"#
        );
        run.record_raw_message(raw(&item)).unwrap();
    }
    for id in ["c1", "c2"] {
        run.record_tool_result(&ToolOutcome::completed(id, RawJson::string(id)))
            .unwrap();
    }
    // The last call, with its record.
    for (_, position, _) in &events(store, &run)[4..6] {
        redact(store, *position);
    }
    let (mut one_by_one, mut cursor) = (Vec::new(), None);
    loop {
        let options = ListToolCalls {
            limit: 1,
            cursor,
            ..ListToolCalls::default()
        };
        let page = store.runs().tool_calls(run.id(), &options).unwrap();
        one_by_one.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(one_by_one, calls(store, run.id()));
    use ToolCallStatus::{Completed, Pending};
    let statuses: Vec<_> = one_by_one.iter().map(|call| call.status).collect();
    assert_eq!(statuses, [Completed, Completed, Pending]);
}

fn a_call_that_a_run_left_open_takes_its_late_result(store: &Store) {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    run.record_raw_message(raw(OPENAI[0])).unwrap();
    run.record_tool_result(&ToolOutcome::completed("a", RawJson::string("secret")))
        .unwrap();
    run.fail("boom").unwrap();
    redact(store, events(store, &run).last().unwrap().1);
    let context = store.context(run.run().instance_id).unwrap();
    let outputs = || -> Vec<_> {
        let calls = calls(store, run.id()).into_iter();
        calls
            .map(|call| call.output.map(|output| output.as_str().to_owned()))
            .collect()
    };
    let redacted = Some(r#""[redacted]""#.to_owned());
    assert_eq!(outputs(), [redacted.clone(), None]);
    let late = raw(r#"{"role":"tool","tool_call_id":"b","content":"REAL B"}"#);
    context.append_raw_message(late).unwrap();
    assert_eq!(outputs(), [redacted, Some(r#""REAL B""#.to_owned())]);
}

fn all_calls_of_an_answer_that_is_redacted_too_have_their_results(store: &Store) {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    for ids in [["x", "y"], ["a", "b"]] {
        let ask = ANTHROPIC[0].replace(r#""a""#, &format!("{:?}", ids[0]));
        let ask = ask.replace(r#""b""#, &format!("{:?}", ids[1]));
        run.record_raw_message(raw(&ask)).unwrap();
        let blocks = ids.map(|id| {
            format!(r#"{{"type":"tool_result","tool_use_id":"{id}","content":"secret"}}"#)
        });
        let results = format!(r#"{{"role":"user","content":[{}]}}"#, blocks.join(","));
        run.record_raw_message(raw(&results)).unwrap();
    }
    run.complete(None).unwrap();
    // The second answer and its results: 5 and 8.
    for (sequence, position, _) in events(store, &run) {
        if matches!(sequence, 5 | 8) {
            redact(store, position);
        }
    }
    let statuses: Vec<_> = calls(store, run.id())
        .iter()
        .map(|call| call.status)
        .collect();
    assert_eq!(statuses, [ToolCallStatus::Completed; 4]);
}
