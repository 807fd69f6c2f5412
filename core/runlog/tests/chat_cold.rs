//! Chats that aren't in memory: pages, saves and ids are found where they are in the log, and are what the whole chat says.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::{sync::Barrier, thread};

use runlog::{
    ErrorKind, RawJson, Store, blocking,
    chats::{
        Chat, ChatMessage, ChatRole, ListMessages, ListSteps, MessageFilter, NewRequest,
        RequestEnd, Step, StepStatus, StepType, Updates,
    },
    log::{Batch, Op, Position},
    retention::RetentionPolicy,
    sessions::CopySession,
};

fn text(content: &str) -> ChatMessage {
    ChatMessage::text(ChatRole::User, content)
}

fn with_id(id: &str) -> ChatMessage {
    ChatMessage {
        message_id: id.into(),
        ..text(id)
    }
}

fn step(id: &str, request: &str, stack: &str) -> Step {
    Step {
        step_id: id.into(),
        chat_id: "c".into(),
        ..Step::new(request, "a", stack, StepType::Llm)
    }
}

fn named(id: &str) -> Chat {
    Chat {
        chat_id: id.into(),
        ..Chat::new("a")
    }
}

/// A handle of the same log that has nothing in memory.
fn cold(store: &Store) -> runlog::chats::Chats {
    Store::with_backend(store.backend().clone()).chats()
}

fn updates(json: &str) -> Updates {
    Updates::parse(json).unwrap()
}

/// Every message of chat `c`, by pages of a size from one end, each from a handle that has nothing in memory.
fn paged(store: &Store, newest_first: bool, limit: usize) -> Vec<ChatMessage> {
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let options = ListMessages {
            newest_first,
            limit,
            cursor,
            ..ListMessages::default()
        };
        let page = pollster::block_on(cold(store).list_messages("c", &options)).unwrap();
        found.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

fn check_pages(store: &Store, what: &str, limits: &[usize]) {
    let folded = cold(store);
    let filter = MessageFilter::default();
    let all = pollster::block_on(folded.get_messages("c", &filter)).unwrap();
    for &limit in limits {
        assert_eq!(paged(store, false, limit), all, "{what}, {limit} at a time");
        let mut backwards = paged(store, true, limit);
        backwards.reverse();
        assert_eq!(backwards, all, "{what}, the newest {limit} first");
        let first = MessageFilter {
            limit,
            ..MessageFilter::default()
        };
        let got = pollster::block_on(cold(store).get_messages("c", &first)).unwrap();
        assert_eq!(got, all[..limit.min(all.len())], "{what}");
    }
    check_filters(store, what, &all);
}

/// What is limited to a request or a side, and what comes at an offset, of a chat that isn't in memory.
fn check_filters(store: &Store, what: &str, all: &[ChatMessage]) {
    let get = |filter: &MessageFilter| {
        let chats = cold(store);
        let count = pollster::block_on(cold(store).count_messages("c", filter)).unwrap();
        let got = pollster::block_on(chats.get_messages("c", filter)).unwrap();
        assert!(filter.limit > 0 || count == got.len(), "{what}: {filter:?}");
        got
    };
    let of = |is: &dyn Fn(&&ChatMessage) -> bool| all.iter().filter(is).cloned().collect();
    for id in all.iter().filter_map(|message| message.request_id.clone()) {
        let wanted: Vec<_> = of(&|message| message.request_id.as_deref() == Some(&id));
        let request_id = Some(id);
        let filter = MessageFilter {
            request_id,
            ..MessageFilter::default()
        };
        assert_eq!(get(&filter), wanted, "{what}: {filter:?}");
    }
    let role = Some(ChatRole::Assistant);
    let filter = MessageFilter {
        role,
        limit: 3,
        offset: 1,
        ..MessageFilter::default()
    };
    let wanted: Vec<_> = of(&|message| message.role == ChatRole::Assistant);
    let wanted: Vec<_> = wanted.into_iter().skip(1).take(3).collect();
    assert_eq!(get(&filter), wanted, "{what}: {filter:?}");
}

/// The first and the last page of a handle that has listed pages before, as the chat was then.
fn check_reader(store: &Store, reader: &runlog::chats::Chats, what: &str) {
    let filter = MessageFilter::default();
    let all = pollster::block_on(cold(store).get_messages("c", &filter)).unwrap();
    for newest_first in [false, true] {
        let options = ListMessages {
            newest_first,
            limit: 4,
            ..ListMessages::default()
        };
        let page = pollster::block_on(reader.list_messages("c", &options)).unwrap();
        let mut wanted = all.clone();
        if newest_first {
            wanted.reverse();
        }
        wanted.truncate(4);
        assert_eq!(page.items, wanted, "{what}, newest first: {newest_first}");
    }
}

#[test]
fn pages_of_a_chat_that_is_not_in_memory_are_those_of_its_fold() {
    for seed in 0..12_u64 {
        let store = Store::in_memory();
        let chats = blocking::Store::with_backend(store.backend().clone()).chats();
        chats.create_chat(named("c")).unwrap();
        check_pages(&store, "nothing", &[1]);
        let mut state = seed;
        let mut below = |end: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % end
        };
        // Only lists, so that it folds no chat as long as its pages need none.
        let reader = cold(&store);
        for number in 0..25 {
            check_reader(&store, &reader, &format!("seed {seed}, before {number}"));
            let ids = || {
                let all = chats.get_messages("c", &MessageFilter::default()).unwrap();
                all.into_iter().map(|it| it.message_id).collect::<Vec<_>>()
            };
            match below(10) {
                0..3 => {
                    let count = 1 + below(4);
                    let new = (0..count).map(|_| text(&number.to_string())).collect();
                    chats.save_messages("c", new).unwrap();
                }
                3..6 => {
                    let new = NewRequest::new("a");
                    let mut request = chats.begin_request("c", new, text("?")).unwrap();
                    for _ in 0..below(5) {
                        let answer = ChatMessage::text(ChatRole::Assistant, "!");
                        request.send(answer).unwrap();
                        request.start_step(StepType::Llm, raw("{}")).unwrap();
                    }
                    request.finish(RequestEnd::Completed).unwrap();
                }
                6 => {
                    if let Some(id) = ids().get(usize::try_from(below(20)).unwrap()) {
                        chats
                            .update_message(id, &updates(r#"{"metadata":{"liked":true}}"#))
                            .unwrap();
                    }
                }
                7 => {
                    let ids = ids();
                    let gone: Vec<&str> = ids.iter().step_by(5).map(String::as_str).collect();
                    if below(2) == 0 {
                        chats.delete_messages("c", &gone).unwrap();
                    }
                }
                8 if seed % 3 == 0 => {
                    if let Some(id) = ids().first() {
                        chats.redact_message(id, "a secret").unwrap();
                    }
                }
                9 if seed % 5 == 0 => {
                    let message = ChatMessage {
                        sequence: 1 + below(60),
                        ..text("given")
                    };
                    chats.save_messages("c", vec![message]).unwrap();
                }
                _ => {}
            }
        }
        check_pages(&store, &format!("seed {seed}"), &[1, 7, 500]);
    }
}

fn raw(json: &str) -> RawJson {
    RawJson::parse(json).unwrap()
}

#[test]
fn pages_of_a_chat_with_many_changes_are_those_of_its_fold() {
    let store = Store::in_memory();
    let chats = blocking::Store::with_backend(store.backend().clone()).chats();
    chats.create_chat(named("c")).unwrap();
    let new = (0..300).map(|number| with_id(&format!("m{number}")));
    chats.save_messages("c", new.collect()).unwrap();
    for number in 0..300 {
        let like = updates(r#"{"metadata":1}"#);
        chats.update_message(&format!("m{number}"), &like).unwrap();
    }
    check_pages(&store, "300 changes", &[60]);
}

#[test]
fn an_id_that_was_deleted_and_given_again_is_found_cold() {
    let store = Store::in_memory();
    let chats = blocking::Store::with_backend(store.backend().clone()).chats();
    chats.create_chat(named("c")).unwrap();
    let ids: Vec<String> = (0..20).map(|number| format!("m{number}")).collect();
    let all = || ids.iter().map(|id| with_id(id)).collect();
    chats.save_messages("c", all()).unwrap();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    chats.delete_messages("c", &ids).unwrap();
    let again = pollster::block_on(cold(&store).save_messages("c", all())).unwrap();
    assert_eq!(again[0].sequence, 21);
    let taken = pollster::block_on(cold(&store).save_messages("c", vec![with_id("m19")]));
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::AlreadyExists);
    check_pages(&store, "given again", &[3]);
}

#[test]
fn an_id_that_was_deleted_or_redacted_is_free_for_the_handle_that_gave_it() {
    let store = Store::in_memory();
    let chats = store.chats();
    pollster::block_on(async {
        chats.create_chat(named("c")).await.unwrap();
        let is_saved_once = async || {
            chats.save_messages("c", vec![with_id("m")]).await.unwrap();
            let again = chats.save_messages("c", vec![with_id("m")]).await;
            assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        };
        is_saved_once().await;
        for deleting in [chats.clone(), cold(&store)] {
            deleting.delete_messages("c", &["m"]).await.unwrap();
            is_saved_once().await;
            deleting.redact_message("m", "a secret").await.unwrap();
            is_saved_once().await;
            // What was changed by another is still there.
            let like = updates(r#"{"metadata":1}"#);
            deleting.update_message("m", &like).await.unwrap();
            let again = chats.save_messages("c", vec![with_id("m")]).await;
            assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
    });
    check_pages(&store, "given again", &[1]);
}

#[test]
fn ids_alone_find_what_they_name_without_anything_in_memory() {
    let store = Store::in_memory();
    let waiting = blocking::Store::with_backend(store.backend().clone());
    let chats = waiting.chats();
    for chat in ["a", "b", "c", "d"] {
        chats.create_chat(named(chat)).unwrap();
        chats.save_messages(chat, vec![text("x")]).unwrap();
    }
    chats.save_messages("c", vec![with_id("m")]).unwrap();
    let mut nested = step("s3", "r", "k2");
    nested.stack_parent_id = Some("k1".into());
    chats
        .save_steps(vec![step("s1", "r", "k1"), step("s2", "r", "k1"), nested])
        .unwrap();
    chats
        .update_step("s2", &updates(r#"{"status":"failed","error":"no"}"#))
        .unwrap();
    let cold = || cold(&store);
    let steps = pollster::block_on(cold().get_steps("r")).unwrap();
    let told: Vec<_> = steps.iter().map(|it| (it.sequence, it.status)).collect();
    let (pending, failed) = (StepStatus::Pending, StepStatus::Failed);
    assert_eq!(told, [(1, pending), (2, failed), (3, pending)]);
    let of_stack = pollster::block_on(cold().get_steps_by_stack_id("k2")).unwrap();
    assert_eq!(of_stack, steps[2..]);
    let path = pollster::block_on(cold().get_stack_path("k2")).unwrap();
    assert_eq!(path, ["k1", "k2"]);
    let like = updates(r#"{"metadata":1}"#);
    let updated = pollster::block_on(cold().update_message("m", &like)).unwrap();
    assert_eq!((updated.chat_id.as_str(), updated.sequence), ("c", 2));
    // A step that moved to another request is one of that.
    chats
        .update_step("s1", &updates(r#"{"request_id":"other","stack_id":"k9"}"#))
        .unwrap();
    let of = |id: &str| {
        let steps = pollster::block_on(cold().get_steps(id)).unwrap();
        steps.into_iter().map(|it| it.step_id).collect::<Vec<_>>()
    };
    assert_eq!(
        (of("r"), of("other")),
        (vec!["s2".into(), "s3".into()], vec!["s1".to_owned()])
    );
    for unknown in ["x", "m", "01a20929-c798-8f61-ab97-e813180412c3"] {
        let error = pollster::block_on(cold().get_steps(unknown)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{unknown}");
    }

    let session = waiting.find_session("c").unwrap().id;
    let copy = waiting
        .copy_session(session, &CopySession::default())
        .unwrap();
    let copy_id = copy.session.id.to_string();
    let copied = chats
        .get_messages(&copy_id, &MessageFilter::default())
        .unwrap();
    let id = &copied[1].message_id;
    let updated = pollster::block_on(cold().update_message(id, &like)).unwrap();
    assert_eq!((updated.chat_id, updated.message_id), (copy_id, id.clone()));
    let updated = pollster::block_on(cold().update_message("m", &like)).unwrap();
    assert_eq!(updated.chat_id, "c", "the original keeps its ids");
    chats.delete_chat("c").unwrap();
    let error = pollster::block_on(cold().update_message("m", &like)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn two_thousand_saves_at_once_have_sequences_without_a_hole() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let chats = store.chats();
    pollster::block_on(async {
        chats.create_chat(named("c")).await.unwrap();
        let save = |number: usize| {
            let message = if number.is_multiple_of(2) {
                text("x")
            } else {
                with_id(&format!("m{number}"))
            };
            chats.save_messages("c", vec![message])
        };
        let saved = futures_util::future::join_all((0..2_000).map(save)).await;
        let mut found: Vec<_> = saved.into_iter().map(|it| it.unwrap().remove(0)).collect();
        found.sort_by_key(|message| message.sequence);
        assert!(found.iter().map(|it| it.sequence).eq(1..=2_000));
        let all = chats.get_messages("c", &MessageFilter::default()).await;
        assert_eq!(all.unwrap(), found, "each was told what it became");
    });
    check_pages(&store, "2,000 at once", &[700]);
}

#[test]
fn of_many_that_save_under_one_id_at_once_one_wins() {
    let store = Store::in_memory();
    let chats = store.chats();
    pollster::block_on(async {
        chats.create_chat(named("c")).await.unwrap();
        let save = |_| chats.save_messages("c", vec![with_id("m")]);
        let saved = futures_util::future::join_all((0..50).map(save)).await;
        let (won, lost): (Vec<_>, Vec<_>) = saved.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 49));
        assert!(
            lost.iter()
                .all(|it| it.as_ref().unwrap_err().kind() == ErrorKind::AlreadyExists)
        );
    });
}

/// What two threads answer that begin at the same moment, the one for chat `a`, the other for chat `b`.
fn at_once<T: Send>(work: impl Fn(&'static str) -> T + Sync) -> [T; 2] {
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let begin = |chat| {
            let (work, start) = (&work, &start);
            scope.spawn(move || {
                start.wait();
                work(chat)
            })
        };
        ["a", "b"].map(begin).map(|thread| thread.join().unwrap())
    })
}

#[test]
fn one_id_that_two_chats_save_at_once_is_one_chats() {
    let folder = tempfile::tempdir().unwrap();
    let chats = blocking::Store::open(folder.path()).unwrap().chats();
    for id in ["a", "b"] {
        chats.create_chat(named(id)).unwrap();
    }
    for number in 0..50 {
        let id = format!("m{number}");
        let saved = at_once(|chat| chats.save_messages(chat, vec![with_id(&id)]));
        let errors: Vec<_> = saved.into_iter().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 1, "{id}");
        assert_eq!(errors[0].kind(), ErrorKind::AlreadyExists);
        let told = updates(r#"{"props":{"content":"told"}}"#);
        chats.update_message(&id, &told).unwrap();
    }
    for number in 0..20 {
        let id = format!("answer{number}");
        let ended = at_once(|chat| {
            let mut request = chats
                .begin_request(chat, NewRequest::new("a"), text("?"))
                .unwrap();
            request.send(with_id(&id))?;
            request.finish(RequestEnd::Completed)
        });
        let errors: Vec<_> = ended.into_iter().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 1, "{id}: {errors:?}");
        assert_eq!(chats_with(&chats, &["a", "b"], &id).len(), 1, "{id}");
    }
    // It is reserved for as long as it is being saved, and no longer.
    chats.delete_chat("a").unwrap();
    chats.delete_chat("b").unwrap();
    chats.create_chat(named("c")).unwrap();
    chats.save_messages("c", vec![with_id("m1")]).unwrap();
}

#[test]
fn messages_behind_one_of_a_given_sequence_keep_theirs_when_that_is_redacted() {
    let store = Store::in_memory();
    let chats = store.chats();
    pollster::block_on(async {
        chats.create_chat(named("c")).await.unwrap();
        let given = ChatMessage {
            sequence: 50,
            ..with_id("given")
        };
        let messages = vec![with_id("first"), given, with_id("third"), with_id("last")];
        chats.save_messages("c", messages).await.unwrap();
        let first = ListMessages {
            limit: 3,
            ..ListMessages::default()
        };
        let page = chats.list_messages("c", &first).await.unwrap();
        chats.redact_message("given", "a secret").await.unwrap();
        for chats in [store.chats(), cold(&store)] {
            let all = chats.get_messages("c", &MessageFilter::default()).await;
            let all: Vec<_> = all.unwrap().iter().map(|it| it.sequence).collect();
            assert_eq!(all, [1, 51, 52]);
            let rest = ListMessages {
                cursor: page.next.clone(),
                ..first.clone()
            };
            let rest = chats.list_messages("c", &rest).await.unwrap();
            assert_eq!(rest.items.len(), 1);
            assert_eq!(rest.items[0].message_id, "last");
        }
    });
}

/// Pages of steps of every chat, each from a handle that has nothing in memory; one that has folded all chats says the same.
fn steps_anywhere(store: &Store, options: &ListSteps) -> Vec<String> {
    let (mut found, mut cursor) = (Vec::new(), None);
    let folded = cold(store);
    for chat in ["c", "d"] {
        let chat_id = Some(chat.to_owned());
        let of_chat = ListSteps {
            chat_id,
            ..ListSteps::default()
        };
        pollster::block_on(folded.list_steps(&of_chat)).unwrap();
    }
    loop {
        let page = ListSteps {
            cursor,
            ..options.clone()
        };
        let same = pollster::block_on(folded.list_steps(&page)).unwrap();
        let page = pollster::block_on(cold(store).list_steps(&page)).unwrap();
        assert_eq!(same, page);
        assert!(page.items.len() <= options.limit);
        found.extend(page.items.into_iter().map(|step| step.step_id));
        cursor = page.next;
        if cursor.is_none() {
            return found;
        }
    }
}

#[test]
fn steps_are_listed_across_chats_by_what_they_are_now() {
    let store = Store::in_memory();
    let chats = blocking::Store::with_backend(store.backend().clone()).chats();
    for chat in ["c", "d", "gone"] {
        chats.create_chat(named(chat)).unwrap();
    }
    let of = |chat: &str, id: &str, assistant: &str, step_type| Step {
        chat_id: chat.into(),
        step_id: id.into(),
        status: StepStatus::Running,
        ..Step::new(
            format!("r {chat}"),
            assistant,
            format!("k {chat}"),
            step_type,
        )
    };
    let saved = [
        of("c", "1", "a", StepType::Llm),
        of("d", "2", "a", StepType::Tool),
        of("c", "3", "b", StepType::Tool),
        of("gone", "4", "a", StepType::Llm),
        of("d", "5", "b", StepType::Llm),
        of("d", "6", "a", StepType::Llm),
    ];
    for step in saved {
        chats.save_steps(vec![step]).unwrap();
    }
    chats.delete_chat("gone").unwrap();
    for (id, status) in [
        ("6", "failed"),
        ("1", "failed"),
        ("2", "completed"),
        ("6", "running"),
        ("6", "failed"),
    ] {
        let status = updates(&format!(r#"{{"status":"{status}"}}"#));
        chats.update_step(id, &status).unwrap();
    }
    let all = ListSteps::default;
    let assistant = |id: &str| Some(id.to_owned());
    for limit in [1, 2, 50] {
        let list = |options: ListSteps| steps_anywhere(&store, &ListSteps { limit, ..options });
        assert_eq!(list(all()), ["1", "2", "3", "5", "6"]);
        let assistant_id = assistant("a");
        assert_eq!(
            list(ListSteps {
                assistant_id,
                ..all()
            }),
            ["1", "2", "6"]
        );
        // In the order in which they failed first, each once.
        let status = Some(StepStatus::Failed);
        assert_eq!(list(ListSteps { status, ..all() }), ["6", "1"]);
        let status = Some(StepStatus::Running);
        assert_eq!(list(ListSteps { status, ..all() }), ["3", "5"]);
        let (status, assistant_id) = (Some(StepStatus::Completed), assistant("b"));
        let none = ListSteps {
            status,
            assistant_id,
            ..all()
        };
        assert!(list(none).is_empty());
        let step_type = Some(StepType::Tool);
        assert_eq!(list(ListSteps { step_type, ..all() }), ["2", "3"]);
        let request_id = Some("r d".to_owned());
        assert_eq!(
            list(ListSteps {
                request_id,
                ..all()
            }),
            ["2", "5", "6"]
        );
        let (chat_id, assistant_id) = (Some("d".to_owned()), assistant("a"));
        let of_chat = ListSteps {
            chat_id,
            assistant_id,
            ..all()
        };
        assert_eq!(list(of_chat), ["2", "6"]);
    }
    let one = ListSteps { limit: 1, ..all() };
    let first = chats.list_steps(&one).unwrap();
    assert_eq!(first.items, [chats.get_steps("r c").unwrap()[0].clone()]);
    let other = ListSteps {
        cursor: first.next,
        status: Some(StepStatus::Failed),
        ..one
    };
    let refused = chats.list_steps(&other).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_change_that_was_redacted_is_undone_on_pages_that_were_read_before() {
    let store = Store::in_memory();
    let chats = blocking::Store::with_backend(store.backend().clone()).chats();
    chats.create_chat(named("c")).unwrap();
    chats.save_messages("c", vec![with_id("m")]).unwrap();
    let like = updates(r#"{"metadata":{"liked":true}}"#);
    chats.update_message("m", &like).unwrap();
    let reader = cold(&store);
    check_reader(&store, &reader, "changed");
    // The change alone, which is the last record of the log.
    let log = pollster::block_on(store.backend().scan(Position::FIRST, 100)).unwrap();
    let position = log.records.last().unwrap().position;
    let redact = Op::Redact {
        position,
        reason: "a secret",
    };
    pollster::block_on(store.backend().commit(Batch::new(vec![redact]))).unwrap();
    check_reader(&store, &reader, "redacted");
    let filter = MessageFilter::default();
    let messages = pollster::block_on(reader.get_messages("c", &filter)).unwrap();
    assert_eq!(messages[0].metadata, None);
}

#[test]
fn chat_that_was_emptied_and_is_as_long_again_is_read_anew_by_other_handles() {
    let store = Store::in_memory();
    let chats = store.chats();
    pollster::block_on(chats.create_chat(named("c"))).unwrap();
    let say = |what: &str| {
        for number in 0..5 {
            let message = ChatMessage {
                message_id: format!("m{number}"),
                ..text(&format!("{what} {number}"))
            };
            pollster::block_on(chats.save_messages("c", vec![message])).unwrap();
        }
        let changes = updates(&format!(r#"{{"metadata":"{what}"}}"#));
        pollster::block_on(chats.update_message("m1", &changes)).unwrap();
    };
    let read = |reader: &runlog::chats::Chats, is_folded: bool| {
        let messages = if is_folded {
            pollster::block_on(reader.get_messages("c", &MessageFilter::default())).unwrap()
        } else {
            let options = ListMessages::default();
            pollster::block_on(reader.list_messages("c", &options))
                .unwrap()
                .items
        };
        let told = messages.into_iter().map(|message| {
            let metadata = message.metadata.map(|it| it.as_str().to_owned());
            (message.props.as_str().to_owned(), metadata)
        });
        told.collect::<Vec<_>>()
    };
    say("old");
    // One has the chat's fold, the other the changes of its messages.
    let readers = [(cold(&store), true), (cold(&store), false)];
    let before = readers
        .each_ref()
        .map(|(reader, folded)| read(reader, *folded));
    assert_eq!(before[0], before[1]);
    pollster::block_on(chats.delete_chat("c")).unwrap();
    let deleted = RetentionPolicy {
        deleted: true,
        ..RetentionPolicy::default()
    };
    assert_eq!(
        pollster::block_on(store.retain(&deleted)).unwrap().sessions,
        1
    );
    pollster::block_on(chats.restore_chat("c")).unwrap();
    say("new");
    for (reader, is_folded) in &readers {
        let now = read(reader, *is_folded);
        assert_eq!(now, read(&cold(&store), *is_folded));
        assert_ne!(now, before[0]);
        assert_eq!(now[1].1.as_deref(), Some(r#""new""#), "{is_folded}");
    }
}

/// The chats with a message of an id.
fn chats_with(chats: &blocking::Chats, ids: &[&'static str], message: &str) -> Vec<&'static str> {
    let has = |chat: &&'static str| {
        let all = ListMessages {
            limit: 1_000,
            ..ListMessages::default()
        };
        let page = chats.list_messages(chat, &all).unwrap();
        page.items.iter().any(|found| found.message_id == message)
    };
    ids.iter().copied().filter(has).collect()
}

#[test]
fn a_dropped_request_takes_no_id_that_another_chat_has() {
    let folder = tempfile::tempdir().unwrap();
    let store = blocking::Store::open(folder.path()).unwrap();
    let chats = store.chats();
    for id in ["a", "b"] {
        chats.create_chat(named(id)).unwrap();
    }
    let mut request = chats
        .begin_request("b", NewRequest::new("a"), text("?"))
        .unwrap();
    chats.save_messages("a", vec![with_id("answer")]).unwrap();
    chats.delete_chat("a").unwrap();
    // While that chat is deleted its ids are free.
    request.send(with_id("answer")).unwrap();
    request.send(text("behind it")).unwrap();
    chats.restore_chat("a").unwrap();
    drop(request);
    assert_eq!(chats_with(&chats, &["a", "b"], "answer"), ["a"]);
    // What was sent is kept nevertheless, and the id names the one that had it first.
    let kept = chats.list_messages("b", &ListMessages::default()).unwrap();
    let ids: Vec<_> = kept
        .items
        .iter()
        .map(|message| &*message.message_id)
        .collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
    assert_eq!(
        ids.iter().collect::<std::collections::HashSet<_>>().len(),
        3,
        "{ids:?}"
    );
    chats
        .update_message("answer", &updates(r#"{"props":{"content":"told"}}"#))
        .unwrap();
    drop((chats, store));
    let again = blocking::Store::open(folder.path()).unwrap().chats();
    assert_eq!(chats_with(&again, &["a", "b"], "answer"), ["a"]);
    let kept_again = again.list_messages("b", &ListMessages::default()).unwrap();
    assert_eq!(kept_again.items, kept.items);
}

#[test]
fn ids_of_steps_requests_and_chats_that_are_given_at_once_are_one_chats() {
    let folder = tempfile::tempdir().unwrap();
    let chats = blocking::Store::open(folder.path()).unwrap().chats();
    for id in ["a", "b"] {
        chats.create_chat(named(id)).unwrap();
    }
    for number in 0..50 {
        let request = format!("r{number}");
        let begun = at_once(|chat| {
            let new = NewRequest {
                request_id: Some(request.clone()),
                ..NewRequest::new("a")
            };
            let mut begun = chats.begin_request(chat, new, text("?"))?;
            begun.finish(RequestEnd::Completed)
        });
        let refused = begun.iter().filter(|it| it.is_err()).count();
        assert_eq!(refused, 1, "{request}: {begun:?}");

        let id = format!("s{number}");
        let saved = at_once(|chat| {
            let of_chat = Step {
                chat_id: chat.into(),
                ..step(&id, &format!("of {chat}"), &format!("stack of {chat}"))
            };
            chats.save_steps(vec![of_chat])
        });
        let refused = saved.iter().filter(|it| it.is_err()).count();
        assert_eq!(refused, 1, "{id}: {saved:?}");

        let id = format!("c{number}");
        let made = at_once(|_| chats.create_chat(named(&id)));
        let refused = made.iter().filter(|it| it.is_err()).count();
        assert_eq!(refused, 1, "{id}: {made:?}");
    }
}

#[test]
fn a_redaction_in_a_chat_with_gaps_gives_no_other_message_its_sequence() {
    let store = Store::in_memory();
    let chats = store.chats();
    let given = |id: &str, sequence| ChatMessage {
        sequence,
        ..with_id(id)
    };
    pollster::block_on(async {
        let chat = chats.create_chat(Chat::new("a")).await.unwrap().chat_id;
        let mut request = chats
            .begin_request(&chat, NewRequest::new("r"), with_id("question"))
            .await
            .unwrap();
        request.send(with_id("answer")).unwrap();
        let messages = vec![given("a", 5), given("b", 10)];
        chats.save_messages(&chat, messages).await.unwrap();
        request.finish(RequestEnd::Completed).await.unwrap();
        let messages = vec![given("y", 30), given("z", 40)];
        chats.save_messages(&chat, messages).await.unwrap();
        let copy = store
            .copy_session(chat.parse().unwrap(), &CopySession::default())
            .await
            .unwrap();
        let copy = copy.session.id.to_string();
        let last_message_at = async |chat: &str| {
            let chat = chats.get_chat(chat).await.unwrap().unwrap();
            chat.last_message_at_ms
        };
        let before = (last_message_at(&chat).await, last_message_at(&copy).await);
        chats.redact_message("b", "a secret").await.unwrap();
        chats.redact_message("z", "a secret").await.unwrap();
        for chat in [&chat, &copy] {
            for chats in [store.chats(), cold(&store)] {
                let all = chats.get_messages(chat, &MessageFilter::default()).await;
                let all: Vec<_> = all.unwrap().iter().map(|it| it.sequence).collect();
                assert_eq!(all, [1, 5, 11, 30], "{chat}");
            }
            let next = cold(&store).save_messages(chat, vec![text("next")]).await;
            assert_eq!(next.unwrap()[0].sequence, 41, "{chat}");
        }
        assert!(before.0 <= last_message_at(&chat).await);
    });
}
