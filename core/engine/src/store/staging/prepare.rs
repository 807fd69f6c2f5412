//! The work for a batch that needs no lock: limits, sizes, and CRCs of bodies.

use crate::{
    Batch, Error, Expected, Label, NewRecord, Op, Result, StreamId,
    format::{
        extension::LabelSet,
        index,
        record::{self, Body},
    },
    limits::{
        BATCH_BYTES_MAX, BATCH_RECORDS_MAX, KEY_BYTES_MAX, LABELS_MAX, META_BYTES_MAX,
        PAYLOAD_BYTES_MAX,
    },
};

/// A batch within the limits.
pub(crate) struct Prepared {
    /// Of each data record, in order.
    pub(crate) bodies: Vec<PreparedBody>,
    /// The most bytes its records can take in a segment.
    pub(crate) bytes_max: u64,
    /// The most bytes it can add to an index block.
    pub(crate) index_bytes_max: u64,
}

/// The length and the CRC of a body.
#[derive(Clone, Copy)]
pub(crate) struct PreparedBody {
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
}

impl PreparedBody {
    pub(crate) fn of(body: &Body<'_>) -> Self {
        let bytes = u32::try_from(body.encoded_bytes()).expect("the parts were checked");
        Self {
            bytes,
            crc: body.crc(),
        }
    }
}

/// Checks a batch against the limits, and computes what doesn't depend on its place in the log.
pub(crate) fn prepare(batch: &Batch<'_>) -> Result<Prepared> {
    let mut key = match batch.key {
        Some([]) => {
            return Err(Error::invalid(format!(
                "an idempotency key is empty; give 1 to {KEY_BYTES_MAX} bytes, or leave it out"
            )));
        }
        Some(key) if key.len() > KEY_BYTES_MAX => {
            return Err(too_large(
                "an idempotency key",
                key.len(),
                "from 1 to",
                KEY_BYTES_MAX,
            ));
        }
        key => key.unwrap_or(&[]),
    };
    let mut prepared = Prepared {
        bodies: Vec::new(),
        bytes_max: 0,
        index_bytes_max: 0,
    };
    let mut records_max = 0;
    let mut unstated = None;
    for op in &batch.ops {
        match op {
            Op::Append {
                stream,
                expected,
                records,
            } => {
                let is_stated = matches!(expected, Expected::Last(_) | Expected::Absent);
                if records.is_empty() && !is_stated {
                    unstated = Some(stream);
                }
                prepared.bodies.reserve(records.len());
                for record in records {
                    let labels = checked_labels(record)?;
                    let labels = labels.as_ref().map_or(&[][..], LabelSet::as_slice);
                    let body = checked_body(record, labels, std::mem::take(&mut key))?;
                    prepared.index_bytes_max += index::LABEL_BYTES_MAX * labels.len() as u64;
                    prepared.bodies.push(PreparedBody::of(&body));
                    prepared.bytes_max += record::frame_bytes(body.encoded_bytes()) as u64;
                }
                // The stream may be new: room for its CREATE record, the control row of that, and its stream row.
                prepared.bytes_max += record::frame_bytes(16) as u64;
                let rows = index::CONTROL_ROW_BYTES + index::STREAM_ROW_BYTES + records.len() * 12;
                prepared.index_bytes_max += rows as u64;
                records_max += records.len() + 1;
            }
            Op::Snapshot { meta, payload, .. } => {
                check_parts(meta, payload)?;
                let body = Body {
                    key: &[],
                    meta,
                    payload,
                    labels: &[],
                };
                add_control(&mut prepared, body.encoded_bytes());
                records_max += 1;
            }
            Op::Redact { reason, .. } | Op::RedactMany { reason, .. } => {
                check_bytes(
                    "the reason of a redaction",
                    reason.as_bytes(),
                    META_BYTES_MAX,
                )?;
                add_control(&mut prepared, 24 + reason.len());
                records_max += 1;
            }
            Op::Truncate { .. } | Op::Fork { .. } | Op::Delete { .. } => {
                add_control(&mut prepared, 24);
                records_max += 1;
            }
        }
    }
    if !key.is_empty() {
        return Err(Error::invalid(
            "a batch with an idempotency key must append at least one record: the key is kept beside it",
        ));
    }
    if let Some(stream) = unstated.filter(|_| batch.key.is_some()) {
        return Err(nothing_to_repeat(stream));
    }
    prepared.index_bytes_max += index::KEY_ROW_BYTES as u64 + 16;
    if prepared.bytes_max > BATCH_BYTES_MAX as u64 || records_max > BATCH_RECORDS_MAX {
        return Err(Error::too_large(format!(
            "the batch is too large: up to {} bytes and {records_max} records, but at most {BATCH_BYTES_MAX} bytes \
                 and {BATCH_RECORDS_MAX} records can be one batch",
            prepared.bytes_max
        )));
    }
    Ok(prepared)
}

/// The error for a key on an append of no records: it leaves no record from which a repeat could learn the sequence
/// that the first one found.
fn nothing_to_repeat(stream: &StreamId) -> Error {
    Error::invalid(format!(
        "stream {stream}: in a batch with an idempotency key an append of no records must say which last sequence \
             it expects, or that the stream is absent"
    ))
}

fn add_control(prepared: &mut Prepared, body_bytes: usize) {
    prepared.bytes_max += record::frame_bytes(body_bytes) as u64;
    prepared.index_bytes_max += (index::CONTROL_ROW_BYTES + 8) as u64;
}

/// The labels of a record as they are written; `None` if it has none, without a cost.
fn checked_labels(record: &NewRecord<'_>) -> Result<Option<LabelSet>> {
    let labels = LabelSet::of_some(record.labels);
    if labels.is_none() && !record.labels.is_empty() {
        return Err(Error::too_large(format!(
            "a record has {} labels; it can have at most {LABELS_MAX}",
            record.labels.len()
        )));
    }
    Ok(labels)
}

fn checked_body<'a>(
    record: &NewRecord<'a>,
    labels: &'a [Label],
    key: &'a [u8],
) -> Result<Body<'a>> {
    if !record.kind.is_data() {
        return Err(Error::invalid(format!(
            "kind {} is the engine's own; records of data have kinds below 128",
            record.kind.0
        )));
    }
    check_parts(record.meta, record.payload)?;
    Ok(Body {
        key,
        meta: record.meta,
        payload: record.payload,
        labels,
    })
}

fn check_parts(meta: &[u8], payload: &[u8]) -> Result<()> {
    check_bytes("the metadata of a record", meta, META_BYTES_MAX)?;
    check_bytes("the payload of a record", payload, PAYLOAD_BYTES_MAX)
}

fn check_bytes(what: &str, bytes: &[u8], limit: usize) -> Result<()> {
    match bytes.len() {
        found if found > limit => Err(too_large(what, found, "at most", limit)),
        _ => Ok(()),
    }
}

fn too_large(what: &str, found: usize, bound: &str, limit: usize) -> Error {
    Error::too_large(format!(
        "{what} is {found} bytes long; it can be {bound} {limit} bytes"
    ))
}
