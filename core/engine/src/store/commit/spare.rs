//! The spare: the preallocated file of the next segment.

use super::new_segment::FIRST_SEGMENT_BYTES;
use super::shared::{Shared, Spare};
use crate::{
    SegmentId,
    format::files,
    storage::{Allocation, File},
    sync::{self, Arc, MutexGuard},
};

impl Shared {
    /// The spare, after waiting for one that is being made.
    fn made_spare(&self) -> MutexGuard<'_, Spare> {
        let is_making = |spare: &mut Spare| matches!(spare, Spare::Making);
        sync::wait_while(&self.spare_changed, sync::lock(&self.spare), is_making)
    }

    /// The spare, if there is one that is large enough. It gets another name before the maintenance thread can make the
    /// next one under its old name.
    pub(super) fn take_spare(&self, needed: u64, name: &str) -> (Option<Arc<dyn File>>, u64) {
        let mut spare = self.made_spare();
        match std::mem::take(&mut *spare) {
            Spare::Ready(file, capacity)
                if capacity >= needed && self.storage.rename(files::SPARE, name).is_ok() =>
            {
                (Some(file), capacity)
            }
            Spare::Ready(..) => {
                self.remove_spare();
                (None, 0)
            }
            _ => (None, 0),
        }
    }

    /// Frees the spare's space, including one that is being made: appends and compactions have priority. Returns whether
    /// there was one.
    pub(crate) fn give_up_spare(&self) -> bool {
        let mut spare = self.made_spare();
        let is_there = matches!(&*spare, Spare::Ready(..));
        if is_there {
            *spare = Spare::None;
            self.remove_spare();
        }
        is_there
    }

    /// It is not part of the store. If it can't be removed now, the next open removes it.
    fn remove_spare(&self) {
        let _ = self.storage.remove(files::SPARE);
    }

    /// Removes the spare, and prevents further ones.
    pub(crate) fn end_spares(&self) {
        let mut spare = self.made_spare();
        if let Spare::Ready(..) = std::mem::replace(&mut *spare, Spare::Over) {
            self.remove_spare();
        }
    }

    /// Preallocates the next segment. A failure only costs time later.
    pub(crate) fn make_spare(&self) {
        if self.allocation() != Some(Allocation::ZeroFill) {
            return;
        }
        match &mut *sync::lock(&self.spare) {
            spare @ Spare::None => *spare = Spare::Making,
            Spare::Making | Spare::Ready(..) | Spare::Over => return,
        }
        let active = self.durable().active().map(|active| active.id());
        let capacity = active.map_or(FIRST_SEGMENT_BYTES, |id| {
            let end = self.durable().end;
            self.segment_bytes(SegmentId(id.0.saturating_add(1)), end.next_power_of_two())
        });
        let made = self
            .storage
            .create(files::SPARE)
            .ok()
            .filter(|file| self.allocate(&**file, 0, capacity).is_ok());
        *sync::lock(&self.spare) = match made {
            Some(file) => Spare::Ready(file, capacity),
            None => {
                self.remove_spare();
                Spare::None
            }
        };
        self.spare_changed.notify_all();
    }
}
