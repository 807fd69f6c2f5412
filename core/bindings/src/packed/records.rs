//! [`pack_records`]: a page of records.
//!
//! ```text
//!  0  count of records, u32
//!  4  0, u32
//!  8  where the next page begins, f64; 0 at the end
//! 16  the records' heads, 56 bytes each:
//!     position f64, sequence f64, time in milliseconds f64, length of the metadata u32, length of the payload u32,
//!     kind u8, whether it was redacted u8, 0 ×6, stream id 16 bytes
//!     the metadata of all, one after the other
//!     the payloads of all, as the elements of a JSON array: `[` payload `,` payload … `]`; a redacted one is `null`
//! ```
//!
//! Where payloads are JSON, the last part is one JSON text for all of them.

use runlog::engine::Record;

const HEAD_BYTES: usize = 56;

/// Packs a page of records.
pub(crate) fn pack_records(records: &[Record], next: u64) -> Vec<u8> {
    let contents: usize = records.iter().map(|record| record.meta.len() + record.payload.len() + 5).sum();
    let mut bytes = Vec::with_capacity(16 + records.len() * HEAD_BYTES + contents + 2);
    bytes.extend(u32::try_from(records.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend((next as f64).to_le_bytes());
    for record in records {
        bytes.extend((record.position.0 as f64).to_le_bytes());
        bytes.extend((record.sequence.0 as f64).to_le_bytes());
        bytes.extend((record.time_ms as f64).to_le_bytes());
        bytes.extend(u32::try_from(record.meta.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend(u32::try_from(record.payload.len()).unwrap_or(u32::MAX).to_le_bytes());
        bytes.extend([record.kind.0, u8::from(record.redacted), 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(record.stream.as_bytes());
    }
    for record in records {
        bytes.extend_from_slice(&record.meta);
    }
    bytes.push(b'[');
    for (index, record) in records.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(if record.redacted { b"null" } else { &record.payload });
    }
    bytes.push(b']');
    bytes
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use runlog::engine::{Kind, Position, Sequence, StreamId};

    use super::*;

    #[test]
    fn payloads_are_one_json_array_at_the_end() {
        let record = |position: u64, redacted: bool| Record {
            stream: StreamId::from_bytes([3; 16]),
            sequence: Sequence(2),
            position: Position(position),
            time_ms: 1_700_000_000_000,
            kind: Kind(4),
            redacted,
            meta: Bytes::from_static(b"mm"),
            payload: if redacted { Bytes::new() } else { Bytes::from_static(b"{\"a\": 1}") },
        };
        let packed = pack_records(&[record(8, false), record(9, true)], 10);
        assert_eq!(packed[..4], 2_u32.to_le_bytes());
        assert_eq!(packed[8..16], 10_f64.to_le_bytes());
        assert_eq!(packed[16..24], 8_f64.to_le_bytes());
        assert_eq!(&packed[16 + 2 * HEAD_BYTES..], b"mmmm[{\"a\": 1},null]");
    }
}
