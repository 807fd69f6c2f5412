//! The commands of a flow: receiving them, and delivering them to the runs that they are for.

use std::sync::Arc;

use runlog_model::{RawJson, RunId, RuntimeCommand, RuntimeEvent, limits::INBOX_BYTES_MAX};

use super::{run::FlowRun, state::command_received};
use crate::{
    Error, ErrorKind, Result,
    kernel::inbox::{COMMANDS_MAX, Inbox, Taker, bytes_of, size_with, too_large},
};

impl FlowRun {
    /// Receives a command: it is recorded as `command:received`, and waits in the inbox of the run it names. Durable
    /// when it returns.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is no command, a `send` or `reply` without a `runId`,
    /// or for an active [run](crate::runs::Runs) that isn't this flow's: it is recorded nevertheless, with its payload
    /// unchanged and the error, and is added to no inbox. [`LimitReached`](crate::ErrorKind::LimitReached), and nothing is
    /// recorded, when the inbox is full: that of an orchestrator that works on the run, or that of the flow, which holds
    /// 1,024 commands; either holds 16 MiB of JSON. [`TooLarge`](crate::ErrorKind::TooLarge) for a command that is larger.
    pub async fn command(&mut self, command: &RawJson) -> Result<()> {
        let read: Result<RuntimeCommand> = command.to_value();
        let checked = match read.and_then(|command| command.check().map(|()| command)) {
            Ok(command) => self.check_addressee(&command).await.map(|()| command),
            Err(error) => Err(error),
        };
        match checked {
            Ok(command_read) => {
                let event = self.received(command, command_read.run_id.clone(), None)?;
                let Some(inbox) = self.own_inbox().filter(|_| self.is_own(&command_read)) else {
                    self.check_room(&command_read).await?;
                    self.record(&event).await?;
                    self.state.inbox.push(command_read);
                    return Ok(());
                };
                let room = inbox.room(&command_read).await?;
                self.record(&event).await?;
                room.fill(command_read);
                self.show_own_inbox();
                Ok(())
            }
            Err(error) => {
                let event = self.received(command, None, Some(error.to_string()))?;
                self.record(&event).await?;
                Err(error)
            }
        }
    }

    /// An error if this command may not wait for the flow beside the others.
    pub(super) async fn check_room(&mut self, command: &RuntimeCommand) -> Result<()> {
        // Those in an inbox of an orchestrator's are bounded there.
        let apart = self.own_inbox().map(|_| self.run.to_string());
        let count = |commands: &[RuntimeCommand]| {
            let counted = |command: &&RuntimeCommand| {
                apart.is_none() || command.run_id.as_deref() != apart.as_deref()
            };
            let counted = || commands.iter().filter(counted);
            (counted().count(), bytes_of(counted().chain([command])))
        };
        let has_room = |(there, bytes)| there < COMMANDS_MAX && bytes <= INBOX_BYTES_MAX;
        if has_room(count(&self.state.inbox)) {
            return Ok(());
        }
        // Another handle may have taken some since, and saved that.
        let waiting = Self::waiting(&self.store, self.run).await?;
        let (there, bytes) = count(&waiting);
        if has_room((there, bytes)) {
            self.state.inbox = waiting;
            self.show_own_inbox();
            return Ok(());
        }
        if there == 0 {
            return Err(too_large(bytes));
        }
        Err(Error::new(
            ErrorKind::LimitReached,
            format!(
                "{there} commands wait for the flow already{}; let it take some, and save that, before more are sent",
                size_with(bytes)
            ),
        ))
    }

    /// A run of the store that isn't this flow's has its own inbox; it would never see a command in the flow's inbox.
    async fn check_addressee(&self, command: &RuntimeCommand) -> Result<()> {
        let named = command
            .run_id
            .as_deref()
            .and_then(|id| id.parse::<RunId>().ok());
        let Some(named) = named.filter(|named| *named != self.run) else {
            return Ok(());
        };
        if self.store.runs().is_unfinished(named).await? {
            return Err(Error::invalid(format!(
                "run {named} is not part of the flow of run {}, and would never see the command: send it by the \
                 orchestrator that works on it",
                self.run
            )));
        }
        Ok(())
    }

    /// The inbox of the flow's own run, if an orchestrator of this process executes that: both share it.
    pub(super) fn own_inbox(&self) -> Option<Arc<Inbox>> {
        self.store.shared.flows.shared().inboxes().of(self.run)
    }

    /// Whether a command is for the flow's own run.
    fn is_own(&self, command: &RuntimeCommand) -> bool {
        let named = command.run_id.as_deref().map(str::parse);
        named == Some(Ok(self.run))
    }

    /// Copies the commands that wait for the flow's own run into the state, if an orchestrator executes the run.
    pub(super) fn show_own_inbox(&mut self) {
        if let Some(inbox) = self.own_inbox() {
            self.show(inbox.waiting());
        }
    }

    /// Replaces the commands for its own run in the state.
    pub(super) fn show(&mut self, own: Vec<RuntimeCommand>) {
        let run = self.run.to_string();
        let shown = &mut self.state.inbox;
        shown.retain(|command| command.run_id.as_deref() != Some(&run));
        shown.extend(own);
    }

    /// Adds a command that was just recorded.
    pub(super) fn keep(&mut self, command: RuntimeCommand) {
        match self.own_inbox().filter(|_| self.is_own(&command)) {
            Some(inbox) => {
                inbox.push(command);
                self.show_own_inbox();
            }
            None => self.state.inbox.push(command),
        }
    }

    /// Takes the commands that wait for a run, in the order of their arrival. After a crash before the next snapshot
    /// they wait again: delivery is at least once.
    ///
    /// If an [orchestrator](crate::agents::Orchestrator) of this process executes the flow's own run, both share one
    /// inbox: a command for the run is taken by the agent or here, whichever comes first, and it waits again after a
    /// crash only if the run has recorded nothing since. A handle that was superseded, because another has resumed the flow
    /// since, takes none.
    pub fn take_inbox(&mut self, run_id: &str) -> Vec<RuntimeCommand> {
        if self.is_superseded() {
            return Vec::new();
        }
        if run_id.parse() == Ok(self.run)
            && let Some(inbox) = self.own_inbox()
        {
            let taken = inbox.take_all(Taker::Flow);
            self.show_own_inbox();
            return taken;
        }
        let inbox = std::mem::take(&mut self.state.inbox);
        let (taken, left) = inbox
            .into_iter()
            .partition(|command| command.run_id.as_deref() == Some(run_id));
        self.state.inbox = left;
        taken
    }

    /// Takes the first command with a message (`send`, or `reply`) that waits for a run. All others go on waiting, also
    /// those before it: for whoever gives messages to an agent one after the other, until the agent takes no more. As
    /// [`take_inbox`](Self::take_inbox) otherwise.
    pub fn take_message(&mut self, run_id: &str) -> Option<RuntimeCommand> {
        if self.is_superseded() {
            return None;
        }
        if run_id.parse() == Ok(self.run)
            && let Some(inbox) = self.own_inbox()
        {
            let taken = inbox.take_first(Taker::Flow, |command| command.message().is_some());
            self.show_own_inbox();
            return taken;
        }
        let is_wanted = |command: &RuntimeCommand| {
            command.run_id.as_deref() == Some(run_id) && command.message().is_some()
        };
        let place = self.state.inbox.iter().position(is_wanted)?;
        Some(self.state.inbox.remove(place))
    }

    /// Has a command wait again, before all others, that was taken by this handle and not used. Where a snapshot was
    /// saved since, a crash before the next one loses it.
    pub fn give_back(&mut self, command: RuntimeCommand) {
        match self.own_inbox().filter(|_| self.is_own(&command)) {
            Some(inbox) => {
                inbox.give_back(Taker::Flow, command);
                self.show_own_inbox();
            }
            None => self.state.inbox.insert(0, command),
        }
    }

    /// Takes the commands that aren't for a particular run, such as `resume`.
    pub fn take_own_inbox(&mut self) -> Vec<RuntimeCommand> {
        if self.is_superseded() {
            return Vec::new();
        }
        let inbox = std::mem::take(&mut self.state.inbox);
        let (taken, left) = inbox
            .into_iter()
            .partition(|command| command.run_id.is_none());
        self.state.inbox = left;
        taken
    }

    pub(super) fn received(
        &self,
        command: &RawJson,
        run_id: Option<String>,
        error: Option<String>,
    ) -> Result<RuntimeEvent> {
        command_received(command, run_id, error, self.store.backend().now_ms())
    }
}
