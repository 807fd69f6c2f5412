//! The spare: the space of the next segment, made ahead of need.

use super::new_segment::FIRST_SEGMENT_BYTES;
use super::shared::{Shared, Spare};
use crate::{
    SegmentId,
    format::files,
    storage::{Allocation, File},
    sync::{self, Arc, MutexGuard},
};

impl Shared {
    /// The spare, once none is being made.
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

    /// It is no part of the store. If it can't be removed now, the next opening removes it.
    fn remove_spare(&self) {
        let _ = self.storage.remove(files::SPARE);
    }

    /// No spare is made from now on, and there is none.
    pub(crate) fn end_spares(&self) {
        let mut spare = self.made_spare();
        if let Spare::Ready(..) = std::mem::replace(&mut *spare, Spare::Over) {
            self.remove_spare();
        }
    }

    /// Makes the next segment's space ahead of need. A failure costs time later, nothing else.
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
            self.segment_bytes(SegmentId(id.0 + 1), end.next_power_of_two())
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
