//! S4's tables, row by row: chats, messages, steps, filters; on memory and on disk.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "in a test, a panic is the report"
)]

mod both;

use runlog::{
    ErrorKind, NewMessage, RawJson, Store, blocking,
    chats::{
        Chat, ChatFilter, ChatMessage, ChatOrder, ChatRole, ChatShare, ListSteps, MessageFilter,
        NewRequest, RequestEnd, Step, StepStatus, StepType, Updates,
    },
    sessions::{CopySession, Deleted, ListSessions, SessionStatus},
};

both! {
    chat_id_is_unique_and_given_where_it_is_left_out
    title_may_be_missing_and_has_at_most_500_characters
    assistant_id_is_needed_and_has_at_most_200_characters
    mode_is_chat_by_default
    status_is_active_or_archived
    preset_public_share_and_sort_have_their_defaults
    last_message_at_is_when_the_last_message_was_saved
    chat_metadata_is_json_kept_byte_for_byte
    created_at_stays_and_updated_at_moves
    a_deleted_chat_is_gone_and_its_id_is_free
    owner_fields_are_kept_and_filter
    a_chat_is_a_session
    chat_json_has_exactly_the_names_of_the_table
    message_id_is_unique_in_a_chat
    messages_have_a_role_a_type_and_props
    message_types_are_open
    messages_are_numbered_in_the_order_of_the_chat
    messages_are_filtered_by_request_role_block_limit_and_offset
    messages_are_updated_and_deleted
    message_json_has_exactly_the_names_of_the_table
    steps_have_every_column
    six_step_types_and_five_statuses_are_kept
    steps_are_found_by_request_and_stack
    a_step_is_updated_by_its_id_alone
    chats_are_listed_by_filter
    chats_are_listed_by_page_and_by_cursor
    chats_are_listed_in_three_orders
    a_cursor_of_chats_or_steps_fits_only_the_list_it_came_from
    all_steps_of_a_chat_are_listed_in_pages
    a_copied_chat_has_its_messages_and_steps_with_ids_of_their_own
    a_chat_copied_up_to_a_point_is_the_chat_as_it_was
    an_interrupted_request_is_resumed_in_a_copy_too
    unknown_things_are_not_found
    bad_input_is_refused_and_writes_nothing
    oversize_is_refused_and_writes_nothing
    unknown_fields_are_kept
    an_id_in_two_chats_is_ambiguous
    a_second_handle_sees_what_the_first_one_saves
}

fn json(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn updates(text: &str) -> Updates {
    Updates::parse(text).unwrap()
}

fn named(id: &str) -> Chat {
    Chat {
        chat_id: id.into(),
        ..Chat::new("assistant")
    }
}

fn text(content: &str) -> ChatMessage {
    ChatMessage::text(ChatRole::User, content)
}

fn message(id: &str) -> ChatMessage {
    ChatMessage {
        message_id: id.into(),
        ..text(id)
    }
}

fn of_chat(chat: &str, options: ListSteps) -> ListSteps {
    ListSteps {
        chat_id: Some(chat.to_owned()),
        ..options
    }
}

fn step(chat: &str, id: &str, stack: &str) -> Step {
    Step {
        chat_id: chat.into(),
        step_id: id.into(),
        ..Step::new("req_1", "assistant", stack, StepType::Llm)
    }
}

fn kind<T: std::fmt::Debug>(result: runlog::Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn keys(value: &impl serde::Serialize) -> Vec<String> {
    serde_json::to_value(value)
        .unwrap()
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect()
}

fn chat_id_is_unique_and_given_where_it_is_left_out(store: &blocking::Store) {
    let chats = store.chats();
    let one = chats.create_chat(Chat::new("a")).unwrap();
    let two = chats.create_chat(Chat::new("a")).unwrap();
    assert_ne!(one.chat_id, two.chat_id);
    assert!(one.id < two.id, "ids grow");
    chats.create_chat(named("chat_123")).unwrap();
    assert_eq!(
        kind(chats.create_chat(named("chat_123"))),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        kind(chats.create_chat(named(&one.chat_id))),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        kind(chats.create_chat(named(&"x".repeat(65)))),
        ErrorKind::TooLarge
    );
    chats.create_chat(named(&"é".repeat(64))).unwrap();
}

fn title_may_be_missing_and_has_at_most_500_characters(store: &blocking::Store) {
    let chats = store.chats();
    assert_eq!(chats.create_chat(named("c")).unwrap().title, None);
    let titled = |length| Updates::new().with("title", RawJson::string(&"日".repeat(length)));
    assert_eq!(
        chats
            .update_chat("c", &titled(500))
            .unwrap()
            .title
            .unwrap()
            .chars()
            .count(),
        500
    );
    assert_eq!(
        kind(chats.update_chat("c", &titled(501))),
        ErrorKind::TooLarge
    );
    assert_eq!(
        chats
            .update_chat("c", &updates(r#"{"title":null}"#))
            .unwrap()
            .title,
        None
    );
}

fn assistant_id_is_needed_and_has_at_most_200_characters(store: &blocking::Store) {
    let chats = store.chats();
    assert_eq!(
        kind(chats.create_chat(Chat::new(""))),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(chats.create_chat(Chat::new("a".repeat(201)))),
        ErrorKind::TooLarge
    );
    assert_eq!(
        chats
            .create_chat(Chat::new("a".repeat(200)))
            .unwrap()
            .assistant_id
            .len(),
        200
    );
}

fn mode_is_chat_by_default(store: &blocking::Store) {
    let chats = store.chats();
    assert_eq!(chats.create_chat(named("c")).unwrap().mode, "chat");
    assert_eq!(
        chats
            .update_chat("c", &updates(r#"{"mode":"task"}"#))
            .unwrap()
            .mode,
        "task"
    );
    assert_eq!(
        kind(chats.update_chat("c", &updates(r#"{"mode":""}"#))),
        ErrorKind::InvalidInput
    );
}

fn status_is_active_or_archived(store: &blocking::Store) {
    let chats = store.chats();
    assert_eq!(
        chats.create_chat(named("c")).unwrap().status,
        SessionStatus::Active
    );
    assert_eq!(
        chats
            .update_chat("c", &updates(r#"{"status":"archived"}"#))
            .unwrap()
            .status,
        SessionStatus::Archived
    );
    assert_eq!(
        kind(chats.update_chat("c", &updates(r#"{"status":"gone"}"#))),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        chats.get_chat("c").unwrap().unwrap().status,
        SessionStatus::Archived
    );
}

fn preset_public_share_and_sort_have_their_defaults(store: &blocking::Store) {
    let chats = store.chats();
    let chat = chats.create_chat(named("c")).unwrap();
    assert_eq!(
        (chat.preset, chat.public, chat.share, chat.sort),
        (false, false, ChatShare::Private, 0)
    );
    let chat = chats
        .update_chat(
            "c",
            &updates(r#"{"preset":true,"public":true,"share":"team","sort":-3}"#),
        )
        .unwrap();
    assert_eq!(
        (chat.preset, chat.public, chat.share, chat.sort),
        (true, true, ChatShare::Team, -3)
    );
}

fn last_message_at_is_when_the_last_message_was_saved(store: &blocking::Store) {
    let chats = store.chats();
    assert_eq!(
        chats.create_chat(named("c")).unwrap().last_message_at_ms,
        None
    );
    chats.save_messages("c", vec![text("hi")]).unwrap();
    let at = chats
        .get_chat("c")
        .unwrap()
        .unwrap()
        .last_message_at_ms
        .unwrap();
    assert!(at >= chats.get_chat("c").unwrap().unwrap().created_at_ms);
    chats.save_steps(vec![step("c", "s", "k")]).unwrap();
    assert_eq!(
        chats.get_chat("c").unwrap().unwrap().last_message_at_ms,
        Some(at),
        "a step is no message"
    );
}

fn chat_metadata_is_json_kept_byte_for_byte(store: &blocking::Store) {
    let chats = store.chats();
    let metadata = Some(json(r#"{ "b": 1.0, "a": "\u00e9" }"#));
    chats
        .create_chat(Chat {
            metadata: metadata.clone(),
            ..named("c")
        })
        .unwrap();
    assert_eq!(chats.get_chat("c").unwrap().unwrap().metadata, metadata);
    let metadata = json(r#"[ 1,2 ]"#);
    chats
        .update_chat("c", &Updates::new().with("metadata", metadata.clone()))
        .unwrap();
    assert_eq!(
        chats.get_chat("c").unwrap().unwrap().metadata,
        Some(metadata)
    );
}

fn created_at_stays_and_updated_at_moves(store: &blocking::Store) {
    let chats = store.chats();
    let chat = chats
        .create_chat(Chat {
            created_at_ms: 1000,
            ..named("c")
        })
        .unwrap();
    assert_eq!((chat.created_at_ms, chat.updated_at_ms), (1000, 1000));
    let chat = chats
        .update_chat("c", &updates(r#"{"title":"x"}"#))
        .unwrap();
    assert_eq!(chat.created_at_ms, 1000);
    assert!(chat.updated_at_ms > 1000);
    assert_eq!(
        kind(chats.update_chat("c", &updates(r#"{"created_at":5}"#))),
        ErrorKind::InvalidInput
    );
}

fn a_deleted_chat_is_gone_and_its_id_is_free(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    chats.save_messages("c", vec![message("m")]).unwrap();
    chats.save_steps(vec![step("c", "s", "k")]).unwrap();
    chats.delete_chat("c").unwrap();
    assert_eq!(kind(chats.delete_chat("c")), ErrorKind::NotFound);
    assert_eq!(
        kind(chats.update_chat("c", &updates("{}"))),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(chats.save_messages("c", vec![text("x")])),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(chats.get_messages("c", &MessageFilter::default())),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(chats.update_message("m", &updates("{}"))),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(chats.update_step("s", &updates("{}"))),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(chats.get_last_incomplete_step("c")),
        ErrorKind::NotFound
    );
    assert_eq!(chats.list_chats(&ChatFilter::default()).unwrap().total, 0);
    chats.create_chat(named("c")).unwrap();
    assert_eq!(
        chats.get_messages("c", &MessageFilter::default()).unwrap(),
        []
    );
}

fn owner_fields_are_kept_and_filter(store: &blocking::Store) {
    let chats = store.chats();
    let owned = Chat {
        created_by: Some("u".into()),
        updated_by: Some("v".into()),
        team_id: Some("t".into()),
        tenant_id: Some("n".into()),
        ..named("c")
    };
    let chat = chats.create_chat(owned).unwrap();
    let value = serde_json::to_value(&chat).unwrap();
    let owner = ["created_by", "updated_by", "team_id", "tenant_id"].map(|name| &value[name]);
    assert_eq!(owner, ["u", "v", "t", "n"]);
    let chat = chats
        .update_chat("c", &updates(r#"{"updated_by":"w"}"#))
        .unwrap();
    assert_eq!(
        (chat.updated_by.as_deref(), chat.created_by.as_deref()),
        (Some("w"), Some("u"))
    );
    assert_eq!(
        kind(chats.update_chat("c", &updates(r#"{"created_by":"w"}"#))),
        ErrorKind::InvalidInput
    );
    // Of a user whose id is missing nobody knows whose chats are his.
    for owner in ["created_by", "team_id", "tenant_id"] {
        let mut nobodys = Chat::new("a");
        let field = match owner {
            "created_by" => &mut nobodys.created_by,
            "team_id" => &mut nobodys.team_id,
            _ => &mut nobodys.tenant_id,
        };
        *field = Some(String::new());
        let refused = store.chats().create_chat(nobodys).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{owner}");
        assert!(
            refused
                .to_string()
                .starts_with(&format!("`{owner}` is empty"))
        );
    }
    for nobodys in [r#"{"team_id":""}"#, r#"{"tenant_id":""}"#] {
        let refused = kind(store.chats().update_chat("c", &updates(nobodys)));
        assert_eq!(refused, ErrorKind::InvalidInput, "{nobodys}");
    }
    let none = || Some(String::new());
    let visible = ChatFilter {
        visible_to: none(),
        ..ChatFilter::default()
    };
    let made = ChatFilter {
        user_id: none(),
        ..ChatFilter::default()
    };
    for filter in [visible, made] {
        assert_eq!(
            kind(store.chats().list_chats(&filter)),
            ErrorKind::InvalidInput
        );
    }
}

fn a_chat_is_a_session(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let session = store.find_session("c").unwrap();
    assert_eq!(
        chats.get_chat(&session.id.to_string()).unwrap().unwrap(),
        chats.get_chat("c").unwrap().unwrap()
    );
    let plain = store
        .create_session(runlog::NewSession::titled("plain"))
        .unwrap();
    chats
        .save_messages(&plain.id.to_string(), vec![text("hi")])
        .unwrap();
    assert_eq!(
        chats
            .get_chat(&plain.id.to_string())
            .unwrap()
            .unwrap()
            .title
            .as_deref(),
        Some("plain")
    );
}

fn chat_json_has_exactly_the_names_of_the_table(store: &blocking::Store) {
    let chats = store.chats();
    chats
        .create_chat(Chat {
            title: Some("t".into()),
            metadata: Some(json("{}")),
            ..named("c")
        })
        .unwrap();
    chats.save_messages("c", vec![text("hi")]).unwrap();
    let chat = chats.get_chat("c").unwrap().unwrap();
    let names = [
        "assistant_id",
        "chat_id",
        "created_at",
        "id",
        "last_message_at",
        "metadata",
        "mode",
        "preset",
        "public",
        "share",
        "sort",
        "status",
        "title",
        "updated_at",
    ];
    assert_eq!(keys(&chat), names);
    assert_eq!(
        serde_json::to_value(&chat).unwrap()["created_at"],
        chat.created_at_ms
    );
}

fn message_id_is_unique_in_a_chat(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    chats
        .save_messages("c", vec![message("m"), text("fresh")])
        .unwrap();
    assert_eq!(
        kind(chats.save_messages("c", vec![text("x"), message("m")])),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        kind(chats.save_messages("c", vec![message("n"), message("n")])),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        chats
            .get_messages("c", &MessageFilter::default())
            .unwrap()
            .len(),
        2,
        "nothing half-written"
    );
}

fn messages_have_a_role_a_type_and_props(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let props = json(r#"{ "url": "a.png", "size": 1e3 }"#);
    let saved = chats
        .save_messages(
            "c",
            vec![ChatMessage::new(
                ChatRole::Assistant,
                "image",
                props.clone(),
            )],
        )
        .unwrap();
    assert_eq!(
        (
            saved[0].role,
            saved[0].message_type.as_str(),
            &saved[0].props
        ),
        (ChatRole::Assistant, "image", &props)
    );
    for message in [
        ChatMessage::new(ChatRole::User, "", json("{}")),
        ChatMessage::new(ChatRole::User, "text", json("[]")),
        ChatMessage {
            chat_id: "other".into(),
            ..text("x")
        },
    ] {
        assert_eq!(
            kind(chats.save_messages("c", vec![message])),
            ErrorKind::InvalidInput
        );
    }
}

fn message_types_are_open(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let all = [
        ("text", r#"{"content":"Hello world"}"#),
        ("image", r#"{"url":"...","alt":"...","caption":"..."}"#),
        ("loading", r#"{"message":"Processing...","done":false}"#),
        ("error", r#"{"message":"...","code":"..."}"#),
        ("action", r#"{"buttons":[{}]}"#),
        ("file", r#"{"url":"...","filename":"...","size":1024}"#),
        ("one of our own", r#"{}"#),
    ];
    let messages =
        all.map(|(kind, props)| ChatMessage::new(ChatRole::Assistant, kind, json(props)));
    chats.save_messages("c", messages.to_vec()).unwrap();
    let found = chats.get_messages("c", &MessageFilter::default()).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|message| (message.message_type.as_str(), message.props.as_str()))
        .collect();
    assert_eq!(found, all);
}

fn messages_are_numbered_in_the_order_of_the_chat(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    chats
        .save_messages("c", vec![text("1"), text("2")])
        .unwrap();
    chats
        .save_messages(
            "c",
            vec![
                ChatMessage {
                    sequence: 10,
                    ..text("10")
                },
                text("11"),
            ],
        )
        .unwrap();
    let found = chats.get_messages("c", &MessageFilter::default()).unwrap();
    assert_eq!(
        found
            .iter()
            .map(|message| message.sequence)
            .collect::<Vec<_>>(),
        [1, 2, 10, 11]
    );
    assert!(found.windows(2).all(|pair| pair[0].id < pair[1].id));
}

fn messages_are_filtered_by_request_role_block_limit_and_offset(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let messages = (0..12_u8).map(|number| ChatMessage {
        role: if number % 2 == 0 {
            ChatRole::User
        } else {
            ChatRole::Assistant
        },
        request_id: Some(format!("r{}", number % 3)),
        block_id: (number < 4).then(|| "b".into()),
        thread_id: Some("t".into()),
        ..message(&number.to_string())
    });
    chats.save_messages("c", messages.collect()).unwrap();
    let ids = |filter: MessageFilter| {
        let found = chats.get_messages("c", &filter).unwrap();
        found
            .iter()
            .map(|message| message.message_id.clone())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let all = MessageFilter::default();
    assert_eq!(
        ids(MessageFilter {
            request_id: Some("r1".into()),
            ..all.clone()
        }),
        "1 4 7 10"
    );
    assert_eq!(
        ids(MessageFilter {
            role: Some(ChatRole::User),
            ..all.clone()
        }),
        "0 2 4 6 8 10"
    );
    assert_eq!(
        ids(MessageFilter {
            block_id: Some("b".into()),
            ..all.clone()
        }),
        "0 1 2 3"
    );
    assert_eq!(
        ids(MessageFilter {
            limit: 2,
            offset: 9,
            ..all.clone()
        }),
        "9 10"
    );
    assert_eq!(
        ids(MessageFilter {
            limit: 5,
            offset: 99,
            ..all
        }),
        ""
    );
}

fn messages_are_updated_and_deleted(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    chats
        .save_messages("c", vec![message("a"), message("b"), message("c")])
        .unwrap();
    let changed = chats
        .update_message(
            "b",
            &updates(r#"{"props":{ "content": "B" },"metadata":{"x":1}}"#),
        )
        .unwrap();
    assert_eq!(
        (changed.props.as_str(), changed.sequence),
        (r#"{ "content": "B" }"#, 2)
    );
    assert_eq!(
        kind(chats.delete_messages("c", &["a", "nobody"])),
        ErrorKind::NotFound
    );
    chats.delete_messages("c", &["a", "c"]).unwrap();
    chats.delete_messages("c", &[]).unwrap();
    assert_eq!(
        chats.get_messages("c", &MessageFilter::default()).unwrap(),
        [changed]
    );
    assert_eq!(
        kind(chats.update_message("a", &updates("{}"))),
        ErrorKind::NotFound
    );
}

fn message_json_has_exactly_the_names_of_the_table(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let some = || Some("x".to_owned());
    let (request_id, block_id, thread_id, assistant_id) = (some(), some(), some(), some());
    let metadata = Some(json("{}"));
    let full = ChatMessage {
        request_id,
        block_id,
        thread_id,
        assistant_id,
        metadata,
        ..text("x")
    };
    let names = [
        "assistant_id",
        "block_id",
        "chat_id",
        "created_at",
        "id",
        "message_id",
        "metadata",
        "props",
        "request_id",
        "role",
        "sequence",
        "thread_id",
        "type",
        "updated_at",
    ];
    assert_eq!(
        keys(&chats.save_messages("c", vec![full]).unwrap()[0]),
        names
    );
}

fn steps_have_every_column(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let full = Step {
        stack_parent_id: Some("p".into()),
        stack_depth: 1,
        status: StepStatus::Failed,
        input: Some(json(r#"{ "messages": [] }"#)),
        output: Some(json(r#"{"content":1.0}"#)),
        space_snapshot: Some(json(
            r#"{"choose_prompt":"query","user_preferences":{"currency":"USD"}}"#,
        )),
        error: Some("no network".into()),
        metadata: Some(json("{}")),
        ..step("c", "s", "k")
    };
    let saved = chats.save_steps(vec![full.clone()]).unwrap().remove(0);
    let names = [
        "assistant_id",
        "chat_id",
        "created_at",
        "error",
        "id",
        "input",
        "metadata",
        "output",
        "request_id",
        "sequence",
        "space_snapshot",
        "stack_depth",
        "stack_id",
        "stack_parent_id",
        "status",
        "step_id",
        "type",
        "updated_at",
    ];
    assert_eq!(keys(&saved), names);
    let (created_at_ms, updated_at_ms) = (saved.created_at_ms, saved.updated_at_ms);
    assert_eq!(
        saved,
        Step {
            id: saved.id,
            sequence: 1,
            created_at_ms,
            updated_at_ms,
            ..full
        }
    );
}

fn six_step_types_and_five_statuses_are_kept(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let all = StepType::ALL
        .into_iter()
        .flat_map(|step_type| StepStatus::ALL.map(|status| (step_type, status)));
    let steps: Vec<Step> = all
        .map(|(step_type, status)| Step {
            step_type,
            status,
            ..step("c", "", "k")
        })
        .collect();
    let saved = chats.save_steps(steps.clone()).unwrap();
    let of = |steps: &[Step]| {
        steps
            .iter()
            .map(|step| (step.step_type, step.status))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(&saved), of(&steps));
    let text = serde_json::to_string(&saved).unwrap();
    for word in [
        "input",
        "hook_create",
        "llm",
        "tool",
        "hook_next",
        "delegate",
    ] {
        assert!(text.contains(&format!(r#""type":"{word}""#)), "{word}");
    }
    for word in ["pending", "running", "completed", "failed", "interrupted"] {
        assert!(text.contains(&format!(r#""status":"{word}""#)), "{word}");
    }
}

fn steps_are_found_by_request_and_stack(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let nested = Step {
        stack_parent_id: Some("root".into()),
        stack_depth: 1,
        ..step("c", "2", "leaf")
    };
    let other = Step {
        request_id: "req_2".into(),
        ..step("c", "3", "root")
    };
    chats
        .save_steps(vec![step("c", "1", "root"), nested, other])
        .unwrap();
    let ids = |steps: Vec<Step>| {
        steps
            .into_iter()
            .map(|step| (step.step_id, step.sequence))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ids(chats.get_steps("req_1").unwrap()),
        [("1".into(), 1), ("2".into(), 2)]
    );
    assert_eq!(ids(chats.get_steps("req_2").unwrap()), [("3".into(), 1)]);
    assert_eq!(
        ids(chats.get_steps_by_stack_id("root").unwrap()),
        [("1".into(), 1), ("3".into(), 1)]
    );
    assert_eq!(chats.get_stack_path("leaf").unwrap(), ["root", "leaf"]);
    assert_eq!(
        kind(chats.save_steps(vec![step("c", "4", "root"), step("c", "1", "root")])),
        ErrorKind::AlreadyExists
    );
    assert_eq!(kind(chats.get_steps_by_stack_id("4")), ErrorKind::NotFound);
}

fn a_step_is_updated_by_its_id_alone(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    chats.create_chat(named("d")).unwrap();
    chats.save_steps(vec![step("c", "1", "k")]).unwrap();
    let done = chats
        .update_step(
            "1",
            &updates(r#"{"status":"completed","output":{"content":"x"}}"#),
        )
        .unwrap();
    assert_eq!(
        (done.status, done.chat_id.as_str()),
        (StepStatus::Completed, "c")
    );
    assert_eq!(chats.get_last_incomplete_step("c").unwrap(), None);
    assert_eq!(
        kind(chats.update_step("1", &updates(r#"{"status":"lost"}"#))),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(chats.update_step("1", &updates(r#"{"step_id":"2"}"#))),
        ErrorKind::InvalidInput
    );
}

fn chats_are_listed_by_filter(store: &blocking::Store) {
    let chats = store.chats();
    for number in 0..6_u8 {
        let chat = Chat {
            title: Some(format!("Trip {number} to Oslo")),
            created_by: Some(format!("u{}", number % 2)),
            team_id: Some(format!("t{}", number % 3)),
            ..Chat {
                chat_id: number.to_string(),
                ..Chat::new(if number < 2 { "x" } else { "y" })
            }
        };
        chats.create_chat(chat).unwrap();
    }
    chats
        .update_chat("5", &updates(r#"{"status":"archived"}"#))
        .unwrap();
    let ids = |filter: ChatFilter| {
        let list = chats.list_chats(&filter).unwrap();
        assert_eq!(list.total, list.items.len());
        list.items
            .into_iter()
            .map(|chat| chat.chat_id)
            .collect::<String>()
    };
    let all = ChatFilter::default();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(ids(all.clone()), "543210");
    assert_eq!(
        ids(ChatFilter {
            user_id: some("u1"),
            ..all.clone()
        }),
        "531"
    );
    assert_eq!(
        ids(ChatFilter {
            team_id: some("t0"),
            ..all.clone()
        }),
        "30"
    );
    assert_eq!(
        ids(ChatFilter {
            assistant_id: some("x"),
            ..all.clone()
        }),
        "10"
    );
    assert_eq!(
        ids(ChatFilter {
            status: Some(SessionStatus::Archived),
            ..all.clone()
        }),
        "5"
    );
    assert_eq!(
        ids(ChatFilter {
            status: Some(SessionStatus::Active),
            user_id: some("u1"),
            ..all.clone()
        }),
        "31"
    );
    assert_eq!(
        ids(ChatFilter {
            keywords: some("oSLO 4"),
            ..all.clone()
        }),
        "4"
    );
    assert_eq!(
        ids(ChatFilter {
            keywords: some("Bergen"),
            ..all
        }),
        ""
    );
}

fn chats_are_listed_by_page_and_by_cursor(store: &blocking::Store) {
    let chats = store.chats();
    for number in 0..7 {
        chats.create_chat(named(&number.to_string())).unwrap();
    }
    let page = |page, pagesize| {
        let list = chats
            .list_chats(&ChatFilter {
                page,
                pagesize,
                ..ChatFilter::default()
            })
            .unwrap();
        let ids: String = list
            .items
            .iter()
            .map(|chat| chat.chat_id.as_str())
            .collect();
        (ids, list.page, list.pagesize, list.pagecount, list.total)
    };
    assert_eq!(page(1, 3), ("654".into(), 1, 3, 3, 7));
    assert_eq!(page(3, 3), ("0".into(), 3, 3, 3, 7));
    assert_eq!(page(0, 0), ("6543210".into(), 1, 20, 1, 7));
    assert_eq!(page(9, 3).0, "");
    let mut filter = ChatFilter {
        pagesize: 3,
        ..ChatFilter::default()
    };
    let mut seen = String::new();
    loop {
        let list = chats.list_chats(&filter).unwrap();
        seen.extend(list.items.iter().map(|chat| chat.chat_id.as_str()));
        chats.create_chat(Chat::new("new")).unwrap();
        filter.cursor = list.next;
        if filter.cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, "6543210");
    let first = ChatFilter {
        pagesize: 3,
        ..ChatFilter::default()
    };
    let both = ChatFilter {
        page: 2,
        cursor: chats.list_chats(&first).unwrap().next,
        ..first
    };
    let refused = chats.list_chats(&both).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(
        refused.to_string().contains("give one of them"),
        "{refused}"
    );
    let huge = ChatFilter {
        pagesize: 1_001,
        ..ChatFilter::default()
    };
    assert_eq!(kind(chats.list_chats(&huge)), ErrorKind::InvalidInput);
}

fn a_cursor_of_chats_or_steps_fits_only_the_list_it_came_from(store: &blocking::Store) {
    let chats = store.chats();
    for id in ["a", "b", "c"] {
        chats.create_chat(named(id)).unwrap();
        chats
            .save_steps(vec![
                Step {
                    request_id: format!("request of {id}"),
                    ..step(id, &format!("{id}1"), &format!("s1 of {id}"))
                },
                Step {
                    request_id: format!("request of {id}"),
                    ..step(id, &format!("{id}2"), &format!("s2 of {id}"))
                },
            ])
            .unwrap();
    }
    let all = ChatFilter {
        pagesize: 1,
        ..ChatFilter::default()
    };
    let next = chats.list_chats(&all).unwrap().next;
    assert!(next.is_some());
    let at = |filter: ChatFilter| {
        chats.list_chats(&ChatFilter {
            cursor: next.clone(),
            pagesize: 2,
            ..filter
        })
    };
    assert_eq!(
        at(all.clone()).unwrap().items[0].chat_id,
        "b",
        "the size of a page may change"
    );
    let some = |text: &str| Some(text.to_owned());
    for other in [
        ChatFilter {
            user_id: some("u"),
            ..all.clone()
        },
        ChatFilter {
            team_id: some("t"),
            ..all.clone()
        },
        ChatFilter {
            assistant_id: some("x"),
            ..all.clone()
        },
        ChatFilter {
            status: Some(SessionStatus::Active),
            ..all.clone()
        },
        ChatFilter {
            keywords: some("k"),
            ..all.clone()
        },
        ChatFilter {
            order: ChatOrder::Sort,
            ..all.clone()
        },
    ] {
        assert_eq!(kind(at(other)), ErrorKind::InvalidInput);
    }
    let one = ListSteps {
        limit: 1,
        ..ListSteps::default()
    };
    let of_steps = chats.list_steps(&of_chat("a", one.clone())).unwrap().next;
    let go_on = |chat, options: ListSteps| {
        chats.list_steps(&of_chat(
            chat,
            ListSteps {
                cursor: of_steps.clone(),
                ..options
            },
        ))
    };
    assert_eq!(go_on("a", one.clone()).unwrap().items[0].step_id, "a2");
    assert_eq!(kind(go_on("b", one.clone())), ErrorKind::InvalidInput);
    assert_eq!(
        kind(go_on(
            "a",
            ListSteps {
                status: Some(StepStatus::Failed),
                ..one.clone()
            }
        )),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(chats.list_chats(&ChatFilter {
            cursor: of_steps.clone(),
            ..all
        })),
        ErrorKind::InvalidInput
    );
    let sessions = ListSessions {
        limit: 1,
        ..ListSessions::default()
    };
    let of_sessions = store.list_sessions(&sessions).unwrap().next;
    assert!(of_sessions.is_some());
    for wrong in [
        ListSessions {
            cursor: of_steps.clone(),
            ..sessions.clone()
        },
        ListSessions {
            cursor: of_sessions.clone(),
            project: some("p"),
            ..sessions.clone()
        },
        ListSessions {
            cursor: of_sessions.clone(),
            deleted: Deleted::Shown,
            ..sessions.clone()
        },
        ListSessions {
            cursor: some("7"),
            ..sessions.clone()
        },
    ] {
        assert_eq!(kind(store.list_sessions(&wrong)), ErrorKind::InvalidInput);
    }
    assert_eq!(
        kind(chats.list_steps(&of_chat("a", ListSteps { limit: 0, ..one }))),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(chats.list_steps(&of_chat("d", ListSteps::default()))),
        ErrorKind::NotFound
    );
}

fn all_steps_of_a_chat_are_listed_in_pages(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let of_request = |id: &str, request: &str| Step {
        request_id: request.into(),
        ..step("c", id, "s")
    };
    chats
        .save_steps(vec![of_request("1", "r1"), of_request("2", "r2")])
        .unwrap();
    chats
        .save_steps(vec![
            of_request("3", "r1"),
            of_request("4", "r1"),
            of_request("5", "r2"),
        ])
        .unwrap();
    chats
        .update_step("2", &updates(r#"{"status":"failed"}"#))
        .unwrap();
    let list = |options: ListSteps| {
        let (mut options, mut seen) = (
            ListSteps {
                limit: 2,
                ..options
            },
            String::new(),
        );
        loop {
            let page = chats.list_steps(&of_chat("c", options.clone())).unwrap();
            seen.extend(page.items.iter().map(|step| step.step_id.as_str()));
            options.cursor = page.next;
            if options.cursor.is_none() {
                return seen;
            }
        }
    };
    let all = ListSteps::default;
    assert_eq!(list(all()), "12345");
    assert_eq!(
        list(ListSteps {
            request_id: Some("r1".into()),
            ..all()
        }),
        "134"
    );
    assert_eq!(
        list(ListSteps {
            status: Some(StepStatus::Failed),
            ..all()
        }),
        "2"
    );
    assert_eq!(
        list(ListSteps {
            stack_id: Some("t".into()),
            ..all()
        }),
        ""
    );
    assert_eq!(
        list(ListSteps {
            step_type: Some(StepType::Delegate),
            ..all()
        }),
        ""
    );
    let first = chats
        .list_steps(&of_chat("c", ListSteps { limit: 4, ..all() }))
        .unwrap();
    chats.save_steps(vec![of_request("6", "r1")]).unwrap();
    chats
        .update_step("1", &updates(r#"{"status":"completed"}"#))
        .unwrap();
    let rest = chats
        .list_steps(&of_chat(
            "c",
            ListSteps {
                cursor: first.next,
                ..all()
            },
        ))
        .unwrap()
        .items;
    assert_eq!(
        rest.iter()
            .map(|step| step.step_id.as_str())
            .collect::<String>(),
        "56",
        "what came meanwhile, too"
    );
}

fn messages(store: &blocking::Store, chat: &str) -> Vec<ChatMessage> {
    store
        .chats()
        .get_messages(chat, &MessageFilter::default())
        .unwrap()
}

fn copy(store: &blocking::Store, chat: &str, options: &CopySession) -> String {
    let source = store.find_session(chat).unwrap();
    let copied = store.copy_session(source.id, options).unwrap().session;
    assert_eq!(copied.copied_from, Some(source.id));
    copied.name.unwrap_or_else(|| copied.id.to_string())
}

fn a_copied_chat_has_its_messages_and_steps_with_ids_of_their_own(store: &blocking::Store) {
    let chats = store.chats();
    chats
        .create_chat(Chat {
            sort: 4,
            ..named("c")
        })
        .unwrap();
    chats
        .save_messages("c", vec![message("m1"), message("m2"), message("m3")])
        .unwrap();
    chats.delete_messages("c", &["m2"]).unwrap();
    chats
        .save_steps(vec![step("c", "s1", "stk"), step("c", "s2", "stk")])
        .unwrap();
    let source = chats.get_chat("c").unwrap().unwrap();
    let id = copy(
        store,
        "c",
        &CopySession {
            name: Some("d".into()),
            ..CopySession::default()
        },
    );
    assert_eq!(id, "d");
    let chat = chats.get_chat("d").unwrap().unwrap();
    assert_eq!(
        (chat.sort, chat.last_message_at_ms, &chat.assistant_id),
        (4, source.last_message_at_ms, &source.assistant_id)
    );

    let (before, after) = (messages(store, "c"), messages(store, "d"));
    let told = |messages: &[ChatMessage]| -> Vec<_> {
        messages
            .iter()
            .map(|one| (one.props.clone(), one.sequence, one.created_at_ms, one.id))
            .collect()
    };
    assert_eq!(told(&after), told(&before));
    assert!(after.iter().all(|message| message.chat_id == "d"));
    let steps = |chat| {
        chats
            .list_steps(&of_chat(chat, ListSteps::default()))
            .unwrap()
            .items
    };
    let told = |steps: &[Step]| -> Vec<_> {
        steps
            .iter()
            .map(|step| (step.sequence, step.status))
            .collect()
    };
    assert_eq!(told(&steps("d")), told(&steps("c")));

    // Ids name one thing: the source's still name its own, the copy's the copy's.
    let changed = updates(r#"{"props":{"content":"changed"}}"#);
    chats.update_message("m1", &changed).unwrap();
    chats
        .update_step("s1", &updates(r#"{"status":"failed"}"#))
        .unwrap();
    assert_eq!(
        told(&steps("d"))
            .iter()
            .map(|(_, status)| *status)
            .collect::<Vec<_>>(),
        [StepStatus::Pending; 2]
    );
    assert_eq!(messages(store, "d"), after);
    let again = chats
        .update_message(&after[1].message_id, &changed)
        .unwrap();
    assert_eq!(
        (again.chat_id.as_str(), again.props.as_str()),
        ("d", r#"{"content":"changed"}"#)
    );
    assert_eq!(messages(store, "c")[1], before[1]);
    assert_eq!(chats.get_steps(&steps("d")[0].request_id).unwrap().len(), 2);
    assert_eq!(chats.get_steps("req_1").unwrap(), steps("c"));
    assert_eq!(
        chats.get_stack_path(&steps("d")[0].stack_id).unwrap().len(),
        1
    );

    // Both go on, and a copy is copied.
    chats.save_messages("d", vec![message("m9")]).unwrap();
    assert_eq!(
        (messages(store, "c").len(), messages(store, "d").len()),
        (2, 3)
    );
    let third = copy(store, "d", &CopySession::default());
    assert_eq!(
        messages(store, &third)
            .iter()
            .map(|message| message.sequence)
            .collect::<Vec<_>>(),
        [1, 3, 4]
    );
    chats.delete_chat("c").unwrap();
    assert_eq!(
        (messages(store, "d").len(), messages(store, &third).len()),
        (3, 3)
    );
    assert_eq!(
        kind(chats.update_message("m1", &changed)),
        ErrorKind::NotFound
    );
    // A handle that begins with nothing reads the same.
    let other = blocking::Store::with_backend(std::sync::Arc::clone(store.backend()));
    assert_eq!(messages(&other, &third), messages(store, &third));
    assert_eq!(
        other
            .chats()
            .list_steps(&of_chat("d", ListSteps::default()))
            .unwrap()
            .items,
        steps("d")
    );
}

fn a_chat_copied_up_to_a_point_is_the_chat_as_it_was(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let session = store.find_session("c").unwrap().id;
    let context = store
        .context(store.create_instance(session, "travel", None).unwrap().id)
        .unwrap();
    for asked in ["first", "second"] {
        let mut request = chats
            .begin_request("c", NewRequest::new("travel"), text(asked))
            .unwrap();
        context.append_message(NewMessage::user(asked)).unwrap();
        let step = request
            .start_step(StepType::Llm, json(r#"{"messages":[]}"#))
            .unwrap();
        context.append_message(NewMessage::assistant("…")).unwrap();
        request
            .send(ChatMessage::text(
                ChatRole::Assistant,
                &format!("answer to {asked}"),
            ))
            .unwrap();
        request.complete_step(&step, None).unwrap();
        request.finish(RequestEnd::Completed).unwrap();
    }
    let up_to = |sequence| {
        let chat = copy(
            store,
            "c",
            &CopySession {
                up_to_sequence: Some(sequence),
                ..CopySession::default()
            },
        );
        let said: Vec<_> = messages(store, &chat)
            .into_iter()
            .map(|one| {
                one.props.to_value::<serde_json::Value>().unwrap()["content"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        let steps = chats
            .list_steps(&of_chat(&chat, ListSteps::default()))
            .unwrap()
            .items
            .len();
        assert_eq!(
            chats
                .get_chat(&chat)
                .unwrap()
                .unwrap()
                .last_message_at_ms
                .is_some(),
            !said.is_empty()
        );
        (said.join(", "), steps)
    };
    assert_eq!(up_to(0), (String::new(), 0));
    assert_eq!(up_to(1), ("first".into(), 0), "the request had begun");
    assert_eq!(
        up_to(2),
        ("first, answer to first".into(), 1),
        "the next one hadn't"
    );
    assert_eq!(up_to(3), ("first, answer to first, second".into(), 1));
    assert_eq!(
        up_to(4),
        ("first, answer to first, second, answer to second".into(), 2)
    );
    let whole = copy(store, "c", &CopySession::default());
    let of_whole = CopySession {
        up_to_sequence: Some(2),
        ..CopySession::default()
    };
    assert_eq!(
        messages(store, &copy(store, &whole, &of_whole)).len(),
        2,
        "also of a copy"
    );
}

fn an_interrupted_request_is_resumed_in_a_copy_too(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let mut request = chats
        .begin_request("c", NewRequest::new("lead"), text("go"))
        .unwrap();
    request.space_mut().set("colour", json(r#""red""#));
    request.start_step(StepType::Delegate, json("{}")).unwrap();
    request.enter("helper").unwrap();
    request
        .start_step(StepType::Llm, json(r#"{"n":1}"#))
        .unwrap();
    drop(request);
    let copied = copy(store, "c", &CopySession::default());
    let (own, other) = (
        chats.resume("c").unwrap().unwrap(),
        chats.resume(&copied).unwrap().unwrap(),
    );
    assert_eq!(
        (own.input(), own.assistant_id()),
        (other.input(), other.assistant_id())
    );
    assert_eq!(
        (own.space.clone(), own.stack.len()),
        (other.space.clone(), other.stack.len())
    );
    assert_ne!(own.stack_path(), other.stack_path());
    assert_eq!(
        chats
            .complete_resumed(&other, &json(r#"{"done":true}"#))
            .unwrap()
            .len(),
        2
    );
    assert_eq!(chats.resume(&copied).unwrap(), None);
    assert_eq!(
        chats.resume("c").unwrap(),
        Some(own),
        "the source's waits still"
    );
}

fn chats_are_listed_in_three_orders(store: &blocking::Store) {
    let chats = store.chats();
    for (id, sort) in [("a", 3), ("b", 1), ("c", 2)] {
        chats.create_chat(Chat { sort, ..named(id) }).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(3));
    chats.save_messages("a", vec![text("hi")]).unwrap();
    let ids = |order| {
        let list = chats
            .list_chats(&ChatFilter {
                order,
                ..ChatFilter::default()
            })
            .unwrap();
        list.items
            .iter()
            .map(|chat| chat.chat_id.as_str())
            .collect::<String>()
    };
    assert_eq!(ids(ChatOrder::Created), "cba");
    assert_eq!(ids(ChatOrder::Sort), "bca");
    assert!(ids(ChatOrder::LastMessage).starts_with('a'));
}

fn unknown_things_are_not_found(store: &blocking::Store) {
    let chats = store.chats();
    assert_eq!(chats.get_chat("x").unwrap(), None);
    assert_eq!(
        kind(chats.update_chat("x", &updates("{}"))),
        ErrorKind::NotFound
    );
    assert_eq!(kind(chats.delete_chat("x")), ErrorKind::NotFound);
    assert_eq!(
        kind(chats.save_messages("x", vec![text("x")])),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(chats.save_steps(vec![step("x", "s", "k")])),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(chats.update_message("x", &updates("{}"))),
        ErrorKind::NotFound
    );
    assert_eq!(
        kind(chats.update_step("x", &updates("{}"))),
        ErrorKind::NotFound
    );
    assert_eq!(kind(chats.get_steps("x")), ErrorKind::NotFound);
    assert_eq!(kind(chats.get_stack_path("x")), ErrorKind::NotFound);
    assert_eq!(kind(chats.resume("x")), ErrorKind::NotFound);
}

fn bad_input_is_refused_and_writes_nothing(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    chats.create_chat(named("d")).unwrap();
    let before = store.backend().clone();
    let position = || {
        pollster::block_on(before.scan(runlog::engine::Position(1), u64::MAX))
            .unwrap()
            .records
            .len()
    };
    let records = position();
    assert!(Updates::parse("not json").is_err());
    assert_eq!(
        kind(chats.update_chat("c", &updates(r#"{"sort":"high"}"#))),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(chats.update_chat("c", &updates(r#"{"assistant_id":null}"#))),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(chats.save_messages(
            "c",
            vec![text("x"), ChatMessage::new(ChatRole::User, "", json("{}"))]
        )),
        ErrorKind::InvalidInput
    );
    let late = ChatMessage {
        created_at_ms: u64::MAX,
        ..text("x")
    };
    assert_eq!(
        kind(chats.save_messages("c", vec![late])),
        ErrorKind::InvalidInput
    );
    let late = Chat {
        created_at_ms: 253_402_300_800_000,
        ..named("late")
    };
    assert_eq!(kind(chats.create_chat(late)), ErrorKind::InvalidInput);
    let late = runlog::NewSession {
        created_at_ms: Some(u64::MAX),
        ..runlog::NewSession::default()
    };
    let error = store.create_session(late).unwrap_err();
    assert!(error.to_string().contains("after the year 9999"), "{error}");
    let bad = Step {
        input: Some(json("[]")),
        ..step("c", "2", "k")
    };
    assert_eq!(
        kind(chats.save_steps(vec![step("c", "1", "k"), bad])),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(chats.save_steps(vec![step("c", "1", "k"), step("d", "2", "k")])),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        kind(chats.save_steps(vec![step("c", "1", "")])),
        ErrorKind::InvalidInput
    );
    assert_eq!(position(), records);
}

fn oversize_is_refused_and_writes_nothing(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let huge = "x".repeat(17 << 20);
    assert_eq!(
        kind(chats.save_messages("c", vec![text("small"), text(&huge)])),
        ErrorKind::TooLarge
    );
    let step = Step {
        input: Some(json(&format!(r#"{{"x":"{huge}"}}"#))),
        ..step("c", "s", "k")
    };
    assert_eq!(kind(chats.save_steps(vec![step])), ErrorKind::TooLarge);
    let long = ChatMessage {
        request_id: Some("x".repeat(65)),
        ..text("x")
    };
    assert_eq!(
        kind(chats.save_messages("c", vec![long])),
        ErrorKind::TooLarge
    );
    assert_eq!(
        chats.get_messages("c", &MessageFilter::default()).unwrap(),
        []
    );
}

fn unknown_fields_are_kept(store: &blocking::Store) {
    let chats = store.chats();
    let chat: Chat =
        serde_json::from_str(r#"{"chat_id":"c","assistant_id":"a","colour":"red"}"#).unwrap();
    chats.create_chat(chat).unwrap();
    let chat = chats
        .update_chat("c", &updates(r#"{"shape":[1]}"#))
        .unwrap();
    assert_eq!(serde_json::to_value(&chat).unwrap()["shape"][0], 1);
    let new: ChatMessage =
        serde_json::from_str(r#"{"role":"user","type":"text","props":{},"colour":"blue"}"#)
            .unwrap();
    assert_eq!(
        chats.save_messages("c", vec![new]).unwrap()[0].extra["colour"],
        "blue"
    );
    assert_eq!(chats.get_chat("c").unwrap().unwrap().extra["colour"], "red");
}

fn an_id_in_two_chats_is_ambiguous(store: &blocking::Store) {
    let chats = store.chats();
    for chat in ["c", "d"] {
        chats.create_chat(named(chat)).unwrap();
    }
    chats.save_messages("c", vec![message("m")]).unwrap();
    chats.delete_chat("c").unwrap();
    chats.save_messages("d", vec![message("m")]).unwrap();
    chats.restore_chat("c").unwrap();
    assert_eq!(
        kind(chats.update_message("m", &updates(r#"{"type":"x"}"#))),
        ErrorKind::Ambiguous
    );
    chats.delete_chat("c").unwrap();
    assert_eq!(
        chats
            .update_message("m", &updates(r#"{"type":"x"}"#))
            .unwrap()
            .chat_id,
        "d"
    );
}

fn a_second_handle_sees_what_the_first_one_saves(store: &blocking::Store) {
    let chats = store.chats();
    chats.create_chat(named("c")).unwrap();
    let other = Store::with_backend(store.backend().clone()).chats();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let chats = chats.clone();
            std::thread::spawn(move || {
                for number in 0..10 {
                    chats
                        .save_messages("c", vec![text(&format!("{thread} {number}"))])
                        .unwrap();
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let found = pollster::block_on(other.get_messages("c", &MessageFilter::default())).unwrap();
    assert_eq!(
        found
            .iter()
            .map(|message| message.sequence)
            .collect::<Vec<_>>(),
        (1..=40).collect::<Vec<_>>()
    );
    assert_eq!(
        found,
        chats.get_messages("c", &MessageFilter::default()).unwrap()
    );
}
