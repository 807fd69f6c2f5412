//! [`Trailer`]: the last bytes of a sealed segment, by which its index block is found.

use bytes::BufMut;

use super::{Counts, TRAILER_BYTES};
use crate::{
    ErrorKind, Result, SegmentId,
    format::{self, Field, Fields, VERSION, segment},
    limits,
};

const MAGIC: [u8; 8] = *b"RUNLOGIX";
/// The flag of a trailer whose block was made by a repair.
const FLAG_REPAIRED: u32 = 1;
/// Where the flags of a trailer are.
const FLAGS_AT: usize = 92;

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
        pub(crate) counts: Counts,
        /// The number that the next new stream gets.
        pub(crate) next_stream: u32,
        pub(crate) index_crc: u32,
        /// Whether the block was made by a repair: records that it names may be lost.
        pub(crate) repaired: bool,
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

/// What a trailer says that neither the segment's header nor its block does.
pub(crate) struct Ends {
    pub(crate) data_end: u64,
    pub(crate) next_position: u64,
    pub(crate) next_stream: u32,
    pub(crate) repaired: bool,
}

impl Trailer {
    /// The trailer of the segment with this header, but for the counts and the CRC that come with the block.
    /// `times_ms` are those of the first and the last record, if there are any.
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
            counts: Counts::default(),
            next_stream: ends.next_stream,
            index_crc: 0,
            repaired: ends.repaired,
        }
    }

    pub(super) fn encode(&self) -> [u8; TRAILER_BYTES] {
        format::fixed(|bytes| put!(bytes, MAGIC, VERSION, *self))
    }

    /// The trailer in the last bytes of a file of `file_bytes`, or `None` when there is none, as in a
    /// segment that was never sealed. A trailer is recognised by its CRC, its segment and its sizes together.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](ErrorKind::UnsupportedVersion) for one that checks and is a newer build's.
    pub(crate) fn decode(
        bytes: &[u8; TRAILER_BYTES],
        header: &segment::Header,
        file_bytes: u64,
    ) -> Result<Option<Self>> {
        let name = || format::files::segment_name(header.segment);
        match format::checked(bytes, &MAGIC, &name()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Damaged => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut fields = Fields::new(&bytes[12..]);
        let trailer: Self = fields.get();
        let flags = Fields::new(&bytes[FLAGS_AT..]).u32();
        if flags & !FLAG_REPAIRED != 0 || fields.take::<28>() != [0; 28] {
            return Err(format::newer(
                &name(),
                "something in the reserved bytes of its trailer",
            ));
        }
        let (base, next) = (trailer.base_position, trailer.next_position);
        let fits = trailer.segment == header.segment
            && trailer.salt == header.salt
            && base == header.base_position
            && next
                .checked_sub(base)
                .is_some_and(|count| count >= u64::from(trailer.records))
            && next - base <= u64::from(u32::MAX)
            && trailer.time_max_ms <= limits::TIME_MS_MAX
            && trailer.data_end >= segment::HEADER_BYTES as u64
            && trailer.data_end.checked_add(trailer.block_bytes()) == Some(file_bytes);
        Ok(fits.then_some(trailer))
    }

    /// The size of the block with its trailer.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.counts.encoded_bytes()
    }
}
