//! How a transcript is stored: the records of its entries, and which of them belong together.
//!
//! Messages and tool calls are events of their instance's context. Other parts of a source (the wrapper of a run, the
//! envelope of a message, lines that are no message) go to one more stream of the session, its *aside*, as records of
//! kind 0 whose metadata says what they are:
//!
//! | metadata | payload |
//! | --- | --- |
//! | `wrapper` | what stood around all messages |
//! | `envelope` | what stood around the message that comes next in the log |
//! | `other:` and the instance's id | something else, as it was |
//!
//! Invariant: an envelope is committed with its message and right before it, so that their positions are at most two
//! apart (the first record of a stream takes a position of its own). This also holds after a truncation and in a copy.
//! An envelope whose message was deleted belongs to nothing.

use bytes::Bytes;
use runlog_log::{Batch, Expected, Kind, NewRecord, Op, Position, Record, StreamId};
use runlog_model::{InstanceId, NewContextEvent, RawJson, SessionId};
use uuid::Uuid;

use super::values::Entry;
use crate::{Error, Result, transcripts::about::About};

/// A session's aside: its id is the session's with these bytes mixed in.
const ASIDE: [u8; 16] = *b"runlog:aside:001";

/// The stream of a session's aside.
pub fn aside_stream(session: SessionId) -> StreamId {
    derived_stream(session, ASIDE)
}

/// A stream that belongs to a session: its id is the session's with these bytes mixed in.
pub(super) fn derived_stream(session: SessionId, mask: [u8; 16]) -> StreamId {
    let mut bytes = *session.as_uuid().as_bytes();
    for (byte, mask) in bytes.iter_mut().zip(mask) {
        *byte ^= mask;
    }
    StreamId(Uuid::from_bytes(bytes))
}

/// One record of an aside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Aside {
    /// The JSON around all messages of the session.
    Wrapper(RawJson),
    /// The JSON around the message that comes next in the log.
    Envelope(RawJson),
    /// Something that is no message.
    Other(InstanceId, RawJson),
}

impl Aside {
    fn meta(&self) -> Vec<u8> {
        match self {
            Self::Wrapper(_) => b"wrapper".to_vec(),
            Self::Envelope(_) => b"envelope".to_vec(),
            Self::Other(instance, _) => format!("other:{instance}").into_bytes(),
        }
    }

    fn json(&self) -> &RawJson {
        match self {
            Self::Wrapper(json) | Self::Envelope(json) | Self::Other(_, json) => json,
        }
    }

    /// Reads a record of an aside; `None` for one whose payload was redacted, or that a newer version wrote.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the payload isn't text.
    pub fn read(record: &Record) -> Result<Option<Self>> {
        if record.redacted {
            return Ok(None);
        }
        let json = RawJson::from_stored(record.payload.clone())?;
        let meta = std::str::from_utf8(&record.meta).unwrap_or_default();
        Ok(match meta {
            "wrapper" => Some(Self::Wrapper(json)),
            "envelope" => Some(Self::Envelope(json)),
            _ => match meta.strip_prefix("other:").map(str::parse) {
                Some(Ok(instance)) => Some(Self::Other(instance, json)),
                _ => None,
            },
        })
    }
}

/// Whether the envelope at one position is that of the message at another.
///
/// ```
/// use runlog::{engine::Position, transcripts::keep::envelope_matches};
/// assert!(envelope_matches(Position(7), Position(8)));
/// assert!(!envelope_matches(Position(7), Position(10)), "its own message was forgotten");
/// ```
pub fn envelope_matches(envelope: Position, message: Position) -> bool {
    matches!(message.0.checked_sub(envelope.0), Some(1 | 2))
}

/// Entries that [`Store::write_entries`](crate::blocking::Store::write_entries) writes together with the session and
/// instances that it creates, atomically.
///
/// ```
/// use runlog::{
///     NewSession,
///     blocking::Store,
///     transcripts::{Options, keep::EntryBatch, parse},
/// };
///
/// let store = Store::in_memory();
/// let (session, agent) = store.start_session(NewSession::named("chat"), "main")?;
/// let transcript = parse(br#"{"messages": [{"role": "user", "content": "hi"}]}"#, Options::default())?;
/// let mut batch = EntryBatch::new(session.id);
/// for entry in &transcript.entries {
///     batch.push(agent.id, entry)?;
/// }
/// store.write_entries(&batch)?;
/// assert_eq!(store.context(agent.id)?.get_messages()?.len(), 1);
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Debug)]
pub struct EntryBatch {
    pub(super) session: SessionId,
    pub(super) about: About,
    rows: Vec<Row>,
    bytes: usize,
}

/// Records of one stream that follow each other.
#[derive(Debug)]
struct Row {
    stream: StreamId,
    records: Vec<(Kind, Vec<u8>, Bytes)>,
}

impl EntryBatch {
    /// An empty batch for this session.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            about: About::default(),
            rows: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds something to the session's aside.
    pub fn push_aside(&mut self, aside: &Aside) {
        let payload = aside.json().clone().into_bytes();
        self.bytes += payload.len();
        let stream = aside_stream(self.session);
        self.rows.push(Row {
            stream,
            records: vec![(Kind::DATA, aside.meta(), payload)],
        });
    }

    /// Adds an entry to the context of this instance, or to the session's aside.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) when the names of its tool calls are too long together.
    pub fn push(&mut self, instance: InstanceId, entry: &Entry) -> Result<()> {
        if entry.events.is_empty() {
            self.push_aside(&Aside::Other(instance, entry.raw.clone()));
            return Ok(());
        }
        if let Some(envelope) = &entry.envelope {
            self.push_aside(&Aside::Envelope(envelope.clone()));
        }
        self.push_events(instance, &entry.events)
    }

    /// Adds events to the context of this instance: one [operation](Batch::ops) of the batch.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_events(&mut self, instance: InstanceId, events: &[NewContextEvent]) -> Result<()> {
        let mut records = Vec::with_capacity(events.len());
        for event in events {
            let meta = event
                .encode_meta()
                .map_err(|error| Error::too_large(error.to_string()))?;
            self.bytes += meta.len() + event.content.as_bytes().len();
            records.push((
                Kind(event.kind.byte()),
                meta,
                event.content.clone().into_bytes(),
            ));
        }
        self.rows.push(Row {
            stream: StreamId(instance.as_uuid()),
            records,
        });
        Ok(())
    }

    /// How many entries and records of the aside it has.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether writing it would do nothing.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.about.is_empty()
    }

    /// The size of its contents in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its entries as the operations of a batch, without the session and instances that it creates.
    pub fn batch(&self) -> Batch<'_> {
        let ops = self.rows.iter().map(|row| Op::Append {
            stream: row.stream,
            expected: Expected::Any,
            records: row
                .records
                .iter()
                .map(|(kind, meta, payload)| NewRecord {
                    labels: &[],
                    kind: *kind,
                    meta,
                    payload,
                })
                .collect(),
        });
        Batch::new(ops.collect())
    }
}
