//! A request of a chat is a record of its own, and those that aren't over are found anywhere in the store.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]

mod both;

use runlog::{
    ErrorKind, RawJson,
    blocking::{Chats, RequestBuffer, Store},
    chats::{
        Chat, ChatMessage, ChatRequest, ChatRole, ListRequests, NewRequest, RequestDetails,
        RequestEnd, RequestStatus, Step, StepType,
    },
    sessions::CopySession,
};

both! {
    a_request_keeps_its_status_error_usage_and_run
    requests_that_are_not_over_are_listed_in_every_chat
    a_request_that_is_gone_on_with_is_listed_until_it_is_completed_or_dismissed
    a_page_of_requests_goes_on_while_others_end
    the_output_of_a_resumed_step_completes_the_request_when_no_other_is_open
    requests_of_deleted_and_copied_chats_are_not_among_them
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn begun(chats: &Chats, chat: &str, id: &str) -> RequestBuffer {
    if chats.get_chat(chat).unwrap().is_none() {
        let new = Chat {
            chat_id: chat.into(),
            ..Chat::new("travel")
        };
        chats.create_chat(new).unwrap();
    }
    let new = NewRequest {
        request_id: Some(id.into()),
        ..NewRequest::new("travel")
    };
    let asked = ChatMessage::text(ChatRole::User, "Oslo, please.");
    chats.begin_request(chat, new, asked).unwrap()
}

fn request(chats: &Chats, id: &str) -> ChatRequest {
    chats.get_request(id).unwrap().unwrap()
}

/// The requests of a list as `id:status`, with a star where somebody is at work on one.
fn listed(chats: &Chats, options: &ListRequests) -> Vec<String> {
    let page = chats.list_requests(options).unwrap();
    let told = page.items.iter().map(|request| {
        let live = if request.is_live == Some(true) {
            "*"
        } else {
            ""
        };
        format!(
            "{}/{}:{}{live}",
            request.chat_id, request.request_id, request.status
        )
    });
    told.collect()
}

fn all() -> ListRequests {
    ListRequests::default()
}

fn unattended() -> ListRequests {
    ListRequests {
        unattended: true,
        ..all()
    }
}

fn a_request_keeps_its_status_error_usage_and_run(store: &Store) {
    let chats = store.chats();
    let mut under_way = begun(&chats, "a", "r");
    let begun_as = request(&chats, "r");
    assert_eq!(
        (begun_as.status, begun_as.chat_id.as_str()),
        (RequestStatus::Running, "a")
    );
    assert_eq!(begun_as.assistant_id, "travel");
    let usage = |text: &str| RequestDetails {
        usage: Some(json(text)),
        ..RequestDetails::default()
    };
    under_way.describe(usage(r#"{"tokens":1}"#)).unwrap();
    under_way
        .describe(usage(r#"{ "tokens":812, "cost":0.0041 }"#))
        .unwrap();
    let metadata = RequestDetails {
        metadata: Some(json("[1]")),
        ..RequestDetails::default()
    };
    under_way.describe(metadata).unwrap();
    let error = under_way.describe(usage("7")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let large = format!(r#"{{"x":"{}"}}"#, "x".repeat(65 << 10));
    let error = under_way.describe(usage(&large)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    under_way
        .finish(RequestEnd::Failed("the model is gone".into()))
        .unwrap();
    let failed = request(&chats, "r");
    assert_eq!(failed.status, RequestStatus::Failed);
    assert_eq!(failed.error.as_deref(), Some("the model is gone"));
    assert_eq!(
        failed.usage,
        Some(json(r#"{ "tokens":812, "cost":0.0041 }"#))
    );
    assert_eq!(
        (failed.metadata, failed.created_at_ms),
        (Some(json("[1]")), begun_as.created_at_ms)
    );
    // What goes on with it keeps what was said of it; what is completed has no error.
    let resumption = chats.resume("a").unwrap().unwrap();
    chats
        .go_on(&resumption)
        .unwrap()
        .finish(RequestEnd::Completed)
        .unwrap();
    let completed = request(&chats, "r");
    assert_eq!(
        (completed.status, completed.error),
        (RequestStatus::Completed, None)
    );
    assert_eq!(
        completed.usage,
        Some(json(r#"{ "tokens":812, "cost":0.0041 }"#))
    );
    // Steps that were saved by hand have no such record.
    let step = Step {
        chat_id: "a".into(),
        ..Step::new("by hand", "travel", "s", StepType::Llm)
    };
    chats.save_steps(vec![step]).unwrap();
    assert_eq!(chats.get_request("by hand").unwrap(), None);
    assert_eq!(
        chats.get_request("none").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

fn requests_that_are_not_over_are_listed_in_every_chat(store: &Store) {
    let chats = store.chats();
    begun(&chats, "a", "done")
        .finish(RequestEnd::Completed)
        .unwrap();
    begun(&chats, "a", "stopped")
        .finish(RequestEnd::Interrupted)
        .unwrap();
    begun(&chats, "b", "failed")
        .finish(RequestEnd::Failed("no".into()))
        .unwrap();
    drop(begun(&chats, "b", "dropped"));
    let live = begun(&chats, "c", "live");
    assert_eq!(
        listed(&chats, &all()),
        [
            "c/live:running*",
            "b/dropped:interrupted",
            "b/failed:failed",
            "a/stopped:interrupted"
        ]
    );
    assert_eq!(
        listed(&chats, &unattended()),
        [
            "b/dropped:interrupted",
            "b/failed:failed",
            "a/stopped:interrupted"
        ]
    );
    let failed = ListRequests {
        status: Some(RequestStatus::Failed),
        ..all()
    };
    assert_eq!(listed(&chats, &failed), ["b/failed:failed"]);
    let of_chat = ListRequests {
        chat_id: Some("a".into()),
        ..all()
    };
    assert_eq!(listed(&chats, &of_chat), ["a/stopped:interrupted"]);
    let other = ListRequests {
        assistant_id: Some("other".into()),
        ..all()
    };
    assert_eq!(listed(&chats, &other), [""; 0]);
    drop(live);
    assert_eq!(listed(&chats, &unattended()).len(), 4);
}

fn a_request_that_is_gone_on_with_is_listed_until_it_is_completed_or_dismissed(store: &Store) {
    let chats = store.chats();
    for id in ["one", "two"] {
        let mut request = begun(&chats, "a", id);
        request.start_step(StepType::Llm, json("{}")).unwrap();
        request.finish(RequestEnd::Interrupted).unwrap();
    }
    let resumption = chats.resume_request("one").unwrap().unwrap();
    let mut again = chats.go_on(&resumption).unwrap();
    assert_eq!(
        listed(&chats, &all()),
        ["a/two:interrupted", "a/one:interrupted*"]
    );
    again.start_step(StepType::Llm, json("{}")).unwrap();
    again.finish(RequestEnd::Failed("again".into())).unwrap();
    assert_eq!(
        listed(&chats, &all()),
        ["a/two:interrupted", "a/one:failed"]
    );
    let resumption = chats.resume_request("one").unwrap().unwrap();
    chats
        .go_on(&resumption)
        .unwrap()
        .finish(RequestEnd::Completed)
        .unwrap();
    assert_eq!(listed(&chats, &all()), ["a/two:interrupted"]);
    chats.dismiss("two").unwrap();
    assert_eq!(listed(&chats, &all()), [""; 0]);
    assert_eq!(request(&chats, "two").status, RequestStatus::Dismissed);
    // What is over stays over.
    chats.dismiss("one").unwrap();
    assert_eq!(request(&chats, "one").status, RequestStatus::Completed);
}

fn a_page_of_requests_goes_on_while_others_end(store: &Store) {
    let chats = store.chats();
    for number in 0..7 {
        begun(&chats, &format!("c{}", number % 2), &format!("r{number}"))
            .finish(RequestEnd::Interrupted)
            .unwrap();
    }
    let mut options = ListRequests { limit: 3, ..all() };
    let first = chats.list_requests(&options).unwrap();
    let ids = |page: &runlog::pages::Page<runlog::chats::UnfinishedRequest>| -> Vec<String> {
        page.items
            .iter()
            .map(|request| request.request_id.clone())
            .collect()
    };
    assert_eq!(ids(&first), ["r6", "r5", "r4"]);
    chats.dismiss("r4").unwrap();
    chats.dismiss("r2").unwrap();
    begun(&chats, "c0", "r7")
        .finish(RequestEnd::Interrupted)
        .unwrap();
    options.cursor = first.next.clone();
    let second = chats.list_requests(&options).unwrap();
    assert_eq!(
        (ids(&second), second.next),
        (vec!["r3".into(), "r1".into(), "r0".into()], None)
    );
    let other = ListRequests {
        chat_id: Some("c0".into()),
        ..options
    };
    assert_eq!(
        chats.list_requests(&other).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

fn the_output_of_a_resumed_step_completes_the_request_when_no_other_is_open(store: &Store) {
    let chats = store.chats();
    let mut nested = begun(&chats, "a", "r");
    nested.start_step(StepType::Delegate, json("{}")).unwrap();
    nested.enter("maps").unwrap();
    nested.start_step(StepType::Delegate, json("{}")).unwrap();
    nested.enter("routes").unwrap();
    nested.start_step(StepType::Llm, json("{}")).unwrap();
    nested.finish(RequestEnd::Interrupted).unwrap();
    let resumption = chats.resume("a").unwrap().unwrap();
    // The step, and the one that waited for it: the root's still waits.
    chats.complete_resumed(&resumption, &json("{}")).unwrap();
    assert_eq!(listed(&chats, &all()), ["a/r:interrupted"]);
    let maps = &resumption.stack[1].stack_id;
    chats.complete_delegate("a", maps, &json("{}")).unwrap();
    assert_eq!(listed(&chats, &all()), [""; 0]);
    assert_eq!(request(&chats, "r").status, RequestStatus::Completed);
}

fn requests_of_deleted_and_copied_chats_are_not_among_them(store: &Store) {
    let chats = store.chats();
    let mut under_way = begun(&chats, "a", "r");
    under_way.start_step(StepType::Llm, json("{}")).unwrap();
    under_way.finish(RequestEnd::Interrupted).unwrap();
    let session = store.find_session("a").unwrap().id;
    let copy = store
        .copy_session(session, &CopySession::default())
        .unwrap()
        .session
        .id
        .to_string();
    assert_eq!(listed(&chats, &all()), ["a/r:interrupted"]);
    // The copy's request has an id of its own, and is resumed there.
    let resumption = chats.resume(&copy).unwrap().unwrap();
    assert_ne!(resumption.step.request_id, "r");
    chats
        .go_on(&resumption)
        .unwrap()
        .finish(RequestEnd::Completed)
        .unwrap();
    let copied = request(&chats, &resumption.step.request_id);
    assert_eq!(
        (copied.status, copied.chat_id),
        (RequestStatus::Completed, copy)
    );
    assert_eq!(request(&chats, "r").status, RequestStatus::Interrupted);
    chats.delete_chat("a").unwrap();
    assert_eq!(listed(&chats, &all()), [""; 0]);
    chats.restore_chat("a").unwrap();
    assert_eq!(listed(&chats, &all()), ["a/r:interrupted"]);
}

#[test]
fn what_a_process_left_unanswered_is_found_by_the_next_one_and_by_readers() {
    let folder = tempfile::tempdir().unwrap();
    let (written, path) = (folder.path().join("written"), folder.path().join("store"));
    let store = Store::open(&written).unwrap();
    let chats = store.chats();
    begun(&chats, "a", "stopped")
        .finish(RequestEnd::Interrupted)
        .unwrap();
    let killed = begun(&chats, "a", "killed");
    begun(&chats, "b", "done")
        .finish(RequestEnd::Completed)
        .unwrap();
    // What is on the disk now is what a process leaves that dies here.
    std::fs::create_dir(&path).unwrap();
    for file in std::fs::read_dir(&written).unwrap().map(Result::unwrap) {
        std::fs::copy(file.path(), path.join(file.file_name())).unwrap();
    }
    drop(killed);
    let told = |options: &ListRequests, read_only: bool| {
        let store = match read_only {
            true => Store::open_read_only(&path).unwrap(),
            false => Store::open(&path).unwrap(),
        };
        listed(&store.chats(), options)
    };
    for _ in 0..2 {
        assert_eq!(
            told(&unattended(), false),
            ["a/killed:running", "a/stopped:interrupted"]
        );
        assert_eq!(
            told(&all(), true),
            ["a/killed:running", "a/stopped:interrupted"]
        );
    }
    let store = Store::open(&path).unwrap();
    let chats = store.chats();
    // It has no step to go on from; whoever asks again dismisses it.
    assert_eq!(chats.resume_request("killed").unwrap(), None);
    chats.dismiss("killed").unwrap();
    assert_eq!(listed(&chats, &unattended()), ["a/stopped:interrupted"]);
}
