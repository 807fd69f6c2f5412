//! Derives which records must have been lost in a gap from the first records after it. [`gap`](super::gap) has the
//! rules.
//!
//! The first record of a stream after a gap reveals the stream's state at its end. The lost records that led to it are
//! placed in the gap before that record is applied: later records then follow as if nothing was lost, and keep their
//! ordinals.

use super::{
    draft::Draft,
    gap::Gap,
    lose::Done,
    walker::{Walker, Within},
};
use crate::{
    Kind,
    format::record::engine,
    index::stream::Location,
    log::{frame::Frame, segment::Segment},
};

impl Walker {
    /// A whole segment is lost.
    pub(super) fn lose_segment(&mut self, gap: Gap) {
        self.drafts.insert(gap.segment, Draft::default());
        self.gaps.push(gap);
        self.open = Some(self.gaps.len() - 1);
        self.settled.clear();
    }

    /// Makes up for what was lost of a stream before its data record with this sequence, if it is the first one behind a gap.
    pub(super) fn settle(&mut self, within: &Within, number: u32, sequence: u32) -> Done {
        if self.open.is_none() || self.settled.contains(&number) {
            return Ok(());
        }
        self.create_lost(number)?;
        self.settled.insert(number);
        // The segment's own index says how many records the stream was given before.
        let row = within
            .block
            .as_ref()
            .and_then(|block| block.find_stream(number));
        let row = row.filter(|_| {
            !self
                .drafts
                .get(&within.id)
                .is_some_and(|draft| draft.has_stream(number))
        });
        let given = self.given(number);
        match row {
            Some(row) => self.lose_ranges(number, given, row.first_ordinal)?,
            None => self.lose_range_before(number, given..=u32::MAX, sequence)?,
        }
        let given = self.given(number);
        let known = match row {
            Some(row) => Some(
                row.first_ordinal
                    .checked_sub(given.saturating_add(1))
                    .ok_or_else(|| {
                        format!(
                            "the index says {} is the first here of stream number {number}",
                            row.first_ordinal
                        )
                    })?,
            ),
            None => None,
        };
        self.begin_further_on(
            number,
            sequence
                .saturating_sub(1)
                .saturating_sub(known.unwrap_or(0)),
        );
        let last = self.last_sequence(number);
        // What is lost and took no sequence was truncated.
        if let Some(known) = known.filter(|known| *known > 0)
            && sequence == last.saturating_add(1)
            && self.truncated.contains_key(&number)
        {
            return self.lose_truncated(number, known);
        }
        self.lose_data(
            number,
            known.unwrap_or(sequence.saturating_sub(last.saturating_add(1))),
        )?;
        if sequence <= self.last_sequence(number) {
            self.lose_truncation(number, sequence.saturating_sub(1))?;
        }
        Ok(())
    }

    /// The same before a record that is lost itself, of which the index says the ordinal.
    pub(super) fn settle_ordinal(&mut self, number: u32, ordinal: u32) -> Done {
        if self.open.is_none() {
            return Ok(());
        }
        self.create_lost(number)?;
        let given = self.given(number);
        self.lose_data(number, ordinal.saturating_sub(given.saturating_add(1)))
    }

    /// The same before an engine record.
    pub(super) fn settle_control(&mut self, within: &mut Within, frame: &Frame) -> Done {
        if self.open.is_none() {
            return Ok(());
        }
        let header = &frame.header;
        let (made, about) = match header.kind {
            Kind::CREATE => (header.stream, None),
            Kind::FORK => {
                let parent = frame
                    .parts()
                    .and_then(|(_, payload)| engine::decode_fork(&payload));
                (header.stream, parent.map(|(_, parent)| parent))
            }
            _ => (header.stream.saturating_add(1), Some(header.stream)),
        };
        if made > self.durable.directory.next_number() {
            self.create_lost(made - 1)?;
        }
        let Some(about) = about else { return Ok(()) };
        let given = within.given_by(frame.offset);
        if let Some(ordinal) = given {
            let before = self.given(about);
            self.lose_ranges(about, before, ordinal)?;
        }
        if header.kind == Kind::FORK {
            self.lose_still_shared(made, about)?;
        }
        if matches!(header.kind, Kind::FORK | Kind::TRUNCATE | Kind::SNAPSHOT)
            && header.sequence > self.last_sequence(about)
        {
            // How many records of its own it was given by then, only an index says, at best that of the engine record itself; one that
            // had none was a fork.
            let own = given
                .or_else(|| self.names.records_before(about))
                .unwrap_or(0);
            let begins = self.names.begins_behind(about).unwrap_or(0);
            self.begin_further_on(about, header.sequence.saturating_sub(own).max(begins));
            if given.is_none() {
                let before = self.given(about);
                // What an index has of the stream from here on came later.
                let row = within
                    .block
                    .as_ref()
                    .and_then(|block| block.find_stream(about));
                let here = within.at(frame.offset);
                let first = row
                    .map(|row| row.first_ordinal)
                    .or_else(|| self.names.first_behind(about, here));
                let to = first.map_or(u32::MAX, |first| first - 1);
                self.lose_range_before(about, before..=to, header.sequence)?;
            }
            self.lose_data(
                about,
                header.sequence.saturating_sub(self.last_sequence(about)),
            )?;
        }
        if let Some(ordinal) = given {
            self.lose_data_up_to(about, ordinal)?;
        }
        Ok(())
    }

    /// What the header of a segment says of the gaps before it: every stream with a lower number than its next was made there,
    /// and no other.
    pub(super) fn begin_segment(&mut self, segment: &Segment) {
        // Where there is no room for that, a record will show it.
        if self.open.is_some() && self.create_lost(segment.header.next_stream - 1).is_ok() {
            let begin = Location {
                segment: segment.id(),
                offset: 0,
            };
            self.last_creation = self.last_creation.max(begin);
        }
    }
}
