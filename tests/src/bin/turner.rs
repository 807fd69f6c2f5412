//! A process that turns segments as fast as it can, and those that read beside it.
//!
//! `turner write FOLDER TALLY SEGMENTS` appends to one stream, in segments of 64 KiB, and counts in the tally what is
//! acknowledged; it ends after so many segments. `turner open|follow|verify|list FOLDER TALLY MILLIS` reads in a loop.
//! Each prints a line `error …` for what went wrong and at the end `rounds N` and `seen N`.

use std::{
    error::Error,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use runlog_engine::{
    Batch, Durability, Expected, NewRecord, Op, OpenOptions, Position, ReadOptions, Sequence,
    Store, Subscription, storage::FsStorage, verify,
};
use runlog_tests::{
    processes::{payload, stream},
    tally::Tally,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, folder, tally, amount] = &arguments[..] else {
        return Err("expected four arguments".into());
    };
    let (folder, amount) = (PathBuf::from(folder), amount.parse()?);
    if mode == "write" {
        return write(&folder, &Tally::create(Path::new(tally))?, amount);
    }
    let mut reads = Reads {
        folder,
        tally: Tally::open(Path::new(tally))?,
        store: None,
        subscription: None,
        next: Position::FIRST,
        seen: 0,
    };
    let (since, mut rounds) = (Instant::now(), 0_u64);
    while since.elapsed() < Duration::from_millis(amount) {
        let round = match mode.as_str() {
            "open" => reads.open(),
            "follow" => reads.follow(),
            "verify" => reads.verify(),
            "list" => reads.list(),
            _ => return Err(format!("no mode {mode}").into()),
        };
        rounds += 1;
        if let Err(error) = round {
            println!("error {error}");
        }
    }
    println!("rounds {rounds}\nseen {}", reads.seen);
    Ok(())
}

fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes_max: 64 << 10,
        durability: Durability::Os,
        ..OpenOptions::default()
    }
}

fn write(folder: &Path, tally: &Tally, segments_max: u64) -> Outcome<()> {
    let store = Store::open(folder, options())?;
    let first = store
        .stream(stream(0))?
        .map_or(0, |info| info.last_sequence.0)
        + 1;
    for sequence in first.. {
        // One in eight is flushed; each is a good part of a segment.
        let payload = long_payload(sequence);
        let durability = if sequence.is_multiple_of(8) {
            Durability::Sync
        } else {
            Durability::Os
        };
        let append = Op::Append {
            stream: stream(0),
            expected: Expected::Last(Sequence(sequence - 1)),
            records: vec![NewRecord::data(&payload)],
        };
        store.commit(&Batch::new(vec![append]).with_durability(durability))?;
        tally.set(sequence)?;
        if sequence == first {
            println!("open");
        }
        if sequence.is_multiple_of(16) && store.stat()?.segments >= segments_max {
            break;
        }
    }
    store.close()?;
    Ok(())
}

/// About eight records to a segment.
fn long_payload(sequence: u64) -> Vec<u8> {
    let mut payload = payload(0, sequence);
    payload.resize(8000, u8::try_from(sequence % 251).unwrap_or(0));
    payload
}

/// What reads beside the writer, and what it saw so far.
struct Reads {
    folder: PathBuf,
    tally: Tally,
    store: Option<Store>,
    subscription: Option<Subscription>,
    /// The position that a follower expects next.
    next: Position,
    /// The last sequence that was seen.
    seen: u64,
}

impl Reads {
    fn opened(&mut self) -> Outcome<Store> {
        match &self.store {
            Some(store) => Ok(store.clone()),
            None => {
                let store = Store::open(&self.folder, OpenOptions::default().read_only())
                    .map_err(|error| format!("open: {:?}: {error}", error.kind()))?;
                Ok(self.store.insert(store).clone())
            }
        }
    }

    /// The stream is as long as was acknowledged before the look, and never shorter than it was seen.
    fn saw(&mut self, what: &str, last: u64, acknowledged: u64) -> Outcome<()> {
        if last < acknowledged {
            return Err(
                format!("{what}: {acknowledged} were acknowledged, {last} are seen").into(),
            );
        }
        if last < self.seen {
            return Err(format!("{what}: {last} records, after {} were seen", self.seen).into());
        }
        self.seen = last;
        Ok(())
    }

    fn open(&mut self) -> Outcome<()> {
        let acknowledged = self.tally.get()?;
        self.store = None;
        let store = self.opened()?;
        let last = store
            .stream(stream(0))
            .map_err(told("stream"))?
            .map_or(0, |info| info.last_sequence.0);
        self.saw("open", last, acknowledged)
    }

    fn list(&mut self) -> Outcome<()> {
        let acknowledged = self.tally.get()?;
        let store = self.opened()?;
        store.stat().map_err(told("stat"))?;
        let streams = store.streams().map_err(told("streams"))?;
        let last = streams
            .iter()
            .find(|info| info.id == stream(0))
            .map_or(0, |info| info.last_sequence.0);
        self.saw("list", last, acknowledged)
    }

    fn verify(&mut self) -> Outcome<()> {
        let acknowledged = self.tally.get()?;
        let found = verify(&FsStorage::new(&self.folder)).map_err(told("verify"))?;
        if let Some(problem) = found.problems.first() {
            return Err(format!("verify: not sound: {}: {}", problem.file, problem.message).into());
        }
        // The record that makes the stream is one too.
        self.saw("verify", found.records.saturating_sub(1), acknowledged)
    }

    /// Goes on reading, in each of the ways there are, and meets every record once.
    fn follow(&mut self) -> Outcome<()> {
        let acknowledged = self.tally.get()?;
        let store = self.opened()?;
        let last = store.last_position().map_err(told("last position"))?;
        if last.next() < self.next {
            return Err(format!("last position {last}, after {} was read", self.next.0 - 1).into());
        }
        if last.next() == self.next && acknowledged == self.seen {
            return Ok(());
        }
        let from = Sequence(self.seen + 1);
        let read = store
            .read(
                stream(0),
                ReadOptions {
                    first: from,
                    ..ReadOptions::default()
                },
            )
            .map_err(told("read"))?;
        let mut expected = from.0;
        for record in read {
            let record = record.map_err(told("read on"))?;
            is_right(&record, expected)?;
            expected += 1;
        }
        if expected <= acknowledged {
            return Err(format!(
                "read: {acknowledged} were acknowledged, {} are read",
                expected - 1
            )
            .into());
        }
        // The same one for as long as it goes well.
        let mut subscription = self
            .subscription
            .take()
            .unwrap_or_else(|| store.subscribe(self.next));
        while let Some(record) = subscription
            .next_timeout(Duration::ZERO)
            .map_err(told("subscription"))?
        {
            if record.position != self.next {
                return Err(format!(
                    "subscription: position {}, expected {}",
                    record.position, self.next
                )
                .into());
            }
            self.next = self.next.next();
            if record.kind.is_data() {
                is_right(&record, self.seen + 1)?;
                self.seen += 1;
            }
        }
        if self.seen < acknowledged {
            return Err(format!(
                "subscription: {acknowledged} were acknowledged, {} are seen",
                self.seen
            )
            .into());
        }
        self.subscription = Some(subscription);
        Ok(())
    }
}

fn told(what: &'static str) -> impl Fn(runlog_engine::Error) -> String {
    move |error| format!("{what}: {:?}: {error}", error.kind())
}

fn is_right(record: &runlog_engine::Record, sequence: u64) -> Outcome<()> {
    if record.sequence.0 != sequence {
        return Err(format!("sequence {}, expected {sequence}", record.sequence).into());
    }
    if record.payload != long_payload(sequence) {
        return Err(format!("sequence {sequence} has another payload").into());
    }
    Ok(())
}
