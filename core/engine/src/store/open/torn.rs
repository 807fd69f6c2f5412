//! Distinguishing a torn write from damage.
//!
//! Both look the same at the place itself. But a record stores the offset up to which its segment was durable when its
//! group was written: if a whole record after the bad place stores an offset beyond it, the bad bytes were acknowledged
//! once.

use crate::{
    Error, Result,
    log::{
        scan::{self, SearchBudget},
        segment::Segment,
    },
};

/// Fails if the bytes at `end` are damage to durable records: that is, if a whole record beyond `end` proves that the
/// segment was durable further than `end`.
pub(crate) fn check_torn(
    segment: &Segment,
    end: u64,
    torn_end: u64,
    length: u64,
    stopped: Option<Error>,
) -> Result<()> {
    let mut proof = None;
    scan::search(
        segment,
        end,
        torn_end,
        length,
        &mut SearchBudget::of(length),
        |found| {
            if found.header.watermark > end {
                proof = Some(found);
            }
            proof.is_none()
        },
    )?;
    let Some(proof) = proof else { return Ok(()) };
    let what = stopped.map_or_else(
        || "records end too early".to_owned(),
        |error| error.to_string(),
    );
    Err(segment.damaged(
        end,
        format!(
            "damage to what was durable: the record at offset {} says that all before offset {} was: {what}; \
             restore a backup, or `runlog verify --repair` keeps what is before the damage",
            proof.offset, proof.header.watermark
        ),
    ))
}
