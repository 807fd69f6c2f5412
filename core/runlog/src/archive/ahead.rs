//! [`Ahead`]: reads the records of a store that an archive is compared with.

use std::collections::VecDeque;

use pollster::block_on;
use runlog_log::{ReadOptions, Record, Sequence, StreamId};

use crate::{Result, blocking::Store};

/// The most records of the store that are read at once for the comparison.
const PAGE_RECORDS_MAX: u64 = 256;

/// A few records of the stream that was compared last.
#[derive(Default)]
pub(super) struct Ahead {
    of: Option<StreamId>,
    records: VecDeque<Record>,
    limit: u64,
}

impl Ahead {
    pub(super) fn record(
        &mut self,
        store: &Store,
        stream: StreamId,
        sequence: u64,
    ) -> Result<Option<Record>> {
        let is_next = self.of == Some(stream);
        while self
            .records
            .front()
            .is_some_and(|record| is_next && record.sequence.0 < sequence)
        {
            self.records.pop_front();
        }
        if !is_next || self.records.is_empty() {
            self.limit = if is_next {
                (self.limit * 2).min(PAGE_RECORDS_MAX)
            } else {
                2
            };
            let options = ReadOptions {
                first: Sequence(sequence),
                limit: self.limit,
                ..ReadOptions::default()
            };
            self.of = Some(stream);
            self.records = block_on(store.backend().read(stream, options))?
                .records
                .into();
        }
        Ok(self
            .records
            .front()
            .filter(|record| record.sequence.0 == sequence)
            .cloned())
    }
}
