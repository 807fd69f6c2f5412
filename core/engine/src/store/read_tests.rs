use std::thread;

use proptest::prelude::*;

use super::*;
use crate::{
    Batch, Expected, NewRecord, Op, OpenOptions, Preallocation, Store,
    storage::{Access, FsStorage, MemoryStorage, Storage},
    store::framed::record_in,
};

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 256 << 10,
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    }
}

fn stream(number: u8) -> StreamId {
    StreamId::from_bytes([number; 16])
}

/// What a reader gives.
fn outcomes(
    results: impl Iterator<Item = Result<Record>>,
) -> Vec<std::result::Result<Record, String>> {
    results
        .map(|result| result.map_err(|error| error.to_string()))
        .collect()
}

/// The records of a read, each read by itself.
struct Alone(Reader);

impl Alone {
    fn read(&mut self) -> Result<Option<Record>> {
        let reader = &mut self.0;
        while reader.remaining > 0 {
            if reader.window.is_empty() {
                reader.fill_window(reader.wanted());
            }
            let Some(located) = reader.window.pop_front().transpose()? else {
                break;
            };
            let run = reader.run(located.run)?;
            let (segment, offset, end) = (&run.segment, located.offset, run.end);
            let bytes = segment.first_bytes(offset, end)?;
            // Of a record of another kind nothing but its header is read.
            if let Ok(header) = segment.header_in(&bytes, offset, end)
                && !reader.wants(&header)
            {
                continue;
            }
            let frame = segment.frame(offset, end)?;
            assert_eq!(
                (frame.header.stream, frame.header.sequence),
                (run.source, located.sequence)
            );
            let record = record_in(&reader.shared.durable(), segment, frame);
            reader.remaining -= 1;
            return record.map(Some);
        }
        Ok(None)
    }
}

impl Iterator for Alone {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        // Nothing here fails but by damage, and the next record follows that.
        self.read().transpose()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append {
        stream: u8,
        kind: u8,
        bytes: usize,
        count: usize,
    },
    Truncate {
        stream: u8,
        after: u64,
    },
    Fork {
        parent: u8,
        at: u64,
        child: u8,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![8 => 0..200_usize, 4 => 200..5000_usize, 1 => Just(4072_usize), 1 => 60_000..200_000_usize];
    let append = (0..3_u8, 0..3_u8, bytes, 1..12_usize).prop_map(|(stream, kind, bytes, count)| {
        Step::Append {
            stream,
            kind,
            bytes,
            count: count.min(1 + 200_000 / (bytes + 1)),
        }
    });
    let truncate =
        (0..3_u8, 0..40_u64).prop_map(|(stream, after)| Step::Truncate { stream, after });
    let fork = (0..3_u8, 0..40_u64, 3..6_u8).prop_map(|(parent, at, child)| Step::Fork {
        parent,
        at,
        child,
    });
    prop::collection::vec(prop_oneof![10 => append, 1 => truncate, 1 => fork], 1..40)
}

fn reads() -> impl Strategy<Value = Vec<(u8, ReadOptions)>> {
    let kinds =
        prop_oneof![3 => Just(vec![]), 1 => Just(vec![Kind(1)]), 1 => Just(vec![Kind(0), Kind(2)])];
    let last = prop_oneof![Just(u64::MAX), 0..100_u64];
    let limit = prop_oneof![3 => Just(u64::MAX), 1 => 0..20_u64];
    let read = (0..6_u8, 0..60_u64, last, any::<bool>(), kinds, limit).prop_map(
        |(stream, first, last, backward, kinds, limit)| {
            let direction = if backward {
                Direction::Backward
            } else {
                Direction::Forward
            };
            (
                stream,
                ReadOptions {
                    first: Sequence(first),
                    last: Sequence(last),
                    direction,
                    kinds,
                    limit,
                },
            )
        },
    );
    prop::collection::vec(read, 1..12)
}

fn store_of(storage: &MemoryStorage, steps: &[Step]) -> Store {
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    for (index, step) in steps.iter().enumerate() {
        let expected = Expected::Any;
        // What can't be done where a stream isn't there is left out.
        let _ = match *step {
            Step::Append {
                stream: to,
                kind,
                bytes,
                count,
            } => {
                let payload: Vec<u8> = (0..bytes)
                    .map(|at| ((at * 31 + index) % 251).try_into().unwrap())
                    .collect();
                let record = NewRecord {
                    labels: &[],
                    kind: Kind(kind),
                    meta: &payload[..bytes.min(9)],
                    payload: &payload,
                };
                store.append(stream(to), expected, &vec![record; count])
            }
            Step::Truncate { stream: of, after } => store.commit(&Batch::new(vec![Op::Truncate {
                stream: stream(of),
                expected,
                after: Sequence(after),
            }])),
            Step::Fork { parent, at, child } => {
                let fork = Op::Fork {
                    parent: stream(parent),
                    expected,
                    at: Sequence(at),
                    child: stream(child),
                };
                store.commit(&Batch::new(vec![fork]))
            }
        };
    }
    store
}

/// What both ways of reading give.
type Both = [Vec<std::result::Result<Record, String>>; 2];

/// What is shown of the records that are left.
fn shown(reader: &mut Reader) -> Vec<std::result::Result<Record, String>> {
    let mut shown = Vec::new();
    reader.for_each_ref(|record| {
        let record = record.map(|record| record.to_record());
        shown.push(record.map_err(|error| error.to_string()));
        ControlFlow::Continue(())
    });
    shown
}

fn both(store: &Store, of: u8, options: &ReadOptions) -> Option<Both> {
    let together = outcomes(store.read(stream(of), options.clone()).ok()?);
    // Some are taken, and the others shown.
    let mut reader = store.read(stream(of), options.clone()).ok()?;
    let mut taken = outcomes(reader.by_ref().take(together.len() / 3));
    taken.extend(shown(&mut reader));
    assert_eq!(taken, together);
    Some([
        together,
        outcomes(Alone(store.read(stream(of), options.clone()).ok()?)),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn records_read_together_are_those_read_one_by_one(
        steps in steps(),
        reads in reads(),
        damage in prop::collection::vec((0..1_000_000_usize, 1..=255_u8), 0..4),
        cut in prop::option::of(0..1_000_000_u64),
    ) {
        let storage = MemoryStorage::new();
        let store = store_of(&storage, &steps);
        for (of, options) in &reads {
            let Some([together, alone]) = both(&store, *of, options) else { continue };
            prop_assert!(alone.iter().all(std::result::Result::is_ok));
            prop_assert_eq!(together, alone);
        }
        let name = storage.list().unwrap().into_iter().rfind(|name| name.ends_with(".seg")).unwrap();
        let file = storage.open(&name, Access::Write).unwrap();
        let length = file.len().unwrap();
        for (at, mask) in damage {
            let at = at as u64 % length;
            let mut byte = [0];
            file.read_at(at, &mut byte).unwrap();
            file.write_at(at, &[byte[0] ^ mask]).unwrap();
        }
        for (of, options) in &reads {
            let Some([together, alone]) = both(&store, *of, options) else { continue };
            prop_assert_eq!(together, alone);
        }
        let Some(cut) = cut else { return Ok(()) };
        file.set_len(cut % length).unwrap();
        for (of, options) in &reads {
            let Some([together, alone]) = both(&store, *of, options) else { continue };
            // A record that ends before the cut may be read where it isn't the first of those read at once.
            prop_assert_eq!(together.len(), alone.len());
            for (together, alone) in together.into_iter().zip(alone).filter(|(_, alone)| alone.is_ok()) {
                prop_assert_eq!(together, alone);
            }
        }
    }
}

#[test]
fn a_stream_is_read_as_it_was_while_it_is_written_and_its_segments_are_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let on_disk = Store::open(folder.path().join("store"), options()).unwrap();
    let in_memory = Store::in_memory(options()).unwrap();
    for store in [in_memory, on_disk] {
        let payload = |sequence: u64| {
            vec![
                u8::try_from(sequence % 251).unwrap();
                usize::try_from(sequence * 7919 % 3000).unwrap()
            ]
        };
        store
            .append(stream(1), Expected::Any, &[NewRecord::data(&payload(1))])
            .unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for sequence in 2..=700 {
                    store
                        .append(
                            stream(1),
                            Expected::Any,
                            &[NewRecord::data(&payload(sequence))],
                        )
                        .unwrap();
                    if sequence % 3 == 0 {
                        store
                            .append(stream(2), Expected::Any, &[NewRecord::data(b"between")])
                            .unwrap();
                    }
                }
            });
            let mut backward = false;
            while !writer.is_finished() {
                backward = !backward;
                let direction = if backward {
                    Direction::Backward
                } else {
                    Direction::Forward
                };
                let options = ReadOptions {
                    direction,
                    ..ReadOptions::default()
                };
                let mut found: Vec<_> = store
                    .read(stream(1), options)
                    .unwrap()
                    .collect::<Result<_>>()
                    .unwrap();
                if backward {
                    found.reverse();
                }
                for (record, sequence) in found.iter().zip(1..) {
                    assert_eq!(record.sequence, Sequence(sequence));
                    assert_eq!(record.payload, payload(sequence));
                }
            }
        });
        assert!(store.stat().unwrap().segments > 3);
    }
}

#[test]
fn read_of_any_length_goes_on_behind_a_segment_whose_index_block_is_damaged() {
    let storage = MemoryStorage::new();
    let options = || OpenOptions {
        segment_bytes_max: crate::limits::SEGMENT_BYTES_MIN,
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    };
    let store = Store::open_on(Arc::new(storage.clone()), options()).unwrap();
    let stream = StreamId(store.new_id());
    let mut firsts = vec![1];
    for sequence in 1..200_u64 {
        let segments = store.stat().unwrap().segments;
        store
            .append(stream, Expected::Any, &[NewRecord::data(&[b'x'; 3000])])
            .unwrap();
        if store.stat().unwrap().segments > segments {
            firsts.push(sequence);
        }
    }
    store.close().unwrap();
    let second = storage.open("00000002.seg", Access::Write).unwrap();
    let offset = second.len().unwrap() - 660;
    let mut byte = [0];
    second.read_at(offset, &mut byte).unwrap();
    second.write_at(offset, &[byte[0] ^ 1]).unwrap();
    let reader = Store::open_on(Arc::new(storage), options().read_only()).unwrap();
    for limit in [1, 10, 1000] {
        for kinds in [vec![], vec![NewRecord::data(&[]).kind]] {
            let options = ReadOptions {
                first: Sequence(firsts[1]),
                limit,
                kinds,
                ..ReadOptions::default()
            };
            let read: Vec<_> = reader.read(stream, options).unwrap().collect();
            let sequences = read
                .iter()
                .map(|it| it.as_ref().ok().map(|it| it.sequence.0));
            let wanted = limit.min(200 - firsts[2]);
            let expected = (0..wanted).map(|number| Some(firsts[2] + number));
            assert!(
                sequences.eq(std::iter::once(None).chain(expected)),
                "{limit}: {read:?}"
            );
        }
    }
}

#[test]
fn read_begun_in_another_place_goes_on_in_packs_and_in_what_they_do_not_replace() {
    for direction in [Direction::Forward, Direction::Backward] {
        // The longer one is longer than what is looked up at once. The read begins before the compaction, before any of it was
        // read or with some read already.
        for (length, of_kinds, before) in [
            (400, false, 0),
            (400, false, 40),
            (400, true, 1),
            (3000, false, 1),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let options = OpenOptions {
                segment_bytes_max: crate::limits::SEGMENT_BYTES_MIN,
                preallocation: Preallocation::None,
                ..OpenOptions::default()
            };
            let store = Store::open(&path, options.clone()).unwrap();
            let records = [NewRecord::data(&[b'x'; 700]), NewRecord::data(b"short")];
            for _ in 0..length {
                store.append(stream(1), Expected::Any, &records).unwrap();
            }
            assert!(store.stat().unwrap().segments > 3);
            let read_options = ReadOptions {
                direction,
                kinds: of_kinds.then_some(records[0].kind).into_iter().collect(),
                ..ReadOptions::default()
            };
            let expected = outcomes(store.read(stream(1), read_options.clone()).unwrap());
            assert_eq!(expected.len(), 2 * length);
            let reader = Store::open(&path, options.read_only()).unwrap();
            let mut records = reader.read(stream(1), read_options).unwrap();
            let mut found = outcomes(records.by_ref().take(before));
            let all = crate::CompactOptions {
                scope: crate::CompactScope::All,
                ..crate::CompactOptions::default()
            };
            assert!(store.compact(all).unwrap().files_after > 0);
            // As if the reader had read many other files meanwhile: those that were removed can't be opened again.
            FsStorage::close_for_reading();
            crate::clear_caches();
            found.extend(outcomes(records));
            assert!(
                found == expected,
                "{direction:?}, {before} of {length}: {:?}",
                found.iter().find(|record| record.is_err())
            );
        }
    }
}
