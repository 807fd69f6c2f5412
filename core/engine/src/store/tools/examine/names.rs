//! [`Names`]: the ids of streams whose creation is lost, from all other sources.

use std::{collections::HashMap, sync::Arc};

use super::sources::Sources;
use crate::{
    Kind, StreamId,
    format::{
        index::{Block, DROPPED},
        record,
    },
    index::{
        checkpoint::Checkpoint,
        directory::Directory,
        stream::{Location, Stream},
    },
    log::segment::Segment,
};

/// What is known of streams by number, apart from their creations.
#[derive(Default)]
pub(crate) struct Names {
    ids: HashMap<u32, [u8; 16]>,
    /// Which stream it was forked from, and at which sequence.
    forks: HashMap<u32, (u32, u32)>,
    /// The first record of a stream that an index block names.
    firsts: HashMap<u32, First>,
    /// What a fork still shares of the stream that it was forked from, in order.
    shared: HashMap<u32, Vec<Shared>>,
    /// The ranges of a stream's own records that stand, where it has several: first sequence and first ordinal, in order.
    ranges: HashMap<u32, Vec<(u32, u32)>>,
    /// The last sequence of each stream.
    lasts: HashMap<u32, u32>,
    /// Up to this number, what is no fork there is none.
    known_to: u32,
    store: [u8; 16],
    /// The streams that were made up, of which no record came yet: the places of their engine records.
    pub(super) made_up: HashMap<u32, Location>,
}

impl Names {
    /// What the checkpoint says.
    pub(crate) fn of(sources: &Sources) -> Self {
        let mut names = Self {
            store: sources.identity.store,
            ..Self::default()
        };
        if let Some(checkpoint) = &sources.checkpoint {
            names.add_checkpoint(checkpoint);
        }
        names
    }

    fn add_checkpoint(&mut self, checkpoint: &Checkpoint) {
        self.known_to = checkpoint.directory.next_number() - 1;
        for (number, stream) in (1..).zip(checkpoint.directory.streams().iter()) {
            self.ids.insert(number, *stream.id.as_bytes());
            self.lasts.insert(number, stream.last_sequence());
            if stream.lineage.is_some() || stream.tail_first_ordinal > 1 || stream.forked.is_some()
            {
                self.ranges.insert(number, own_ranges(number, stream));
            }
            if let Some(forked) = stream.forked {
                self.forks.insert(number, (forked.parent, forked.at));
                self.shared
                    .insert(number, shared_ranges(forked.parent, stream));
            }
        }
    }

    /// Takes over what the index block of a segment says.
    pub(crate) fn add_block(&mut self, segment: &Arc<Segment>, block: &Block) {
        self.ids
            .extend(block.stream_rows().map(|row| (row.stream, row.id)));
        for row in block.stream_rows() {
            let known = self
                .firsts
                .get(&row.stream)
                .map_or(u32::MAX, |first| first.ordinal);
            let offset = block
                .posting(&row, row.first_ordinal)
                .filter(|_| row.first_ordinal < known);
            let first = offset
                .filter(|offset| *offset != DROPPED)
                .map(|offset| First {
                    ordinal: row.first_ordinal,
                    segment: segment.clone(),
                    offset,
                });
            self.firsts.extend(first.map(|first| (row.stream, first)));
        }
        self.ids.extend(
            block
                .controls()
                .filter(is_new)
                .map(|control| (control.stream, control.id)),
        );
    }

    /// The id of a stream. Where nothing names it, one is made up: always the same, so that a repair that was cut off and is
    /// done again comes to the same.
    pub(super) fn id(&self, number: u32, directory: &Directory) -> [u8; 16] {
        let is_free = |id: &[u8; 16]| directory.number(&StreamId::from_bytes(*id)).is_none();
        if let Some(id) = self.ids.get(&number).filter(|id| is_free(id)) {
            return *id;
        }
        let mut id = self.store;
        id[6] = 0x80 | (id[6] & 0x0f);
        id[12..].copy_from_slice(&number.to_be_bytes());
        while !is_free(&id) {
            id[0] = id[0].wrapping_add(1);
        }
        id
    }

    /// How many records of its own a stream had before the first that an index block has.
    pub(super) fn records_before(&self, number: u32) -> Option<u32> {
        self.firsts
            .get(&number)
            .map(|first| first.ordinal.saturating_sub(1))
    }

    /// The ordinal of the first record of a stream that an index block has, if it lies behind a place.
    pub(super) fn first_behind(&self, number: u32, place: Location) -> Option<u32> {
        let first = self.firsts.get(&number)?;
        let location = Location {
            segment: first.segment.id(),
            offset: first.offset,
        };
        (location > place).then_some(first.ordinal)
    }

    /// Behind which sequence a stream began, if it wasn't truncated before that record.
    pub(super) fn begins_behind(&self, number: u32) -> Option<u32> {
        let First {
            ordinal,
            segment,
            offset,
        } = self.firsts.get(&number)?;
        let bytes = segment
            .bytes_at(*offset, record::HEADER_BYTES as u64)
            .ok()?;
        let header = record::Header::decode(bytes.first_chunk()?, segment.seed, *offset)?;
        (header.stream == number)
            .then_some(header.sequence)?
            .checked_sub(*ordinal)
    }

    /// Whether it isn't known how a stream was made.
    pub(super) fn is_unknown(&self, number: u32) -> bool {
        number > self.known_to
    }

    /// The ranges of a stream's own records that begin behind one ordinal and up to another, as the checkpoint has them.
    pub(super) fn ranges(&self, number: u32, behind: u32, to: u32) -> Vec<(u32, u32)> {
        let all = self.ranges.get(&number).into_iter().flatten();
        all.filter(|(_, ordinal)| (behind.saturating_add(1)..=to).contains(ordinal))
            .copied()
            .collect()
    }

    /// The last sequence of a stream, as the checkpoint has it.
    pub(super) fn last_sequence(&self, number: u32) -> Option<u32> {
        self.lasts.get(&number).copied()
    }

    /// What a fork shares of its parent's own records, as the checkpoint has it.
    pub(super) fn shared(&self, number: u32) -> Vec<Shared> {
        self.shared.get(&number).cloned().unwrap_or_default()
    }

    pub(super) fn fork(&self, number: u32) -> Option<(u32, u32)> {
        self.forks
            .get(&number)
            .copied()
            .filter(|(parent, _)| *parent < number)
    }
}

/// Where a stream's first record that is named lies.
struct First {
    ordinal: u32,
    segment: Arc<Segment>,
    offset: u64,
}

/// A range of records that a fork shares.
#[derive(Clone, Copy)]
pub(super) struct Shared {
    pub(super) first_sequence: u32,
    pub(super) first_ordinal: u32,
    pub(super) count: u32,
}

fn shared_ranges(parent: u32, child: &Stream) -> Vec<Shared> {
    let mut above = child.tail_first_sequence;
    let mut ranges = Vec::new();
    for range in std::iter::successors(child.lineage.as_ref(), |range| range.below()) {
        let count = above.saturating_sub(range.first_sequence);
        above = range.first_sequence;
        if range.source == parent {
            ranges.push(Shared {
                first_sequence: range.first_sequence,
                first_ordinal: range.first_ordinal,
                count,
            });
        }
    }
    ranges.reverse();
    ranges
}

/// First sequence and first ordinal of each range of a stream's own records.
pub(super) fn own_ranges(number: u32, stream: &Stream) -> Vec<(u32, u32)> {
    let below = std::iter::successors(stream.lineage.as_ref(), |range| range.below());
    let below = below.take_while(|range| range.source == number);
    let tail = std::iter::once((stream.tail_first_sequence, stream.tail_first_ordinal));
    let mut ranges: Vec<_> = tail
        .chain(below.map(|range| (range.first_sequence, range.first_ordinal)))
        .collect();
    ranges.reverse();
    ranges
}

fn is_new(control: &crate::format::index::ControlRow) -> bool {
    matches!(control.kind, Kind::CREATE | Kind::FORK)
}
