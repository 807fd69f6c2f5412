//! The lines of an archive: the only encoder and decoder of this layout.

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use runlog_log::{Kind, Label, Record, StreamId, limits};
use runlog_model::{InstanceId, SessionId, chat_labels, context_labels, run_labels};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// The version that is written, and the only one that is read.
pub const ARCHIVE_VERSION: u32 = 2;

/// What says that a lost line is of a saved state.
const LOST_SNAPSHOT: &str = "snapshot";

/// The longest line: the largest payload written as a string, and some room for the other fields.
pub(super) const LINE_BYTES_MAX: u64 = 2 * limits::PAYLOAD_BYTES_MAX as u64 + (1 << 20);

/// One line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Line {
    /// Begins an archive.
    Archive,
    /// Describes a stream; comes before its first record.
    Stream(StreamLine),
    /// A record.
    Record(RecordLine),
    /// A state saved at a sequence of a stream.
    Snapshot(RecordLine),
    /// Records, or a saved state, that couldn't be read.
    Lost(LostLine),
    /// Ends an archive, with the number of lines of each kind, and the CRC of the lines before it, unless somebody who changed them
    /// has taken it out.
    End(Counts, Option<u32>),
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StreamLine {
    pub(super) id: StreamId,
    /// Its content type, for people who read the file.
    pub(super) of: String,
    /// The session that it belongs to.
    pub(super) session: Option<SessionId>,
    /// The stream that it shares its first records with, and how many.
    pub(super) parent: Option<(StreamId, u64)>,
}

/// What couldn't be read of a stream: its records from one sequence to another, or states saved there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LostLine {
    pub(super) stream: StreamId,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) is_snapshot: bool,
}

/// A record or a snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RecordLine {
    pub(super) stream: StreamId,
    pub(super) sequence: u64,
    /// Its position in the log that it was read from; only used to see which records were adjacent.
    pub(super) position: u64,
    pub(super) time_ms: u64,
    /// Below 128 for data.
    pub(super) kind: Kind,
    pub(super) redacted: bool,
    pub(super) meta: Bytes,
    pub(super) payload: Bytes,
    /// The labels it is found by, derived from the rest.
    pub(super) labels: Vec<Label>,
}

impl RecordLine {
    /// The line with its labels.
    pub(super) fn labelled(self) -> Self {
        let mut labels = context_labels(
            InstanceId(self.stream.0),
            self.kind.0,
            &self.meta,
            &self.payload,
        );
        let chat = SessionId(self.stream.0);
        labels.extend(chat_labels(chat, self.kind.0, &self.meta, &self.payload));
        labels.extend(run_labels(self.kind.0, &self.meta, &self.payload));
        Self { labels, ..self }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) streams: u64,
    pub(super) records: u64,
    pub(super) snapshots: u64,
    pub(super) lost: u64,
}

#[derive(Serialize, Deserialize, Default)]
struct Fields<'a> {
    #[serde(borrow)]
    runlog: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<Uuid>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    of: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<u8>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    what: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    redacted: bool,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    meta: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    payload_text: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    payload_base64: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshots: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crc: Option<u32>,
}

/// The line of a record of a store.
pub(super) fn line_of(stream: StreamId, record: &Record) -> RecordLine {
    RecordLine {
        stream,
        sequence: record.sequence.0,
        position: record.position.0,
        time_ms: record.time_ms,
        kind: record.kind,
        redacted: record.redacted,
        meta: record.meta.clone(),
        payload: record.payload.clone(),
        labels: Vec::new(),
    }
}

/// The line, with its line break. `what` names the kind of a record, for people who read the file.
pub(super) fn encode(line: &Line, what: Option<&str>) -> Vec<u8> {
    let fields = match line {
        Line::Archive => Fields {
            runlog: "archive".into(),
            version: Some(ARCHIVE_VERSION),
            ..Fields::default()
        },
        Line::Stream(stream) => Fields {
            runlog: "stream".into(),
            stream: Some(stream.id.0),
            of: Some(Cow::Borrowed(&stream.of)),
            session_id: stream.session.map(SessionId::as_uuid),
            parent: stream.parent.map(|(parent, _)| parent.0),
            at: stream.parent.map(|(_, at)| at),
            ..Fields::default()
        },
        Line::Record(record) => Fields {
            what: what.map(Cow::Borrowed),
            kind: Some(record.kind.0),
            ..fields_of("record", record)
        },
        Line::Snapshot(snapshot) => fields_of("snapshot", snapshot),
        Line::Lost(lost) => Fields {
            runlog: "lost".into(),
            stream: Some(lost.stream.0),
            sequence: Some(lost.first),
            last: Some(lost.last),
            what: lost.is_snapshot.then_some(LOST_SNAPSHOT.into()),
            ..Fields::default()
        },
        Line::End(counts, crc) => Fields {
            runlog: "end".into(),
            streams: Some(counts.streams),
            records: Some(counts.records),
            snapshots: Some(counts.snapshots),
            lost: Some(counts.lost).filter(|lost| *lost > 0),
            crc: *crc,
            ..Fields::default()
        },
    };
    let mut bytes = serde_json::to_vec(&fields).expect("numbers, texts and JSON have a JSON form");
    bytes.push(b'\n');
    bytes
}

fn fields_of<'a>(runlog: &'static str, record: &'a RecordLine) -> Fields<'a> {
    let mut fields = Fields {
        runlog: runlog.into(),
        stream: Some(record.stream.0),
        sequence: Some(record.sequence),
        position: Some(record.position),
        time_ms: Some(record.time_ms),
        redacted: record.redacted,
        meta: (!record.meta.is_empty()).then(|| BASE64_STANDARD.encode(&record.meta).into()),
        ..Fields::default()
    };
    let is_one_line = |text: &str| !text.contains(['\n', '\r']);
    match std::str::from_utf8(&record.payload) {
        Ok("") => {}
        Ok(text) => match serde_json::from_str::<&RawValue>(text) {
            // Only if it is preserved byte for byte: white space around it would be lost, and a line break in it would
            // end the line.
            Ok(json) if json.get() == text && is_one_line(text) => fields.payload = Some(json),
            _ if text
                .chars()
                .all(|it| matches!(it, '\n' | '\r' | '\t') || !it.is_ascii_control()) =>
            {
                fields.payload_text = Some(text.into());
            }
            _ => fields.payload_base64 = Some(BASE64_STANDARD.encode(&record.payload).into()),
        },
        Err(_) => fields.payload_base64 = Some(BASE64_STANDARD.encode(&record.payload).into()),
    }
    fields
}

/// Why a line can't be read. Whoever has its number adds it.
fn not_a_line(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "the line breaks off; the file was cut off, or isn't complete yet".to_owned();
    }
    let column = error.column();
    let message = error.to_string();
    let what = message.split(" at line ").next().unwrap_or_default();
    format!("{what} at column {column}")
}

/// Reads a line.
pub(super) fn decode(line: &[u8]) -> Result<Line, String> {
    let fields: Fields<'_> = serde_json::from_slice(line).map_err(|error| not_a_line(&error))?;
    let missing = |name: &str| {
        format!(
            "a line of the kind `{}` without `{name}`",
            short(&fields.runlog)
        )
    };
    let stream = || fields.stream.map(StreamId).ok_or_else(|| missing("stream"));
    Ok(match &*fields.runlog {
        "archive" => match fields.version.ok_or_else(|| missing("version"))? {
            ARCHIVE_VERSION => Line::Archive,
            other => {
                return Err(format!(
                    "version {other} of a runlog export, but only {ARCHIVE_VERSION} is known"
                ));
            }
        },
        "stream" => Line::Stream(StreamLine {
            id: stream()?,
            of: fields.of.as_deref().unwrap_or("stream").to_owned(),
            session: fields.session_id.map(SessionId),
            parent: match (fields.parent, fields.at) {
                (Some(parent), Some(at)) => Some((StreamId(parent), at)),
                (None, None) => None,
                _ => return Err("`parent` and `at` belong together".to_owned()),
            },
        }),
        "record" | "snapshot" => {
            let is_snapshot = fields.runlog == "snapshot";
            let kind = if is_snapshot {
                Kind::SNAPSHOT
            } else {
                Kind(fields.kind.ok_or_else(|| missing("kind"))?)
            };
            if !is_snapshot && !kind.is_data() {
                return Err(format!("a record can't be of the kind {}", kind.0));
            }
            let record = RecordLine {
                stream: stream()?,
                sequence: fields.sequence.ok_or_else(|| missing("sequence"))?,
                position: fields.position.ok_or_else(|| missing("position"))?,
                time_ms: fields
                    .time_ms
                    .filter(|it| *it <= limits::TIME_MS_MAX)
                    .ok_or_else(|| missing("time_ms"))?,
                kind,
                redacted: fields.redacted,
                meta: bytes_of("meta", fields.meta.as_deref(), limits::META_BYTES_MAX)?.into(),
                payload: payload_of(&fields)?.into(),
                labels: Vec::new(),
            };
            if is_snapshot {
                Line::Snapshot(record)
            } else {
                Line::Record(record.labelled())
            }
        }
        "lost" => {
            let first = fields.sequence.ok_or_else(|| missing("sequence"))?;
            let last = fields.last.ok_or_else(|| missing("last"))?;
            if !(first..=limits::SEQUENCE_MAX).contains(&last) {
                return Err(format!(
                    "`last` is {last}; it can be from `sequence`, {first}, to {}",
                    limits::SEQUENCE_MAX
                ));
            }
            Line::Lost(LostLine {
                stream: stream()?,
                first,
                last,
                is_snapshot: fields.what.as_deref() == Some(LOST_SNAPSHOT),
            })
        }
        "end" => {
            let counts = Counts {
                streams: fields.streams.ok_or_else(|| missing("streams"))?,
                records: fields.records.ok_or_else(|| missing("records"))?,
                snapshots: fields.snapshots.ok_or_else(|| missing("snapshots"))?,
                lost: fields.lost.unwrap_or(0),
            };
            Line::End(counts, fields.crc)
        }
        other => {
            return Err(format!(
                "a line of the kind `{}` is not known; a newer runlog may read it",
                short(other)
            ));
        }
    })
}

fn short(text: &str) -> String {
    text.chars()
        .filter(|it| !it.is_control())
        .take(40)
        .collect()
}

fn payload_of(fields: &Fields<'_>) -> Result<Vec<u8>, String> {
    let payload = match (fields.payload, &fields.payload_text, &fields.payload_base64) {
        (None, None, None) => Vec::new(),
        (Some(json), None, None) => json.get().as_bytes().to_vec(),
        (None, Some(text), None) => text.as_bytes().to_vec(),
        (None, None, Some(text)) => {
            bytes_of("payload_base64", Some(text), limits::PAYLOAD_BYTES_MAX)?
        }
        _ => {
            return Err(
                "more than one of `payload`, `payload_text` and `payload_base64`".to_owned(),
            );
        }
    };
    if payload.len() > limits::PAYLOAD_BYTES_MAX {
        return Err(format!(
            "a payload of {} bytes; at most {} are allowed",
            payload.len(),
            limits::PAYLOAD_BYTES_MAX
        ));
    }
    Ok(payload)
}

fn bytes_of(name: &str, text: Option<&str>, bytes_max: usize) -> Result<Vec<u8>, String> {
    let Some(text) = text else {
        return Ok(Vec::new());
    };
    BASE64_STANDARD
        .decode(text)
        .ok()
        .filter(|bytes| bytes.len() <= bytes_max)
        .ok_or_else(|| format!("`{name}` isn't base64"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(payload: &[u8]) -> RecordLine {
        RecordLine {
            stream: StreamId(Uuid::from_u128(7)),
            sequence: 3,
            position: 9,
            time_ms: 1000,
            kind: Kind(2),
            redacted: false,
            meta: Bytes::from_static(&[0, 255]),
            payload: Bytes::copy_from_slice(payload),
            labels: Vec::new(),
        }
    }

    #[test]
    fn payloads_stay_byte_for_byte_and_readable_where_they_are_text() {
        for (payload, written) in [
            (&br#"{"a": 1.50}"#[..], r#""payload":{"a": 1.50}"#),
            (b"{\"a\":\n1}", r#""payload_text":"{\"a\":\n1}""#),
            (b" 1", r#""payload_text":" 1""#),
            (b"\xff", r#""payload_base64":"/w==""#),
            (b"\x01", r#""payload_base64":"AQ==""#),
        ] {
            let line = encode(&Line::Record(record(payload)), Some("user_message"));
            let text = std::str::from_utf8(&line).unwrap();
            assert!(
                text.contains(written) && text.trim_end().lines().count() == 1,
                "{text}"
            );
            assert_eq!(decode(&line), Ok(Line::Record(record(payload))));
        }
    }

    #[test]
    fn lines_that_say_too_little_or_too_much_are_refused() {
        for (line, why) in [
            (r#"{"runlog":"archive","version":3}"#, "version 3"),
            (r#"{"runlog":"record"}"#, "without `kind`"),
            (r#"{"runlog":"record","kind":130}"#, "kind 130"),
            (
                r#"{"runlog":"stream","stream":"00000000-0000-0000-0000-000000000007","at":1}"#,
                "belong together",
            ),
            (r#"{"runlog":"other"}"#, "not known"),
            ("1", "invalid type"),
        ] {
            let refused = decode(line.as_bytes()).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn any_payload_comes_back(payload in proptest::collection::vec(any::<u8>(), 0..40)) {
            let line = Line::Snapshot(RecordLine { kind: Kind::SNAPSHOT, ..record(&payload) });
            prop_assert_eq!(decode(&encode(&line, None)), Ok(line));
        }
    }
}
