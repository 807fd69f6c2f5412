//! The index block and trailer that end a sealed segment.
//!
//! The sections, each at a multiple of 8 bytes: stream rows (32 bytes each, by stream number), postings (4 bytes a data
//! record: its offset), samples (8 bytes: the index and offset of every 64th record), control rows (48 bytes each: what
//! engine records did, in order), keys (16 bytes each), and the sections of the label index ([`labels`]). An empty
//! section is omitted. After them come the table of sections (32 bytes each), a copy of the segment's header (512
//! bytes), and the trailer (128 bytes).

mod block;
mod in_place;
mod labels;
mod parts;
mod rows;
mod sections;
mod single_rows;
mod stream_rows;
mod trailer;

use rows::{FILTER_WORDS, partition_point};

#[cfg(test)]
mod tests;

pub(crate) use block::Block;
pub(crate) use in_place::InPlace;
pub(crate) use labels::{LabelIndex, LabelPostings};
pub(crate) use parts::{Labelled, Parts};
pub(crate) use rows::{
    CONTROL_ROW_BYTES, ControlRow, DROPPED, FILTER_ROW_BYTES, KEY_ROW_BYTES, KeyRow,
    LABEL_BYTES_MAX, LABEL_ROW_BYTES, LabelRow, SAMPLE_EVERY, SAMPLE_ROW_BYTES, SECTION_ROW_BYTES,
    SECTIONS_MAX, STREAM_ROW_BYTES, SampleRow, StreamRow, TRAILER_BYTES, filter_rows,
};
pub(crate) use sections::{Counts, Section, SectionType, Table, check_section};
pub(crate) use single_rows::ReadAt;
pub(crate) use stream_rows::StreamRows;
pub(crate) use trailer::{Ends, Trailer};
