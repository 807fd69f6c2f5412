//! The index block and the trailer of a sealed segment, compared with what the records give.

use super::{
    Problem, SegmentFacts,
    builder::Builder,
    bytes::{Cursor, crc_from},
    header::{HEADER_BYTES, Header},
    meaning::Meaning,
    repaired,
};

pub(super) const TRAILER_BYTES: usize = 128;
const MADE_BY_REPAIR: u32 = 1;

/// A trailer whose CRC is right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Trailer {
    pub(super) salt: u32,
    pub(super) data_end: u64,
    pub(super) base_position: u64,
    pub(super) next_position: u64,
    pub(super) time_first_ms: u64,
    pub(super) time_last_ms: u64,
    pub(super) segment: u32,
    pub(super) records: u32,
    pub(super) next_stream: u32,
    pub(super) repaired: bool,
    pub(super) index_crc: u32,
    table_crc: u32,
    sections: u32,
    index_bytes: u64,
}

/// The bytes of the elements of sections, by type from 1: stream rows, postings, samples, steps and keys, which must be
/// understood, then label rows, label postings and the label filter, which needn't be.
pub(super) const ROW_BYTES: [u32; 8] = [32, 4, 8, 48, 16, 12, 4, 32];
pub(super) const SECTIONS: usize = ROW_BYTES.len();
pub(super) const UNDERSTOOD: usize = 5;
pub(super) const MUST_BE_UNDERSTOOD: u16 = 1;

impl Trailer {
    /// The trailer of a segment, if it is that segment's: only then does it say anything, of whatever version. A
    /// payload may hold anything, but not the salt.
    pub(super) fn read(
        name: &str,
        offset: u64,
        bytes: &[u8],
        of: (u32, u32, u64),
    ) -> Result<Option<Self>, Problem> {
        let mut cursor = Cursor::of_checked(name, offset, bytes, b"RUNLOGIX")?;
        let version = cursor.u32()?;
        let salt = cursor.u32()?;
        let data_end = cursor.u64()?;
        let base_position = cursor.u64()?;
        let next_position = cursor.u64()?;
        let time_first_ms = cursor.u64()?;
        let time_last_ms = cursor.u64()?;
        let segment = cursor.u32()?;
        if (segment, salt, base_position) != of {
            return Ok(None);
        }
        if version != 1 {
            let message = format!("format version {version}");
            return Err(Problem::new(name, offset + 8, message).of_newer_build());
        }
        let records = cursor.u32()?;
        let next_stream = cursor.u32()?;
        let flags = cursor.u32()?;
        if flags & !MADE_BY_REPAIR != 0 {
            return Err(cursor
                .problem(format!("flags {flags:#x} of a trailer"))
                .of_newer_build());
        }
        let index_crc = cursor.u32()?;
        let table_crc = cursor.u32()?;
        let sections = cursor.u32()?;
        let index_bytes = cursor.u64()?;
        cursor.zeros(32)?;
        cursor.end()?;
        let repaired = flags & MADE_BY_REPAIR != 0;
        Ok(Some(Self {
            salt,
            data_end,
            base_position,
            next_position,
            time_first_ms,
            time_last_ms,
            segment,
            records,
            next_stream,
            repaired,
            index_crc,
            table_crc,
            sections,
            index_bytes,
        }))
    }

    /// How long the file is.
    pub(super) fn length(&self) -> Option<u64> {
        self.table_bytes()
            .filter(|bytes| *bytes <= self.index_bytes)?;
        self.data_end
            .checked_add(self.index_bytes)?
            .checked_add(TRAILER_BYTES as u64)
    }

    /// The table of sections and the header behind it.
    fn table_bytes(&self) -> Option<u64> {
        let is_possible = self.sections <= 64;
        is_possible.then(|| u64::from(self.sections) * SECTION_BYTES + HEADER_BYTES as u64)
    }
}

/// A row of the table of sections.
const SECTION_BYTES: u64 = 32;

/// An index block whose CRCs are right.
pub(super) struct Block<'a> {
    /// Of the types 1 to 8, with their padding.
    pub(super) sections: [Section<'a>; SECTIONS],
    pub(super) header: &'a [u8; HEADER_BYTES],
}

/// A section with its padding; empty where the block has none.
#[derive(Clone, Copy, Default)]
pub(super) struct Section<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) count: u32,
    pub(super) offset: u64,
}

impl<'a> Block<'a> {
    /// `bytes` begin at `data_end`, and end before the trailer.
    pub(super) fn read(
        name: &str,
        bytes: &'a [u8],
        trailer: &Trailer,
        seed: u32,
    ) -> Result<Self, Problem> {
        let wrong = |at: u64, what: String| Problem::new(name, at, what);
        let table_bytes = trailer
            .table_bytes()
            .and_then(|bytes| usize::try_from(bytes).ok());
        let start = table_bytes.and_then(|table| bytes.len().checked_sub(table));
        let start =
            start.ok_or_else(|| wrong(trailer.data_end, "no room for the table".to_owned()))?;
        let (body, table) = bytes.split_at(start);
        let begin = trailer.data_end.to_le_bytes();
        let at = trailer.data_end + start as u64;
        let crc = crc_from(seed, &[&begin, table]);
        if crc != trailer.table_crc {
            return Err(wrong(
                at,
                format!(
                    "table crc: expected {crc:08x}, found {:08x}",
                    trailer.table_crc
                ),
            ));
        }
        let header = table.last_chunk().expect("it was measured");
        let mut block = Self {
            sections: [Section::default(); SECTIONS],
            header,
        };
        let mut understood = Vec::new();
        let mut rows = Cursor::new(name, at, &table[..table.len() - HEADER_BYTES]);
        let (mut end, mut last) = (trailer.data_end, None);
        for _ in 0..trailer.sections {
            let place = rows.offset();
            let row = rows.take(32)?;
            let section = block.section(name, place, row, (body, trailer.data_end), seed)?;
            let order = (section.flags & MUST_BE_UNDERSTOOD == 0, section.number);
            if section.offset != end || last >= Some(order) {
                return Err(wrong(place, "a section out of its place".to_owned()));
            }
            if section.flags & MUST_BE_UNDERSTOOD != 0 {
                understood.extend_from_slice(row);
            }
            (end, last) = (section.end, Some(order));
        }
        if end != at {
            return Err(wrong(at, "the sections end before their table".to_owned()));
        }
        let crc = crc_from(seed, &[&begin, &understood, header]);
        if crc != trailer.index_crc {
            return Err(wrong(
                at + table.len() as u64 + 72,
                format!(
                    "index crc: expected {crc:08x}, found {:08x}",
                    trailer.index_crc
                ),
            ));
        }
        Ok(block)
    }

    /// Reads a row of the table, at a place of the file, and keeps its section if it is known.
    fn section(
        &mut self,
        name: &str,
        place: u64,
        row: &[u8],
        (body, data_end): (&'a [u8], u64),
        seed: u32,
    ) -> Result<Row, Problem> {
        let mut cursor = Cursor::new(name, place, row);
        let both = cursor.array::<4>()?;
        let number = u16::from_le_bytes([both[0], both[1]]);
        let flags = u16::from_le_bytes([both[2], both[3]]);
        let (element, count, crc) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let (offset, length) = (cursor.u64()?, cursor.u64()?);
        let newer = |what: &str| {
            Problem::new(name, place, format!("section of type {number}: {what}")).of_newer_build()
        };
        let known = usize::from(number).wrapping_sub(1);
        match ROW_BYTES.get(known) {
            None if flags & MUST_BE_UNDERSTOOD != 0 => return Err(newer("must be understood")),
            Some(_) if flags != u16::from(known < UNDERSTOOD) => return Err(newer("flags")),
            _ if flags & !MUST_BE_UNDERSTOOD != 0 => return Err(newer("flags")),
            Some(bytes) if *bytes != element => return Err(newer("bytes of an element")),
            _ => {}
        }
        let wrong =
            |what: &str| Problem::new(name, place, format!("section of type {number}: {what}"));
        let end = length
            .checked_next_multiple_of(8)
            .and_then(|padded| offset.checked_add(padded));
        let within = |at: u64| usize::try_from(at.checked_sub(data_end)?).ok();
        let bytes = end.and_then(|end| body.get(within(offset)?..within(end)?));
        let (Some(bytes), Some(end)) = (bytes, end) else {
            return Err(wrong("not inside the block"));
        };
        if length != u64::from(element) * u64::from(count) {
            return Err(wrong("another length than that of its elements"));
        }
        if crc_from(seed, &[&offset.to_le_bytes(), bytes]) != crc {
            return Err(wrong("its crc is wrong"));
        }
        if let Some(section) = self.sections.get_mut(known) {
            *section = Section {
                bytes,
                count,
                offset,
            };
        }
        Ok(Row {
            number,
            flags,
            offset,
            end,
        })
    }
}

/// What the order of sections is told by.
struct Row {
    number: u16,
    flags: u16,
    offset: u64,
    end: u64,
}

/// The trailer, if the segment is sealed.
pub(super) fn find_trailer(
    name: &str,
    file: &[u8],
    header: &Header,
) -> Result<Option<Trailer>, Problem> {
    let Some(start) = file.len().checked_sub(TRAILER_BYTES) else {
        return Ok(None);
    };
    let bytes = &file[start..];
    if Cursor::of_checked(name, start as u64, bytes, b"RUNLOGIX").is_err() {
        return Ok(None);
    }
    let trailer = Trailer::read(
        name,
        start as u64,
        bytes,
        (header.id, header.salt, header.base_position),
    )?;
    Ok(trailer.filter(|trailer| trailer.length() == Some(file.len() as u64)))
}

/// Compares an index block and its trailer with the records before them. `bytes` begin at `data_end`.
pub(super) fn check_block(
    name: &str,
    bytes: &[u8],
    segment: &SegmentFacts,
    trailer: &Trailer,
    builder: &Builder,
    meaning: &Meaning,
) -> Result<(), Problem> {
    let (block, _) = bytes
        .split_last_chunk::<TRAILER_BYTES>()
        .ok_or_else(|| Problem::new(name, trailer.data_end, "no room for a trailer"))?;
    let block = Block::read(name, block, trailer, segment.seed)?;
    let wrong_trailer =
        |what: String| Problem::new(name, trailer.data_end + bytes.len() as u64 - 128, what);
    let sections = builder.sections(meaning);
    if trailer.repaired {
        repaired::check_sections(name, &block, &sections)?;
    } else {
        let mut at = trailer.data_end;
        for (expected, found) in sections.iter().zip(block.sections) {
            compare(name, at, expected, found.bytes)?;
            at += found.bytes.len() as u64;
        }
        for ((expected, found), number) in sections.iter().zip(block.sections).zip(1_u16..) {
            let count = builder.count(number, expected);
            if count != found.count {
                let message = format!(
                    "index block: expected {count} elements of type {number}, found {}",
                    found.count
                );
                return Err(Problem::new(name, found.offset, message));
            }
        }
    }
    if *block.header != segment.header {
        let message = "the header in the index block is another than the segment's";
        return Err(Problem::new(
            name,
            trailer.data_end + bytes.len() as u64 - (TRAILER_BYTES + HEADER_BYTES) as u64,
            message,
        ));
    }
    let times = builder
        .times_ms
        .unwrap_or((segment.base_time_ms, segment.base_time_ms));
    let next_stream =
        u32::try_from(meaning.streams.len() + 1).expect("streams have 32-bit numbers");
    let found = (
        trailer.time_first_ms,
        trailer.time_last_ms,
        trailer.next_stream,
    );
    // A pack's are those of all records that it stands for; they were compared with what is left of them.
    let times = if segment.is_pack() {
        (found.0, found.1)
    } else {
        times
    };
    let expected = (times.0, times.1, next_stream);
    // Nobody knows the time of what was lost, nor perhaps which streams were made.
    if !trailer.repaired && expected != found {
        return Err(wrong_trailer(format!(
            "times and next stream: expected {expected:?}, found {found:?}"
        )));
    }
    let next_position = if segment.is_pack() {
        trailer.next_position
    } else {
        segment.base_position + u64::from(builder.records)
    };
    let expected = (builder.records, next_position);
    let found = (trailer.records, trailer.next_position);
    if expected == found || trailer.repaired && expected.0 <= found.0 && expected.1 <= found.1 {
        return Ok(());
    }
    Err(wrong_trailer(format!(
        "records and next position: expected {expected:?}, found {found:?}"
    )))
}

/// That bytes of an index block are as expected; `at` is where they begin.
pub(super) fn compare(name: &str, at: u64, expected: &[u8], found: &[u8]) -> Result<(), Problem> {
    if expected == found {
        return Ok(());
    }
    let place = found
        .iter()
        .zip(expected)
        .take_while(|(found, expected)| found == expected)
        .count();
    let message = format!(
        "index block: expected {} bytes, found {}; they differ here",
        expected.len(),
        found.len()
    );
    Err(Problem::new(name, at + place as u64, message))
}
