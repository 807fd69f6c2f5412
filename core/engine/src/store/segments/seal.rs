//! The header that begins a segment, and the index block that ends it.

use crate::{
    Host, Result, SegmentId,
    format::{
        Features, WRITER_VERSION,
        files::Identity,
        index::{Ends, Trailer},
        segment::Header,
    },
    index::{memory::Copied, streams::Streams},
    limits,
    log::segment::Segment,
    storage::{Access, IoContext, Storage},
};

/// The header of the first segment of a store, with a salt and a uuid that no other has.
pub(crate) fn first_header(identity: &Identity, host: &dyn Host, epoch: u32) -> Header {
    let (mut salt, mut uuid) = ([0; 4], [0; 16]);
    host.random(&mut salt);
    host.random(&mut uuid);
    Header {
        store: identity.store,
        segment: SegmentId(1),
        salt: u32::from_le_bytes(salt),
        uuid,
        base_position: 1,
        base_time_ms: host.now_ms().min(limits::TIME_MS_MAX),
        predecessor_end: 0,
        predecessor_salt: 0,
        predecessor_index_crc: 0,
        next_stream: 1,
        features: Features {
            read_only_compatible: Features::LABELS,
            ..Features::default()
        },
        epoch,
        writer_version: WRITER_VERSION,
        hash_key: identity.hash_key,
        compacted: None,
    }
}

/// An index block with its trailer, and the CRC that the next segment's header repeats.
pub(crate) struct EncodedIndex {
    pub(crate) bytes: Vec<u8>,
    pub(crate) crc: u32,
}

/// The index block and trailer of a segment whose records end at `end`, as the directory has it now.
pub(crate) fn encode_index(
    segment: &Segment,
    streams: &Streams,
    index: Copied,
    end: u64,
    next_stream: u32,
) -> EncodedIndex {
    let header = &segment.header;
    let ends = Ends {
        data_end: end,
        next_position: header.base_position + u64::from(index.records),
        next_stream,
        repaired: false,
    };
    let trailer = Trailer::new(header, &ends, index.records, index.times_ms);
    let (bytes, crc) = index
        .parts(|number| streams.id_bytes(number))
        .encode(trailer, header);
    EncodedIndex { bytes, crc }
}

/// Ends a segment with its index block and trailer, durably, and opens it as sealed.
pub(crate) fn seal(
    storage: &dyn Storage,
    segment: &Segment,
    end: u64,
    index: &[u8],
) -> Result<Segment> {
    let doing = || format!("sealing {}", segment.name);
    let file = storage
        .open(&segment.name, Access::Write)
        .with_context(doing)?;
    file.write_at(end, index).with_context(doing)?;
    file.set_len(end + index.len() as u64).with_context(doing)?;
    file.sync().with_context(doing)?;
    let sealed = Segment::open(storage, segment.id(), Access::Read, &segment.header.store)?;
    if sealed.trailer().is_none() {
        return Err(segment.damaged(end, "the index block just written does not read back"));
    }
    Ok(sealed)
}
