//! [`Rebuilt`]: the context of a paused run, read for the run that resumes it.

use runlog_model::{
    ContextEvent, DanglingFold, DanglingToolCall, Message, RawJson, Role, ToolStyle, style_of,
};

use super::{Runs, load::LoadedRun};
use crate::{Error, ErrorKind, Result, journal::follow::let_others_run};

/// The paused run's context.
#[derive(Default)]
pub(super) struct Rebuilt {
    /// All of its messages; none where they aren't asked for.
    pub(super) messages: Vec<Message>,
    /// The newest of them.
    pub(super) newest: Option<(Role, RawJson)>,
    /// The form of the newest that tells one, if that is asked for.
    pub(super) style: Option<ToolStyle>,
    /// The tool calls that have no result.
    pub(super) dangling: Vec<DanglingToolCall>,
    pub(super) last_sequence: u64,
}

/// What is asked for of a context.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) messages: bool,
    pub(super) style: bool,
}

impl Rebuilt {
    /// Looks at the messages behind the first `known`, and drops what isn't wanted.
    fn look_at_new(&mut self, known: usize, wanted: Wanted) {
        let new = self.messages.get(known..).unwrap_or_default();
        if let Some(newest) = new.last() {
            self.newest = Some((newest.role, newest.json.clone()));
        }
        if wanted.style {
            let newest = new.iter().rev().find_map(|message| style_of(&message.json));
            self.style = newest.or(self.style);
        }
        if !wanted.messages {
            self.messages.clear();
        }
    }
}

impl Runs {
    /// Reads the context of a paused run, in parts, between which others run: it may be long.
    pub(super) async fn rebuild(&self, old: &LoadedRun, wanted: Wanted) -> Result<Rebuilt> {
        let contexts = self.store.contexts();
        let mut messages = contexts.message_fold(old.run.instance_id).await?;
        let mut dangling = DanglingFold::new();
        let mut rebuilt = Rebuilt::default();
        let mut pages = contexts.events(old.run.instance_id, 1).await?;
        while let Some(page) = pages.next_page().await? {
            let known = rebuilt.messages.len();
            for event in &page {
                check_own(old, event)?;
                rebuilt.last_sequence = event.sequence_number;
                messages.push(event, &mut rebuilt.messages)?;
                dangling.push(event)?;
            }
            rebuilt.look_at_new(known, wanted);
            drop(page);
            let_others_run().await;
        }
        let known = rebuilt.messages.len();
        messages.finish(&mut rebuilt.messages);
        rebuilt.look_at_new(known, wanted);
        rebuilt.dangling = dangling.finish();
        Ok(rebuilt)
    }
}

/// An error if an event after the pause belongs to another run: the context wouldn't be as it was before the pause.
fn check_own(old: &LoadedRun, event: &ContextEvent) -> Result<()> {
    let since = old
        .ended_position
        .is_some_and(|ended| event.position > ended);
    match event.run_id {
        Some(other) if since && other != old.run.id => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "run {other} has written to the context since run {} was paused, from event {} on; truncate it, or copy the session up to there",
                old.run.id, event.sequence_number
            ),
        )),
        _ => Ok(()),
    }
}
