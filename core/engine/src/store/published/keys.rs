//! [`KeyCache`]: the idempotency keys of the streams' records in sealed segments.
//!
//! A key is indexed in the index block of its segment, so an append with a key to a stream with records in many
//! segments would search each of them. The hashes of a stream's keys are therefore collected once and updated as
//! segments are sealed; the least recently used streams are evicted. The keys of the active segment are not cached: its
//! index finds them in O(1).

use std::collections::{BTreeMap, HashSet};

use super::durable::Durable;
use crate::{
    Result, SegmentId,
    index::NumberMap,
    log::segment::Segment,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, read},
};

/// At most this many hashes are kept, of all streams together: about 16 MiB. A stream with more of them is searched in
/// its segments, outside of every lock.
const HASHES_MAX: usize = 1 << 20;

/// The cost of a stream, in hashes, beside its own hashes.
const STREAM_COST: usize = 8;

/// The hashes of some streams' keys.
#[derive(Default)]
pub(crate) struct KeyCache {
    streams: NumberMap<Known>,
    /// The streams by their last use.
    by_use: BTreeMap<u64, u32>,
    uses: u64,
    cost: usize,
}

struct Known {
    /// `None` where there are too many to keep.
    hashes: Option<HashSet<u64>>,
    /// The hashes cover the segments before this one.
    before: SegmentId,
    used: u64,
}

impl Known {
    fn cost(&self) -> usize {
        STREAM_COST + self.hashes.as_ref().map_or(0, HashSet::len)
    }
}

/// The result of a lookup in the cache.
enum Answer {
    /// No sealed segment has it.
    Absent,
    /// A segment may have it: search the segments.
    Ask,
    /// The hashes in the segments from this one on have to be gathered first.
    Gather(SegmentId),
}

impl KeyCache {
    fn answer(&mut self, stream: u32, hash: u64, active: SegmentId) -> Answer {
        let Some(known) = self.streams.get_mut(&stream) else {
            return Answer::Gather(SegmentId(0));
        };
        self.uses += 1;
        self.by_use.remove(&known.used);
        self.by_use.insert(self.uses, stream);
        known.used = self.uses;
        match &known.hashes {
            None => Answer::Ask,
            Some(_) if known.before < active => Answer::Gather(known.before),
            Some(hashes) if hashes.contains(&hash) => Answer::Ask,
            Some(_) => Answer::Absent,
        }
    }

    /// Adds the hashes collected from the segments from `from` up to `active`.
    fn add(
        &mut self,
        stream: u32,
        from: SegmentId,
        active: SegmentId,
        gathered: Option<HashSet<u64>>,
    ) {
        let before = self.remove(stream);
        let known_before = before.as_ref().map_or(SegmentId(0), |known| known.before);
        if known_before != from {
            // Another thread was faster; its result is valid too.
            before
                .into_iter()
                .for_each(|known| self.insert(stream, known));
            return;
        }
        let mut hashes = before.map_or_else(|| Some(HashSet::new()), |known| known.hashes);
        hashes = hashes.zip(gathered).map(|(mut all, more)| {
            all.extend(more);
            all
        });
        let hashes = hashes.filter(|hashes| hashes.len() <= HASHES_MAX / 2);
        self.uses += 1;
        self.insert(
            stream,
            Known {
                hashes,
                before: active,
                used: self.uses,
            },
        );
        while self.cost > HASHES_MAX
            && let Some((_, oldest)) = self.by_use.first_key_value()
        {
            self.remove(*oldest);
        }
    }

    fn insert(&mut self, stream: u32, known: Known) {
        self.cost += known.cost();
        self.by_use.insert(known.used, stream);
        self.streams.insert(stream, known);
    }

    fn remove(&mut self, stream: u32) -> Option<Known> {
        let known = self.streams.remove(&stream)?;
        self.by_use.remove(&known.used);
        self.cost -= known.cost();
        Some(known)
    }
}

fn unpoisoned(cache: &Mutex<KeyCache>) -> MutexGuard<'_, KeyCache> {
    // After a panic the cache may lack a stream, which is then collected again.
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where sealed segments before `active` may have a stream's key: the segment, and the offset of the batch. It may read
/// index blocks, so no lock is held.
pub(crate) fn sealed_keys(
    cache: &Mutex<KeyCache>,
    durable: &RwLock<Durable>,
    stream: u32,
    hash: u64,
    active: SegmentId,
) -> Result<Vec<(Arc<Segment>, u64)>> {
    loop {
        let answer = unpoisoned(cache).answer(stream, hash, active);
        match answer {
            Answer::Absent => return Ok(Vec::new()),
            Answer::Ask => {
                let mut places = Vec::new();
                for segment in segments_of(durable, stream, SegmentId(0), active)
                    .iter()
                    .rev()
                {
                    if let Some(block) = segment.block()? {
                        places.extend(
                            block
                                .keys(stream, hash)
                                .map(|offset| (segment.clone(), offset)),
                        );
                    }
                }
                return Ok(places);
            }
            Answer::Gather(from) => {
                let hashes = gather(durable, stream, from, active)?;
                unpoisoned(cache).add(stream, from, active, hashes);
            }
        }
    }
}

/// The segments from `from` up to `active`, not included, that a stream has records in.
fn segments_of(
    durable: &RwLock<Durable>,
    stream: u32,
    from: SegmentId,
    active: SegmentId,
) -> Vec<Arc<Segment>> {
    let durable = read(durable);
    let runs = durable
        .directory
        .stream(stream)
        .map_or(&[][..], |stream| &stream.runs);
    let first = runs.partition_point(|run| run.segment < from);
    let wanted = runs
        .iter()
        .skip(first)
        .take_while(|run| run.segment < active);
    let found = wanted.filter_map(|run| durable.segment(run.segment).cloned());
    let mut segments: Vec<_> = found.collect();
    // Several runs may be in one pack.
    segments.dedup_by(|one, other| Arc::ptr_eq(one, other));
    segments
}

/// The hashes of a stream's keys in these segments; `None` when they are too many.
fn gather(
    durable: &RwLock<Durable>,
    stream: u32,
    from: SegmentId,
    active: SegmentId,
) -> Result<Option<HashSet<u64>>> {
    let mut hashes = HashSet::new();
    for segment in segments_of(durable, stream, from, active) {
        if let Some(block) = segment.block()? {
            hashes.extend(block.keys_of(stream));
        }
        if hashes.len() > HASHES_MAX / 2 {
            return Ok(None);
        }
    }
    Ok(Some(hashes))
}

#[cfg(test)]
#[path = "keys_tests.rs"]
mod tests;
