//! Tests of the fold of a chat.

use super::*;
use crate::{
    ChatRole, MessageFilter, RawJson, Step, StepDiff, StepDiffs, StepStatus, StepType, Updates,
};

fn saved(id: &str) -> ChatEvent {
    let message = ChatMessage {
        message_id: id.into(),
        ..ChatMessage::text(ChatRole::User, id)
    };
    ChatEvent::MessageSaved(Box::new(message))
}

fn step(id: &str, stack: &str, parent: Option<&str>) -> ChatEvent {
    let step = Step {
        step_id: id.into(),
        stack_parent_id: parent.map(str::to_owned),
        ..Step::new("req", "a", stack, StepType::Llm)
    };
    ChatEvent::StepSaved(Box::new(step))
}

fn folded(events: Vec<ChatEvent>) -> ChatFold {
    let mut fold = ChatFold::new();
    for (sequence, event) in (1..).zip(events) {
        let encoded = event.encode().unwrap();
        assert!(ChatEvent::KINDS.contains(&encoded.kind));
        let event = ChatEvent::decode(encoded.kind, &encoded.meta, &encoded.payload).unwrap();
        fold.apply(sequence, sequence * 10, encoded.payload.len(), event)
            .unwrap();
    }
    fold
}

#[test]
fn messages_are_numbered_updated_and_deleted_in_order() {
    let updates = Updates::parse(r#"{"props":{"content": "B"},"colour":"red"}"#).unwrap();
    let fold = folded(vec![
        saved("a"),
        saved("b"),
        saved("c"),
        ChatEvent::MessageUpdated {
            message_id: "b".into(),
            at_ms: 9,
            updates,
            appended: String::new(),
        },
        ChatEvent::MessagesDeleted {
            message_ids: vec!["a".into(), "nobody".into()],
            at_ms: 9,
            used_at_ms: None,
        },
        saved("d"),
    ]);
    let messages = fold.messages(&MessageFilter::default());
    let found: Vec<_> = messages
        .iter()
        .map(|message| (message.message_id.as_str(), message.sequence))
        .collect();
    assert_eq!(found, [("b", 2), ("c", 3), ("d", 4)]);
    assert_eq!(messages[0].props.as_str(), r#"{"content": "B"}"#);
    assert_eq!(
        (
            messages[0].extra["colour"].as_str(),
            messages[0].updated_at_ms
        ),
        (Some("red"), 9)
    );
    assert_eq!(messages[0].id, Some(20));
    let page = fold.messages(&MessageFilter {
        limit: 1,
        offset: 1,
        ..MessageFilter::default()
    });
    assert_eq!(page[0].message_id, "c");
}

#[test]
fn two_messages_saved_under_one_id_are_both_there() {
    let fold = folded(vec![saved("a"), saved("b"), saved("a")]);
    let messages = fold.messages(&MessageFilter::default());
    let found: Vec<_> = messages
        .iter()
        .map(|message| (message.message_id.as_str(), message.sequence))
        .collect();
    assert_eq!(found[..2], [("a", 1), ("b", 2)]);
    assert!(
        found.len() == 3 && found[2].0.starts_with("a~") && found[2].1 == 3,
        "{found:?}"
    );
}

#[test]
fn the_stack_path_goes_from_the_root() {
    let fold = folded(vec![
        step("1", "root", None),
        step("2", "mid", Some("root")),
        step("3", "leaf", Some("mid")),
    ]);
    assert_eq!(
        fold.stack_path("leaf").unwrap().unwrap(),
        ["root", "mid", "leaf"]
    );
    assert_eq!(fold.stack_path("root").unwrap().unwrap(), ["root"]);
    assert_eq!(fold.stack_path("nobody").unwrap(), None);
    assert_eq!(
        fold.steps_of_request("req")
            .iter()
            .map(|step| step.sequence)
            .collect::<Vec<_>>(),
        [1, 2, 3]
    );
}

#[test]
fn a_stack_that_is_a_circle_is_refused() {
    let fold = folded(vec![step("1", "a", Some("b")), step("2", "b", Some("a"))]);
    assert_eq!(
        fold.stack_path("a").unwrap_err().kind(),
        crate::ErrorKind::InvalidInput
    );
}

#[test]
fn the_last_step_that_is_not_completed_is_the_one_to_resume() {
    let completed = Updates::new().with("status", RawJson::string("completed"));
    let mut events = vec![step("1", "a", None), step("2", "a", None)];
    events.push(ChatEvent::StepUpdated {
        step_id: "2".into(),
        at_ms: 1,
        updates: completed.clone(),
    });
    assert_eq!(
        folded(events.clone())
            .last_incomplete_step()
            .unwrap()
            .step_id,
        "1"
    );
    events.push(ChatEvent::StepUpdated {
        step_id: "1".into(),
        at_ms: 1,
        updates: completed,
    });
    assert_eq!(folded(events).last_incomplete_step(), None);
    let resumable: Vec<_> = StepStatus::ALL
        .into_iter()
        .filter(|status| status.can_resume())
        .collect();
    assert_eq!(
        resumable,
        [
            StepStatus::Pending,
            StepStatus::Running,
            StepStatus::Failed,
            StepStatus::Interrupted
        ]
    );
}

#[test]
fn an_update_that_makes_no_message_is_refused() {
    let message = ChatMessage::text(ChatRole::User, "a");
    for updates in [
        r#"{"role":"system"}"#,
        r#"{"role":null}"#,
        r#"{"props":[]}"#,
        r#"{"message_id":"b"}"#,
    ] {
        let updates = Updates::parse(updates).unwrap();
        assert_eq!(
            message.updated(&updates, 1).unwrap_err().kind(),
            crate::ErrorKind::InvalidInput
        );
    }
}

fn appended(id: &str, updates: &str, text: &str) -> ChatEvent {
    ChatEvent::MessageUpdated {
        message_id: id.into(),
        at_ms: 9,
        updates: Updates::parse(updates).unwrap(),
        appended: text.into(),
    }
}

#[test]
fn text_is_appended_to_what_a_message_says_by_then() {
    let says = |events| {
        let fold = folded(events);
        fold.message("a").unwrap().props.as_str().to_owned()
    };
    let all = vec![
        saved("a"),
        appended("a", r#"{"props":{ "content" : "A" }}"#, "b"),
        appended("a", "{}", "\"\n\u{1f600}"),
        appended("nobody", "{}", "c"),
    ];
    assert_eq!(says(all), "{ \"content\" : \"Ab\\\"\\n\u{1f600}\" }");
    let mut fold = folded(vec![
        saved("a"),
        appended("a", r#"{"props":{"content":["A"]}}"#, ""),
    ]);
    let refused = fold.apply(3, 3, 0, appended("a", "{}", "b")).unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::Damaged, "{refused}");
}

#[test]
fn a_message_that_grows_says_what_its_events_say_one_by_one_and_what_was_read_of_it_stays() {
    let updates = [
        "{}",
        "{}",
        r#"{"thread_id":"t"}"#,
        "{}",
        r#"{"props":{"content":"x","y":"}"}}"#,
        "{}",
        r#"{"props":{"y":[1]}}"#,
        "{}",
        r#"{"props":{}}"#,
        "{}",
        "{}",
    ];
    let texts = ["a", "", "\"", "\u{1f600}\\", "}"];
    let mut fold = folded(vec![saved("a")]);
    let mut expected = fold.message("a").unwrap().clone();
    let mut read = Vec::new();
    let all = texts.into_iter().cycle().zip(updates.into_iter().cycle());
    for (number, (text, updates)) in (2_u64..).zip(all.take(110)) {
        let event = appended("a", updates, text);
        fold.apply(number, number, 0, event).unwrap();
        let updates = Updates::parse(updates).unwrap();
        expected = expected.changed(&updates, text, 9).unwrap();
        assert_eq!(fold.message("a"), Some(&expected), "{number}");
        // Every third is kept: with and without somebody who has the text that grows.
        if number % 3 == 0 {
            read.push((fold.message("a").unwrap().clone(), expected.clone()));
        }
    }
    for (before, expected) in read {
        assert_eq!(before.props.as_str().as_bytes(), expected.props.as_bytes());
        assert_eq!(before, expected);
    }
}

#[test]
fn what_is_no_chat_event_is_damage_or_from_the_future() {
    let decode = |kind, meta: &[u8], payload: &[u8]| {
        ChatEvent::decode(kind, meta, payload).unwrap_err().kind()
    };
    assert_eq!(decode(64, &[1], b"{}"), crate::ErrorKind::Damaged);
    assert_eq!(decode(64, &[1], b"\xff"), crate::ErrorKind::Damaged);
    assert_eq!(decode(64, &[], b"{}"), crate::ErrorKind::Damaged);
    assert_eq!(
        decode(95, &[1], b"{}"),
        crate::ErrorKind::UnsupportedVersion
    );
    assert_eq!(
        decode(64, &[3], b"{}"),
        crate::ErrorKind::UnsupportedVersion
    );
}

#[test]
fn a_copy_has_the_same_with_ids_of_its_own_and_goes_on_with_them() {
    let copied = |number: u128| ChatEvent::Copied {
        session_id: SessionId(uuid::Uuid::from_u128(number)),
        chat_id: format!("copy {number}"),
    };
    let events = vec![
        saved("a"),
        step("s", "root", None),
        step("t", "leaf", Some("root")),
    ];
    let source = folded(events.clone());
    let copy = folded([events.clone(), vec![copied(1)]].concat());
    let again = folded([events.clone(), vec![copied(1), copied(2)]].concat());
    let other = folded([events.clone(), vec![copied(2)]].concat());
    let mut ids = HashSet::new();
    for fold in [&source, &copy, &again, &other] {
        let message = fold.messages(&MessageFilter::default())[0];
        assert_eq!(
            (message.sequence, message.id, message.props.as_str()),
            (1, Some(10), r#"{"content":"a"}"#)
        );
        let steps = fold.steps();
        assert_eq!(
            steps.iter().map(|step| step.sequence).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(
            fold.stack_path(&steps[1].stack_id).unwrap().unwrap(),
            [&*steps[0].stack_id, &*steps[1].stack_id]
        );
        assert_eq!(fold.steps_of_request(&steps[0].request_id).len(), 2);
        assert_eq!(fold.step(&steps[1].step_id), Some(&steps[1]));
        assert_eq!(fold.message(&message.message_id), Some(message));
        for id in [
            &message.message_id,
            &steps[0].step_id,
            &steps[1].step_id,
            &steps[0].stack_id,
            &steps[0].request_id,
        ] {
            assert!(ids.insert(id.clone()), "{id} names one thing");
        }
    }
    assert_eq!(
        (
            again.steps()[0].chat_id.as_str(),
            copy.steps()[0].chat_id.as_str()
        ),
        ("copy 2", "copy 1")
    );

    // What comes after names what came before as the copy does; the next number is the next.
    let request = copy.steps()[0].request_id.clone();
    let next = Step {
        step_id: "u".into(),
        ..Step::new(&request, "a", "root", StepType::Llm)
    };
    let deleted = copy.messages(&MessageFilter::default())[0]
        .message_id
        .clone();
    let more = vec![
        copied(1),
        ChatEvent::StepSaved(Box::new(next)),
        ChatEvent::MessagesDeleted {
            message_ids: vec![deleted],
            at_ms: 1,
            used_at_ms: None,
        },
        saved("b"),
    ];
    let fold = folded([events, more].concat());
    assert_eq!(fold.step("u").unwrap().sequence, 3);
    let found: Vec<_> = fold
        .messages(&MessageFilter::default())
        .iter()
        .map(|message| message.sequence)
        .collect();
    assert_eq!(found, [2]);
}

/// A fold of messages and steps, updated, deleted and saved once more, in an order that a number says.
fn mixed(seed: u64) -> ChatFold {
    let mut state = seed;
    let mut below = |end: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % end
    };
    let mut events = Vec::new();
    for number in 0..120 {
        let (id, request) = (format!("i{}", below(30)), format!("r{}", below(4)));
        let sequence = if below(8) == 0 { below(40) } else { 0 };
        events.push(match below(8) {
            0..3 => {
                let request_id = Some(request).filter(|_| below(4) > 0);
                let text = ChatMessage::text(ChatRole::User, "x");
                let message = ChatMessage {
                    message_id: id,
                    request_id,
                    sequence,
                    ..text
                };
                ChatEvent::MessageSaved(Box::new(message))
            }
            3 => {
                let updates = Updates::new().with("request_id", RawJson::string(&request));
                ChatEvent::MessageUpdated {
                    message_id: id,
                    at_ms: number,
                    updates,
                    appended: String::new(),
                }
            }
            4 => ChatEvent::MessagesDeleted {
                message_ids: vec![id],
                at_ms: number,
                used_at_ms: None,
            },
            5 => {
                let status = StepStatus::ALL[usize::try_from(below(5)).unwrap()].to_string();
                let updates = Updates::new()
                    .with("status", RawJson::string(&status))
                    .with("stack_id", RawJson::string(&format!("s{}", below(4))));
                ChatEvent::StepUpdated {
                    step_id: id,
                    at_ms: number,
                    updates,
                }
            }
            _ => {
                let new = Step::new(request, "a", format!("s{}", below(4)), StepType::Llm);
                ChatEvent::StepSaved(Box::new(Step {
                    step_id: id,
                    sequence,
                    ..new
                }))
            }
        });
    }
    if seed % 2 == 1 {
        events.insert(
            60,
            ChatEvent::Copied {
                session_id: SessionId(uuid::Uuid::from_u128(7)),
                chat_id: "copy".into(),
            },
        );
    }
    folded(events)
}

#[test]
fn what_is_found_by_request_stack_and_status_is_what_looking_through_finds() {
    for seed in 0..40 {
        let fold = mixed(seed);
        let all = fold.messages(&MessageFilter::default());
        assert!(all.is_sorted_by_key(|message| message.sequence) && !all.is_empty());
        assert!(
            all.iter()
                .all(|message| fold.message(&message.message_id) == Some(message))
        );
        let found: Vec<Option<&str>> = all
            .iter()
            .map(|message| message.request_id.as_deref())
            .collect();
        for request in found.into_iter().flatten() {
            let filter = MessageFilter {
                request_id: Some(request.to_owned()),
                ..MessageFilter::default()
            };
            let of_request =
                |message: &&&ChatMessage| message.request_id.as_deref() == Some(request);
            assert_eq!(
                fold.messages(&filter),
                all.iter().filter(of_request).copied().collect::<Vec<_>>()
            );
        }
        for step in fold.steps() {
            assert_eq!(fold.step(&step.step_id), Some(step));
            let mut of_request: Vec<&FoldedStep> = fold
                .steps()
                .iter()
                .filter(|other| other.request_id == step.request_id)
                .collect();
            of_request.sort_by_key(|step| step.sequence);
            assert_eq!(fold.steps_of_request(&step.request_id), of_request);
            let of_stack: Vec<&FoldedStep> = fold
                .steps()
                .iter()
                .filter(|other| other.stack_id == step.stack_id)
                .collect();
            assert_eq!(fold.steps_of_stack(&step.stack_id), of_stack);
        }
        assert_eq!(
            fold.last_incomplete_step(),
            fold.steps()
                .iter()
                .rev()
                .find(|step| step.status.can_resume())
        );
    }
}

/// A step whose input is as long as its number says, with a space that is the same for ten steps.
fn growing(number: usize) -> Step {
    let message =
        |it| format!(r#"{{"role":"user","content":"the words of message {it}, and more"}}"#);
    let messages: Vec<String> = (0..number + 50).map(message).collect();
    let space = format!(r#"{{"part":{},"text":"{}"}}"#, number / 10, "t".repeat(600));
    Step {
        step_id: format!("s{number}"),
        input: RawJson::parse(format!(r#"{{"messages":[{}]}}"#, messages.join(","))).ok(),
        space_snapshot: RawJson::parse(space).ok(),
        ..Step::new("req", "a", "root", StepType::Llm)
    }
}

/// The events that save steps, each as the difference from earlier ones where that is shorter.
fn saved_as_differences(steps: &[Step]) -> Vec<ChatEvent> {
    let mut diffs = StepDiffs::new();
    steps
        .iter()
        .map(|step| diffs.texts_of(step).event(step.clone()))
        .collect()
}

fn texts(fold: &ChatFold, id: &str) -> (Option<RawJson>, Option<RawJson>) {
    let step = fold.step(id).unwrap().whole().unwrap();
    (step.input, step.space_snapshot)
}

#[test]
fn steps_that_were_saved_as_differences_are_what_they_were() {
    let steps: Vec<Step> = (0..300).map(growing).collect();
    let events = saved_as_differences(&steps);
    let whole = events
        .iter()
        .filter(|event| matches!(event, ChatEvent::StepSaved(_)))
        .count();
    assert!(whole < 20, "{whole} were saved whole");
    let fold = folded(events);
    for step in &steps {
        let saved = (step.input.clone(), step.space_snapshot.clone());
        assert_eq!(texts(&fold, &step.step_id), saved);
    }
}

#[test]
fn a_step_that_is_changed_changes_none_that_was_saved_as_a_difference_from_it() {
    let steps: Vec<Step> = (0..40).map(growing).collect();
    let mut events = saved_as_differences(&steps);
    let other = RawJson::parse(r#"{"messages":[]}"#).unwrap();
    for (place, value) in [(20, other.clone()), (21, RawJson::null())] {
        events.insert(
            place,
            ChatEvent::StepUpdated {
                step_id: "s15".into(),
                at_ms: 1,
                updates: Updates::new().with("input", value),
            },
        );
    }
    // s16 to s19 were saved before the changes, s20 differs from s19, and s32 from s16.
    let fold = folded(events);
    assert_eq!(
        texts(&fold, "s15"),
        (None, steps[15].space_snapshot.clone())
    );
    for number in [14, 16, 17, 20, 32, 39] {
        assert_eq!(texts(&fold, &format!("s{number}")).0, steps[number].input);
    }
}

#[test]
fn a_change_of_what_others_differ_from_comes_before_they_are_saved() {
    let steps: Vec<Step> = (0..4).map(growing).collect();
    let mut events = saved_as_differences(&steps);
    let update = |updates| ChatEvent::StepUpdated {
        step_id: "s1".into(),
        at_ms: 1,
        updates,
    };
    let (input, space) = (
        steps[0].input.clone().unwrap(),
        RawJson::parse("{}").unwrap(),
    );
    events.insert(2, update(Updates::new().with("input", input.clone())));
    events.insert(
        3,
        update(Updates::new().with("space_snapshot", space.clone())),
    );
    let fold = folded(events);
    assert_eq!(texts(&fold, "s1"), (Some(input), Some(space)));
    for number in [0, 2, 3] {
        let saved = (
            steps[number].input.clone(),
            steps[number].space_snapshot.clone(),
        );
        assert_eq!(texts(&fold, &format!("s{number}")), saved);
    }
}

#[test]
fn of_a_redacted_step_nothing_is_left_in_those_that_differ_from_it() {
    let steps: Vec<Step> = (0..40).map(growing).collect();
    let mut fold = ChatFold::new();
    for (sequence, event) in (1..).zip(saved_as_differences(&steps)) {
        if sequence == 17 {
            fold.skip_redacted(sequence, crate::kinds::STEP_DIFF_SAVED);
        } else {
            fold.apply(sequence, sequence, 1, event).unwrap();
        }
    }
    assert!(fold.step("s16").is_none());
    assert_eq!(texts(&fold, "s15").0, steps[15].input);
    for number in [17, 31, 32, 39] {
        let id = format!("s{number}");
        assert_eq!(texts(&fold, &id).0, None, "{id}");
        assert_eq!(fold.step(&id).unwrap().status, steps[number].status);
    }
}

#[test]
fn a_copy_has_the_texts_of_its_original() {
    let steps: Vec<Step> = (0..20).map(growing).collect();
    let copied = ChatEvent::Copied {
        session_id: SessionId(uuid::Uuid::from_u128(7)),
        chat_id: "copy".into(),
    };
    let fold = folded([saved_as_differences(&steps), vec![copied]].concat());
    for (step, copied) in steps.iter().zip(fold.steps()) {
        assert_eq!(copied.whole().unwrap().input, step.input);
    }
}

#[test]
fn differences_that_do_not_fit_are_damage() {
    let of = |json: &str| -> Result<ChatFold> {
        let diff: StepDiff = serde_json::from_str(&format!(
            r#"{{"step":{},"input":{json}}}"#,
            serde_json::to_string(&growing(1)).unwrap()
        ))
        .unwrap();
        let mut fold = folded(vec![ChatEvent::StepSaved(Box::new(growing(0)))]);
        fold.apply(2, 2, 1, ChatEvent::StepDiffSaved(Box::new(diff)))?;
        fold.step("s1").unwrap().whole()?;
        Ok(fold)
    };
    for json in [
        r#"{"step_id":"s0","diff":[[0,100000]]}"#,
        r#"{"step_id":"s0","diff":[[0,10]]}"#,
        r#"{"step_id":"s0","diff":["{"]}"#,
    ] {
        let error = of(json).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Damaged, "{json}");
    }
    let lost = of(r#"{"step_id":"none","diff":[[0,10]]}"#).unwrap();
    assert_eq!(texts(&lost, "s1").0, None);

    // A small record can't claim a text that is larger than an event.
    let ranges = vec!["[0,60]"; 400_000].join(",");
    let error = of(&format!(r#"{{"step_id":"s0","diff":[{ranges}]}}"#)).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Damaged);
}

#[test]
fn a_chain_of_differences_has_an_end() {
    let mut fold = folded(vec![ChatEvent::StepSaved(Box::new(growing(0)))]);
    let length = growing(0).input.unwrap().as_bytes().len();
    let mut applied = Ok(());
    for number in 1..2_000 {
        let diff = format!(
            r#"{{"step":{},"input":{{"step_id":"s{}","diff":[[0,{length}]]}}}}"#,
            serde_json::to_string(&Step {
                input: None,
                ..growing(number)
            })
            .unwrap(),
            number - 1
        );
        let diff: StepDiff = serde_json::from_str(&diff).unwrap();
        applied = fold.apply(
            number as u64 + 1,
            number as u64 + 1,
            1,
            ChatEvent::StepDiffSaved(Box::new(diff)),
        );
        if applied.is_err() {
            break;
        }
    }
    assert_eq!(applied.unwrap_err().kind(), crate::ErrorKind::Damaged);
    let last = fold.steps().last().unwrap();
    assert_eq!(last.whole().unwrap().input, growing(0).input);
}
