//! Records of a stream that can't be read: which they are, and what is shown for one that was redacted.

use super::{
    Reader,
    located::{Located, is_it},
};
use crate::{
    Error, Position, Result, Sequence,
    format::record,
    log::{frame::Frame, scan::is_damage},
    store::{
        lost::{LostPlaces, frame_of, header_at, lost_header},
        place::{index_in, position_in},
    },
};

impl Reader {
    /// The position of a record that can't be read, and its header if that can be; `None` if its position isn't known.
    fn place_of_lost(
        &mut self,
        located: &Located,
    ) -> Result<Option<(u64, Option<record::Header>)>> {
        let run = self.run(located.run)?.clone();
        let (segment, end, offset) = (&run.segment, run.end, located.offset);
        let header = header_at(segment, offset, end)?;
        let header = header.filter(|header| is_it(&run, located, header));
        let of_store = &self.shared.lost_places;
        let places = LostPlaces::kept(&mut self.lost_places, of_store, segment, end, offset)?;
        let position = match places.at(offset) {
            Some(position) => Some(position),
            // Without an index block, the header tells it.
            None => header.as_ref().map(|header| position_in(segment, header)),
        };
        Ok(position.map(|position| (position, header)))
    }

    /// What is shown for a record that can't be read, if it was redacted: a frame without a body, of which only the header is
    /// looked at; `None` for one of a kind that isn't wanted. The error if it wasn't redacted.
    pub(super) fn frame_of_lost(
        &mut self,
        located: &Located,
        error: Error,
    ) -> Result<Option<Frame>> {
        if !is_damage(&error) || self.redacted.len() == 0 {
            return Err(error);
        }
        let Some((position, header)) = self.place_of_lost(located)? else {
            return Err(error);
        };
        if !self.is_passed_over(position) {
            return Err(error);
        }
        if !self.kinds.is_empty() && !header.as_ref().is_some_and(|header| self.wants(header)) {
            return Ok(None);
        }
        let run = self.run(located.run)?;
        let index = index_in(&run.segment, position);
        let lost = lost_header(run.source, located.sequence, index);
        let header = header.map_or(lost, |header| record::Header { index, ..header });
        Ok(Some(frame_of(header, located.offset)))
    }

    /// Whether a record that can't be read was redacted, or is to be passed over.
    fn is_passed_over(&self, position: u64) -> bool {
        self.redacted.passes_over(position)
    }

    /// The sequences and positions of the records that are left, can't be read, and weren't redacted, as far as their positions
    /// are known.
    ///
    /// # Errors
    /// Those that end a read.
    pub(crate) fn unreadable(&mut self) -> Result<Vec<(Sequence, Position)>> {
        let mut lost = Vec::new();
        loop {
            match self.next_located() {
                Ok(None) => return Ok(lost),
                Ok(Some(mut located)) => match self.own_frame(&mut located) {
                    Ok(_) => {}
                    Err(error) if is_damage(&error) => {
                        if let Some((position, _)) = self.place_of_lost(&located)?
                            && !self.is_passed_over(position)
                        {
                            let sequence = Sequence(u64::from(located.sequence));
                            lost.push((sequence, Position(position)));
                        }
                    }
                    Err(error) => return Err(error),
                },
                // One error for all records of a segment whose index block is damaged: where they are isn't known.
                Err(error) if is_damage(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}
