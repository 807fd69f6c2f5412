//! What the records of a pack are like: some of them, for a dictionary to be made of.

use super::{
    plan::Stand,
    source::rows_by_stream,
    throttle::{Outcome, Throttle, damaged_at},
};
use crate::{
    format::index::DROPPED,
    log::{
        dictionary::{RUN_BYTES, RUNS, Samples},
        segment::Segment,
    },
    store::place::position_of,
    sync::Arc,
};

/// Records that stay, some in a row at each of several places spread over all, in the order in which they are gathered. No byte
/// is among them that the pack won't have.
pub(crate) fn sample(
    stand: &Stand,
    sources: &[Arc<Segment>],
    throttle: &mut Throttle<'_>,
) -> Outcome<Samples> {
    let mut samples = Samples::default();
    let live = stand.live_data(sources);
    let lengths = sources.iter().map(|source| stand.bytes_left_of(source));
    let bytes = lengths.sum::<crate::Result<u64>>()?;
    samples.represent(bytes);
    let Some(step) = live.checked_div(RUNS).filter(|step| *step > 0) else {
        return Ok(samples);
    };
    let run_bytes = RUN_BYTES.min(bytes / RUNS);
    let (mut number_of_record, mut left) = (0, 0);
    for (number, rows) in rows_by_stream(sources)? {
        for (place, row) in &rows.rows {
            let source = &sources[*place];
            let Some(block) = damaged_at(*place, source.block())? else {
                continue;
            };
            let end = block.trailer().data_end;
            for ordinal in row.first_ordinal..row.first_ordinal.saturating_add(row.count) {
                let posting = block.posting(row, ordinal).unwrap_or(DROPPED);
                if posting == DROPPED || !stand.live.has(number, ordinal) {
                    continue;
                }
                if number_of_record % step == 0 {
                    samples.begin_run();
                    left = run_bytes;
                }
                number_of_record += 1;
                if left == 0 {
                    continue;
                }
                let frame = damaged_at(*place, source.frame(posting, end))?;
                let frame_bytes = frame.header.frame_bytes();
                left = left.saturating_sub(frame_bytes);
                if !stand.redacted.contains(position_of(source, &frame)) {
                    samples.add(&frame.body);
                }
                throttle.moved(frame_bytes, 0)?;
            }
        }
    }
    Ok(samples)
}
