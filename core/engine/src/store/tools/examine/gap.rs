//! [`Gap`]: records that can't be read, what is known of them, and the losses that later records reveal.
//!
//! If an index block or a checkpoint names the lost records, that decides. Otherwise later records reveal them: a
//! record of stream S with sequence n, where e was expected, reveals a loss in one of the gaps after the previous
//! record of S:
//!
//! - n > e: that the records e to n − 1 are lost. They get places in the gap, where no record is, so that reading them is an
//!   error and everything else keeps its ordinal;
//! - n < e: that a truncation is lost, after n − 1 at the highest; it is taken to have been that. What the gap may have held
//!   between an earlier truncation and n − 1 can't be distinguished from what was there before;
//! - S unknown: that its creation is lost. Its id is that of a checkpoint or an index block further on, or one is made up.
//!   It is taken for a fork of an unknown stream if its records begin further on than 1: it shares what is lost.

use super::survey::Hole;
use crate::{
    Kind, SegmentId,
    format::{index::ControlRow, record},
    index::{NumberMap, directory::Directory, stream::Location},
    log::segment::Segment,
};

/// Records that can't be read.
pub(crate) struct Gap {
    pub(crate) segment: SegmentId,
    pub(crate) file: String,
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// What was expected, and found.
    pub(crate) why: String,
    pub(crate) first_position: u64,
    /// How many positions are missing.
    pub(crate) missing: u32,
    /// Of how many of them it is unknown what they were.
    pub(crate) unnamed: u64,
    /// What is known to be lost.
    pub(crate) lost: Vec<Lost>,
    /// How many records `lost` stands for.
    pub(crate) named: u64,
    /// The next place in it that names nothing yet.
    pub(crate) next_place: u64,
    /// The last entry of `lost` with data of a stream.
    last_data: NumberMap<usize>,
}

/// Records of one stream that are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost {
    pub(crate) stream: u32,
    pub(crate) kind: Kind,
    pub(crate) first: u32,
    pub(crate) last: u32,
}

impl Gap {
    pub(crate) fn new(segment: &Segment, hole: &Hole, first_position: u64, missing: u32) -> Self {
        Self::of(
            segment.id(),
            segment.name.clone(),
            hole,
            first_position,
            missing,
        )
    }

    /// The same in a file that isn't there.
    pub(crate) fn of(
        segment: SegmentId,
        file: String,
        hole: &Hole,
        first_position: u64,
        missing: u32,
    ) -> Self {
        Self {
            segment,
            file,
            from: hole.from,
            to: hole.to,
            why: hole.why.clone(),
            first_position,
            missing,
            unnamed: u64::from(missing),
            lost: Vec::new(),
            named: 0,
            next_place: hole.from,
            last_data: NumberMap::default(),
        }
    }

    pub(crate) fn add(&mut self, lost: Lost) {
        self.named += 1;
        if lost.kind.is_data() {
            let before = self
                .last_data
                .get(&lost.stream)
                .and_then(|place| self.lost.get_mut(*place));
            if let Some(before) =
                before.filter(|before| before.last.checked_add(1) == Some(lost.first))
            {
                before.last = lost.last;
                return;
            }
            self.last_data.insert(lost.stream, self.lost.len());
        }
        self.lost.push(lost);
    }

    /// How much it may have held of which nothing is known yet.
    pub(super) fn room(&self) -> u64 {
        self.unnamed
            .min(self.to.saturating_sub(self.next_place) / PLACE_BYTES)
    }

    /// Where its next place is.
    pub(super) fn location(&self) -> Location {
        Location {
            segment: self.segment,
            offset: self.next_place,
        }
    }

    /// What is lost, for people.
    pub(crate) fn describe(&self, directory: &Directory) -> String {
        let mut list: Vec<String> = self
            .lost
            .iter()
            .map(|lost| lost.describe(directory))
            .collect();
        let more = list.len().saturating_sub(LOST_LISTED_MAX);
        list.truncate(LOST_LISTED_MAX);
        if more > 0 {
            list.push(format!("{more} more"));
        }
        let unknown = u64::from(self.missing).saturating_sub(self.named);
        if unknown > 0 {
            list.push(format!("{unknown} of which nothing is known"));
        }
        let last = self
            .first_position
            .saturating_add(u64::from(self.missing.saturating_sub(1)));
        let bytes = self.to - self.from;
        match (self.missing, &list[..]) {
            (0, []) => format!(
                "{bytes} bytes can't be read; no record is known to be lost ({})",
                self.why
            ),
            (0, list) => format!(
                "{bytes} bytes can't be read: lost {} ({})",
                list.join(", "),
                self.why
            ),
            (1, list) => format!(
                "position {last} is lost: {} ({})",
                list.join(", "),
                self.why
            ),
            (_, list) => {
                format!(
                    "positions {} to {last} are lost: {} ({})",
                    self.first_position,
                    list.join(", "),
                    self.why
                )
            }
        }
    }
}

/// The least that a lost record took: the places of lost records are this far from each other.
pub(super) const PLACE_BYTES: u64 = record::HEADER_BYTES as u64;
/// At most this many of the records that a gap lost are listed one by one.
const LOST_LISTED_MAX: usize = 20;

impl Lost {
    /// Data records of a stream, by sequence.
    pub(super) fn data(stream: u32, first: u32, last: u32) -> Self {
        Self {
            stream,
            kind: Kind::DATA,
            first,
            last,
        }
    }

    /// The engine record behind a row.
    pub(super) fn of(row: &ControlRow) -> Self {
        Self {
            stream: row.stream,
            kind: row.kind,
            first: row.sequence,
            last: row.sequence,
        }
    }

    pub(super) fn describe(&self, directory: &Directory) -> String {
        let id = directory.stream(self.stream).map(|stream| stream.id);
        let stream = id.map_or_else(
            || format!("stream number {}", self.stream),
            |id| format!("stream {id}"),
        );
        match self.kind {
            kind if kind.is_data() && self.first == self.last => {
                format!("sequence {} of {stream}", self.first)
            }
            kind if kind.is_data() => {
                format!("sequences {} to {} of {stream}", self.first, self.last)
            }
            Kind::CREATE => format!("the creation of {stream}"),
            Kind::FORK => format!("the fork that made {stream}"),
            Kind::TRUNCATE => format!("a truncation of {stream} after {}", self.first),
            Kind::SNAPSHOT => format!("a snapshot of {stream} at {}", self.first),
            Kind::DELETE => format!("the deletion of {stream}"),
            Kind::REDACT => format!("the reason of a redaction in {stream}"),
            kind => format!("a record of kind {} of {stream}", kind.0),
        }
    }
}

/// A position's place in a segment.
pub(super) fn index_of(segment: &Segment, position: u64) -> Option<u32> {
    u32::try_from(position.checked_sub(segment.header.base_position)?).ok()
}
