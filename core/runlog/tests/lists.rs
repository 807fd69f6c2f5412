//! Lists from both ends, by every filter: chats and who may see them, messages of chats and of runs; on memory and on disk.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]

mod both;

use runlog::{
    ErrorKind, NewMessage, NewRun, NewSession, NewToolCall, RawJson, RunId, RunStatus,
    blocking::{self, Chats},
    chats::{
        Chat, ChatFilter, ChatMessage, ChatOrder, ChatRole, ChatShare, ListMessages, MessageFilter,
        Updates,
    },
    runs::{
        Dangling, ListRunMessages, ListToolCalls, ResumeOptions, ToolCall, ToolCallStatus,
        ToolOutcome,
    },
    sessions::CopySession,
};

both! {
    chats_are_listed_by_tenant_share_and_who_may_see_them
    the_chat_with_the_latest_message_comes_first_with_cursors_in_every_order
    a_deleted_chat_is_listed_and_restored_with_its_messages
    sessions_of_runs_are_no_chats_unless_they_are_asked_for
    messages_are_listed_from_both_ends_by_every_filter
    a_page_of_messages_goes_on_where_it_was_whatever_is_written_meanwhile
    messages_of_a_run_are_listed_from_the_end
    a_session_is_got_by_its_name_or_started_once
    calls_of_a_tool_or_a_status_are_those_of_all_calls_that_have_it
}

fn ids(chats: &Chats, filter: &ChatFilter) -> String {
    let list = chats.list_chats(filter).unwrap();
    assert_eq!(list.total, list.items.len(), "{filter:?}");
    list.items.into_iter().map(|chat| chat.chat_id).collect()
}

fn chats_are_listed_by_tenant_share_and_who_may_see_them(store: &blocking::Store) {
    let chats = store.chats();
    let text = |it: &str| Some(it.to_owned()).filter(|it| !it.is_empty());
    for (id, user, team, tenant, share, public) in [
        ("a", "ann", "red", "x", ChatShare::Private, false),
        ("b", "ben", "red", "x", ChatShare::Team, false),
        ("c", "ben", "red", "x", ChatShare::Private, false),
        ("d", "cat", "blue", "x", ChatShare::Team, false),
        ("e", "cat", "blue", "y", ChatShare::Private, true),
        ("f", "", "", "", ChatShare::Team, false),
    ] {
        let chat = Chat {
            chat_id: id.into(),
            created_by: text(user),
            team_id: text(team),
            tenant_id: text(tenant),
            share,
            public,
            ..Chat::new("travel")
        };
        chats.create_chat(chat).unwrap();
    }
    let all = || ChatFilter {
        order: ChatOrder::Created,
        ..ChatFilter::default()
    };
    let visible = |user: &str, teams: &[&str]| ChatFilter {
        visible_to: Some(user.into()),
        teams: teams.iter().map(|team| (*team).to_owned()).collect(),
        ..all()
    };
    for (filter, expected) in [
        (
            ChatFilter {
                tenant_id: text("x"),
                ..all()
            },
            "dcba",
        ),
        (
            ChatFilter {
                share: Some(ChatShare::Team),
                ..all()
            },
            "fdb",
        ),
        (
            ChatFilter {
                share: Some(ChatShare::Private),
                team_id: text("red"),
                ..all()
            },
            "ca",
        ),
        (
            ChatFilter {
                public: Some(true),
                ..all()
            },
            "e",
        ),
        (
            ChatFilter {
                public: Some(false),
                user_id: text("cat"),
                ..all()
            },
            "d",
        ),
        (visible("ann", &["red"]), "eba"),
        (visible("ann", &[]), "ea"),
        (visible("ben", &["red", "blue"]), "edcb"),
        (visible("nobody", &["green"]), "e"),
        (
            ChatFilter {
                tenant_id: text("x"),
                ..visible("ann", &["red"])
            },
            "ba",
        ),
        (
            ChatFilter {
                user_id: text("ben"),
                ..visible("ann", &["red"])
            },
            "b",
        ),
    ] {
        assert_eq!(ids(&chats, &filter), expected, "{filter:?}");
    }
    chats
        .update_chat("c", &Updates::new().with("share", RawJson::string("team")))
        .unwrap();
    assert_eq!(ids(&chats, &visible("ann", &["red"])), "ecba");
    let nobody = ChatFilter {
        teams: vec!["red".into()],
        ..all()
    };
    let error = chats.list_chats(&nobody).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

fn the_chat_with_the_latest_message_comes_first_with_cursors_in_every_order(
    store: &blocking::Store,
) {
    let chats = store.chats();
    for (number, id) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let chat = Chat {
            chat_id: id.into(),
            sort: [3, -1, 7, -1, 0][number],
            created_at_ms: 1_000 + number as u64,
            ..Chat::new("travel")
        };
        chats.create_chat(chat).unwrap();
        let message = ChatMessage {
            created_at_ms: [2_500, 2_100, 2_400, 2_200, 2_300][number],
            ..ChatMessage::text(ChatRole::User, "hi")
        };
        chats.save_messages(id, vec![message]).unwrap();
    }
    assert_eq!(ids(&chats, &ChatFilter::default()), "acedb");
    for (order, expected) in [
        (ChatOrder::LastMessage, "acedb"),
        (ChatOrder::Created, "edcba"),
        (ChatOrder::Sort, "dbeac"),
    ] {
        let mut filter = ChatFilter {
            order,
            pagesize: 2,
            ..ChatFilter::default()
        };
        let (mut seen, mut pages) = (String::new(), Vec::new());
        loop {
            let list = chats.list_chats(&filter).unwrap();
            seen.extend(list.items.iter().map(|chat| chat.chat_id.as_str()));
            pages.push(list.page);
            let Some(next) = list.next else { break };
            let other = ChatFilter {
                cursor: Some(next.clone()),
                sessions: true,
                ..filter.clone()
            };
            assert_eq!(
                chats.list_chats(&other).unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
            filter.cursor = Some(next);
        }
        assert_eq!(
            (seen.as_str(), pages),
            (expected, vec![1, 2, 3]),
            "{order:?}"
        );
    }
}

fn a_deleted_chat_is_listed_and_restored_with_its_messages(store: &blocking::Store) {
    let chats = store.chats();
    let named = |id: &str| Chat {
        chat_id: id.into(),
        ..Chat::new("travel")
    };
    let unnamed = chats.create_chat(Chat::new("travel")).unwrap().chat_id;
    chats.create_chat(named("a")).unwrap();
    chats
        .save_messages("a", vec![ChatMessage::text(ChatRole::User, "kept")])
        .unwrap();
    let error = chats.restore_chat("a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(
        chats.restore_chat("b").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    chats.delete_chat("a").unwrap();
    chats.delete_chat(&unnamed).unwrap();
    let deleted = ChatFilter {
        deleted: true,
        ..ChatFilter::default()
    };
    assert_eq!(chats.list_chats(&deleted).unwrap().total, 2);
    assert_eq!(chats.list_chats(&ChatFilter::default()).unwrap().total, 0);
    // Its id is another's meanwhile.
    chats.create_chat(named("a")).unwrap();
    assert_eq!(
        chats.restore_chat("a").unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(chats.restore_chat(&unnamed).unwrap().chat_id, unnamed);
    chats.delete_chat("a").unwrap();
    // Of the two, the one that was deleted last.
    chats.restore_chat("a").unwrap();
    assert_eq!(
        chats
            .count_messages("a", &MessageFilter::default())
            .unwrap(),
        0
    );
    chats
        .update_chat("a", &Updates::new().with("title", RawJson::string("empty")))
        .unwrap();
    assert_eq!(chats.list_chats(&deleted).unwrap().total, 1);
    let session = store.find_session("a").unwrap();
    assert_eq!(
        (session.deleted_at_ms, session.title.as_deref()),
        (None, Some("empty"))
    );
}

fn sessions_of_runs_are_no_chats_unless_they_are_asked_for(store: &blocking::Store) {
    let chats = store.chats();
    chats
        .create_chat(Chat {
            chat_id: "chat".into(),
            ..Chat::new("travel")
        })
        .unwrap();
    let named = |name: &str| NewSession {
        name: Some(name.into()),
        ..NewSession::default()
    };
    store.create_session(named("batch")).unwrap();
    let all = ChatFilter {
        sessions: true,
        order: ChatOrder::Created,
        ..ChatFilter::default()
    };
    assert_eq!(ids(&chats, &ChatFilter::default()), "chat");
    assert_eq!(ids(&chats, &all), "batchchat");
    let visible = ChatFilter {
        visible_to: Some("ann".into()),
        ..all.clone()
    };
    assert_eq!(ids(&chats, &visible), "");
    // What a message is saved in is a chat from then on.
    chats
        .save_messages("batch", vec![ChatMessage::text(ChatRole::User, "hi")])
        .unwrap();
    assert_eq!(chats.list_chats(&ChatFilter::default()).unwrap().total, 2);
}

/// Every message that a list gives, page by page, as the numbers in their texts.
fn listed(chats: &Chats, options: ListMessages) -> Vec<String> {
    let (mut options, mut found) = (options, Vec::new());
    loop {
        let page = chats.list_messages("a", &options).unwrap();
        assert!(page.items.len() <= options.limit);
        found.extend(page.items.into_iter().map(|message| message.message_id));
        options.cursor = page.next;
        if options.cursor.is_none() {
            return found;
        }
    }
}

fn messages_are_listed_from_both_ends_by_every_filter(store: &blocking::Store) {
    let chats = store.chats();
    chats
        .create_chat(Chat {
            chat_id: "a".into(),
            ..Chat::new("travel")
        })
        .unwrap();
    let message = |number: usize| ChatMessage {
        message_id: format!("m{number}"),
        request_id: Some(format!("r{}", number % 3)),
        block_id: (number.is_multiple_of(2)).then(|| format!("b{}", number % 5)),
        thread_id: (number.is_multiple_of(4)).then(|| "t".to_owned()),
        message_type: ["text", "image"][usize::from(number.is_multiple_of(7))].to_owned(),
        role: [ChatRole::User, ChatRole::Assistant][number % 2],
        // Two share each sequence, and they don't come in the order of their sequences.
        sequence: 1 + (number as u64 * 7 % 30) / 2,
        ..ChatMessage::text(ChatRole::User, "x")
    };
    chats
        .save_messages("a", (0..30).map(message).collect())
        .unwrap();
    chats.delete_messages("a", &["m4", "m29"]).unwrap();
    let moved = Updates::new().with("thread_id", RawJson::string("t"));
    chats.update_message("m5", &moved).unwrap();
    let all = chats.get_messages("a", &MessageFilter::default()).unwrap();
    assert_eq!(all.len(), 28);
    let text = |it: &str| Some(it.to_owned());
    for options in [
        ListMessages::default(),
        ListMessages {
            request_id: text("r1"),
            ..ListMessages::default()
        },
        ListMessages {
            block_id: text("b2"),
            ..ListMessages::default()
        },
        ListMessages {
            thread_id: text("t"),
            ..ListMessages::default()
        },
        ListMessages {
            message_type: text("image"),
            ..ListMessages::default()
        },
        ListMessages {
            role: Some(ChatRole::Assistant),
            ..ListMessages::default()
        },
        ListMessages {
            thread_id: text("t"),
            request_id: text("r2"),
            ..ListMessages::default()
        },
        ListMessages {
            thread_id: text("none"),
            ..ListMessages::default()
        },
    ] {
        let admitted = all.iter().filter(|message| {
            let is = |wanted: &Option<String>, found: &Option<String>| {
                wanted.is_none() || wanted == found
            };
            is(&options.request_id, &message.request_id)
                && is(&options.block_id, &message.block_id)
                && is(&options.thread_id, &message.thread_id)
                && options.role.is_none_or(|role| role == message.role)
                && options
                    .message_type
                    .as_ref()
                    .is_none_or(|it| *it == message.message_type)
        });
        let mut expected: Vec<String> = admitted.map(|it| it.message_id.clone()).collect();
        let filter = MessageFilter {
            request_id: options.request_id.clone(),
            block_id: options.block_id.clone(),
            thread_id: options.thread_id.clone(),
            role: options.role,
            message_type: options.message_type.clone(),
            ..MessageFilter::default()
        };
        assert_eq!(chats.count_messages("a", &filter).unwrap(), expected.len());
        for limit in [1, 3, 50] {
            let options = ListMessages {
                limit,
                ..options.clone()
            };
            assert_eq!(listed(&chats, options.clone()), expected, "{options:?}");
            let back = ListMessages {
                newest_first: true,
                ..options
            };
            expected.reverse();
            assert_eq!(listed(&chats, back.clone()), expected, "{back:?}");
            expected.reverse();
        }
        // From the middle, both ways.
        if let Some(middle) = expected.get(expected.len() / 2).cloned() {
            let at = expected.len() / 2;
            let behind = ListMessages {
                start_after: Some(middle),
                limit: 2,
                ..options.clone()
            };
            assert_eq!(listed(&chats, behind.clone()), expected[at + 1..]);
            let mut before = expected[..at].to_vec();
            before.reverse();
            let back = ListMessages {
                newest_first: true,
                ..behind
            };
            assert_eq!(listed(&chats, back), before);
        }
    }
    let unknown = ListMessages {
        start_after: text("m4"),
        ..ListMessages::default()
    };
    let error = chats.list_messages("a", &unknown).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let none = ListMessages {
        limit: 0,
        ..ListMessages::default()
    };
    let error = chats.list_messages("a", &none).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

fn a_page_of_messages_goes_on_where_it_was_whatever_is_written_meanwhile(store: &blocking::Store) {
    let chats = store.chats();
    chats
        .create_chat(Chat {
            chat_id: "a".into(),
            ..Chat::new("travel")
        })
        .unwrap();
    let message = |number: usize| ChatMessage {
        message_id: format!("m{number}"),
        ..ChatMessage::text(ChatRole::User, "x")
    };
    chats
        .save_messages("a", (0..6).map(message).collect())
        .unwrap();
    let back = ListMessages {
        newest_first: true,
        limit: 2,
        ..ListMessages::default()
    };
    let page = chats.list_messages("a", &back).unwrap();
    // What the cursor names, and what is around it, is deleted; others come.
    chats.delete_messages("a", &["m4", "m2", "m5"]).unwrap();
    chats.save_messages("a", vec![message(6)]).unwrap();
    let rest = listed(
        &chats,
        ListMessages {
            cursor: page.next.clone(),
            ..back.clone()
        },
    );
    assert_eq!(rest, ["m3", "m1", "m0"]);
    let forwards = ListMessages {
        newest_first: false,
        cursor: page.next,
        ..back
    };
    let error = chats.list_messages("a", &forwards).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

fn messages_of_a_run_are_listed_from_the_end(store: &blocking::Store) {
    let runs = store.runs();
    let run = runs
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    let id = run.id();
    let said = |run: &blocking::RunRecorder, number: u32| {
        run.next_step().unwrap();
        run.record_message(NewMessage::assistant(format!("{number}")))
            .unwrap();
        run.record_message(NewMessage::user(format!("{number}?")))
            .unwrap();
    };
    (1..=20).for_each(|number| said(&run, number));
    run.pause("enough").unwrap();
    // Another run goes on in the same context: its messages aren't the first one's.
    let resumed = runs.resume(id, &ResumeOptions::default()).unwrap();
    (21..=25).for_each(|number| said(&resumed.recorder, number));
    for id in [id, resumed.recorder.id()] {
        for step_number in [None, Some(20), Some(3), Some(22), Some(0), Some(99)] {
            let all = ListRunMessages {
                step_number,
                limit: 1_000,
                ..ListRunMessages::default()
            };
            let mut expected = runs.messages(id, &all).unwrap().items;
            expected.reverse();
            for limit in [1, 7, 1_000] {
                let mut options = ListRunMessages {
                    newest_first: true,
                    limit,
                    ..all.clone()
                };
                let mut found = Vec::new();
                loop {
                    let page = runs.messages(id, &options).unwrap();
                    found.extend(page.items);
                    options.cursor = page.next;
                    if options.cursor.is_none() {
                        break;
                    }
                }
                assert_eq!(found, expected, "{step_number:?} {limit}");
            }
        }
    }
    assert_eq!(runs.get(id).unwrap().unwrap().status, RunStatus::Paused);
}

fn a_session_is_got_by_its_name_or_started_once(store: &blocking::Store) {
    let nightly = || NewSession::named("nightly");
    let made: Vec<_> = std::thread::scope(|scope| {
        let calls = (0..8).map(|number| {
            let agent = format!("agent {number}");
            scope.spawn(move || store.get_or_start_session(nightly(), &agent).unwrap())
        });
        let calls: Vec<_> = calls.collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(made.iter().all(|it| *it == made[0]), "{made:?}");
    let (session, root) = made[0].clone();
    assert_eq!(
        store.instances(session.id).unwrap(),
        std::slice::from_ref(&root)
    );
    let child = store
        .create_instance(session.id, "helper", Some(root.id))
        .unwrap();
    assert_eq!(
        store.child_instances(root.id).unwrap(),
        std::slice::from_ref(&child)
    );
    assert_eq!(store.child_instances(child.id).unwrap(), []);
    // One that is there without an instance gets its root.
    let bare = store.create_session(NewSession::named("bare")).unwrap();
    let (found, root) = store
        .get_or_start_session(NewSession::named("bare"), "coder")
        .unwrap();
    assert_eq!((found.id, root.session_id), (bare.id, bare.id));
    // A name that was given back is another session's then.
    store.delete_session(session.id).unwrap();
    assert_ne!(
        store.get_or_start_session(nightly(), "coder").unwrap().0.id,
        session.id
    );
    let unnamed = store
        .get_or_start_session(NewSession::default(), "coder")
        .unwrap_err();
    assert_eq!(unnamed.kind(), ErrorKind::InvalidInput);
}

fn every_call(runs: &blocking::Runs, run: RunId, options: ListToolCalls) -> Vec<ToolCall> {
    let (mut options, mut found) = (options, Vec::new());
    loop {
        let page = runs.tool_calls(run, &options).unwrap();
        assert!(page.items.len() <= options.limit);
        found.extend(page.items);
        options.cursor = page.next;
        if options.cursor.is_none() {
            return found;
        }
    }
}

fn calls_of_a_tool_or_a_status_are_those_of_all_calls_that_have_it(store: &blocking::Store) {
    let runs = store.runs();
    let names = ["ls", "cat", "grep"];
    let call = |id: String, name: usize| NewToolCall::new(id, names[name % 3], "{}");
    let result = |id: &str, failed: bool| match failed {
        true => ToolOutcome::error(id, RawJson::string("no")),
        false => ToolOutcome::completed(id, RawJson::string("yes")),
    };
    let run = runs
        .start(NewRun::in_new_session(NewSession::default(), "coder"))
        .unwrap();
    let instance = run.run().instance_id;
    for step in 0..12 {
        // Several calls of one message, with results in another order.
        let ids: Vec<String> = (0..1 + step % 4)
            .map(|number| format!("{step}-{number}"))
            .collect();
        let calls = ids
            .iter()
            .enumerate()
            .map(|(number, id)| call(id.clone(), step + number));
        run.record_message(NewMessage::assistant("").with_tool_calls(calls))
            .unwrap();
        for (number, id) in ids.iter().enumerate().rev() {
            run.record_tool_result(&result(id, (step + number) % 5 == 0))
                .unwrap();
        }
    }
    // Two that are open when the run is paused: one is answered by the run that goes on, the other never.
    let open = [call("late".into(), 0), call("never".into(), 0)];
    run.record_message(NewMessage::assistant("").with_tool_calls(open))
        .unwrap();
    run.pause("enough").unwrap();
    let options = ResumeOptions {
        dangling: Dangling::Report,
        ..ResumeOptions::default()
    };
    let resumed = runs.resume(run.id(), &options).unwrap().recorder;
    resumed.record_tool_result(&result("late", false)).unwrap();
    resumed.record_tool_result(&result("never", true)).unwrap();
    let own = [call("own".into(), 0)];
    resumed
        .record_message(NewMessage::assistant("").with_tool_calls(own))
        .unwrap();
    let check = |id: RunId| {
        let all = every_call(&runs, id, ListToolCalls::default());
        let names = names.iter().chain(&["none"]).copied();
        for name in names.map(Some).chain([None]) {
            for status in [
                None,
                Some(ToolCallStatus::Error),
                Some(ToolCallStatus::Pending),
                Some(ToolCallStatus::Completed),
            ] {
                let admitted = all.iter().filter(|call| {
                    name.is_none_or(|name| call.tool_name == name)
                        && status.is_none_or(|status| call.status == status)
                });
                let expected: Vec<ToolCall> = admitted.cloned().collect();
                for limit in [1, 2, 3, 50] {
                    let tool_name = name.map(str::to_owned);
                    let options = ListToolCalls {
                        tool_name,
                        status,
                        limit,
                        cursor: None,
                    };
                    assert_eq!(
                        every_call(&runs, id, options),
                        expected,
                        "{name:?} {status:?}"
                    );
                }
            }
        }
        all.len()
    };
    assert_eq!((check(run.id()), check(resumed.id())), (32, 1));
    // What was truncated is found no more; a copy has the events, and they are no calls of a run of its own.
    store
        .copy_session(run.run().session_id, &CopySession::default())
        .unwrap();
    store
        .context(instance)
        .unwrap()
        .truncate_after_sequence(20)
        .unwrap();
    assert!(check(run.id()) < 20);
    assert_eq!(check(resumed.id()), 0);
}
