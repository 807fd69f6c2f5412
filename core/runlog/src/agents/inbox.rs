//! [`Inbox`]: the commands that wait for one run.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard},
};

use runlog_model::RuntimeCommand;
use tokio::sync::Notify;

use crate::{Error, ErrorKind, Result};

/// Commands in the order they came, at most so many of them.
pub(super) struct Inbox {
    commands: Mutex<VecDeque<RuntimeCommand>>,
    arrived: Notify,
    commands_max: usize,
}

impl Inbox {
    pub(super) fn new(waiting: Vec<RuntimeCommand>, commands_max: usize) -> Self {
        Self {
            commands: Mutex::new(waiting.into()),
            arrived: Notify::new(),
            commands_max,
        }
    }

    /// Refuses what would be one too many.
    pub(super) fn check_room(&self) -> Result<()> {
        if self.commands().len() < self.commands_max {
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

    pub(super) fn push(&self, command: RuntimeCommand) {
        self.commands().push_back(command);
        self.arrived.notify_one();
    }

    /// Takes the first one that waits.
    pub(super) fn take(&self) -> Option<RuntimeCommand> {
        self.commands().pop_front()
    }

    /// Takes the first one, once there is one.
    pub(super) async fn next(&self) -> RuntimeCommand {
        loop {
            // Created before the look, so that no command is missed in between.
            let arrived = self.arrived.notified();
            if let Some(command) = self.take() {
                if !self.commands().is_empty() {
                    self.arrived.notify_one();
                }
                return command;
            }
            arrived.await;
        }
    }

    /// Those that wait, which stay.
    pub(super) fn waiting(&self) -> Vec<RuntimeCommand> {
        self.commands().iter().cloned().collect()
    }

    /// The lock is never held across a wait.
    fn commands(&self) -> MutexGuard<'_, VecDeque<RuntimeCommand>> {
        self.commands
            .lock()
            .expect("an inbox was left broken by a panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_in_their_order_and_are_bounded() {
        let inbox = Inbox::new(vec![RuntimeCommand::new("first")], 2);
        inbox.check_room().unwrap();
        inbox.push(RuntimeCommand::new("second"));
        assert_eq!(
            inbox.check_room().unwrap_err().kind(),
            ErrorKind::LimitReached
        );
        assert_eq!(inbox.waiting().len(), 2);
        assert_eq!(pollster::block_on(inbox.next()).command_type, "first");
        assert_eq!(pollster::block_on(inbox.next()).command_type, "second");
        assert_eq!(inbox.take(), None);
    }
}
