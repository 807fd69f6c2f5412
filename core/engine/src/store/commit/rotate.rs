//! Making room for a batch: a longer file, or a new segment (rotation).
//!
//! Rotation has to survive a crash between any two of its steps. Their order makes each state in between recognisable:
//!
//! 1. Flush the active segment. The next one's header says where its records end, and that must be true.
//! 2. Reserve room for its index block. Once the next segment has its name, a full device would come too late.
//! 3. Make the next segment and flush its name. From here on nothing is appended to the old one, whether or not the name
//!    survives.
//! 4. Write the index block behind the old segment's records. If a crash comes first, the next opening makes the same block
//!    from the records, and knows it by the CRC that the new header names.

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

/// What room is made for, and where the log stands.
struct Needed {
    active: Arc<Segment>,
    capacity: u64,
    end: u64,
    position: u64,
    last_time_ms: u64,
    /// Whether the active segment may go on in a longer file.
    may_extend: bool,
    /// Up to where the active segment would have to go.
    active_bytes: u64,
    /// How long a new segment has to be.
    fresh_bytes: u64,
}

/// The room that was made.
enum Room {
    /// The active segment may be filled up to here; and whether there was no room for more.
    Extended(u64, bool),
    Turned(Made),
}

impl Shared {
    /// Makes room in the active segment or rotates to a new one. Nothing is being written, and nothing is staged.
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

    /// Begins a new segment, if the active one has any record, so that this one is no longer written to.
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
            // What comes may be long in coming, and the segment before may be gone by then.
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
        // Whatever is done to the active segment's file ends in a flush. If that one failed, nothing could tell which bytes it
        // concerned; so what was only written is flushed before, by a flush of its own.
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
        let drop_dead = result.is_ok() && self.may_have_dead();
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
            return Err(Failure::Harmless(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the log has come to position {}, and no record may have one above {}: export it into a new store",
                    needed.position - 1,
                    limits::POSITION_MAX
                ),
            )));
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

    /// Makes the active segment's file longer: by as much as a small store usually grows, or if there is no room for that,
    /// by what the batch needs.
    fn extend(&self, needed: &Needed) -> std::result::Result<Room, Failure> {
        let from = needed.capacity.max(needed.end);
        let usual = (from + FIRST_SEGMENT_BYTES)
            .max(needed.active_bytes)
            .min(self.options.segment_bytes_max);
        let mut to = usual;
        let mut extended = self.allocate(&*needed.active.file, from, to);
        if extended.as_ref().is_err_and(is_full) && needed.active_bytes < usual {
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
