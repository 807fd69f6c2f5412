//! Putting a finished pack in the place of its segments, and what of that is left to a later compaction.

use std::cell::OnceCell;

use super::gather::Gathered;
use crate::{
    Error, Result,
    format::files::SegmentFile,
    log::segment::Segment,
    storage::{Access, IoContext},
    store::commit::shared::{Packing, Shared, Unsettled},
    sync::{self, Arc},
};

/// The file of a pack, whole and durable, without its name.
pub(super) struct Made {
    pub(super) file: SegmentFile,
    pub(super) unfinished: String,
    pub(super) gathered: Gathered,
}

/// What came of one pack.
pub(super) struct Packed {
    pub(super) pack: Arc<Segment>,
    pub(super) files: u64,
    pub(super) bytes_before: u64,
    pub(super) bytes_after: u64,
    pub(super) gathered: Gathered,
}

impl Shared {
    /// Does what earlier compactions had to leave undone.
    pub(super) fn settle(&self, packing: &mut Packing) -> Result<()> {
        if let Some(Unsettled { name, error }) = &packing.unsettled {
            self.unname(name).map_err(|_| {
                let message = format!(
                    "an earlier compaction failed, and it isn't known what of it is durable: {error}; compact again once \
                     that can be mended, or open the store again"
                );
                Error::with_source(error.kind(), message, error.clone())
            })?;
            packing.unsettled = None;
        }
        // What still can't be removed costs room, and no more.
        let _ = self.remove_removable(packing);
        Ok(())
    }

    /// Puts a pack in the place of its segments, whose files are to be removed then. If that fails the segments stay where
    /// they are, and the pack is gone, or left unsettled.
    pub(super) fn put_in_place(
        &self,
        sources: &[Arc<Segment>],
        made: Made,
        packing: &mut Packing,
    ) -> Result<Packed> {
        let name = made.file.name();
        let named = || {
            let bytes_before = sources.iter().map(|source| source.stored_bytes());
            let bytes_before = bytes_before.sum::<Result<u64>>()?;
            let pack = self.name_pack(&made)?;
            let bytes_after = pack.stored_bytes()?;
            Ok((pack, bytes_before, bytes_after))
        };
        let (pack, bytes_before, bytes_after) = named().inspect_err(|error: &Error| {
            self.give_up_unfinished(&made.unfinished, packing);
            // A pack that may come up after a crash must not be overlapped by another one. It has replaced nothing yet, so
            // that it can be given up.
            if self.unname(&name).is_err() {
                let error = error.clone();
                packing.unsettled = Some(Unsettled { name, error });
            }
        })?;
        let mut durable = sync::write(&self.durable);
        let first = durable
            .segments
            .partition_point(|segment| segment.id() < pack.id());
        durable
            .segments
            .splice(first..first + sources.len(), [pack.clone()]);
        drop(durable);
        self.tell_replacement();
        packing
            .removable
            .extend(sources.iter().map(|source| source.name.clone()));
        Ok(Packed {
            files: sources.len() as u64,
            bytes_before,
            bytes_after,
            pack,
            gathered: made.gathered,
        })
    }

    /// Gives a pack its name, durably. From then on it counts for who opens the store.
    fn name_pack(&self, made: &Made) -> Result<Arc<Segment>> {
        let name = made.file.name();
        let place = |what: &str| format!("{}: {what} {name}", self.storage.describe());
        self.storage
            .rename(&made.unfinished, &name)
            .with_context(|| place("naming"))?;
        self.storage
            .sync_dir()
            .with_context(|| place("flushing the folder with"))?;
        // A store is opened with a pack of which nothing can be read; none is put in the place of segments that can.
        let pack = Segment::open_file(
            &*self.storage,
            made.file,
            Access::Read,
            &self.identity.store,
        )?;
        match pack.index_error() {
            None => Ok(Arc::new(pack)),
            Some(error) => Err(error),
        }
    }

    /// Takes a pack that replaced nothing out of the folder again, so that it doesn't come up after a crash either.
    fn unname(&self, name: &str) -> Result<()> {
        let of_folder = || self.storage.describe();
        let names = self.storage.list().with_context(of_folder)?;
        if names.iter().any(|listed| listed == name) {
            self.storage.remove(name).with_context(of_folder)?;
        }
        // Its name may have been on its way to the device, whatever a rename that failed said.
        self.storage.sync_dir().with_context(of_folder)
    }

    /// Removes the file of a pack that failed. It is no part of the store, but has records of it, which may be erased later.
    pub(super) fn give_up_unfinished(&self, name: &str, packing: &mut Packing) {
        match self.storage.remove(name) {
            Ok(()) => packing.has_removed = true,
            // That is reported once the compaction ends, unless it wasn't even made.
            Err(_) => packing.removable.push(name.to_owned()),
        }
    }

    /// Makes durable that files were removed.
    pub(super) fn flush_removals(&self, packing: &mut Packing) -> Result<()> {
        if packing.has_removed {
            self.storage
                .sync_dir()
                .with_context(|| format!("flushing {}", self.storage.describe()))?;
        }
        packing.has_removed = false;
        Ok(())
    }

    /// Removes the files whose place packs took, and unfinished packs; those that can't be removed are left to the next
    /// compaction, or to the next writer.
    pub(super) fn remove_removable(&self, packing: &mut Packing) -> Result<()> {
        // An unfinished pack may not even have been made. What can't be looked up counts as there.
        let listed = OnceCell::new();
        let is_there = |name: &String| match listed.get_or_init(|| self.storage.list()) {
            Ok(names) => names.contains(name),
            Err(_) => true,
        };
        let mut failed = None;
        let Packing {
            removable,
            has_removed,
            ..
        } = packing;
        removable.retain(|name| match self.storage.remove(name) {
            Err(error) if is_there(name) => {
                let what = format!("removing {name}, which isn't part of the store any more");
                failed.get_or_insert_with(|| Error::from_io(error, what));
                true
            }
            _ => {
                *has_removed = true;
                false
            }
        });
        failed.map_or(Ok(()), Err)
    }
}
