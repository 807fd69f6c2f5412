//! [`Staging`]: one batch on its way into the open group, and what it changes there.

use super::{
    facts::{Facts, Stop},
    heads::Head,
    open_group::{Held, OpenGroup},
    prepare::PreparedBody,
    writer::Writer,
};
use crate::{Error, StreamId, limits, store::published::durable::Durable};

/// The result of an op, or why the batch is not staged.
pub(super) type Result<T> = std::result::Result<T, Stop>;

/// A batch being staged into the open group.
pub(crate) struct Staging<'a, 'b> {
    pub(crate) writer: &'a mut Writer,
    pub(crate) durable: &'a Durable,
    pub(crate) facts: &'a Facts,
    pub(crate) open: &'a mut OpenGroup,
    pub(crate) undo: &'a mut Undo,
    pub(crate) time_delta_ms: u32,
    pub(crate) held: Option<Held>,
    pub(crate) batch_start: u64,
    pub(crate) bodies: std::slice::Iter<'a, PreparedBody>,
    pub(crate) key: &'b [u8],
}

/// How to undo what a refused batch has done so far.
pub(crate) struct Undo {
    pub(crate) bytes: usize,
    pub(crate) records: usize,
    pub(crate) controls: usize,
    pub(crate) keys: usize,
    pub(crate) labels: usize,
    pub(crate) heads: usize,
    pub(crate) index_bytes: u64,
    pub(crate) next_position: u64,
    pub(crate) created: Vec<StreamId>,
}

impl Staging<'_, '_> {
    pub(super) fn head(&self, number: u32) -> Head {
        self.writer.heads.get(number, &self.durable.directory)
    }

    /// A stream's head, to be changed; the old one is kept for the undo.
    pub(super) fn change(&mut self, number: u32) -> &mut Head {
        let head = self.writer.heads.get_mut(number, &self.durable.directory);
        self.writer.changed.push((number, *head));
        head
    }

    pub(super) fn create(&mut self, id: StreamId) -> Result<u32> {
        let number = u32::try_from(self.writer.heads.len() + 1)
            .ok()
            .filter(|number| *number <= limits::STREAMS_MAX);
        let number = number.ok_or_else(|| {
            Error::too_large(format!(
                "the store is full: it has {} streams",
                limits::STREAMS_MAX
            ))
        })?;
        self.writer.heads.push(&self.durable.directory);
        self.writer.new_ids.insert(id, number);
        self.undo.created.push(id);
        Ok(number)
    }
}
