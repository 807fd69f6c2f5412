//! The receipt of a batch with an idempotency key: the batch's result, as a pack stores it.

use super::{Field, Fields};
use crate::Kind;

layout! {
    /// One op. The creation of a stream counts as one.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct StepRow {
        pub(crate) kind: Kind,
        pub(crate) stream: u32,
        pub(crate) records: u32,
        pub(crate) last_sequence: u32,
        pub(crate) position: u64,
        pub(crate) last_position: u64,
    }
}

layout! {
    /// The last data record of a stream at the end of the batch.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct LeftRow {
        pub(crate) stream: u32,
        pub(crate) sequence: u32,
        pub(crate) position: u64,
    }
}

const STEP_ROW_BYTES: usize = 32;
const LEFT_ROW_BYTES: usize = 16;

/// The payload of a receipt.
pub(crate) fn encode(steps: &[StepRow], left: &[LeftRow]) -> Vec<u8> {
    let count = |length: usize| u32::try_from(length).expect("a batch is bounded");
    let mut bytes =
        Vec::with_capacity(8 + steps.len() * STEP_ROW_BYTES + left.len() * LEFT_ROW_BYTES);
    put!(&mut bytes, count(steps.len()), count(left.len()));
    steps.iter().for_each(|row| row.put(&mut bytes));
    left.iter().for_each(|row| row.put(&mut bytes));
    bytes
}

/// What a receipt says; `None` when its lengths contradict each other.
pub(crate) fn decode(payload: &[u8]) -> Option<(Vec<StepRow>, Vec<LeftRow>)> {
    let (counts, rows) = payload.split_at_checked(8)?;
    let mut fields = Fields::new(counts);
    let (steps, left) = (fields.u32() as usize, fields.u32() as usize);
    let expected = steps
        .checked_mul(STEP_ROW_BYTES)?
        .checked_add(left.checked_mul(LEFT_ROW_BYTES)?)?;
    if rows.len() != expected {
        return None;
    }
    let mut fields = Fields::new(rows);
    let steps = (0..steps).map(|_| fields.get()).collect();
    let left = (0..left).map(|_| fields.get()).collect();
    Some((steps, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipt_reads_back_and_no_cut_one_does() {
        let step = StepRow {
            kind: Kind(3),
            stream: 7,
            records: 5,
            last_sequence: 4,
            position: 10,
            last_position: 14,
        };
        let left = LeftRow {
            stream: 7,
            sequence: 4,
            position: 14,
        };
        let bytes = encode(&[step, step], &[left]);
        assert_eq!(decode(&bytes), Some((vec![step, step], vec![left])));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "{length}");
        }
        let mut huge = vec![0xff; 8];
        huge.extend_from_slice(&[0; 64]);
        assert_eq!(decode(&huge), None);
    }
}
