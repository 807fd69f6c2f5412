//! The writer, and what it wrote.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use runlog_engine::{
    Batch, Codec, CompactOptions, CompactScope, Durability, Expected, Kind, Label, NewRecord, Op,
    OpenOptions, Position, Preallocation, Sequence, Store, StreamId, clear_caches,
};

use super::{KINDS, LABELS};
use crate::{
    forgetful::Forgetful,
    processes::{payload, stream},
    random::Random,
};

/// A record as it was appended.
pub struct Written {
    /// The stream that it was appended to.
    pub stream: StreamId,
    /// Its number there.
    pub sequence: u64,
    /// Its kind.
    pub kind: Kind,
    /// Its labels.
    pub labels: Vec<Label>,
    /// Its contents.
    pub payload: Vec<u8>,
}

/// What the store had at one time.
#[derive(Clone, Default)]
pub struct State {
    /// The positions of each stream's records.
    pub streams: BTreeMap<StreamId, Arc<Vec<u64>>>,
    /// The positions that were redacted.
    pub redacted: Arc<BTreeSet<u64>>,
}

impl State {
    /// Whether a stream has the record at a position.
    pub fn has(&self, stream: StreamId, position: u64) -> bool {
        let positions = self.streams.get(&stream);
        positions.is_some_and(|positions| positions.binary_search(&position).is_ok())
    }

    /// Whether any stream has it: else a compaction may give it up.
    pub fn is_live(&self, position: u64) -> bool {
        self.streams
            .keys()
            .any(|stream| self.has(*stream, position))
    }
}

/// A store with its writer, and what it has to give.
pub struct World {
    /// The folder, as the writer has it.
    pub storage: Forgetful,
    /// The writer.
    pub store: Store,
    /// Reads what the writer has, by handles that are never closed.
    pub oracle: Store,
    /// Every data record that there ever was.
    pub records: BTreeMap<u64, Written>,
    /// What the store has now.
    pub now: State,
    /// By their last position, all that it had.
    pub states: BTreeMap<u64, State>,
    /// How many compactions replaced something.
    pub compactions: u64,
    random: Random,
    next: u64,
}

/// How the store is opened.
pub fn options() -> OpenOptions {
    OpenOptions {
        durability: Durability::Os,
        segment_bytes_max: 64 << 10,
        preallocation: Preallocation::None,
        auto_compact: false,
        ..OpenOptions::default()
    }
}

impl World {
    /// A new store in a folder.
    pub fn new(storage: Forgetful, seed: u64) -> Self {
        let store = Store::open_on(Arc::new(storage.clone()), options()).expect("it opens");
        let oracle = Arc::new(storage.that_remembers());
        let oracle = Store::open_on(oracle, options().read_only()).expect("it opens");
        Self {
            storage,
            store,
            oracle,
            records: BTreeMap::new(),
            now: State::default(),
            states: BTreeMap::from([(0, State::default())]),
            compactions: 0,
            random: Random::new(seed),
            next: 0,
        }
    }

    /// Closes the store and opens it again.
    pub fn reopen(&mut self) {
        self.store.close().expect("it closes");
        self.store =
            Store::open_on(Arc::new(self.storage.clone()), options()).expect("it opens again");
    }

    fn any_stream(&mut self) -> Option<StreamId> {
        let count = self.now.streams.len();
        let place = self.random.place(count.max(1));
        self.now.streams.keys().nth(place).copied()
    }

    /// Appends some records to each of these streams, in one batch.
    fn append(&mut self, streams: &[StreamId]) {
        struct New {
            stream: StreamId,
            kind: Kind,
            labels: Vec<Label>,
            payload: Vec<u8>,
        }
        let mut all = Vec::new();
        for stream in streams {
            for _ in 0..=self.random.place(8) {
                self.next += 1;
                let mut labels: Vec<_> = (0..LABELS).map(Label).collect();
                labels.retain(|_| self.random.one_in(4));
                let mut payload = payload(7, self.next);
                payload.extend(self.next.to_le_bytes());
                all.push(New {
                    stream: *stream,
                    kind: Kind(self.random.place(KINDS.into()).to_le_bytes()[0]),
                    labels,
                    payload,
                });
            }
        }
        let ops = all
            .chunk_by(|one, other| one.stream == other.stream)
            .map(|news| Op::Append {
                stream: news[0].stream,
                expected: Expected::Any,
                records: news
                    .iter()
                    .map(|new| NewRecord {
                        kind: new.kind,
                        labels: &new.labels,
                        ..NewRecord::data(&new.payload)
                    })
                    .collect(),
            })
            .collect();
        let key = self.next.to_le_bytes();
        let mut batch = Batch::new(ops);
        if self.random.one_in(4) {
            batch = batch.with_key(&key);
        }
        let done = self.store.commit(&batch).expect("it is appended");
        let mut results = done.ops.iter();
        for news in all.chunk_by(|one, other| one.stream == other.stream) {
            let result = results.next().expect("one for each");
            let positions = Arc::make_mut(self.now.streams.entry(news[0].stream).or_default());
            for (new, position) in news.iter().zip(result.position.0..) {
                positions.push(position);
                let written = Written {
                    stream: new.stream,
                    sequence: positions.len() as u64,
                    kind: new.kind,
                    labels: new.labels.clone(),
                    payload: new.payload.clone(),
                };
                self.records.insert(position, written);
            }
        }
    }

    /// Compacts some of the store.
    pub fn compact(&mut self) {
        let scopes = [
            CompactScope::Dead,
            CompactScope::Sparse,
            CompactScope::Sealed,
            CompactScope::All,
            CompactScope::All,
        ];
        let codecs = [Codec::Plain, Codec::Lz4, Codec::Zstd];
        let options = CompactOptions {
            scope: scopes[self.random.place(scopes.len())],
            codec: codecs[self.random.place(codecs.len())],
            ..CompactOptions::default()
        };
        let done = self.store.compact(options).expect("it compacts");
        self.compactions += u64::from(done.files_before > 0);
        clear_caches();
        self.note();
    }

    /// Does one of the things that there are.
    pub fn step(&mut self) {
        let Some(stream_id) = self.any_stream().filter(|_| !self.random.one_in(25)) else {
            self.next += 1;
            let fresh = stream(self.next);
            self.append(&[fresh]);
            return self.note();
        };
        let positions = self.now.streams[&stream_id].clone();
        let at = self.random.place(positions.len() + 1);
        let sequence = Sequence(at as u64);
        match self.random.below(24) {
            0 => {
                self.store
                    .truncate(stream_id, sequence)
                    .expect("it truncates");
                let kept = Arc::new(positions[..at].to_vec());
                self.now.streams.insert(stream_id, kept);
            }
            1 | 2 => {
                self.next += 1;
                let child = stream(self.next);
                self.store
                    .fork(stream_id, sequence, child)
                    .expect("it forks");
                let shared = Arc::new(positions[..at].to_vec());
                self.now.streams.insert(child, shared);
            }
            3 => {
                let state = payload(8, self.next);
                let saved = self.store.snapshot(stream_id, sequence, &state);
                saved.expect("it is saved");
            }
            4 if self.now.streams.len() > 3 => {
                self.store.delete(stream_id).expect("it is deleted");
                self.now.streams.remove(&stream_id);
            }
            5 if !positions.is_empty() => {
                let position = positions[self.random.place(positions.len())];
                self.store
                    .redact(Position(position), "private")
                    .expect("it is redacted");
                Arc::make_mut(&mut self.now.redacted).insert(position);
            }
            6 | 7 => return self.compact(),
            8 | 9 => {
                let other = self.any_stream().filter(|other| *other != stream_id);
                let both: Vec<_> = other.into_iter().chain([stream_id]).collect();
                self.append(&both);
            }
            _ => self.append(&[stream_id]),
        }
        self.note();
    }

    /// Remembers what the store has by now.
    fn note(&mut self) {
        let last = self.store.last_position().expect("it is told").0;
        self.states.insert(last, self.now.clone());
    }
}
