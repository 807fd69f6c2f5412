//! Distinguishing a write that a crash cut off from damage.
//!
//! Both look the same at the place itself. But a record is only written when the group before it was durable, and says so: if
//! a whole record stands behind the bad place and says that more was durable, the bad place was acknowledged once.

use crate::{
    Error, Result,
    log::{
        scan::{self, SearchBudget},
        segment::Segment,
    },
};

/// Fails if what lies at `end` is damage to what was durable: if a whole record beyond `end` says
/// that more was durable than `end`, then what lies at `end` was.
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
