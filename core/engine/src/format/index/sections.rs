//! [`Table`]: the sections of an index block and their offsets.
//!
//! A build skips sections that it doesn't know, unless one is marked as critical; so a later build can add an index
//! without a new format version.

use crate::{
    Error, Result, checksum,
    format::{Field, Fields, aligned, newer, segment},
};

use super::{
    CONTROL_ROW_BYTES, FILTER_ROW_BYTES, KEY_ROW_BYTES, LABEL_ROW_BYTES, SAMPLE_ROW_BYTES,
    SECTION_ROW_BYTES, STREAM_ROW_BYTES, TRAILER_BYTES, Trailer, filter_rows,
};

/// The flag of a section that must be understood.
const CRITICAL: u16 = 1;

/// The type of a section, by its number in the file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SectionType(u16);

impl SectionType {
    pub(crate) const STREAM_ROWS: Self = Self(1);
    pub(crate) const POSTINGS: Self = Self(2);
    pub(crate) const SAMPLES: Self = Self(3);
    pub(crate) const CONTROLS: Self = Self(4);
    pub(crate) const KEYS: Self = Self(5);
    pub(crate) const LABEL_ROWS: Self = Self(6);
    pub(crate) const LABEL_POSTINGS: Self = Self(7);
    pub(crate) const LABEL_FILTER: Self = Self(8);

    /// Those that this build knows, each with the size of an element and whether it must be understood.
    pub(crate) const KNOWN: [(Self, usize, bool); 8] = [
        (Self::STREAM_ROWS, STREAM_ROW_BYTES, true),
        (Self::POSTINGS, 4, true),
        (Self::SAMPLES, SAMPLE_ROW_BYTES, true),
        (Self::CONTROLS, CONTROL_ROW_BYTES, true),
        (Self::KEYS, KEY_ROW_BYTES, true),
        (Self::LABEL_ROWS, LABEL_ROW_BYTES, false),
        (Self::LABEL_POSTINGS, 4, false),
        (Self::LABEL_FILTER, FILTER_ROW_BYTES, false),
    ];
}

layout! {
    /// A row of the table: one section.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Section {
        pub(crate) number: u16,
        pub(crate) flags: u16,
        pub(crate) element_bytes: u32,
        pub(crate) count: u32,
        /// Of its bytes with their padding; it continues the segment's seed and the offset.
        pub(crate) crc: u32,
        /// From the start of the file.
        pub(crate) offset: u64,
        /// Without the padding.
        pub(crate) bytes: u64,
    }
}

impl Section {
    /// A section of a type that this build knows. `bytes` come with their padding.
    pub(super) fn of(kind: SectionType, count: u32, offset: u64, bytes: &[u8], seed: u32) -> Self {
        let (element_bytes, is_critical) = known(kind.0).unwrap_or((1, false));
        Self {
            number: kind.0,
            flags: if is_critical { CRITICAL } else { 0 },
            element_bytes,
            count,
            crc: checksum::crc_at(seed, offset, bytes),
            offset,
            bytes: u64::from(element_bytes) * u64::from(count),
        }
    }

    pub(super) fn is_critical(&self) -> bool {
        self.flags & CRITICAL != 0
    }

    /// Where the next section begins.
    fn end(&self) -> Option<u64> {
        let padded = self.bytes.checked_next_multiple_of(aligned(1) as u64)?;
        self.offset.checked_add(padded)
    }
}

/// The size of an element of a section, and whether the section must be understood.
fn known(number: u16) -> Option<(u32, bool)> {
    let found = SectionType::KNOWN
        .iter()
        .find(|(kind, ..)| kind.0 == number)?;
    Some((u32::try_from(found.1).ok()?, found.2))
}

/// The sections of an index block: they follow each other without a gap from where the records end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Table(pub(super) Vec<Section>);

impl Table {
    /// The table in `bytes`, which are the block from its table on, without the trailer: the table, then the header once more.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion) for a section of a newer build that must be understood.
    pub(crate) fn decode(bytes: &[u8], trailer: &Trailer, seed: u32, name: &str) -> Result<Self> {
        let damaged = |what: String| {
            let offset = trailer.table_offset();
            let message = format!("{name}: offset {offset}: table of the index block: {what}");
            Error::damaged(message)
        };
        let rows = bytes
            .len()
            .checked_sub(segment::COPY_BYTES)
            .filter(|rows| *rows == trailer.sections as usize * SECTION_ROW_BYTES);
        let Some(rows) = rows else {
            return Err(damaged(format!("{} bytes long", bytes.len())));
        };
        let crc = checksum::crc_at(seed, trailer.data_end, bytes);
        if crc != trailer.table_crc {
            let expected = trailer.table_crc;
            return Err(damaged(format!(
                "CRC is {crc:08x}, expected {expected:08x}"
            )));
        }
        let mut fields = Fields::new(&bytes[..rows]);
        let table: Vec<Section> = (0..trailer.sections).map(|_| fields.get()).collect();
        let mut end = Some(trailer.data_end);
        let mut last = None;
        for section in &table {
            check_known(section, name)?;
            let place = (!section.is_critical(), section.number);
            let measured = u64::from(section.element_bytes) * u64::from(section.count);
            if Some(section.offset) != end || last >= Some(place) || section.bytes != measured {
                return Err(damaged(format!(
                    "section of type {} is out of its place",
                    section.number
                )));
            }
            (end, last) = (section.end(), Some(place));
        }
        if end != Some(trailer.table_offset()) {
            return Err(damaged(
                "it does not begin where its sections end".to_owned(),
            ));
        }
        let table = Self(table);
        if table.index_crc(&bytes[rows..], trailer.data_end, seed) != trailer.index_crc {
            return Err(damaged("the trailer has another index CRC".to_owned()));
        }
        Ok(table)
    }

    /// The CRC that the header of the next segment repeats. It covers only the critical sections, so that a repair that
    /// rebuilds the block needn't reproduce the others.
    pub(super) fn index_crc(&self, header_copy: &[u8], data_end: u64, seed: u32) -> u32 {
        let mut bytes = Vec::new();
        let critical = self.0.iter().filter(|section| section.is_critical());
        critical.for_each(|section| section.put(&mut bytes));
        bytes.extend_from_slice(header_copy);
        checksum::crc_at(seed, data_end, &bytes)
    }

    /// The sections before those of labels. Critical sections all precede the labels.
    pub(crate) fn before_labels(&self) -> impl Iterator<Item = &Section> {
        self.0.iter().filter(|section| section.is_critical())
    }

    /// Where the sections of [`before_labels`](Self::before_labels) end.
    pub(crate) fn labels_offset(&self, trailer: &Trailer) -> u64 {
        let last = self.before_labels().last();
        last.and_then(Section::end).unwrap_or(trailer.data_end)
    }

    /// The section of a type, if the block has it.
    pub(crate) fn find(&self, kind: SectionType) -> Option<&Section> {
        self.0.iter().find(|section| section.number == kind.0)
    }
}

/// Refuses a critical section that this build doesn't know.
fn check_known(section: &Section, name: &str) -> Result<()> {
    let Section { number, flags, .. } = *section;
    let what = match known(number) {
        None if section.is_critical() => {
            format!("an index section of type {number}, which must be understood")
        }
        Some((_, is_critical)) if is_critical != section.is_critical() => {
            format!("an index section of type {number} with flags {flags}")
        }
        Some((bytes, _)) if bytes != section.element_bytes => format!(
            "an index section of type {number} with elements of {} bytes",
            section.element_bytes
        ),
        _ if flags & !CRITICAL != 0 => {
            format!("an index section of type {number} with flags {flags}")
        }
        _ => return Ok(()),
    };
    Err(newer(name, &what))
}

/// The number of elements in each section of a segment's index. Each field counts the section of its name.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) stream_rows: usize,
    pub(crate) postings: usize,
    pub(crate) samples: usize,
    pub(crate) controls: usize,
    pub(crate) keys: usize,
    pub(crate) label_rows: usize,
    pub(crate) label_postings: usize,
}

impl Counts {
    /// The most bytes that the block takes, its trailer included. In 64 bits: the counts may be a hostile file's.
    pub(crate) fn block_bytes_max(&self) -> u64 {
        let counts = [
            self.stream_rows,
            self.postings,
            self.samples,
            self.controls,
            self.keys,
            self.label_rows,
            self.label_postings,
            // What is added later may begin another.
            filter_rows(self.label_rows) + 1,
        ];
        let sections = SectionType::KNOWN.iter().zip(counts);
        let rows =
            sections.map(|((_, bytes, _), count)| (count as u64).saturating_mul(*bytes as u64));
        let padded =
            rows.map(|bytes| bytes.saturating_add((aligned(1) + SECTION_ROW_BYTES) as u64));
        padded.fold(
            (segment::COPY_BYTES + TRAILER_BYTES) as u64,
            u64::saturating_add,
        )
    }
}

/// Checks the CRC of a section; `bytes` come with the padding.
pub(crate) fn check_section(section: &Section, bytes: &[u8], seed: u32, name: &str) -> Result<()> {
    let crc = checksum::crc_at(seed, section.offset, bytes);
    if crc == section.crc {
        return Ok(());
    }
    let message = format!(
        "{name}: offset {}: index block: CRC of the section of type {} is {crc:08x}, expected {:08x}",
        section.offset, section.number, section.crc
    );
    Err(Error::damaged(message))
}
