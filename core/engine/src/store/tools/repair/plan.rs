//! [`Plan`]: the changes of a repair, decided from what was found.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    Error, ErrorKind, Host, Result, SegmentId,
    format::{
        files::{self, End, Identity, SegmentFile},
        index::{Block, Ends, TRAILER_BYTES, Trailer},
        segment::{DATA_START, Header},
    },
    limits,
    log::segment::Segment,
    store::{
        published::{batches::apply_block, durable::Durable},
        segments::{chain::WITHOUT_INDEX, seal::first_header},
        tools::examine::{examiner::Part, run::Examined, walker::Walker},
    },
};

/// At most this many holes of a segment are saved each in a file of its own.
const SAVES_MAX: usize = 16;

/// What is to be done.
#[derive(Default)]
pub(super) struct Plan {
    /// Bytes that are saved before they are overwritten.
    pub(super) saves: Vec<Save>,
    /// Files that are no segments of this log, and why.
    pub(super) asides: Vec<(SegmentFile, String)>,
    pub(super) headers: Vec<HeaderCopies>,
    /// Packs, and the copies of their dictionaries that are written again from others.
    pub(super) dictionaries: Vec<(Arc<Segment>, Vec<usize>)>,
    /// Packs whose table of blocks is written again.
    pub(super) tables: Vec<Arc<Segment>>,
    /// Packs of which blocks of the index are written again.
    pub(super) indexes: Vec<Arc<Segment>>,
    /// Files that are made in place of missing ones.
    pub(super) made: Vec<Made>,
    /// The new last segment.
    pub(super) next: Option<Header>,
    pub(super) seals: Vec<Seal>,
    pub(super) shortened: Vec<(Arc<Segment>, u64)>,
    /// Segments whose index blocks an earlier repair made, and may not have made durable.
    pub(super) unproven: Vec<Arc<Segment>>,
    pub(super) end: SmallFile<End>,
    pub(super) removes_checkpoint: bool,
    pub(super) clears_watermark: bool,
    pub(super) identity: Option<Identity>,
}

/// What becomes of a small file.
#[derive(Default)]
pub(super) enum SmallFile<T> {
    #[default]
    Stays,
    Removed,
    Replaced(T),
}

pub(super) struct Save {
    pub(super) segment: Arc<Segment>,
    pub(super) from: u64,
    pub(super) to: u64,
}

pub(super) struct HeaderCopies {
    pub(super) segment: Arc<Segment>,
    pub(super) header: Header,
    pub(super) offsets: Vec<usize>,
}

pub(super) struct Made {
    pub(super) header: Header,
    pub(super) data_end: u64,
    /// Its index block and trailer.
    pub(super) index: Vec<u8>,
}

pub(super) struct Seal {
    pub(super) segment: Arc<Segment>,
    pub(super) header: Header,
    pub(super) data_end: u64,
    pub(super) index: Vec<u8>,
    /// Whether records that it names are lost.
    pub(super) has_holes: bool,
}

impl Plan {
    /// Plans the repair of what was found.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) when the store would not open afterwards.
    pub(super) fn of(mut examined: Examined, host: &dyn Host) -> Result<Self> {
        for part in &examined.parts {
            part.header
                .features
                .check_writable(&files::segment_name(part.header.segment))?;
        }
        if !examined.misnamed.is_empty() {
            let name = |(file, segment): &(SegmentId, SegmentId)| {
                format!(
                    "{} is {}",
                    files::segment_name(*file),
                    files::segment_name(*segment)
                )
            };
            let names: Vec<_> = examined.misnamed.iter().map(name).collect();
            return Err(Error::damaged(format!(
                "files have the names of others: {}; rename them, and nothing of them is lost. Nothing was changed",
                names.join(", ")
            )));
        }
        if let Some((_, why)) = examined.without_index.first() {
            let message = format!("{why}; {WITHOUT_INDEX}. Nothing was changed");
            return Err(Error::damaged(message));
        }
        let mut plan = Self {
            asides: std::mem::take(&mut examined.strays),
            ..Self::default()
        };
        let is_rebuilt =
            examined.next_segment.is_some() || examined.parts.iter().any(|part| part.needs_index);
        if is_rebuilt {
            plan.rebuild(&mut examined, host)?;
        }
        for part in &examined.parts {
            let Some(segment) = part.segment.clone() else {
                continue;
            };
            if !part.needs_index && segment.trailer().is_some_and(|trailer| trailer.repaired) {
                plan.unproven.push(segment.clone());
            }
            if let Some(length) = part.shorten_to.filter(|_| !part.needs_index) {
                plan.shortened.push((segment.clone(), length));
            }
            let image = segment.image();
            if image.is_some_and(|image| image.damaged_table().is_some()) {
                plan.tables.push(segment.clone());
            }
            if image.is_some_and(|image| !image.made().is_empty()) {
                plan.indexes.push(segment.clone());
            }
            if !part.wrong_dictionaries.is_empty() {
                plan.dictionaries
                    .push((segment.clone(), part.wrong_dictionaries.clone()));
            }
            if !part.wrong_copies.is_empty() {
                let header = match segment.is_pack() {
                    true => segment.header,
                    false => part.header,
                };
                let offsets = part.wrong_copies.clone();
                plan.headers.push(HeaderCopies {
                    segment,
                    header,
                    offsets,
                });
            }
        }
        let has_moved = is_rebuilt || !plan.asides.is_empty();
        if let Some(next) = plan.next {
            plan.end = SmallFile::Replaced(End {
                store: next.store,
                segment: next.segment,
                salt: next.salt,
                offset: DATA_START,
                next_position: next.base_position,
                last_record: None,
                epoch: next.epoch,
                closed_ms: host.now_ms(),
            });
        } else if examined.wrong.end {
            plan.end = SmallFile::Removed;
        }
        plan.removes_checkpoint = examined.wrong.checkpoint || has_moved;
        plan.clears_watermark = examined.wrong.watermark || has_moved;
        let identity = examined.sources.identity;
        plan.identity = examined.sources.identity_lost.map(|_| identity);
        Ok(plan)
    }

    /// Makes every index block that is needed, and checks that the store opens with them.
    fn rebuild(&mut self, examined: &mut Examined, host: &dyn Host) -> Result<()> {
        let mut tried = Durable::new(examined.sources.identity.hash_key);
        let mut index_crc = 0;
        let has_next_segment = examined.next_segment.is_some();
        let last_place = examined.parts.len().saturating_sub(1);
        // A segment that a crash left unsealed is sealed here: the next writer would expect its unrepaired index block.
        examined.parts[..last_place]
            .iter_mut()
            .for_each(|part| part.needs_index |= part.index_crc.is_none());
        for place in 0..examined.parts.len() {
            let after = examined
                .parts
                .get(place + 1)
                .filter(|after| !after.is_header_made);
            let after_crc = after.map(|after| after.header.predecessor_index_crc);
            let part = &mut examined.parts[place];
            if part.is_header_made {
                part.header.next_stream = tried.directory.next_number();
                part.header.predecessor_index_crc = index_crc;
            }
            let block = if part.needs_index {
                let is_cut_off = has_next_segment && place == last_place;
                let made = make_index(part, &examined.walker, &mut tried, after_crc, is_cut_off)?;
                index_crc = made.block.1.index_crc;
                self.add(part, &examined.walker, made.bytes);
                None
            } else {
                let block = part
                    .segment
                    .as_ref()
                    .map(|segment| segment.block())
                    .transpose()?
                    .flatten();
                index_crc = part.index_crc.unwrap_or(0);
                block
            };
            if let Some(block) = block {
                apply(&mut tried, part.header.segment, &block)?;
            }
        }
        if let Some(position) = examined.next_segment {
            let walker = &examined.walker;
            let last = examined.parts.last();
            let first = first_header(
                &examined.sources.identity,
                host,
                walker.durable.epoch.max(1),
            );
            self.next = Some(Header {
                segment: SegmentId(last.map_or(1, |last| last.header.segment.0.saturating_add(1))),
                base_position: position,
                base_time_ms: host
                    .now_ms()
                    .clamp(earliest(walker, last), limits::TIME_MS_MAX),
                predecessor_end: last.map_or(0, |last| last.data_end),
                predecessor_salt: last.map_or(0, |last| last.header.salt),
                // Of an index block that recovery must not make: see the order of things above.
                predecessor_index_crc: if last.is_some_and(|last| last.needs_index) {
                    !index_crc
                } else {
                    index_crc
                },
                next_stream: tried.directory.next_number(),
                ..first
            });
        }
        Ok(())
    }

    fn add(&mut self, part: &Part, walker: &Walker, index: Vec<u8>) {
        let (header, data_end) = (part.header, part.data_end);
        let Some(segment) = part.segment.clone() else {
            self.made.push(Made {
                header,
                data_end,
                index,
            });
            return;
        };
        let gaps: Vec<_> = walker
            .gaps
            .iter()
            .filter(|gap| gap.segment == header.segment)
            .collect();
        let save = |from, to| Save {
            segment: segment.clone(),
            from,
            to,
        };
        match &gaps[..] {
            // As one, where they would be too many files.
            [first, .., last] if gaps.len() > SAVES_MAX => {
                self.saves.push(save(first.from, last.to))
            }
            few => self
                .saves
                .extend(few.iter().map(|gap| save(gap.from, gap.to))),
        }
        if segment.trailer().is_none() {
            self.saves.push(Save {
                segment: segment.clone(),
                from: data_end,
                to: limits::SEGMENT_BYTES_MAX,
            });
        }
        let has_holes = !gaps.is_empty();
        self.seals.push(Seal {
            segment,
            header,
            data_end,
            index,
            has_holes,
        });
    }

    /// Whether there is nothing to repair.
    pub(super) fn is_empty(&self) -> bool {
        let nothing = self.saves.is_empty()
            && self.asides.is_empty()
            && self.headers.is_empty()
            && self.dictionaries.is_empty()
            && self.tables.is_empty()
            && self.indexes.is_empty()
            && self.made.is_empty();
        let nothing =
            nothing && self.next.is_none() && self.seals.is_empty() && self.shortened.is_empty();
        let small = matches!(self.end, SmallFile::Stays)
            && !self.removes_checkpoint
            && !self.clears_watermark;
        nothing && small && self.identity.is_none()
    }
}

fn earliest(walker: &Walker, last: Option<&Part>) -> u64 {
    walker
        .durable
        .last_time_ms
        .max(last.map_or(0, |last| last.header.base_time_ms))
        .min(limits::TIME_MS_MAX)
}

struct Index {
    bytes: Vec<u8>,
    block: (Block, Trailer),
}

/// The index block of a part, made from its draft, and applied.
fn make_index(
    part: &Part,
    walker: &Walker,
    tried: &mut Durable,
    after_crc: Option<u32>,
    is_cut_off: bool,
) -> Result<Index> {
    let header = &part.header;
    let Some(draft) = walker.drafts.get(&header.segment) else {
        return Err(unrepairable("a segment was not read"));
    };
    if part.data_end.saturating_add(draft.encoded_bytes()) > limits::SEGMENT_BYTES_MAX {
        return Err(unrepairable(
            "the index of a segment would make it longer than one can be",
        ));
    }
    let directory = &walker.durable.directory;
    let parts = draft.parts(|number| directory.streams().id_bytes(number));
    let base = header.base_position;
    let next_position = part
        .next_position
        .clamp(base, base.saturating_add(u64::from(u32::MAX)));
    let mut ends = Ends {
        data_end: part.data_end,
        next_position,
        next_stream: 1,
        repaired: false,
    };
    let (bytes, crc) = parts.encode(draft.trailer(header, &ends), header);
    // The index block that the segment behind it followed needs no excuse.
    ends.repaired =
        part.has_losses || is_cut_off || after_crc.is_some_and(|expected| expected != crc);
    let (block, _) = decode(Bytes::from(bytes), part)?;
    apply(tried, header.segment, &block)?;
    ends.next_stream = tried.directory.next_number();
    let (bytes, _) = parts.encode(draft.trailer(header, &ends), header);
    let block = decode(Bytes::copy_from_slice(&bytes), part)?;
    Ok(Index { bytes, block })
}

/// Reads back what was made.
fn decode(bytes: Bytes, part: &Part) -> Result<(Block, Trailer)> {
    let header = &part.header;
    let file_bytes = part.data_end.saturating_add(bytes.len() as u64);
    let trailer = bytes
        .last_chunk::<TRAILER_BYTES>()
        .map(|trailer| Trailer::decode(trailer, header, file_bytes));
    let trailer = trailer
        .transpose()?
        .flatten()
        .ok_or_else(|| unrepairable("an index block would not read back"))?;
    let block = bytes.slice(..bytes.len() - TRAILER_BYTES);
    let name = files::segment_name(header.segment);
    Ok((Block::check(block, trailer, header.seed(), &name)?, trailer))
}

/// Applies an index block as opening does.
fn apply(tried: &mut Durable, segment: SegmentId, block: &Block) -> Result<()> {
    apply_block(tried, segment, block, 0).map_err(|error| match error.kind() {
        ErrorKind::Damaged => unrepairable(&error.to_string()),
        _ => error,
    })
}

fn unrepairable(what: &str) -> Error {
    Error::damaged(format!(
        "no repair makes this store open again: {what}; nothing was changed. `runlog salvage` reads what is there"
    ))
}
