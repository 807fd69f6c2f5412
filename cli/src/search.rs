//! A search of the whole store for a text: which records have it, whose they are, and what stands around it.

use std::sync::Arc;

use runlog::{
    AgentInstance, Error, ErrorKind, InstanceId, Result, RunId, SessionId, Store,
    backend::if_supported,
    contexts::{ContextEvent, ContextEventKind},
    flows::RuntimeEvent,
    log::{Kind, Position, ReadOptions, Record, StreamId},
    scan::{TextQuery, searched_texts, without_case},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::owners::{Owner, Owners, Topic};

/// The stream that lists sessions.
const SESSIONS: StreamId = StreamId::from_bytes(*b"runlog:catalog:1");
/// How many characters of an excerpt stand before the text that was found.
const BEFORE: usize = 40;
/// How many characters an excerpt has.
const EXCERPT: usize = 200;
/// Larger contents aren't parsed for their excerpt.
const PARSED_BYTES_MAX: usize = 8 << 20;

/// A record that has the text.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Hit {
    /// Its place in the log, as `runlog erase --position` takes it.
    pub(crate) position: u64,
    /// What it is about.
    pub(crate) topic: Topic,
    /// The session that it is of.
    pub(crate) session_id: Option<SessionId>,
    /// The agent instance whose context it is in.
    pub(crate) instance_id: Option<InstanceId>,
    /// The name of the agent.
    pub(crate) agent_name: Option<String>,
    /// The run that it was recorded in.
    pub(crate) run_id: Option<RunId>,
    /// Its place in its stream: of an event, its sequence in its context.
    pub(crate) sequence_number: u64,
    /// What kind of event it is, where it is one of a context.
    pub(crate) event_type: Option<ContextEventKind>,
    /// When an event happened, or another record was appended: milliseconds since 1970-01-01 UTC.
    pub(crate) created_at_ms: u64,
    /// Whether its stream was truncated before it. The log has it until it is compacted; copies may go on to share it.
    pub(crate) truncated: bool,
    /// The text with what stands around it; empty where it isn't in one place, as where it spans values of JSON, and where a content
    /// of more than 8 MiB has it with backslashes.
    pub(crate) excerpt: String,
    /// How many bytes of the excerpt stand before the text.
    #[serde(skip)]
    pub(crate) before: usize,
}

/// A page of what was found.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Found {
    /// The records, in the order of the log.
    pub(crate) items: Vec<Hit>,
    /// The cursor of the next page, which may be there although this one has nothing; null at the end of the log.
    pub(crate) next: Option<String>,
    /// Records that couldn't be searched, because they are damaged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unreadable: Vec<Unreadable>,
}

/// Records that can't be read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Unreadable {
    /// The place of the first of them in the log.
    pub(crate) position: u64,
    /// What is wrong.
    pub(crate) detail: String,
}

/// Where to search, and how much.
pub(crate) struct Search<'a> {
    pub(crate) text: &'a str,
    /// Only in what this session shows, also of what it shares with the one it is a copy of.
    pub(crate) session: Option<SessionId>,
    /// At most so many records.
    pub(crate) limit: usize,
    /// The `next` of the page before.
    pub(crate) cursor: Option<&'a str>,
    /// How many parts of the log, of about 4 MiB of contents each, one page examines at most.
    pub(crate) parts_max: usize,
}

impl Search<'_> {
    /// One page of the records that have the text.
    pub(crate) async fn page(&self, store: &Store) -> Result<Found> {
        let query = TextQuery::new(self.text)?;
        let mut next = Some(self.first()?);
        let mut found = Found {
            items: Vec::new(),
            next: None,
            unreadable: Vec::new(),
        };
        let (mut owners, shared) = (Owners::default(), self.shared(store).await?);
        for _ in 0..self.parts_max {
            let Some(first) = next else {
                break;
            };
            let part = match store.search(&query, first).await {
                Err(error) if error.kind() == ErrorKind::Damaged => {
                    found.unreadable.push(Unreadable {
                        position: first.0,
                        detail: error.to_string(),
                    });
                    let readable = store.backend().maintenance().next_readable(first.next());
                    next = if_supported(readable.await)?.unwrap_or(Some(first.next()));
                    continue;
                }
                part => part?,
            };
            next = part.next;
            for position in part.found {
                if found.items.len() == self.limit {
                    next = Some(position);
                    break;
                }
                let hit = self.hit(store, &mut owners, &shared, position).await?;
                found.items.extend(hit);
            }
            if found.items.len() == self.limit {
                break;
            }
        }
        found.next = next.map(|next| next.0.to_string());
        Ok(found)
    }

    /// The streams of the session in which records of others are shared, if it is a copy, with the instances whose contexts they are.
    async fn shared(&self, store: &Store) -> Result<Vec<(StreamId, Owner)>> {
        let Some(id) = self.session else {
            return Ok(Vec::new());
        };
        let session = store.get_session(id).await?;
        if session.is_none_or(|session| session.copied_from.is_none()) {
            return Ok(Vec::new());
        }
        let of_context = |instance: AgentInstance| {
            let stream = StreamId(instance.id.0);
            (stream, Owner::Instance(Arc::new(instance)))
        };
        let instances = store.instances(id).await?.into_iter().map(of_context);
        Ok(instances
            .chain([(StreamId(id.0), Owner::Chat(id))])
            .collect())
    }

    fn first(&self) -> Result<Position> {
        let Some(cursor) = self.cursor else {
            return Ok(Position::FIRST);
        };
        let position: u64 = cursor
            .parse()
            .ok()
            .filter(|position| *position > 0)
            .ok_or_else(|| {
                let message =
                    format!("`cursor`: {cursor:?} is not the `next` of a page of this search");
                Error::new(ErrorKind::InvalidInput, message)
            })?;
        Ok(Position(position))
    }

    /// What there is to say of a record; `None` where it is another session's, or was taken out of the store meanwhile.
    async fn hit(
        &self,
        store: &Store,
        owners: &mut Owners,
        shared: &[(StreamId, Owner)],
        position: Position,
    ) -> Result<Option<Hit>> {
        let record = store.backend().maintenance().record(position).await?;
        let Some(record) = record.filter(|record| !record.redacted) else {
            return Ok(None);
        };
        let (mut stream, mut owner) = (record.stream, owners.of(store, record.stream).await?);
        let listed = match owner {
            Owner::Lists => listed_session(&record),
            _ => None,
        };
        if self
            .session
            .is_some_and(|wanted| owner.session().or(listed) != Some(wanted))
        {
            let mut streams = shared.iter();
            (stream, owner) = loop {
                let Some((stream, owner)) = streams.next() else {
                    return Ok(None);
                };
                if has(store, *stream, &record).await? {
                    break (*stream, owner.clone());
                }
            };
        }
        let session = owner.session().or(listed);
        let topic = match Topic::of(&owner, &record) {
            // The state of a flow.
            Topic::Log if matches!(owner, Owner::Run(..) | Owner::Nobody) => Topic::Flow,
            topic => topic,
        };
        let (run, created_at_ms) = match topic {
            Topic::Context => {
                let event = ContextEvent::decode(InstanceId(stream.0), &record)?;
                (event.run_id, event.created_at_ms)
            }
            Topic::Flow => (Some(RunId(stream.0)), record.time_ms),
            _ => (owner.run(&record), record.time_ms),
        };
        let instance = owner.instance();
        let (excerpt, before) = excerpt(&record, topic, self.text).unwrap_or_default();
        Ok(Some(Hit {
            position: position.0,
            topic,
            session_id: session,
            instance_id: instance.map(|instance| instance.id),
            agent_name: instance.map(|instance| instance.agent_name.clone()),
            run_id: run,
            sequence_number: record.sequence.0,
            event_type: ContextEventKind::from_byte(record.kind.0)
                .filter(|_| topic == Topic::Context),
            created_at_ms,
            truncated: !has(store, stream, &record).await?,
            excerpt,
            before,
        }))
    }
}

/// The session that an entry of the list of sessions is of, such as one with its title.
fn listed_session(record: &Record) -> Option<SessionId> {
    if record.stream != SESSIONS {
        return None;
    }
    let entry: Value = serde_json::from_slice(&record.payload).ok()?;
    let id = entry.get("session_id").or_else(|| entry.get("id"))?;
    id.as_str()?.parse().ok()
}

/// Whether a stream has a record, its own or one that it shares.
async fn has(store: &Store, stream: StreamId, record: &Record) -> Result<bool> {
    let backend = store.backend();
    let found = if record.kind == Kind::SNAPSHOT {
        let snapshot = backend.latest_snapshot(stream, record.sequence).await;
        snapshot.map(|found| found.map(|found| found.position))
    } else {
        let options = ReadOptions {
            first: record.sequence,
            limit: 1,
            ..ReadOptions::default()
        };
        let page = backend.read(stream, options).await;
        page.map(|page| page.records.first().map(|found| found.position))
    };
    match found {
        Ok(position) => Ok(position == Some(record.position)),
        // A context or a chat has no stream before its first record.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// What stands around a text in a record, and how many bytes of that are before the text.
fn excerpt(record: &Record, topic: Topic, text: &str) -> Option<(String, usize)> {
    if topic == Topic::Flow
        && let Ok(event) = RuntimeEvent::decode(&record.meta, &record.payload)
    {
        return in_json(event.json.as_str(), text);
    }
    searched_texts(record)
        .iter()
        .find_map(|stored| in_json(stored, text))
}

/// What stands around a text in a string of a JSON document, also one that is in a string itself; otherwise in the document as it is
/// written.
fn in_json(json: &str, text: &str) -> Option<(String, usize)> {
    let parsed = (json.len() <= PARSED_BYTES_MAX).then(|| serde_json::from_str::<Value>(json));
    match parsed {
        Some(Ok(value)) => in_value(&value, text).or_else(|| around(json, text)),
        _ => around(json, text),
    }
}

fn in_value(value: &Value, text: &str) -> Option<(String, usize)> {
    match value {
        Value::String(string) => around(string, text).or_else(|| {
            let nested = serde_json::from_str(string).ok()?;
            // A string in a string is the same again.
            (!matches!(nested, Value::String(_))).then(|| in_value(&nested, text))?
        }),
        Value::Array(values) => values.iter().find_map(|value| in_value(value, text)),
        Value::Object(fields) => fields.values().find_map(|value| in_value(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The first place of a text, in any case, with what stands around it.
fn around(string: &str, text: &str) -> Option<(String, usize)> {
    let lower = without_case(string);
    let in_lower = lower.find(&without_case(text))?;
    // Characters may have another length in lower case.
    let mut length = 0;
    let mut is_before = |char: char| {
        length += char.to_lowercase().map(char::len_utf8).sum::<usize>();
        length <= in_lower
    };
    let at = string
        .chars()
        .take_while(|char| is_before(*char))
        .map(char::len_utf8)
        .sum();
    let (head, tail) = string.split_at_checked(at)?;
    let start = head
        .char_indices()
        .rev()
        .nth(BEFORE - 1)
        .map_or(0, |(start, _)| start);
    let room = EXCERPT - head.get(start..)?.chars().count();
    let end = tail.char_indices().nth(room).map(|(end, _)| end);
    let before = format!("{}{}", if start > 0 { "…" } else { "" }, head.get(start..)?);
    let rest = tail.get(..end.unwrap_or(tail.len()))?;
    let ending = if end.is_some() { "…" } else { "" };
    Some((format!("{before}{rest}{ending}"), before.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(json: &str, text: &str) -> String {
        let (excerpt, before) = in_json(json, text).unwrap();
        let shown = &excerpt[before..];
        assert!(
            without_case(shown).starts_with(&without_case(text)),
            "{excerpt} {before}"
        );
        excerpt
    }

    #[test]
    fn an_excerpt_is_what_stands_around_the_text_as_a_person_reads_it() {
        let said = r#"{"role":"user","content":"She said \"Über\nalles\"."}"#;
        assert_eq!(found(said, "über\nALLES"), "She said \"Über\nalles\".");
        let call = r#"{"function":{"arguments":"{\"cmd\":\"echo \\\"hi\\\"\"}"}}"#;
        assert_eq!(found(call, "echo \"HI\""), "echo \"hi\"");
        assert_eq!(found("no JSON at all", "json"), "no JSON at all");
        // Across values, as it is written.
        assert!(found(said, r#""role":"user""#).contains("content"));
        assert_eq!(in_json(said, "nowhere"), None);
    }

    #[test]
    fn an_excerpt_of_a_long_text_is_cut_on_both_sides_between_characters() {
        let long = format!("{}needle{}", "é".repeat(500), "ü".repeat(500));
        let json = serde_json::to_string(&long).unwrap();
        let excerpt = found(&json, "NEEDLE");
        assert_eq!(excerpt.chars().count(), EXCERPT + 2);
        assert!(excerpt.starts_with("…é") && excerpt.ends_with("ü…"));
    }
}
