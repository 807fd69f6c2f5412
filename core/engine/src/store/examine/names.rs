//! [`Names`]: the ids of streams whose creation is lost, from wherever else they stand.

use std::collections::HashMap;

use super::Sources;
use crate::{
    Kind, StreamId,
    format::index::Block,
    index::{
        checkpoint::Checkpoint,
        directory::{Directory, Location, Stream},
    },
};

/// What is known of streams by number, apart from their creations.
#[derive(Default)]
pub(crate) struct Names {
    ids: HashMap<u32, [u8; 16]>,
    /// Which stream it was forked from, and at which sequence.
    forks: HashMap<u32, (u32, u32)>,
    /// The least ordinal that an index block has of a stream.
    first_ordinals: HashMap<u32, u32>,
    /// The ranges of a stream's own records that stand, where it has several: first sequence and first ordinal, in order.
    ranges: HashMap<u32, Vec<(u32, u32)>>,
    /// Up to this number, what is no fork there is none.
    known_to: u32,
    store: [u8; 16],
    /// The streams that were made up, of which no record came yet: the places of their steps.
    pub(super) made_up: HashMap<u32, Location>,
}

impl Names {
    /// What the checkpoint says.
    pub(crate) fn of(sources: &Sources) -> Self {
        let mut names = Self { store: sources.identity.store, ..Self::default() };
        if let Some(checkpoint) = &sources.checkpoint {
            names.add_checkpoint(checkpoint);
        }
        names
    }

    fn add_checkpoint(&mut self, checkpoint: &Checkpoint) {
        self.known_to = checkpoint.directory.next_number() - 1;
        for (number, stream) in (1..).zip(checkpoint.directory.streams().iter()) {
            self.ids.insert(number, *stream.id.as_bytes());
            if stream.lineage.is_some() || stream.tail_first_ordinal > 1 {
                self.ranges.insert(number, own_ranges(number, stream));
            }
            if let Some(forked) = stream.forked {
                self.forks.insert(number, (forked.parent, forked.at));
            }
        }
    }

    /// Takes over what the index block of a segment says.
    pub(crate) fn add_block(&mut self, block: &Block) {
        self.ids.extend(block.stream_rows().map(|row| (row.stream, row.id)));
        for row in block.stream_rows() {
            let first = self.first_ordinals.entry(row.stream).or_insert(row.first_ordinal);
            *first = row.first_ordinal.min(*first);
        }
        self.ids.extend(block.steps().filter(is_new).map(|step| (step.stream, step.id)));
    }

    /// The id of a stream. Where nothing tells it, one is made up: always the same, so that a repair that was cut off and is
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
        self.first_ordinals.get(&number).map(|first| first.saturating_sub(1))
    }

    /// Whether it isn't known how a stream was made.
    pub(super) fn is_unknown(&self, number: u32) -> bool {
        number > self.known_to
    }

    /// The ranges of a stream's own records that begin behind one ordinal and up to another, as the checkpoint has them.
    pub(super) fn ranges(&self, number: u32, behind: u32, to: u32) -> Vec<(u32, u32)> {
        let all = self.ranges.get(&number).into_iter().flatten();
        all.filter(|(_, ordinal)| (behind.saturating_add(1)..=to).contains(ordinal)).copied().collect()
    }

    pub(super) fn fork(&self, number: u32) -> Option<(u32, u32)> {
        self.forks.get(&number).copied().filter(|(parent, _)| *parent < number)
    }
}

/// First sequence and first ordinal of each range of a stream's own records.
pub(super) fn own_ranges(number: u32, stream: &Stream) -> Vec<(u32, u32)> {
    let below = std::iter::successors(stream.lineage.as_ref(), |range| range.below());
    let below = below.take_while(|range| range.source == number);
    let tail = std::iter::once((stream.tail_first_sequence, stream.tail_first_ordinal));
    let mut ranges: Vec<_> = tail.chain(below.map(|range| (range.first_sequence, range.first_ordinal))).collect();
    ranges.reverse();
    ranges
}

fn is_new(step: &crate::format::index::StepRow) -> bool {
    matches!(step.kind, Kind::CREATE | Kind::FORK)
}
