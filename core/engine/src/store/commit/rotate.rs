//! Making space for a batch: extending the file, or starting a new segment (rotation).
//!
//! Rotation has to survive a crash between any two of its steps. Their order makes each state in between recognisable:
//!
//! 1. Flush the active segment. The next one's header says where its records end, and that must be true.
//! 2. Reserve space for its index block. Once the next segment has its name, it is too late to find the device full.
//! 3. Make the next segment and flush its name. From here on nothing is appended to the old one, even if the flush of
//!    the name fails.
//! 4. Write the index block after the old segment's records. After a crash before that, the next open makes the same
//!    block from the records, and verifies it by the CRC in the new header.

use super::{
    background::MaintenanceTasks,
    guard::WriteGuard,
    new_segment::{FIRST_SEGMENT_BYTES, Failure, Made, SLACK_BYTES},
    shared::Shared,
};
use crate::{
    Error, ErrorKind, Result,
    format::segment::DATA_START,
    limits,
    log::segment::Segment,
    store::staging::{open_group::is_full, prepare::Prepared, writer::Writer},
    sync::{Arc, MutexGuard},
};

/// The space that a batch needs, and the state of the log.
struct Needed {
    active: Arc<Segment>,
    capacity: u64,
    end: u64,
    position: u64,
    last_time_ms: u64,
    /// Whether the active segment's file may be extended.
    may_extend: bool,
    /// The length that the active segment's file would need.
    active_bytes: u64,
    /// The length that a new segment would need.
    fresh_bytes: u64,
}

/// The space that was made.
enum Room {
    /// The active segment may be filled up to here; and whether the device had no space for more.
    Extended(u64, bool),
    Turned(Made),
}

impl Shared {
    /// Extends the active segment or rotates to a new one. No batch is staged or being written.
    pub(crate) fn rotate_or_wait(
        &self,
        writer: MutexGuard<'_, Writer>,
        prepared: &Prepared,
    ) -> Result<()> {
        let batch_bytes = prepared.bytes_max + prepared.index_bytes_max;
        let needed = Needed {
            active: writer.active.clone(),
            capacity: writer.capacity,
            end: writer.end,
            position: writer.next_position,
            last_time_ms: writer.last_time_ms,
            may_extend: writer.extendable && writer.time_fits(self.options.host.now_ms()),
            active_bytes: writer.end + writer.index_bytes + batch_bytes + SLACK_BYTES,
            fresh_bytes: DATA_START + batch_bytes + 2 * SLACK_BYTES,
        };
        self.make_room(writer, &needed)
    }

    /// Rotates to a new segment, if the active one has any record, so that the old one is sealed and can be compacted.
    pub(crate) fn turn(&self) -> Result<()> {
        loop {
            self.flush(false)?;
            let writer = self.writer()?;
            writer.phase.check()?;
            if let Some(group) = self.blocking_group(&writer) {
                drop(writer);
                let _ = self.wait(&group);
                continue;
            }
            if writer.open.is_some() {
                self.lead(writer);
                continue;
            }
            if writer.unproven_end.is_some() {
                self.flush_written(writer)?;
                continue;
            }
            if self.durable().active_index.records() == 0 {
                return Ok(());
            }
            let needed = Needed {
                active: writer.active.clone(),
                capacity: writer.capacity,
                end: writer.end,
                position: writer.next_position,
                last_time_ms: writer.last_time_ms,
                may_extend: false,
                active_bytes: 0,
                fresh_bytes: DATA_START + 2 * SLACK_BYTES,
            };
            self.make_room(writer, &needed)?;
            // The next append may come much later, and the old segment's file may be gone by then, so publish the new
            // one now.
            let durable = self.durable();
            let (end, position) = (durable.end, durable.next_position - 1);
            let active = durable.active().map(|active| active.id());
            drop(durable);
            self.write_watermark(active.unwrap_or_default(), end, position);
            return Ok(());
        }
    }

    fn make_room(&self, mut writer: MutexGuard<'_, Writer>, needed: &Needed) -> Result<()> {
        assert!(writer.open.is_none(), "room is made while a group gathers");
        writer.phase.start_making_room();
        let guard = WriteGuard::new(self);
        let is_unsynced = writer.synced_end < writer.written_end;
        drop(writer);
        // Extending or sealing the active segment's file ends in a flush. If that flush failed, it would be unknown
        // which bytes were lost; so written records are flushed first, by a flush of their own.
        let flushed = if is_unsynced {
            needed.active.flush().map_err(Failure::Poisoning)
        } else {
            Ok(())
        };
        let is_flushed = flushed.is_ok();
        let made = flushed.and_then(|()| self.extend_or_turn(needed));
        let mut writer = self.writer()?;
        if is_flushed {
            writer.flushed(needed.end);
        }
        let (result, save_checkpoint) = match made {
            Ok(Room::Extended(capacity, is_short)) => {
                (writer.capacity, writer.extendable) = (capacity, is_short);
                (Ok(()), false)
            }
            Ok(Room::Turned(made)) => {
                writer.switch_to(made.segment, made.capacity);
                writer.extendable = made.is_short;
                let save_checkpoint = writer.ask_for_checkpoint(DATA_START, self.checkpoint_step());
                (Ok(()), save_checkpoint)
            }
            Err(Failure::Harmless(error)) => (Err(error), false),
            Err(Failure::Poisoning(error)) => {
                self.fail(writer, guard, &error);
                return Err(error);
            }
        };
        guard.end();
        let waiters = writer.phase.end().settle(Ok(()));
        drop(writer);
        waiters.wake();
        let drop_dead = match &result {
            // Whichever is asked first, the other one's answer is spent, too.
            Ok(()) => self.is_dead_left() | self.may_have_dead(),
            // On a full device dead segments are the room that is missing. That is tried once for what was given up: each
            // append that is refused asks.
            Err(error) => error.kind() == ErrorKind::StorageFull && self.may_have_dead(),
        };
        if save_checkpoint || drop_dead {
            self.keep(MaintenanceTasks {
                save_checkpoint,
                drop_dead,
                ..MaintenanceTasks::default()
            });
        }
        result
    }

    fn extend_or_turn(&self, needed: &Needed) -> std::result::Result<Room, Failure> {
        if needed.may_extend && needed.active_bytes <= self.options.segment_bytes_max {
            return self.extend(needed);
        }
        if needed.position > limits::BASE_POSITION_MAX {
            return Err(Failure::Harmless(Error::too_large(format!(
                "the log has come to position {}, and no record may have one above {}: export it into a new store",
                needed.position - 1,
                limits::POSITION_MAX
            ))));
        }
        if needed.active.id().0 == u32::MAX {
            return Err(Failure::Harmless(Error::too_large(format!(
                "{} is the last segment that a store can have: export it into a new store",
                needed.active.name
            ))));
        }
        let header = self.next_header(
            &needed.active,
            needed.end,
            needed.position,
            needed.last_time_ms,
        );
        self.rotate_to(&needed.active, header, needed.end, needed.fresh_bytes)
            .map(Room::Turned)
    }

    /// Extends the active segment's file: by the usual step of a small store, or if the device has no space for that,
    /// by what the batch needs.
    fn extend(&self, needed: &Needed) -> std::result::Result<Room, Failure> {
        let from = needed.capacity.max(needed.end);
        let usual = (from + FIRST_SEGMENT_BYTES)
            .max(needed.active_bytes)
            .min(self.options.segment_bytes_max);
        let mut to = usual;
        let mut extended = self.allocate(&*needed.active.file, from, to);
        if extended.as_ref().is_err_and(is_full) {
            // The spare segment may have taken the last space, or be about to.
            self.give_up_spare();
            to = needed.active_bytes;
            extended = self.allocate(&*needed.active.file, from, to);
        }
        extended
            .map(|()| Room::Extended(to, to < usual))
            .map_err(|error| {
                let is_full = is_full(&error);
                let error = self.no_room(error, &needed.active.name, from, to);
                if is_full {
                    Failure::Harmless(error)
                } else {
                    Failure::Poisoning(error)
                }
            })
    }
}
