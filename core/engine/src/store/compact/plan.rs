//! Which segments become packs.

use std::collections::HashMap;

use super::live::{InUse, Live};
use crate::{
    CompactScope, Kind, Result,
    format::{index::Block, segment::DATA_START},
    index::{lineage::View, redacted::Redacted, streams::Streams},
    log::{scan::is_damage, segment::Segment},
    store::{place::Place, published::durable::Durable},
    sync::Arc,
};

/// A pack is made of segments with at most so many bytes together, as they would be if nothing was compressed: what one scan
/// decodes has to fit into memory. One segment alone may have more.
const PACK_BYTES_MAX: u64 = 64 << 20;
/// Of the indexes of those segments so many bytes: what was left out has its place in them all the same.
const INDEX_BYTES_MAX: u64 = 64 << 20;
/// A pack before others that are made is taken up by theirs while it has at most so many times as many bytes: so that there
/// are few, and none is written again and again for little.
const MERGE_FACTOR: u64 = 2;

/// The store as it is when a compaction begins.
pub(crate) struct Stand {
    /// All sealed segments and packs, and behind them the one whose header says where the last of them ends.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) streams: Streams,
    pub(crate) redacted: Arc<Redacted>,
    pub(crate) live: Live,
    in_use: HashMap<u32, InUse>,
    /// How many redacted records of a segment still have their payload, where that was looked for.
    unerased: HashMap<u32, u64>,
    /// How many bytes the records of the active segment have.
    pub(crate) active_bytes: u64,
}

/// Segments that follow each other and become one pack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Range {
    /// The place of the first in the list of all, and that behind the last.
    pub(crate) first: usize,
    pub(crate) end: usize,
}

/// What is known of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Facts {
    is_pack: bool,
    /// Whether it may be rewritten.
    may_be: bool,
    data: u64,
    in_use: InUse,
    snapshots: u64,
    unerased: u64,
    /// How many bytes its records have, as if nothing was compressed.
    bytes: u64,
    /// How many bytes its index has.
    index_bytes: u64,
}

impl Facts {
    /// How many bytes stay, about.
    fn bytes_left(&self) -> u64 {
        match self.data {
            0 => self.bytes,
            data => {
                let share = u128::from(self.bytes) * u128::from(self.in_use.data.min(data))
                    / u128::from(data);
                u64::try_from(share).unwrap_or(self.bytes)
            }
        }
    }

    fn is_wanted(&self, scope: CompactScope) -> bool {
        let dead = self.data.saturating_sub(self.in_use.data);
        let has_dead = dead > 0 || self.snapshots > self.in_use.snapshots;
        self.may_be
            && match scope {
                CompactScope::Dead => {
                    has_dead && self.in_use.data == 0 && self.in_use.snapshots == 0
                }
                CompactScope::Sparse => has_dead && dead * 2 >= self.data,
                CompactScope::Sealed | CompactScope::All => {
                    has_dead || self.unerased > 0 || !self.is_pack
                }
            }
    }
}

/// What is published at one moment.
pub(crate) struct Published {
    segments: Vec<Arc<Segment>>,
    streams: Streams,
    redacted: Arc<Redacted>,
    readings: Vec<Arc<View>>,
    active_bytes: u64,
}

impl Published {
    /// `readings` are informed once the streams are known: one that begins later sees these.
    pub(crate) fn of(durable: &Durable, readings: impl FnOnce() -> Vec<Arc<View>>) -> Self {
        let streams = durable.directory.streams().clone();
        let readings = readings();
        Self {
            streams,
            readings,
            segments: durable.segments.clone(),
            redacted: durable.directory.redacted().clone(),
            active_bytes: match durable.active_index.records() {
                0 => 0,
                _ => durable.end.saturating_sub(DATA_START),
            },
        }
    }
}

impl Stand {
    /// What is in use of what was published. It goes through all streams, so it is found without the lock of what is
    /// published: every append would wait for that.
    pub(crate) fn of(published: Published) -> Self {
        let Published {
            segments,
            streams,
            redacted,
            readings,
            active_bytes,
        } = published;
        let live = Live::of(&streams, &readings);
        Self {
            in_use: live.by_segment(&segments, &streams),
            segments,
            redacted,
            streams,
            live,
            unerased: HashMap::new(),
            active_bytes,
        }
    }

    /// Looks for redacted records that still have their payload.
    pub(crate) fn find_unerased(&mut self, durable: &crate::sync::RwLock<Durable>) -> Result<()> {
        for position in self.redacted.to_vec() {
            let Some(place) = Place::of(&crate::sync::read(durable), position) else {
                continue;
            };
            let frame = match place.frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => continue,
                // Its segment is left as it is.
                Err(error) if is_damage(&error) => continue,
                Err(error) => return Err(error),
            };
            let key = frame.key().map_or(0, |key| match key.len() {
                0 => 0,
                length => length + 1,
            });
            if frame.body.len() > key {
                *self.unerased.entry(place.segment.id().0).or_default() += 1;
            }
        }
        Ok(())
    }

    /// How many payloads a range still has that were redacted.
    pub(crate) fn unerased_in(&self, range: &Range) -> u64 {
        let segments = &self.segments[range.first..range.end];
        let of = |segment: &Arc<Segment>| self.unerased.get(&segment.id().0).copied();
        segments.iter().filter_map(of).sum()
    }

    /// How many data records of these segments are in use.
    pub(crate) fn live_data(&self, segments: &[Arc<Segment>]) -> u64 {
        let of = |segment: &Arc<Segment>| self.in_use.get(&segment.id().0);
        segments
            .iter()
            .filter_map(of)
            .map(|in_use| in_use.data)
            .sum()
    }

    /// How many bytes about stay of a segment, if nothing is compressed.
    pub(crate) fn bytes_left_of(&self, segment: &Segment) -> Result<u64> {
        Ok(self.facts(segment)?.bytes_left())
    }

    /// How many bytes about stay of a range, if nothing is compressed.
    pub(crate) fn bytes_left(&self, range: &Range) -> Result<u64> {
        let segments = &self.segments[range.first..range.end];
        segments
            .iter()
            .map(|segment| self.bytes_left_of(segment))
            .sum()
    }

    /// How many bytes of log a range has now.
    pub(crate) fn bytes(&self, range: &Range) -> u64 {
        let segments = &self.segments[range.first..range.end];
        let of = |segment: &Arc<Segment>| segment.trailer().map(|trailer| trailer.data_end);
        segments.iter().filter_map(of).sum()
    }

    /// The two halves of a range, that of which more stays first.
    pub(crate) fn halves(&self, range: &Range) -> Result<[Range; 2]> {
        let middle = range.first + (range.end - range.first) / 2;
        let [first, second] =
            [(range.first, middle), (middle, range.end)].map(|(first, end)| Range { first, end });
        let is_first_more = self.bytes_left(&first)? > self.bytes_left(&second)?;
        Ok(match is_first_more {
            true => [first, second],
            false => [second, first],
        })
    }

    /// These ranges, that of which least stays first: each that becomes a pack may make the room for the next.
    pub(crate) fn smallest_first(&self, ranges: &mut Vec<Range>) -> Result<Vec<Range>> {
        let with_bytes = |range: Range| Ok((self.bytes_left(&range)?, range));
        let mut ranges: Vec<(u64, Range)> =
            ranges.drain(..).map(with_bytes).collect::<Result<_>>()?;
        runlog_log::order::sort_by_key(&mut ranges, |(bytes, _)| *bytes);
        Ok(ranges.into_iter().map(|(_, range)| range).collect())
    }

    /// How many records of a range nothing refers to.
    pub(crate) fn dead_in(&self, range: &Range) -> Result<u64> {
        let dead = |segment: &Arc<Segment>| {
            let facts = self.facts(segment)?;
            let snapshots = facts.snapshots.saturating_sub(facts.in_use.snapshots);
            Ok(facts.data.saturating_sub(facts.in_use.data) + snapshots)
        };
        self.segments[range.first..range.end].iter().map(dead).sum()
    }

    fn facts(&self, segment: &Segment) -> Result<Facts> {
        let in_use = self
            .in_use
            .get(&segment.id().0)
            .copied()
            .unwrap_or_default();
        let unerased = self
            .unerased
            .get(&segment.id().0)
            .copied()
            .unwrap_or_default();
        let Some(trailer) = segment.trailer() else {
            return Ok(Facts {
                is_pack: false,
                may_be: false,
                data: in_use.data_all,
                in_use,
                snapshots: in_use.snapshots_all,
                unerased,
                bytes: self.active_bytes,
                index_bytes: 0,
            });
        };
        let (mut data, mut snapshots) = (in_use.data_all, in_use.snapshots_all);
        if segment.is_pack()
            && (data > in_use.data || snapshots > in_use.snapshots)
            && let Some(block) = readable_block(segment)?
        {
            data = u64::from(trailer.records.saturating_sub(block.controls_count()));
            let kinds = block.controls().map(|row| row.kind);
            snapshots = kinds.filter(|kind| *kind == Kind::SNAPSHOT).count() as u64;
        }
        Ok(Facts {
            is_pack: segment.is_pack(),
            may_be: !trailer.repaired && segment.has_block_in_file(),
            data,
            in_use,
            snapshots,
            unerased,
            bytes: trailer.data_end - DATA_START,
            index_bytes: trailer.index_bytes,
        })
    }

    /// Whether every record of a segment has a row in its index. A newer build's may have none.
    fn is_named(segment: &Segment, facts: &Facts) -> Result<bool> {
        let (Some(trailer), Some(block)) = (segment.trailer(), readable_block(segment)?) else {
            return Ok(false);
        };
        let named = facts.in_use.data_all + u64::from(block.controls_count());
        Ok(segment.is_pack() || named == u64::from(trailer.records))
    }

    /// How many sealed segments are left as they are, because they can't be rewritten; and how many of those because
    /// their indexes are damaged.
    pub(crate) fn left(&self) -> Result<(u64, u64)> {
        let (mut left, mut damaged) = (0, 0);
        for segment in self.sealed() {
            let facts = self.facts(segment)?;
            let is_left = !facts.may_be || !Self::is_named(segment, &facts)?;
            left += u64::from(is_left);
            damaged += u64::from(is_left && readable_block(segment)?.is_none());
        }
        Ok((left, damaged))
    }

    /// Whether anything of a range is to be rewritten for itself.
    pub(crate) fn is_wanted(&self, range: &Range, scope: CompactScope) -> Result<bool> {
        for segment in &self.segments[range.first..range.end] {
            if self.facts(segment)?.is_wanted(scope) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn sealed(&self) -> &[Arc<Segment>] {
        let is_last_sealed = self
            .segments
            .last()
            .is_some_and(|last| last.trailer().is_some());
        // A sealed segment that nothing follows is damage, which isn't made worse.
        let end = self
            .segments
            .len()
            .saturating_sub(1 + usize::from(is_last_sealed));
        &self.segments[..end]
    }

    /// The active segment, where it has records: what is sealed first where all is to be compacted.
    pub(crate) fn active(&self) -> Option<Range> {
        let last = self.segments.len().checked_sub(1)?;
        let has_records = self.active_bytes > 0 && self.segments[last].trailer().is_none();
        has_records.then_some(Range {
            first: last,
            end: last + 1,
        })
    }

    /// The ranges to rewrite.
    pub(crate) fn ranges(&self, scope: CompactScope) -> Result<Vec<Range>> {
        let sealed = self.sealed();
        let facts: Vec<Facts> = sealed
            .iter()
            .map(|segment| self.facts(segment))
            .collect::<Result<_>>()?;
        let fits = |first: usize, end: usize| {
            let (known, first, last) = (&facts[first..end], &sealed[first], &sealed[end - 1]);
            let bytes: u64 = known.iter().map(Facts::bytes_left).sum();
            let index_bytes: u64 = known.iter().map(|known| known.index_bytes).sum();
            bytes <= PACK_BYTES_MAX && index_bytes <= INDEX_BYTES_MAX && are_near(first, last)
        };
        let mut ranges: Vec<Range> = Vec::new();
        for (place, known) in facts.iter().enumerate() {
            if !known.is_wanted(scope) || !Self::is_named(&sealed[place], known)? {
                continue;
            }
            match ranges.last_mut() {
                Some(range) if range.end == place && fits(range.first, place + 1) => {
                    range.end = place + 1;
                }
                _ => ranges.push(Range {
                    first: place,
                    end: place + 1,
                }),
            }
        }
        let mut taken = 0;
        for range in &mut ranges {
            while range.first > taken {
                let before = &facts[range.first - 1];
                let bytes: u64 = facts[range.first..range.end]
                    .iter()
                    .map(Facts::bytes_left)
                    .sum();
                let is_small = before.bytes_left() <= bytes.saturating_mul(MERGE_FACTOR);
                if !before.is_pack
                    || !before.may_be
                    || !is_small
                    || !fits(range.first - 1, range.end)
                {
                    break;
                }
                range.first -= 1;
            }
            taken = range.end;
        }
        Ok(ranges)
    }
}

/// The index block of a sealed segment; `None` for one that is damaged.
fn readable_block(segment: &Segment) -> Result<Option<Arc<Block>>> {
    match segment.block() {
        Err(error) if is_damage(&error) => Ok(None),
        block => block,
    }
}

/// Whether positions and times of two segments can be counted from those of the first.
fn are_near(first: &Segment, last: &Segment) -> bool {
    let Some(trailer) = last.trailer() else {
        return false;
    };
    let positions = trailer.next_position - first.header.base_position;
    let times = trailer
        .time_max_ms
        .saturating_sub(first.header.base_time_ms);
    positions <= u64::from(u32::MAX) && times <= u64::from(u32::MAX)
}
