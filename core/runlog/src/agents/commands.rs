//! The commands of an active run: sending them, and finding those that are left for the run that resumes it.

use runlog_log::Sequence;
use runlog_model::{EncodedEvent, RawJson, RunId, RuntimeCommand, TakenRecord};

use super::{active_run::ActiveRun, inner::Inner};
use crate::{
    Error, Result,
    contexts::AppendOptions,
    flows::{command_received, load_snapshot, receive_since},
    runs::BatchExtras,
};

/// The record that a run took `count` commands.
pub(super) fn taken_record(count: u32, at_ms: u64) -> Result<EncodedEvent> {
    TakenRecord { count, at_ms }.encode()
}

impl Inner {
    /// Records a command, and puts it into the run's inbox. One that names another run is refused.
    pub(super) async fn send(&self, live: &ActiveRun, command: &RawJson) -> Result<()> {
        let id = live.id();
        let read: RuntimeCommand = command.to_value()?;
        if let Some(named) = read.run_id.as_deref()
            && named.parse() != Ok(id)
        {
            return Err(Error::invalid(format!(
                "the command's runId is {named:?}, but it is sent to run {id}; send it to the run it names, or leave \
                 its runId out"
            )));
        }
        let read = RuntimeCommand {
            run_id: Some(id.to_string()),
            ..read
        };
        // What is read back after a crash is checked like this; what failed then would be lost.
        read.check()?;
        let _pass = live.write_guard().await;
        if live.ended.is_cancelled() {
            return Err(self.not_here(id).await?);
        }
        let room = live.inbox.room(&read).await?;
        let event = command_received(command, Some(id.to_string()), None, self.now_ms())?;
        let events = [event.encode()];
        let extras = BatchExtras::events(&events);
        live.recorder
            .record_with(&[], &AppendOptions::default(), &extras)
            .await?;
        room.fill(read);
        Ok(())
    }

    /// The commands that a paused run didn't take, for the run that resumes it.
    pub(super) async fn commands_left_by(&self, id: RunId) -> Result<Vec<RuntimeCommand>> {
        // Go back to the last run with a snapshot; it holds the commands that waited then.
        let mut runs = vec![id];
        let (mut covered, mut state) = loop {
            let oldest = runs.last().copied().unwrap_or(id);
            if let Some(saved) = load_snapshot(&self.store, oldest, Sequence::MAX).await? {
                break (saved.covered, saved.state);
            }
            let run = self.store.runs().get(oldest).await?;
            match run.and_then(|run| run.resumed_from) {
                Some(before) => runs.push(before),
                None => break Default::default(),
            }
        };
        while let Some(run) = runs.pop() {
            let own = run.to_string();
            receive_since(&self.store, run, covered, &mut state).await?;
            // Commands for other runs belong to the flow.
            state
                .inbox
                .retain(|command| command.run_id.as_deref() == Some(&own));
            if let Some(next) = runs.last() {
                for command in &mut state.inbox {
                    command.run_id = Some(next.to_string());
                }
            }
            covered = 0;
        }
        Ok(state.inbox)
    }
}
