//! [`Sources`]: the small files beside the segments. Read before any segment, so that they are never newer than the
//! segments they are compared with.

use crate::{
    ErrorKind, Result, SegmentId,
    format::{
        Features,
        files::{self, End, Identity, SegmentFile, WATERMARK_BYTES_MAX, Watermark},
        index::TRAILER_BYTES,
        segment::{COPY_BYTES, DATA_START, HEADER_BYTES, Header},
    },
    index::checkpoint::{self, Checkpoint},
    limits,
    storage::{Access, File, IoContext, Storage},
    store::{
        files::{end, small},
        open::folder::read_identity,
        segments::chain,
    },
};

/// The contents of the small files.
pub(crate) struct Sources {
    pub(crate) identity: Identity,
    /// Why the identity was made from the segments.
    pub(crate) identity_lost: Option<String>,
    /// The watermark, if it was written since the machine's last boot.
    pub(crate) watermark: Option<Watermark>,
    pub(crate) end: Option<End>,
    /// Why there is no end marker, though its file is there.
    pub(crate) end_damaged: Option<String>,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// Why there is no checkpoint, though its file is there.
    pub(crate) checkpoint_damaged: Option<String>,
}

impl Sources {
    /// Reads them.
    pub(crate) fn read(storage: &dyn Storage) -> Result<Self> {
        let (identity, identity_lost) = identity(storage)?;
        // A newer build's file is an error, even if this build would ignore its contents.
        let watermark = read_watermark(storage)?
            .filter(|found| found.store == identity.store && storage.boot_id() == Some(found.boot));
        let (end, end_damaged) = match end::read_damaged(storage) {
            Ok(Some(end)) if end.store != identity.store => {
                (None, Some("it is of another store".to_owned()))
            }
            Ok(end) => (end, None),
            Err(error) if error.kind() == ErrorKind::Damaged => (None, Some(error.to_string())),
            Err(error) => return Err(error),
        };
        let (checkpoint, checkpoint_damaged) = match read_checkpoint(storage)? {
            Some(bytes) if checkpoint::is_damaged(&bytes) => (
                None,
                Some("its CRC is wrong, or it isn't whole; it is not used".to_owned()),
            ),
            Some(bytes) => match checkpoint::decode(&bytes.into(), &identity.hash_key) {
                Some(found) if found.end.store != identity.store => {
                    (None, Some("it is of another store".to_owned()))
                }
                found => (found, None),
            },
            None => (None, None),
        };
        Ok(Self {
            identity,
            identity_lost,
            watermark,
            end,
            end_damaged,
            checkpoint,
            checkpoint_damaged,
        })
    }

    /// The highest position after one that was acknowledged, as far as these say.
    pub(crate) fn next_position(&self) -> u64 {
        let published = self
            .watermark
            .map(|watermark| watermark.position.saturating_add(1));
        let closed = self.end.map(|end| end.next_position);
        let saved = self
            .checkpoint
            .as_ref()
            .map(|checkpoint| checkpoint.end.next_position);
        [published, closed, saved]
            .into_iter()
            .flatten()
            .filter(|next| *next <= limits::BASE_POSITION_MAX)
            .max()
            .unwrap_or(1)
    }

    /// The furthest place that was reached, as far as these say, and which of them says so.
    pub(crate) fn reached(&self) -> Option<((SegmentId, u64), &'static str)> {
        let published = self
            .watermark
            .map(|watermark| ((watermark.segment, watermark.offset), files::WATERMARK));
        let closed = self.end.map(|end| ((end.segment, end.offset), files::END));
        let saved = self.checkpoint.as_ref().map(|checkpoint| &checkpoint.end);
        let saved = saved.map(|end| ((SegmentId(end.segment), end.offset), files::CHECKPOINT));
        [saved, closed, published]
            .into_iter()
            .flatten()
            .max_by_key(|(place, _)| *place)
    }
}

/// What the watermark says, whatever store and boot it is of. An error of reading it is one here: what it knows may be known
/// nowhere else.
fn read_watermark(storage: &dyn Storage) -> Result<Option<Watermark>> {
    // A writer may be writing it; then it is read again.
    for _ in 0..READS_MAX {
        let read = |file: &dyn File| small::start(file, WATERMARK_BYTES_MAX);
        let Some(bytes) = small::read(storage, files::WATERMARK, read)? else {
            return Ok(None);
        };
        if let Some(watermark) = Watermark::decode(&bytes)? {
            return Ok(Some(watermark));
        }
    }
    Ok(None)
}

const READS_MAX: u32 = 100;

fn read_checkpoint(storage: &dyn Storage) -> Result<Option<Vec<u8>>> {
    small::read(storage, files::CHECKPOINT, |file| {
        let length = file.len()?.min(limits::CHECKPOINT_BYTES_MAX);
        // One that is no checkpoint needn't be read whole to be seen to be none.
        let start = small::start(file, checkpoint::HEADER_BYTES)?;
        if checkpoint::may_be_one(&start, length) {
            return small::start(file, usize::try_from(length).unwrap_or(usize::MAX));
        }
        Ok(start)
    })
}

/// The identity of the store; where its file is lost, or is another store's, what the segments say of it, and why.
fn identity(storage: &dyn Storage) -> Result<(Identity, Option<String>)> {
    let read = match read_identity(storage) {
        Err(error) if !matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotAStore) => {
            return Err(error);
        }
        read => read,
    };
    let ids = chain::segment_files(storage)?.current;
    if let Ok(identity) = &read {
        let is_own = |id: &SegmentFile| {
            Ok(header_of(storage, *id)?.is_some_and(|header| header.store == identity.store))
        };
        // Usually all are of one store, and needn't be counted. Of another's files the first and the last may be two.
        let mut others = ids
            .iter()
            .map(is_own)
            .filter(|is_own| !matches!(is_own, Ok(true)));
        match others.next() {
            None => return Ok((*identity, None)),
            Some(Err(error)) => return Err(error),
            Some(Ok(_)) => {}
        }
    }
    let said = said_by_segments(storage, &ids)?;
    // Of as many, the first: it was made first.
    let most = said.iter().rev().max_by_key(|(_, count)| *count);
    match (read, most) {
        (Ok(identity), Some((other, count))) => {
            let own = said
                .iter()
                .find(|(said, _)| said.store == identity.store)
                .map_or(0, |(_, count)| *count);
            let is_foreign = own < *count;
            let why = is_foreign.then(|| format!("it is of another store than {count} segments"));
            Ok((if is_foreign { *other } else { identity }, why))
        }
        (Ok(identity), None) => Ok((identity, None)),
        (Err(error), Some((most, _))) => Ok((*most, Some(error.to_string()))),
        (Err(error), None) => Err(error),
    }
}

/// The identities in the headers of segments, and how many headers have each.
fn said_by_segments(storage: &dyn Storage, ids: &[SegmentFile]) -> Result<Vec<(Identity, u64)>> {
    let mut found: Vec<(Identity, u64)> = Vec::new();
    for id in ids {
        let Some(header) = header_of(storage, *id)? else {
            continue;
        };
        let said = Identity {
            store: header.store,
            created_ms: header.base_time_ms,
            features: Features {
                compatible: 0,
                ..header.features
            },
            hash_key: header.hash_key,
        };
        let same = |(other, _): &&mut (Identity, u64)| {
            (other.store, other.hash_key) == (said.store, said.hash_key)
        };
        match found.iter_mut().find(same) {
            Some((_, count)) => *count += 1,
            None => found.push((said, 1)),
        }
        found.truncate(IDENTITIES_MAX);
    }
    Ok(found)
}

/// Segments of more stores than this are not counted apart.
const IDENTITIES_MAX: usize = 64;

/// The header of a segment, whatever store it is of, when one of its copies checks.
fn header_of(storage: &dyn Storage, named: SegmentFile) -> Result<Option<Header>> {
    let name = named.name();
    let doing = || format!("reading the header of {name}");
    let file = storage.open(&name, Access::Read).with_context(doing)?;
    let length = file.len().with_context(doing)?.min(DATA_START);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(HEADER_BYTES)];
    file.read_at(0, &mut bytes).with_context(doing)?;
    let header = match Header::decode(&bytes, &name) {
        Err(error) if error.kind() == ErrorKind::Damaged => footer_of(&*file, &name)?,
        header => Some(header?),
    };
    Ok(header.filter(|header| header.segment == named.first))
}

/// The copy of the header that ends the index block of a sealed segment.
pub(super) fn footer_of(file: &dyn File, name: &str) -> Result<Option<Header>> {
    let doing = || format!("reading the header of {name}");
    let behind = (COPY_BYTES + TRAILER_BYTES) as u64;
    let Some(at) = file.len().with_context(doing)?.checked_sub(behind) else {
        return Ok(None);
    };
    let mut copy = [0; COPY_BYTES];
    file.read_at(at, &mut copy).with_context(doing)?;
    match Header::decode_copy(&copy, name, usize::try_from(at).unwrap_or(usize::MAX)) {
        Ok(header) => Ok(Some(header)),
        Err(error) if error.kind() == ErrorKind::Damaged => Ok(None),
        Err(error) => Err(error),
    }
}

/// Which segments the checkpoint and the end marker name, and what salts they say those have.
pub(super) fn named_salts(
    saved: Option<&Checkpoint>,
    closed: Option<&End>,
) -> [Option<(SegmentId, u32)>; 2] {
    let saved = saved.map(|saved| (SegmentId(saved.end.segment), saved.end.salt));
    [saved, closed.map(|end| (end.segment, end.salt))]
}
