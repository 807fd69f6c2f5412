//! A search of the whole store for a text: which records have it, whose they are, and what stands around it.

use runlog::{
    ErrorKind, InstanceId, Page, Result, RunId, SessionId, Store,
    contexts::{ContextEvent, ContextEventKind},
    flows::RuntimeEvent,
    log::{Position, ReadOptions, Record, StreamId},
    scan::{TextQuery, searched_texts},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::owners::{Owners, Topic};

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
    /// When it was appended: milliseconds since 1970-01-01 UTC.
    pub(crate) created_at_ms: u64,
    /// Whether its stream was truncated before it. The log has it until it is compacted; copies may go on to share it.
    pub(crate) truncated: bool,
    /// The text with what stands around it; empty where it isn't in one place, as where it spans values of JSON.
    pub(crate) excerpt: String,
    /// How many bytes of the excerpt stand before the text.
    #[serde(skip)]
    pub(crate) before: usize,
}

/// Where to search, and how much.
pub(crate) struct Search<'a> {
    pub(crate) text: &'a str,
    /// Only in what is of this session.
    pub(crate) session: Option<SessionId>,
    /// At most so many records.
    pub(crate) limit: usize,
    /// The `next` of the page before.
    pub(crate) cursor: Option<&'a str>,
    /// How many parts of the log, of about 4 MiB of contents each, one page examines at most.
    pub(crate) parts_max: usize,
}

impl Search<'_> {
    /// One page of the records that have the text, in the order of the log. It may be empty although others follow, which its
    /// `next` says.
    pub(crate) async fn page(&self, store: &Store) -> Result<Page<Hit>> {
        let query = TextQuery::new(self.text)?;
        let mut next = Some(self.first()?);
        let (mut items, mut owners) = (Vec::new(), Owners::default());
        for _ in 0..self.parts_max {
            let Some(first) = next else {
                break;
            };
            let part = store.search(&query, first).await?;
            next = part.next;
            for position in part.found {
                if items.len() == self.limit {
                    next = Some(position);
                    break;
                }
                items.extend(self.hit(store, &mut owners, position).await?);
            }
            if items.len() == self.limit {
                break;
            }
        }
        let next = next.map(|next| next.0.to_string());
        Ok(Page { items, next })
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
                runlog::Error::new(ErrorKind::InvalidInput, message)
            })?;
        Ok(Position(position))
    }

    /// What there is to say of a record; `None` where it is another session's, or was taken out of the store meanwhile.
    async fn hit(
        &self,
        store: &Store,
        owners: &mut Owners,
        position: Position,
    ) -> Result<Option<Hit>> {
        let record = store.backend().maintenance().record(position).await?;
        let Some(record) = record.filter(|record| !record.redacted) else {
            return Ok(None);
        };
        let owner = owners.of(store, record.stream).await?;
        let session = owner.session();
        if self.session.is_some_and(|wanted| session != Some(wanted)) {
            return Ok(None);
        }
        let topic = Topic::of(&owner, &record);
        let run = match topic {
            Topic::Context => ContextEvent::decode(InstanceId(record.stream.0), &record)?.run_id,
            _ => owner.run(&record),
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
            created_at_ms: record.time_ms,
            truncated: is_truncated(store, record.stream, &record).await?,
            excerpt,
            before,
        }))
    }
}

/// Whether a stream no longer has a record that was appended to it.
async fn is_truncated(store: &Store, stream: StreamId, record: &Record) -> Result<bool> {
    let options = ReadOptions {
        first: record.sequence,
        limit: 1,
        ..ReadOptions::default()
    };
    match store.backend().read(stream, options).await {
        Ok(page) => {
            let now = page.records.first().map(|now| now.position);
            Ok(now != Some(record.position))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// What stands around a text in a record, and how many bytes of that are before the text.
fn excerpt(record: &Record, topic: Topic, text: &str) -> Option<(String, usize)> {
    if topic == Topic::Flow {
        let event = RuntimeEvent::decode(&record.meta, &record.payload).ok()?;
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
    let wanted: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    let is_at = |at: &usize| {
        let rest = string.get(*at..).unwrap_or_default();
        let mut lower = rest.chars().flat_map(char::to_lowercase);
        wanted.iter().all(|char| lower.next() == Some(*char))
    };
    let at = string.char_indices().map(|(at, _)| at).find(is_at)?;
    let (head, tail) = string.split_at(at);
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
        let lower = |text: &str| {
            text.chars()
                .flat_map(char::to_lowercase)
                .collect::<String>()
        };
        assert!(lower(shown).starts_with(&lower(text)), "{excerpt} {before}");
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
