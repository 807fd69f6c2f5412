//! Random stores under several random damages of every kind, and repairs of them that lose their power at random
//! moments: what wasn't hit is there, nothing is invented, nothing is given twice, and nothing ever panics or hangs.

use std::{collections::BTreeMap, sync::Arc};

use runlog_engine::{ErrorKind, Repair, Store};
use runlog_tests::{
    budget::{self, Budget},
    corruption::{
        Corrupted, corrupt,
        laws::{self, Law},
        truth::Truth,
        victims::{RandomStore, random_store},
    },
    faulty::{Failure, Fault, FaultyStorage, Lasting},
    mend::{self, Readable, open_and_read, repair, verify},
    random::Random,
};

/// So many stores are damaged in the test command, and so many times each.
const STORES: u64 = 20;
const TIMES: u64 = 6;
/// A repair has more storage operations than this only when it has much to do.
const OPERATIONS: u64 = 120;

/// Each of these stores was once not mended.
const REGRESSIONS: [u64; 12] = [
    1_795_340_853_810_479_477,
    1_795_340_914_381_436_717,
    1_795_341_336_669_489_931,
    1_795_341_336_669_490_460,
    1_795_341_336_682_578_013,
    1_795_341_336_682_579_410,
    1_795_341_336_682_579_468,
    1_795_348_748_876_745_282,
    1_795_348_748_876_745_915,
    1_795_349_068_986_840_488,
    1_795_349_644_850_528_920,
    1_795_349_644_850_535_884,
];

/// Whether what is lost was placed so that every stream has what is its own.
#[derive(PartialEq)]
enum Placing {
    Right,
    Wrong,
}

struct Case {
    store: RandomStore,
    corrupted: Corrupted,
    seed: u64,
}

impl Case {
    fn of(seed: u64) -> Self {
        let store = random_store(seed / TIMES);
        let foreign = random_store(seed / TIMES + 1).files;
        let mut random = Random::new(seed);
        let count = 1 + random.below(4);
        let corrupted = corrupt(&store.files, &foreign, count, &mut random);
        Self {
            store,
            corrupted,
            seed,
        }
    }

    /// Whether its streams are as they should be, where that can be had; else that they are not.
    fn check(&self) -> Result<Placing, String> {
        let told = |error| {
            format!(
                "{}, {}: {error}",
                self.store.left,
                self.corrupted.what.join("; ")
            )
        };
        self.check_before().map_err(told)?;
        let Some((storage, done)) = self.repaired().map_err(told)? else {
            return Ok(Placing::Right);
        };
        self.check_after(&storage, &done)
            .map_err(|error| told(format!("{error}\n    {done:?}")))
    }

    /// A store that is damaged is refused by what says so, or gives what is sound.
    fn check_before(&self) -> Law {
        let storage = FaultyStorage::from_files(&self.corrupted.files);
        let truth = Truth::of(&self.store, &self.corrupted.files);
        laws::salvage_gives_what_was_not_hit(&truth, &storage)?;
        for options in [mend::options(), mend::options().read_only()] {
            match Store::open_on(Arc::new(storage.copy()), options) {
                Ok(store) => laws::nothing_is_invented(&truth, &mend::read(&store)?)?,
                Err(error) if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::NotAStore) => {
                }
                Err(error) => return Err(format!("opening tells {:?}: {error}", error.kind())),
            }
        }
        Ok(())
    }

    /// The store repaired, as its advice is followed; `None` when nothing tells which store it is.
    fn repaired(&self) -> Result<Option<(FaultyStorage, Repair)>, String> {
        let mut storage = FaultyStorage::from_files(&self.corrupted.files);
        // With as many files of another store it may be that one; and nothing tells the name of a file without a header.
        if !Truth::of(&self.store, &self.corrupted.files).is_identity_told() {
            return Ok(None);
        }
        let refused = match repair(&storage) {
            Ok(done) => return Ok(Some((storage, done))),
            Err(error) => error,
        };
        if storage.files() != with_lock(&self.corrupted.files, &storage) {
            return Err(format!("a refused repair has changed something: {refused}"));
        }
        if let Some(renamed) = renamed(&self.corrupted.files, &refused.to_string()) {
            storage = FaultyStorage::from_files(&renamed);
        } else {
            return Err(format!("repair: {refused}"));
        }
        let done = repair(&storage).map_err(|error| format!("repair of renamed files: {error}"))?;
        Ok(Some((storage, done)))
    }

    fn check_after(&self, storage: &FaultyStorage, done: &Repair) -> Result<Placing, String> {
        let named = self.named();
        let truth = Truth::of(&self.store, &named);
        laws::only_losses_are_left(&truth, &done.left)?;
        let found = open_and_read(&storage.copy())?.ok_or("it doesn't open")?;
        laws::nothing_is_invented(&truth, &found)?;
        let is_all_there = laws::what_was_not_hit_is_there(&truth, &found);
        let placing =
            match is_all_there.and_then(|()| laws::streams_hold_what_is_theirs(&truth, &found)) {
                Ok(()) => Placing::Right,
                Err(_) if truth.is_placing_unsure() => Placing::Wrong,
                Err(error) => return Err(error),
            };
        laws::salvage_gives_what_was_not_hit(&truth, storage)?;
        let again = repair(storage).map_err(|error| format!("second repair: {error}"))?;
        if !again.actions.is_empty() || !again.saved.is_empty() {
            return Err(format!(
                "a second repair finds something to do: {:?}",
                again.actions
            ));
        }
        self.check_interrupted(named.clone())?;
        let position = laws::nothing_is_given_twice(&truth, storage, &found)?;
        check_reopened(&truth, storage, &found, position)?;
        Ok(placing)
    }

    /// The files under the names that they should have.
    fn named(&self) -> BTreeMap<String, Vec<u8>> {
        let files = &self.corrupted.files;
        let refused = repair(&FaultyStorage::from_files(files)).err();
        refused
            .and_then(|error| renamed(files, &error.to_string()))
            .unwrap_or_else(|| files.clone())
    }

    /// A repair whose power goes once or twice, and is done again, comes to what an undisturbed one does.
    fn check_interrupted(&self, mut files: BTreeMap<String, Vec<u8>>) -> Law {
        let mut random = Random::new(!self.seed);
        // A loss of power leaves it without a meaning.
        files.remove("WATERMARK");
        let undisturbed = FaultyStorage::from_files(&files);
        repair(&undisturbed).map_err(|error| format!("repair without WATERMARK: {error}"))?;
        let expected =
            open_and_read(&undisturbed)?.ok_or("repaired without WATERMARK, it doesn't open")?;
        let mut storage = FaultyStorage::from_files(&files);
        let mut cuts = Vec::new();
        for _ in 0..=random.below(2) {
            let after = random.below(OPERATIONS);
            storage.arm(Fault {
                after,
                failure: Failure::PowerLoss,
                lasting: Lasting::Once,
            });
            let ended = repair(&storage);
            cuts.push(storage.hit());
            if storage.injected() == 0 {
                ended.map_err(|error| format!("the repair after {cuts:?}: {error}"))?;
                break;
            }
            storage = storage.crashed(random.next_u64());
        }
        storage.arm(None);
        repair(&storage).map_err(|error| format!("the repair after {cuts:?}: {error}"))?;
        let found = open_and_read(&storage.copy())?
            .ok_or_else(|| format!("after {cuts:?}: it doesn't open"))?;
        // What was made before the power went is no longer known to be made up, and the rest is placed anew.
        if Truth::of(&self.store, &files).is_placing_unsure() {
            return laws::nothing_is_invented(&Truth::of(&self.store, &files), &found);
        }
        laws::same_content(&found, &expected)
            .map_err(|error| format!("repaired after {cuts:?}: {error}"))
    }
}

/// Opened again, and once more without what only saves time, the store has what it had and what was appended.
fn check_reopened(truth: &Truth<'_>, storage: &FaultyStorage, before: &Readable, last: u64) -> Law {
    let found = open_and_read(&storage.copy())?.ok_or("it doesn't open again")?;
    if found.last != last {
        return Err(format!(
            "it ends with position {}, expected {last}",
            found.last
        ));
    }
    if let Some(position) = before
        .positions
        .iter()
        .find(|(at, read)| found.positions.get(at) != Some(read))
    {
        return Err(format!("reopened, it lacks {position:?}"));
    }
    let mut files = storage.files();
    files.remove("CHECKPOINT");
    let without = open_and_read(&FaultyStorage::from_files(&files))?
        .ok_or("it doesn't open without CHECKPOINT")?;
    laws::same_content(&without, &found).map_err(|error| format!("without CHECKPOINT: {error}"))?;
    laws::only_losses_are_left(truth, &verify(storage)?.problems)
        .map_err(|error| format!("after appends: {error}"))
}

/// Files with the lock that asking for a repair leaves.
fn with_lock(
    files: &BTreeMap<String, Vec<u8>>,
    storage: &FaultyStorage,
) -> BTreeMap<String, Vec<u8>> {
    let mut files = files.clone();
    files.extend(storage.files().remove_entry("LOCK"));
    files
}

/// The files as a refusal says that they are to be renamed, if it does.
fn renamed(files: &BTreeMap<String, Vec<u8>>, refusal: &str) -> Option<BTreeMap<String, Vec<u8>>> {
    let (_, rest) = refusal.split_once("files have the names of others: ")?;
    let (pairs, _) = rest.split_once("; rename them")?;
    let pairs: Vec<_> = pairs
        .split(", ")
        .filter_map(|pair| pair.split_once(" is "))
        .collect();
    let mut renamed = files.clone();
    pairs
        .iter()
        .for_each(|(from, _)| drop(renamed.remove(*from)));
    for (from, to) in pairs {
        renamed
            .entry(to.to_owned())
            .or_insert_with(|| files[from].clone());
    }
    Some(renamed)
}

/// Goes through seeds, and says of each that went wrong what did.
fn check_all(seeds: impl Iterator<Item = u64>, budget: &Budget) {
    let mut wrong = Vec::new();
    for seed in seeds {
        match Case::of(seed).check() {
            Ok(Placing::Right) => {}
            Ok(Placing::Wrong) => budget.add("placed wrong, several index blocks being lost", 1),
            Err(error) => wrong.push(format!("seed {seed}, {error}")),
        }
        budget.add("stores repaired", 1);
    }
    budget.add("failures", wrong.len() as u64);
    assert!(
        wrong.is_empty(),
        "{} went wrong; RUNLOG_REPAIR_SEED=SEED does one again:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn repair_of_anything_saves_what_was_not_hit() {
    let budget = budget::of("random repairs");
    let only = std::env::var("RUNLOG_REPAIR_SEED")
        .ok()
        .and_then(|seed| seed.parse::<u64>().ok());
    match only {
        Some(seed) => check_all(std::iter::once(seed), &budget),
        None => {
            let first = budget.seed();
            let is_wanted = |seed: &u64| seed - first < STORES * TIMES || budget.goes_on();
            check_all((first..).take_while(is_wanted), &budget);
        }
    }
}

#[test]
fn stores_that_were_once_not_mended_are() {
    check_all(
        REGRESSIONS.into_iter(),
        &budget::of("random repairs that once failed"),
    );
}
