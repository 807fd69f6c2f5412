//! Run snapshots as differences: [`SnapshotChain`] makes them, [`SnapshotTexts`] reads them.
//!
//! A flow saves its state with each node that begins or ends, and each state is the one before with a little more. Saved
//! whole, a flow would take space on the disk by the square of its length.
//!
//! **A snapshot is named by its sequence**, which stays the same in copies and in imports. Of several snapshots at one
//! sequence only the newest can be read, so a state differs only from those at earlier sequences: where no later one can
//! come any more.

use std::collections::HashMap;

use runlog_log::crc;
use serde::{Deserialize, Serialize};

use super::snapshot::{EncodedSnapshot, RunSnapshot};
use crate::{
    Error, RawJson, Result,
    encoding::Event,
    json::{chain::TextChain, diff::TextDiff, read_bytes},
    kinds::{RUN_SNAPSHOT, RUN_SNAPSHOT_DIFF},
};

/// How many differences one state may be made from; [`TextChain`] makes at most 15 for each digit of the number of states.
const DIFFS_MAX: usize = 1_000;
/// How long a state can be: what a record can hold.
const TEXT_BYTES_MAX: usize = 64 << 20;

/// An earlier state of the flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct EarlierState {
    sequence: u64,
    /// The CRC-32 of its text: where it was redacted, an older one may be found at its sequence.
    crc: u32,
}

/// A state as its difference from an earlier one.
#[derive(Debug, Serialize, Deserialize)]
struct SnapshotDiff {
    from: EarlierState,
    diff: TextDiff,
}

/// The states of a flow, in the order in which they are saved, of which each is saved as the difference from an earlier one.
#[derive(Clone, Debug, Default)]
pub struct SnapshotChain {
    /// The states up to the last one.
    states: TextChain<EarlierState>,
    /// The sequence of that, and the states before it.
    last: u64,
    before: TextChain<EarlierState>,
}

impl SnapshotChain {
    /// How many bytes its states keep in memory.
    pub fn bytes(&self) -> usize {
        let texts = self.states.texts().chain(self.before.texts());
        // They are few, and most of them the same ones.
        let each: HashMap<*const u8, usize> =
            texts.map(|text| (text.as_ptr(), text.len())).collect();
        each.values().sum()
    }

    /// The next state, as it is to be saved at a sequence, and the chain with it. Once that is durable, the chain is the
    /// one to go on with; where that isn't known, another one has to be begun.
    pub fn next(&self, sequence: u64, whole: &EncodedSnapshot) -> (EncodedSnapshot, Self) {
        let text = &whole.payload;
        let before = if sequence > self.last {
            self.states.clone()
        } else if sequence == self.last {
            self.before.clone()
        } else {
            // The stream was truncated.
            TextChain::default()
        };
        let mut states = before.clone();
        let this = EarlierState {
            sequence,
            crc: crc::hash(text.as_bytes()),
        };
        let found = states.next(this, text);
        let diff =
            found.and_then(|(from, diff)| RawJson::from_value(&SnapshotDiff { from, diff }).ok());
        let encoded = match diff {
            None => whole.clone(),
            Some(payload) => {
                let mut meta = vec![RunSnapshot::VERSION];
                meta.push(RUN_SNAPSHOT_DIFF);
                EncodedSnapshot { meta, payload }
            }
        };
        let chain = Self {
            states,
            last: sequence,
            before,
        };
        (encoded, chain)
    }
}

/// Reads a state, from the newest snapshot that it is made of to the one that was saved whole.
#[derive(Debug, Default)]
pub struct SnapshotTexts {
    /// The newest one first.
    diffs: Vec<SnapshotDiff>,
}

/// What a snapshot gave.
#[derive(Debug)]
pub enum SnapshotRead {
    /// The state.
    State(Box<RunSnapshot>),
    /// It differs from the newest snapshot at this sequence, which has to be read, too.
    Wanted(u64),
    /// What it differs from is another one than the newest at its sequence: that was redacted.
    Gone,
}

impl SnapshotTexts {
    /// None so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a snapshot: the one of which the state is asked for, then each that is wanted.
    ///
    /// # Errors
    /// [`UnsupportedVersion`](crate::ErrorKind::UnsupportedVersion) for a version that this build doesn't know,
    /// [`Damaged`](crate::ErrorKind::Damaged) for anything that is no run snapshot.
    pub fn read(&mut self, sequence: u64, meta: &[u8], payload: &[u8]) -> Result<SnapshotRead> {
        match meta.split_last() {
            Some((&RUN_SNAPSHOT, meta)) => self.whole(&RunSnapshot::open(meta, payload)?),
            Some((&RUN_SNAPSHOT_DIFF, meta)) => {
                let json = RunSnapshot::open(meta, payload)?;
                let diff: SnapshotDiff = read_bytes(&json).map_err(unreadable)?;
                let wanted = diff.from.sequence;
                if wanted >= sequence || self.diffs.len() >= DIFFS_MAX {
                    return Err(unreadable("it differs from no earlier one"));
                }
                self.diffs.push(diff);
                Ok(SnapshotRead::Wanted(wanted))
            }
            _ => Err(Error::damaged(
                "the latest snapshot of the stream is no run snapshot",
            )),
        }
    }

    fn whole(&mut self, json: &[u8]) -> Result<SnapshotRead> {
        let Some(last) = self.diffs.pop() else {
            return state_of(json);
        };
        let mut text = std::str::from_utf8(json).map_err(unreadable)?.to_owned();
        for SnapshotDiff { from, diff } in std::iter::once(last).chain(self.diffs.drain(..).rev()) {
            if crc::hash(text.as_bytes()) != from.crc {
                return Ok(SnapshotRead::Gone);
            }
            if diff
                .length(text.len())
                .is_none_or(|length| length > TEXT_BYTES_MAX)
            {
                return Err(unreadable("a difference makes more than a record can hold"));
            }
            text = diff.applied_to(&text)?;
        }
        state_of(text.as_bytes())
    }
}

fn state_of(json: &[u8]) -> Result<SnapshotRead> {
    let state = read_bytes(json).map_err(unreadable)?;
    Ok(SnapshotRead::State(Box::new(state)))
}

fn unreadable(why: impl std::fmt::Display) -> Error {
    Error::damaged(format!("a run snapshot can't be read: {why}"))
}

/// The texts that a snapshot which is saved as a difference has and the one before hasn't, for a search. None of one that is
/// whole.
pub fn new_texts_of_snapshot(meta: &[u8], payload: &[u8]) -> Vec<String> {
    if meta.last() != Some(&RUN_SNAPSHOT_DIFF) {
        return Vec::new();
    }
    let diff = serde_json::from_slice::<SnapshotDiff>(payload);
    let texts = diff.map(|SnapshotDiff { diff, .. }| diff.new_texts().map(str::to_owned).collect());
    texts.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn state(nodes: usize) -> RunSnapshot {
        let mut state = RunSnapshot::new("running");
        for node in 0..nodes {
            let output = format!("the output of node {node}, and some more words of it");
            state.outputs.insert(format!("node-{node}"), output.into());
        }
        state
    }

    /// Saves states of 100 and more nodes, and gives each with its sequence.
    fn saved(count: usize) -> Vec<(u64, EncodedSnapshot)> {
        let mut chain = SnapshotChain::default();
        (0..count)
            .map(|at| {
                let sequence = at as u64 * 3;
                let (snapshot, next) = chain.next(sequence, &state(100 + at).encode().unwrap());
                chain = next;
                (sequence, snapshot)
            })
            .collect()
    }

    fn read(all: &[(u64, EncodedSnapshot)], sequence: u64) -> Result<Option<RunSnapshot>> {
        let (mut texts, mut wanted) = (SnapshotTexts::new(), sequence);
        loop {
            let found = all.iter().find(|(at, _)| *at == wanted);
            let (at, snapshot) = found.expect("it was saved");
            match texts.read(*at, &snapshot.meta, snapshot.payload.as_bytes())? {
                SnapshotRead::State(state) => return Ok(Some(*state)),
                SnapshotRead::Wanted(earlier) => wanted = earlier,
                SnapshotRead::Gone => return Ok(None),
            }
        }
    }

    fn diff(json: &str) -> EncodedSnapshot {
        EncodedSnapshot {
            meta: vec![1, RUN_SNAPSHOT_DIFF],
            payload: RawJson::parse(json).unwrap(),
        }
    }

    #[test]
    fn each_state_is_read_whole() {
        let all = saved(200);
        let whole = all
            .iter()
            .filter(|(_, snapshot)| snapshot.meta == [1, RUN_SNAPSHOT]);
        assert_eq!(whole.count(), 1);
        for (at, (sequence, _)) in all.iter().enumerate() {
            assert_eq!(read(&all, *sequence).unwrap(), Some(state(100 + at)));
        }
    }

    #[test]
    fn a_chain_keeps_a_state_of_each_level_and_the_first() {
        let mut chain = SnapshotChain::default();
        let mut longest = 0;
        for at in 0..200 {
            let whole = state(100 + at).encode().unwrap();
            longest = whole.payload.as_bytes().len();
            (_, chain) = chain.next(at as u64, &whole);
        }
        let states = chain.bytes() / longest;
        assert!((1..=4).contains(&states), "{states}");
    }

    #[test]
    fn a_state_never_differs_from_one_at_its_own_sequence() {
        let (first, chain) = SnapshotChain::default().next(5, &state(100).encode().unwrap());
        let (second, chain) = chain.next(5, &state(101).encode().unwrap());
        let (third, _) = chain.next(6, &state(102).encode().unwrap());
        let all = [(5, second), (6, third)];
        assert_eq!(first.meta, [1, RUN_SNAPSHOT]);
        assert_eq!(all[0].1.meta, [1, RUN_SNAPSHOT]);
        assert_eq!(all[1].1.meta, [1, RUN_SNAPSHOT_DIFF]);
        assert_eq!(read(&all, 6).unwrap(), Some(state(102)));
    }

    #[test]
    fn after_a_truncation_the_chain_begins_anew() {
        let (_, chain) = SnapshotChain::default().next(5, &state(100).encode().unwrap());
        let (snapshot, _) = chain.next(4, &state(101).encode().unwrap());
        assert_eq!(snapshot.meta, [1, RUN_SNAPSHOT]);
    }

    #[test]
    fn another_one_in_the_place_of_an_earlier_state_is_noticed() {
        let mut all = saved(3);
        all[0].1.payload = RawJson::from_value(&state(50)).unwrap();
        assert_eq!(read(&all, 6).unwrap(), None);
    }

    #[test]
    fn differences_that_lead_nowhere_are_damage() {
        for json in [
            r#"{"from":{"sequence":3,"crc":1},"diff":[]}"#,
            r#"{"from":{"sequence":4,"crc":1},"diff":[]}"#,
            r#"{"from":{},"diff":[]}"#,
            "[]",
        ] {
            let error = read(&[(3, diff(json))], 3).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{json}");
        }
        let text = format!(r#"["{}"]"#, "x".repeat(1 << 20));
        let crc = crc::hash(text.as_bytes());
        let whole = EncodedSnapshot {
            meta: vec![1, RUN_SNAPSHOT],
            payload: RawJson::parse(text).unwrap(),
        };
        let ranges = vec!["[0,1000000]"; 70].join(",");
        for ranges in ["[9,1048576]", "[18446744073709551615,2]", &ranges] {
            let long = diff(&format!(
                r#"{{"from":{{"sequence":1,"crc":{crc}}},"diff":[{ranges}]}}"#
            ));
            let error = read(&[(1, whole.clone()), (2, long)], 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged);
        }
    }
}
