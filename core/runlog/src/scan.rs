//! Fast reads of the whole log: the heads of all events, for lists, and a search of all contents. Both are in the order
//! of positions, and include records that were truncated since.

use runlog_log::{Kind, Position, Record, StreamId};
use runlog_model::{ChatEvent, kinds, new_texts_of_snapshot};

pub use runlog_model::{EventSummary, TextQuery, TokenUsage, without_case};

use crate::{Result, Store, contexts::ContextEventKind};

/// The most records that are read for one page.
const PAGE_RECORDS: u64 = 4096;
/// How many bytes of content one page of a search examines.
const SEARCH_BYTES: usize = 4 << 20;

/// The head of a context's event, for lists.
#[derive(Clone, PartialEq, Debug)]
pub struct EventHead {
    /// Its position in the log.
    pub position: u64,
    /// The stream it was appended to: the id of its agent instance.
    pub stream: StreamId,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// When it was appended: milliseconds since 1970-01-01 UTC.
    pub recorded_ms: u64,
    /// Its kind.
    pub kind: ContextEventKind,
    /// Whether its content was redacted.
    pub redacted: bool,
    /// How many bytes its content has.
    pub content_bytes: usize,
    /// A summary of its content.
    pub summary: EventSummary,
}

/// Some records of the log: heads of context events, all others complete.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeadsPage {
    /// The events of contexts, in the order of positions.
    pub events: Vec<EventHead>,
    /// The other records between them, in the order of positions.
    pub others: Vec<Record>,
    /// Where the next page begins, also at the end of the log, because it grows; `None` for an empty page.
    pub next: Option<Position>,
}

/// The result of a search in a part of the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SearchPage {
    /// The positions of the records whose content has the text, in their order.
    pub found: Vec<Position>,
    /// Where the next page begins; `None` at the end of the log.
    pub next: Option<Position>,
}

impl Store {
    /// Reads some records from a position on, about 1 MiB of contents, and returns their heads.
    ///
    /// ```
    /// use runlog::{NewMessage, NewSession, log::Position, blocking::Store};
    ///
    /// let store = Store::in_memory();
    /// let (_, agent) = store.start_session(NewSession::titled("Weather"), "planner")?;
    /// store.context(agent.id)?.append_message(NewMessage::user("Will it rain?"))?;
    /// let page = store.scan_heads(Position(1))?;
    /// assert_eq!((page.events.len(), page.events[0].sequence), (1, 1));
    /// assert!(!page.others.is_empty(), "the session and the agent are recorded too");
    /// # Ok::<(), runlog::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn scan_heads(&self, first: Position) -> Result<HeadsPage> {
        let page = self.backend().scan(first, PAGE_RECORDS).await?;
        let last = page.records.last().map(|record| record.position.next());
        let mut heads = HeadsPage {
            events: Vec::with_capacity(page.records.len()),
            others: Vec::new(),
            next: page.next.or(last),
        };
        for record in page.records {
            match ContextEventKind::from_byte(record.kind.0) {
                Some(kind) => heads.events.push(head(kind, &record)),
                None => heads.others.push(record),
            }
        }
        Ok(heads)
    }

    /// Searches for a text in the content of the records from a position on, about 4 MiB of contents at a time. Case
    /// doesn't matter.
    ///
    /// ```
    /// use runlog::{NewMessage, NewSession, blocking::Store, log::Position, scan::TextQuery};
    ///
    /// let store = Store::in_memory();
    /// let (_, agent) = store.start_session(NewSession::titled("Trip"), "planner")?;
    /// let context = store.context(agent.id)?;
    /// context.append_message(NewMessage::user("To Oslo, please."))?;
    /// context.append_message(NewMessage::assistant("By train?"))?;
    /// let page = store.search(&TextQuery::new("OSLO")?, Position(1))?;
    /// assert_eq!((page.found.len(), page.next), (1, None));
    /// # Ok::<(), runlog::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of reading the store, where a page begins: what was found before that is a page of its own. A search goes on behind
    /// damage at [`next_readable`](runlog_log::Maintenance::next_readable).
    pub async fn search(&self, query: &TextQuery, first: Position) -> Result<SearchPage> {
        let mut page = SearchPage {
            found: Vec::new(),
            next: Some(first),
        };
        let mut bytes = 0;
        while bytes < SEARCH_BYTES
            && let Some(first) = page.next
        {
            let read = match self.backend().scan(first, PAGE_RECORDS).await {
                // What was found is returned first: the next page begins with what can't be read.
                Err(_) if bytes > 0 => break,
                read => read?,
            };
            for record in &read.records {
                bytes += record.payload.len();
                if is_in(query, record) {
                    page.found.push(record.position);
                }
            }
            page.next = read.next;
        }
        Ok(page)
    }
}

/// Checkpoints of the store's lists, which repeat what stands in the entries of these.
const PARTS: [u8; 3] = [
    kinds::CATALOG_PART,
    kinds::RUN_CATALOG_PART,
    kinds::FLOW_CATALOG_PART,
];

/// Whether a record has a text. The log's own records but snapshots have none: short ones would be found in their bytes.
fn is_in(query: &TextQuery, record: &Record) -> bool {
    if !record.kind.is_data() && record.kind != Kind::SNAPSHOT || PARTS.contains(&record.kind.0) {
        return false;
    }
    query.is_in(&record.payload)
        || texts_in_json(record)
            .iter()
            .any(|text| query.is_in(text.as_bytes()))
}

/// The texts of a record that a [search](Store::search) examines, as they are stored: JSON, except in a stream of one's own.
///
/// ```
/// use runlog::{NewMessage, NewSession, blocking::Store, log::Position, scan};
///
/// let store = Store::in_memory();
/// let (_, agent) = store.start_session(NewSession::titled("Trip"), "planner")?;
/// store.context(agent.id)?.append_message(NewMessage::user("To Oslo, please."))?;
/// let found = store.search(&scan::TextQuery::new("oslo")?, Position(1))?.found;
/// let record = pollster::block_on(store.backend().maintenance().record(found[0]))?.expect("it was found");
/// assert!(scan::searched_texts(&record)[0].contains("To Oslo, please."));
/// # Ok::<(), runlog::Error>(())
/// ```
pub fn searched_texts(record: &Record) -> Vec<String> {
    let payload = std::str::from_utf8(&record.payload).map(str::to_owned).ok();
    payload.into_iter().chain(texts_in_json(record)).collect()
}

/// The texts of a step or a flow's state that was saved as a difference. There JSON is in strings of JSON, as nothing else has it.
fn texts_in_json(record: &Record) -> Vec<String> {
    if record.kind == Kind::SNAPSHOT {
        return new_texts_of_snapshot(&record.meta, &record.payload);
    }
    if record.kind.0 != kinds::STEP_DIFF_SAVED {
        return Vec::new();
    }
    match ChatEvent::decode(record.kind.0, &record.meta, &record.payload) {
        Ok(ChatEvent::StepDiffSaved(diff)) => diff.new_texts().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn head(kind: ContextEventKind, record: &Record) -> EventHead {
    EventHead {
        position: record.position.0,
        stream: record.stream,
        sequence: record.sequence.0,
        recorded_ms: record.time_ms,
        kind,
        redacted: record.redacted,
        content_bytes: record.payload.len(),
        summary: EventSummary::of(kind, &record.meta, &record.payload),
    }
}

#[cfg(test)]
mod tests {
    use runlog_model::EventOptions;

    use super::*;
    use crate::{NewMessage, NewSession, blocking, contexts::AppendOptions};

    /// Two contexts, with events of every kind, one of them redacted, and what else a store records.
    fn filled() -> blocking::Store {
        let store = blocking::Store::in_memory();
        for name in ["one", "two"] {
            let (_, agent) = store
                .start_session(NewSession::titled(name), "agent")
                .unwrap();
            let context = store.context(agent.id).unwrap();
            for number in 0..30 {
                let content = format!("Say {number} in {name}, \"quoted\".");
                let event = EventOptions {
                    created_at_ms: Some(1_000 + number),
                    ..EventOptions::default()
                };
                let at = AppendOptions {
                    event,
                    ..AppendOptions::default()
                };
                context
                    .append_message_with(NewMessage::user(&content), &at)
                    .unwrap();
            }
        }
        store
    }

    fn all_heads(store: &blocking::Store) -> (Vec<EventHead>, Vec<Record>) {
        let (mut events, mut others, mut first) = (Vec::new(), Vec::new(), Position(1));
        loop {
            let page = store.scan_heads(first).unwrap();
            if page.events.is_empty() && page.others.is_empty() {
                return (events, others);
            }
            first = page.next.unwrap();
            events.extend(page.events);
            others.extend(page.others);
        }
    }

    #[test]
    fn heads_are_every_record_once_with_what_the_record_says() {
        let store = filled();
        let (events, others) = all_heads(&store);
        let page = pollster::block_on(store.backend().scan(Position(1), 1_000)).unwrap();
        let (of_contexts, rest): (Vec<Record>, Vec<Record>) = page
            .records
            .into_iter()
            .partition(|record| ContextEventKind::from_byte(record.kind.0).is_some());
        assert_eq!((events.len(), others), (60, rest));
        for (head, record) in events.iter().zip(of_contexts) {
            assert_eq!(
                (head.position, head.sequence, head.stream, head.recorded_ms),
                (
                    record.position.0,
                    record.sequence.0,
                    record.stream,
                    record.time_ms
                )
            );
            assert_eq!(head.content_bytes, record.payload.len());
            assert_eq!(head.summary.happened_ms, Some(999 + record.sequence.0));
        }
    }

    #[test]
    fn a_search_finds_every_record_with_the_text_and_none_that_was_redacted() {
        let store = filled();
        let find = |text: &str| {
            let query = TextQuery::new(text).unwrap();
            let page = store.search(&query, Position(1)).unwrap();
            assert_eq!(page.next, None, "a small log is one page");
            page.found
        };
        let found = find("SAY 7 IN ONE, \"q");
        assert_eq!(found.len(), 1);
        assert_eq!(find(" in two").len(), 30);
        assert!(find("in three").is_empty());
        assert!(TextQuery::new("").is_err());
        let redact = runlog_log::Op::Redact {
            position: found[0],
            reason: "private",
        };
        let batch = runlog_log::Batch::new(vec![redact]);
        pollster::block_on(store.backend().commit(batch)).unwrap();
        assert!(find("say 7 in one").is_empty());
        let (events, _) = all_heads(&store);
        let redacted = events.iter().filter(|head| head.redacted);
        assert_eq!(
            redacted
                .map(|head| (head.position, head.content_bytes))
                .collect::<Vec<_>>(),
            [(found[0].0, 0)]
        );
    }

    #[test]
    fn a_search_of_much_goes_on_where_its_page_ended() {
        let store = blocking::Store::in_memory();
        let (_, agent) = store
            .start_session(NewSession::titled("large"), "agent")
            .unwrap();
        let context = store.context(agent.id).unwrap();
        for number in 0..12 {
            let content = format!("{}needle {number}", "x".repeat(1 << 20));
            context.append_message(NewMessage::user(&content)).unwrap();
        }
        let query = TextQuery::new("needle").unwrap();
        let (mut found, mut pages, mut first) = (Vec::new(), 0, Some(Position(1)));
        while let Some(from) = first {
            let page = store.search(&query, from).unwrap();
            found.extend(page.found);
            first = page.next;
            pages += 1;
        }
        assert_eq!(found.len(), 12);
        assert!(pages >= 3, "{pages} pages of 4 MiB");
        assert!(found.is_sorted());
    }
}
