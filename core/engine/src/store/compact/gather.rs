//! Writing a pack: what stays of some segments, gathered by stream.

use super::{
    plan::Stand,
    source::{Rows, receipt, rows_by_stream},
    throttle::{Outcome, Stopped, Throttle, damaged_at},
};
use crate::{
    Error, ErrorKind, Kind, Result,
    format::{
        Features, WRITER_VERSION, aligned,
        index::{
            ControlRow, DROPPED, Ends, KeyRow, Labelled, Parts, SampleRow, StreamRow,
            TRAILER_BYTES, Trailer,
        },
        offset_to_units,
        pack::IMAGE_BYTES_MAX,
        record::{self, Body, Flags},
        segment::{Compacted, Header, Replaced, ReplacedEnd},
    },
    log::{frame::Frame, pack_writer::PackWriter, segment::Segment},
    storage::IoContext,
    store::place::position_of,
    sync::Arc,
};

/// What was left out, and erased, on the way into a pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) dropped: u64,
    pub(crate) erased: u64,
}

/// The header of the pack that takes the place of these segments; `next` is that of the segment behind them.
pub(crate) fn pack_header(
    sources: &[Arc<Segment>],
    next: &Header,
    salt: u32,
    uuid: [u8; 16],
) -> Option<Header> {
    let (first, last) = (sources.first()?, sources.last()?);
    let generations = sources
        .iter()
        .map(|segment| segment.named().generation)
        .max()?;
    Some(Header {
        salt,
        uuid,
        features: Features::default(),
        writer_version: WRITER_VERSION,
        compacted: Some(Compacted {
            replaced: Replaced {
                generation: generations.checked_add(1)?,
                from: first.id(),
                to: last.last_id(),
            },
            end: ReplacedEnd {
                end: next.predecessor_end,
                salt: next.predecessor_salt,
                index_crc: next.predecessor_index_crc,
            },
        }),
        ..first.header
    })
}

/// Copies what stays.
pub(crate) struct Gatherer<'a, 'b> {
    stand: &'a Stand,
    sources: &'a [Arc<Segment>],
    header: Header,
    seed: u32,
    /// `None` where what would be gathered is only looked at.
    writer: Option<PackWriter>,
    name: &'a str,
    throttle: &'a mut Throttle<'b>,
    parts: Parts,
    gathered: Gathered,
    /// The labels of the records, with their positions.
    labels: Vec<(u64, Labelled)>,
    /// What one record is encoded in.
    bytes: Vec<u8>,
}

impl<'a, 'b> Gatherer<'a, 'b> {
    pub(crate) fn new(
        stand: &'a Stand,
        sources: &'a [Arc<Segment>],
        writer: Option<PackWriter>,
        header: Header,
        name: &'a str,
        throttle: &'a mut Throttle<'b>,
    ) -> Self {
        Self {
            stand,
            sources,
            header,
            seed: header.seed(),
            writer,
            name,
            throttle,
            parts: Parts::default(),
            gathered: Gathered::default(),
            labels: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Whether a source is damaged for itself, by all that would be gathered of it; nothing is written.
    pub(crate) fn is_damaged(
        stand: &'a Stand,
        source: &'a Arc<Segment>,
        throttle: &'a mut Throttle<'b>,
    ) -> Outcome<bool> {
        let sources = std::slice::from_ref(source);
        let mut looked = Self::new(stand, sources, None, source.header, "", throttle);
        let gathered = looked
            .controls()
            .and_then(|()| looked.streams())
            .and_then(|()| looked.keys())
            .and_then(|()| looked.check());
        match gathered {
            Ok(()) => Ok(false),
            Err(Stopped::Damaged(_)) => Ok(true),
            Err(stopped) => Err(stopped),
        }
    }

    /// Writes all of it, durably: engine records in the order of their positions, then the data of each stream, then the
    /// receipts of its keyed batches, and the index.
    ///
    /// The order of engine records tells what came first, when a directory is made from the index.
    pub(crate) fn write(mut self) -> Outcome<Gathered> {
        for source in self.sources {
            let end = source.trailer().map_or(0, |trailer| trailer.data_end);
            source.file.will_read(0, end);
        }
        self.controls()?;
        self.end_part()?;
        self.streams()?;
        self.keys()?;
        self.end_part()?;
        let Index {
            bytes,
            table,
            trailer,
        } = self.index()?;
        if let Some(writer) = self.writer {
            writer
                .finish(&bytes[..table], &bytes[table..trailer], &bytes[trailer..])
                .with_context(|| format!("writing {}", self.name))?;
        }
        Ok(self.gathered)
    }

    fn end_part(&mut self) -> Result<()> {
        match &mut self.writer {
            Some(writer) => writer
                .end_part()
                .with_context(|| format!("writing {}", self.name)),
            None => Ok(()),
        }
    }

    fn controls(&mut self) -> Outcome<()> {
        for (place, source) in self.sources.iter().enumerate() {
            let Some(block) = damaged_at(place, source.block())? else {
                continue;
            };
            let end = block.trailer().data_end;
            for control in block.controls() {
                let is_snapshot = control.kind == Kind::SNAPSHOT;
                let live = &self.stand.live;
                if is_snapshot && !live.has_snapshot(control.stream, control.other, control.ordinal)
                {
                    self.gathered.dropped += 1;
                    continue;
                }
                let frame = damaged_at(place, source.frame(control.offset, end))?;
                let header = &frame.header;
                if (header.kind, header.stream) != (control.kind, control.stream) {
                    return Err(Stopped::Damaged(place));
                }
                let offset = self.record(place, &frame)?;
                self.parts.controls.push(ControlRow { offset, ..control });
            }
        }
        Ok(())
    }

    fn streams(&mut self) -> Outcome<()> {
        for (number, rows) in rows_by_stream(self.sources)? {
            self.stream(number, &rows)?;
            self.end_part()?;
        }
        Ok(())
    }

    fn stream(&mut self, number: u32, rows: &Rows) -> Outcome<()> {
        let Some((_, first)) = rows.rows.first() else {
            return Ok(());
        };
        let postings_start = count(self.parts.postings.len());
        let mut next_ordinal = first.first_ordinal;
        for (place, row) in &rows.rows {
            let source = &self.sources[*place];
            if row.first_ordinal != next_ordinal {
                return Err(Stopped::Damaged(*place));
            }
            next_ordinal = next_ordinal.saturating_add(row.count);
            let Some(block) = damaged_at(*place, source.block())? else {
                continue;
            };
            let end = block.trailer().data_end;
            for ordinal in row.first_ordinal..next_ordinal {
                let posting = block.posting(row, ordinal).unwrap_or(DROPPED);
                if posting == DROPPED || !self.stand.live.has(number, ordinal) {
                    self.gathered.dropped += u64::from(posting != DROPPED);
                    self.parts.postings.push(offset_to_units(DROPPED));
                    continue;
                }
                let frame = damaged_at(*place, source.frame(posting, end))?;
                if frame.header.stream != number || !frame.header.kind.is_data() {
                    return Err(Stopped::Damaged(*place));
                }
                let offset = self.record(*place, &frame)?;
                self.labels(source, &frame, ordinal, offset);
                self.parts.postings.push(offset_to_units(offset));
            }
        }
        self.parts.stream_rows.push(StreamRow {
            stream: number,
            first_ordinal: first.first_ordinal,
            count: next_ordinal - first.first_ordinal,
            postings_start,
            id: rows.id,
        });
        Ok(())
    }

    /// Receipts of the keyed batches of streams that are there: the key of a deleted one counts no more.
    fn keys(&mut self) -> Outcome<()> {
        for (place, source) in self.sources.iter().enumerate() {
            let Some(block) = damaged_at(place, source.block())? else {
                continue;
            };
            let end = block.trailer().data_end;
            for row in block.keys_all() {
                let stream = self.stand.streams.get(row.stream);
                if stream.is_none_or(|stream| stream.deleted) {
                    continue;
                }
                let (key, payload) = damaged_at(place, receipt(source, end, &row))?;
                let body = Body {
                    labels: &[],
                    key: &key,
                    meta: &[],
                    payload: &payload,
                };
                let header = record::Header {
                    kind: record::RECEIPT,
                    flags: body.flags(),
                    body_bytes: count(body.encoded_bytes()),
                    index: 0,
                    stream: row.stream,
                    sequence: 0,
                    time_delta_ms: 0,
                    watermark: 0,
                    body_crc: body.crc(),
                };
                let mut encoded = Vec::with_capacity(aligned(body.encoded_bytes()));
                body.encode_into(&mut encoded);
                let offset = self.put(header, &encoded)?;
                self.parts.keys.push(KeyRow { offset, ..row });
            }
        }
        Ok(())
    }

    /// Notes the labels of a data record. A redacted one has none.
    fn labels(&mut self, source: &Segment, frame: &Frame, ordinal: u32, offset: u64) {
        let position = position_of(source, frame);
        if self.stand.redacted.contains(position) {
            return;
        }
        let stream = frame.header.stream;
        self.labels.extend(frame.labels().map(|label| {
            let labelled = Labelled {
                label,
                stream,
                ordinal,
                offset,
            };
            (position, labelled)
        }));
    }

    /// Writes a record of the source at a place, which has a position, and gives its place in the image.
    fn record(&mut self, place: usize, frame: &Frame) -> Outcome<u64> {
        let source = &self.sources[place];
        let position = position_of(source, frame);
        let base = &self.header;
        let time_ms = source.header.time_ms(frame.header.time_delta_ms);
        let far = || Stopped::Damaged(place);
        let end = source.trailer().map(|trailer| trailer.next_position);
        if end.is_none_or(|end| position >= end) {
            return Err(far());
        }
        let near = |value: u64, base: u64| {
            value
                .checked_sub(base)
                .and_then(|value| u32::try_from(value).ok())
        };
        let header = record::Header {
            index: near(position, base.base_position).ok_or_else(far)?,
            time_delta_ms: near(time_ms, base.base_time_ms).ok_or_else(far)?,
            watermark: 0,
            ..frame.header
        };
        let index = header.index;
        let offset = if self.stand.redacted.contains(position) {
            self.erased(frame, header)?
        } else {
            self.put(header, &frame.body)?
        };
        self.parts.samples.push(SampleRow { index, offset });
        let bytes = frame.header.frame_bytes();
        match self.writer {
            Some(_) => self.throttle.moved(2 * bytes, bytes)?,
            None => self.throttle.moved(bytes, 0)?,
        }
        Ok(offset)
    }

    /// Writes a redacted record: of what it had, the key alone.
    fn erased(&mut self, frame: &Frame, header: record::Header) -> Outcome<u64> {
        let key = frame.key().unwrap_or_default();
        let body = Body {
            labels: &[],
            key,
            meta: &[],
            payload: &[],
        };
        self.gathered.erased += u64::from(body.encoded_bytes() < frame.body.len());
        let mut encoded = Vec::new();
        body.encode_into(&mut encoded);
        let header = record::Header {
            flags: Flags(header.flags.0 & Flags::OP_FIRST.0 | body.flags().0),
            body_bytes: count(body.encoded_bytes()),
            body_crc: body.crc(),
            ..header
        };
        self.put(header, &encoded)
    }

    /// Appends a record, each a batch by itself, and its padding.
    fn put(&mut self, mut header: record::Header, body: &[u8]) -> Outcome<u64> {
        let Some(writer) = &mut self.writer else {
            return Ok(0);
        };
        let offset = writer.image_end();
        if offset + header.frame_bytes() > IMAGE_BYTES_MAX {
            let message = format!("{}: it would be longer than a pack can be", self.name);
            return Err(Error::new(ErrorKind::TooLarge, message).into());
        }
        header.flags.set(Flags::BATCH_FIRST);
        header.flags.set(Flags::BATCH_LAST);
        self.bytes.clear();
        self.bytes
            .extend_from_slice(&header.encode(self.seed, offset));
        self.bytes.extend_from_slice(body);
        self.bytes.resize(aligned(self.bytes.len()), 0);
        writer
            .add(&self.bytes)
            .with_context(|| format!("writing {}", self.name))?;
        Ok(offset)
    }

    /// The index block and the trailer.
    fn index(&mut self) -> Outcome<Index> {
        self.check()?;
        let data_end = self.writer.as_ref().map_or(0, PackWriter::image_end);
        let last = self.sources.last().and_then(|last| last.trailer().copied());
        let ends = Ends {
            data_end,
            next_position: last.map_or(0, |last| last.next_position),
            next_stream: last.map_or(0, |last| last.next_stream),
            repaired: false,
        };
        let times: Vec<_> = self
            .sources
            .iter()
            .filter_map(|source| source.times_ms())
            .flat_map(|(first, last)| [first, last])
            .collect();
        let times = times.iter().min().zip(times.iter().max());
        let times = times.map(|(first, last)| (*first, *last));
        runlog_log::order::sort(&mut self.parts.keys);
        // Those of one label are found in the order of their positions.
        runlog_log::order::sort_by_key(&mut self.labels, |(position, _)| *position);
        let labels = std::mem::take(&mut self.labels);
        let labels = labels.into_iter().map(|(_, labelled)| labelled);
        self.parts.set_labels(labels.collect());
        let records = count(self.parts.samples.len());
        let trailer = Trailer::new(&self.header, &ends, records, times);
        let (bytes, _) = self.parts.encode(trailer, &self.header);
        if data_end + bytes.len() as u64 > IMAGE_BYTES_MAX {
            let message = format!("{}: it would be longer than a pack can be", self.name);
            return Err(Error::new(ErrorKind::TooLarge, message).into());
        }
        let length = data_end + bytes.len() as u64;
        let encoded = bytes
            .last_chunk()
            .map(|last| Trailer::decode(last, &self.header, length))
            .transpose()?
            .flatten()
            // The bounds of the sources are no segment's.
            .ok_or(Stopped::Damaged(self.sources.len() - 1))?;
        let trailer = bytes.len() - TRAILER_BYTES;
        let table = usize::try_from(encoded.table_offset() - data_end)
            .expect("the table is among the bytes");
        Ok(Index {
            bytes,
            table,
            trailer,
        })
    }

    /// Looks at what was gathered for what only a damaged source gives.
    fn check(&mut self) -> Outcome<()> {
        // Only a false trailer says so.
        let ends_before_it_begins =
            |source: &Arc<Segment>| source.times_ms().is_some_and(|(first, last)| first > last);
        if let Some(place) = self.sources.iter().position(ends_before_it_begins) {
            return Err(Stopped::Damaged(place));
        }
        runlog_log::order::sort(&mut self.parts.samples);
        match self.gathered_twice() {
            Some(place) => Err(Stopped::Damaged(place)),
            None => Ok(()),
        }
    }

    /// The place of a source whose index names a record twice.
    fn gathered_twice(&self) -> Option<usize> {
        let pairs = self.parts.samples.windows(2);
        let mut same = pairs.filter(|pair| pair[0].index == pair[1].index);
        let position = self.header.base_position + u64::from(same.next()?[0].index);
        let after = self
            .sources
            .partition_point(|source| source.header.base_position <= position);
        Some(after.saturating_sub(1))
    }
}

/// The index block of a pack, and where its table and its trailer begin in these bytes.
struct Index {
    bytes: Vec<u8>,
    table: usize,
    trailer: usize,
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("a pack has fewer than 2^32 of anything")
}
