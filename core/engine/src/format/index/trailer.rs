//! [`Trailer`]: the last bytes of a sealed segment, by which its index block is found.

use bytes::BufMut;

use super::{SECTION_ROW_BYTES, SECTIONS_MAX, TRAILER_BYTES};
use crate::{
    ErrorKind, Result, SegmentId,
    format::{self, Field, Fields, segment},
    limits,
};

const MAGIC: [u8; 8] = *b"RUNLOGIX";
/// The flag of a trailer whose block was made by a repair.
const FLAG_REPAIRED: u32 = 1;
/// A block without labels has no more sections of those that this build knows.
const SECTIONS_WITHOUT_LABELS_MAX: u32 = 5;
/// Where the flags of a trailer are.
const FLAGS_AT: usize = 68;

layout! {
    /// The last 128 bytes of a sealed segment.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Trailer {
        pub(crate) salt: u32,
        /// Where the records end and the index block begins.
        pub(crate) data_end: u64,
        pub(crate) base_position: u64,
        /// The position after its last record's.
        pub(crate) next_position: u64,
        pub(crate) time_min_ms: u64,
        pub(crate) time_max_ms: u64,
        pub(crate) segment: SegmentId,
        /// How many of its records have a position.
        pub(crate) records: u32,
        /// The number that the next new stream gets.
        pub(crate) next_stream: u32,
        /// Whether the block was made by a repair: records that it names may be lost.
        pub(crate) repaired: bool,
        /// Of the sections that must be understood; the next segment's header repeats it.
        pub(crate) index_crc: u32,
        /// Of the table of sections and the header behind it.
        pub(crate) table_crc: u32,
        /// How many sections the block has.
        pub(crate) sections: u32,
        /// The size of the block: sections, table and header.
        pub(crate) index_bytes: u64,
    }
}

/// The flags of a trailer.
impl Field for bool {
    fn put(&self, bytes: &mut impl BufMut) {
        put!(bytes, if *self { FLAG_REPAIRED } else { 0 });
    }

    fn get(fields: &mut Fields<'_>) -> Self {
        fields.u32() & FLAG_REPAIRED != 0
    }
}

/// The fields of a trailer that come neither from the segment's header nor from its block.
pub(crate) struct Ends {
    pub(crate) data_end: u64,
    pub(crate) next_position: u64,
    pub(crate) next_stream: u32,
    pub(crate) repaired: bool,
}

impl Trailer {
    /// The trailer of the segment with this header, without the block's size and CRCs. `times_ms` are those of the
    /// first and the last record, if there are any.
    pub(crate) fn new(
        header: &segment::Header,
        ends: &Ends,
        records: u32,
        times_ms: Option<(u64, u64)>,
    ) -> Self {
        let (time_min_ms, time_max_ms) =
            times_ms.unwrap_or((header.base_time_ms, header.base_time_ms));
        Self {
            salt: header.salt,
            data_end: ends.data_end,
            base_position: header.base_position,
            next_position: ends.next_position,
            time_min_ms,
            time_max_ms,
            segment: header.segment,
            records,
            next_stream: ends.next_stream,
            repaired: ends.repaired,
            index_crc: 0,
            table_crc: 0,
            sections: 0,
            index_bytes: 0,
        }
    }

    /// In place of the trailer of a pack, where that can't be read: its index may have anything.
    pub(crate) fn unreadable(header: &segment::Header, file_bytes: u64) -> Self {
        let ends = Ends {
            data_end: file_bytes.saturating_sub(TRAILER_BYTES as u64),
            next_position: header.base_position,
            next_stream: header.next_stream,
            repaired: false,
        };
        Self {
            sections: SECTIONS_MAX,
            ..Self::new(header, &ends, 0, None)
        }
    }

    pub(super) fn encode(&self) -> [u8; TRAILER_BYTES] {
        format::fixed(|bytes| put!(bytes, MAGIC, format::VERSION, *self))
    }

    /// The trailer in the last bytes of a file of `file_bytes`, or `None` if they are none, as in a segment that was
    /// never sealed. A trailer is recognised by its CRC, its segment and its sizes together.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) for one that checks and is a newer build's.
    pub(crate) fn decode(
        bytes: &[u8; TRAILER_BYTES],
        header: &segment::Header,
        file_bytes: u64,
    ) -> Result<Option<Self>> {
        let name = || format::files::segment_name(header.segment);
        let mut fields = Fields::new(&bytes[12..]);
        let trailer: Self = fields.get();
        // A payload may end in bytes that look like a trailer, but they can't contain this segment's salt: only a
        // trailer with it can be a newer build's.
        let is_ours = trailer.segment == header.segment
            && trailer.salt == header.salt
            && trailer.base_position == header.base_position;
        match format::checked(bytes, &MAGIC, &name()) {
            _ if !is_ours => return Ok(None),
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Damaged => return Ok(None),
            Err(error) => return Err(error),
        }
        let flags = Fields::new(&bytes[FLAGS_AT..]).u32();
        if flags & !FLAG_REPAIRED != 0 || fields.take::<32>() != [0; 32] {
            return Err(format::newer(
                &name(),
                "something in the reserved bytes of its trailer",
            ));
        }
        let (base, next) = (trailer.base_position, trailer.next_position);
        let fits = next
            .checked_sub(base)
            .is_some_and(|count| count >= u64::from(trailer.records))
            && next - base <= u64::from(u32::MAX)
            && trailer.time_max_ms <= limits::TIME_MS_MAX
            && trailer.data_end >= segment::HEADER_BYTES as u64
            && trailer.sections <= SECTIONS_MAX
            && trailer.index_bytes >= trailer.table_bytes()
            && trailer.index_bytes <= limits::SEGMENT_BYTES_MAX
            && trailer.data_end.checked_add(trailer.block_bytes()) == Some(file_bytes);
        Ok(fits.then_some(trailer))
    }

    /// Whether the block may have labels: one that has any has six sections at least, since a labelled record has a row, a posting and
    /// a sample.
    pub(crate) fn may_have_labels(&self) -> bool {
        self.sections > SECTIONS_WITHOUT_LABELS_MAX
    }

    /// The size of the block with its trailer.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.index_bytes + TRAILER_BYTES as u64
    }

    /// The size of the table of sections with the header behind it.
    fn table_bytes(&self) -> u64 {
        u64::from(self.sections) * SECTION_ROW_BYTES as u64 + segment::COPY_BYTES as u64
    }

    /// Where the table of sections begins: the block ends with it and the header once more.
    pub(crate) fn table_offset(&self) -> u64 {
        self.data_end + self.index_bytes - self.table_bytes()
    }
}
