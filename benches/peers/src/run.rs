//! One run: the stores that take part, and the rows of figures, measured in turns.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::PathBuf,
    time::{Duration, Instant},
};

use runlog_benches::{measure::median, workload};

use crate::{
    events::Pool,
    stores::{PEERS, Peer, Promise, Store},
};

/// What is measured, and how long.
pub struct Settings {
    pub rounds: usize,
    /// How long a store's turn of durable appends lasts.
    pub slice: Duration,
    /// The streams of the large store, of 1,000 events each.
    pub streams: u32,
    /// Rows whose names contain this.
    pub filter: String,
    /// Stores of these names beside Runlog; all when empty.
    pub only: Vec<String>,
}

/// Which figure is the better one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Better {
    Higher,
    Lower,
}

/// What is measured in a row.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub name: &'static str,
    pub unit: &'static str,
    pub better: Better,
}

/// A row, with the figures of each round by store.
pub struct Row {
    pub measured: Measured,
    pub figures: BTreeMap<&'static str, Vec<f64>>,
}

/// A turn that takes longer is told, so that who waits knows for whom.
const SLOW_SECONDS: f64 = 5.0;
/// Who takes longer has no further turn in the row, so that all others come to theirs.
const SECONDS_MAX: f64 = 60.0;

/// The column of what needs no store.
pub const FLOOR: &str = "raw file";

pub struct Run {
    pub settings: Settings,
    pub peers: Vec<Peer>,
    pub pool: Pool,
    pub rows: Vec<Row>,
    /// What a store could not do: the store, and what it said.
    pub left_out: BTreeSet<(&'static str, String)>,
    folder: tempfile::TempDir,
}

impl Row {
    pub fn figure(&self, store: &str) -> Option<f64> {
        self.figures
            .get(store)
            .map(|figures| median(figures))
            .filter(|figure| figure.is_finite())
    }

    /// How many times as good Runlog is as another: the median of the rounds' own ratios.
    pub fn ahead_of(&self, store: &str) -> Option<f64> {
        let (own, others) = (self.figures.get(PEERS[0].name)?, self.figures.get(store)?);
        let ratios: Vec<f64> = own
            .iter()
            .zip(others)
            .map(|(own, other)| match self.measured.better {
                Better::Higher => own / other,
                Better::Lower => other / own,
            })
            .collect();
        Some(median(&ratios)).filter(|ratio| ratio.is_finite())
    }
}

impl Run {
    pub fn new(settings: Settings) -> io::Result<Self> {
        let is_wanted = |peer: &Peer| {
            peer.name == PEERS[0].name
                || settings.only.is_empty()
                || settings.only.iter().any(|name| name == peer.name)
        };
        let peers = PEERS.iter().copied().filter(is_wanted).collect();
        let folder = workload::folder()?;
        Ok(Self {
            settings,
            peers,
            pool: Pool::new(),
            rows: Vec::new(),
            left_out: BTreeSet::new(),
            folder,
        })
    }

    /// Whether one of some rows was asked for.
    pub fn wants(&self, rows: &[Measured]) -> bool {
        rows.iter()
            .any(|row| row.name.contains(&self.settings.filter))
    }

    /// A path in the folder of this run.
    pub fn path(&self, what: &str, peer: &str) -> PathBuf {
        self.folder
            .path()
            .join(format!("{what}-{}", peer.to_lowercase().replace(' ', "-")))
    }

    /// Keeps a figure.
    pub fn figure(&mut self, measured: Measured, store: &'static str, figure: f64) {
        let row = self
            .rows
            .iter()
            .position(|row| row.measured.name == measured.name)
            .unwrap_or_else(|| {
                self.rows.push(Row {
                    measured,
                    figures: BTreeMap::new(),
                });
                self.rows.len() - 1
            });
        self.rows[row]
            .figures
            .entry(store)
            .or_default()
            .push(figure);
    }

    /// Whether a store has a figure in a row: then it did what later rows build on.
    pub fn has(&self, measured: Measured, store: &str) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| row.measured.name == measured.name && row.figures.contains_key(store))
    }

    /// Does a store's turn; what it can't do is noted, and it is asked no more.
    pub fn turn<T>(
        &mut self,
        what: &str,
        store: &'static str,
        turn: impl FnOnce(&mut Self) -> io::Result<T>,
    ) -> Option<T> {
        let is_out = self
            .left_out
            .iter()
            .any(|(name, why)| *name == store && why.starts_with(what));
        if is_out {
            return None;
        }
        let clock = Instant::now();
        let result = turn(self);
        let seconds = clock.elapsed().as_secs_f64();
        if seconds > SLOW_SECONDS {
            eprintln!("{store}: {what}: this turn took {seconds:.0} s");
        }
        if seconds > SECONDS_MAX {
            let why = format!("{what}: one turn took {seconds:.0} s, so it has no other");
            self.left_out.insert((store, why));
        }
        match result {
            Ok(result) => Some(result),
            Err(error) => {
                eprintln!("{store}: {what}: {error}");
                self.left_out.insert((store, format!("{what}: {error}")));
                None
            }
        }
    }

    /// Every store in turns, another first each round.
    pub fn rounds(
        &mut self,
        what: &str,
        mut turn: impl FnMut(&mut Self, usize, usize) -> io::Result<()>,
    ) {
        for round in 0..self.settings.rounds {
            eprintln!("{what}: round {} of {}", round + 1, self.settings.rounds);
            for place in 0..self.peers.len() {
                let peer = (place + round) % self.peers.len();
                let name = self.peers[peer].name;
                self.turn(what, name, |run| turn(run, round, peer));
            }
        }
    }

    /// Opens a store of each peer's, new if it isn't there.
    pub fn open_all(
        &mut self,
        what: &str,
        promise: Promise,
    ) -> BTreeMap<&'static str, Box<dyn Store>> {
        let mut stores = BTreeMap::new();
        for peer in 0..self.peers.len() {
            let (name, open) = (self.peers[peer].name, self.peers[peer].open);
            let path = self.path(what, name);
            if let Some(store) = self.turn(what, name, |_| open(&path, promise)) {
                stores.insert(name, store);
            }
        }
        stores
    }

    /// Removes what a peer had.
    pub fn remove(&self, what: &str, peer: &str) -> io::Result<()> {
        let path = self.path(what, peer);
        if path.exists() {
            fs::remove_dir_all(path)
        } else {
            Ok(())
        }
    }
}

/// A file's or folder's bytes on the device.
pub fn bytes_on_disk(path: &std::path::Path) -> io::Result<f64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut blocks = 0;
    for file in workload::files(path)? {
        blocks += fs::metadata(file)?.blocks();
    }
    Ok(blocks as f64 * 512.0)
}
