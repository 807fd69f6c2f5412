//! Reading snapshots.

use super::{
    commit::shared::Shared,
    framed::parts,
    place::{Place, position_of},
    published::durable::missing,
};
use crate::{Kind, Position, Result, Sequence, Snapshot, StreamId};

/// The newest snapshot of a stream at or before a sequence that isn't redacted.
pub(crate) fn latest_snapshot(
    shared: &Shared,
    stream: &StreamId,
    at_or_before: Sequence,
) -> Result<Option<Snapshot>> {
    shared.past_packs(|| find(shared, stream, at_or_before))
}

fn find(shared: &Shared, stream: &StreamId, at_or_before: Sequence) -> Result<Option<Snapshot>> {
    let bound = u32::try_from(at_or_before.0).unwrap_or(u32::MAX);
    // Whether one is redacted is known by its position, which its record tells.
    let mut redacted = Vec::new();
    loop {
        let durable = shared.durable();
        let (number, _) = durable.existing(stream)?;
        let Some(found) = durable.directory.latest_snapshot(number, bound, &redacted) else {
            return Ok(None);
        };
        let id = found.location.segment;
        let segment = durable.segment(id).cloned().ok_or_else(|| missing(id))?;
        let (end, known) = (
            durable.end_of(&segment),
            durable.directory.redacted().clone(),
        );
        // In a pack its offset differs from where it was written.
        let place = segment
            .is_pack()
            .then(|| Place::of(&durable, found.position))
            .flatten();
        drop(durable);
        let frame = match &place {
            Some(place) => place.frame()?.ok_or_else(|| {
                segment.damaged(0, format!("the snapshot at {} is missing", found.position))
            })?,
            None => segment.frame(found.location.offset, end)?,
        };
        let header = frame.header;
        if header.kind != Kind::SNAPSHOT || header.sequence != found.sequence {
            return Err(segment.damaged(frame.offset, "expected a snapshot here"));
        }
        let position = position_of(&segment, &frame);
        if known.contains(position) {
            redacted.push(found.location);
            continue;
        }
        let (meta, payload) = parts(&segment, frame)?;
        return Ok(Some(Snapshot {
            sequence: Sequence(u64::from(header.sequence)),
            position: Position(position),
            time_ms: segment.header.time_ms(header.time_delta_ms),
            meta,
            payload,
            redacted_since: u32::try_from(redacted.len()).unwrap_or(u32::MAX),
        }));
    }
}
