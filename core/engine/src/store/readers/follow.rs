//! Following a writer in another process: a reader polls the watermark file, and applies the records published since.

use std::{ops::Range, task::Poll};

use crate::{
    Error, ErrorKind, Position, Result, SegmentId,
    format::{
        files::{SegmentFile, Watermark},
        segment::DATA_START,
    },
    index::memory::MemoryIndex,
    log::segment::Segment,
    storage::Access,
    store::{
        commit::shared::{Following, Shared},
        files::watermark,
        open::beside::load_beside_a_writer,
        published::batches::scan_batches,
        segments::chain::segment_files,
    },
    sync::{self, Arc},
};

/// How many times in a row a read retries because a pack replaced its segment, before it fails.
const RENEWALS_MAX: u32 = 8;

impl Shared {
    /// Applies the records that a writer in another process published since the last refresh. On the writer itself it
    /// flushes at deadlines that no thread watches.
    pub(crate) fn refresh(&self) -> Result<()> {
        let Some(follower) = &self.follower else {
            self.flush_if_due();
            return Ok(());
        };
        // The file is read without the lock, by threads in parallel. A thread with an older watermark than the one
        // already applied has nothing to apply.
        let open = sync::lock(follower).file.file();
        let looked = open.map(|file| watermark::look(&*file)).transpose()?;
        let mut state = sync::lock(follower);
        let (storage, store) = (&*self.storage, &self.identity.store);
        let found = match looked {
            Some(Ok(found)) => state.file.seen(found, store, &self.boot),
            _ => state.file.open(storage, store, &self.boot)?,
        };
        let Some(watermark) = found.filter(|found| state.seen.as_ref() != Some(found)) else {
            return Ok(());
        };
        match self.follow_to(&watermark) {
            // A pack has replaced a segment that this reader had not read to its end yet.
            Err(error) if Segment::is_gone(&error) => self.reload(&mut state)?,
            followed => {
                followed?;
                let known = state.seen.map(|seen| seen.replacements);
                let has_all = known == Some(watermark.replacements) || self.take_packs(&mut state);
                // The next refresh tries again what it couldn't take.
                let replacements = match has_all {
                    true => watermark.replacements,
                    false => watermark.replacements.wrapping_sub(1),
                };
                state.seen = Some(Watermark {
                    replacements,
                    ..watermark
                });
            }
        }
        self.watch.advance(self.durable().next_position - 1);
        Ok(())
    }

    /// Polls for a record after one that was seen. `look` returns the last position if there is one, and registers the
    /// task otherwise.
    pub(crate) fn poll_past(
        &self,
        mut look: impl FnMut() -> Option<u64>,
    ) -> Poll<Result<Position>> {
        // What a reader reads may be let go of with its close.
        if !self.is_closed()
            && let Err(error) = self.refresh()
        {
            return Poll::Ready(Err(error));
        }
        loop {
            // Loaded before the position: nothing is published after a close, so the position then is the last.
            let is_closed = self.is_closed();
            if let Some(position) = look() {
                return Poll::Ready(Ok(Position(position)));
            }
            if is_closed {
                return Poll::Ready(Err(Error::new(ErrorKind::Closed, "the store is closed")));
            }
            // Checked again after the task is registered, since a close before that didn't wake it.
            if !self.is_closed() {
                return Poll::Pending;
            }
        }
    }

    /// Runs a read, and repeats it from the pack if a pack replaced the file that it read.
    pub(crate) fn past_packs<T>(&self, mut read: impl FnMut() -> Result<T>) -> Result<T> {
        for _ in 0..RENEWALS_MAX {
            match read() {
                Err(error) if Segment::is_gone(&error) => self.renew()?,
                done => return done,
            }
        }
        read()
    }

    /// Reloads the segments of a reader, if a writer in another process has replaced some by packs. The writer itself
    /// is up to date.
    pub(crate) fn renew(&self) -> Result<()> {
        let Some(follower) = &self.follower else {
            return Ok(());
        };
        let mut state = sync::lock(follower);
        self.reload(&mut state)
    }

    fn reload(&self, state: &mut Following) -> Result<()> {
        let (loaded, seen) = load_beside_a_writer(&*self.storage, &self.identity)?;
        let mut durable = sync::write(&self.durable);
        // Never goes back to an earlier state than readers have seen.
        if loaded.durable.next_position >= durable.next_position {
            *durable = loaded.durable;
            state.seen = seen;
        }
        let last = durable.next_position - 1;
        drop(durable);
        // The next refresh finds nothing newer than this, so nobody else would tell who waits for it.
        self.watch.advance(last);
        Ok(())
    }

    /// Puts packs of the folder in the place of the segments that they replace, as the writer did, so that the files of these
    /// are closed: an open file goes on taking room, and has what was given up. Returns whether each was taken. Those
    /// that weren't are read from the files that are open, or loaded once these are gone.
    fn take_packs(&self, state: &mut Following) -> bool {
        match self.take_packs_found() {
            Ok(()) => true,
            Err(error) if Segment::is_gone(&error) => self.reload(state).is_ok(),
            Err(_) => false,
        }
    }

    fn take_packs_found(&self) -> Result<()> {
        let files = segment_files(&*self.storage)?.current;
        for file in files.into_iter().filter(|file| file.generation != 0) {
            if replaced_by(&self.durable().segments, &file).is_none() {
                continue;
            }
            let store = &self.identity.store;
            let pack = Segment::open_file(&*self.storage, file, Access::Read, store)?;
            if let Some(error) = pack.index_error() {
                return Err(error);
            }
            // Only a refresh changes the segments of a reader, and it has the lock of the follower.
            let mut durable = sync::write(&self.durable);
            if let Some(range) = replaced_by(&durable.segments, &file) {
                durable.segments.splice(range, [Arc::new(pack)]);
            }
        }
        Ok(())
    }

    fn follow_to(&self, watermark: &Watermark) -> Result<()> {
        let mut durable = sync::write(&self.durable);
        loop {
            let Some(active) = durable.active().cloned() else {
                // The store had no segment yet when it was opened.
                let first = self.open_active(SegmentId(1))?;
                durable.segments.push(Arc::new(first));
                continue;
            };
            let from = durable.end;
            if active.id() >= watermark.segment {
                if watermark.offset > from && active.id() == watermark.segment {
                    scan_batches(&mut durable, &active, from, watermark.offset)?;
                    check_end(&active, durable.end, watermark.offset)?;
                }
                return Ok(());
            }
            let sealed = Segment::open(
                &*self.storage,
                active.id(),
                Access::Read,
                &self.identity.store,
            )?;
            let Some(end) = sealed.trailer().map(|trailer| trailer.data_end) else {
                return Err(sealed.damaged(
                    from,
                    "the writer went on to the next segment, but this one is not sealed",
                ));
            };
            scan_batches(&mut durable, &active, from, end)?;
            check_end(&active, durable.end, end)?;
            let next = SegmentId(active.last_id().0.saturating_add(1));
            let next = self.open_active(next)?;
            let base_position = next.header.base_position;
            if let Some(last) = durable.segments.last_mut() {
                *last = Arc::new(sealed);
            }
            durable.segments.push(Arc::new(next));
            durable.active_index = MemoryIndex::default();
            durable.end = DATA_START;
            durable.next_position = durable.next_position.max(base_position);
        }
    }

    /// Opens the segment that a reader has yet to read. The writer may have sealed it since the watermark was read: then it
    /// isn't read to its end, so for this reader it counts as unsealed until the next refresh.
    fn open_active(&self, id: SegmentId) -> Result<Segment> {
        let found = Segment::open(&*self.storage, id, Access::Read, &self.identity.store)?;
        Ok(Segment::unsealed(found.header, found.file))
    }
}

/// Which sealed segments a pack replaces, all of them known here; `None` if it is known itself.
fn replaced_by(segments: &[Arc<Segment>], pack: &SegmentFile) -> Option<Range<usize>> {
    let (_active, sealed) = segments.split_last()?;
    let first = sealed.partition_point(|segment| segment.id() < pack.first);
    let end = sealed.partition_point(|segment| segment.last_id() <= pack.last);
    let replaced = sealed.get(first..end)?;
    let covers = replaced.first()?.id() == pack.first && replaced.last()?.last_id() == pack.last;
    let is_new = replaced.len() > 1 || replaced.first()?.name != pack.name();
    (covers && is_new).then_some(first..end)
}

fn check_end(segment: &Segment, end: u64, expected: u64) -> Result<()> {
    if end == expected {
        return Ok(());
    }
    let error: Error = segment.damaged(
        end,
        format!("records end here, but the writer published up to {expected}"),
    );
    Err(error)
}

#[cfg(test)]
#[path = "follow_tests.rs"]
mod tests;
