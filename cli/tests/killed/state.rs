//! Everything that a user can ask of a store, or export from it, as text that can be compared: ids by the order in
//! which they appear, times that the test itself made left out.

use std::{
    borrow::Cow,
    collections::HashMap,
    time::{SystemTime, UNIX_EPOCH},
};

use runlog::{
    ErrorKind,
    blocking::{Playback, Store},
    chats::{ChatFilter, ChatOrder, ListSteps, MessageFilter},
    flows::{ListFlows, PlaybackOptions},
    runs::{ListRunMessages, ListRuns, ListToolCalls},
    sessions::ListSessions,
};

use super::common::Place;

/// What the store is called in a place.
pub(crate) const STORE: &str = "runlog-data";

/// Why there is nothing to ask a store: it isn't there yet, or waits to be repaired.
const NOT_READ: [ErrorKind; 3] = [
    ErrorKind::NotFound,
    ErrorKind::NotAStore,
    ErrorKind::Damaged,
];

/// What a store holds.
#[derive(Default, PartialEq, Debug)]
pub(crate) struct State {
    /// The sessions in the order in which they were made, each with its name (or its title) and its export.
    pub(crate) sessions: Vec<(String, String)>,
    /// Chats, with their messages and steps.
    pub(crate) chats: Vec<String>,
    /// Runs, with their messages and tool calls.
    pub(crate) runs: Vec<String>,
    /// Flows, with their snapshots and events.
    pub(crate) flows: Vec<String>,
}

impl State {
    /// That of the store in a place; nothing where there is none to ask.
    pub(crate) fn of(place: &Place) -> Self {
        let store = match Store::open_read_only(place.path(STORE)) {
            Ok(store) => store,
            Err(error) if NOT_READ.contains(&error.kind()) => return Self::default(),
            Err(error) => panic!("{error}"),
        };
        let list = ListSessions {
            limit: 1000,
            ..ListSessions::default()
        };
        let mut listed = store.list_sessions(&list).unwrap().items;
        listed.reverse();
        let ids: Vec<String> = listed
            .iter()
            .map(|session| session.id.to_string())
            .collect();
        let mut plain = Plain::default();
        let mut sessions = Vec::new();
        for (session, export) in listed.iter().zip(exports(place, &ids)) {
            let name = session
                .name
                .clone()
                .or_else(|| session.title.clone())
                .unwrap_or_default();
            sessions.push((name, plain.of(&format!("{}\n{export}", json(session)))));
        }
        let chats = chats(&store).iter().map(|chat| plain.of(chat)).collect();
        let runs = runs(&store).iter().map(|run| plain.of(run)).collect();
        let flows = flows(&store).iter().map(|flow| plain.of(flow)).collect();
        Self {
            sessions,
            chats,
            runs,
            flows,
        }
    }

    /// The session of this name.
    pub(crate) fn session(&self, name: &str) -> Option<&str> {
        self.sessions
            .iter()
            .find(|(it, _)| it == name)
            .map(|(_, export)| export.as_str())
    }

    /// How many lines of this kind the exports have.
    pub(crate) fn lines(&self, kind: &str) -> u64 {
        let begin = format!("{{\"runlog\":\"{kind}\"");
        let lines = self.sessions.iter().flat_map(|(_, export)| export.lines());
        lines.filter(|line| line.starts_with(&begin)).count() as u64
    }
}

/// The export of each of these sessions.
fn exports(place: &Place, ids: &[String]) -> Vec<String> {
    if ids.is_empty() {
        return Vec::new();
    }
    let mut arguments = vec!["export", "--format", "events"];
    arguments.extend(ids.iter().map(String::as_str));
    let mut exports: Vec<String> = Vec::new();
    for line in place.expect(0, &arguments).out.lines() {
        if line.starts_with("{\"runlog\":\"session\"") {
            exports.push(String::new());
        }
        let export = exports.last_mut().unwrap();
        export.push_str(line);
        export.push('\n');
    }
    assert_eq!(exports.len(), ids.len());
    exports
}

fn chats(store: &Store) -> Vec<String> {
    let chats = store.chats();
    let list = chats
        .list_chats(&ChatFilter {
            // Not by the last message: without times of their own, messages have that of their import.
            order: ChatOrder::Created,
            pagesize: 1000,
            ..ChatFilter::default()
        })
        .unwrap();
    let mut texts = Vec::new();
    for chat in list.items {
        let messages = chats
            .get_messages(&chat.chat_id, &MessageFilter::default())
            .unwrap();
        let steps = chats
            .list_steps(&ListSteps {
                chat_id: Some(chat.chat_id.clone()),
                ..ListSteps::default()
            })
            .unwrap()
            .items;
        texts.push(format!(
            "{}\n{}\n{}",
            json(&chat),
            json(&messages),
            json(&steps)
        ));
    }
    texts
}

fn runs(store: &Store) -> Vec<String> {
    let runs = store.runs();
    let mut list = runs
        .list(&ListRuns {
            limit: 1000,
            ..ListRuns::default()
        })
        .unwrap()
        .items;
    list.reverse();
    let mut texts = Vec::new();
    for run in list {
        let whole = runs.get(run.id).unwrap().unwrap();
        let messages = runs
            .messages(
                run.id,
                &ListRunMessages {
                    limit: 1000,
                    ..ListRunMessages::default()
                },
            )
            .unwrap();
        let calls = runs
            .tool_calls(
                run.id,
                &ListToolCalls {
                    limit: 1000,
                    ..ListToolCalls::default()
                },
            )
            .unwrap();
        texts.push(format!(
            "{}\n{}\n{}\n{}",
            json(&run),
            json(&whole),
            json(&messages.items),
            json(&calls.items)
        ));
    }
    texts
}

fn flows(store: &Store) -> Vec<String> {
    let list = ListFlows {
        limit: 1000,
        ..ListFlows::default()
    };
    let mut flows = store.flows().list(&list).unwrap().items;
    flows.reverse();
    let mut texts = Vec::new();
    for flow in flows {
        let mut playback = Playback::new(store, flow.run_id, PlaybackOptions::default()).unwrap();
        let mut text = json(&flow);
        for played in &mut playback {
            let (_, event) = played.unwrap();
            // Sequences too: what is dropped gives its own to nobody.
            text += &format!("\n{} {}", event.sequence, event.event.json.as_str());
        }
        text += &format!("\n{}", json(&playback.snapshot()));
        texts.push(text);
    }
    texts
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

/// Takes out of texts what is another one each time.
#[derive(Default)]
struct Plain {
    ids: HashMap<String, usize>,
}

impl Plain {
    fn of(&mut self, text: &str) -> String {
        let mut plain = String::with_capacity(text.len());
        let mut rest = text;
        // Ids and times begin with one of these.
        while let Some(found) = rest.find(|c: char| c.is_ascii_hexdigit()) {
            plain += &rest[..found];
            rest = &rest[found..];
            let (piece, length) = self.piece(rest, plain.ends_with("\"duration_ms\":"));
            plain += &piece;
            rest = &rest[length..];
        }
        plain + rest
    }

    /// What stands for the beginning of a text, and how long that is.
    fn piece<'a>(&mut self, text: &'a str, is_duration: bool) -> (Cow<'a, str>, usize) {
        if let Some(id) = text.get(..36).filter(|id| is_id(id)) {
            let next = self.ids.len();
            return (
                format!("id {}", self.ids.entry(id.to_owned()).or_insert(next)).into(),
                id.len(),
            );
        }
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 && (is_duration || is_now(&text[..digits])) {
            return ("now".into(), digits);
        }
        let length = digits.max(1);
        (text[..length].into(), length)
    }
}

fn is_id(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// Whether these are the milliseconds of a time within the last hour.
fn is_now(digits: &str) -> bool {
    let now = now_ms();
    digits.len() == 13
        && digits
            .parse::<u64>()
            .is_ok_and(|ms| (now - 3_600_000..=now).contains(&ms))
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
