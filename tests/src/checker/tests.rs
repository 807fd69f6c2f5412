//! The reader, on stores that are made by hand.

use super::{Checked, Files, Problem, check_files};
use crate::forge;
use maker::{
    ALONE, BOOT, Entry, Segment, change, data, entry, field, files, labelled, make, mark, padding,
};

mod maker;
mod packs;

const FIRST: &str = "00000001.seg";
const SECOND: &str = "00000002.seg";
/// Where the first data record is in [`one`]: behind a mark of 40 bytes and a stream of 48. It has 56.
const FIRST_DATA: usize = 4096 + 40 + 48;

fn check(files: &Files) -> Result<Checked, Problem> {
    check_files(files, Some(BOOT))
}

#[track_caller]
fn sound(files: &Files) -> Checked {
    match check(files) {
        Ok(checked) => checked,
        Err(problem) => panic!("{problem}"),
    }
}

#[track_caller]
fn damaged(files: &Files, message: &str) {
    let problem = check(files).expect_err("it is damaged");
    assert!(
        !problem.is_newer() && problem.message.contains(message),
        "expected {message}, found {problem}"
    );
}

#[track_caller]
fn newer(files: &Files, message: &str) {
    let problem = check(files).expect_err("a newer build's");
    assert!(
        problem.is_newer() && problem.message.contains(message),
        "expected {message}, found {problem}"
    );
}

/// Two segments, the first of them sealed.
fn two() -> (Segment, Segment) {
    let keyed = Entry {
        key: Some(b"once"),
        ..data(1, 2)
    };
    let first = Segment::first()
        .all(&[mark(1), make(1), data(1, 1), padding(20), keyed])
        .sealed();
    let second = first.next(1).all(&[data(1, 3), mark(2), data(1, 4)]);
    (first, second)
}

/// One that is not sealed.
fn one(entries: &[Entry]) -> Segment {
    Segment::first().all(&[mark(1), make(1)]).all(entries)
}

fn bytes_of<'a>(files: &'a mut Files, name: &str) -> &'a mut Vec<u8> {
    files.get_mut(name).expect("it has the file")
}

#[test]
fn store_made_by_hand_is_read() {
    let (first, second) = two();
    let mut files = files(&[&first, &second]);
    files.insert("END".to_owned(), second.end(2));
    files.insert("WATERMARK".to_owned(), second.watermark(2, 96));
    let checked = sound(&files);
    let positions: Vec<_> = checked
        .records
        .iter()
        .map(|record| record.position)
        .collect();
    assert_eq!(positions, [1, 2, 3, 4, 5]);
    assert_eq!(checked.meaning.streams[0].positions, [2, 3, 4, 5]);
    let marks: Vec<_> = checked
        .marks
        .iter()
        .map(|mark| (mark.kind, mark.position, mark.mark_epoch()))
        .collect();
    assert_eq!(
        marks,
        [(135, 1, Some(1)), (134, 3, None), (135, 5, Some(2))]
    );
    assert!(checked.damaged_copies.is_empty() && checked.unlisted.is_empty());
}

#[test]
fn names_that_are_not_listed_are_left_alone() {
    let mut files = files(&[&one(&[data(1, 1)])]);
    let names = ["000000001.seg", "0000001.seg", "MANIFEST", "notes.txt"];
    names
        .into_iter()
        .for_each(|name| drop(files.insert(name.to_owned(), Vec::new())));
    assert_eq!(sound(&files).unlisted, names);
    files.insert("00000003.seg".to_owned(), Vec::new());
    damaged(&files, "segment 2 is missing");
}

#[test]
fn header_is_read_from_the_first_copy_that_checks() {
    let mut segment = one(&[data(1, 1)]);
    let whole = sound(&files(&[&segment]));
    segment.bytes[100] ^= 1;
    let checked = sound(&files(&[&segment]));
    assert_eq!(
        (checked.records, checked.damaged_copies.len()),
        (whole.records, 1)
    );
    segment.bytes[2048 + 200] ^= 1;
    damaged(&files(&[&segment]), "crc");
    segment.bytes[100] ^= 1;
    assert_eq!(
        sound(&files(&[&segment])).damaged_copies[0].offset,
        2048 + 508
    );
    // What is between and behind the copies is not read.
    segment.bytes[512] = 1;
    segment.bytes[4095] = 1;
    sound(&files(&[&segment]));
}

#[test]
fn sealed_segment_has_its_header_a_third_time() {
    let (mut first, second) = two();
    let whole = sound(&files(&[&first, &second]));
    first.bytes[100] ^= 1;
    first.bytes[2048 + 100] ^= 1;
    let checked = sound(&files(&[&first, &second]));
    assert_eq!(
        (checked.records, checked.damaged_copies.len()),
        (whole.records, 2)
    );
    let place = first.bytes.len() - 640 + 100;
    first.bytes[place] ^= 1;
    damaged(&files(&[&first, &second]), "crc");
}

#[test]
fn copy_that_differs_is_told() {
    let mut segment = one(&[data(1, 1)]);
    change(&mut segment.bytes[2048..2560], 116, &[9]);
    let told = sound(&files(&[&segment])).damaged_copies;
    assert!(told[0].message.contains("another header"), "{told:?}");
}

#[test]
fn unknown_under_right_checks_is_a_newer_builds() {
    let cases: [(usize, &[u8], &str); 6] = [
        (8, &[2], "format version"),
        (40, &[4], "incompatible"),
        (80, &[1], "reserved"),
        (123, &[1], "reserved"),
        (47, &[0x80], "incompatible"),
        (100, &[1], "reserved"),
    ];
    for (at, new, message) in cases {
        let mut files = files(&[&one(&[])]);
        change(bytes_of(&mut files, "RUNLOG"), at, new);
        newer(&files, message);
    }
    for (at, message) in [
        (8, "format version"),
        (68, "role"),
        (69, "checksum"),
        (70, "reserved"),
        (88, "incompatible"),
        (124, "reserved"),
        (131, "reserved"),
        (132, "reserved"),
        (136, "reserved"),
        (168, "reserved"),
        (507, "reserved"),
    ] {
        let mut segment = one(&[]);
        segment.change_header(at, &[7]);
        newer(&files(&[&segment]), message);
    }
    for (at, message) in [
        (8, "format version"),
        (68, "flags"),
        (71, "flags"),
        (92, "reserved"),
        (123, "reserved"),
    ] {
        let (mut first, second) = two();
        let start = first.bytes.len() - 128;
        change(&mut first.bytes[start..], at, &[2]);
        newer(&files(&[&first, &second]), message);
    }
    for (name, at) in [
        ("END", 8),
        ("END", 80),
        ("END", 123),
        ("WATERMARK", 8),
        ("WATERMARK", 80),
        ("WATERMARK", 91),
    ] {
        let segment = one(&[data(1, 1)]);
        let mut files = files(&[&segment]);
        files.insert("END".to_owned(), segment.end(1));
        files.insert("WATERMARK".to_owned(), segment.watermark(1, 96));
        sound(&files);
        change(bytes_of(&mut files, name), at, &[7]);
        newer(
            &files,
            if at == 8 {
                "format version"
            } else {
                "reserved"
            },
        );
    }
}

#[test]
fn compatible_features_are_read_on() {
    for at in [48, 56] {
        let mut files = files(&[&one(&[])]);
        change(bytes_of(&mut files, "RUNLOG"), at, &[1]);
        sound(&files);
    }
    for at in [96, 104] {
        let mut segment = one(&[]);
        segment.change_header(at, &[1]);
        sound(&files(&[&segment]));
    }
}

#[test]
fn reserved_byte_that_does_not_check_is_damage() {
    let mut runlog = files(&[&one(&[])]);
    bytes_of(&mut runlog, "RUNLOG")[80] = 1;
    damaged(&runlog, "crc");
    let mut segment = one(&[]);
    segment.bytes[88] = 1;
    segment.bytes[2048 + 88] = 1;
    damaged(&files(&[&segment]), "crc");
}

#[test]
fn unknown_flags_and_kinds_are_a_newer_builds() {
    let flagged = |flag: u8| Entry {
        flags: ALONE | flag,
        ..data(1, 1)
    };
    let padded = Entry {
        padding: 1,
        ..data(1, 1)
    };
    let kinds = [136, 137, 138, 139, 191].map(|kind| entry(kind, 1, 0, b"?"));
    for unknown in [32, 64]
        .map(flagged)
        .into_iter()
        .chain(kinds)
        .chain([padded])
    {
        let unsealed = one(&[
            data(1, 1),
            Entry {
                sequence: 2,
                ..unknown.clone()
            },
        ]);
        newer(&files(&[&unsealed]), "record");
        // Not the last of its batch: the batch is not there, but it is no crash that left it.
        newer(
            &files(&[&one(&[Entry {
                flags: unknown.flags & !2,
                ..unknown.clone()
            }])]),
            "record",
        );
        // Behind what a crash cut off.
        let mut torn = one(&[data(1, 1), unknown.clone()]);
        torn.bytes[usize::try_from(torn.end).unwrap() - 32..].fill(0);
        assert!(sound(&files(&[&torn])).torn_bytes > 0);
        let mut behind = one(&[data(1, 1), data(1, 2), unknown]);
        let place = behind.bytes.len() - 2 * 64;
        behind.bytes[place + 40] ^= 1;
        newer(&files(&[&behind]), "record");
    }
}

#[test]
fn kind_that_may_be_skipped_has_a_position() {
    let first = one(&[
        entry(192, 1, 0, b"whatever"),
        data(1, 1),
        entry(255, 9, 9, b""),
    ])
    .sealed();
    let second = first.next(1).all(&[data(1, 2)]);
    let checked = sound(&files(&[&first, &second]));
    assert_eq!(checked.meaning.streams[0].positions, [3, 5]);
}

#[test]
fn mark_or_padding_that_takes_a_position_is_damage() {
    let (index, next) = (Some(2), Some(3));
    damaged(
        &files(&[&one(&[
            data(1, 1),
            mark(2),
            Entry {
                index: next,
                ..data(1, 2)
            },
        ])
        .sealed()]),
        "with index 2",
    );
    damaged(
        &files(&[&one(&[
            data(1, 1),
            Entry {
                index: next,
                ..mark(2)
            },
        ])
        .sealed()]),
        "with index 2",
    );
    sound(&files(&[&one(&[
        data(1, 1),
        Entry {
            index,
            ..padding(9)
        },
    ])
    .sealed()]));
    for wrong in [
        Entry {
            stream: 1,
            ..mark(2)
        },
        Entry {
            sequence: 1,
            ..padding(1)
        },
        Entry {
            flags: 1,
            ..mark(2)
        },
        Entry {
            flags: ALONE | 4,
            ..mark(2)
        },
        Entry {
            key: Some(b"k"),
            ..padding(1)
        },
    ] {
        damaged(&files(&[&one(&[data(1, 1), wrong])]), "padding or a mark");
    }
    damaged(&files(&[&one(&[entry(135, 0, 0, b"short")])]), "epoch");
    let longer = entry(135, 0, 0, &[2, 0, 0, 0, 1, 1, 1, 1, b'm', b'o', b'r', b'e']);
    assert_eq!(
        sound(&files(&[&one(&[longer])])).marks[1].mark_epoch(),
        Some(2)
    );
    damaged(
        &files(&[&one(&[
            Entry {
                flags: 1,
                ..data(1, 1)
            },
            mark(2),
            Entry {
                flags: 2,
                ..data(1, 2)
            },
        ])
        .sealed()]),
        "batch",
    );
}

#[test]
fn epochs_rise_and_a_mark_comes_before_the_first_batch() {
    damaged(&files(&[&one(&[mark(1)])]), "epoch 1, after epoch 1");
    damaged(
        &files(&[&Segment::first().all(&[make(1)])]),
        "before its mark",
    );
    let first = one(&[mark(3)]).sealed();
    sound(&files(&[&first, &first.next(3)]));
    sound(&files(&[
        &first,
        &first.next(4).all(&[mark(5), data(1, 1)]),
    ]));
    damaged(&files(&[&first, &first.next(2)]), "epoch 2, after epoch 3");
    damaged(
        &files(&[&first, &first.next(4).all(&[data(1, 1)])]),
        "before its mark",
    );
    let mut zero = one(&[]);
    zero.change_header(112, &[0]);
    damaged(&files(&[&zero]), "epoch 0");
}

#[test]
fn segment_that_does_not_follow_the_one_before_is_damage() {
    for (at, message) in [
        (32, "base position"),
        (48, "predecessor end"),
        (60, "predecessor"),
        (120, "index CRC"),
    ] {
        let (first, mut second) = two();
        second.change_header(at, &[2]);
        damaged(&files(&[&first, &second]), message);
    }
    let (first, mut second) = two();
    second.change_header(40, &999_u64.to_le_bytes());
    damaged(&files(&[&first, &second]), "base time");
    for (at, message) in [
        (12, "segment id"),
        (16, "store id"),
        (152, "hash key"),
        (47, "2^63"),
    ] {
        let (first, mut second) = two();
        second.change_header(at, &[0xff]);
        damaged(&files(&[&first, &second]), message);
    }
    let (first, mut second) = two();
    second.change_header(32, &[0xff; 8]);
    damaged(&files(&[&first, &second]), "no segment begins");
}

#[test]
fn index_crc_is_known_before_the_segment_is_sealed() {
    let mut first = one(&[data(1, 1)]);
    let sealed = first.clone().sealed();
    let mut next = sealed.next(1);
    first.bytes.resize(9000, 0);
    sound(&files(&[&first, &next]));
    next.change_header(120, &[1, 2, 3, 4]);
    damaged(&files(&[&first, &next]), "index CRC");
    next = sealed.next(1).all(&[data(1, 2)]);
    damaged(&files(&[&first, &next]), "not sealed");
}

#[test]
fn record_of_another_segment_with_the_same_salt_does_not_pass() {
    let mut one = one(&[data(1, 1), data(1, 2)]);
    // Of a copy of the store that went on by itself: all is the same but the segment's uuid.
    let (seed, end) = (one.seed, one.bytes.len());
    one.seed = maker::crc(
        seed,
        b"another"
            .as_slice()
            .chunks(7)
            .collect::<Vec<_>>()
            .as_slice(),
    );
    one.add(&data(1, 3));
    let checked = sound(&files(&[&one]));
    assert_eq!((checked.last_position(), checked.torn_bytes > 0), (3, true));
    assert_eq!(checked.segments[0].data_end, end as u64);
}

#[test]
fn what_was_durable_is_damaged_and_what_was_not_is_torn() {
    let torn = |watermark: Option<u64>| {
        let mut segment = one(&[
            data(1, 1),
            data(1, 2),
            Entry {
                watermark,
                ..data(1, 3)
            },
        ]);
        segment.bytes[FIRST_DATA + 56 + 40] ^= 1;
        files(&[&segment])
    };
    assert!(sound(&torn(None)).torn_bytes > 0);
    let border = sound(&torn(None)).segments[0].data_end;
    assert!(sound(&torn(Some(border))).torn_bytes > 0);
    damaged(&torn(Some(border + 8)), "durable");
}

#[test]
fn malformed_record_is_never_torn() {
    let keyless = Entry {
        flags: ALONE | 8,
        payload: vec![200, 1],
        ..data(1, 1)
    };
    damaged(&files(&[&one(&[keyless])]), "too short");
    let keyless = Entry {
        flags: ALONE | 8,
        payload: vec![0, 1],
        ..data(1, 1)
    };
    damaged(&files(&[&one(&[keyless])]), "empty key");
    let mut late = one(&[]);
    late.change_header(40, &((1 << 63) - 1_u64).to_le_bytes());
    late.add(&Entry {
        time: 1,
        ..data(1, 1)
    });
    damaged(&files(&[&late]), "2^63");
}

#[test]
fn index_block_is_compared_with_the_records() {
    let (first, second) = two();
    let end = usize::try_from(first.end).unwrap();
    let length = first.bytes.len() - 128 - end;
    for at in (0..length).step_by(4) {
        let mut changed = first.clone();
        changed.bytes[end + at] ^= 1;
        let mut next = second.clone();
        damaged(&files(&[&changed, &next]), "crc");
        // With checks that are right for it.
        let crc = forge::index(&mut changed.bytes, end, first.seed).unwrap();
        next.change_header(120, &crc.to_le_bytes());
        let table = length - 512 - 5 * 32..length - 512;
        let is_table = table.contains(&at);
        if is_table && (at - table.start) % 32 == 12 {
            // A section's CRC, which is right again.
            continue;
        }
        let found = check(&files(&[&changed, &next])).unwrap_err();
        let message = found.message;
        assert!(
            message.contains(if is_table { "section" } else { "index block" }),
            "{at}: {message}"
        );
    }
}

#[test]
fn section_that_needn_t_be_understood_is_passed_over() {
    let (first, second) = two();
    let with_section = |number: u8, flags: u8| {
        let mut first = first.clone();
        let (table, end) = (first.bytes.len() - 128 - 512, first.bytes.len() - 128);
        let mut row = vec![0; 32];
        row[0] = number;
        row[2] = flags;
        row[4] = 8;
        row[8] = 2;
        row[24] = 16;
        let start = table - 5 * 32;
        row[16..24].copy_from_slice(&(start as u64).to_le_bytes());
        first.bytes.splice(table..table, row);
        first.bytes.splice(start..start, [7; 16]);
        let trailer = end + 32 + 16;
        let length = (trailer as u64 - first.end).to_le_bytes();
        change(&mut first.bytes[trailer..], 80, &[6]);
        change(&mut first.bytes[trailer..], 84, &length);
        let end = usize::try_from(first.end).unwrap();
        let crc = forge::index(&mut first.bytes, end, first.seed).unwrap();
        let mut second = second.clone();
        second.change_header(120, &crc.to_le_bytes());
        (first, second, crc)
    };
    let (with, next, crc) = with_section(200, 0);
    assert_eq!(crc, first.index_crc, "it is of what must be understood");
    sound(&files(&[&with, &next]));
    let (with, next, _) = with_section(200, 1);
    newer(&files(&[&with, &next]), "type 200");
    let (with, next, _) = with_section(200, 4);
    newer(&files(&[&with, &next]), "flags");
    let (with, next, _) = with_section(1, 0);
    newer(&files(&[&with, &next]), "flags");
}

#[test]
fn trailer_is_compared_with_the_records() {
    for (at, message) in [
        (32, "next position"),
        (40, "times"),
        (48, "times"),
        (60, "records"),
        (64, "next stream"),
    ] {
        let (mut first, second) = two();
        let start = first.bytes.len() - 128;
        change(&mut first.bytes[start..], at, &[1]);
        damaged(&files(&[&first, &second]), message);
    }
}

#[test]
fn trailer_of_another_salt_is_a_payload() {
    let (first, _) = two();
    let forged = &mut first.bytes[first.bytes.len() - 128..].to_vec();
    for (at, new) in [(12, 9), (8, 2), (92, 1)] {
        change(forged, at, &[new]);
        let segment = one(&[data(1, 1), entry(0, 1, 2, forged)]);
        let checked = sound(&files(&[&segment]));
        assert!(!checked.segments[0].sealed && checked.last_position() == 3);
    }
}

/// The first segment made anew by a repair, with the second of its records damaged.
fn repaired(flags: u32) -> (Segment, Segment) {
    let mut first = one(&[data(1, 1), data(1, 2), make(2), data(2, 1), data(1, 3)]);
    first.seal(flags);
    first.bytes[FIRST_DATA + 40] ^= 1;
    let next = first.next(1).all(&[data(1, 4)]);
    (first, next)
}

#[test]
fn record_that_a_repaired_index_names_is_lost() {
    let (first, next) = repaired(0);
    damaged(&files(&[&first, &next]), "the record's crc");
    let (first, next) = repaired(1);
    let checked = sound(&files(&[&first, &next]));
    let lost: Vec<_> = checked
        .records
        .iter()
        .filter(|record| record.lost)
        .map(|record| (record.position, record.stream))
        .collect();
    assert_eq!(lost, [(2, 1)]);
    assert_eq!(checked.meaning.streams[0].positions, [2, 3, 6, 7]);
    assert_eq!(checked.streams()[0].1.len(), 3);
    // What follows need not know of it.
    let mut other = next.clone();
    other.change_header(120, &[9, 9, 9, 9]);
    sound(&files(&[&first, &other]));
}

#[test]
fn lost_stream_is_known_from_its_step() {
    let (mut first, next) = repaired(1);
    let place = first
        .bytes
        .windows(16)
        .position(|bytes| bytes == [2; 16])
        .unwrap();
    first.bytes[place] ^= 1;
    let checked = sound(&files(&[&first, &next]));
    assert_eq!(checked.meaning.streams[1].id, [2; 16]);
    assert_eq!(
        checked.records.iter().filter(|record| record.lost).count(),
        2
    );
}

#[test]
fn positions_may_be_left_out_before_a_segment_but_not_given_again() {
    let (first, _) = repaired(1);
    let leave_out = |first: &Segment, count: u32| {
        let mut before = first.clone();
        before.index += count;
        before.next(1).all(&[data(1, 4)])
    };
    let next = leave_out(&first, 5);
    let checked = sound(&files(&[&first, &next]));
    assert_eq!(
        (checked.last_position(), checked.record(8).is_none()),
        (12, true)
    );
    let mut again = first.clone();
    again.index -= 1;
    damaged(&files(&[&first, &again.next(1)]), "base position");
}

#[test]
fn log_that_does_not_reach_its_end_is_damaged() {
    let segment = one(&[data(1, 1), data(1, 2)]);
    let end = segment.end(1);
    let with = |segments: &[&Segment], end: &[u8]| {
        let mut files = files(segments);
        files.insert("END".to_owned(), end.to_vec());
        files
    };
    assert_eq!(
        sound(&with(&[&segment], &end)).end.unwrap().next_position,
        4
    );
    let more = segment.clone().all(&[mark(2), data(1, 3)]);
    sound(&with(&[&more], &end));
    sound(&with(&[&more.clone().sealed()], &end));
    damaged(&with(&[&one(&[data(1, 1)])], &end), "now at");
    damaged(
        &with(
            &[&one(&[data(1, 1), entry(1, 1, 2, b"RECORD 2 of stream 1")])],
            &end,
        ),
        "last record",
    );
    damaged(&with(&[], &end), "segment 1 is not there");
    damaged(
        &with(&[&segment.clone().all(&[mark(1)])], &end),
        "after epoch 1",
    );
    for (at, new, message) in [
        (16, 1, "store id"),
        (32, 2, "segment 2"),
        (36, 9, "salt"),
        (40, 1, "no batch ends"),
        (48, 9, "next position"),
        (56, 0, "last record"),
        (64, 0, "last record"),
        (79, 0x80, "2^63"),
    ] {
        let mut other = end.clone();
        change(&mut other, at, &[new]);
        damaged(&with(&[&segment], &other), message);
    }
    let low = with(
        &[&segment.clone().all(&[mark(5)])],
        &segment.clone().all(&[mark(5)]).end(4),
    );
    damaged(&low, "epoch 4");
    let mut broken = end.clone();
    broken[90] = 1;
    damaged(&with(&[&segment], &broken), "crc");
    damaged(&with(&[&segment], &end[..127]), "128 bytes");
    let empty = Segment::first();
    sound(&with(&[&empty], &empty.end(1)));
    let marked = Segment::first().all(&[mark(1)]);
    sound(&with(&[&marked], &marked.end(1)));
}

#[test]
fn watermark_stands_where_batches_end_and_is_ignored_if_it_does_not_check() {
    let segment = one(&[data(1, 1), data(1, 2)]);
    let with = |segment: &Segment, watermark: Vec<u8>| {
        let mut files = files(&[segment]);
        files.insert("WATERMARK".to_owned(), watermark);
        files
    };
    sound(&with(&segment, segment.watermark(1, 96)));
    sound(&with(&segment, segment.watermark(3, 4096)));
    sound(&with(
        &segment.clone().all(&[mark(2)]),
        segment.watermark(1, 104),
    ));
    let marked = segment.clone().all(&[mark(2)]);
    sound(&with(&marked, marked.watermark(2, 96)));
    damaged(&with(&marked, marked.watermark(1, 96)), "epoch 1 published");
    damaged(
        &with(
            &segment,
            segment.clone().all(&[data(1, 3)]).watermark(1, 96),
        ),
        "no batch ends there",
    );
    for (at, new, message) in [
        (16, 1, "another store"),
        (52, 2, "segment 2"),
        (56, 2, "position 2"),
        (64, 8, "offset"),
    ] {
        let mut other = segment.watermark(1, 96);
        change(&mut other, at, &[new]);
        damaged(&with(&segment, other.clone()), message);
        change(&mut other, 32, &[1]);
        sound(&with(&segment, other));
    }
    let mut broken = segment.watermark(1, 96);
    broken[56] = 99;
    sound(&with(&segment, broken));
    for length in [0, 13, 95] {
        sound(&with(&segment, segment.watermark(1, 96)[..length].to_vec()));
    }
}

#[test]
fn checkpoint_is_what_the_records_up_to_there_say() {
    let segment = one(&[data(1, 1), data(1, 2), mark(2)]);
    let made = segment.checkpoint(2, 2);
    let with = |segment: &Segment, checkpoint: &[u8]| {
        let mut files = files(&[segment]);
        files.insert("CHECKPOINT".to_owned(), checkpoint.to_vec());
        files
    };
    assert_eq!(
        sound(&with(&segment, &made))
            .checkpoint
            .unwrap()
            .next_position,
        4
    );
    sound(&with(&segment.clone().all(&[data(1, 3)]), &made));
    damaged(&with(&one(&[data(1, 1)]), &made), "the log ends before it");
    for (at, new, message) in [
        (32 + 32, 9, "records"),
        (32 + 36, 9, "times"),
        (32 + 44, 9, "times"),
        (32 + 52, 9, "next position"),
        (32 + 60, 1, "epoch 1"),
        (32 + 20, 9, "salt"),
    ] {
        let mut rest = made[32..].to_vec();
        rest[at - 32] = new;
        damaged(&with(&segment, &maker::checkpoint(&rest)), message);
    }
    // One of another version, and one that doesn't check, are nothing.
    for (at, new) in [(8, 2), (12, 1), (28, 1), (40, 1)] {
        let mut other = made.clone();
        other[at] = new;
        sound(&with(&segment, &other));
    }
}

#[test]
fn segment_of_more_than_1_gib_is_none() {
    let mut files = files(&[]);
    files.insert(FIRST.to_owned(), vec![0; (1 << 30) + 1]);
    damaged(&files, "more than a segment has");
    files.insert(FIRST.to_owned(), Vec::new());
    damaged(&files, "no room");
}

#[test]
fn seal_is_proved_by_a_record_in_the_next_segment() {
    let (mut first, second) = two();
    let torn = usize::try_from(first.end).unwrap() + 8;
    first.bytes[torn] ^= 1;
    damaged(&files(&[&first, &second]), "crc");
    sound(&files(&[&first, &first.next(1)]));
    let mut files = files(&[&first, &first.next(1).all(&[mark(2)])]);
    damaged(&files, "crc");
    files.remove(SECOND);
    damaged(&files, "crc");
}

/// A data record that has these extension fields.
fn extended(fields: Vec<u8>) -> Entry {
    Entry {
        fields: Some(fields),
        ..data(1, 1)
    }
}

fn label_list(count: u64) -> Vec<u8> {
    (1..=count).flat_map(u64::to_le_bytes).collect()
}

#[test]
fn labels_are_read() {
    let spread = |place: u64| place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut labels: Vec<u64> = (1..9).map(spread).collect();
    labels.sort_unstable();
    let records = (1..6).map(|sequence| {
        let mut labels: Vec<u64> = (0..8)
            .map(|nth| spread(8 * u64::from(sequence) + nth))
            .collect();
        labels.sort_unstable();
        labelled(1, sequence, &labels)
    });
    let mut first = one(&records.collect::<Vec<_>>());
    for entry in [
        make(2),
        labelled(2, 1, &labels),
        labelled(1, 6, &labels[..1]),
        data(1, 7),
    ] {
        first.add(&entry);
    }
    let first = first.sealed();
    let second = first.next(1).all(&[labelled(2, 2, &[0, u64::MAX])]);
    let mut files = files(&[&first, &second]);
    files.insert("END".to_owned(), second.end(1));
    let checked = sound(&files);
    let found: Vec<_> = checked.records[6..]
        .iter()
        .map(|record| (record.position, record.labels.clone()))
        .collect();
    let expected = [
        (7, Vec::new()),
        (8, labels.clone()),
        (9, labels[..1].to_vec()),
        (10, Vec::new()),
        (11, vec![0, u64::MAX]),
    ];
    assert_eq!(found, expected);
}

#[test]
fn extension_fields_that_need_not_be_understood_are_passed_over() {
    let labels = field(1, 0, &label_list(8));
    for fields in [
        vec![],
        [labels.clone(), field(2, 0, b"whatever")].concat(),
        [field(0, 0, b""), labels.clone(), field(255, 0, &[7; 300])].concat(),
        field(9, 0, &[1; 4092]),
    ] {
        let entry = Entry {
            key: Some(b"once"),
            ..extended(fields)
        };
        let checked = sound(&files(&[&one(&[entry])]));
        let record = &checked.records[1];
        assert_eq!(record.key.as_deref(), Some(&b"once"[..]));
        assert_eq!(record.payload, b"record 1 of stream 1");
    }
    // A record of another kind may have some too, but no labels.
    let step = |fields| Entry {
        fields: Some(fields),
        ..entry(130, 1, 0, b"")
    };
    sound(&files(&[&one(&[step(field(2, 0, b"whatever"))])]));
    damaged(&files(&[&one(&[step(labels)])]), "only data records");
}

#[test]
fn unknown_extension_field_is_a_newer_builds() {
    let labels = field(1, 0, &label_list(1));
    for fields in [
        field(2, 1, b""),
        field(2, 2, b""),
        field(1, 2, &label_list(1)),
        [labels, field(7, 0x81, b"?")].concat(),
    ] {
        newer(&files(&[&one(&[extended(fields.clone())])]), "extension");
        // Behind what a crash cut off.
        let next = Entry {
            sequence: 3,
            ..extended(fields)
        };
        let mut behind = one(&[data(1, 1), data(1, 2)]);
        let place = behind.bytes.len() - 8;
        behind.add(&next);
        behind.bytes[place] ^= 1;
        newer(&files(&[&behind]), "extension");
    }
}

#[test]
fn impossible_extension_field_is_damage() {
    let labels = field(1, 0, &label_list(1));
    let twice: Vec<u8> = [3_u64, 3].into_iter().flat_map(u64::to_le_bytes).collect();
    let falling: Vec<u8> = [3_u64, 2].into_iter().flat_map(u64::to_le_bytes).collect();
    for (fields, message) in [
        (field(9, 0, &[1; 4093]), "over the limit"),
        (vec![1, 0, 8], "do not add up"),
        (vec![9, 0, 1, 0], "do not add up"),
        ([labels.clone(), labels.clone()].concat(), "do not rise"),
        ([field(2, 0, b""), labels.clone()].concat(), "do not rise"),
        (field(1, 0, b""), "labels"),
        (field(1, 0, &label_list(9)), "labels"),
        (field(1, 0, &[1; 9]), "labels"),
        (field(1, 0, &twice), "labels"),
        (field(1, 0, &falling), "labels"),
    ] {
        damaged(&files(&[&one(&[extended(fields)])]), message);
    }
    for (payload, message) in [
        (&[1][..], "too short"),
        (&[9, 0, 0], "longer than the body"),
    ] {
        let entry = Entry {
            flags: ALONE | 128,
            ..entry(1, 1, 1, payload)
        };
        damaged(&files(&[&one(&[entry])]), message);
    }
}

/// A segment whose index has sections of labels, and the next one, which is not sealed.
fn two_with_labels() -> (Segment, Segment) {
    let first = one(&[
        labelled(1, 1, &[7, 1 << 40]),
        data(1, 2),
        labelled(1, 3, &[7]),
    ])
    .sealed();
    let next = first.next(1).all(&[data(1, 4)]);
    (first, next)
}

#[test]
fn label_sections_are_compared_with_the_records() {
    let (first, next) = two_with_labels();
    sound(&files(&[&first, &next]));
    let end = usize::try_from(first.end).unwrap();
    let table = first.bytes.len() - 128 - 512 - 7 * 32;
    let offset = |row: usize| {
        let at = table + 32 * row + 16;
        u64::from_le_bytes(first.bytes[at..at + 8].try_into().unwrap())
    };
    // Of the sections of labels, which are the last three.
    let sections = usize::try_from(offset(4)).unwrap()..table;
    assert_eq!(sections.len(), 24 + 16 + 32);
    for at in sections {
        let mut changed = first.clone();
        changed.bytes[at] ^= 1;
        damaged(&files(&[&changed, &next]), "crc");
        let crc = forge::index(&mut changed.bytes, end, first.seed).unwrap();
        assert_eq!(crc, first.index_crc, "they needn't be understood");
        damaged(&files(&[&changed, &next]), "index block");
    }
    let leave_out = |labels: Vec<u64>| {
        let mut record = labelled(1, 1, &[7, 8]);
        record.labels = labels;
        let first = one(&[record]).sealed();
        files(&[&first, &first.next(1).all(&[data(1, 2)])])
    };
    sound(&leave_out(vec![7, 8]));
    damaged(&leave_out(vec![7]), "index block");
    damaged(&leave_out(vec![]), "index block");
    damaged(&leave_out(vec![7, 8, 9]), "index block");
}

#[test]
fn section_of_labels_with_other_flags_or_elements_is_a_newer_builds() {
    let (first, next) = two_with_labels();
    let table = first.bytes.len() - 128 - 512 - 7 * 32;
    for row in 4..7 {
        for (at, message) in [(2, "flags"), (4, "bytes of an element")] {
            let mut changed = first.clone();
            changed.bytes[table + 32 * row + at] ^= 1;
            let end = usize::try_from(first.end).unwrap();
            let crc = forge::index(&mut changed.bytes, end, first.seed).unwrap();
            let mut next = next.clone();
            next.change_header(120, &crc.to_le_bytes());
            newer(&files(&[&changed, &next]), message);
        }
    }
}

#[test]
fn redacted_record_keeps_its_labels_in_its_segment_and_is_found_by_none() {
    let redaction = entry(
        133,
        1,
        1,
        &[&2_u64.to_le_bytes()[..], &[0; 16], b"asked for"].concat(),
    );
    let segment = one(&[labelled(1, 1, &[7]), redaction]);
    let checked = sound(&files(&[&segment]));
    assert_eq!(checked.records[1].labels, [7]);
    assert_eq!(checked.found(7), [] as [u64; 0]);
    let (first, next) = two_with_labels();
    assert_eq!(sound(&files(&[&first, &next])).found(7), [2, 4]);
}

#[test]
fn repaired_index_names_the_labels_of_what_is_left() {
    let mut first = one(&[labelled(1, 1, &[7]), data(1, 2), labelled(1, 3, &[7])]);
    first.seal(1);
    let next = first.next(1).all(&[data(1, 4)]);
    let lost = |place: u64| {
        let mut first = first.clone();
        let at = usize::try_from(place).unwrap();
        first.bytes[at + 40] ^= 1;
        files(&[&first, &next])
    };
    let (labelled_one, other) = (first.offset_of(1), first.offset_of(2));
    assert_eq!(sound(&lost(other)).found(7), [2, 4]);
    damaged(&lost(labelled_one), "index block");
}

#[test]
fn checkpoint_has_the_labels_of_the_active_segment() {
    let segment = one(&[labelled(1, 1, &[7]), labelled(1, 2, &[7, 9])]);
    let mut files = files(&[&segment]);
    files.insert("CHECKPOINT".to_owned(), segment.checkpoint(1, 2));
    assert!(sound(&files).checkpoint.is_some());
    let mut other = segment.clone();
    other.take_labels(1);
    files.insert("CHECKPOINT".to_owned(), other.checkpoint(1, 2));
    damaged(&files, "index block");
}

#[test]
fn section_with_an_element_more_in_its_padding_is_damage() {
    // One label posting, and room for another behind it.
    let first = one(&[labelled(1, 1, &[7])]).sealed();
    let next = first.next(1).all(&[data(1, 2)]);
    sound(&files(&[&first, &next]));
    let mut changed = first.clone();
    let row = first.bytes.len() - 128 - 512 - 2 * 32;
    changed.bytes[row + 8] = 2;
    changed.bytes[row + 24] = 8;
    let end = usize::try_from(first.end).unwrap();
    forge::index(&mut changed.bytes, end, first.seed).unwrap();
    damaged(&files(&[&changed, &next]), "elements of type 7");
}
