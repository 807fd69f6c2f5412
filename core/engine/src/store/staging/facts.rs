//! [`Facts`]: the properties of logged records that staging a batch depends on.
//!
//! They are read before the writer's lock is taken, so that no other thread waits for the device; a fact found missing
//! under the lock is requested by [`Need`], and the batch is staged again. Facts stay valid: the record at a position,
//! and the record with an ordinal, never change.

use std::collections::HashMap;

use runlog_log::redacted_positions;

use crate::{
    Batch, Error, Expected, Op, Position, Result, StreamId,
    format::record::Header,
    log::scan::is_damage,
    store::{
        lost::header_of_lost,
        place::{Place, position_of},
        published::durable::Durable,
    },
    sync::{RwLock, read},
};

/// The facts read for a batch.
#[derive(Default)]
pub(crate) struct Facts {
    /// The headers of records to be redacted, by position.
    headers: HashMap<u64, Header>,
    /// The positions of data records, by source and ordinal.
    positions: HashMap<(u32, u32), u64>,
}

/// A fact that has to be read before a batch can be staged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// The header of the record at a position.
    Header(Position),
    /// The position of the data record of a source with an ordinal.
    Position(u32, u32),
}

/// Why a batch is not staged.
pub(crate) enum Stop {
    /// It is refused.
    Refused(Error),
    /// Something has to be read first.
    Read(Need),
    /// Staged batches have to be published first.
    Publish,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl Facts {
    pub(crate) fn header(&self, position: Position) -> std::result::Result<Header, Stop> {
        self.headers
            .get(&position.0)
            .copied()
            .ok_or(Stop::Read(Need::Header(position)))
    }

    pub(crate) fn position(&self, source: u32, ordinal: u32) -> std::result::Result<u64, Stop> {
        self.positions
            .get(&(source, ordinal))
            .copied()
            .ok_or(Stop::Read(Need::Position(source, ordinal)))
    }

    /// Reads the records that a batch redacts, as far as they are published.
    pub(crate) fn read_redacted(
        &mut self,
        durable: &RwLock<Durable>,
        batch: &Batch<'_>,
    ) -> Result<()> {
        for op in &batch.ops {
            if let Some((first, others, _)) = op.redacted() {
                for position in redacted_positions(first, others) {
                    self.read_header(durable, position)?;
                }
            }
        }
        Ok(())
    }

    /// Reads a fact; if it is a position, also those that the rest of the batch will need.
    pub(crate) fn read(
        &mut self,
        durable: &RwLock<Durable>,
        batch: &Batch<'_>,
        need: Need,
    ) -> Result<()> {
        match need {
            Need::Header(position) => {
                self.read_header(durable, position)?;
                // Otherwise staging would request it in an endless loop.
                let is_read = self.headers.contains_key(&position.0);
                let lost = || {
                    Error::not_found(format!(
                        "no record has position {position} any more: a compaction gave it up"
                    ))
                };
                is_read.then_some(()).ok_or_else(lost)
            }
            Need::Position(source, ordinal) => {
                self.read_position(durable, source, ordinal)?;
                let expecting = batch.ops.iter().filter_map(stream_expected_at);
                expecting
                    .into_iter()
                    .try_for_each(|stream| self.read_last(durable, &stream))
            }
        }
    }

    fn read_header(&mut self, durable: &RwLock<Durable>, position: Position) -> Result<()> {
        if self.headers.contains_key(&position.0) {
            return Ok(());
        }
        let Some(place) = Place::of(&read(durable), position.plain().0) else {
            return Ok(());
        };
        let header = match place.frame() {
            Ok(Some(_)) if position != position.plain() => {
                let message = format!("position {} can be read", position.plain());
                return Err(Error::invalid(message));
            }
            Ok(frame) => frame.map(|frame| frame.header),
            // A record that can't be read can be redacted as well: reads pass over it then.
            Err(error) if is_damage(&error) => Some(header_of_lost(&place, durable)?.ok_or(error)?),
            Err(error) => return Err(error),
        };
        if let Some(header) = header {
            self.headers.insert(position.0, header);
        }
        Ok(())
    }

    /// Reads the position of a stream's last record.
    fn read_last(&mut self, durable: &RwLock<Durable>, stream: &StreamId) -> Result<()> {
        let last = {
            let durable = read(durable);
            let directory = &durable.directory;
            directory.number(stream).and_then(|number| {
                // The records of a deleted stream may have been dropped, and no op can expect anything of them.
                let stream = directory.stream(number).filter(|stream| !stream.deleted)?;
                directory.resolve(number, stream.last_sequence())
            })
        };
        last.map_or(Ok(()), |(source, ordinal)| {
            self.read_position(durable, source, ordinal)
        })
    }

    fn read_position(
        &mut self,
        durable: &RwLock<Durable>,
        source: u32,
        ordinal: u32,
    ) -> Result<()> {
        if self.positions.contains_key(&(source, ordinal)) {
            return Ok(());
        }
        let spot = read(durable).spot(source, ordinal)?;
        let frame = spot.frame()?;
        self.positions
            .insert((source, ordinal), position_of(spot.segment(), &frame));
        Ok(())
    }
}

/// The stream whose last record an op expects at a position.
fn stream_expected_at(op: &Op<'_>) -> Option<StreamId> {
    let (stream, expected) = match op {
        Op::Append {
            stream, expected, ..
        }
        | Op::Truncate {
            stream, expected, ..
        }
        | Op::Fork {
            parent: stream,
            expected,
            ..
        }
        | Op::Snapshot {
            stream, expected, ..
        }
        | Op::Delete { stream, expected } => (stream, expected),
        Op::Redact { .. } | Op::RedactMany { .. } => return None,
    };
    matches!(expected, Expected::At(_)).then_some(*stream)
}
