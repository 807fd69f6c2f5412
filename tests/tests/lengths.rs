//! Files that are far longer than what is in them, that are no files, or that make whoever searches them search again and
//! again: there is an answer, whatever it is, soon and in little memory.
//!
//! Each way of using such a store is a process of its own, so that one that hangs can be ended.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    fs,
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use runlog_engine::{Durability, Expected, NewRecord, OpenOptions, Store};
use runlog_tests::{
    alike, budget, checker, forge,
    host::TestHost,
    processes::{payload, stream},
};

/// What takes longer is taken to hang. Each answer is one of milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest batch, and as much again.
const MEMORY_MAX: usize = 256 << 20;

const TIB: u64 = 1 << 40;

/// A store of a few segments, closed or as a crash leaves it.
struct Victim {
    folder: tempfile::TempDir,
}

impl Victim {
    fn new(is_closed: bool) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // Without threads, so that nothing changes while it is copied.
        let host = Arc::new(TestHost::new(1));
        let durability = Durability::Os;
        let options = OpenOptions {
            segment_bytes_max: 64 << 10,
            durability,
            host,
            ..OpenOptions::default()
        };
        let work = folder.path().join("work");
        let store = Store::open(&work, options).unwrap();
        for sequence in 1..=100 {
            store
                .append(
                    stream(0),
                    Expected::Any,
                    &[NewRecord::data(&payload(0, sequence))],
                )
                .unwrap();
        }
        if is_closed {
            store.close().unwrap();
        }
        let copied = Command::new("cp")
            .arg("-r")
            .args([&work, &folder.path().join("store")])
            .status()
            .unwrap();
        assert!(copied.success());
        let victim = Self { folder };
        if !is_closed {
            // As after a loss of power: nobody published anything since.
            let _ = fs::remove_file(victim.store().join("WATERMARK"));
        }
        victim
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.store().join(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.store())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn last_segment(&self) -> String {
        self.names()
            .into_iter()
            .filter(|name| name.ends_with(".seg"))
            .max()
            .unwrap()
    }

    fn set_len(&self, name: &str, bytes: u64) {
        let file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.file(name))
            .unwrap();
        file.set_len(bytes).unwrap();
    }
}

/// Uses the store in each way, the ones that change it last, until one goes wrong.
fn probe(what: &str, victim: &Victim, ways: &[&str]) -> Option<String> {
    ways.iter().find_map(|way| {
        probe_one(victim, way)
            .err()
            .map(|wrong| format!("{what}, {way}: {wrong}"))
    })
}

const WAYS: [&str; 4] = ["read", "verify", "write", "repair"];

fn probe_one(victim: &Victim, way: &str) -> Result<(), String> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_prober"))
        .arg(way)
        .arg(victim.store())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let since = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if since.elapsed() > PATIENCE => {
                child.kill().unwrap();
                child.wait().unwrap();
                return Err(format!("no answer in {} s", PATIENCE.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let (mut said, mut told) = (String::new(), String::new());
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    if !status.success() {
        return Err(format!(
            "{status}: {}",
            told.lines().take(3).collect::<Vec<_>>().join(" ")
        ));
    }
    let bytes: usize = said.split(' ').next().unwrap().parse().unwrap();
    if bytes > MEMORY_MAX {
        Err(format!("{} MiB of memory: {said}", bytes >> 20))
    } else {
        Ok(())
    }
}

fn assert_answered(wrong: &[String]) {
    assert!(
        wrong.is_empty(),
        "{} went wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn segments_longer_than_any_are_answered_for_soon() {
    let mut wrong = Vec::new();
    for is_closed in [true, false] {
        let left = if is_closed { "closed" } else { "after a crash" };
        for bytes in [16 << 30, TIB] {
            let victim = Victim::new(is_closed);
            victim.set_len(&victim.last_segment(), bytes);
            wrong.extend(probe(
                &format!("last segment of {bytes} bytes, {left}"),
                &victim,
                &WAYS,
            ));
        }
        let victim = Victim::new(is_closed);
        victim.set_len("00000001.seg", TIB);
        wrong.extend(probe(
            &format!("sealed segment of 1 TiB, {left}"),
            &victim,
            &WAYS,
        ));
    }
    assert_answered(&wrong);
}

#[test]
fn small_files_that_are_long_are_answered_for_soon() {
    let mut wrong = Vec::new();
    for name in ["CHECKPOINT", "RUNLOG", "WATERMARK", "END", "LOCK"] {
        for bytes in [1 << 30, TIB] {
            let victim = Victim::new(true);
            fs::write(victim.file(name), []).unwrap();
            victim.set_len(name, bytes);
            // A GiB that is read whole is much, though not too much for the memory of most machines.
            wrong.extend(probe(&format!("{name} of {bytes} zeros"), &victim, &WAYS));
        }
    }
    assert_answered(&wrong);
}

#[test]
fn pipes_in_place_of_files_are_answered_for() {
    let mut wrong = Vec::new();
    for name in Victim::new(true).names() {
        let victim = Victim::new(true);
        fs::remove_file(victim.file(&name)).unwrap();
        let made = Command::new("mkfifo")
            .arg(victim.file(&name))
            .status()
            .unwrap();
        assert!(made.success());
        wrong.extend(probe(&format!("{name} is a pipe"), &victim, &WAYS));
    }
    assert_answered(&wrong);
}

/// Makes the checks of a record's header right, for a body of this CRC.
fn seal_header(header: &mut [u8; 32], offset: u64, seed: u32, body_crc: u32) {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(&offset.to_le_bytes());
    hasher.update(&header[2..28]);
    let check = hasher.finalize();
    header[..2].copy_from_slice(&check.to_le_bytes()[..2]);
    header[28..].copy_from_slice(&(check ^ body_crc).to_le_bytes());
}

/// Records of a MiB of zeros, each right, none of which ends the batch that the first one begins. They are more than a batch
/// can have.
#[test]
fn batch_that_never_ends_is_answered_for_in_little_memory() {
    const BODY_BYTES: usize = 1 << 20;
    let records: u32 = if budget::is_torture() { 900 } else { 400 };
    let mut wrong = Vec::new();
    for way in WAYS {
        let victim = Victim::new(false);
        let checked = checker::check(&victim.store()).unwrap();
        let (segment, last) = (
            checked.segments.last().unwrap(),
            checked.records.last().unwrap(),
        );
        let file = fs::OpenOptions::new()
            .write(true)
            .open(victim.file(&victim.last_segment()))
            .unwrap();
        let body_crc = crc32fast::hash(&vec![0; BODY_BYTES]);
        let mut offset = last.offset + last.bytes;
        for number in 1..=records {
            let mut header = [0; 32];
            header[3] = u8::from(number == 1) | 4;
            header[4..8].copy_from_slice(&u32::try_from(BODY_BYTES).unwrap().to_le_bytes());
            header[8..12].copy_from_slice(&(last.index + number).to_le_bytes());
            header[12..16].copy_from_slice(&last.stream.to_le_bytes());
            header[16..20].copy_from_slice(&(last.sequence + number).to_le_bytes());
            seal_header(&mut header, offset, segment.seed, body_crc);
            file.write_all_at(&header, offset).unwrap();
            offset += 32 + BODY_BYTES as u64;
        }
        file.set_len(offset + (1 << 20)).unwrap();
        wrong.extend(probe("a batch without an end", &victim, &[way]));
    }
    assert_answered(&wrong);
}

/// Fills a range with headers of long records that are none, and among them short records that are: whoever goes on behind
/// damage reads the rest again for each header, and after each record begins anew.
fn fill_with_false_records(file: &Path, from: u64, to: u64, seed: u32) {
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    let mut bytes = Vec::new();
    for (offset, number) in (from..to - 32).step_by(32).zip(0_u64..) {
        let mut header = [0; 32];
        header[3] = 7;
        // To the end, and no further; or none.
        let is_false = number % 4 < 3;
        let body = if is_false {
            (to - offset - 32).min(32 << 20)
        } else {
            0
        };
        header[4..8].copy_from_slice(&u32::try_from(body).unwrap().to_le_bytes());
        header[8..12].copy_from_slice(&u32::try_from(number).unwrap().to_le_bytes());
        header[12..16].copy_from_slice(&1_u32.to_le_bytes());
        header[16..20].copy_from_slice(&1_u32.to_le_bytes());
        seal_header(
            &mut header,
            offset,
            seed,
            if is_false { 0x1234_5678 } else { 0 },
        );
        bytes.extend(header);
    }
    file.write_all_at(&bytes, from).unwrap();
}

const FALSE_RECORDS_BYTES: u64 = 8 << 20;

#[test]
fn false_records_behind_the_last_one_are_answered_for_soon() {
    let mut wrong = Vec::new();
    for way in WAYS {
        let victim = Victim::new(false);
        let checked = checker::check(&victim.store()).unwrap();
        let (segment, last) = (
            checked.segments.last().unwrap(),
            checked.records.last().unwrap(),
        );
        let end = last.offset + last.bytes;
        let name = victim.last_segment();
        victim.set_len(&name, end + FALSE_RECORDS_BYTES + 4096);
        fill_with_false_records(
            &victim.file(&name),
            end,
            end + FALSE_RECORDS_BYTES,
            segment.seed,
        );
        wrong.extend(probe("8 MiB of false records at the end", &victim, &[way]));
    }
    assert_answered(&wrong);
}

#[test]
fn false_records_in_place_of_a_damaged_one_are_answered_for_soon() {
    let mut wrong = Vec::new();
    for way in WAYS {
        let victim = Victim::new(true);
        {
            let options = OpenOptions {
                segment_bytes_max: 64 << 20,
                ..OpenOptions::default()
            };
            let store = Store::open(victim.store(), options).unwrap();
            let long = vec![1; usize::try_from(FALSE_RECORDS_BYTES).unwrap()];
            store
                .append(stream(1), Expected::Any, &[NewRecord::data(&long)])
                .unwrap();
            store.close().unwrap();
            drop(store);
            // Sealed by a writer that has small ones.
            let options = OpenOptions {
                segment_bytes_max: 64 << 10,
                ..OpenOptions::default()
            };
            let store = Store::open(victim.store(), options).unwrap();
            store
                .append(stream(1), Expected::Any, &[NewRecord::data(&payload(1, 2))])
                .unwrap();
            store.close().unwrap();
        }
        let checked = checker::check(&victim.store()).unwrap();
        let long = checked
            .records
            .iter()
            .find(|record| record.bytes > FALSE_RECORDS_BYTES)
            .unwrap();
        let segment = checked
            .segments
            .iter()
            .find(|segment| segment.id == long.segment)
            .unwrap();
        assert!(segment.sealed);
        let file = victim.file(&format!("{:08}.seg", segment.id));
        fill_with_false_records(&file, long.offset, long.offset + long.bytes, segment.seed);
        wrong.extend(probe(
            "8 MiB of false records in a sealed segment",
            &victim,
            &[way],
        ));
    }
    assert_answered(&wrong);
}

/// A store with a pack, and the name of that.
fn packed() -> (Victim, String) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (files, name) = alike::packed(OpenOptions::default(), 5);
    let victim = Victim { folder };
    fs::create_dir(victim.store()).unwrap();
    for (name, bytes) in &files {
        fs::write(victim.file(name), bytes).unwrap();
    }
    (victim, name)
}

#[test]
fn packs_longer_than_any_are_answered_for_soon() {
    let (victim, name) = packed();
    victim.set_len(&name, TIB);
    assert_answered(&Vec::from_iter(probe("a pack of a TiB", &victim, &WAYS)));
}

#[test]
fn a_pack_whose_table_of_blocks_is_a_hole_is_answered_for_in_little_memory() {
    let (victim, name) = packed();
    // A footer that says so many blocks, and as much of nothing in front of it.
    let blocks = 66_000_000_u32;
    let table = 4096 + u64::from(blocks) * 40;
    let whole = fs::read(victim.file(&name)).unwrap();
    let mut footer = whole[whole.len() - forge::FOOTER_BYTES..].to_vec();
    forge::put(&mut footer, 24, &table.to_le_bytes());
    forge::put(&mut footer, 32, &blocks.to_le_bytes());
    forge::structure(&mut footer);
    let file = fs::OpenOptions::new().write(true).open(victim.file(&name));
    let end = table + u64::from(blocks) * 8;
    file.unwrap().write_all_at(&footer, end).unwrap();
    assert_answered(&Vec::from_iter(probe(
        "a table that is a hole",
        &victim,
        &WAYS,
    )));
}
