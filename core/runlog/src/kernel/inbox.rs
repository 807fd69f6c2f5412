//! [`Inbox`]: the commands that wait for one run; [`Inboxes`]: the inboxes of the runs that an orchestrator of this
//! process executes.
//!
//! Such a run has one inbox for all senders: its orchestrator, a handle of its flow, or an earlier process, whose
//! commands are in the run's stream. Each command is taken once, by the run's agent or by its flow.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, Weak},
};

use runlog_model::{RunId, RuntimeCommand, limits::INBOX_BYTES_MAX};
use tokio::sync::Notify;

use crate::{Error, ErrorKind, Result};

/// The most commands that wait for a run, unless its orchestrator was given another number; and for a flow that none
/// works on.
pub(crate) const COMMANDS_MAX: usize = 1_024;

/// How many bytes of JSON commands have.
pub(crate) fn bytes_of<'a>(commands: impl Iterator<Item = &'a RuntimeCommand>) -> usize {
    commands.map(RuntimeCommand::json_bytes).sum()
}

/// What an error says of the size of an inbox, where that is what it is full by.
pub(crate) fn size_with(bytes: usize) -> String {
    match bytes > INBOX_BYTES_MAX {
        true => format!(", with this one {bytes} bytes of JSON of at most {INBOX_BYTES_MAX}"),
        false => String::new(),
    }
}

/// The error of a command that no inbox has room for.
pub(crate) fn too_large(bytes: usize) -> Error {
    let message = format!(
        "a command has {bytes} bytes of JSON, at most {INBOX_BYTES_MAX} are allowed; keep large content elsewhere"
    );
    Error::too_large(message)
}

/// Commands in the order of their arrival.
///
/// Invariant: senders add no command while `commands_max` of them wait, or were taken by somebody who has recorded
/// nothing since; those are kept too, because a snapshot has to list them.
pub(crate) struct Inbox {
    of: RunId,
    waiting: Mutex<Waiting>,
    arrived: Notify,
    commands_max: usize,
    /// Held while a record that describes the inbox is written: a new command, a snapshot, or the number of commands taken.
    writing: tokio::sync::Mutex<()>,
    /// The list that it is removed from when it is dropped.
    listed: Weak<Inboxes>,
}

#[derive(Default)]
struct Waiting {
    commands: VecDeque<RuntimeCommand>,
    /// Those that were taken without a record of that in the run's stream, in the order of their arrival, and by whom.
    unrecorded: Vec<(Taker, RuntimeCommand)>,
}

/// A place for one command in an inbox.
pub(crate) struct Room<'a> {
    inbox: &'a Inbox,
    _writing: tokio::sync::MutexGuard<'a, ()>,
}

impl Room<'_> {
    /// Adds the command, which is in the run's stream by now.
    pub(crate) fn fill(self, command: RuntimeCommand) {
        self.inbox.push(command);
    }
}

/// Who takes commands from an inbox.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taker {
    /// The run's agent.
    Agent,
    /// A handle of the run's flow.
    Flow,
}

impl Inbox {
    /// An inbox that isn't listed: of a run that isn't executed by an orchestrator of this process.
    pub(crate) fn unlisted(of: RunId, commands_max: usize) -> Arc<Self> {
        Arc::new(Self::build(of, Vec::new(), commands_max, Weak::new()))
    }

    fn build(
        of: RunId,
        waiting: Vec<RuntimeCommand>,
        commands_max: usize,
        listed: Weak<Inboxes>,
    ) -> Self {
        // Commands that waited for a run that it resumes are now its own.
        let own = |command| RuntimeCommand {
            run_id: Some(of.to_string()),
            ..command
        };
        let waiting = Waiting {
            commands: waiting.into_iter().map(own).collect(),
            unrecorded: Vec::new(),
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

    /// Room for one more command. Nobody else gets any, or writes records about the inbox, until it is filled or dropped.
    ///
    /// # Errors
    /// [`LimitReached`](ErrorKind::LimitReached) if the inbox is full, or this command is too large for what is left.
    pub(crate) async fn room(&self, command: &RuntimeCommand) -> Result<Room<'_>> {
        self.room_within(self.writing().await, command)
    }

    /// [`room`](Self::room), for who writes about the inbox already.
    pub(crate) fn room_within<'a>(
        &'a self,
        writing: tokio::sync::MutexGuard<'a, ()>,
        command: &RuntimeCommand,
    ) -> Result<Room<'a>> {
        let (waiting, taken, bytes) = {
            let waiting = self.locked();
            let taken = waiting.unrecorded.iter().map(|(_, command)| command);
            let all = waiting.commands.iter().chain(taken);
            let bytes = bytes_of(all.chain([command]));
            (waiting.commands.len(), waiting.unrecorded.len(), bytes)
        };
        if waiting.saturating_add(taken) < self.commands_max && bytes <= INBOX_BYTES_MAX {
            return Ok(Room {
                inbox: self,
                _writing: writing,
            });
        }
        if waiting + taken == 0 && bytes > INBOX_BYTES_MAX {
            return Err(too_large(bytes));
        }
        let size = size_with(bytes);
        let what = if taken == 0 {
            format!("{waiting} commands wait for the run already{size}; let it take some")
        } else {
            format!(
                "{waiting} commands wait for the run already, and it took {taken} without recording anything since{size}; let \
                 it record a message or a snapshot"
            )
        };
        Err(Error::new(
            ErrorKind::LimitReached,
            format!("{what} before more are sent"),
        ))
    }

    /// Prevents that other tasks write records about the inbox, until the guard is dropped.
    pub(crate) async fn writing(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.writing.lock().await
    }

    /// Adds a command that is in the run's stream, whether or not there is room.
    pub(crate) fn push(&self, command: RuntimeCommand) {
        self.locked().commands.push_back(RuntimeCommand {
            run_id: Some(self.of.to_string()),
            ..command
        });
        self.arrived.notify_one();
    }

    /// Takes the first one that waits.
    pub(crate) fn take(&self, by: Taker) -> Option<RuntimeCommand> {
        self.take_first(by, |_| true)
    }

    /// Takes the first one of some. The run's stream says how many were taken, so that after a crash before the next
    /// snapshot those before it count as taken instead.
    pub(crate) fn take_first(
        &self,
        by: Taker,
        wanted: impl Fn(&RuntimeCommand) -> bool,
    ) -> Option<RuntimeCommand> {
        let mut waiting = self.locked();
        let place = waiting.commands.iter().position(wanted)?;
        let command = waiting.commands.remove(place)?;
        waiting.unrecorded.push((by, command.clone()));
        Some(command)
    }

    /// Has one wait again, before all others, that was taken and not used. One of which a record says that it was taken
    /// stays so.
    pub(crate) fn give_back(&self, by: Taker, command: RuntimeCommand) {
        let mut waiting = self.locked();
        let is_it = |(taker, taken): &(Taker, RuntimeCommand)| *taker == by && *taken == command;
        let Some(place) = waiting.unrecorded.iter().rposition(is_it) else {
            return;
        };
        waiting.unrecorded.remove(place);
        waiting.commands.push_front(command);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Takes all that wait.
    pub(crate) fn take_all(&self, by: Taker) -> Vec<RuntimeCommand> {
        std::iter::from_fn(|| self.take(by)).collect()
    }

    /// Takes the first one, once there is one.
    pub(crate) async fn next(&self, by: Taker) -> RuntimeCommand {
        loop {
            // Created before the check, so that no command is missed in between.
            let arrived = self.arrived.notified();
            if let Some(command) = self.take(by) {
                if !self.locked().commands.is_empty() {
                    self.arrived.notify_one();
                }
                return command;
            }
            arrived.await;
        }
    }

    /// The commands that wait.
    pub(crate) fn waiting(&self) -> Vec<RuntimeCommand> {
        self.locked().commands.iter().cloned().collect()
    }

    /// The content for a snapshot by one side: the commands that wait, after those that the other side took without a
    /// record of that; and how many were taken by both without a record.
    pub(crate) fn saved(&self, by: Taker) -> (Vec<RuntimeCommand>, usize) {
        let waiting = self.locked();
        let others = waiting.unrecorded.iter().filter(|(taker, _)| *taker != by);
        let others = others.map(|(_, command)| command);
        (
            others.chain(&waiting.commands).cloned().collect(),
            waiting.unrecorded.len(),
        )
    }

    /// Removes the last command that equals `wanted`.
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

    /// How many were taken without a record of that in the run's stream.
    pub(crate) fn unrecorded(&self) -> u32 {
        u32::try_from(self.locked().unrecorded.len()).unwrap_or(u32::MAX)
    }

    /// To be called once the run's stream has a record that `count` commands were taken, with
    /// [`writing`](Self::writing) held since they were counted.
    pub(crate) fn mark_recorded(&self, count: u32) {
        let mut waiting = self.locked();
        let count = waiting.unrecorded.len().min(count as usize);
        waiting.unrecorded.drain(..count);
    }

    /// To be called once a snapshot by one side is written, with [`writing`](Self::writing) held since `count` was
    /// returned by [`saved`](Self::saved).
    pub(crate) fn mark_saved(&self, by: Taker, count: usize) {
        let mut index = 0..;
        self.locked().unrecorded.retain(|(taker, _)| {
            let is_later = index.next().is_none_or(|index: usize| index >= count);
            is_later || *taker != by
        });
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

/// The inboxes of the runs that are executed here.
#[derive(Default)]
pub(crate) struct Inboxes(Mutex<HashMap<RunId, Weak<Inbox>>>);

impl Inboxes {
    /// Opens the inbox of a run, with the commands that wait already. It is listed until it is dropped.
    pub(crate) fn open(
        self: &Arc<Self>,
        of: RunId,
        waiting: Vec<RuntimeCommand>,
        commands_max: usize,
    ) -> Arc<Inbox> {
        let inbox = Inbox::build(of, waiting, commands_max, Arc::downgrade(self));
        let inbox = Arc::new(inbox);
        self.locked().insert(of, Arc::downgrade(&inbox));
        inbox
    }

    /// The inbox of a run, if it is executed here.
    pub(crate) fn of(&self, run: RunId) -> Option<Arc<Inbox>> {
        self.locked().get(&run)?.upgrade()
    }

    fn forget(&self, run: RunId) {
        let mut inboxes = self.locked();
        // A new inbox of the run may have been opened since.
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
        let is_full =
            |inbox: &Inbox| match pollster::block_on(inbox.room(&RuntimeCommand::new("more"))) {
                Ok(_) => false,
                Err(error) => error.kind() == ErrorKind::LimitReached,
            };
        pollster::block_on(inbox.room(&RuntimeCommand::new("more")))
            .unwrap()
            .fill(RuntimeCommand::new("second"));
        assert!(is_full(&inbox));
        assert_eq!(inbox.waiting().len(), 2);
        assert_eq!(
            pollster::block_on(inbox.next(Taker::Agent)).command_type,
            "first"
        );
        assert_eq!(
            pollster::block_on(inbox.next(Taker::Agent)).command_type,
            "second"
        );
        assert_eq!(inbox.take(Taker::Agent), None);
        assert_eq!(inbox.unrecorded(), 2);
        assert!(is_full(&inbox), "both are kept until that is recorded");
        inbox.mark_recorded(1);
        assert_eq!(inbox.unrecorded(), 1);
        assert!(!is_full(&inbox));
    }

    #[test]
    fn what_is_taken_and_given_back_waits_again_before_the_others() {
        let waiting = ["rate", "first", "second"].map(RuntimeCommand::new);
        let inbox = Arc::new(Inboxes::default()).open(run(), waiting.into(), 8);
        let take = |name: &'static str| {
            inbox.take_first(Taker::Flow, move |command| command.command_type == name)
        };
        let first = take("first").unwrap();
        assert_eq!(take("first"), None);
        let names = || {
            let waiting = inbox.waiting().into_iter();
            waiting
                .map(|command| command.command_type)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(), ["rate", "second"]);
        inbox.give_back(Taker::Agent, first.clone());
        assert_eq!(names(), ["rate", "second"], "another took it");
        inbox.give_back(Taker::Flow, first.clone());
        assert_eq!(names(), ["first", "rate", "second"]);
        assert_eq!(inbox.unrecorded(), 0);
        take("first").unwrap();
        inbox.mark_recorded(1);
        inbox.give_back(Taker::Flow, first);
        assert_eq!(
            names(),
            ["rate", "second"],
            "a record says that it was taken"
        );
    }

    #[test]
    fn the_last_room_is_given_to_one() {
        let inbox = Inbox::unlisted(run(), 1);
        let first = pollster::block_on(inbox.room(&RuntimeCommand::new("more"))).unwrap();
        let more = RuntimeCommand::new("more");
        let mut second = std::pin::pin!(inbox.room(&more));
        let mut waker = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(second.as_mut().poll(&mut waker).is_pending());
        first.fill(RuntimeCommand::new("first"));
        let refused = pollster::block_on(second).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::LimitReached);
        // One that isn't filled is given to the next.
        inbox.take(Taker::Agent).unwrap();
        inbox.mark_recorded(1);
        drop(pollster::block_on(inbox.room(&RuntimeCommand::new("more"))).unwrap());
        assert!(pollster::block_on(inbox.room(&RuntimeCommand::new("more"))).is_ok());
    }

    #[test]
    fn commands_of_more_than_16_mib_do_not_wait_together() {
        let inbox = Inbox::unlisted(run(), 9);
        let large = RuntimeCommand::send("r", "x".repeat(9 << 20));
        let room = |command: &RuntimeCommand| {
            let room = pollster::block_on(inbox.room(command));
            room.map(drop).map_err(|error| error.kind())
        };
        assert_eq!(room(&large), Ok(()));
        let larger = RuntimeCommand::send("r", "x".repeat(17 << 20));
        assert_eq!(room(&larger), Err(ErrorKind::TooLarge));
        inbox.push(large.clone());
        assert_eq!(room(&large), Err(ErrorKind::LimitReached));
        assert_eq!(room(&RuntimeCommand::new("small")), Ok(()));
        inbox.take(Taker::Agent).unwrap();
        assert_eq!(
            room(&large),
            Err(ErrorKind::LimitReached),
            "it is kept until that is recorded"
        );
        inbox.mark_recorded(1);
        assert_eq!(room(&large), Ok(()));
    }

    #[test]
    fn a_snapshot_by_one_side_keeps_what_the_other_took() {
        let commands = ["a", "b", "c", "d"].map(RuntimeCommand::new).to_vec();
        let inbox = Inbox::build(run(), commands, 9, Weak::new());
        for by in [Taker::Agent, Taker::Flow, Taker::Agent] {
            inbox.take(by).unwrap();
        }
        let saved = |by| {
            let (commands, count) = inbox.saved(by);
            let names = commands.into_iter().map(|it| it.command_type);
            (names.collect::<Vec<_>>().concat(), count)
        };
        assert_eq!(saved(Taker::Agent), ("bd".to_owned(), 3));
        assert_eq!(saved(Taker::Flow), ("acd".to_owned(), 3));
        inbox.take(Taker::Flow).unwrap();
        inbox.mark_saved(Taker::Flow, 3);
        assert_eq!(
            saved(Taker::Agent),
            ("d".to_owned(), 3),
            "it was taken after the snapshot"
        );
        assert_eq!(saved(Taker::Flow), ("ac".to_owned(), 3));
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
