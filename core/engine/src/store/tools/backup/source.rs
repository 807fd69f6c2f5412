//! [`Source`]: one segment to copy, in its state at the start of the backup.

use std::io;

use crate::{
    Position, Result,
    format::segment::HEADER_BYTES,
    log::segment::Segment,
    storage::{Access, File},
    store::commit::shared::Shared,
    sync::Arc,
};

/// One segment to copy.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) segment: Arc<Segment>,
    pub(super) file: Arc<dyn File>,
    /// Where its records end.
    pub(super) data_end: u64,
    /// The end of its seal; the end of its records if it isn't sealed.
    pub(super) end: u64,
}

/// The segments to copy, and the last position that they have.
///
/// Packs lack what was truncated or deleted before they were made, and a reader may know of a pack before it knows of that: it
/// looks how far the log goes, and then which files there are. The copy would have streams without their records, or end in a
/// pack, which no store does. So a reader looks once more how far the log goes, until it had these packs before.
pub(super) fn sources(shared: &Shared) -> Result<(io::Result<Vec<Source>>, Position)> {
    let mut found = sources_now(shared);
    while shared.is_read_only() {
        shared.refresh()?;
        let before = std::mem::replace(&mut found, sources_now(shared));
        match (&before.0, &found.0) {
            (Ok(before), Ok(now)) if packs(before).eq(packs(now)) => break,
            (_, Err(_)) => break,
            _ => {}
        }
    }
    Ok(found)
}

fn packs(sources: &[Source]) -> impl Iterator<Item = &str> {
    let packs = sources.iter().filter(|source| source.segment.is_pack());
    packs.map(|source| source.name.as_str())
}

fn sources_now(shared: &Shared) -> (io::Result<Vec<Source>>, Position) {
    let durable = shared.durable();
    let source = |segment: &Arc<Segment>| {
        if segment.is_pack() {
            return pack(shared, segment);
        }
        let data_end = durable.end_of(segment);
        let end = if segment.trailer().is_some() {
            segment.file.len()?
        } else {
            data_end
        };
        let (name, file) = (segment.name.clone(), Arc::clone(&segment.file));
        Ok(Source {
            name,
            segment: Arc::clone(segment),
            file,
            data_end,
            end,
        })
    };
    let sources: io::Result<Vec<Source>> = durable.segments.iter().map(source).collect();
    (sources, Position(durable.next_position - 1))
}

/// A pack is copied as it lies in its file, whole.
fn pack(shared: &Shared, segment: &Arc<Segment>) -> io::Result<Source> {
    let file = shared.storage.open(&segment.name, Access::Read)?;
    let length = file.len()?;
    Ok(Source {
        name: segment.name.clone(),
        segment: Arc::clone(segment),
        file,
        data_end: length,
        end: length,
    })
}

pub(super) fn header(file: &dyn File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER_BYTES];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The bytes of the store's segment and of the backup's between two offsets.
pub(super) fn both(
    source: &Source,
    there: &dyn File,
    from: u64,
    to: u64,
) -> io::Result<[Vec<u8>; 2]> {
    let length = usize::try_from(to - from).map_err(io::Error::other)?;
    let mut parts = [vec![0; length], vec![0; length]];
    source.file.read_at(from, &mut parts[0])?;
    there.read_at(from, &mut parts[1])?;
    Ok(parts)
}

/// The seal of a segment: its index block and trailer.
pub(super) fn tail(source: &Source, file: &dyn File) -> io::Result<Vec<u8>> {
    let length = usize::try_from(source.end - source.data_end).map_err(io::Error::other)?;
    let mut bytes = vec![0; length];
    file.read_at(source.data_end, &mut bytes)?;
    Ok(bytes)
}
