//! The orchestration under simulation: a thousand seeds in the test command, a hundred thousand and more when tortured.
//!
//! `RUNLOG_SIM_SEED=N` goes through one seed, and tells its story where it breaks a law; `RUNLOG_SIM_DEFECT=name` has it
//! go through with an orchestrator that is broken on purpose. `RUNLOG_SIM_SEEDS=FIRST..END` goes through many, in one thread.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use runlog::agents::Defect;
use runlog_agent_tests::sim::{self, Figures, Outcome};
use runlog_tests::budget;

/// The seeds of the test command.
const SEEDS: u64 = 1_000;
/// The seeds when tortured, if there is time for them.
const SEEDS_TORTURE: u64 = 100_000;
/// Seeds beyond those of the test command that found faults: a run that two others had spawned, revived below the wrong
/// one; a run that was not revived, untold, because the run above it had been told to stop; a law that took the end of a
/// run for late because nobody had been told of it yet; ends of trees that waited for each other; and cancellations that
/// a resume had overtaken, of the run itself or of one below it.
const FOUND_FAULTS: [u64; 17] = [
    3_903,
    8_913,
    48_987,
    114_968,
    124_523,
    135_957,
    19_642_794_001_073,
    91_981_535_000_094,
    91_981_535_000_169,
    91_981_535_007_144,
    91_981_535_010_492,
    91_981_535_014_091,
    91_981_535_015_244,
    91_981_535_017_124,
    91_981_535_019_529,
    91_981_535_019_983,
    91_981_535_020_789,
];
/// One seed in so many is gone through twice.
const TWICE_IN: u64 = 20;

/// One seed, and how to see it again where it breaks a law.
fn try_seed(seed: u64, defect: Option<Defect>) -> Result<Outcome, String> {
    let went = catch_unwind(AssertUnwindSafe(|| sim::run(seed, defect)));
    let went = went.unwrap_or_else(|_| Err("a panic".to_owned()));
    went.map_err(|broken| {
        let defect = defect.map_or_else(String::new, |defect| {
            format!("RUNLOG_SIM_DEFECT={defect:?} ")
        });
        let command = "cargo test -p runlog-tests --test orchestration one_seed -- --nocapture";
        format!("seed {seed}: {broken}\nto see it again: RUNLOG_SIM_SEED={seed} {defect}{command}")
    })
}

/// Without the story, which is for one who looks at one seed.
fn short(broken: &str) -> String {
    let (first, last) = (broken.lines().next(), broken.lines().last());
    format!(
        "{}\n{}",
        first.unwrap_or_default(),
        last.unwrap_or_default()
    )
}

#[test]
fn one_seed() {
    let Some(seed) = std::env::var("RUNLOG_SIM_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
    else {
        return;
    };
    let name = std::env::var("RUNLOG_SIM_DEFECT").unwrap_or_default();
    let defect = Defect::ALL
        .into_iter()
        .find(|defect| format!("{defect:?}") == name);
    match try_seed(seed, defect) {
        Ok(outcome) => println!("seed {seed}: {outcome:?}"),
        Err(broken) => panic!("{broken}"),
    }
}

/// How many seeds of a range are gone through between two lines that say how far it is.
const TELL_EVERY: u64 = 5_000;

/// `FIRST..END`, both of them seeds.
fn range_asked_for() -> Option<std::ops::Range<u64>> {
    let asked = std::env::var("RUNLOG_SIM_SEEDS").ok()?;
    let range = asked
        .split_once("..")
        .and_then(|(first, end)| Some(first.parse().ok()?..end.parse().ok()?));
    Some(range.unwrap_or_else(|| panic!("RUNLOG_SIM_SEEDS is {asked:?}, and not FIRST..END")))
}

#[test]
fn seeds_of_a_range() {
    let Some(seeds) = range_asked_for() else {
        return;
    };
    let (began, mut broken, mut sum) = (Instant::now(), 0_u64, BTreeMap::<&str, u64>::new());
    for seed in seeds.clone() {
        match try_seed(seed, None) {
            Ok(outcome) => outcome.figures.named().iter().for_each(|(name, count)| {
                *sum.entry(name).or_default() += count;
            }),
            Err(why) => {
                broken += 1;
                println!("{}", short(&why));
            }
        }
        if seed % TELL_EVERY == TELL_EVERY - 1 || seed + 1 == seeds.end {
            let seconds = began.elapsed().as_secs();
            println!(
                "{} seeds, to {seed}, in {seconds} s: {broken} broke a law; {sum:?}",
                seed + 1 - seeds.start
            );
        }
    }
    assert_eq!(broken, 0, "{broken} seeds broke a law");
}

#[test]
fn seeds_that_found_faults_find_them_no_more() {
    let broken: Vec<String> = FOUND_FAULTS
        .iter()
        .filter_map(|seed| try_seed(*seed, None).err())
        .collect();
    assert!(
        broken.is_empty(),
        "{}",
        broken
            .iter()
            .map(|broken| short(broken))
            .collect::<Vec<_>>()
            .join("\n")
    );
}

#[test]
fn every_law_holds_for_every_seed() {
    let budget = budget::of("orchestration");
    let (first, count) = match budget::is_torture() {
        true => (budget.seed() % 1_000_000_000 * 1_000_000, SEEDS_TORTURE),
        false => (0, SEEDS),
    };
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let work = || {
        let (mut figures, mut broken, mut tried) = (Vec::<Figures>::new(), Vec::new(), 0_u64);
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            if place >= count || is_over.load(Ordering::Relaxed) {
                return (figures, broken, tried);
            }
            let seed = first + place;
            tried += 1;
            match try_seed(seed, None) {
                Ok(outcome) => {
                    if place.is_multiple_of(TWICE_IN)
                        && try_seed(seed, None).as_ref() != Ok(&outcome)
                    {
                        broken.push(format!("seed {seed} went differently the second time"));
                    }
                    figures.push(outcome.figures);
                }
                Err(why) => broken.push(why),
            }
        }
    };
    let began = Instant::now();
    let results = thread::scope(|scope| {
        let threads = [scope.spawn(work), scope.spawn(work)];
        while threads.iter().any(|thread| !thread.is_finished()) {
            if budget::is_torture() && !budget.goes_on() {
                is_over.store(true, Ordering::Relaxed);
            }
            thread::park_timeout(Duration::from_millis(50));
        }
        threads.map(|thread| thread.join().expect("a panic is caught where it happens"))
    });
    let mut sum = BTreeMap::<&str, u64>::new();
    let mut broken = Vec::new();
    for (figures, why, tried) in results {
        *sum.entry("seeds").or_default() += tried;
        for (name, count) in figures.iter().flat_map(Figures::named) {
            *sum.entry(name).or_default() += count;
        }
        broken.extend(why);
    }
    sum.iter()
        .for_each(|(name, count)| budget.add(name, *count));
    println!("orchestration: {:.1} s", began.elapsed().as_secs_f64());
    let told: Vec<String> = broken.iter().take(10).map(|broken| short(broken)).collect();
    assert!(
        broken.is_empty(),
        "{} seeds broke a law:\n{}",
        broken.len(),
        told.join("\n")
    );
    for (name, count) in &sum {
        assert!(
            *count > 0 || budget::is_torture(),
            "the simulation never had {name}"
        );
    }
}

/// A simulation that finds nothing is worth something only if it would.
#[test]
fn every_defect_is_caught_within_a_thousand_seeds() {
    let catch = |defect: Defect| {
        let caught = (0..SEEDS).find_map(|seed| Some((seed, try_seed(seed, Some(defect)).err()?)));
        caught.map(|(seed, broken)| format!("{defect:?} by seed {seed}: {}", short(&broken)))
    };
    let (even, odd) = Defect::ALL.split_at(Defect::ALL.len() / 2);
    let half = |defects: &[Defect]| {
        defects
            .iter()
            .map(|defect| (*defect, catch(*defect)))
            .collect::<Vec<_>>()
    };
    let caught = thread::scope(|scope| {
        let other = scope.spawn(|| half(odd));
        let mut caught = half(even);
        caught.extend(other.join().expect("a panic is caught where it happens"));
        caught
    });
    for (defect, caught) in caught {
        println!("{}", caught.as_deref().unwrap_or("not caught"));
        assert!(
            caught.is_some(),
            "{defect:?} is not caught within {SEEDS} seeds"
        );
    }
}
