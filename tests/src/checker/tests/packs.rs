//! Stores with packs, made by hand.

use std::ops::Range;

use super::{
    FIRST, check, damaged,
    maker::{Entry, Segment, change, data, entry, files, labelled, make, mark, receipt},
    newer, sound,
};
use crate::{checker::Files, forge};

const PACK: &str = "00000001-00000002.1.pack";
const THIRD: &str = "00000003.seg";

/// Three segments: in the first two, a stream that is deleted, a redacted record, and a batch with a key.
struct Store {
    first: Segment,
    second: Segment,
    third: Segment,
}

fn keyed() -> Entry {
    Entry {
        key: Some(b"once"),
        flags: 1 | 2 | 4,
        ..labelled(1, 2, &[7])
    }
}

fn redaction() -> Entry {
    entry(
        133,
        1,
        1,
        &[&2_u64.to_le_bytes()[..], &[0; 16], b"asked for"].concat(),
    )
}

fn long() -> Entry {
    Entry {
        payload: vec![0xaa; 2000],
        ..data(1, 3)
    }
}

fn store() -> Store {
    let first = Segment::first()
        .all(&[
            mark(1),
            make(1),
            labelled(1, 1, &[7, 8]),
            make(2),
            data(2, 1),
            keyed(),
        ])
        .sealed();
    let second = first
        .next(1)
        .all(&[data(2, 2), redaction(), entry(132, 2, 0, b""), long()])
        .sealed();
    let third = second.next(1).all(&[data(1, 4), mark(2), data(1, 5)]);
    Store {
        first,
        second,
        third,
    }
}

/// What a pack keeps of the first two, with the positions: engine records, data, and the receipt.
fn kept() -> (Vec<(u64, Entry)>, Entry) {
    let erased = Entry {
        payload: Vec::new(),
        ..data(1, 1)
    };
    let records = vec![
        (1, make(1)),
        (3, make(2)),
        (7, redaction()),
        (8, entry(132, 2, 0, b"")),
        (2, erased),
        (5, keyed()),
        (9, long()),
    ];
    let payload = receipt(&[(1, 1, 1, 2, 5, 5)], &[(1, 2, 5)]);
    let receipt = Entry {
        key: Some(b"once"),
        index: Some(0),
        ..entry(139, 1, 0, &payload)
    };
    (records, receipt)
}

fn pack_of(store: &Store, kept: (Vec<(u64, Entry)>, Vec<Entry>)) -> Segment {
    let mut pack = Segment::pack(&store.first, &store.second);
    for (position, entry) in &kept.0 {
        pack.keep(*position, entry);
    }
    for receipt in &kept.1 {
        pack.add(receipt);
    }
    pack.pack.as_mut().unwrap().gone = vec![(2, 1), (2, 2)];
    pack
}

fn whole() -> (Store, Segment) {
    let store = store();
    let (records, receipt) = kept();
    let pack = pack_of(&store, (records, vec![receipt]));
    (store, pack)
}

fn with(store: &Store, pack: &Segment) -> Files {
    let (name, file) = pack.packed(1, 256);
    let mut files = files(&[&store.third]);
    files.insert(name, file);
    files
}

#[test]
fn pack_stands_for_the_segments_that_it_replaces() {
    let (store, pack) = whole();
    let before = sound(&files(&[&store.first, &store.second, &store.third]));
    for (encoding, bytes) in [(0, 8), (0, 1 << 20), (1, 256), (2, 256)] {
        let (name, file) = pack.clone().sealed().packed(encoding, bytes);
        assert_eq!(name, PACK);
        let mut files = files(&[&store.third]);
        files.insert(name, file);
        let checked = sound(&files);
        let positions: Vec<_> = checked
            .records
            .iter()
            .map(|record| record.position)
            .collect();
        assert_eq!(positions, [1, 2, 3, 5, 7, 8, 9, 10, 11]);
        assert_eq!(checked.streams().len(), 1);
        assert_eq!(checked.streams(), before.streams());
        assert_eq!((checked.found(7), before.found(7)), (vec![5], vec![5]));
        assert_eq!(checked.receipts[0].key, b"once");
        assert_eq!(checked.meaning.keys, before.meaning.keys);
        assert_eq!(checked.last_position(), before.last_position());
    }
}

#[test]
fn file_of_the_highest_generation_counts() {
    let (store, pack) = whole();
    let pack = pack.sealed();
    let mut files = with(&store, &pack);
    let file = files[PACK].clone();
    // Of what it replaces nothing is read.
    files.insert(FIRST.to_owned(), vec![1]);
    files.insert("00000002-00000002.0.pack".to_owned(), vec![1]);
    assert_eq!(sound(&files).unlisted, ["00000002-00000002.0.pack"]);
    files.clear();
    files.extend(with(&store, &pack));
    files.insert("00000001-00000001.1.pack".to_owned(), vec![1]);
    damaged(&files, "overlaps");
    let mut files = with(&store, &pack);
    files.insert("00000002-00000003.2.pack".to_owned(), vec![1]);
    damaged(&files, "overlaps");
    let mut files = with(&store, &pack);
    files.remove(THIRD);
    damaged(&files, "the last one is never replaced");
    let mut files = with(&store, &pack);
    files.remove(PACK);
    damaged(&files, "segment 1 is missing");
    // The name is another than the header says.
    for name in ["00000001-00000002.2.pack", "00000001-00000001.1.pack"] {
        let mut files = with(&store, &pack);
        files.remove(PACK);
        files.insert(name.to_owned(), file.clone());
        files.insert("00000002.seg".to_owned(), store.second.bytes.clone());
        damaged(&files, "generation and range");
    }
    let mut files = with(&store, &pack);
    files.insert(PACK.to_owned(), store.first.bytes.clone());
    damaged(&files, "role 1");
}

#[test]
fn each_byte_of_a_pack_is_checked() {
    let (store, pack) = whole();
    let files = with(&store, &pack.sealed());
    let length = files[PACK].len();
    let unread: [Range<usize>; 2] = [512..2048, 2560..4096];
    for at in (0..length).filter(|at| !unread.iter().any(|range| range.contains(at))) {
        let mut files = files.clone();
        files.get_mut(PACK).unwrap()[at] ^= 1;
        match check(&files) {
            Ok(checked) => assert_eq!((at < 4096, checked.damaged_copies.len()), (true, 1), "{at}"),
            Err(problem) => assert!(!problem.is_newer() && at >= 4096, "{at}: {problem}"),
        }
    }
}

#[test]
fn block_and_table_keep_to_their_limits() {
    let (store, pack) = whole();
    let pack = pack.sealed();
    let change_block = |at: usize, new: &[u8]| {
        let mut files = with(&store, &pack);
        let file = files.get_mut(PACK).unwrap();
        pack.change_block(&mut file[4096..4128], 4096, at, new);
        files
    };
    newer(&change_block(4, &[4]), "encoding 4");
    damaged(&change_block(4, &[3]), "no dictionary");
    newer(&change_block(5, &[2]), "content 2");
    damaged(&change_block(5, &[1]), "where the one before ends");
    newer(&change_block(6, &[1]), "reserved");
    newer(&change_block(28, &[1]), "reserved");
    damaged(&change_block(8, &[0xff; 4]), "stored");
    damaged(&change_block(12, &[7, 0]), "stored");
    damaged(&change_block(16, &[1]), "where the one before ends");
    damaged(&change_block(20, &[1, 2, 3, 4]), "decodes to is wrong");
    damaged(&change_block(24, &[1, 2, 3, 4]), "what is stored is wrong");
    let change_footer = |at: usize, new: &[u8]| {
        let mut files = with(&store, &pack);
        let file = files.get_mut(PACK).unwrap();
        let start = file.len() - 64;
        change(&mut file[start..], at, new);
        files
    };
    newer(&change_footer(8, &[2]), "format version");
    newer(&change_footer(59, &[1]), "reserved");
    damaged(&change_footer(12, &[9]), "salt");
    damaged(&change_footer(16, &[0, 0]), "blocks end");
    damaged(&change_footer(16, &[0xff; 5]), "an image of");
    damaged(&change_footer(24, &[1]), "does not end there");
    damaged(&change_footer(36, &[1, 2, 3, 4]), "crc of the table");
}

#[test]
fn pack_that_does_not_fit_between_its_neighbours_is_damage() {
    let (store, pack) = whole();
    for (at, message) in [
        (32, "base position"),
        (48, "predecessor end"),
        (168, "predecessor end"),
        (176, "predecessor end"),
        (180, "index CRC"),
        (64, "next stream"),
    ] {
        let mut pack = pack.clone();
        pack.change_header(at, &[3]);
        damaged(&with(&store, &pack.sealed()), message);
    }
    for at in [136, 184] {
        let mut pack = pack.clone();
        pack.change_header(at, &[3]);
        newer(&with(&store, &pack.sealed()), "reserved");
    }
    let mut far = pack.clone();
    far.pack.as_mut().unwrap().next_position += 1;
    damaged(&with(&store, &far.sealed()), "base position");
}

/// The store with a pack of other records, and its receipts.
fn other(change: impl FnOnce(&mut Vec<(u64, Entry)>, &mut Vec<Entry>)) -> Files {
    let store = store();
    let (mut records, receipt) = kept();
    let mut receipts = vec![receipt];
    change(&mut records, &mut receipts);
    with(&store, &pack_of(&store, (records, receipts)).sealed())
}

#[test]
fn records_of_a_pack_are_in_their_order_and_alone() {
    sound(&other(|_, _| {}));
    damaged(&other(|records, _| records.swap(0, 1)), "out of its place");
    damaged(&other(|records, _| records.swap(3, 4)), "out of its place");
    damaged(&other(|records, _| records.swap(5, 6)), "out of its place");
    damaged(
        &other(|records, _| records[6].1.flags = 1),
        "a batch by itself",
    );
    damaged(
        &other(|records, _| records[6].1.watermark = Some(4096)),
        "a batch by itself",
    );
    damaged(&other(|records, _| records[6].1.time = 1), "a time");
    damaged(&other(|records, _| records[6].0 = 5), "twice");
    damaged(&other(|records, _| records[6].0 = 10), "not before");
    damaged(
        &other(|records, _| records.insert(0, (1, mark(1)))),
        "padding or a mark",
    );
    damaged(&other(|records, _| records[5].0 = 4), "another batch");
}

#[test]
fn receipt_outside_of_a_pack_is_a_newer_builds() {
    let store = store();
    let (_, receipt) = kept();
    let mut third = store.second.next(1);
    third.add(&receipt);
    newer(&files(&[&store.first, &store.second, &third]), "kind 139");
}

#[test]
fn record_in_use_that_a_pack_left_out_is_damage() {
    let store = store();
    let (mut records, receipt) = kept();
    records.remove(6);
    let mut pack = pack_of(&store, (records.clone(), vec![receipt.clone()]));
    pack.pack.as_mut().unwrap().gone.push((1, 3));
    damaged(&with(&store, &pack.sealed()), "sequence 3 was left out");
    // Nor is its row shorter than what the stream was given.
    let pack = pack_of(&store, (records, vec![receipt]));
    damaged(&with(&store, &pack.sealed()), "expected sequence 3");
    // More are left out than positions are missing.
    let (_, mut pack) = whole();
    let gone = &mut pack.pack.as_mut().unwrap().gone;
    gone.extend([(2, 3), (2, 4)]);
    damaged(&with(&store, &pack.sealed()), "missing positions");
    // What a stream was given goes on where it was.
    let (_, mut pack) = whole();
    pack.pack.as_mut().unwrap().gone = vec![(2, 2)];
    damaged(&with(&store, &pack.sealed()), "ordinals from 2 on");
}

#[test]
fn redacted_record_of_a_pack_is_erased() {
    damaged(
        &other(|records, _| records[4].1 = data(1, 1)),
        "still has its bytes",
    );
    damaged(
        &other(|records, _| {
            records[4].1 = Entry {
                payload: Vec::new(),
                ..labelled(1, 1, &[7])
            };
        }),
        "still has its bytes",
    );
}

#[test]
fn receipt_is_of_its_batch() {
    let of = |payload: Vec<u8>| other(|_, receipts| receipts[0].payload = payload);
    let step = (1, 1, 1, 2, 5, 5);
    let left = (1, 2, 5);
    sound(&of(receipt(&[step], &[])));
    damaged(&other(|_, receipts| receipts.clear()), "no receipt");
    damaged(&of(receipt(&[], &[])), "first stream");
    damaged(&of(receipt(&[(1, 2, 1, 2, 5, 5)], &[])), "first stream");
    damaged(&of(receipt(&[(1, 1, 2, 2, 5, 5)], &[])), "impossible step");
    damaged(&of(receipt(&[(1, 1, 2, 2, 9, 10)], &[])), "impossible step");
    damaged(
        &of(receipt(&[step, (1, 1, 1, 3, 9, 9)], &[])),
        "impossible step",
    );
    damaged(&of(receipt(&[step], &[left, left])), "rising stream");
    damaged(&of(receipt(&[step], &[(1, 3, 5)])), "is left");
    damaged(&of(receipt(&[(2, 1, 1, 2, 5, 5)], &[])), "not as it says");
    damaged(&of(receipt(&[(1, 1, 1, 3, 5, 5)], &[])), "not as it says");
    let mut longer = receipt(&[step], &[left]);
    longer.push(0);
    damaged(&of(longer), "its counts");
    let mut reserved = receipt(&[step], &[left]);
    reserved[9] = 1;
    newer(&of(reserved), "reserved");
    damaged(&other(|_, receipts| receipts[0].sequence = 1), "sequence");
    damaged(
        &other(|_, receipts| receipts[0].key = None),
        "without a key",
    );
    let again = |_: &mut Vec<_>, receipts: &mut Vec<Entry>| receipts.push(receipts[0].clone());
    damaged(&other(again), "another batch");
    let of_deleted = |_: &mut Vec<_>, receipts: &mut Vec<Entry>| {
        receipts.push(Entry {
            stream: 2,
            payload: receipt(&[(1, 2, 1, 1, 4, 4)], &[]),
            ..receipts[0].clone()
        });
    };
    damaged(&other(of_deleted), "deleted before");
}

#[test]
fn index_of_a_pack_is_compared_with_its_records() {
    let (store, pack) = whole();
    let whole = pack.clone().sealed();
    let end = usize::try_from(whole.end).unwrap();
    let table = whole.bytes.len() - 128 - 512 - 8 * 32;
    for at in (end..table).step_by(4) {
        let mut changed = whole.clone();
        changed.bytes[at] ^= 1;
        forge::index(&mut changed.bytes, end, changed.seed).unwrap();
        assert!(check(&with(&store, &changed)).is_err(), "{at}");
    }
    for (at, message) in [(60, "records"), (64, "next stream")] {
        let mut changed = whole.clone();
        let start = changed.bytes.len() - 128;
        change(&mut changed.bytes[start..], at, &[9]);
        damaged(&with(&store, &changed), message);
    }
    let mut repaired = pack.clone();
    repaired.seal(1);
    damaged(&with(&store, &repaired), "made by a repair");
    damaged(&with(&store, &pack), "not sealed");
}

#[test]
fn end_and_watermark_may_stand_in_what_a_pack_replaced() {
    let (store, pack) = whole();
    let pack = pack.sealed();
    let mut files = with(&store, &pack);
    files.insert("END".to_owned(), store.first.end(1));
    files.insert("WATERMARK".to_owned(), store.second.watermark(1, 96));
    sound(&files);
    let mut end = store.second.end(1);
    change(&mut end, 48, &[99]);
    files.insert("END".to_owned(), end);
    damaged(&files, "next position");
    files.remove("END");
    let mut watermark = store.second.watermark(1, 96);
    change(&mut watermark, 56, &[99]);
    files.insert("WATERMARK".to_owned(), watermark);
    damaged(&files, "position 99");
}
