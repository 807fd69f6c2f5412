//! A repair makes every store open again, whatever one damage hit; everything that wasn't hit is readable then, and by
//! salvage even before; no position is given out again; and a crash during a repair is a crash like any other.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use runlog_engine::{ErrorKind, Expected, Kind, OpenOptions, Store, StreamId, storage::Storage};
use runlog_tests::{
    budget, checker,
    damage::{Left, Victim, victim},
    driver::{Driver, Leave, Place},
    faulty::{Call, Failure, Fault, FaultyStorage, Lasting},
    host::TestHost,
    mend::{
        self, Case, Readable, StreamRead, append, cases, open_and_read, repair, salvage, verify,
    },
    model::{Item, Step, Work},
    random::Random,
    script::stream,
};

fn tell(wrong: &[String]) {
    let first: Vec<_> = wrong.iter().take(20).map(String::as_str).collect();
    assert!(
        wrong.is_empty(),
        "{} went wrong:\n{}",
        wrong.len(),
        first.join("\n")
    );
}

/// The positions of data records that living streams hold.
fn in_streams(victim: &Victim) -> BTreeSet<u64> {
    let living = victim
        .whole()
        .streams
        .iter()
        .filter(|stream| !stream.deleted);
    living
        .flat_map(|stream| stream.positions.iter().copied())
        .collect()
}

/// That everything but what was hit reads as it was.
fn check_readable(
    victim: &Victim,
    whole: &Readable,
    case: &Case,
    found: &Readable,
) -> Result<(), String> {
    for (position, expected) in &whole.positions {
        match found.positions.get(position) {
            Some(read) if read == expected || case.hit.contains(position) => {}
            // Its redaction is lost, or what it redacts.
            Some(_) if !case.is_known => {}
            Some(read) => {
                return Err(format!(
                    "position {position} reads as {read:?}, expected {expected:?}"
                ));
            }
            None if case.hit.contains(position) => {}
            None => return Err(format!("position {position} can't be read")),
        }
        if !found.in_scan.contains(position) && !case.hit.contains(position) {
            return Err(format!("the scan leaves out position {position}"));
        }
    }
    let expected = in_streams(victim);
    // What only a fork shared is in no stream when nothing tells any more what was forked; it still reads by position.
    let is_fork = |position: &u64| {
        whole
            .positions
            .get(position)
            .is_some_and(|read| read.kind == Kind::FORK.0)
    };
    let is_fork_lost = !case.is_known && case.hit.iter().any(is_fork);
    let missing: Vec<_> = expected
        .difference(&found.in_streams)
        .filter(|position| {
            !(case.hit.contains(position) || is_fork_lost && found.positions.contains_key(position))
        })
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(format!("positions {missing:?} are in no stream"))
    }
}

fn check_case(victim: &Victim, whole: &Readable, case: &Case) -> Result<(usize, usize), String> {
    let last = victim.whole().last_position();
    let before = open_and_read(&FaultyStorage::from_files(&case.files))?;
    let (salvaged, _) = salvage(&case.files)?;
    let missing: Vec<_> = (1..=last)
        .filter(|position| !salvaged.contains(position) && !case.hit.contains(position))
        .collect();
    let is_position_lost =
        case.what.contains("start zeroed") || case.what.contains("start and end zeroed");
    if !missing.is_empty() && !is_position_lost {
        return Err(format!("salvage leaves out {missing:?}"));
    }
    let storage = FaultyStorage::from_files(&case.files);
    let done = repair(&storage).map_err(|error| format!("repair: {error}"))?;
    let told = format!("{done:?}");
    if done.left.iter().any(|problem| !problem.is_loss) {
        return Err(format!("left: {told}"));
    }
    let verified = verify(&storage)?;
    if verified.lost != case.hit.len() as u64 && !case.what.contains("higher position") {
        return Err(format!(
            "{} lost, expected {}: {told}",
            verified.lost,
            case.hit.len()
        ));
    }
    let after = storage.files();
    // The independent checker takes it, too, but for damage that stays where it is.
    if let Err(problem) = checker::check_files(&after, None)
        && (done.actions.is_empty() && done.left.is_empty()
            || !done.actions.is_empty() && !case.what.contains("flipped"))
    {
        return Err(format!("checker: {problem}: {told}"));
    }
    let found =
        open_and_read(&storage.copy())?.ok_or_else(|| format!("it doesn't open: {told}"))?;
    check_readable(victim, whole, case, &found).map_err(|error| format!("{error}: {told}"))?;
    let before_count = before.as_ref().map_or(0, |before| before.positions.len());
    if let Some(lost) = before.and_then(|before| {
        before
            .positions
            .keys()
            .find(|at| !found.positions.contains_key(at))
            .copied()
    }) {
        return Err(format!("position {lost} could be read before: {told}"));
    }
    let again = repair(&storage).map_err(|error| format!("second repair: {error}"))?;
    if !again.actions.is_empty() || !again.saved.is_empty() {
        return Err(format!(
            "a second repair finds something to do: {again:?} after {told}"
        ));
    }
    let position = append(&storage)?;
    if position <= last {
        return Err(format!("position {position} is given out again: {told}"));
    }
    let verified = verify(&storage)?;
    if verified.problems.iter().any(|problem| !problem.is_loss) {
        return Err(format!("after an append: {:?}", verified.problems));
    }
    let (salvaged, _) = salvage(&storage.files())?;
    match (1..=last).find(|position| !salvaged.contains(position) && !case.hit.contains(position)) {
        Some(position) => Err(format!(
            "salvage after the repair leaves out {position}: {told}"
        )),
        None => Ok((before_count, found.positions.len())),
    }
}

fn check_all(left: Left) {
    let victim = victim(left);
    let whole = open_and_read(&FaultyStorage::from_files(&victim.files))
        .unwrap()
        .expect("it opens");
    let budget = budget::of(&format!("repair {left:?}"));
    let mut wrong = Vec::new();
    for case in cases(&victim) {
        match check_case(&victim, &whole, &case) {
            Ok((before, after)) => {
                println!(
                    "{left:?}, {}: {before} of {} readable before, {after} after",
                    case.what,
                    whole.positions.len()
                );
            }
            Err(error) => wrong.push(format!("{left:?}, {}: {error}", case.what)),
        }
        budget.add("stores repaired", 1);
    }
    tell(&wrong);
}

#[test]
fn everything_but_what_was_hit_is_readable_after_a_repair_of_a_closed_store() {
    check_all(Left::Closed);
}

#[test]
fn everything_but_what_was_hit_is_readable_after_a_repair_of_a_crashed_store() {
    check_all(Left::Crashed);
}

/// What several damages hit, at once: each is a loss of its own, and none hides another's.
#[test]
fn several_records_that_are_hit_are_the_only_ones_lost() {
    for left in [Left::Closed, Left::Crashed] {
        let victim = victim(left);
        let whole = open_and_read(&FaultyStorage::from_files(&victim.files))
            .unwrap()
            .expect("it opens");
        let records: Vec<_> = cases(&victim)
            .into_iter()
            .filter(|case| case.what.starts_with("record "))
            .collect();
        let is_data = |case: &Case| {
            let kind = case
                .hit
                .iter()
                .next()
                .and_then(|position| whole.positions.get(position))
                .map(|read| read.kind);
            kind.is_some_and(|kind| Kind(kind).is_data())
        };
        let records: Vec<_> = records.into_iter().filter(is_data).collect();
        let budget = budget::of(&format!("repair of several {left:?}"));
        let mut wrong = Vec::new();
        let first = budget.seed();
        for seed in first.. {
            if seed - first >= 60 && !budget.goes_on() {
                break;
            }
            let mut random = Random::new(seed);
            let mut case = Case {
                what: String::new(),
                files: victim.files.clone(),
                hit: BTreeSet::new(),
                is_known: false,
            };
            for _ in 0..2 + random.below(3) {
                let one = &records[usize::try_from(random.below(records.len() as u64)).unwrap()];
                case.what += &format!("{}; ", one.what);
                case.hit.extend(&one.hit);
                for (name, bytes) in &one.files {
                    let (whole, files) = (&victim.files[name], case.files.get_mut(name).unwrap());
                    for (at, byte) in bytes
                        .iter()
                        .enumerate()
                        .filter(|(at, byte)| whole[*at] != **byte)
                    {
                        files[at] = *byte;
                    }
                }
            }
            if random.below(2) == 0 {
                case.what += "CHECKPOINT removed";
                case.files.remove("CHECKPOINT");
            }
            if let Err(error) = check_case(&victim, &whole, &case) {
                wrong.push(format!("{left:?}, seed {seed}, {}: {error}", case.what));
            }
            budget.add("stores repaired", 1);
        }
        tell(&wrong);
    }
}

/// One damage of each kind, not each at every place.
fn some_cases(victim: &Victim) -> Vec<Case> {
    let mut seen = BTreeSet::new();
    let kind = |what: &str| {
        what.chars()
            .filter(|c| !c.is_ascii_digit())
            .collect::<String>()
    };
    let mut cases = cases(victim);
    cases.reverse();
    cases.retain(|case| seen.insert(kind(&case.what)));
    cases
}

/// What a repair that nothing disturbed saves.
struct Saved {
    found: Readable,
    cuts: Vec<Vec<u8>>,
}

fn saved(storage: &FaultyStorage) -> Result<Saved, String> {
    let found = open_and_read(&storage.copy())?.ok_or("it doesn't open")?;
    let cuts = storage
        .files()
        .into_iter()
        .filter(|(name, _)| name.starts_with("cut-"))
        .map(|(_, bytes)| bytes)
        .collect();
    Ok(Saved { found, cuts })
}

/// In what two of them differ, for people.
fn difference(found: &Readable, expected: &Readable) -> String {
    let (positions, others) = (&found.positions, &expected.positions);
    let lacks: Vec<_> = others
        .keys()
        .filter(|position| !positions.contains_key(position))
        .collect();
    let more: Vec<_> = positions
        .keys()
        .filter(|position| !others.contains_key(position))
        .collect();
    let other: Vec<_> = positions
        .iter()
        .filter(|(at, read)| others.get(at).is_some_and(|other| other != *read))
        .collect();
    let (lost, found) = (
        expected.in_streams.difference(&found.in_streams),
        found.in_streams.difference(&expected.in_streams),
    );
    let (lost, found): (Vec<_>, Vec<_>) = (lost.collect(), found.collect());
    format!(
        "lacks {lacks:?}, has {more:?} more, other {other:?}, streams lack {lost:?}, have {found:?} more"
    )
}

/// A repair ended somewhere. If the store opens, all is there that a whole repair saves; and the next repair comes to that.
fn check_after(storage: &FaultyStorage, expected: &Saved, is_repaired: bool) -> Result<(), String> {
    if let Some(found) = open_and_read(&storage.copy())?
        && is_repaired
        && (found.positions != expected.found.positions
            || found.in_streams != expected.found.in_streams)
    {
        return Err(format!(
            "it opens with other than a whole repair saves: {}",
            difference(&found, &expected.found)
        ));
    }
    let done = repair(storage).map_err(|error| format!("the next repair: {error}"))?;
    if done.left.iter().any(|problem| !problem.is_loss) {
        return Err(format!("the next repair leaves {:?}", done.left));
    }
    let found = saved(storage)?;
    if found.found.positions != expected.found.positions
        || found.found.in_streams != expected.found.in_streams
    {
        let difference = difference(&found.found, &expected.found);
        return Err(format!(
            "the next repair saves something else: {difference}: {done:?}"
        ));
    }
    // Positions may only be skipped further.
    if found.found.last < expected.found.last {
        return Err(format!(
            "it goes on behind {}, expected {}",
            found.found.last, expected.found.last
        ));
    }
    match expected.cuts.iter().find(|cut| !found.cuts.contains(cut)) {
        Some(cut) => Err(format!("{} bytes that were cut are not saved", cut.len())),
        None => Ok(()),
    }
}

fn sweep(left: Left, failure: Failure) {
    let victim = victim(left);
    let budget = budget::of(&format!("repair {failure:?} {left:?}"));
    let mut wrong = Vec::new();
    let mut cases = some_cases(&victim);
    // A torture may not get to the end: each begins with another case.
    let first = usize::try_from(budget.seed() % cases.len() as u64).unwrap();
    cases.rotate_left(first);
    for case in cases {
        if budget.is_used_up() {
            break;
        }
        let sound = FaultyStorage::from_files(&case.files);
        repair(&sound).unwrap();
        let expected = saved(&sound).unwrap();
        let was_refused = open_and_read(&FaultyStorage::from_files(&case.files))
            .unwrap()
            .is_none();
        let mut check = |storage: &FaultyStorage, how: &str| {
            if let Err(error) = check_after(storage, &expected, was_refused) {
                wrong.push(format!(
                    "{left:?}, {}, {failure:?} {how}: {error}",
                    case.what
                ));
            }
            budget.add("repairs cut off", 1);
        };
        // Before the first change, an error is an error, and a loss of power leaves what was there.
        let mut has_changed = false;
        for after in 0.. {
            if budget.is_used_up() {
                break;
            }
            let storage = FaultyStorage::from_files(&case.files);
            storage.arm(Fault {
                after,
                failure,
                lasting: Lasting::Once,
            });
            let ended = repair(&storage);
            let (injected, hit) = (storage.injected(), storage.hit());
            storage.arm(None);
            let Some(hit) = hit.filter(|_| injected > 0) else {
                break;
            };
            let changes = changes(hit.call);
            // A read ahead that failed is read again, shorter: then it is a whole repair.
            if !has_changed && !changes && ended.is_ok() && hit.call == Call::ReadAt {
                check(&storage, &format!("at {after}, {hit:?}"));
                continue;
            }
            if !has_changed && !changes {
                let is_same = storage.files() == case.files;
                assert!(
                    is_same,
                    "{left:?}, {}, {failure:?} at {after}, {hit:?}: {ended:?}",
                    case.what
                );
                assert!(
                    ended.is_err(),
                    "{left:?}, {}, {hit:?}: {ended:?}",
                    case.what
                );
                continue;
            }
            has_changed = true;
            if !changes && !budget::is_torture() {
                continue;
            }
            let how = format!("at {after}, {hit:?}");
            if failure == Failure::PowerLoss {
                for seed in 0..if budget::is_torture() { 40 } else { 2 } {
                    check(
                        &storage.crashed(after * 100 + seed),
                        &format!("{how}, crash {seed}"),
                    );
                }
                continue;
            }
            storage.kill();
            check(&storage, &format!("{how}, killed"));
            // And the power goes, before anything else is flushed.
            check(
                &storage.crashed(after),
                &format!("{how}, killed, and a loss of power"),
            );
        }
    }
    tell(&wrong);
}

/// Whether an operation can change what is there, or make it durable.
fn changes(call: Call) -> bool {
    !matches!(
        call,
        Call::Open | Call::List | Call::ReadAt | Call::Len | Call::Lock
    )
}

#[test]
fn loss_of_power_during_a_repair_of_a_closed_store_loses_nothing_more() {
    sweep(Left::Closed, Failure::PowerLoss);
}

#[test]
fn loss_of_power_during_a_repair_of_a_crashed_store_loses_nothing_more() {
    sweep(Left::Crashed, Failure::PowerLoss);
}

#[test]
fn failed_operation_during_a_repair_loses_nothing_more() {
    sweep(Left::Closed, Failure::Io);
    sweep(Left::Crashed, Failure::Io);
}

#[test]
fn full_device_during_a_repair_loses_nothing_more() {
    sweep(Left::Closed, Failure::Full);
}

/// One read that fails says nothing about what is there.
#[test]
fn read_error_that_passes_changes_nothing() {
    for left in [Left::Closed, Left::Crashed] {
        let victim = victim(left);
        for after in 0.. {
            let storage = FaultyStorage::from_files(&victim.files);
            storage.arm(Fault {
                after,
                failure: Failure::Io,
                lasting: Lasting::Once,
            });
            let ended = repair(&storage);
            let (injected, hit) = (storage.injected(), storage.hit());
            storage.arm(None);
            if injected == 0 {
                break;
            }
            if let Ok(done) = ended {
                assert!(done.actions.is_empty(), "{left:?}, {hit:?}: {done:?}");
            }
            assert_eq!(storage.files(), victim.files, "{left:?}, {hit:?}");
        }
    }
}

#[test]
fn repair_of_a_sound_store_changes_nothing() {
    for left in [Left::Closed, Left::Crashed] {
        let victim = victim(left);
        let storage = FaultyStorage::from_files(&victim.files);
        assert_eq!(repair(&storage).unwrap(), runlog_engine::Repair::default());
        assert_eq!(storage.files(), victim.files);
    }
}

/// Whoever has the store keeps a repair out, though a person took the lock file for a stale one.
#[test]
fn repair_is_refused_beside_a_writer_whose_lock_file_was_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), mend::options()).unwrap();
    let stream = stream(1);
    let record = [runlog_engine::NewRecord::data(b"acknowledged")];
    store.append(stream, Expected::Any, &record).unwrap();
    std::fs::remove_file(folder.path().join("LOCK")).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(runlog_engine::storage::FsStorage::new(folder.path()));
    let refused = runlog_engine::repair(&storage, "a person", &TestHost::new(1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    store.append(stream, Expected::Any, &record).unwrap();
    store.close().unwrap();
    assert!(runlog_engine::verify(&*storage).unwrap().is_sound());
}

/// What a repair has put aside can be read back.
#[test]
fn salvage_reads_what_a_repair_has_put_aside() {
    let victim = victim(Left::Closed);
    let mut files = victim.files.clone();
    // Another history of the second segment: the third doesn't follow it.
    let second = files.get_mut("00000002.seg").unwrap();
    second[56] ^= 1;
    runlog_tests::forge::header(second);
    let seed = runlog_tests::forge::seed(second);
    let checked = checker::check_files(&victim.files, None).unwrap();
    let of_second = || {
        checked
            .records
            .iter()
            .chain(&checked.marks)
            .filter(|record| record.segment == 2)
    };
    for record in of_second() {
        runlog_tests::forge::record(second, usize::try_from(record.offset).unwrap(), seed);
    }
    let storage = FaultyStorage::from_files(&files);
    let done = repair(&storage).unwrap();
    assert_eq!(done.saved, ["cut-00000002-0.bin"], "{done:?}");
    let mut put_aside = 0;
    runlog_engine::salvage(&storage, &mut |record| {
        put_aside += u64::from(record.is_cut);
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(
        put_aside,
        of_second().filter(|record| record.has_position()).count() as u64
    );
}

#[test]
fn salvage_gives_every_record_with_all_it_says() {
    let victim = victim(Left::Closed);
    let checked = checker::check_files(&victim.files, None).unwrap();
    let mut files = victim.files.clone();
    // Nothing but the segments.
    files.retain(|name, _| name.ends_with(".seg"));
    let mut expected = checked.records.iter();
    let summary = runlog_engine::salvage(&FaultyStorage::from_files(&files), &mut |found| {
        let record = expected.next().expect("no more than there are");
        let stream = StreamId::from_bytes(checked.meaning.streams[record.stream as usize - 1].id);
        assert_eq!(found.position.unwrap().0, record.position);
        assert_eq!(
            (found.segment.0, found.offset, found.stream),
            (record.segment, record.offset, Some(stream))
        );
        assert_eq!(
            (found.kind.0, found.sequence.0),
            (record.kind, u64::from(record.sequence))
        );
        assert_eq!(
            (found.time_ms, found.epoch),
            (Some(record.time_ms), Some(1))
        );
        assert_eq!(
            found.redacted,
            checked.meaning.redacted.contains(&record.position)
        );
        if !found.redacted {
            assert_eq!(
                (&found.meta[..], &found.payload[..]),
                (&record.meta[..], &record.payload[..])
            );
        }
        assert_eq!(&found.key[..], record.key.as_deref().unwrap_or_default());
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    assert!(expected.next().is_none());
    assert_eq!(
        (summary.files, summary.unnamed, summary.notes.len()),
        (3, 0, 0),
        "{summary:?}"
    );
}

/// A segment that is far longer than one can be takes no time and no memory.
#[test]
fn overlong_file_is_repaired_and_salvaged_without_reading_it() {
    for name in ["00000002.seg", "00000003.seg"] {
        let victim = victim(Left::Closed);
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in &victim.files {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(folder.path().join(name))
            .unwrap();
        file.set_len(1 << 42).unwrap();
        let storage: Arc<dyn Storage> =
            Arc::new(runlog_engine::storage::FsStorage::new(folder.path()));
        let (mut records, whole) = (0, victim.whole().last_position());
        let mut count = |_| {
            records += 1;
            std::ops::ControlFlow::Continue(())
        };
        runlog_engine::salvage(&*storage, &mut count).unwrap();
        assert_eq!(records, whole);
        assert!(!runlog_engine::verify(&*storage).unwrap().is_sound());
        let done = runlog_engine::repair(&storage, "a person", &TestHost::new(1)).unwrap();
        assert!(done.left.is_empty(), "{done:?}");
        let store = Store::open(folder.path(), mend::options()).unwrap();
        assert_eq!(mend::read(&store).unwrap().positions.len() as u64, whole);
    }
}

/// Segments end when so much time has passed.
const PASS_MS: u64 = 60 * 24 * 3_600_000;

fn item(kind: u8) -> Item {
    Item {
        kind,
        labels: Vec::new(),
        meta: Bytes::new(),
        payload: Bytes::from_static(b"x"),
    }
}

fn give(stream: StreamId, count: usize) -> Step {
    Step::Append {
        stream,
        expected: Expected::Any,
        records: vec![item(0); count],
    }
}

fn save(stream: StreamId, sequence: u64) -> Step {
    Step::Snapshot {
        stream,
        expected: Expected::Any,
        sequence,
        state: item(129),
    }
}

/// Does the steps, each list in a segment of its own, and loses the first segment with all that could tell what was in it. What is
/// in the others has the sequences it had once that is repaired, and nothing contradicts it.
fn check_without_first_segment(segments: [Vec<Step>; 3]) {
    let storage = FaultyStorage::new();
    let host = TestHost::new(1);
    let options = OpenOptions {
        segment_bytes_max: 64 << 10,
        ..OpenOptions::default()
    };
    let mut driver = Driver::new(Place::Faulty(storage.clone()), host.clone(), options).unwrap();
    let mut ends = Vec::new();
    for steps in segments {
        steps
            .into_iter()
            .try_for_each(|step| driver.commit(&Work::one(step)))
            .unwrap();
        ends.push(driver.model.last_position());
        host.pass_ms(PASS_MS);
    }
    driver.leave(Leave::Kill).unwrap();
    let mut files = storage.files();
    files.remove("00000001.seg").unwrap();
    files.remove("CHECKPOINT");
    assert!(files.contains_key("00000003.seg"), "{:?}", files.keys());
    let storage = FaultyStorage::from_files(&files);
    let done = repair(&storage).unwrap();
    assert!(done.left.iter().all(|problem| problem.is_loss), "{done:?}");
    let found = open_and_read(&storage).unwrap().unwrap();
    for (position, entry) in (1_u64..)
        .zip(&driver.model.log)
        .filter(|(at, entry)| *at > ends[0] && entry.kind < 128)
    {
        // Where nothing tells its id, its stream has another.
        let has = |stream: &StreamRead| stream.positions.get(&entry.sequence) == Some(&position);
        assert!(
            found.streams.values().any(has),
            "position {position}: {:?}, {done:?}",
            found.streams
        );
    }
}

#[test]
fn fork_that_is_lost_is_one_though_its_empty_state_was_saved_before_its_first_record() {
    let fork = Step::Fork {
        parent: stream(1),
        expected: Expected::Any,
        at: 2,
        child: stream(2),
    };
    check_without_first_segment([
        vec![give(stream(1), 3), fork],
        vec![save(stream(2), 0), give(stream(2), 1)],
        vec![give(stream(1), 1)],
    ]);
}

#[test]
fn stream_of_which_a_state_was_saved_behind_its_lost_records_is_no_fork() {
    check_without_first_segment([
        vec![give(stream(1), 1), give(stream(2), 1)],
        vec![save(stream(2), 1), give(stream(1), 1)],
        vec![give(stream(2), 1)],
    ]);
}
