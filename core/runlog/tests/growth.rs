//! What costs as much in a large store as in a small one: the records that calls read are counted.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

mod watched;

use std::sync::Arc;

use pollster::block_on;
use runlog::{
    NewMessage, NewRun, NewSession, NewToolCall, RawJson, RunId, SessionId, Store,
    backend::Backend,
    blocking::{self, RunRecorder},
    chats::{
        Chat, ChatMessage, ChatRole, ListMessages, MessageFilter, NewRequest, RequestEnd, Step,
        StepType, Updates,
    },
    contexts::EventOptions,
    engine::{Embedded, StreamId, SystemHost, Wait},
    runs::{ListRunMessages, ListToolCalls, RunEntry, ToolCallStatus, ToolOutcome},
    sessions::CopySession,
    transcripts::NewContextEvent,
};
use uuid::Uuid;
use watched::Watched;

/// A small store, and one ten times as large.
const SIZES: [u32; 2] = [400, 4_000];

fn store() -> (Arc<Watched>, blocking::Store) {
    let watched = Watched::new(Arc::new(Embedded::in_memory(
        Arc::new(SystemHost),
        Wait::Block,
    )));
    let backend: Arc<dyn Backend> = watched.clone();
    (watched, blocking::Store::with_backend(backend))
}

/// Asserts that what is done reads at most so many records in stores of both sizes.
fn reads_at_most(most: u64, what: &str, done: impl Fn(u32) -> u64) {
    for size in SIZES {
        let read = done(size);
        assert!(
            read <= most,
            "{what}: {read} records read with {size}, at most {most} expected"
        );
    }
}

fn step(run: &RunRecorder, number: u32) {
    run.next_step().unwrap();
    let call = NewToolCall::new(format!("call {number}"), "ls", "{}");
    run.record_message(NewMessage::assistant("ok").with_tool_calls([call]))
        .unwrap();
    run.record_tool_result(&ToolOutcome::completed(
        format!("call {number}"),
        RawJson::string("x"),
    ))
    .unwrap();
}

/// What something reads of a run with so many steps, each with a tool call.
fn read_of_a_run(steps: u32, what: impl Fn(&blocking::Store, RunId)) -> u64 {
    let (watched, store) = store();
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    (1..=steps).for_each(|number| step(&run, number));
    let streams = [
        StreamId(run.id().as_uuid()),
        StreamId(run.run().instance_id.as_uuid()),
    ];
    let before: u64 = streams.iter().map(|stream| watched.read(*stream)).sum();
    what(&store, run.id());
    streams
        .iter()
        .map(|stream| watched.read(*stream))
        .sum::<u64>()
        - before
}

#[test]
fn looking_at_a_run_reads_no_steps_but_the_last() {
    let read = |what: fn(&blocking::Store, RunId)| move |steps| read_of_a_run(steps, what);
    reads_at_most(
        8,
        "get",
        read(|store, run| assert!(store.runs().get(run).unwrap().unwrap().step_count >= SIZES[0])),
    );
    reads_at_most(
        8,
        "recorder",
        read(|store, run| drop(store.runs().recorder(run).unwrap())),
    );
    reads_at_most(
        300,
        "the first page of messages",
        read(|store, run| {
            let page = store
                .runs()
                .messages(run, &ListRunMessages::default())
                .unwrap();
            assert_eq!((page.items.len(), page.next.is_some()), (50, true));
        }),
    );
    reads_at_most(
        400,
        "the first page of tool calls",
        read(|store, run| {
            assert_eq!(
                store
                    .runs()
                    .tool_calls(run, &ListToolCalls::default())
                    .unwrap()
                    .items
                    .len(),
                50
            );
        }),
    );
}

#[test]
fn the_messages_of_a_step_are_found_by_halving() {
    reads_at_most(300, "the messages of a step", |steps| {
        read_of_a_run(steps, |store, run| {
            let of_step = ListRunMessages {
                step_number: Some(steps - 3),
                ..ListRunMessages::default()
            };
            let messages = store.runs().messages(run, &of_step).unwrap().items;
            assert_eq!(
                messages
                    .iter()
                    .map(|message| message.step_number)
                    .collect::<Vec<_>>(),
                [steps - 3; 2]
            );
        })
    });
}

#[test]
fn the_calls_that_failed_are_found_without_those_that_did_not() {
    reads_at_most(250, "the calls that failed", |steps| {
        read_of_a_run(steps, |store, run| {
            let recorder = store.runs().recorder(run).unwrap();
            for number in 0..3 {
                let id = format!("failed {number}");
                let call = NewToolCall::new(&id, "ls", "{}");
                recorder
                    .record_message(NewMessage::assistant("").with_tool_calls([call]))
                    .unwrap();
                recorder
                    .record_tool_result(&ToolOutcome::error(&id, RawJson::string("no")))
                    .unwrap();
            }
            let failed = ListToolCalls {
                status: Some(ToolCallStatus::Error),
                ..ListToolCalls::default()
            };
            let page = store.runs().tool_calls(run, &failed).unwrap();
            assert_eq!((page.items.len(), page.next), (3, None));
        })
    });
}

#[test]
fn calls_of_a_rare_tool_are_found_by_its_name() {
    reads_at_most(100, "the calls of a rare tool", |steps| {
        read_of_a_run(steps, |store, run| {
            let recorder = store.runs().recorder(run).unwrap();
            for number in 0..3 {
                let rare = NewToolCall::new(format!("rare {number}"), "rare", "{}");
                recorder
                    .record_message(NewMessage::assistant("").with_tool_calls([rare]))
                    .unwrap();
                let answer = ToolOutcome::completed(format!("rare {number}"), RawJson::string("x"));
                recorder.record_tool_result(&answer).unwrap();
            }
            let rare = ListToolCalls {
                tool_name: Some("rare".into()),
                ..ListToolCalls::default()
            };
            let page = store.runs().tool_calls(run, &rare).unwrap();
            assert_eq!((page.items.len(), page.next), (3, None));
        })
    });
}

#[test]
fn calls_that_are_recorded_with_their_results_are_not_looked_for() {
    let entry = |message: NewMessage| RunEntry {
        events: NewContextEvent::of_message(message.to_json().unwrap(), &EventOptions::default())
            .unwrap(),
        begins_step: false,
    };
    reads_at_most(20, "64 calls with their results in one batch", |steps| {
        read_of_a_run(steps, |store, run| {
            let recorder = store.runs().recorder(run).unwrap();
            let entries: Vec<_> = (0..64)
                .flat_map(|number| {
                    let id = format!("many {number}");
                    let call = NewToolCall::new(&id, "ls", "{}");
                    let asked = NewMessage::assistant("").with_tool_calls([call]);
                    [entry(asked), entry(NewMessage::tool(&id, "x"))]
                })
                .collect();
            recorder.record_entries(&entries, None).unwrap();
        })
    });
}

#[test]
fn the_last_messages_of_a_run_are_read_from_its_end() {
    let last = |step_number| {
        move |store: &blocking::Store, run| {
            let newest = ListRunMessages {
                newest_first: true,
                step_number,
                limit: 10,
                ..ListRunMessages::default()
            };
            let page = store.runs().messages(run, &newest).unwrap();
            assert_eq!(page.items.len(), if step_number.is_some() { 2 } else { 10 });
        }
    };
    reads_at_most(60, "the last messages", |steps| {
        read_of_a_run(steps, last(None))
    });
    reads_at_most(150, "the last messages of a step", |steps| {
        read_of_a_run(steps, last(Some(steps / 2)))
    });
}

#[test]
fn a_fresh_recorder_finds_the_call_that_a_result_answers_from_the_end() {
    reads_at_most(32, "a tool result", |steps| {
        read_of_a_run(steps, |store, run| {
            let block = r#"{"type":"tool_use","id":"last","name":"ls","input":{}}"#;
            let message = format!(r#"{{"role":"assistant","content":[{block}]}}"#);
            store
                .runs()
                .recorder(run)
                .unwrap()
                .record_raw_message(RawJson::parse(message).unwrap())
                .unwrap();
            let answer = ToolOutcome::completed("last", RawJson::string("x"));
            let recorded = store
                .runs()
                .recorder(run)
                .unwrap()
                .record_tool_result(&answer)
                .unwrap();
            let told = store.runs().message(run, recorded.id).unwrap().unwrap();
            assert!(
                told.content.as_str().contains("tool_result"),
                "{:?}",
                told.content
            );
        })
    });
}

#[test]
fn a_fresh_recorder_looks_for_the_calls_of_a_message_once() {
    for is_items in [false, true] {
        reads_at_most(16, "each result of many calls", |size| {
            let (watched, store) = store();
            let count = u64::from(size / 10);
            let run = store
                .runs()
                .start(NewRun::in_new_session(NewSession::default(), "coder"))
                .unwrap();
            if is_items {
                for call in 0..count {
                    let item = format!(
                        r#"{{"type":"function_call","call_id":"{call}","name":"ls","arguments":"{{}}"}}"#
                    );
                    run.record_raw_message(RawJson::parse(item).unwrap())
                        .unwrap();
                }
            } else {
                let calls = (0..count).map(|call| NewToolCall::new(call.to_string(), "ls", "{}"));
                run.record_message(NewMessage::assistant("").with_tool_calls(calls))
                    .unwrap();
            }
            let fresh = store.runs().recorder(run.id()).unwrap();
            let stream = StreamId(run.run().instance_id.as_uuid());
            let before = watched.read(stream);
            for call in 0..count {
                let outcome = ToolOutcome::completed(call.to_string(), RawJson::string("x"));
                fresh.record_tool_result(&outcome).unwrap();
            }
            let twice = ToolOutcome::completed("0", RawJson::string("x"));
            let refused = fresh.record_tool_result(&twice).unwrap_err();
            assert_eq!(refused.kind(), runlog::ErrorKind::AlreadyExists);
            (watched.read(stream) - before) / count
        });
    }
}

#[test]
fn a_fresh_recorder_looks_for_open_calls_in_the_last_turn_alone() {
    reads_at_most(16, "a message", |steps| {
        read_of_a_run(steps, |store, run| {
            store
                .runs()
                .recorder(run)
                .unwrap()
                .record_message(NewMessage::assistant("x"))
                .unwrap();
        })
    });
}

#[test]
fn a_result_of_no_call_is_refused_without_reading_the_whole_context() {
    reads_at_most(2_400, "a result of no call", |steps| {
        read_of_a_run(steps, |store, run| {
            let answer = ToolOutcome::completed("nope", RawJson::string("x"));
            let error = store
                .runs()
                .recorder(run)
                .unwrap()
                .record_tool_result(&answer)
                .unwrap_err();
            assert!(
                error.to_string().contains("no tool call \"nope\""),
                "{error}"
            );
        })
    });
}

/// A chat with so many messages and steps, and the stream that they are in.
fn chat(store: &blocking::Store, size: u32) -> (String, StreamId) {
    let chats = store.chats();
    let id = Uuid::from_u128(7);
    let chat = chats
        .create_chat(Chat {
            chat_id: SessionId(id).to_string(),
            ..Chat::new("travel")
        })
        .unwrap()
        .chat_id;
    let message = || ChatMessage::text(ChatRole::User, "Oslo");
    chats
        .save_messages(&chat, (0..size).map(|_| message()).collect())
        .unwrap();
    let new = |number| Step {
        step_id: format!("step {number}"),
        chat_id: chat.clone(),
        ..Step::new("request", "travel", "stack", StepType::Llm)
    };
    chats.save_steps((0..size).map(new).collect()).unwrap();
    (chat, StreamId(id))
}

#[test]
fn a_change_of_a_chat_reads_itself() {
    reads_at_most(4, "a step saved and updated", |size| {
        let (watched, store) = store();
        let (chat, stream) = chat(&store, size);
        store.chats().get_steps("request").unwrap();
        let before = watched.read(stream);
        let new = Step {
            chat_id: chat,
            step_id: "s".into(),
            ..Step::new("r", "a", "stack", StepType::Llm)
        };
        store.chats().save_steps(vec![new]).unwrap();
        store
            .chats()
            .update_step("s", &Updates::parse(r#"{"status":"completed"}"#).unwrap())
            .unwrap();
        watched.read(stream) - before
    });
}

#[test]
fn a_change_of_what_was_changed_often_reads_itself() {
    reads_at_most(4, "a message's or a step's next change", |changes| {
        let (watched, store) = store();
        let (chat, stream) = chat(&store, 1);
        let chats = store.chats();
        let message = ChatMessage {
            message_id: "m".into(),
            ..ChatMessage::text(ChatRole::Assistant, "")
        };
        chats.save_messages(&chat, vec![message]).unwrap();
        let of_message = |number: u32| {
            let block = Updates::new().with("block_id", RawJson::string(&number.to_string()));
            chats.update_message("m", &block).unwrap();
        };
        let of_step = |number: u32| {
            let output = Updates::new().with(
                "output",
                RawJson::parse(format!(r#"{{"n":{number}}}"#)).unwrap(),
            );
            chats.update_step("step 0", &output).unwrap();
        };
        let read_by = |change: &dyn Fn(u32)| {
            (0..changes).for_each(change);
            let before = watched.read(stream);
            change(changes);
            watched.read(stream) - before
        };
        read_by(&of_message).max(read_by(&of_step))
    });
}

#[test]
fn pages_and_saves_of_a_chat_that_is_not_in_memory_read_no_more_than_they_give() {
    let newest = ListMessages {
        newest_first: true,
        limit: 5,
        ..ListMessages::default()
    };
    let oldest = ListMessages {
        newest_first: false,
        ..newest.clone()
    };
    reads_at_most(50, "two pages from either end, and a save", |size| {
        let (watched, store) = store();
        let (chat, stream) = chat(&store, size);
        let before = watched.read(stream);
        let backend: Arc<dyn Backend> = watched.clone();
        let chats = blocking::Store::with_backend(backend).chats();
        for options in [&newest, &oldest] {
            let first = chats.list_messages(&chat, options).unwrap();
            let cursor = first.next.clone();
            let next = ListMessages {
                cursor,
                ..options.clone()
            };
            let second = chats.list_messages(&chat, &next).unwrap();
            assert_eq!((first.items.len(), second.items.len()), (5, 5));
        }
        let new = ChatMessage::text(ChatRole::User, "x");
        chats.save_messages(&chat, vec![new]).unwrap();
        watched.read(stream) - before
    });
}

#[test]
fn what_concerns_a_part_of_a_chat_that_is_not_in_memory_reads_that_part() {
    type Ask = fn(&blocking::Chats, &str);
    let asked: [(&str, Ask); 6] = [
        ("a change", |chats, _| {
            let liked = Updates::parse(r#"{"metadata":{"liked":true}}"#).unwrap();
            assert_eq!(chats.update_message("m 150", &liked).unwrap().sequence, 151);
        }),
        ("a change of a step", |chats, _| {
            let done = Updates::parse(r#"{"status":"completed"}"#).unwrap();
            assert_eq!(chats.update_step("s 150", &done).unwrap().sequence, 1);
        }),
        ("messages deleted", |chats, chat| {
            chats.delete_messages(chat, &["m 3", "m 150"]).unwrap();
        }),
        ("messages of a request", |chats, chat| {
            let of_request = ListMessages {
                request_id: Some("r 150".into()),
                ..ListMessages::default()
            };
            let found = chats.list_messages(chat, &of_request).unwrap().items;
            assert_eq!((found.len(), found[0].sequence), (1, 151));
        }),
        ("a page of a type that most have", |chats, chat| {
            let of_type = ListMessages {
                message_type: Some("text".into()),
                limit: 5,
                ..ListMessages::default()
            };
            let first = chats.list_messages(chat, &of_type).unwrap();
            let cursor = first.next.clone();
            let next = ListMessages { cursor, ..of_type };
            let second = chats.list_messages(chat, &next).unwrap();
            assert_eq!((first.items.len(), second.items[0].sequence), (5, 6));
        }),
        ("a near offset", |chats, chat| {
            let filter = MessageFilter {
                offset: 5,
                limit: 5,
                ..MessageFilter::default()
            };
            assert_eq!(chats.get_messages(chat, &filter).unwrap()[0].sequence, 6);
        }),
    ];
    for (what, ask) in asked {
        reads_at_most(60, what, |size| {
            let (watched, store) = store();
            let id = Uuid::from_u128(7);
            let chat = SessionId(id).to_string();
            let chats = store.chats();
            chats
                .create_chat(Chat {
                    chat_id: chat.clone(),
                    ..Chat::new("travel")
                })
                .unwrap();
            let message = |number| ChatMessage {
                message_id: format!("m {number}"),
                request_id: Some(format!("r {number}")),
                ..ChatMessage::text(ChatRole::User, "Oslo")
            };
            chats
                .save_messages(&chat, (0..size).map(message).collect())
                .unwrap();
            let step = |number| Step {
                step_id: format!("s {number}"),
                chat_id: chat.clone(),
                ..Step::new(format!("r {number}"), "travel", "stack", StepType::Llm)
            };
            chats.save_steps((0..size).map(step).collect()).unwrap();
            let (before, backend) = (watched.read(StreamId(id)), watched.clone());
            let backend: Arc<dyn Backend> = backend;
            ask(&blocking::Store::with_backend(backend).chats(), &chat);
            watched.read(StreamId(id)) - before
        });
    }
}

#[test]
fn a_request_reads_no_more_of_its_chat_than_the_one_before_it_wrote() {
    reads_at_most(20, "a request behind others", |size| {
        let (watched, store) = store();
        let (chat, stream) = chat(&store, 10);
        let request = || {
            let (asked, new) = (ChatMessage::text(ChatRole::User, "?"), NewRequest::new("a"));
            let mut request = store.chats().begin_request(&chat, new, asked).unwrap();
            for _ in 0..5 {
                let answer = ChatMessage::text(ChatRole::Assistant, "!");
                request.send(answer).unwrap();
            }
            request.finish(RequestEnd::Completed).unwrap();
        };
        (0..size / 40).for_each(|_| request());
        let before = watched.read(stream);
        request();
        watched.read(stream) - before
    });
}

#[test]
fn two_who_look_at_a_chat_at_once_fold_it_once() {
    reads_at_most(4, "two looks at once", |size| {
        let (watched, store) = store();
        let (chat, stream) = chat(&store, size);
        let all = MessageFilter::default();
        store.chats().count_messages(&chat, &all).unwrap();
        let backend: Arc<dyn Backend> = watched.clone();
        // Another handle of the log writes, so that both find something new.
        blocking::Store::with_backend(backend)
            .chats()
            .save_messages(&chat, vec![ChatMessage::text(ChatRole::User, "x")])
            .unwrap();
        let (before, reader) = (watched.read(stream), Store::chats(&store.to_async()));
        watched.give_way();
        // One that needs the fold.
        let look = || reader.count_messages(&chat, &all);
        let (one, other) = block_on(futures_util::future::join(look(), look()));
        let count = size as usize + 1;
        assert_eq!((one.unwrap(), other.unwrap()), (count, count));
        watched.read(stream) - before
    });
}

#[test]
fn results_of_many_calls_at_once_are_looked_up_in_memory() {
    reads_at_most(8, "results of all calls of a message", |size| {
        let watched = Watched::new(Arc::new(Embedded::in_memory(
            Arc::new(SystemHost),
            Wait::Await,
        )));
        let backend: Arc<dyn Backend> = watched.clone();
        let runs = Store::with_backend(backend).runs();
        let run =
            block_on(runs.start(NewRun::in_new_session(NewSession::default(), "coder"))).unwrap();
        let count = size / 10;
        let calls = (0..count).map(|number| NewToolCall::new(number.to_string(), "ls", "{}"));
        block_on(run.record_message(NewMessage::assistant("").with_tool_calls(calls))).unwrap();
        let stream = StreamId(run.run().instance_id.as_uuid());
        let before = watched.read(stream);
        let outcomes: Vec<_> = (0..count)
            .map(|number| ToolOutcome::completed(number.to_string(), RawJson::string("x")))
            .collect();
        let recorded = block_on(futures_util::future::join_all(
            outcomes.iter().map(|it| run.record_tool_result(it)),
        ));
        assert!(recorded.iter().all(Result::is_ok), "{recorded:?}");
        watched.read(stream) - before
    });
}

#[test]
fn those_who_save_in_one_chat_at_once_stand_in_line() {
    const THREADS: u64 = 16;
    const SAVES: u64 = 30;
    let (watched, store) = store();
    let chat = store
        .chats()
        .create_chat(Chat::new("travel"))
        .unwrap()
        .chat_id;
    watched.batches();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..SAVES {
                    store
                        .chats()
                        .save_messages(&chat, vec![ChatMessage::text(ChatRole::User, "x")])
                        .unwrap();
                }
            });
        }
    });
    // Who loses stands in line, and loses to nobody then but to one who had begun before.
    let tried = watched.batches();
    assert!(
        tried <= 2 * THREADS * SAVES,
        "{tried} batches were tried for {} saves",
        THREADS * SAVES
    );
}

#[test]
fn a_chat_larger_than_the_cache_is_folded_once() {
    let (watched, store) = store();
    let (chat, stream) = chat(&store, 1);
    let large = "x".repeat(8 << 20);
    for _ in 0..9 {
        store
            .chats()
            .save_messages(&chat, vec![ChatMessage::text(ChatRole::User, &large)])
            .unwrap();
    }
    let before = watched.read(stream);
    store
        .chats()
        .save_messages(&chat, vec![ChatMessage::text(ChatRole::User, "small")])
        .unwrap();
    assert!(
        watched.read(stream) - before <= 2,
        "{} records read",
        watched.read(stream) - before
    );
}

#[test]
fn a_copy_up_to_a_point_looks_for_the_point_by_halving() {
    reads_at_most(200, "a copy", |size| {
        let (watched, store) = store();
        let (chat, stream) = chat(&store, size);
        let session = store.find_session(&chat).unwrap().id;
        let agent = store.create_instance(session, "travel", None).unwrap();
        let context = store.context(agent.id).unwrap();
        context.append_message(NewMessage::user("Oslo")).unwrap();
        store
            .chats()
            .save_messages(
                &chat,
                vec![ChatMessage::text(ChatRole::Assistant, "By train?")],
            )
            .unwrap();
        context.append_message(NewMessage::user("Yes.")).unwrap();
        let before = watched.read(stream);
        let point = CopySession {
            up_to_sequence: Some(1),
            ..CopySession::default()
        };
        let copy = store.copy_session(session, &point).unwrap();
        let read = watched.read(stream) - before;
        let copied = store
            .chats()
            .get_messages(&copy.session.id.to_string(), &MessageFilter::default())
            .unwrap();
        assert_eq!(copied.len(), size as usize + 1);
        read
    });
}

/// A message with so many calls, each of which fails, in the form of Bedrock: all results are in one message; or of OpenAI, where
/// each is one.
fn many_calls_at_once(store: &blocking::Store, calls: u32, is_openai: bool) -> RunRecorder {
    let run = store
        .runs()
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    let numbered = |one: fn(u32) -> String| (0..calls).map(one).collect::<Vec<_>>().join(",");
    let outcomes: Vec<_> = (0..calls)
        .map(|call| ToolOutcome::error(format!("c{call}"), RawJson::string("no")))
        .collect();
    let asks = match is_openai {
        true => numbered(|call| {
            format!(r#"{{"id":"c{call}","function":{{"name":"ls","arguments":"{{}}"}}}}"#)
        }),
        false => numbered(|call| {
            format!(r#"{{"toolUse":{{"toolUseId":"c{call}","name":"ls","input":{{}}}}}}"#)
        }),
    };
    let message = match is_openai {
        true => format!(r#"{{"role":"assistant","content":"","tool_calls":[{asks}]}}"#),
        false => format!(r#"{{"role":"assistant","content":[{asks}]}}"#),
    };
    run.record_tool_call(RawJson::parse(message).unwrap(), &outcomes)
        .unwrap();
    run
}

#[test]
fn lists_of_the_calls_of_one_message_read_it_once() {
    const CALLS: u32 = 200;
    for is_openai in [true, false] {
        for options in [
            ListToolCalls::default(),
            ListToolCalls {
                tool_name: Some("ls".into()),
                ..ListToolCalls::default()
            },
            ListToolCalls {
                status: Some(ToolCallStatus::Error),
                ..ListToolCalls::default()
            },
        ] {
            for limit in [1, 1_000] {
                let (watched, store) = store();
                let run = many_calls_at_once(&store, CALLS, is_openai);
                let stream = StreamId(run.run().instance_id.as_uuid());
                let before = watched.read(stream);
                let options = ListToolCalls {
                    limit,
                    ..options.clone()
                };
                let page = store.runs().tool_calls(run.id(), &options).unwrap();
                assert_eq!(page.items.len(), limit.min(CALLS as usize));
                assert!(
                    page.items
                        .iter()
                        .all(|call| call.status == ToolCallStatus::Error)
                );
                let read = watched.read(stream) - before;
                assert!(
                    read <= u64::from(CALLS) * 6,
                    "{read} records read for {options:?}"
                );
            }
        }
    }
}
