//! [`Live`]: which records something refers to.

use std::{collections::HashMap, sync::Arc};

use crate::{
    index::{
        NumberMap,
        lineage::{Lineage, View},
        stream::SnapshotRef,
        streams::Streams,
    },
    log::segment::Segment,
    store::published::durable::segment_of,
};

/// Ordinals of a source stream, from the first up to the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Span {
    source: u32,
    first: u32,
    end: u32,
}

/// What is in use: the data records of every stream that isn't deleted, its forks' share of others included, and of every
/// reading that is under way in this process; and the snapshots of those records.
pub(crate) struct Live {
    /// In order, apart from each other.
    spans: Vec<Span>,
    /// Streams whose snapshots at sequence 0 somebody may ask for.
    heads: NumberMap<()>,
}

impl Live {
    /// What these streams and readings have.
    pub(crate) fn of(streams: &Streams, readings: &[Arc<View>]) -> Self {
        let mut gathering = Gathering::default();
        let mut heads = NumberMap::default();
        for (number, stream) in (1_u32..).zip(streams.iter()) {
            if stream.deleted {
                continue;
            }
            gathering.view(&stream.view(number));
            let mut next = Some(number);
            // What a fork inherits goes back through deleted streams too.
            while let Some(number) = next
                && heads.insert(number, ()).is_none()
            {
                let forked = streams.get(number).and_then(|stream| stream.forked);
                next = forked.map(|forked| forked.parent);
            }
        }
        readings.iter().for_each(|view| gathering.view(view));
        Self {
            spans: merged(gathering.spans),
            heads,
        }
    }

    /// The span that may have an ordinal: the last that begins at or before it.
    fn at(&self, source: u32, ordinal: u32) -> usize {
        self.spans
            .partition_point(|span| (span.source, span.first) <= (source, ordinal))
    }

    /// Whether a data record is in use.
    pub(crate) fn has(&self, source: u32, ordinal: u32) -> bool {
        let before = self.at(source, ordinal).checked_sub(1);
        before.is_some_and(|place| {
            let span = self.spans[place];
            span.source == source && ordinal < span.end
        })
    }

    /// How many of a stream's ordinals from one up to another are in use.
    fn count(&self, source: u32, first: u32, end: u32) -> u64 {
        let from = self.at(source, first).saturating_sub(1);
        self.spans[from..]
            .iter()
            .take_while(|span| (span.source, span.first) < (source, end))
            .filter(|span| span.source == source)
            .map(|span| u64::from(span.end.min(end).saturating_sub(span.first.max(first))))
            .sum()
    }

    /// Whether a snapshot may be asked for: the record that it belongs to is in use.
    pub(crate) fn has_snapshot(&self, stream: u32, source: u32, ordinal: u32) -> bool {
        if ordinal == 0 {
            self.heads.contains_key(&stream)
        } else {
            self.has(source, ordinal)
        }
    }

    /// How many data records in use each segment or pack has, by its first number; and how many snapshots.
    pub(crate) fn by_segment(
        &self,
        segments: &[Arc<Segment>],
        streams: &Streams,
    ) -> HashMap<u32, InUse> {
        let mut found: HashMap<u32, InUse> = HashMap::new();
        let first_of = |id| segment_of(segments, id).map(|segment| segment.id().0);
        for (number, stream) in (1_u32..).zip(streams.iter()) {
            for (place, run) in stream.runs.iter().enumerate() {
                let next = stream.runs.get(place + 1);
                let end = next.map_or(stream.ordinals.saturating_add(1), |next| next.first_ordinal);
                let count = self.count(number, run.first_ordinal, end);
                if let Some(id) = first_of(run.segment) {
                    let in_use = found.entry(id).or_default();
                    in_use.data += count;
                    in_use.data_all += u64::from(end.saturating_sub(run.first_ordinal));
                }
            }
            for snapshot in &stream.snapshots {
                let SnapshotRef {
                    source, ordinal, ..
                } = *snapshot;
                if let Some(id) = first_of(snapshot.location.segment) {
                    let in_use = found.entry(id).or_default();
                    in_use.snapshots += u64::from(self.has_snapshot(number, source, ordinal));
                    in_use.snapshots_all += 1;
                }
            }
        }
        found
    }
}

/// What of a segment is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct InUse {
    pub(crate) data: u64,
    /// Together with those that nothing refers to; a pack has left some of them out.
    pub(crate) data_all: u64,
    pub(crate) snapshots: u64,
    /// Together with those that nobody can ask for; a pack may have left some of them out.
    pub(crate) snapshots_all: u64,
}

#[derive(Default)]
struct Gathering {
    spans: Vec<Span>,
    /// The ranges that were met, and up to which sequence: forks share the lower part of their lists.
    met: HashMap<*const Lineage, u32>,
}

impl Gathering {
    fn view(&mut self, view: &View) {
        let tail = view.tail;
        self.add(tail.source, tail.first_ordinal, tail.count);
        let mut above = tail.first_sequence;
        let mut next = view.lineage.as_ref();
        while let Some(range) = next {
            let known = self.met.insert(Arc::as_ptr(range), above);
            if let Some(known) = known.filter(|known| *known >= above) {
                self.met.insert(Arc::as_ptr(range), known);
                return;
            }
            let count = above.saturating_sub(range.first_sequence);
            self.add(range.source, range.first_ordinal, count);
            if known.is_some() {
                // What is below ends where this range begins, whatever is above it.
                return;
            }
            above = range.first_sequence;
            next = range.below();
        }
    }

    fn add(&mut self, source: u32, first: u32, count: u32) {
        if count > 0 {
            self.spans.push(Span {
                source,
                first,
                end: first.saturating_add(count),
            });
        }
    }
}

fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    runlog_log::order::sort(&mut spans);
    spans.dedup_by(|next, span| {
        let is_one = next.source == span.source && next.first <= span.end;
        if is_one {
            span.end = span.end.max(next.end);
        }
        is_one
    });
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Kind, SegmentId, StreamId, format::index::ControlRow, index::directory::Directory,
    };

    fn id(number: u32) -> StreamId {
        StreamId(uuid::Uuid::from_u128(u128::from(number)))
    }

    fn control(directory: &mut Directory, kind: Kind, stream: u32, sequence: u32, other: u32) {
        let mut control = ControlRow {
            sequence,
            other,
            id: *id(stream).as_bytes(),
            ..ControlRow::new(kind, stream)
        };
        directory.complete_control(&mut control);
        directory.apply_control(&control, SegmentId(1)).unwrap();
    }

    fn data(directory: &mut Directory, stream: u32, count: u32) {
        for _ in 0..count {
            let last = directory.stream(stream).unwrap().last_sequence();
            directory
                .apply_data(stream, last + 1, SegmentId(1))
                .unwrap();
        }
    }

    fn live(directory: &Directory) -> Live {
        Live::of(directory.streams(), &[])
    }

    fn of_stream(live: &Live, source: u32) -> Vec<u32> {
        (1..100)
            .filter(|ordinal| live.has(source, *ordinal))
            .collect()
    }

    #[test]
    fn truncated_and_deleted_records_are_not_in_use_and_those_of_forks_are() {
        let mut directory = Directory::new(&[7; 16]);
        control(&mut directory, Kind::CREATE, 1, 0, 0);
        data(&mut directory, 1, 10);
        control(&mut directory, Kind::FORK, 2, 4, 1);
        data(&mut directory, 2, 2);
        control(&mut directory, Kind::TRUNCATE, 1, 7, 0);
        data(&mut directory, 1, 2);
        let all = live(&directory);
        assert_eq!(of_stream(&all, 1), [1, 2, 3, 4, 5, 6, 7, 11, 12]);
        assert_eq!(of_stream(&all, 2), [1, 2]);
        assert_eq!(all.count(1, 3, 12), 6);
        assert_eq!(all.count(2, 1, 100), 2);
        assert_eq!(all.count(3, 1, 100), 0);
        control(&mut directory, Kind::DELETE, 1, 0, 0);
        let shared = live(&directory);
        assert_eq!(of_stream(&shared, 1), [1, 2, 3, 4]);
        assert!(shared.has_snapshot(1, 0, 0), "the fork may inherit it");
        control(&mut directory, Kind::DELETE, 2, 0, 0);
        let none = live(&directory);
        assert!(of_stream(&none, 1).is_empty() && of_stream(&none, 2).is_empty());
        assert!(!none.has_snapshot(1, 0, 0) && !none.has_snapshot(2, 0, 0));
    }

    #[test]
    fn reading_keeps_what_it_began_with() {
        let mut directory = Directory::new(&[7; 16]);
        control(&mut directory, Kind::CREATE, 1, 0, 0);
        data(&mut directory, 1, 10);
        let view = Arc::new(directory.stream(1).unwrap().view(1));
        control(&mut directory, Kind::TRUNCATE, 1, 0, 0);
        assert!(of_stream(&live(&directory), 1).is_empty());
        let kept = Live::of(directory.streams(), &[view]);
        assert_eq!(of_stream(&kept, 1).len(), 10);
    }

    #[test]
    fn forks_at_many_places_of_a_long_history_share_what_was_gathered() {
        let mut directory = Directory::new(&[7; 16]);
        control(&mut directory, Kind::CREATE, 1, 0, 0);
        // Each truncation begins a range.
        for last in 1..30 {
            data(&mut directory, 1, 2);
            control(&mut directory, Kind::TRUNCATE, 1, last, 0);
        }
        for child in 2..60 {
            control(&mut directory, Kind::FORK, child, child % 29, 1);
        }
        control(&mut directory, Kind::DELETE, 1, 0, 0);
        let found = live(&directory);
        for ordinal in 1..=58 {
            // By the streams' own sequences, one by one.
            let expected = (2..60).any(|child| {
                (1..=child % 29).any(|at| directory.resolve(child, at) == Some((1, ordinal)))
            });
            assert_eq!(found.has(1, ordinal), expected, "{ordinal}");
        }
    }
}
