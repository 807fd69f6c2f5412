//! Doing a compaction: pack by pack.

use std::{collections::VecDeque, ops::ControlFlow};

use super::{
    gather::{Gathered, Gatherer, pack_header},
    plan::{Published, Range, Stand},
    sample::sample,
    throttle::{Outcome, Stopped, Throttle},
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
        let mut done = Compaction::default();
        if options.scope < CompactScope::All {
            return self.rewrite(options, tell, &mut packing, done);
        }
        let mut told = CompactProgress::default();
        if let Err(error) = self.turn() {
            if error.kind() != ErrorKind::StorageFull {
                return Err(error);
            }
            // What is sealed may give back the room that the index of the active segment needs.
            let scope = CompactScope::Sealed;
            let mut tell = |progress: CompactProgress| {
                told = progress;
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
                bytes_done: told.bytes_done + progress.bytes_done,
                bytes_total: told.bytes_total + progress.bytes_total,
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
        let mut done = Compaction {
            segments_left: left.segments_left,
            segments_damaged: left.segments_damaged,
            ..before
        };
        let mut bytes_total = 0;
        for range in &ranges {
            bytes_total += stand.bytes(range);
        }
        // A checkpoint that ends in what is replaced would be of no use to the next opening.
        let is_replaced = |id: u32| {
            ranges.iter().any(|range| {
                let segments = &stand.segments[range.first..range.end];
                segments.iter().any(|segment| segment.id().0 == id)
            })
        };
        let saved = self.saved().end;
        if saved.is_none_or(|(id, _)| is_replaced(id)) && !ranges.is_empty() {
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
            bytes_total,
            &mut tell,
        );
        let mut ranges: VecDeque<Range> = ranges.into();
        // Those that found no room, even alone, and what was said to the last of them.
        let mut waiting: Vec<Range> = Vec::new();
        let mut full: Option<Error> = None;
        while let Some(range) = ranges.pop_front() {
            let bytes_done = throttle.bytes_done();
            match self.make_pack(&stand, &range, encoding(options.codec), &mut throttle) {
                Ok(made) => {
                    // What fails from here on isn't tried again in parts: their sources may be none any more.
                    let sources = &stand.segments[range.first..range.end];
                    let packed = self.put_in_place(sources, made, packing)?;
                    let gives_room = packed.bytes_after < packed.bytes_before;
                    // A file that is removed gives its room back once nobody has it open.
                    stand.segments[range.first..range.end].fill(Arc::clone(&packed.pack));
                    add(&mut done, packed);
                    if gives_room {
                        ranges.extend(waiting.drain(..));
                    }
                }
                // That segment stays as it is; those before and behind it are each for themselves.
                Err(Stopped::Damaged(place)) => {
                    done.segments_left += 1;
                    done.segments_damaged += 1;
                    let damaged = range.first + place;
                    let damaged_alone = Range {
                        first: damaged,
                        end: damaged + 1,
                    };
                    throttle.begin_again(bytes_done, stand.bytes(&damaged_alone));
                    let (first, end) = (damaged + 1, range.end);
                    let behind = Range { first, end };
                    let (first, end) = (range.first, damaged);
                    for part in [behind, Range { first, end }] {
                        if stand.is_wanted(&part, options.scope)? {
                            ranges.push_front(part);
                        }
                    }
                }
                // A smaller pack may find room, and gives back what makes room for the next.
                Err(Stopped::Failed(error)) if error.kind() == ErrorKind::StorageFull => {
                    throttle.begin_again(bytes_done, 0);
                    // The spare segment may have taken the last space. The next one is made for another segment.
                    if self.give_up_spare() {
                        ranges.push_front(range);
                        continue;
                    }
                    full = Some(error);
                    if range.end - range.first == 1 {
                        waiting.push(range);
                        continue;
                    }
                    for part in stand.halves(&range)? {
                        if stand.is_wanted(&part, options.scope)? {
                            ranges.push_front(part);
                        }
                    }
                }
                Err(Stopped::Cancelled) => {
                    done.is_cancelled = true;
                    break;
                }
                Err(Stopped::Failed(error)) => return Err(error),
            }
        }
        if done.files_before > 0 {
            self.storage
                .sync_dir()
                .with_context(|| format!("flushing {}", self.storage.describe()))?;
        }
        match full.filter(|_| !waiting.is_empty() && !done.is_cancelled) {
            Some(error) => Err(without_room(error, &done, waiting.len())),
            None => {
                if !done.is_cancelled {
                    throttle.end();
                }
                Ok(done)
            }
        }
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
        match &packing.failed {
            _ if self.is_packing_over() => {
                Err(Error::new(ErrorKind::Closed, "the store is closed"))
            }
            None => Ok(packing),
            Some(what) => Err(Error::new(
                what.kind(),
                format!(
                    "an earlier compaction failed, and it isn't known what of it is durable: {what}; open the store again"
                ),
            )),
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
            // It is no part of the store. If it can't be removed now, the next opening removes it.
            let _ = self.storage.remove(&unfinished);
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
        Gatherer::new(stand, sources, writer, header, unfinished, throttle).write()
    }

    /// Puts a pack in the place of its segments, and removes those.
    fn put_in_place(
        &self,
        sources: &[Arc<Segment>],
        made: Made,
        packing: &mut Packing,
    ) -> Result<Packed> {
        let mut bytes_before = 0;
        for source in sources {
            bytes_before += source.stored_bytes()?;
        }
        let pack = self.name_pack(sources, &made, packing)?;
        for source in sources {
            let name = &source.name;
            self.storage
                .remove(name)
                .with_context(|| format!("removing {name}, whose place {} took", pack.name))?;
        }
        Ok(Packed {
            files: sources.len() as u64,
            bytes_before,
            bytes_after: pack.stored_bytes()?,
            pack,
            gathered: made.gathered,
        })
    }

    /// From here on it counts.
    fn name_pack(
        &self,
        sources: &[Arc<Segment>],
        made: &Made,
        packing: &mut Packing,
    ) -> Result<Arc<Segment>> {
        let name = made.file.name();
        let place = |what: &str| format!("{}: {what} {name}", self.storage.describe());
        let named = self
            .storage
            .rename(&made.unfinished, &name)
            .with_context(|| place("naming"))
            .and_then(|()| {
                self.storage
                    .sync_dir()
                    .with_context(|| place("flushing the folder with"))
            });
        // Whether it is there after a crash is unknown now. Both is right; but another one must not overlap it.
        if let Err(error) = named {
            packing.failed = Some(error.clone());
            return Err(error);
        }
        // A store is opened with a pack of which nothing can be read; none is put in the place of segments that can.
        let opened = Segment::open_file(
            &*self.storage,
            made.file,
            Access::Read,
            &self.identity.store,
        )
        .and_then(|pack| pack.index_error().map_or(Ok(pack), Err));
        let pack = Arc::new(opened.inspect_err(|error| packing.failed = Some(error.clone()))?);
        let mut durable = sync::write(&self.durable);
        let first = durable
            .segments
            .partition_point(|segment| segment.id() < pack.id());
        durable
            .segments
            .splice(first..first + sources.len(), [pack.clone()]);
        Ok(pack)
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

/// The file of a pack, whole and durable, without its name.
struct Made {
    file: SegmentFile,
    unfinished: String,
    gathered: Gathered,
}

/// What came of one pack.
struct Packed {
    pack: Arc<Segment>,
    files: u64,
    bytes_before: u64,
    bytes_after: u64,
    gathered: Gathered,
}

fn add(done: &mut Compaction, packed: Packed) {
    done.files_before += packed.files;
    done.files_after += 1;
    done.bytes_before += packed.bytes_before;
    done.bytes_after += packed.bytes_after;
    done.records_dropped += packed.gathered.dropped;
    done.payloads_erased += packed.gathered.erased;
}

/// What a compaction says that found too little room for some of its packs.
fn without_room(error: Error, done: &Compaction, segments: usize) -> Error {
    let given_back = done.bytes_before.saturating_sub(done.bytes_after);
    let message = format!(
        "{error}; {segments} segments stay as they are, since no pack of one alone has room, after {given_back} bytes were \
         given back: make some room, and compact again"
    );
    Error::with_source(ErrorKind::StorageFull, message, error)
}

/// The best that this build can do.
fn encoding(codec: Codec) -> Encoding {
    match codec {
        Codec::Plain => Encoding::Raw,
        Codec::Zstd if codec::can_encode(Encoding::Zstd) => Encoding::Zstd,
        Codec::Lz4 | Codec::Zstd => Encoding::Lz4,
    }
}
