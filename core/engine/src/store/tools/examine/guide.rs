//! [`Guide`]: the records of a segment by its index block, in order of offset: it names those that can't be read.

use crate::format::{
    index::{Block, ControlRow},
    units_to_offset,
};

/// What stands at an offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Named {
    Data { stream: u32, ordinal: u32 },
    Control(ControlRow),
}

impl Named {
    /// What it is, for people.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Data { stream, ordinal } => format!("record {ordinal} of stream number {stream}"),
            Self::Control(control) => format!(
                "a step of kind {} of stream number {} (sequence {}, ordinal {}, other {}, target {})",
                control.kind.0,
                control.stream,
                control.sequence,
                control.ordinal,
                control.other,
                control.target
            ),
        }
    }
}

/// What is named, and where.
pub(super) fn named_at(named: Option<(u64, Named)>) -> String {
    named.map_or_else(
        || "nothing".to_owned(),
        |(offset, named)| format!("{} at offset {offset}", named.describe()),
    )
}

/// The places that a block names, by rising offset.
pub(crate) struct Guide {
    places: Vec<(u64, Named)>,
    next: usize,
    /// It says everything below this offset, and nothing from there on.
    pub(crate) end: u64,
}

impl Guide {
    /// What a block says of the places from `from` up to `end`.
    pub(crate) fn new(block: &Block, from: u64, end: u64) -> Self {
        let inside = |offset: u64| (from..end).contains(&offset);
        let mut places = Vec::new();
        for row in block.stream_rows() {
            for nth in 0..row.count {
                let Some(ordinal) = row.first_ordinal.checked_add(nth) else {
                    break;
                };
                let Some(offset) = block
                    .posting(&row, ordinal)
                    .filter(|offset| inside(*offset))
                else {
                    continue;
                };
                places.push((
                    offset,
                    Named::Data {
                        stream: row.stream,
                        ordinal,
                    },
                ));
            }
        }
        places.extend(
            block
                .controls()
                .filter(|control| inside(control.offset))
                .map(|control| (control.offset, Named::Control(control))),
        );
        // Stable: several things at one place keep their order.
        runlog_log::order::sort_by_key(&mut places, |(offset, _)| *offset);
        Self {
            places,
            next: 0,
            end,
        }
    }

    /// The next place, if it is below an offset; it is then passed.
    pub(crate) fn next_below(&mut self, offset: u64) -> Option<(u64, Named)> {
        let place = self
            .places
            .get(self.next)
            .copied()
            .filter(|(at, _)| *at < offset)?;
        self.next += 1;
        Some(place)
    }

    /// Whether everything in the range would be known.
    pub(crate) fn covers(&self, to: u64) -> bool {
        to <= self.end
    }
}

/// How many of the data records and engine records that a block names lie below an offset.
pub(crate) fn count_below(block: &Block, offset: u64) -> usize {
    let parts = block.parts();
    let data = parts
        .postings
        .iter()
        .filter(|units| units_to_offset(**units) < offset)
        .count();
    data + parts
        .controls
        .iter()
        .filter(|control| control.offset < offset)
        .count()
}
