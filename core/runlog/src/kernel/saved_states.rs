//! [`SavedStates`]: the states of flows that later ones are saved as differences from, of all flows together within a bound.

use std::collections::{BTreeMap, HashMap};

use runlog_log::StreamInfo;
use runlog_model::{RunId, SnapshotChain};

/// How many bytes the states of all flows take together. Where they are more, those of the flows that saved none for the
/// longest time are forgotten, and their next state is saved whole. One flow has as much as it needs, some four states.
const BYTES_MAX: usize = 64 << 20;

/// The states of a run's flow that were saved here.
#[derive(Default)]
pub(crate) struct SavedStates {
    pub(crate) chain: SnapshotChain,
    /// [`Backend::redactions`](runlog_log::Backend::redactions) before that: one of them may be redacted since.
    pub(crate) redactions: u64,
    /// The run's stream before that: a truncation may have taken some of them away since, also where the stream is longer again.
    pub(crate) stream: Option<StreamInfo>,
}

impl SavedStates {
    /// The chain to go on with, which is a new one where one of its states may be gone.
    pub(crate) fn chain(self, redactions: u64, stream: Option<&StreamInfo>) -> SnapshotChain {
        let is_whole = self.redactions == redactions && goes_on(stream, self.stream.as_ref());
        if is_whole {
            self.chain
        } else {
            SnapshotChain::default()
        }
    }
}

/// Whether nothing of a stream was taken away since it was as `before`.
pub(crate) fn goes_on(stream: Option<&StreamInfo>, before: Option<&StreamInfo>) -> bool {
    before.is_some_and(|before| stream.is_some_and(|stream| stream.goes_on_from(before)))
}

/// The states of all flows that this process drives.
#[derive(Default)]
pub(super) struct KeptStates {
    of_runs: HashMap<RunId, Kept>,
    /// The runs by their last save.
    by_use: BTreeMap<u64, RunId>,
    uses: u64,
    bytes: usize,
}

struct Kept {
    states: SavedStates,
    bytes: usize,
    used: u64,
}

impl KeptStates {
    pub(super) fn take(&mut self, run: RunId) -> SavedStates {
        let Some(kept) = self.of_runs.remove(&run) else {
            return SavedStates::default();
        };
        self.by_use.remove(&kept.used);
        self.bytes -= kept.bytes;
        kept.states
    }

    pub(super) fn keep(&mut self, run: RunId, states: SavedStates) {
        self.take(run);
        self.uses += 1;
        let (bytes, used) = (states.chain.bytes(), self.uses);
        self.bytes += bytes;
        self.by_use.insert(used, run);
        let kept = Kept {
            states,
            bytes,
            used,
        };
        self.of_runs.insert(run, kept);
        self.bound(BYTES_MAX);
    }

    /// Forgets those of the flows that saved none for the longest time, but for the last.
    fn bound(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && self.by_use.len() > 1
            && let Some((_, oldest)) = self.by_use.first_key_value()
        {
            self.take(*oldest);
        }
    }
}

#[cfg(test)]
impl KeptStates {
    pub(super) fn is_empty(&self) -> bool {
        self.of_runs.is_empty() && self.by_use.is_empty() && self.bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use runlog_model::RunSnapshot;
    use uuid::Uuid;

    use super::*;

    const MIB: usize = 1 << 20;

    /// States of a flow, of so many bytes in all.
    fn states(bytes: usize) -> SavedStates {
        let mut state = RunSnapshot::new("running");
        state
            .outputs
            .insert("node".to_owned(), "x".repeat(bytes).into());
        let (_, chain) = SnapshotChain::default().next(1, &state.encode().unwrap());
        SavedStates {
            chain,
            ..SavedStates::default()
        }
    }

    fn run(number: usize) -> RunId {
        RunId(Uuid::from_u128(number as u128))
    }

    #[test]
    fn the_states_of_all_flows_stay_within_a_bound_and_those_used_last_are_kept() {
        let mut kept = KeptStates::default();
        for number in 0..100 {
            kept.keep(run(number), states(MIB));
            // This one saves again and again.
            kept.keep(run(0), states(MIB));
            assert!(kept.bytes <= BYTES_MAX, "{}", kept.bytes);
        }
        assert!((60..64).contains(&kept.of_runs.len()));
        assert_eq!(kept.of_runs.len(), kept.by_use.len());
        for (number, is_kept) in [(0, true), (99, true), (50, true), (10, false)] {
            let states = kept.take(run(number));
            assert_eq!(states.chain.bytes() > 0, is_kept, "{number}");
        }
    }

    #[test]
    fn a_flow_whose_states_are_over_the_bound_alone_keeps_them() {
        let mut kept = KeptStates::default();
        kept.keep(run(1), states(MIB));
        kept.keep(run(2), states(MIB));
        kept.bound(MIB / 2);
        assert_eq!(kept.of_runs.len(), 1);
        assert!(kept.take(run(2)).chain.bytes() > MIB);
        assert_eq!(kept.bytes, 0);
    }
}
