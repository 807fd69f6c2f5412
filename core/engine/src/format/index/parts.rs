//! [`Parts`]: an index block before it is encoded.

use super::{ControlRow, Counts, KeyRow, SampleRow, StreamRow, Trailer};
use crate::{
    checksum,
    format::{Field, aligned, segment},
};

/// The index of one segment, built from its parts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parts {
    pub(crate) stream_rows: Vec<StreamRow>,
    pub(crate) postings: Vec<u32>,
    pub(crate) samples: Vec<SampleRow>,
    pub(crate) controls: Vec<ControlRow>,
    pub(crate) keys: Vec<KeyRow>,
}

impl Parts {
    /// The block of the segment with this header, and its trailer; `trailer`'s counts and CRC are filled in. And the CRC.
    pub(crate) fn encode(&self, mut trailer: Trailer, header: &segment::Header) -> (Vec<u8>, u32) {
        trailer.counts = Counts::of([
            self.stream_rows.len(),
            self.postings.len(),
            self.samples.len(),
            self.controls.len(),
            self.keys.len(),
        ]);
        let length = trailer.counts.encoded_bytes();
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        put_all(&mut bytes, &self.stream_rows);
        put_all(&mut bytes, &self.postings);
        bytes.resize(aligned(bytes.len()), 0);
        put_all(&mut bytes, &self.samples);
        put_all(&mut bytes, &self.controls);
        put_all(&mut bytes, &self.keys);
        put!(&mut bytes, header.encode());
        trailer.index_crc = checksum::crc_at(header.seed(), trailer.data_end, &bytes);
        put!(&mut bytes, trailer.encode());
        (bytes, trailer.index_crc)
    }
}

fn put_all<T: Field>(bytes: &mut Vec<u8>, rows: &[T]) {
    rows.iter().for_each(|row| row.put(bytes));
}
