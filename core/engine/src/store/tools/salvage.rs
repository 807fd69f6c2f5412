//! `salvage`: every whole record of a folder, whatever else is lost: segments without a neighbour, a header or an index
//! block, and what repairs and people have put aside in `cut-….bin`.

use std::{
    cell::Cell,
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

use bytes::Bytes;

use super::examine::{
    seed,
    survey::{Piece, Source, Survey, last_nonzero},
};
use crate::{
    Error, ErrorKind, Kind, Position, Result, SegmentId, Sequence, StreamId,
    format::{
        files,
        index::{Block, TRAILER_BYTES, Trailer},
        record,
        segment::{DATA_START, Header},
    },
    limits,
    log::segment::Frame,
    storage::{Access, File, Storage},
    store::files::checkpoint,
};

/// A record that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Salvaged {
    /// The file it is in.
    pub file: String,
    /// The segment that it was written to.
    pub segment: SegmentId,
    /// Where in that segment.
    pub offset: u64,
    /// Whether it is in a file of what was cut out of the log or put aside.
    pub is_cut: bool,
    /// Its position, unless every copy of the segment's header is lost.
    pub position: Option<Position>,
    /// Its stream, if anything names it.
    pub stream: Option<StreamId>,
    /// The number of its stream in the store.
    pub stream_number: u32,
    /// Its sequence, and of the engine's own records what their kind says.
    pub sequence: Sequence,
    /// Its kind.
    pub kind: Kind,
    /// Milliseconds since 1970-01-01 UTC, unless every copy of the segment's header is lost.
    pub time_ms: Option<u64>,
    /// The epoch of the writer that wrote it, if anything says it.
    pub epoch: Option<u32>,
    /// The idempotency key of the batch that it begins; empty for none.
    pub key: Bytes,
    /// Whether it was redacted; metadata and payload are empty then.
    pub redacted: bool,
    /// Its metadata.
    pub meta: Bytes,
    /// Its payload.
    pub payload: Bytes,
}

/// What [`salvage`] found, in short.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Salvage {
    /// How many files were read.
    pub files: u64,
    /// How many records were given.
    pub records: u64,
    /// Of those, how many are in files of what was cut out of the log or put aside.
    pub cut_records: u64,
    /// How many records are of streams that nothing names.
    pub unnamed: u64,
    /// How many bytes are no record, where records were to be expected.
    pub unreadable_bytes: u64,
    /// What was met on the way, a line each, at most 1,000.
    pub notes: Vec<String>,
}

/// At most this many notes are kept.
const NOTES_MAX: usize = 1000;
/// Where the device fails, bytes are read in pieces of this size.
const SECTOR_BYTES: usize = 4096;

/// Gives every whole record of a folder, in order of segment and offset, whether it can be opened as a store or not. It takes
/// no lock, changes nothing, and keeps in memory only the ids of the streams.
///
/// What was truncated or deleted is given, too: this is what lies there, not what it means.
///
/// # Errors
/// [`NotFound`](ErrorKind::NotFound) when there is no folder, and [`Io`](ErrorKind::Io) when it can't be listed. What can't be
/// read of a file is left out, and noted.
pub fn salvage(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(Salvaged) -> ControlFlow<()>,
) -> Result<Salvage> {
    let mut summary = Salvage::default();
    let mut found: Vec<Remains> = Vec::new();
    for place in places(storage)? {
        let described = place.name.clone();
        match Remains::open(storage, place, &found, &mut summary) {
            Ok(remains) => found.push(remains),
            Err(error) => note(&mut summary, format!("{described}: {error}")),
        }
    }
    summary.files = found.len() as u64;
    let mut known = Known::default();
    if let Ok(Some(checkpoint)) = checkpoint::read(storage) {
        let streams = checkpoint.directory.streams().iter().zip(1..);
        known
            .ids
            .extend(streams.map(|(stream, number)| (number, *stream.id.as_bytes())));
        known
            .redacted
            .extend(checkpoint.directory.redacted().to_vec());
    }
    found.iter().try_for_each(|remains| known.add(remains))?;
    for remains in &found {
        if remains.each(&known, &mut summary, visit)?.is_break() {
            break;
        }
    }
    Ok(summary)
}

fn note(summary: &mut Salvage, what: String) {
    if summary.notes.len() < NOTES_MAX {
        summary.notes.push(what);
    }
}

/// A file that may hold records, and which part of which segment it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    segment: SegmentId,
    /// What was cut comes behind what is there.
    is_cut: bool,
    offset: u64,
    name: String,
}

fn places(storage: &dyn Storage) -> Result<Vec<Place>> {
    let names = storage.list().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(
            ErrorKind::NotFound,
            format!("no folder {}", storage.describe()),
        ),
        _ => Error::from_io(error, format!("listing {}", storage.describe())),
    })?;
    let mut places: Vec<_> = names.into_iter().filter_map(place_of).collect();
    places.sort_unstable();
    Ok(places)
}

fn place_of(name: String) -> Option<Place> {
    if let Some(segment) = files::segment_of_name(&name) {
        return Some(Place {
            segment,
            is_cut: false,
            offset: 0,
            name,
        });
    }
    let mut numbers = name.strip_prefix("cut-")?.strip_suffix(".bin")?.split('-');
    let (segment, offset) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let is_possible = offset <= limits::SEGMENT_BYTES_MAX && offset % 8 == 0;
    is_possible.then_some(Place {
        segment: SegmentId(segment),
        is_cut: true,
        offset,
        name,
    })
}

/// One file with records.
struct Remains {
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
}

impl Remains {
    fn open(
        storage: &dyn Storage,
        place: Place,
        before: &[Self],
        summary: &mut Salvage,
    ) -> Result<Self> {
        let failed = |error| Error::from_io(error, format!("opening {}", place.name));
        let file = storage.open(&place.name, Access::Read).map_err(failed)?;
        let length = file.len().map_err(failed)?;
        if length > limits::SEGMENT_BYTES_MAX {
            let limit = limits::SEGMENT_BYTES_MAX;
            note(
                summary,
                format!(
                    "{}: {length} bytes long; only the first {limit} can be of a segment",
                    place.name
                ),
            );
        }
        let end = length.min(limits::SEGMENT_BYTES_MAX);
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
                note(
                    summary,
                    format!("{}: every copy of its header is lost", place.name),
                );
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
            place,
        };
        remains.block = header.and_then(|header| remains.read_block(&header, &tail));
        remains.quiet_from = last_nonzero(&remains.file, remains.from, remains.end)?;
        Ok(remains)
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

    fn each(
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
        holes.into_iter().for_each(|hole| note(summary, hole));
        if self.file.failed.get() > 0 {
            note(
                summary,
                format!(
                    "{}: {} pieces can't be read from the device",
                    self.place.name,
                    self.file.failed.get()
                ),
            );
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
        let parts = if header.unknown().is_none() {
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
            time_ms: self.header.map(|own| {
                own.base_time_ms
                    .saturating_add(u64::from(header.time_delta_ms))
            }),
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
    let nothing = || {
        Error::new(
            ErrorKind::Damaged,
            format!("no record in {name} tells which segment it is of"),
        )
    };
    if seeds.is_empty() {
        Err(nothing())
    } else {
        Ok(seeds)
    }
}

/// The ids of streams by number, and the redacted positions: from index blocks, and where there is none from the records.
#[derive(Default)]
struct Known {
    ids: HashMap<u32, [u8; 16]>,
    redacted: HashSet<u64>,
}

impl Known {
    fn add(&mut self, remains: &Remains) -> Result<()> {
        if let Some(block) = &remains.block {
            self.ids
                .extend(block.stream_rows().map(|row| (row.stream, row.id)));
            for step in block.controls() {
                match step.kind {
                    Kind::CREATE | Kind::FORK => _ = self.ids.insert(step.stream, step.id),
                    Kind::REDACT => _ = self.redacted.insert(step.target),
                    _ => {}
                }
            }
            return Ok(());
        }
        let add = |frame: &Frame| {
            let number = frame.header.stream;
            let Some((_, payload)) = frame.parts().filter(|_| frame.header.unknown().is_none())
            else {
                return ControlFlow::Continue(());
            };
            match frame.header.kind {
                Kind::CREATE => self
                    .ids
                    .extend(record::engine::decode_create(&payload).map(|id| (number, id))),
                Kind::FORK => self
                    .ids
                    .extend(record::engine::decode_fork(&payload).map(|(id, _)| (number, id))),
                Kind::REDACT => self
                    .redacted
                    .extend(record::engine::decode_redact(&payload).map(|(target, _)| target)),
                _ => {}
            }
            ControlFlow::Continue(())
        };
        remains.pieces(add, |_, _| {}).map(drop)
    }
}

/// A file that is read whatever the device says: what can't be read is zeros.
struct RawFile {
    file: Arc<dyn File>,
    name: String,
    /// How many pieces could not be read.
    failed: Cell<u64>,
}

impl Source for RawFile {
    fn read(&self, offset: u64, length: u64) -> Result<Bytes> {
        let length = usize::try_from(length).map_err(|_| {
            Error::new(
                ErrorKind::Io,
                format!("{}: {length} bytes don't fit into memory", self.name),
            )
        })?;
        let mut bytes = vec![0; length];
        if self.file.read_at(offset, &mut bytes).is_ok() {
            return Ok(bytes.into());
        }
        let mut at = offset;
        for piece in bytes.chunks_mut(SECTOR_BYTES) {
            if self.file.read_at(at, piece).is_err() {
                piece.fill(0);
                self.failed.set(self.failed.get() + 1);
            }
            at += piece.len() as u64;
        }
        Ok(bytes.into())
    }
}

/// A part of a segment that lies in a file of its own.
struct Shifted<'a> {
    file: &'a RawFile,
    shift: u64,
}

impl Source for Shifted<'_> {
    fn read(&self, offset: u64, length: u64) -> Result<Bytes> {
        self.file.read(offset - self.shift, length)
    }
}
