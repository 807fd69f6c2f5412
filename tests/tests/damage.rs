//! Whatever a file holds, no read gives a record that was never appended: it gives the right one, or an error that
//! tells damage. What a crash cuts off is cut by whole batches; what was durable and is damaged is never cut in
//! silence.

use runlog_tests::{
    budget,
    damage::{Found, Left, Victim, verify, victim},
    faulty::FaultyStorage,
    forge::{self, HEADER_COPIES},
    random::Random,
};

const HEADER_BYTES: u64 = forge::HEADER_BYTES as u64;

/// All failures of many trials, the first of them told.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn add(&mut self, what: impl FnOnce() -> String, result: Result<(), String>) {
        if let Err(error) = result {
            self.0.push(format!("{}: {error}", what()));
        }
    }

    fn tell(&self) {
        let first: Vec<_> = self
            .0
            .iter()
            .take(if std::env::var_os("WRONG_ALL").is_some() {
                usize::MAX
            } else {
                20
            })
            .map(String::as_str)
            .collect();
        assert!(
            self.0.is_empty(),
            "{} went wrong:\n{}",
            self.0.len(),
            first.join("\n")
        );
    }
}

fn expect(is_right: bool, found: &Found) -> Result<(), String> {
    if is_right {
        Ok(())
    } else {
        Err(format!("{found:?}"))
    }
}

#[test]
fn undamaged_victims_are_whole() {
    for left in [Left::Closed, Left::Crashed] {
        let victim = victim(left);
        assert_eq!(victim.sealed().len(), 2);
        let storage = victim.changed("RUNLOG", |_| {});
        assert_eq!(verify(&storage), Ok(0));
        let found = victim.examine(&storage).unwrap();
        assert!(victim.is_whole(&found), "{found:?}");
    }
}

/// The last batch that ends at or before a length.
fn batches_within(borders: &[(u64, usize)], length: u64) -> usize {
    let before = borders.first().map_or(0, |(_, batches)| batches - 1);
    borders
        .iter()
        .rev()
        .find(|(end, _)| *end <= length)
        .map_or(before, |(_, batches)| *batches)
}

#[test]
fn torn_tail_is_cut_by_whole_batches_at_every_length() {
    let victim = victim(Left::Crashed);
    let borders = victim.active_borders();
    let end = borders.last().expect("batches").0;
    let mut wrong = Wrong::default();
    let budget = budget::of("damage torn tails");
    for length in (0..=end + 16).rev() {
        let place = usize::try_from(length).expect("small");
        let cut = victim.changed(victim.active(), |bytes| bytes.truncate(place));
        let zeroed = victim.changed(victim.active(), |bytes| bytes[place..].fill(0));
        let ended = batches_within(&borders, length);
        // Zeros where zeros were change nothing: a batch may end in them.
        let active = &victim.files[victim.active()];
        let zeros = active[place..]
            .iter()
            .position(|byte| *byte != 0)
            .unwrap_or(active.len() - place);
        let expected_of_zeroed = batches_within(&borders, length + zeros as u64);
        // Whole records need no more of a header than its first copy.
        let cases = [
            (cut, "cut", ended, length),
            (zeroed, "zeroed", expected_of_zeroed, length + zeros as u64),
        ];
        for (storage, how, expected, header) in cases {
            let done = victim.examine(&storage).and_then(|found| {
                let is_right = match &found {
                    Found::Refused(_) => length < HEADER_BYTES,
                    Found::Opened { batches, refused } => {
                        header >= HEADER_BYTES && *refused == 0 && *batches == expected
                    }
                };
                expect(is_right, &found)
            });
            // What is there now is all there is: it opens again, and is the same.
            let again = done.and_then(|()| match victim.examine(&storage)? {
                Found::Opened { batches, .. } if batches != expected => {
                    Err(format!("then {batches} batches"))
                }
                _ => Ok(()),
            });
            wrong.add(|| format!("{how} to {length}"), again);
            budget.add("torn tails", 1);
        }
    }
    wrong.tell();
}

/// The end marker alone tells that what was acknowledged and closed is gone, without a checkpoint and whatever the
/// records themselves prove.
#[test]
fn tail_of_a_closed_store_is_never_cut_in_silence() {
    let mut victim = victim(Left::Closed);
    victim.files.remove("CHECKPOINT");
    victim.files.remove("WATERMARK");
    let found = victim.examine(&victim.changed("END", |_| {})).unwrap();
    assert!(victim.is_whole(&found), "{found:?}");
    let end = victim.active_borders().last().expect("batches").0;
    let active = victim.active().to_owned();
    let mut wrong = Wrong::default();
    for length in (0..end).rev().step_by(3) {
        let place = usize::try_from(length).expect("small");
        let cut = victim.changed(&active, |bytes| bytes.truncate(place));
        let zeroed = victim.changed(&active, |bytes| bytes[place..].fill(0));
        for (storage, how) in [(cut, "cut"), (zeroed, "zeroed")] {
            let is_changed = storage.files()[&active] != victim.files[&active];
            let told = verify(&storage);
            let done = victim.examine(&storage).and_then(|found| {
                let is_right = matches!(found, Found::Refused(_)) || victim.is_whole(&found);
                expect(is_right, &found)?;
                if told? > 0 || victim.is_whole(&found) {
                    Ok(())
                } else {
                    Err("verify is silent".to_owned())
                }
            });
            let reader = victim.examine_as_reader(&storage);
            wrong.add(
                || format!("{how} to {length}, changed {is_changed}"),
                done.and(reader),
            );
        }
    }
    wrong.tell();
}

/// Files that were put back from an older copy are older than the end marker.
#[test]
fn older_copy_of_the_last_segment_is_told() {
    let victim = victim(Left::Closed);
    let mut wrong = Wrong::default();
    for (end, batches) in victim.active_borders().into_iter().rev().skip(1) {
        let mut files = victim.files.clone();
        files.remove("CHECKPOINT");
        files.remove("WATERMARK");
        let bytes = files.get_mut(victim.active()).expect("it has the file");
        bytes[usize::try_from(end).expect("small")..].fill(0);
        let found = victim.examine(&FaultyStorage::from_files(&files));
        let done = found.and_then(|found| expect(matches!(found, Found::Refused(_)), &found));
        wrong.add(|| format!("{batches} batches"), done);
    }
    wrong.tell();
}

#[test]
fn sealed_segment_cut_at_any_length_is_told_or_the_same() {
    let mut wrong = Wrong::default();
    let budget = budget::of("damage sealed lengths");
    for left in [Left::Closed, Left::Crashed] {
        let victim = victim(left);
        for name in victim.sealed() {
            for length in 0..victim.files[name].len() {
                let storage = victim.changed(name, |bytes| bytes.truncate(length));
                let told = verify(&storage);
                let done = victim.examine(&storage).and_then(|found| {
                    let is_told = matches!(
                        found,
                        Found::Refused(_) | Found::Opened { refused: 1.., .. }
                    );
                    expect(is_told || victim.is_whole(&found), &found)?;
                    if told? > 0 {
                        Ok(())
                    } else {
                        Err(format!("verify is silent, {found:?}"))
                    }
                });
                wrong.add(|| format!("{left:?}, {name} cut to {length}"), done);
                budget.add("lengths of sealed segments", 1);
            }
        }
    }
    wrong.tell();
}

/// How many batches must still be there after a flip in the active segment of a store that was left by a crash; `None`
/// if the flip must be told. Every batch there was acknowledged as durable, and each that follows proves the ones before:
/// only the last can look as if a crash had cut it off.
fn floor_of_flip(borders: &[(u64, usize)], offset: u64) -> Option<usize> {
    let hit = borders.iter().position(|(end, _)| offset < *end)?;
    (hit + 1 == borders.len()).then(|| borders[hit].1 - 1)
}

/// Each byte of each file with one bit flipped, or each bit when tortured.
fn flip_every_byte(left: Left, part: usize, parts: usize) {
    let victim = victim(left);
    let borders = victim.active_borders();
    let budget = budget::of(&format!("damage flips {left:?} {part}"));
    let mut random = Random::new(budget.seed());
    let mut wrong = Wrong::default();
    for (name, bytes) in &victim.files {
        for place in (part..bytes.len()).step_by(parts) {
            let one = random.below(8);
            for bit in (0..8).filter(|bit| budget::is_torture() || *bit == one) {
                let storage = victim.changed(name, |bytes| bytes[place] ^= 1 << bit);
                let told = verify(&storage);
                let reader = if place % 8 == 0 {
                    victim.examine_as_reader(&storage)
                } else {
                    Ok(())
                };
                let done = reader.and_then(|()| victim.examine(&storage));
                let done = done.and_then(|found| {
                    let is_told = matches!(
                        found,
                        Found::Refused(_) | Found::Opened { refused: 1.., .. }
                    );
                    if is_told || victim.is_whole(&found) {
                        return match told? {
                            0 if must_be_told(&victim, name, place as u64, &borders) => {
                                Err(format!("verify is silent, {found:?}"))
                            }
                            _ => Ok(()),
                        };
                    }
                    let floor = (left == Left::Crashed && name == victim.active())
                        .then(|| floor_of_flip(&borders, place as u64))
                        .flatten();
                    let is_allowed = matches!(
                        (floor, &found),
                        (Some(floor), Found::Opened { batches, refused: 0 }) if *batches == floor
                    );
                    expect(is_allowed, &found)
                });
                wrong.add(
                    || format!("{left:?}, {name}, bit {bit} of byte {place}"),
                    done,
                );
                budget.add("bits flipped", 1);
            }
        }
    }
    wrong.tell();
}

/// Records, index blocks, trailers and the identity; not free space, not what may be missing, and not a copy of a header
/// of which there are two.
fn must_be_told(victim: &Victim, name: &str, offset: u64, borders: &[(u64, usize)]) -> bool {
    let begin = forge::RECORDS_BEGIN as u64;
    let end = borders.last().map_or(begin, |(end, _)| *end);
    let is_of_log = victim.sealed().contains(&name) || (name == victim.active() && offset < end);
    name == "RUNLOG" || is_of_log && offset >= begin
}

/// Nothing is lost with them yet, but what they are there for: an end that can't be read proves nothing, and a header
/// of which one copy is left is lost with the next byte.
#[test]
fn damaged_end_and_damaged_copy_of_a_header_are_told_by_verify() {
    let victim = victim(Left::Closed);
    let mut wrong = Wrong::default();
    let segments = victim.files.keys().filter(|name| name.ends_with(".seg"));
    let copies = segments.flat_map(|name| HEADER_COPIES.map(|start| (name.clone(), start)));
    for (name, start) in copies.chain([("END".to_owned(), 0)]) {
        for place in (start..start + 128).step_by(7) {
            let told = verify(&victim.changed(&name, |bytes| bytes[place] ^= 1));
            let done = told.and_then(|told| {
                if told > 0 {
                    Ok(())
                } else {
                    Err("verify is silent".to_owned())
                }
            });
            wrong.add(|| format!("{name}, byte {place}"), done);
        }
    }
    wrong.tell();
}

#[test]
fn flipped_bit_of_a_closed_store_is_told_or_harmless() {
    flip_every_byte(Left::Closed, 0, 2);
}

#[test]
fn flipped_bit_of_a_closed_store_is_told_or_harmless_too() {
    flip_every_byte(Left::Closed, 1, 2);
}

#[test]
fn flipped_bit_after_a_crash_is_told_harmless_or_in_what_nothing_proves_durable() {
    flip_every_byte(Left::Crashed, 0, 1);
}
