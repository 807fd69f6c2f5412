//! [`PackedAppend`]: records to append to one stream.
//!
//! ```text
//!  0  stream id, 16 bytes
//! 16  what is expected of the stream: 0 anything, 1 a last sequence, 2 that it exists, 3 that it doesn't,
//!     4 the position of its last record
//! 17  durability: 0 the store's own, 1 sync, 2 os, 3 an interval
//! 18  length of the idempotency key, u16; 0 for none
//! 20  the interval in milliseconds, u32
//! 24  the expected last sequence or position, f64
//! 32  the idempotency key, then the records until the end, each:
//!     kind u8, 0 u8, length of the metadata u16, length of the payload u32, metadata, payload
//! ```

use runlog::{
    Durability,
    log::{Batch, Expected, Kind, NewRecord, Op, Position, Sequence, StreamId},
};

use crate::{Failure, Result};

const HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 8;

/// Records to append to one stream, still in the caller's bytes.
#[derive(Debug)]
pub(crate) struct PackedAppend<'a> {
    pub(crate) records: usize,
    pub(crate) batch: Batch<'a>,
}

impl<'a> PackedAppend<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self> {
        let (header, rest) = bytes
            .split_at_checked(HEADER_BYTES)
            .ok_or_else(|| short("header"))?;
        let stream = StreamId::from_bytes(array(header, 0));
        let expected = match header[16] {
            0 => Expected::Any,
            1 => Expected::Last(Sequence(whole(f64::from_le_bytes(array(header, 24)))?)),
            2 => Expected::Exists,
            3 => Expected::Absent,
            4 => Expected::At(Position(whole(f64::from_le_bytes(array(header, 24)))?)),
            other => return Err(Failure::invalid(format!("there is no expectation {other}"))),
        };
        let durability = match header[17] {
            0 => None,
            1 => Some(Durability::Sync),
            2 => Some(Durability::Os),
            3 => Some(Durability::Interval(u32::from_le_bytes(array(header, 20)))),
            other => return Err(Failure::invalid(format!("there is no durability {other}"))),
        };
        let key_length = usize::from(u16::from_le_bytes(array(header, 18)));
        let (key, rest) = rest
            .split_at_checked(key_length)
            .ok_or_else(|| short("idempotency key"))?;
        let records = records(rest)?;
        let count = records.len();
        let ops = vec![Op::Append {
            stream,
            expected,
            records,
        }];
        let key = (key_length > 0).then_some(key);
        Ok(Self {
            records: count,
            batch: Batch {
                ops,
                key,
                durability,
            },
        })
    }
}

/// Records one after the other, until the end.
pub(crate) fn records(mut bytes: &[u8]) -> Result<Vec<NewRecord<'_>>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (header, rest) = bytes
            .split_at_checked(RECORD_HEADER_BYTES)
            .ok_or_else(|| short("record"))?;
        let meta_length = usize::from(u16::from_le_bytes(array(header, 2)));
        let payload_length = u32::from_le_bytes(array(header, 4)) as usize;
        let (meta, rest) = rest
            .split_at_checked(meta_length)
            .ok_or_else(|| short("metadata"))?;
        let (payload, rest) = rest
            .split_at_checked(payload_length)
            .ok_or_else(|| short("payload"))?;
        records.push(NewRecord {
            labels: &[],
            kind: Kind(header[0]),
            meta,
            payload,
        });
        bytes = rest;
    }
    Ok(records)
}

/// A sequence or position that JavaScript gave as a number.
fn whole(number: f64) -> Result<u64> {
    const EXACT_END: f64 = 9_007_199_254_740_992.0;
    if number.fract() != 0.0 || !(0.0..EXACT_END).contains(&number) {
        return Err(Failure::invalid(format!(
            "a sequence or position is a whole number from 0, not {number}"
        )));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "checked by the range"
    )]
    Ok(number as u64)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes
        .get(at..at + N)
        .and_then(|part| part.try_into().ok())
        .expect("inside a header whose length was checked")
}

fn short(what: &str) -> Failure {
    Failure::invalid(format!("packed records end inside a {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed() -> Vec<u8> {
        let mut bytes = vec![7; 16];
        bytes.extend([1, 3, 2, 0]);
        bytes.extend(250_u32.to_le_bytes());
        bytes.extend(5_f64.to_le_bytes());
        bytes.extend(b"k1");
        for (kind, meta, payload) in [(9, &b"m"[..], &b"one"[..]), (0, b"", b"")] {
            bytes.extend([kind, 0]);
            bytes.extend(u16::try_from(meta.len()).unwrap().to_le_bytes());
            bytes.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
            bytes.extend_from_slice(meta);
            bytes.extend_from_slice(payload);
        }
        bytes
    }

    #[test]
    fn every_field_is_read() {
        let bytes = packed();
        let append = PackedAppend::read(&bytes).unwrap();
        assert_eq!(append.records, 2);
        assert_eq!(append.batch.key, Some(&b"k1"[..]));
        assert_eq!(append.batch.durability, Some(Durability::Interval(250)));
        let Op::Append {
            stream,
            expected,
            records,
        } = &append.batch.ops[0]
        else {
            panic!()
        };
        assert_eq!(
            (*stream, *expected),
            (StreamId::from_bytes([7; 16]), Expected::Last(Sequence(5)))
        );
        assert_eq!(
            (records[0].kind, records[0].meta, records[0].payload),
            (Kind(9), &b"m"[..], &b"one"[..])
        );
        assert!(records[1].payload.is_empty());
        let mut at_position = bytes.clone();
        at_position[16] = 4;
        let Op::Append { expected, .. } = PackedAppend::read(&at_position)
            .unwrap()
            .batch
            .ops
            .remove(0)
        else {
            panic!()
        };
        assert_eq!(expected, Expected::At(Position(5)));
    }

    #[test]
    fn no_length_makes_it_read_beyond_the_end() {
        let bytes = packed();
        for length in 0..bytes.len() {
            if let Ok(append) = PackedAppend::read(&bytes[..length]) {
                assert!(append.records < 2, "cut at {length}");
            }
        }
        let mut hostile = bytes.clone();
        hostile[38..42].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(
            PackedAppend::read(&hostile).unwrap_err().code,
            "invalid_input"
        );
    }

    #[test]
    fn what_is_no_sequence_is_refused() {
        for number in [-1.0, 0.5, f64::NAN, f64::INFINITY, 9_007_199_254_740_992.0] {
            let mut bytes = packed();
            bytes[24..32].copy_from_slice(&number.to_le_bytes());
            assert_eq!(
                PackedAppend::read(&bytes).unwrap_err().code,
                "invalid_input",
                "{number}"
            );
        }
    }
}
