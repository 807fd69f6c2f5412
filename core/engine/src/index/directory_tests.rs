use super::*;
use crate::index::stream::Run;

const SEGMENT: SegmentId = SegmentId(1);

struct Log {
    directory: Directory,
    offset: u64,
}

impl Log {
    fn new() -> Self {
        Self {
            directory: Directory::new(&[7; 16]),
            offset: 4096,
        }
    }

    fn control(&mut self, kind: Kind, stream: u32, sequence: u32, other: u32) {
        self.offset += 32;
        let mut id = [0; 16];
        id[..4].copy_from_slice(&stream.to_le_bytes());
        let mut control = ControlRow {
            kind,
            stream,
            sequence,
            ordinal: 0,
            offset: self.offset,
            other,
            target: 0,
            id,
        };
        self.directory.complete_control(&mut control);
        self.directory.apply_control(&control, SEGMENT).unwrap();
    }

    fn create(&mut self) -> u32 {
        let number = self.directory.next_number();
        self.control(Kind::CREATE, number, 0, 0);
        number
    }

    fn fork(&mut self, parent: u32, at: u32) -> u32 {
        let number = self.directory.next_number();
        self.control(Kind::FORK, number, at, parent);
        number
    }

    fn append(&mut self, stream: u32, count: u32) {
        for _ in 0..count {
            let sequence = self.directory.stream(stream).unwrap().last_sequence() + 1;
            self.directory
                .apply_data(stream, sequence, SEGMENT)
                .unwrap();
        }
    }

    /// Each sequence's record: source and ordinal.
    fn view(&self, stream: u32) -> Vec<(u32, u32)> {
        let last = self.directory.stream(stream).unwrap().last_sequence();
        let ranges = self.directory.stream(stream).unwrap().view(stream);
        let record = |sequence| {
            let range = ranges.range_at(sequence).unwrap();
            (
                range.source,
                range.first_ordinal + sequence - range.first_sequence,
            )
        };
        let view: Vec<_> = (1..=last).map(record).collect();
        assert_eq!(ranges.range_at(last + 1), None);
        for (record, sequence) in view.iter().zip(1..) {
            assert_eq!(self.directory.resolve(stream, sequence), Some(*record));
        }
        view
    }
}

#[test]
fn truncated_sequences_are_reused_by_new_records() {
    let mut log = Log::new();
    let stream = log.create();
    log.append(stream, 5);
    log.control(Kind::TRUNCATE, stream, 3, 0);
    log.append(stream, 2);
    assert_eq!(log.view(stream), [(1, 1), (1, 2), (1, 3), (1, 6), (1, 7)]);
    log.control(Kind::TRUNCATE, stream, 0, 0);
    assert_eq!(log.view(stream), []);
    log.append(stream, 1);
    assert_eq!(log.view(stream), [(1, 8)]);
}

#[test]
fn truncating_twice_in_the_same_place_keeps_the_lower_part() {
    let mut log = Log::new();
    let stream = log.create();
    log.append(stream, 4);
    log.control(Kind::TRUNCATE, stream, 2, 0);
    log.append(stream, 1);
    log.control(Kind::TRUNCATE, stream, 2, 0);
    log.control(Kind::TRUNCATE, stream, 2, 0);
    log.append(stream, 1);
    assert_eq!(log.view(stream), [(1, 1), (1, 2), (1, 6)]);
    log.control(Kind::TRUNCATE, stream, 1, 0);
    assert_eq!(log.view(stream), [(1, 1)]);
}

#[test]
fn fork_keeps_what_it_shares_when_the_parent_changes() {
    let mut log = Log::new();
    let parent = log.create();
    log.append(parent, 4);
    let child = log.fork(parent, 3);
    log.append(child, 1);
    log.control(Kind::TRUNCATE, parent, 1, 0);
    log.append(parent, 2);
    log.control(Kind::DELETE, parent, 0, 0);
    assert_eq!(log.view(child), [(1, 1), (1, 2), (1, 3), (2, 1)]);
    assert_eq!(log.view(parent), [(1, 1), (1, 5), (1, 6)]);
}

#[test]
fn fork_below_the_tail_shares_the_right_ranges() {
    let mut log = Log::new();
    let parent = log.create();
    log.append(parent, 3);
    log.control(Kind::TRUNCATE, parent, 2, 0);
    log.append(parent, 3);
    let low = log.fork(parent, 1);
    let middle = log.fork(parent, 2);
    let high = log.fork(parent, 4);
    let empty = log.fork(parent, 0);
    assert_eq!(log.view(low), [(1, 1)]);
    assert_eq!(log.view(middle), [(1, 1), (1, 2)]);
    assert_eq!(log.view(high), [(1, 1), (1, 2), (1, 4), (1, 5)]);
    assert_eq!(log.view(empty), []);
}

#[test]
fn fork_of_forks_to_depth_1000_reads_through() {
    let mut log = Log::new();
    let mut stream = log.create();
    log.append(stream, 1);
    let mut expected = vec![(1, 1)];
    for depth in 1..=1000 {
        stream = log.fork(stream, depth);
        log.append(stream, 1);
        expected.push((stream, 1));
    }
    assert_eq!(log.view(stream), expected);
}

#[test]
fn snapshot_is_found_as_long_as_its_sequence_means_its_record() {
    let mut log = Log::new();
    let stream = log.create();
    log.append(stream, 6);
    log.control(Kind::SNAPSHOT, stream, 2, 0);
    log.control(Kind::SNAPSHOT, stream, 5, 0);
    let found = |log: &Log, stream, bound| {
        log.directory
            .latest_snapshot(stream, bound, &[])
            .map(|found| found.sequence)
    };
    assert_eq!(found(&log, stream, u32::MAX), Some(5));
    assert_eq!(found(&log, stream, 4), Some(2));
    assert_eq!(found(&log, stream, 1), None);
    let child = log.fork(stream, 5);
    log.control(Kind::TRUNCATE, stream, 3, 0);
    log.append(stream, 4);
    assert_eq!(found(&log, stream, u32::MAX), Some(2));
    assert_eq!(found(&log, child, u32::MAX), Some(5));
    log.control(Kind::SNAPSHOT, stream, 3, 0);
    assert_eq!(found(&log, stream, u32::MAX), Some(3));
    assert_eq!(
        found(&log, child, 4),
        Some(2),
        "what the parent saves after the fork is its own"
    );
}

#[test]
fn newer_snapshot_of_the_same_sequence_wins() {
    let mut log = Log::new();
    let stream = log.create();
    log.control(Kind::SNAPSHOT, stream, 0, 0);
    let first = log.directory.latest_snapshot(stream, 0, &[]).unwrap();
    log.control(Kind::SNAPSHOT, stream, 0, 0);
    let second = log.directory.latest_snapshot(stream, 9, &[]).unwrap();
    assert!(second.location > first.location);
}

#[test]
fn contradictions_are_errors() {
    let mut log = Log::new();
    let stream = log.create();
    log.append(stream, 2);
    assert!(log.directory.apply_data(stream, 5, SEGMENT).is_err());
    assert!(log.directory.apply_data(9, 1, SEGMENT).is_err());
    let control = |kind, stream, sequence| ControlRow {
        kind,
        stream,
        sequence,
        ordinal: 2,
        offset: 8192,
        other: 1,
        target: 0,
        id: [1; 16],
    };
    assert!(
        log.directory
            .apply_control(&control(Kind::CREATE, 7, 0), SEGMENT)
            .is_err()
    );
    assert!(
        log.directory
            .apply_control(&control(Kind::TRUNCATE, 1, 3), SEGMENT)
            .is_err()
    );
    assert!(
        log.directory
            .apply_control(&control(Kind(200), 1, 3), SEGMENT)
            .is_err()
    );
    assert!(
        log.directory
            .apply_control(&control(Kind::FORK, 2, u32::MAX), SEGMENT)
            .is_err()
    );
}

#[test]
fn last_record_of_an_often_truncated_stream_is_found_in_a_logarithm_of_steps() {
    const TIMES: u32 = 100_000;
    let mut log = Log::new();
    let stream = log.create();
    log.append(stream, 1);
    let counted = |work: &mut dyn FnMut()| {
        lineage::VISITS.set(0);
        work();
        lineage::VISITS.get()
    };
    let mut most = 0;
    for time in 1..=TIMES {
        // One range more each time: two records are appended, and one is taken back.
        log.append(stream, 2);
        most = most.max(counted(&mut || {
            log.control(Kind::TRUNCATE, stream, time + 1, 0)
        }));
        most = most.max(counted(&mut || {
            assert!(log.directory.resolve(stream, time + 1).is_some())
        }));
    }
    most = most.max(counted(&mut || {
        for sequence in [1, 2, TIMES / 2, TIMES] {
            assert!(log.directory.resolve(stream, sequence).is_some());
            log.fork(stream, sequence);
        }
        log.control(Kind::TRUNCATE, stream, TIMES / 3, 0);
    }));
    assert!(
        most <= 10 * 3 * u64::from(TIMES.ilog2()),
        "{most} ranges visited"
    );
}

#[test]
fn stream_takes_no_more_records_than_can_be_counted() {
    let most = limits::ORDINAL_MAX;
    let with = |ordinals, tail_first_sequence| {
        let id = StreamId::from_bytes([7; 16]);
        let tail_first_ordinal = ordinals - tail_first_sequence + 2;
        let runs = vec![Run {
            segment: SEGMENT,
            first_ordinal: 1,
        }];
        let stream = Stream {
            ordinals,
            tail_first_sequence,
            tail_first_ordinal,
            runs,
            ..Stream::new(id)
        };
        Directory::from_parts(
            &[7; 16],
            [stream].into_iter().collect(),
            Redacted::default(),
        )
    };
    // It was truncated again and again: few sequences, nearly as many records as there can be.
    let mut directory = with(most - 1, 2);
    let last = directory.stream(1).unwrap().last_sequence();
    assert_eq!(directory.apply_data(1, last + 1, SEGMENT).unwrap(), most);
    assert_eq!(directory.stream(1).unwrap().last_sequence(), last + 1);
    assert!(directory.apply_data(1, last + 2, SEGMENT).is_err());
    let row = |count| StreamRow {
        stream: 1,
        first_ordinal: most,
        count,
        postings_start: 0,
        id: [7; 16],
    };
    let next = SegmentId(2);
    assert!(with(most - 1, 2).apply_row(&row(1), next).is_ok());
    assert!(with(most - 1, 2).apply_row(&row(2), next).is_err());
}
