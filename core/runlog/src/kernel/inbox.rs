//! [`Inbox`]: the commands that wait for one run; [`Inboxes`]: those of the runs that an orchestrator of this process works on.
//!
//! Such a run has one inbox, whoever sends: its orchestrator, a handle of its flow, or another process before this one, whose
//! commands are in the run's stream. Each command is taken once, by the run's agent or by its flow.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, Weak},
};

use runlog_model::{RunId, RuntimeCommand};
use tokio::sync::Notify;

use crate::{Error, ErrorKind, Result};

/// Commands in the order they came, at most so many of them.
pub(crate) struct Inbox {
    of: RunId,
    waiting: Mutex<Waiting>,
    arrived: Notify,
    commands_max: usize,
    /// Held while what is written of the inbox has to agree with it: a command that comes, a snapshot, a note of what was taken.
    writing: tokio::sync::Mutex<()>,
    /// Where it is found, until it is dropped.
    listed: Weak<Inboxes>,
}

#[derive(Default)]
struct Waiting {
    commands: VecDeque<RuntimeCommand>,
    /// How many were taken that the run's stream doesn't tell of yet.
    untold: u32,
}

impl Inbox {
    /// An inbox that nobody finds: of a run that somebody else works on, or nobody does.
    pub(crate) fn unlisted(of: RunId, commands_max: usize) -> Arc<Self> {
        Arc::new(Self::made(of, Vec::new(), commands_max, Weak::new()))
    }

    fn made(
        of: RunId,
        waiting: Vec<RuntimeCommand>,
        commands_max: usize,
        listed: Weak<Inboxes>,
    ) -> Self {
        // Those that waited for a run that it goes on from are its own.
        let own = |command| RuntimeCommand {
            run_id: Some(of.to_string()),
            ..command
        };
        let waiting = Waiting {
            commands: waiting.into_iter().map(own).collect(),
            untold: 0,
        };
        Self {
            of,
            waiting: Mutex::new(waiting),
            arrived: Notify::new(),
            commands_max,
            writing: tokio::sync::Mutex::default(),
            listed,
        }
    }

    /// Refuses what would be one too many.
    pub(crate) fn check_room(&self) -> Result<()> {
        if self.locked().commands.len() < self.commands_max {
            return Ok(());
        }
        let max = self.commands_max;
        Err(Error::new(
            ErrorKind::LimitReached,
            format!(
                "{max} commands wait for the run already; let it take some before more are sent"
            ),
        ))
    }

    /// Keeps others from writing of the inbox until it is dropped.
    pub(crate) async fn writing(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.writing.lock().await
    }

    /// Puts in a command that is in the run's stream.
    pub(crate) fn push(&self, command: RuntimeCommand) {
        self.locked().commands.push_back(RuntimeCommand {
            run_id: Some(self.of.to_string()),
            ..command
        });
        self.arrived.notify_one();
    }

    /// Takes the first one that waits.
    pub(crate) fn take(&self) -> Option<RuntimeCommand> {
        let mut waiting = self.locked();
        let command = waiting.commands.pop_front()?;
        waiting.untold += 1;
        Some(command)
    }

    /// Takes all that wait.
    pub(crate) fn take_all(&self) -> Vec<RuntimeCommand> {
        std::iter::from_fn(|| self.take()).collect()
    }

    /// Takes the first one, once there is one.
    pub(crate) async fn next(&self) -> RuntimeCommand {
        loop {
            // Created before the look, so that no command is missed in between.
            let arrived = self.arrived.notified();
            if let Some(command) = self.take() {
                if !self.locked().commands.is_empty() {
                    self.arrived.notify_one();
                }
                return command;
            }
            arrived.await;
        }
    }

    /// Those that wait, and how many were taken that the run's stream doesn't tell of yet: what a snapshot says of it.
    pub(crate) fn saved(&self) -> (Vec<RuntimeCommand>, u32) {
        let waiting = self.locked();
        (waiting.commands.iter().cloned().collect(), waiting.untold)
    }

    /// Takes the last one that is as wanted.
    pub(crate) fn remove(&self, wanted: &RuntimeCommand) -> bool {
        let mut waiting = self.locked();
        let found = waiting
            .commands
            .iter()
            .rposition(|command| command == wanted);
        found
            .and_then(|index| waiting.commands.remove(index))
            .is_some()
    }

    /// How many were taken that the run's stream doesn't tell of yet.
    pub(crate) fn untold(&self) -> u32 {
        self.locked().untold
    }

    /// The run's stream tells now of so many more that were taken. Call it with [`writing`](Self::writing) held since they were
    /// counted.
    pub(crate) fn told(&self, count: u32) {
        let mut waiting = self.locked();
        waiting.untold = waiting.untold.saturating_sub(count);
    }

    /// The lock is never held across a wait.
    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting
            .lock()
            .expect("an inbox was left broken by a panic")
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        if let Some(inboxes) = self.listed.upgrade() {
            inboxes.forget(self.of);
        }
    }
}

/// The inboxes of the runs that are worked on here.
#[derive(Default)]
pub(crate) struct Inboxes(Mutex<HashMap<RunId, Weak<Inbox>>>);

impl Inboxes {
    /// Opens the inbox of a run, with what waits for it already. It is found until it is dropped.
    pub(crate) fn open(
        self: &Arc<Self>,
        of: RunId,
        waiting: Vec<RuntimeCommand>,
        commands_max: usize,
    ) -> Arc<Inbox> {
        let inbox = Inbox::made(of, waiting, commands_max, Arc::downgrade(self));
        let inbox = Arc::new(inbox);
        self.locked().insert(of, Arc::downgrade(&inbox));
        inbox
    }

    /// The inbox of a run, where somebody here works on it.
    pub(crate) fn of(&self, run: RunId) -> Option<Arc<Inbox>> {
        self.locked().get(&run)?.upgrade()
    }

    fn forget(&self, run: RunId) {
        let mut inboxes = self.locked();
        // Another may have been opened since.
        if inboxes
            .get(&run)
            .is_some_and(|inbox| inbox.strong_count() == 0)
        {
            inboxes.remove(&run);
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<RunId, Weak<Inbox>>> {
        self.0
            .lock()
            .expect("the list of inboxes was left broken by a panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunId {
        "0198c7e0-0000-7000-8000-000000000001".parse().unwrap()
    }

    #[test]
    fn commands_come_in_their_order_and_are_bounded() {
        let inboxes = Arc::new(Inboxes::default());
        let inbox = inboxes.open(run(), vec![RuntimeCommand::new("first")], 2);
        inbox.check_room().unwrap();
        inbox.push(RuntimeCommand::new("second"));
        assert_eq!(
            inbox.check_room().unwrap_err().kind(),
            ErrorKind::LimitReached
        );
        assert_eq!(inbox.saved().0.len(), 2);
        assert_eq!(pollster::block_on(inbox.next()).command_type, "first");
        assert_eq!(pollster::block_on(inbox.next()).command_type, "second");
        assert_eq!(inbox.take(), None);
        assert_eq!(inbox.untold(), 2);
        inbox.told(1);
        assert_eq!(inbox.untold(), 1);
    }

    #[test]
    fn an_inbox_is_found_while_somebody_has_it() {
        let inboxes = Arc::new(Inboxes::default());
        let inbox = inboxes.open(run(), Vec::new(), 2);
        assert!(inboxes.of(run()).is_some_and(|it| Arc::ptr_eq(&it, &inbox)));
        drop(inbox);
        assert!(inboxes.of(run()).is_none());
        assert!(inboxes.locked().is_empty());
        let _unlisted = Inbox::unlisted(run(), 2);
        assert!(inboxes.of(run()).is_none());
    }
}
