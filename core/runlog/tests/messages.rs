//! Messages folded back are the messages appended, byte for byte, whatever they look like.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use proptest::{collection::vec, prelude::*};
use runlog::{
    NewSession, RawJson, Role,
    blocking::Store,
    contexts::{AppendOptions, ContextEventKind, RawMessage},
};

/// A JSON string literal, with escapes spelt in more ways than one.
fn literal() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[ -!#-\\[\\]-~]{0,12}",
        "[éß漢🙂\u{2028}]{1,3}",
        Just(r"\u00e9".to_owned()),
        Just(r"\ud800".to_owned()),
        Just(r"\/\n\t\\".to_owned()),
        Just(r#"\"role\":\"user\""#.to_owned()),
    ];
    vec(piece, 0..4).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// A name that parses to itself, so that a test can tell what a call is named.
fn plain() -> impl Strategy<Value = String> {
    "[a-z_]{1,12}"
}

fn space() -> impl Strategy<Value = String> {
    "[ \t\n\r]{0,2}"
}

fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        literal(),
        Just("null".into()),
        Just("true".into()),
        "-?[1-9][0-9]{0,20}(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,3})?"
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (vec(inner.clone(), 0..3), space())
                .prop_map(|(items, space)| format!("[{space}{}]", items.join(","))),
            (vec((literal(), inner), 0..3), space()).prop_map(|(fields, space)| {
                let fields: Vec<String> = fields
                    .into_iter()
                    .map(|(key, value)| format!("{key}:{space}{value}"))
                    .collect();
                format!("{{{}{space}}}", fields.join(","))
            }),
        ]
    })
}

/// An object of these fields, shuffled, with white space anywhere it may be.
fn object(fields: Vec<(&'static str, String)>) -> impl Strategy<Value = String> {
    let count = fields.len();
    (
        Just(fields).prop_shuffle(),
        vec((space(), space(), space()), count),
        space(),
        space(),
    )
        .prop_map(|(fields, spaces, before, after)| {
            let fields: Vec<String> = fields
                .iter()
                .zip(spaces)
                .map(|((key, value), (a, b, c))| format!("{a}\"{key}\"{b}:{c}{value}"))
                .collect();
            format!("{before}{{{}}}{after}", fields.join(","))
        })
}

/// A message, and what must be recorded beside it: (name, arguments) of each tool call.
type Case = (String, Role, Vec<(String, String)>);

/// What providers take as the content of a message that no tool made.
fn content() -> impl Strategy<Value = String> {
    prop_oneof![
        literal(),
        vec(value(), 0..3).prop_map(|items| format!("[{}]", items.join(",")))
    ]
}

fn said() -> impl Strategy<Value = Case> {
    let role = prop_oneof![
        Just(("system", Role::System)),
        Just(("user", Role::User)),
        Just(("assistant", Role::Assistant))
    ];
    (role, content(), value()).prop_flat_map(|((name, role), content, extra)| {
        object(vec![
            ("role", format!("\"{name}\"")),
            ("content", content),
            ("extra", extra),
        ])
        .prop_map(move |text| (text, role, Vec::new()))
    })
}

fn openai_calls() -> impl Strategy<Value = Case> {
    (vec((plain(), literal(), plain()), 1..4), prop_oneof![content(), Just("null".into())]).prop_flat_map(
        |(calls, content)| {
            let items: Vec<String> = calls
                .iter()
                .map(|(name, arguments, id)| {
                    format!(
                        r#"{{"id":"{id}","type":"function","function":{{"arguments": {arguments},"name":"{name}"}}}}"#
                    )
                })
                .collect();
            let expected: Vec<_> = calls.into_iter().map(|(name, arguments, _)| (name, arguments)).collect();
            object(vec![
                ("role", "\"assistant\"".into()),
                ("content", content),
                ("tool_calls", format!("[{}]", items.join(" , "))),
            ])
            .prop_map(move |text| (text, Role::Assistant, expected.clone()))
        },
    )
}

fn anthropic_calls() -> impl Strategy<Value = Case> {
    vec((plain(), value(), plain()), 1..4).prop_flat_map(|calls| {
        let blocks: Vec<String> = calls
            .iter()
            .map(|(name, input, id)| {
                format!(r#"{{"type":"tool_use","input":{input},"id":"{id}","name":"{name}"}}"#)
            })
            .collect();
        let expected: Vec<_> = calls
            .into_iter()
            .map(|(name, input, _)| (name, input))
            .collect();
        object(vec![
            ("role", "\"assistant\"".into()),
            ("content", format!("[{}]", blocks.join(","))),
        ])
        .prop_map(move |text| (text, Role::Assistant, expected.clone()))
    })
}

fn openai_result() -> impl Strategy<Value = Case> {
    (plain(), value()).prop_flat_map(|(id, content)| {
        object(vec![
            ("role", "\"tool\"".into()),
            ("tool_call_id", format!("\"{id}\"")),
            ("content", content),
        ])
        .prop_map(|text| (text, Role::Tool, Vec::new()))
    })
}

fn anthropic_results() -> impl Strategy<Value = Case> {
    vec((plain(), value()), 1..4).prop_flat_map(|results| {
        let blocks: Vec<String> = results
            .iter()
            .map(|(id, content)| {
                format!(r#"{{"type":"tool_result","content":{content},"tool_use_id":"{id}"}}"#)
            })
            .collect();
        object(vec![
            ("role", "\"user\"".into()),
            ("content", format!("[{}]", blocks.join(","))),
        ])
        .prop_map(|text| (text, Role::Tool, Vec::new()))
    })
}

fn message() -> impl Strategy<Value = Case> {
    prop_oneof![
        said(),
        openai_calls(),
        anthropic_calls(),
        openai_result(),
        anthropic_results()
    ]
}

fn fresh() -> (Store, runlog::InstanceId) {
    let store = Store::in_memory();
    let (_, agent) = store
        .start_session(NewSession::default(), "planner")
        .unwrap();
    (store, agent.id)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn messages_folded_back_are_the_messages_appended(cases in vec(message(), 0..8), together in any::<bool>()) {
        let (store, agent) = fresh();
        let context = store.context(agent).unwrap();
        let jsons: Vec<RawJson> = cases.iter().map(|(text, ..)| RawJson::parse(text.clone()).unwrap()).collect();
        if together {
            let messages = jsons.into_iter().map(RawMessage::from);
            context.append_raw_messages(messages, &AppendOptions::default()).unwrap();
        } else {
            for json in jsons {
                context.append_raw_message(json).unwrap();
            }
        }
        let messages = context.get_messages().unwrap();
        let found: Vec<_> = messages.iter().map(|message| (message.json.as_str(), message.role)).collect();
        let expected: Vec<_> = cases.iter().map(|(text, role, _)| (text.as_str(), *role)).collect();
        prop_assert_eq!(found, expected);

        let calls: Vec<String> = store
            .contexts()
            .events(agent, 0)
            .unwrap()
            .map(Result::unwrap)
            .filter(|event| event.event_type == ContextEventKind::ToolCall)
            .map(|event| event.content.as_str().split_once(",\"name\":").unwrap().1.to_owned())
            .collect();
        let expected: Vec<String> = cases
            .iter()
            .flat_map(|(.., calls)| calls)
            .map(|(name, arguments)| format!("\"{name}\",\"arguments\":{arguments}}}"))
            .collect();
        prop_assert_eq!(calls, expected);
    }
}
