//! The states that were erased in a store, so that an older archive doesn't bring them back.

use std::collections::HashMap;

use pollster::block_on;
use runlog_log::{ErrorKind, Kind, Position, Sequence, StreamId, if_supported};

use crate::{Result, blocking::Store};

/// How many records are read at a time.
const PAGE: u64 = 1_024;

/// The streams of which a state was redacted, each with the last sequence that such a state had.
///
/// A redacted record says so in its own stream. A state is in none: that it was redacted is only found in the log, which is read
/// whole for it.
pub(super) fn erased_states(store: &Store) -> Result<HashMap<StreamId, Sequence>> {
    let mut erased = HashMap::new();
    if store.backend().redactions() == 0 {
        return Ok(erased);
    }
    let mut next = Some(Position::FIRST);
    while let Some(first) = next {
        let page = match block_on(store.backend().scan(first, PAGE)) {
            // What can't be read was not redacted either.
            Err(error) if error.kind() == ErrorKind::Damaged => {
                let readable = store.backend().maintenance().next_readable(first.next());
                next = if_supported(block_on(readable))?.unwrap_or(Some(first.next()));
                continue;
            }
            page => page?,
        };
        for record in &page.records {
            if record.kind == Kind::SNAPSHOT && record.redacted {
                let last = erased.entry(record.stream).or_insert(record.sequence);
                *last = record.sequence.max(*last);
            }
        }
        next = page.next;
    }
    Ok(erased)
}
