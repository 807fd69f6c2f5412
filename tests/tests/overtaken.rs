//! Readings that are under way while a writer appends, truncates, forks, deletes, redacts and compacts, in a process that keeps no
//! file open: each gives what there was when it began, or says that a record was given up after it was truncated or deleted.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::BTreeSet,
    ops::{ControlFlow, Range},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use runlog_engine::{
    Batch, CompactOptions, CompactScope, Expected, NewRecord, Op, ReadOptions, Sequence, Store,
    clear_caches, salvage,
    storage::{MemoryStorage, Storage},
    verify, verify_with,
};
use runlog_tests::{
    answers, budget,
    forgetful::Forgetful,
    overtaken::{Question, Reading, World, options},
    processes,
    random::Random,
};

type Shared = Arc<Mutex<World>>;
/// Is told of every change in the middle of something.
type Note = Arc<dyn Fn(&World) + Send + Sync>;

/// A read-only process, or the writer's own.
struct Place {
    /// None for the writer's own.
    storage: Option<Forgetful>,
    store: Option<Store>,
    readings: Vec<Reading>,
}

impl Place {
    fn elsewhere(world: &World) -> Self {
        let storage = world.storage.that_forgets();
        let store = Store::open_on(Arc::new(storage.clone()), options().read_only()).unwrap();
        Self {
            storage: Some(storage),
            store: Some(store),
            readings: Vec::new(),
        }
    }

    fn here() -> Self {
        Self {
            storage: None,
            store: None,
            readings: Vec::new(),
        }
    }

    fn store(&self, world: &Shared) -> Store {
        match &self.store {
            Some(store) => store.clone(),
            None => world.lock().unwrap().store.clone(),
        }
    }

    /// Lets the writer go on in the middle of what this process does next. In the writer's own, nothing is in the middle.
    fn disturb(&self, world: &Shared, random: &mut Random, note: &Note) {
        let Some(storage) = &self.storage else { return };
        for _ in 0..random.below(4) {
            let (world, note) = (world.clone(), note.clone());
            let steps = random.below(4);
            let compacts = !random.one_in(4);
            let event = move || {
                let mut world = world.lock().unwrap();
                for _ in 0..steps {
                    world.step();
                    note(&world);
                }
                if compacts {
                    world.compact();
                    note(&world);
                }
            };
            storage.after(random.below(12), event);
        }
    }

    fn calm(&self) {
        if let Some(storage) = &self.storage {
            storage.calm();
        }
    }

    /// Begins a reading of what there is at one moment.
    fn begin(&mut self, world: &Shared, random: &mut Random) -> Result<(), String> {
        let store = self.store(world);
        let nothing: Note = Arc::new(|_| {});
        self.disturb(world, random, &nothing);
        let now = store.as_of_now();
        self.calm();
        let now = now.map_err(|error| format!("looking for what is new: {error}"))?;
        let last = now.last_position().map_err(|error| error.to_string())?.0;
        let world = world.lock().unwrap();
        let Some(state) = world.states.get(&last) else {
            return Err(format!("it sees {last} as the last position"));
        };
        match Reading::begin(&now, state, &world, random) {
            Ok(reading) => self.readings.extend(reading),
            Err(error) => return Err(format!("beginning: {error}")),
        }
        Ok(())
    }

    /// Goes on with a reading by some records.
    fn advance(&mut self, world: &Shared, random: &mut Random, most: u64) -> Result<u64, String> {
        if self.readings.is_empty() {
            return Ok(0);
        }
        let place = random.place(self.readings.len());
        let nothing: Note = Arc::new(|_| {});
        let mut given = 0;
        let count = random.below(most);
        for _ in 0..count {
            let seen = *world.lock().unwrap().states.keys().next_back().unwrap();
            if random.one_in(16) {
                clear_caches();
                self.disturb(world, random, &nothing);
            }
            let next = self.readings[place].go_on();
            self.calm();
            let reading = &mut self.readings[place];
            reading.take(next.as_ref(), seen, &world.lock().unwrap())?;
            if reading.is_over {
                if matches!(next, Some(Err(_))) && self.readings[place].go_on().is_some() {
                    return Err("it goes on after an error".to_owned());
                }
                self.readings.swap_remove(place);
                break;
            }
            if next.is_none() {
                break;
            }
            given += 1;
        }
        Ok(given)
    }

    /// Asks something while the writer goes on.
    fn ask(&self, world: &Shared, random: &mut Random) -> Result<(), String> {
        let (question, right) = {
            let world = world.lock().unwrap();
            let last = *world.states.keys().next_back().unwrap();
            let question = Question::any(&world.now, last, random);
            let right = question.right(&world);
            (question, Arc::new(Mutex::new(vec![right])))
        };
        let note: Note = {
            let (question, right) = (question.clone(), right.clone());
            Arc::new(move |world| right.lock().unwrap().push(question.right(world)))
        };
        let store = self.store(world);
        if random.one_in(2) {
            clear_caches();
        }
        if !question.is_of_many() {
            self.disturb(world, random, &note);
        }
        let storage = match &self.storage {
            Some(storage) => storage.clone(),
            None => world.lock().unwrap().storage.clone(),
        };
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let answer = question.ask(&store, &storage);
        self.calm();
        let right = right.lock().unwrap();
        if right.contains(&answer) || question.allows(&answer, &world.lock().unwrap()) {
            return Ok(());
        }
        let why = difference(&answer, &right[right.len() - 1]);
        Err(format!("{question:?}, of {}: {why}", right.len()))
    }
}

/// The first line that differs.
fn difference(given: &str, right: &str) -> String {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let difference = answers::difference(&lines(given), &lines(right));
    difference.unwrap_or_default().chars().take(2000).collect()
}

/// One store, its writer and its readers, for some steps.
fn history(seed: u64, steps: u64) -> Result<[u64; 4], String> {
    let mut random = Random::new(seed);
    let folder = Forgetful::new();
    let is_forgetful = random.one_in(2);
    let folder = if is_forgetful {
        folder
    } else {
        folder.that_remembers()
    };
    let world = Arc::new(Mutex::new(World::new(folder.clone(), random.next_u64())));
    let mut places = vec![Place::here()];
    for _ in 0..2 {
        places.push(Place::elsewhere(&world.lock().unwrap()));
    }
    let [mut begun, mut given, mut asked] = [0; 3];
    for _ in 0..steps {
        let place = random.place(places.len());
        match random.below(16) {
            0..=6 => world.lock().unwrap().step(),
            7 | 8 => {
                places[place].begin(&world, &mut random)?;
                begun += 1;
            }
            9..=12 => given += places[place].advance(&world, &mut random, 40)?,
            13 | 14 => {
                places[place].ask(&world, &mut random)?;
                asked += 1;
            }
            _ if !random.one_in(8) => {}
            // The writer starts anew: what it read is over.
            _ if place == 0 => {
                places[0].readings.clear();
                world.lock().unwrap().reopen();
            }
            _ => places[place] = Place::elsewhere(&world.lock().unwrap()),
        }
    }
    for place in &mut places {
        place
            .readings
            .retain(|reading| !reading.what.starts_with("follow"));
        while !place.readings.is_empty() {
            given += place.advance(&world, &mut random, 400)?;
        }
    }
    let world = world.lock().unwrap();
    let found = world.store.verify().map_err(|error| error.to_string())?;
    if !found.is_sound() {
        return Err(format!("{:?}", found.problems));
    }
    Ok([begun, given, asked, folder.gone()])
}

#[test]
fn readings_that_compactions_overtake_give_what_there_was_when_they_began() {
    let budget = budget::of("readings that compactions overtake");
    let first = budget.seed() % 1_000_000;
    for seed in first.. {
        let figures = history(seed, 1500).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        for (figure, count) in ["begun", "records", "questions", "files gone"]
            .iter()
            .zip(figures)
        {
            budget.add(figure, count);
        }
        if seed >= first + 2 && !budget.goes_on() {
            break;
        }
    }
}
/// A store with records of streams 0, 1 and so on.
fn filled(folder: &Forgetful) -> Store {
    let store = Store::open_on(Arc::new(folder.clone()), options()).unwrap();
    for number in 0..300 {
        append(&store, number % STREAMS, number);
    }
    store
}

const STREAMS: u64 = 6;

fn append(store: &Store, to: u64, number: u64) {
    let payload = processes::payload(to, number);
    let op = Op::Append {
        stream: processes::stream(to),
        expected: Expected::Any,
        records: vec![NewRecord::data(&payload)],
    };
    store.commit(&Batch::new(vec![op])).unwrap();
}

/// Gives up some records and all of a stream, and compacts what is left.
fn overtake(store: &Store, deletes: u64) {
    let shortened = processes::stream(0);
    let length = store.stream(shortened).unwrap().unwrap().last_sequence.0;
    store.truncate(shortened, Sequence(length / 2)).unwrap();
    store.delete(processes::stream(deletes)).unwrap();
    let all = CompactOptions {
        scope: CompactScope::All,
        ..CompactOptions::default()
    };
    assert!(store.compact(all).unwrap().files_before > 0);
    append(store, 0, deletes);
    clear_caches();
}

/// Does something in another process, each time with a compaction before a later operation on the files, until it takes no more
/// operations, and each time with a second one some operations after that. Returns how many operations it took.
fn overtaken_everywhere(seconds: Range<u64>, check: impl Fn(&Forgetful, &str)) -> u64 {
    for first in 0.. {
        let count = Arc::new(AtomicU64::new(0));
        for second in seconds.clone() {
            let folder = Forgetful::new();
            let store = filled(&folder);
            let there = folder.that_forgets();
            count.store(0, Ordering::Relaxed);
            for (deletes, operations) in [(1, first), (2, first + 1 + second)] {
                let (writer, count) = (store.clone(), count.clone());
                there.after(operations, move || {
                    overtake(&writer, deletes);
                    count.fetch_add(1, Ordering::Relaxed);
                });
            }
            check(&there, &format!("at {first} and {second} later"));
            store.close().unwrap();
        }
        if count.load(Ordering::Relaxed) == 0 {
            return first;
        }
    }
    unreachable!("there is always a next one");
}

#[test]
fn backup_that_compactions_overtake_anywhere_opens_and_has_all_that_its_streams_say() {
    let places = overtaken_everywhere(9..12, |there, when| {
        let reader = Store::open_on(Arc::new(there.clone()), options().read_only()).unwrap();
        let target = Arc::new(MemoryStorage::new());
        reader.backup(&*target).unwrap();
        there.calm();
        let found = verify(&*target).unwrap();
        assert!(found.is_sound(), "{when}: {:?}", found.problems);
        let copy = Store::open_on(target, options()).unwrap();
        for info in copy.streams().unwrap() {
            let records = copy.read(info.id, ReadOptions::default()).unwrap();
            let whole =
                records.map(|record| record.unwrap_or_else(|error| panic!("{when}: {error}")));
            assert_eq!(whole.count() as u64, info.last_sequence.0, "{when}");
        }
    });
    assert!(places > 10, "{places}");
}

#[test]
fn verify_and_salvage_that_a_compaction_overtakes_anywhere_tell_what_is_there() {
    let places = overtaken_everywhere(0..1, |there, when| {
        let mut read = 0;
        let found = verify_with(there, &mut |done, all| {
            assert!(
                read <= done && done <= all,
                "{when}: {done} after {read}, of {all}"
            );
            read = done;
        });
        let found = found.unwrap_or_else(|error| panic!("{when}: {error}"));
        assert!(found.is_sound(), "{when}: {:?}", found.problems);
    });
    assert!(places > 10, "{places}");
    // It reads by name what it has found: what is removed after that is told in its notes.
    overtaken_everywhere(0..1, |there, when| {
        let mut streams = BTreeSet::new();
        let summary = salvage(there, &mut |record| {
            streams.extend(record.stream);
            ControlFlow::Continue(())
        });
        let is_whole = streams.contains(&processes::stream(2));
        let summary = summary.unwrap();
        assert!(is_whole || !summary.notes.is_empty(), "{when}: {summary:?}");
    });
}
