//! Making room for a batch: a longer file, or a new segment.

use std::sync::{Arc, MutexGuard};

use super::{
    background::Chores,
    group::Group,
    prepare::Prepared,
    segments::{FIRST_SEGMENT_BYTES, Failure, SLACK_BYTES},
    shared::Shared,
    under_way::UnderWay,
    writer::{Ended, Writer},
};
use crate::{Result, format::segment::HEADER_BYTES};

impl Shared {
    /// Makes room in the active segment or turns to a new one. No write is under way, and nothing is staged.
    pub(crate) fn make_room(&self, mut writer: MutexGuard<'_, Writer>, prepared: &Prepared) -> Result<()> {
        let marker = Arc::<Group>::default();
        writer.flushing = Some(marker.clone());
        let under_way = UnderWay { shared: self, group: marker };
        // Nobody finds room until this is done; they wait for the marker.
        let capacity = std::mem::replace(&mut writer.capacity, 1);
        let extend = std::mem::take(&mut writer.extendable);
        let (active, end, written_end, synced_end) =
            (writer.active.clone(), writer.end, writer.written_end, writer.synced_end);
        let position = writer.next_position;
        let needed = end + writer.index_bytes + prepared.bytes_max + prepared.index_bytes_max + SLACK_BYTES;
        let last_time_ms = writer.last_time_ms;
        let time_fits = writer.time_fits(self.options.host.now_ms());
        drop(writer);
        let longer = capacity.max(end) + FIRST_SEGMENT_BYTES.max(needed.saturating_sub(capacity));
        let longer = longer.min(self.options.segment_bytes_max);
        let outcome = if extend && time_fits && longer >= needed {
            self.allocate(&*active.file, &active.name, capacity.max(end), longer)
                .map(|()| None)
                .map_err(Failure::Harmless)
        } else {
            let fresh = HEADER_BYTES as u64 + prepared.bytes_max + prepared.index_bytes_max + 2 * SLACK_BYTES;
            let header = self.next_header(&active, end, position, last_time_ms);
            self.turn(&active, header, end, written_end > synced_end, fresh).map(Some)
        };
        let mut writer = self.writer()?;
        writer.flushing = None;
        let mut save_checkpoint = false;
        let result = match outcome {
            Ok(None) => {
                writer.capacity = longer;
                Ok(())
            }
            Ok(Some(made)) => {
                writer.switch_to(made.segment, made.capacity);
                save_checkpoint = writer.ask_for_checkpoint(HEADER_BYTES as u64, self.checkpoint_step());
                Ok(())
            }
            Err(Failure::Harmless(error)) => {
                writer.capacity = capacity;
                Err(error)
            }
            Err(Failure::Poisoning(error)) => {
                writer.ended = Some(Ended::Failed(error.clone()));
                Err(error)
            }
        };
        drop(writer);
        under_way.end(Ok(()));
        if save_checkpoint {
            self.keep(Chores { make_spare: false, save_checkpoint });
        }
        result
    }
}
