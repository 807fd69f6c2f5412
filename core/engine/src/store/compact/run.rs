//! Doing a compaction: pack by pack.

use std::ops::ControlFlow;

use super::{
    gather::{Gathered, Gatherer, pack_header},
    place::Made,
    plan::{Published, Range, Stand},
    sample::sample,
    throttle::{Outcome, Stopped, Throttle},
    work::Work,
};
use crate::{
    Codec, CompactOptions, CompactProgress, CompactScope, Compaction, Error, ErrorKind,
    OnCompactProgress, Result,
    format::{
        files::{self, SegmentFile},
        pack::Encoding,
        segment::{DATA_START, Header},
    },
    log::{
        codec, dictionary, pack::DICTIONARY_COPIES, pack_writer::PackWriter, scan::Scan,
        segment::Segment,
    },
    storage::{Access, IoContext},
    store::commit::shared::{Packing, Shared},
    sync::{self, Arc, MutexGuard},
};

impl Shared {
    /// Does a compaction, or says what it would do.
    pub(crate) fn compact(
        &self,
        options: CompactOptions,
        tell: &mut OnCompactProgress<'_>,
    ) -> Result<Compaction> {
        self.check_process()?;
        if options.dry_run {
            self.refresh()?;
            // A reader's files may be replaced meanwhile by the packs of a writer in another process.
            return self.past_packs(|| self.plan_compaction(options.scope));
        }
        drop(self.writer()?);
        let mut packing = self.start_packing()?;
        self.settle(&mut packing)?;
        let mut done = Compaction::default();
        if options.scope < CompactScope::All {
            return self.rewrite(options, tell, &mut packing, done);
        }
        let mut reported = CompactProgress::default();
        if let Err(error) = self.turn() {
            if error.kind() != ErrorKind::StorageFull {
                return Err(error);
            }
            // What is sealed may give back the room that the index of the active segment needs.
            let scope = CompactScope::Sealed;
            let mut tell = |progress: CompactProgress| {
                reported = progress;
                tell(progress)
            };
            done = self.rewrite(
                CompactOptions { scope, ..options },
                &mut tell,
                &mut packing,
                done,
            )?;
            if done.is_cancelled {
                return Ok(done);
            }
            self.turn()?;
        }
        let mut tell = |progress: CompactProgress| {
            tell(CompactProgress {
                bytes_done: reported.bytes_done + progress.bytes_done,
                bytes_total: reported.bytes_total + progress.bytes_total,
            })
        };
        self.rewrite(options, &mut tell, &mut packing, done)
    }

    /// Rewrites what is sealed, and adds that to what was done before.
    fn rewrite(
        &self,
        options: CompactOptions,
        tell: &mut OnCompactProgress<'_>,
        packing: &mut Packing,
        before: Compaction,
    ) -> Result<Compaction> {
        let mut stand = self.stand();
        // What nobody refers to was given up by records that may not be durable yet. They have to be before it is.
        self.flush(true)?;
        let (ranges, left) = self.choose(&mut stand, options.scope)?;
        let done = Compaction {
            segments_left: left.segments_left,
            segments_damaged: left.segments_damaged,
            ..before
        };
        let mut work = Work::new(options.scope, stand, ranges, done);
        // A checkpoint that ends in what is replaced would be of no use to the next opening.
        let saved = self.saved().end;
        if saved.is_none_or(|(id, _)| work.replaces(id)) && !work.ranges.is_empty() {
            // Without it that takes longer.
            let _ = self.save_checkpoint();
        }
        // A close waits for it.
        let mut tell = |progress: CompactProgress| match self.is_packing_over() {
            true => ControlFlow::Break(()),
            false => tell(progress),
        };
        let mut throttle = Throttle::new(
            &*self.options.host,
            options.bytes_per_second,
            work.bytes(),
            &mut tell,
        );
        match self.pack_all(&mut work, encoding(options.codec), &mut throttle, packing) {
            Ok(()) => {}
            Err(Stopped::Failed(error)) => return Err(error),
            // Of damage that ends it, as of being cancelled, what was done until then tells.
            Err(Stopped::Cancelled | Stopped::Damaged(_)) => work.done.is_cancelled = true,
        }
        // What an earlier one couldn't remove may have what was to be erased.
        let removed = self
            .remove_removable(packing)
            .and_then(|()| self.flush_removals(packing));
        if let Some(error) = work.without_room() {
            return Err(error);
        }
        removed?;
        if !work.done.is_cancelled {
            throttle.end();
        }
        Ok(work.done)
    }

    /// Makes a pack of each range, until nothing is left but what finds no room.
    fn pack_all(
        &self,
        work: &mut Work,
        encoding: Encoding,
        throttle: &mut Throttle<'_>,
        packing: &mut Packing,
    ) -> Outcome<()> {
        while let Some(range) = work.ranges.pop_front() {
            let bytes_done = throttle.bytes_done();
            let sources = &work.stand.segments[range.first..range.end];
            let packed = self
                .make_pack(&work.stand, &range, encoding, throttle, packing)
                .and_then(|made| Ok(self.put_in_place(sources, made, packing)?));
            match packed {
                Ok(packed) => {
                    work.packed(&range, &packed);
                    // What fails from here on isn't tried again in parts: the sources may be none any more.
                    self.remove_removable(packing)?;
                    if packed.bytes_after < packed.bytes_before {
                        work.try_waiting()?;
                    }
                }
                Err(Stopped::Damaged(place)) => {
                    work.leave_damaged(&range, place, bytes_done, throttle)?;
                }
                Err(Stopped::Failed(error))
                    if error.kind() == ErrorKind::StorageFull && packing.unsettled.is_none() =>
                {
                    throttle.begin_again(bytes_done, 0);
                    // The spare segment may have taken the last space. The next one is made for another segment.
                    match self.give_up_spare() {
                        true => work.ranges.push_front(range),
                        false => work.found_no_room(range, error)?,
                    }
                }
                Err(stopped) => return Err(stopped),
            }
        }
        Ok(())
    }

    /// Gives the place of segments of which nothing is in use back, as it is done by itself from time to time.
    pub(crate) fn compact_dead(&self) -> Result<Compaction> {
        if self.packing.try_lock().is_err() {
            return Ok(Compaction::default());
        }
        let options = CompactOptions {
            scope: CompactScope::Dead,
            ..CompactOptions::default()
        };
        self.compact(options, &mut |_| ControlFlow::Continue(()))
    }

    /// Only one compaction at a time: another one, or a backup, is waited for.
    fn start_packing(&self) -> Result<MutexGuard<'_, Packing>> {
        let packing = sync::lock(&self.packing);
        match self.is_packing_over() {
            true => Err(Error::new(ErrorKind::Closed, "the store is closed")),
            false => Ok(packing),
        }
    }

    fn stand(&self) -> Stand {
        let published = {
            let durable = self.durable();
            Published::of(&durable, || self.views_in_use())
        };
        Stand::of(published)
    }

    /// What is to be packed together, and what is left as it is.
    fn choose(&self, stand: &mut Stand, scope: CompactScope) -> Result<(Vec<Range>, Compaction)> {
        if scope >= CompactScope::Sealed {
            stand.find_unerased(&self.durable)?;
        }
        let ranges = stand.ranges(scope)?;
        let mut done = Compaction::default();
        if scope != CompactScope::Dead {
            (done.segments_left, done.segments_damaged) = stand.left()?;
        }
        Ok((ranges, done))
    }

    /// What a compaction would do.
    fn plan_compaction(&self, scope: CompactScope) -> Result<Compaction> {
        // Nothing is replaced meanwhile by this process.
        let _packing = self.start_packing()?;
        let mut stand = self.stand();
        let (ranges, mut done) = self.choose(&mut stand, scope)?;
        let active = stand.active().filter(|_| scope == CompactScope::All);
        for range in ranges.iter().chain(&active) {
            done.files_before += (range.end - range.first) as u64;
            done.files_after += 1;
            let mut bytes = 0;
            for segment in &stand.segments[range.first..range.end] {
                // The file of the active one has room for more.
                bytes += match segment.trailer() {
                    Some(_) => segment.stored_bytes()?,
                    None => DATA_START + stand.active_bytes,
                };
            }
            done.bytes_before += bytes;
            done.bytes_after += (stand.bytes_left(range)? + DATA_START).min(bytes);
            done.records_dropped += stand.dead_in(range)?;
            done.payloads_erased += stand.unerased_in(range);
        }
        Ok(done)
    }

    /// Makes the file of one pack, under a name that isn't part of the store, and reads it back.
    fn make_pack(
        &self,
        stand: &Stand,
        range: &Range,
        encoding: Encoding,
        throttle: &mut Throttle<'_>,
        packing: &mut Packing,
    ) -> Outcome<Made> {
        throttle.tell()?;
        let sources = &stand.segments[range.first..range.end];
        let next = &stand.segments[range.end].header;
        let (mut salt, mut uuid) = ([0; 4], [0; 16]);
        self.options.host.random(&mut salt);
        self.options.host.random(&mut uuid);
        let lost = || Error::new(ErrorKind::TooLarge, "these segments were packed too often");
        let header = pack_header(sources, next, u32::from_le_bytes(salt), uuid).ok_or_else(lost)?;
        let file = SegmentFile {
            first: header.segment,
            last: header.last_segment(),
            generation: header.generation(),
        };
        let unfinished = format!("{}{}", file.name(), files::UNFINISHED);
        let made = self
            .write_pack(stand, sources, header, encoding, &unfinished, throttle)
            .and_then(|gathered| {
                // Read back before anything is given up for it.
                self.check_pack(file, &unfinished)?;
                Ok(gathered)
            });
        let gathered = made.inspect_err(|_| {
            self.give_up_unfinished(&unfinished, packing);
        })?;
        Ok(Made {
            file,
            unfinished,
            gathered,
        })
    }

    /// Writes the file of a pack, whole and durable, under a name that isn't part of the store.
    fn write_pack(
        &self,
        stand: &Stand,
        sources: &[Arc<Segment>],
        header: Header,
        encoding: Encoding,
        unfinished: &str,
        throttle: &mut Throttle<'_>,
    ) -> Outcome<Gathered> {
        let file = self
            .storage
            .create(unfinished)
            .with_context(|| format!("making {unfinished}"))?;
        let dictionary = match encoding {
            Encoding::Zstd => {
                let samples = sample(stand, sources, throttle)?;
                dictionary::train(&samples, DICTIONARY_COPIES as u64)
            }
            _ => None,
        };
        let header = match dictionary {
            Some(_) => header.with_dictionary(),
            None => header,
        };
        let writer = PackWriter::new(file, header, encoding, dictionary.as_deref())
            .with_context(|| format!("writing {unfinished}"))?;
        Gatherer::new(stand, sources, Some(writer), header, unfinished, throttle).write()
    }

    /// Reads every record of the file of a pack.
    fn check_pack(&self, file: SegmentFile, unfinished: &str) -> Result<()> {
        let store = &self.identity.store;
        let pack = Segment::open_as(&*self.storage, file, unfinished, Access::Read, store)?;
        let (Some(trailer), Some(_)) = (pack.trailer(), pack.block()?) else {
            return Err(pack.damaged(0, "what was just written has no index"));
        };
        if let Some(damaged) = pack.image().and_then(|image| image.damaged_table()) {
            return Err(pack.damaged(trailer.data_end, &damaged.why));
        }
        let mut scan = Scan::of_file(&pack, DATA_START, trailer.data_end);
        let mut records = 0;
        while let Some(frame) = scan.next_of_any_kind()? {
            records += u32::from(frame.header.has_position());
        }
        if records != trailer.records {
            let message = format!("{records} records read back, of {}", trailer.records);
            return Err(pack.damaged(0, message));
        }
        Ok(())
    }
}

/// The best that this build can do.
fn encoding(codec: Codec) -> Encoding {
    match codec {
        Codec::Plain => Encoding::Raw,
        Codec::Zstd if codec::can_encode(Encoding::Zstd) => Encoding::Zstd,
        Codec::Lz4 | Codec::Zstd => Encoding::Lz4,
    }
}
