//! [`Remains`]: one file with records, whatever is left of it.

use std::{cell::Cell, ops::ControlFlow, sync::Arc};

use bytes::Bytes;

use super::{
    found::{NOTES_MAX, Salvage, Salvaged},
    image::SalvagedImage,
    known::Known,
    places::Place,
    raw_file::{RawFile, Shifted},
};
use crate::{
    Error, Position, Result, Sequence, StreamId,
    format::{
        index::{Block, TRAILER_BYTES, Trailer},
        pack::IMAGE_BYTES_MAX,
        record,
        segment::{DATA_START, Header},
    },
    limits,
    log::frame::Frame,
    storage::{Access, File, Storage},
    store::tools::examine::{
        seed,
        survey::{Piece, Source, Survey, last_nonzero},
    },
};

/// One file with records.
pub(super) struct Remains {
    place: Place,
    file: RawFile,
    header: Option<Header>,
    /// What its records may continue: one seed, unless no header gives it and several were found.
    seeds: Vec<u32>,
    /// Where records may begin, and where the file or what counts of it ends.
    from: u64,
    end: u64,
    /// From here on all bytes are zero.
    quiet_from: u64,
    block: Option<Block>,
    /// Whether it is a pack, every byte of which is there.
    is_whole_pack: bool,
}

impl Remains {
    pub(super) fn open(
        storage: &dyn Storage,
        place: Place,
        before: &[Self],
        summary: &mut Salvage,
    ) -> Result<Self> {
        let failed = |error| Error::from_io(error, format!("opening {}", place.name));
        let file = storage.open(&place.name, Access::Read).map_err(failed)?;
        let image = SalvagedImage::of(&file, &place, summary)?.map(Arc::new);
        let is_whole_image = image.as_ref().is_some_and(|image| image.is_whole());
        let (file, limit): (Arc<dyn File>, u64) = match image {
            Some(image) => (image, IMAGE_BYTES_MAX),
            None => (file, limits::SEGMENT_BYTES_MAX),
        };
        let length = file.len().map_err(failed)?;
        if length > limit {
            summary.note(format!(
                "{}: {length} bytes long; only the first {limit} can be of a segment",
                place.name
            ));
        }
        let end = length.min(limit);
        let file = RawFile {
            file,
            name: place.name.clone(),
            failed: Cell::default(),
        };
        if place.offset > 0 {
            // A part of a segment continues that one's seed.
            let whole = before
                .iter()
                .rev()
                .find(|other| other.place.segment == place.segment && other.place.offset == 0);
            let seeds = match whole {
                Some(whole) => whole.seeds.clone(),
                None => some_seed(seed::find(&file, 0, end, place.offset)?, &place.name)?,
            };
            let header = whole.and_then(|whole| whole.header);
            let quiet_from = last_nonzero(&file, 0, end)?;
            return Ok(Self {
                file,
                header,
                seeds,
                from: 0,
                end,
                quiet_from,
                block: None,
                is_whole_pack: false,
                place,
            });
        }
        let start = file.read(0, end.min(DATA_START))?;
        let tail = end.saturating_sub((TRAILER_BYTES + crate::format::segment::COPY_BYTES) as u64);
        let tail = file.read(tail, end - tail)?;
        let footer = tail
            .split_first_chunk()
            .map(|(copy, _)| Header::decode_copy(copy, &place.name, 0));
        let header = Header::decode(&start, &place.name)
            .ok()
            .or_else(|| footer?.ok());
        let seeds = match header {
            Some(header) => vec![header.seed()],
            None => {
                summary.note(format!("{}: every copy of its header is lost", place.name));
                some_seed(seed::find(&file, DATA_START, end, 0)?, &place.name)?
            }
        };
        let from = (DATA_START).min(end);
        let mut remains = Self {
            file,
            header,
            seeds,
            from,
            end,
            quiet_from: end,
            block: None,
            is_whole_pack: false,
            place,
        };
        remains.block = header.and_then(|header| remains.read_block(&header, &tail));
        remains.is_whole_pack = is_whole_image && remains.block.is_some();
        remains.quiet_from = last_nonzero(&remains.file, remains.from, remains.end)?;
        Ok(remains)
    }

    /// Whether all of it was put into a pack that is whole, and it was to be removed.
    pub(super) fn is_leftover_of(&self, other: &Self) -> bool {
        match (self.place.named, other.place.named) {
            (Some(own), Some(pack)) => other.is_whole_pack && pack.replaces(&own),
            _ => false,
        }
    }

    /// The index block, if it checks. Behind it nothing is looked for.
    fn read_block(&mut self, header: &Header, tail: &[u8]) -> Option<Block> {
        let trailer = Trailer::decode(tail.last_chunk()?, header, self.end).ok()??;
        let bytes = self
            .file
            .read(
                trailer.data_end,
                trailer.block_bytes() - TRAILER_BYTES as u64,
            )
            .ok()?;
        let block = Block::check(bytes, trailer, header.seed(), &self.place.name).ok()?;
        self.end = trailer.data_end;
        Some(block)
    }

    /// Gives every whole record, seed by seed; the bytes between those of the first are counted.
    fn pieces(
        &self,
        mut visit: impl FnMut(&Frame) -> ControlFlow<()>,
        mut hole: impl FnMut(u64, u64),
    ) -> Result<ControlFlow<()>> {
        let shift = self.place.offset;
        let shifted = Shifted {
            file: &self.file,
            shift,
        };
        let quiet = shift + self.quiet_from;
        let end = shift + self.end - self.end % 8;
        for (nth, seed) in self.seeds.iter().enumerate() {
            let mut survey = Survey::new(&shifted, *seed, self.from + shift, end).quiet_from(quiet);
            while let Some(piece) = survey.next()? {
                match piece {
                    Piece::Hole(found) if nth == 0 => hole(found.from, found.to.min(quiet)),
                    Piece::Hole(_) => {}
                    Piece::Record(frame) => {
                        if visit(&frame).is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Names its streams, and says what is redacted.
    pub(super) fn tell(&self, known: &mut Known) -> Result<()> {
        if let Some(block) = &self.block {
            known.add_block(block);
            return Ok(());
        }
        let add = |frame: &Frame| {
            known.add_record(frame);
            ControlFlow::Continue(())
        };
        self.pieces(add, |_, _| {}).map(drop)
    }

    pub(super) fn each(
        &self,
        known: &Known,
        summary: &mut Salvage,
        visit: &mut dyn FnMut(Salvaged) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut epoch = self
            .header
            .map(|header| header.epoch)
            .filter(|_| !self.place.is_cut);
        let (mut records, mut unnamed, mut unreadable) = (0, 0, 0);
        let mut holes = Vec::new();
        let ended = self.pieces(
            |frame| {
                if frame.header.kind == record::MARK {
                    let marked = frame
                        .parts()
                        .and_then(|(_, payload)| record::engine::decode_mark(&payload));
                    epoch = marked.or(epoch);
                }
                if !frame.header.has_position() {
                    return ControlFlow::Continue(());
                }
                let found = self.salvaged(frame, known, epoch);
                records += 1;
                unnamed += u64::from(found.stream.is_none());
                visit(found)
            },
            |from, to| {
                unreadable += to.saturating_sub(from);
                if to > from && holes.len() < NOTES_MAX {
                    holes.push(format!(
                        "{}: offsets {from} to {to} hold no whole record",
                        self.place.name
                    ));
                }
            },
        )?;
        summary.records += records;
        summary.cut_records += if self.place.is_cut { records } else { 0 };
        summary.unnamed += unnamed;
        summary.unreadable_bytes += unreadable;
        holes.into_iter().for_each(|hole| summary.note(hole));
        if self.file.failed.get() > 0 {
            summary.note(format!(
                "{}: {} pieces can't be read from the device",
                self.place.name,
                self.file.failed.get()
            ));
        }
        Ok(ended)
    }

    fn salvaged(&self, frame: &Frame, known: &Known, epoch: Option<u32>) -> Salvaged {
        let header = &frame.header;
        let position = self
            .header
            .map(|own| own.base_position.saturating_add(u64::from(header.index)));
        let redacted = position.is_some_and(|position| known.redacted.contains(&position));
        // A body that this build can't take apart is given as it lies there.
        let parts = if frame.unknown().is_none() {
            frame.parts()
        } else {
            None
        };
        let (meta, payload) = if redacted {
            (Bytes::new(), Bytes::new())
        } else {
            parts.unwrap_or_else(|| (Bytes::new(), frame.body.clone()))
        };
        Salvaged {
            file: self.place.name.clone(),
            segment: self.place.segment,
            offset: frame.offset,
            is_cut: self.place.is_cut,
            position: position.map(Position),
            stream: known
                .ids
                .get(&header.stream)
                .map(|id| StreamId::from_bytes(*id)),
            stream_number: header.stream,
            sequence: Sequence(u64::from(header.sequence)),
            kind: header.kind,
            time_ms: self.header.map(|own| own.time_ms(header.time_delta_ms)),
            epoch,
            key: frame.key().map(Bytes::copy_from_slice).unwrap_or_default(),
            redacted,
            meta,
            payload,
        }
    }
}

/// Seeds that were found, if there are any.
fn some_seed(seeds: Vec<u32>, name: &str) -> Result<Vec<u32>> {
    let nothing = || Error::damaged(format!("no record in {name} tells which segment it is of"));
    if seeds.is_empty() {
        Err(nothing())
    } else {
        Ok(seeds)
    }
}
