//! [`pack_records`]: a page of records.
//!
//! ```text
//!  0  count of records, u32
//!  4  0, u32
//!  8  where the next page begins, f64; 0 at the end
//! 16  the records' heads, 64 bytes each:
//!     position f64, sequence f64, time in milliseconds f64, kind u8, whether it was redacted u8, 0 u16,
//!     where its metadata begins u32, its length u32, where its payload begins u32, its length u32, 0 u32,
//!     stream id 16 bytes
//!     the metadata of all, one after the other
//!     the payloads of all, as the elements of a JSON array: `[` payload `,` payload … `]`; a redacted one is `null`
//! ```
//!
//! If the payloads are JSON, the last part is one JSON text with all of them.

use runlog::log::Record;

const HEAD_BYTES: usize = 64;

/// Packs a page of records.
pub(crate) fn pack_records(records: &[Record], next: u64) -> Vec<u8> {
    let contents: usize = records
        .iter()
        .map(|record| record.meta.len() + record.payload.len() + 5)
        .sum();
    let mut bytes = Vec::with_capacity(16 + records.len() * HEAD_BYTES + contents + 2);
    bytes.extend(number(records.len()).to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend((next as f64).to_le_bytes());
    let mut meta_at = 16 + records.len() * HEAD_BYTES;
    // After the bracket of the array.
    let mut payload_at = meta_at
        + records
            .iter()
            .map(|record| record.meta.len())
            .sum::<usize>()
        + 1;
    for record in records {
        bytes.extend(head(record, meta_at, payload_at));
        meta_at += record.meta.len();
        payload_at += in_array(record).len() + 1;
    }
    for record in records {
        bytes.extend_from_slice(&record.meta);
    }
    bytes.push(b'[');
    for (index, record) in records.iter().enumerate() {
        if index > 0 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(in_array(record));
    }
    bytes.push(b']');
    bytes
}

fn head(record: &Record, meta_at: usize, payload_at: usize) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(record.position.0 as f64).to_le_bytes());
    put(8, &(record.sequence.0 as f64).to_le_bytes());
    put(16, &(record.time_ms as f64).to_le_bytes());
    put(24, &[record.kind.0, u8::from(record.redacted)]);
    for (at, value) in [
        (28, meta_at),
        (32, record.meta.len()),
        (36, payload_at),
        (40, record.payload.len()),
    ] {
        put(at, &number(value).to_le_bytes());
    }
    put(48, record.stream.as_bytes());
    head
}

/// The payload as an element of the array.
fn in_array(record: &Record) -> &[u8] {
    if record.redacted {
        b"null"
    } else {
        &record.payload
    }
}

/// A page has a few MiB at most.
fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use runlog::log::{Kind, Position, Sequence, StreamId};

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
            lost: false,
            meta: Bytes::from_static(b"mm"),
            payload: if redacted {
                Bytes::new()
            } else {
                Bytes::from_static(b"{\"a\": 1}")
            },
        };
        let packed = pack_records(&[record(8, false), record(9, true)], 10);
        assert_eq!(packed[..4], 2_u32.to_le_bytes());
        assert_eq!(packed[8..16], 10_f64.to_le_bytes());
        assert_eq!(packed[16..24], 8_f64.to_le_bytes());
        assert_eq!(&packed[16 + 2 * HEAD_BYTES..], b"mmmm[{\"a\": 1},null]");
        let part = |record: usize, at: usize| {
            let head = &packed[16 + record * HEAD_BYTES..];
            let [start, length] = [at, at + 4]
                .map(|at| u32::from_le_bytes(head[at..at + 4].try_into().unwrap()) as usize);
            &packed[start..start + length]
        };
        assert_eq!((part(0, 28), part(0, 36)), (&b"mm"[..], &b"{\"a\": 1}"[..]));
        assert_eq!((part(1, 28), part(1, 36)), (&b"mm"[..], &b""[..]));
    }
}
