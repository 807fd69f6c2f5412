//! The state of a flow, from its run's stream: the latest snapshot, and the commands received since.

use runlog_log::{Kind, ReadOptions, Sequence, Snapshot};
use runlog_model::{
    FlowEventKind, RawJson, RunId, RunSnapshot, RuntimeCommand, RuntimeEvent, SnapshotRead,
    SnapshotTexts, TakenRecord, kinds,
};
use serde::{Deserialize, Serialize};

use crate::{ErrorKind, Result, Store, journal::follow::read_each, kernel::records::run_stream};

/// A `command:received` event.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct CommandReceived {
    #[serde(rename = "type")]
    event_type: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
    timestamp: u64,
    command: RawJson,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The event of a received command.
pub(crate) fn command_received(
    command: &RawJson,
    run_id: Option<String>,
    error: Option<String>,
    timestamp: u64,
) -> Result<RuntimeEvent> {
    let event_type = "command:received".to_owned();
    let event = CommandReceived {
        event_type,
        run_id,
        timestamp,
        command: command.clone(),
        error,
    };
    RuntimeEvent::of_json(RawJson::from_value(&event)?)
}

/// A state of a flow as it was saved.
#[derive(Default)]
pub(crate) struct SavedState {
    /// The sequence it covers.
    pub(crate) covered: u64,
    pub(crate) state: RunSnapshot,
    /// How many newer ones can't be read any more.
    pub(crate) unreadable: u32,
}

/// The newest run snapshot at or before a sequence. Other snapshots in the same stream are skipped, and those that can't be
/// read any more, because they or one that they differ from was redacted, lost, or replaced by another snapshot: they are counted.
pub(crate) async fn load_snapshot(
    store: &Store,
    run: RunId,
    at_or_before: Sequence,
) -> Result<Option<SavedState>> {
    let (mut at, mut unreadable) = (at_or_before, 0);
    loop {
        let snapshot = match store.backend().latest_snapshot(run_stream(run), at).await {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        unreadable += snapshot.redacted_since;
        if RunSnapshot::is_one(&snapshot.meta) {
            if let Some(state) = whole_state(store, run, &snapshot).await? {
                return Ok(Some(SavedState {
                    covered: snapshot.sequence.0,
                    state,
                    unreadable,
                }));
            }
            unreadable += 1;
        }
        let Some(before) = snapshot.sequence.0.checked_sub(1) else {
            return Ok(None);
        };
        at = Sequence(before);
    }
}

/// The state of a snapshot, which may be saved as the difference from earlier ones. `None` where one of those is gone.
async fn whole_state(
    store: &Store,
    run: RunId,
    snapshot: &Snapshot,
) -> Result<Option<RunSnapshot>> {
    let mut texts = SnapshotTexts::new();
    let mut read = texts.read(snapshot.sequence.0, &snapshot.meta, &snapshot.payload)?;
    loop {
        let wanted = match read {
            SnapshotRead::State(state) => return Ok(Some(*state)),
            SnapshotRead::Gone => return Ok(None),
            SnapshotRead::Wanted(sequence) => Sequence(sequence),
        };
        let earlier = store
            .backend()
            .latest_snapshot(run_stream(run), wanted)
            .await?;
        let earlier = earlier.filter(|it| it.sequence == wanted && RunSnapshot::is_one(&it.meta));
        let Some(earlier) = earlier else {
            return Ok(None);
        };
        read = texts.read(wanted.0, &earlier.meta, &earlier.payload)?;
    }
}

/// Adds the commands that were received after a sequence to the inbox, and returns the stream's last sequence.
pub(crate) async fn receive_since(
    store: &Store,
    run: RunId,
    covered: u64,
    state: &mut RunSnapshot,
) -> Result<u64> {
    let last = store
        .backend()
        .stream(run_stream(run))
        .await?
        .map_or(0, |info| info.last_sequence.0);
    receive(store, run, covered, last, state).await?;
    Ok(last)
}

/// The state of a flow at a sequence: the latest snapshot, and the commands received since. `None` without a snapshot.
pub(super) async fn state_at(
    store: &Store,
    run: RunId,
    last: Sequence,
) -> Result<Option<RunSnapshot>> {
    let Some(mut saved) = load_snapshot(store, run, last).await? else {
        return Ok(None);
    };
    let end = store
        .backend()
        .stream(run_stream(run))
        .await?
        .map_or(0, |info| info.last_sequence.0);
    let covered = saved.covered;
    receive(store, run, covered, end.min(last.0), &mut saved.state).await?;
    Ok(Some(saved.state))
}

/// Adds the commands of a range of the run's stream, after `covered` and up to `last`, to the inbox, without those that
/// the run took.
pub(super) async fn receive(
    store: &Store,
    run: RunId,
    covered: u64,
    last: u64,
    state: &mut RunSnapshot,
) -> Result<()> {
    let options = ReadOptions {
        first: Sequence(covered).next(),
        last: Sequence(last),
        kinds: vec![
            Kind(FlowEventKind::Command.byte()),
            Kind(kinds::COMMANDS_TAKEN),
        ],
        ..ReadOptions::default()
    };
    read_each(
        &**store.backend(),
        run_stream(run),
        options,
        &mut |record| {
            if record.redacted {
                return Ok(());
            }
            if record.kind.0 == kinds::COMMANDS_TAKEN {
                let taken = TakenRecord::decode(record.kind.0, &record.meta, &record.payload)?;
                forget_taken(run, taken.count, state);
                return Ok(());
            }
            let event = RuntimeEvent::decode(&record.meta, &record.payload)?;
            // An event that the caller recorded itself may have another shape; it is for observers only.
            let Ok(received) = event.json.to_value::<CommandReceived>() else {
                return Ok(());
            };
            let command = received.command.to_value::<RuntimeCommand>().ok();
            // A command that was sent to a run need not name it itself.
            let command = command.map(|command| RuntimeCommand {
                run_id: command.run_id.or(received.run_id),
                ..command
            });
            let is_good =
                |command: &RuntimeCommand| received.error.is_none() && command.check().is_ok();
            state.inbox.extend(command.filter(is_good));
            Ok(())
        },
    )
    .await
}

/// Removes the `count` oldest commands for the run itself from the inbox: they were taken.
fn forget_taken(run: RunId, count: u32, state: &mut RunSnapshot) {
    let (own, mut left) = (run.to_string(), count);
    state.inbox.retain(|command| {
        let is_taken = left > 0 && command.run_id.as_deref() == Some(&own);
        left -= u32::from(is_taken);
        !is_taken
    });
}
