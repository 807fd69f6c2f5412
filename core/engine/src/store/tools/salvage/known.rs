//! [`Known`]: what the records of other files are needed for.

use std::collections::{HashMap, HashSet};

use crate::{
    Kind,
    format::{
        index::{Block, ControlRow},
        record,
    },
    log::frame::Frame,
};

/// The ids of streams by number, and the redacted positions: from index blocks, and where there is none from the records.
#[derive(Default)]
pub(super) struct Known {
    pub(super) ids: HashMap<u32, [u8; 16]>,
    pub(super) redacted: HashSet<u64>,
}

impl Known {
    pub(super) fn add_block(&mut self, block: &Block) {
        self.ids
            .extend(block.stream_rows().map(|row| (row.stream, row.id)));
        for row in block.controls() {
            match row.kind {
                Kind::CREATE | Kind::FORK => _ = self.ids.insert(row.stream, row.id),
                Kind::REDACT => self.redacted.extend(row.redacted()),
                _ => {}
            }
        }
    }

    pub(super) fn add_record(&mut self, frame: &Frame) {
        let number = frame.header.stream;
        let Some((_, payload)) = frame.parts().filter(|_| frame.unknown().is_none()) else {
            return;
        };
        match frame.header.kind {
            Kind::CREATE => self
                .ids
                .extend(record::engine::decode_create(&payload).map(|id| (number, id))),
            Kind::FORK => self
                .ids
                .extend(record::engine::decode_fork(&payload).map(|(id, _)| (number, id))),
            Kind::REDACT => {
                let row = |(target, id)| ControlRow {
                    target,
                    id,
                    ..ControlRow::new(Kind::REDACT, number)
                };
                let found = record::engine::decode_redact(&payload).map(row);
                self.redacted
                    .extend(found.iter().flat_map(ControlRow::redacted));
            }
            _ => {}
        }
    }
}
