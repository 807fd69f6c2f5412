//! Nothing that is derived from the records, or stands beside them, is false without `verify` telling it: every field is
//! changed, and the checksums over it are made right again.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use runlog_engine::{
    Durability, Expected, NewRecord, OpenOptions, Preallocation, Store, storage::FsStorage,
};
use runlog_tests::{
    checker::{self, Files},
    damage::{Left, Victim, verify, victim},
    faulty::FaultyStorage,
    forge::{self, HEADER_BYTES, HEADER_COPIES, TRAILER_BYTES, put},
    script,
};

fn problems(files: &Files) -> u64 {
    verify(&FaultyStorage::from_files(files)).expect("damage is told as such")
}

/// Adds something to the 4 bytes at a place.
fn add(bytes: &mut [u8], at: usize, more: u32) {
    let word = u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    put(bytes, at, &word.wrapping_add(more).to_le_bytes());
}

/// Where the records of a segment end, by its trailer.
fn data_end(file: &[u8]) -> usize {
    let start = file.len() - TRAILER_BYTES + 16;
    usize::try_from(u64::from_le_bytes(
        file[start..start + 8].try_into().expect("8 bytes"),
    ))
    .expect("small")
}

/// The words of an index block whose records end at `begin`, but for the CRCs of its sections, which are made right again.
fn block_words(file: &[u8], begin: usize) -> impl Iterator<Item = usize> + use<> {
    let trailer = file.len() - TRAILER_BYTES;
    let end = trailer - HEADER_BYTES;
    let sections = u32::from_le_bytes(file[trailer + 80..][..4].try_into().expect("4 bytes"));
    let table = end - sections as usize * 32;
    let is_crc = move |at: &usize| *at >= table && (at - table) % 32 == 12;
    (begin..end).step_by(4).filter(move |at| !is_crc(at))
}

/// Changes a file of each, and says of which changes nothing was told.
fn silent(
    victim: &Victim,
    name: &str,
    places: impl Iterator<Item = usize>,
    mend: impl Fn(&mut Vec<u8>),
) -> Vec<String> {
    let mut silent = Vec::new();
    for place in places {
        for more in [1, 2, u32::MAX] {
            let mut files = victim.files.clone();
            let bytes = files.get_mut(name).expect("it has the file");
            add(bytes, place, more);
            mend(bytes);
            if problems(&files) == 0 {
                silent.push(format!("{name}: {more} more at {place}"));
            }
        }
    }
    silent
}

#[test]
fn sound_stores_have_no_problem() {
    for left in [Left::Closed, Left::Crashed] {
        assert_eq!(problems(&victim(left).files), 0, "{left:?}");
    }
}

#[test]
fn every_false_word_of_an_index_block_is_told() {
    let victim = victim(Left::Closed);
    for name in victim.sealed() {
        let file = &victim.files[name];
        let (begin, seed) = (data_end(file), forge::seed(file));
        let told = silent(&victim, name, block_words(file, begin), |bytes| {
            forge::index(bytes, begin, seed);
        });
        assert!(told.is_empty(), "{told:?}");
    }
}

/// The whole chain is made for it: the segment behind names the false block.
#[test]
fn false_index_block_is_told_when_the_next_segment_names_it_too() {
    let victim = victim(Left::Closed);
    let [first, second] = victim.sealed()[..] else {
        panic!("two sealed segments")
    };
    let (file, seed) = (&victim.files[first], forge::seed(&victim.files[first]));
    let begin = data_end(file);
    let mut wrong = Vec::new();
    for place in block_words(file, begin) {
        let mut files = victim.files.clone();
        let bytes = files.get_mut(first).expect("it has the file");
        add(bytes, place, 1);
        let crc = forge::index(bytes, begin, seed).expect("it has a block");
        let next = files.get_mut(second).expect("it has the file");
        put(next, 120, &crc.to_le_bytes());
        forge::header(next);
        let (next_end, next_seed) = (data_end(next), forge::seed(next));
        let header = next[..HEADER_BYTES].to_vec();
        let footer = next.len() - TRAILER_BYTES - HEADER_BYTES;
        put(next, footer, &header);
        let crc = forge::index(next, next_end, next_seed).expect("it has a block");
        let last = files.get_mut(victim.active()).expect("it has the file");
        put(last, 120, &crc.to_le_bytes());
        forge::header(last);
        files.remove("CHECKPOINT");
        if problems(&files) == 0 {
            wrong.push(place);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn every_false_word_of_a_trailer_is_told() {
    let victim = victim(Left::Closed);
    for name in victim.sealed() {
        let start = victim.files[name].len() - TRAILER_BYTES;
        // Flag 1 says that a repair made the block, which then may say less.
        let places = (start + 8..start + 92).step_by(4);
        let places = places.filter(|place| *place != start + 68);
        let told = silent(&victim, name, places, |bytes| forge::trailer(bytes));
        assert!(told.is_empty(), "{told:?}");
    }
}

#[test]
fn every_false_word_of_a_header_is_told() {
    let victim = victim(Left::Closed);
    for name in victim.files.keys().filter(|name| name.ends_with(".seg")) {
        // What doesn't keep this build from reading: features that are compatible with that, and the writer's version.
        let decides_nothing =
            |place: &usize| (96..112).contains(place) || (116..120).contains(place);
        let places = (8..508).step_by(4).filter(|place| !decides_nothing(place));
        let told = silent(&victim, name, places, |bytes| forge::header(bytes));
        assert!(told.is_empty(), "{told:?}");
    }
}

#[test]
fn every_damaged_copy_of_a_header_is_told() {
    let victim = victim(Left::Closed);
    for name in victim.files.keys().filter(|name| name.ends_with(".seg")) {
        let mut copies = HEADER_COPIES.to_vec();
        if victim.sealed().contains(&name.as_str()) {
            copies.push(victim.files[name].len() - TRAILER_BYTES - HEADER_BYTES);
        }
        for start in copies {
            let told = silent(
                &victim,
                name,
                (start..start + HEADER_BYTES).step_by(36),
                |_| {},
            );
            assert!(told.is_empty(), "{told:?}");
        }
    }
}

#[test]
fn every_false_word_of_a_checkpoint_is_told() {
    let victim = victim(Left::Closed);
    let length = victim.files["CHECKPOINT"].len();
    // Where the log stood begins behind the header; the epoch of the writer is one that it may have given itself.
    let epoch = 32 + 16 + 4 + 4 + 8 + 4 + 8 + 8 + 8;
    let (mut silent, mut unread) = (Vec::new(), 0);
    for place in (32..length).filter(|place| !(epoch..epoch + 4).contains(place)) {
        let storage = victim.changed("CHECKPOINT", |bytes| {
            bytes[place] = bytes[place].wrapping_add(1);
            forge::checkpoint(bytes);
        });
        if problems(&storage.files()) > 0 {
            continue;
        }
        // One that can't be decoded is one of another encoding: opening does without. And a place in a list that means the
        // same as the one before is right.
        let options = OpenOptions {
            segment_bytes_max: 64 << 10,
            ..OpenOptions::default()
        }
        .read_only();
        let is_used = Store::open_on(Arc::new(storage.clone()), options)
            .is_ok_and(|it| it.recovery().index_blocks_read == 0);
        unread += usize::from(!is_used);
        if is_used
            && !victim
                .examine(&storage)
                .is_ok_and(|found| victim.is_whole(&found))
        {
            silent.push(place);
        }
    }
    assert!(silent.is_empty(), "{silent:?}");
    assert!(
        unread * 4 < length,
        "{unread} of {length} changes leave nothing that can be read"
    );
}

#[test]
fn checkpoint_that_says_a_stream_is_deleted_is_told() {
    let victim = victim(Left::Closed);
    let id = script::stream(1);
    let mut files = victim.files.clone();
    let bytes = files.get_mut("CHECKPOINT").expect("it has the file");
    let place = forge::checkpoint_flags(bytes, id.as_bytes()).expect("it has the stream");
    bytes[place] ^= 1;
    forge::checkpoint(bytes);
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    }
    .read_only();
    let store = Store::open_on(Arc::new(FaultyStorage::from_files(&files)), options).unwrap();
    assert_eq!(store.stream(id).unwrap(), None);
    assert!(problems(&files) > 0);
}

#[test]
fn every_false_word_of_the_small_files_is_told() {
    let victim = victim(Left::Closed);
    // Versions of writers, times, features that don't keep this build from reading, and the epoch of a writer that may have
    // written nothing.
    let skipped = |name: &str, place: usize| match name {
        "RUNLOG" => {
            (12..16).contains(&place) || (32..40).contains(&place) || (48..64).contains(&place)
        }
        _ => (12..16).contains(&place) || (68..80).contains(&place),
    };
    for name in ["RUNLOG", "END"] {
        let places = (8..124).step_by(4).filter(|place| !skipped(name, *place));
        let told = silent(&victim, name, places, |bytes| forge::structure(bytes));
        assert!(told.is_empty(), "{told:?}");
        let told = silent(&victim, name, (0..128).step_by(4), |_| {});
        assert!(told.is_empty(), "damaged: {told:?}");
        let mut files = victim.files.clone();
        files.get_mut(name).expect("it has the file").truncate(100);
        assert!(problems(&files) > 0, "{name} cut");
    }
    // The segment, the position and the offset; one of another boot or store is none.
    let places = [8, 52, 56, 64].into_iter();
    let told = silent(&victim, "WATERMARK", places, |bytes| {
        forge::structure(bytes)
    });
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn lost_identity_is_told_and_the_segments_are_read_all_the_same() {
    let mut files = victim(Left::Closed).files;
    let records = runlog_engine::verify(&FaultyStorage::from_files(&files))
        .unwrap()
        .records;
    files.remove("RUNLOG");
    let found = runlog_engine::verify(&FaultyStorage::from_files(&files)).unwrap();
    assert_eq!(
        (found.problems_count, found.records),
        (1, records),
        "{:?}",
        found.problems
    );
}

/// What a writer refuses, `verify` tells, whether the machine was started anew or not.
#[test]
fn stray_segments_are_told_as_a_writer_would() {
    for left in [Left::Closed, Left::Crashed] {
        let victim = victim(left);
        for (source, name) in [
            (0, "00000004.seg"),
            (0, "00000005.seg"),
            (2, "00000004.seg"),
            (0, "99999999.seg"),
        ] {
            let mut files = victim.files.clone();
            let bytes = files
                .values()
                .filter(|bytes| bytes.starts_with(b"RUNLOGSG"))
                .nth(source)
                .expect("segments")
                .clone();
            files.insert(name.to_owned(), bytes);
            assert!(
                problems(&files) > 0,
                "{left:?}: a copy of segment {} as {name}",
                source + 1
            );
        }
    }
}

#[test]
fn foreign_and_older_segments_are_told() {
    let (one, mut other) = (victim(Left::Closed), victim(Left::Crashed));
    for name in one.files.keys().filter(|name| name.ends_with(".seg")) {
        let mut files = one.files.clone();
        files.insert(
            name.clone(),
            other.files.remove(name).expect("the same names"),
        );
        let bytes = files.get_mut(name).expect("just put there");
        // Of the same store, another history.
        bytes[56] ^= 1;
        forge::header(bytes);
        assert!(problems(&files) > 0, "{name}");
    }
}

#[test]
fn damaged_records_are_told_by_what_is_lost() {
    let victim = victim(Left::Closed);
    let checked = checker::check_files(&victim.files, None).unwrap();
    for record in checked.records.iter().filter(|record| record.segment < 3) {
        let mut files = victim.files.clone();
        let bytes = files
            .get_mut(&format!("{:08}.seg", record.segment))
            .expect("it has the file");
        bytes[usize::try_from(record.offset).expect("small") + 29] ^= 4;
        let found = runlog_engine::verify(&FaultyStorage::from_files(&files)).unwrap();
        let told = format!("{:?}", found.problems);
        assert_eq!(
            (found.problems_count, found.lost),
            (1, 1),
            "{record:?}: {told}"
        );
        assert!(
            found.problems[0].is_loss && told.contains(&format!("position {} ", record.position)),
            "{told}"
        );
        if record.kind < 128 {
            let stream = checked.meaning.streams[record.stream as usize - 1].id;
            let stream = runlog_engine::StreamId::from_bytes(stream);
            assert!(
                told.contains(&format!("sequence {} of stream {stream}", record.sequence)),
                "{told}"
            );
        }
    }
}

/// Beside a writer that turns to new segments as fast as it can, nothing is told that isn't so.
#[test]
fn verify_beside_a_writer_never_cries_wolf() {
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        durability: Durability::Os,
        preallocation: Preallocation::None,
        ..OpenOptions::default()
    };
    let store = Store::open(folder.path(), options).unwrap();
    store
        .append(
            script::stream(1),
            Expected::Any,
            &[NewRecord::data(b"first")],
        )
        .unwrap();
    let done = AtomicBool::new(false);
    let mut rounds = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let payload = vec![7; 9000];
            for _ in 0..1200 {
                store
                    .append(
                        script::stream(2),
                        Expected::Any,
                        &[NewRecord::data(&payload)],
                    )
                    .unwrap();
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let found = runlog_engine::verify(&FsStorage::new(folder.path())).unwrap();
            assert!(found.is_sound(), "{:?}", found.problems);
            rounds += 1;
        }
    });
    assert!(rounds > 3, "{rounds}");
    let found = runlog_engine::verify(&FsStorage::new(folder.path())).unwrap();
    assert!(found.is_sound() && found.records >= 1201, "{found:?}");
}
