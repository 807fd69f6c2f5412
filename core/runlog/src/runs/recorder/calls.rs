//! The tool calls of a run that its results answer: how the provider wrote them, and whether they have their result.
//!
//! Providers refuse a context with a result that answers no call, with two results of one call, or with a message
//! between a call and its result, and so every later request. The recorder therefore refuses such a result or message.
//! It knows the calls that it recorded itself, as long as nobody else wrote to the context; else, and for any other call,
//! such as that of the run before a resume, it looks into the context, from its end.

use std::collections::{BTreeMap, HashMap};

use runlog_log::Sequence;
use runlog_model::{ContextEvent, ContextEventKind, NewContextEvent, ToolStyle, tool_calls_of};

use super::{RunRecorder, open::OpenCalls};
use crate::{Error, ErrorKind, Result, contexts::events, runs::outcome::AnsweredCall};

/// How far back the call of a result is looked for, in messages, calls and results: providers take a result that follows
/// its call, so that one further away than this is no result of the run's work.
const SEARCHED_MAX: u32 = 2_048;

/// The calls that a recorder knows of, by their id.
#[derive(Default)]
pub(super) struct Calls {
    known: HashMap<String, Call>,
    /// The calls that await their results; `None` where that isn't known.
    pub(super) open: Option<OpenCalls>,
    /// The last sequence of the context that this recorder wrote or looked at.
    last: Sequence,
    /// What this recorder wrote behind that, by where it begins: writes that go on side by side end in any order.
    written: BTreeMap<Sequence, Sequence>,
    /// How many events this recorder is just writing.
    under_way: u64,
}

#[derive(Clone)]
struct Call {
    call: AnsweredCall,
    has_result: bool,
    /// Whether the call, or its result, is just being written.
    is_pending: bool,
}

/// Calls and results that are about to be written. Dropped before they were, they are forgotten: whether they were
/// written after all, the context knows.
pub(super) struct Taken<'a> {
    recorder: &'a RunRecorder,
    ids: Vec<String>,
    events: u64,
    /// Whether it is told to the recorder what is open once they are written.
    is_open_told: bool,
}

impl RunRecorder {
    /// The call that a result answers.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the context has no such call.
    pub(super) async fn call_of(&self, id: &str) -> Result<AnsweredCall> {
        self.look_for(id).await?;
        let known = self
            .state()
            .calls
            .known
            .get(id)
            .map(|known| known.call.clone());
        match known {
            Some(call) => Ok(call),
            // What is wrong with it may be that the run has ended, which matters more.
            None => self.check_running().await.and(Err(unknown(id))),
        }
    }

    /// Refuses a call whose result couldn't be recorded.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) when the context has no such call,
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when it has its result.
    pub(crate) async fn check_unanswered(&self, id: &str) -> Result<()> {
        self.look_for(id).await?;
        self.state().calls.check(id)
    }

    /// Takes in the calls and results of events that are about to be written, as far as none is refused, and says why
    /// one is: as [`check_unanswered`](Self::check_unanswered), for any of the results, and
    /// [`InvalidInput`](ErrorKind::InvalidInput) for another message while calls are open.
    pub(super) async fn take_calls<'e>(
        &self,
        events: impl Iterator<Item = &'e NewContextEvent> + Clone,
    ) -> (Taken<'_>, Result<()>) {
        let mut taken = Taken {
            recorder: self,
            ids: Vec::new(),
            events: 0,
            is_open_told: false,
        };
        let open = match self.open_before(events.clone()).await {
            Ok(open) => open,
            Err(error) => return (taken, Err(error)),
        };
        for id in events.clone().flat_map(results) {
            if let Err(error) = self.look_for(id).await {
                return (taken, Err(error));
            }
        }
        let mut events = events;
        let taking = {
            let mut state = self.state();
            taken.is_open_told = true;
            taken.events = events.clone().count() as u64;
            state.calls.under_way += taken.events;
            state.calls.open = open.or_else(|| state.calls.open.take());
            let calls = &mut state.calls;
            events.try_for_each(|event| {
                // Before the event's calls are known: a refused message makes none.
                calls
                    .open
                    .as_mut()
                    .map_or(Ok(()), |open| open.take(event))?;
                calls.take(event, &mut taken.ids)
            })
        };
        match taking {
            Ok(()) => (taken, Ok(())),
            Err(error) => (taken, self.check_running().await.and(Err(error))),
        }
    }

    /// Makes sure that a call is known if the context has it.
    async fn look_for(&self, id: &str) -> Result<()> {
        let instance = self.state().run.instance_id;
        let info = self
            .inner
            .runs
            .store
            .backend()
            .stream(events::stream_of(instance))
            .await?;
        let is_only_one = self.inner.order.is_only_one();
        let known = {
            let mut state = self.state();
            state.calls.last_is(
                info.map(|info| info.last_sequence).unwrap_or_default(),
                is_only_one,
            );
            state
                .calls
                .known
                .get(id)
                .map(|call| (call.has_result, call.is_pending))
        };
        // One that has its result may have an older one of its id that has none.
        if known.is_some_and(|(has_result, is_pending)| is_pending || !has_result) {
            return Ok(());
        }
        let kinds = [
            ContextEventKind::AssistantMessage,
            ContextEventKind::ToolCall,
            ContextEventKind::ToolResult,
        ];
        let mut search = Search {
            id,
            results: 0,
            is_made: false,
            is_answered: false,
            is_redacted: false,
        };
        let mut left = SEARCHED_MAX;
        let look = |event: &ContextEvent| {
            left -= 1;
            search.look(event).map(Some).or((left == 0).then_some(None))
        };
        let found = self
            .inner
            .runs
            .store
            .contexts()
            .find_back(instance, &kinds, look)
            .await?
            .flatten();
        if let Some(call) = found.or_else(|| search.finish()) {
            let mut state = self.state();
            if state
                .calls
                .known
                .get(id)
                .is_none_or(|known| !known.is_pending)
            {
                state.calls.known.insert(id.to_owned(), call);
            }
        }
        Ok(())
    }
}

impl Calls {
    /// Where the context ends. What is known counts no more where somebody else wrote to it.
    ///
    /// What the only recorder of a context is writing may be there before it is told so, and isn't somebody else's. Where
    /// somebody wrote without a recorder meanwhile, its own writes leave a gap, and what is known counts no more once they
    /// are done.
    pub(super) fn last_is(&mut self, last: Sequence, is_only_one: bool) {
        let told: u64 = self
            .written
            .iter()
            .map(|(start, end)| end.0 - start.0)
            .sum();
        let own_end = if is_only_one {
            self.last.0 + told + self.under_way
        } else {
            self.last.0
        };
        if !(self.last.0..=own_end).contains(&last.0) {
            self.last = last;
            self.written.clear();
            self.open = None;
            self.known.retain(|_, call| call.is_pending);
        }
    }

    /// Where the context ends by a write of this recorder, of so many events.
    pub(super) fn after_commit(&mut self, events: u64, last: Sequence) {
        if last <= self.last {
            return;
        }
        self.written
            .insert(Sequence(last.0.saturating_sub(events)), last);
        while let Some(end) = self.written.remove(&self.last) {
            self.last = end;
        }
    }

    fn check(&self, id: &str) -> Result<()> {
        match self.known.get(id) {
            None => Err(unknown(id)),
            Some(call) if call.has_result => Err(Error::new(
                ErrorKind::AlreadyExists,
                format!(
                    "the tool call {id:?} has its result already; providers take one result for each call"
                ),
            )),
            Some(_) => Ok(()),
        }
    }

    fn take(&mut self, event: &NewContextEvent, taken: &mut Vec<String>) -> Result<()> {
        let mut made = Vec::new();
        match event.kind {
            ContextEventKind::AssistantMessage => {
                made.extend(
                    tool_calls_of(&event.content)
                        .unwrap_or_default()
                        .into_iter()
                        .filter_map(|call| {
                            let answered = AnsweredCall::from(&call);
                            Some((call.id?, answered))
                        }),
                );
                if !made.is_empty() {
                    // Results come before the next calls; a later one is looked for in the context.
                    self.known.retain(|_, call| call.is_pending);
                }
            }
            ContextEventKind::ToolCall => {
                let id = event
                    .meta
                    .tools
                    .first()
                    .and_then(|mark| mark.tool_call_id.clone());
                made.extend(
                    id.filter(|id| !self.known.contains_key(id))
                        .map(|id| (id, AnsweredCall::plain())),
                );
            }
            _ => {
                for id in results(event) {
                    self.check(id)?;
                    if let Some(call) = self.known.get_mut(id) {
                        (call.has_result, call.is_pending) = (true, true);
                        taken.push(id.to_owned());
                    }
                }
            }
        }
        for (id, call) in made {
            taken.push(id.clone());
            self.known.insert(
                id,
                Call {
                    call,
                    has_result: false,
                    is_pending: true,
                },
            );
        }
        Ok(())
    }
}

impl Taken<'_> {
    /// They were written.
    pub(super) fn keep(mut self) {
        let ids = std::mem::take(&mut self.ids);
        self.is_open_told = false;
        let mut state = self.recorder.state();
        for id in ids {
            if let Some(call) = state.calls.known.get_mut(&id) {
                call.is_pending = false;
            }
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut state = self.recorder.state();
        state.calls.under_way -= self.events;
        if self.is_open_told || !self.ids.is_empty() {
            state.calls.open = None;
            self.ids
                .iter()
                .for_each(|id| drop(state.calls.known.remove(id)));
        }
    }
}

/// The search for a call without a result, from the end of a context. Some providers use an id again in each turn: the
/// results that were passed belong to the calls that come next.
struct Search<'a> {
    id: &'a str,
    results: usize,
    is_made: bool,
    is_answered: bool,
    is_redacted: bool,
}

impl Search<'_> {
    fn look(&mut self, event: &ContextEvent) -> Option<Call> {
        self.is_redacted |= event.redacted;
        match event.event_type {
            ContextEventKind::ToolResult => {
                let mut ids = event
                    .tool_results
                    .iter()
                    .filter_map(|mark| mark.tool_call_id.as_deref());
                self.results += usize::from(ids.any(|id| id == self.id));
                None
            }
            ContextEventKind::ToolCall => {
                self.is_made |= event.tool_call_id.as_deref() == Some(self.id);
                None
            }
            ContextEventKind::AssistantMessage => {
                let calls = tool_calls_of(&event.content).unwrap_or_default();
                let call = calls
                    .iter()
                    .find(|call| call.id.as_deref() == Some(self.id))
                    .map(AnsweredCall::from);
                // A call that the message before it doesn't make was appended by itself.
                let call = call.or_else(|| self.is_made.then(AnsweredCall::plain))?;
                self.is_made = false;
                self.without_result(call)
            }
            _ => None,
        }
    }

    fn without_result(&mut self, call: AnsweredCall) -> Option<Call> {
        if self.results == 0 {
            return Some(Call {
                call,
                has_result: false,
                is_pending: false,
            });
        }
        self.results -= 1;
        self.is_answered = true;
        None
    }

    /// What is known when the beginning is reached. A redacted message doesn't say any more which calls it made.
    fn finish(&mut self) -> Option<Call> {
        if self.is_made
            && let Some(call) = self.without_result(AnsweredCall::plain())
        {
            return Some(call);
        }
        let has_result = self.is_answered;
        let call = || Call {
            call: AnsweredCall::plain(),
            has_result,
            is_pending: false,
        };
        (has_result || self.is_redacted).then(call)
    }
}

/// The calls that an event answers by their ids.
fn results(event: &NewContextEvent) -> impl Iterator<Item = &str> {
    let is_result = event.kind == ContextEventKind::ToolResult;
    let marks = event.meta.tools.iter().filter(move |_| is_result);
    marks.filter_map(|mark| mark.tool_call_id.as_deref())
}

fn unknown(id: &str) -> Error {
    Error::invalid(format!(
        "the context has no tool call {id:?} for this result (the last {SEARCHED_MAX} events are searched); record the \
         assistant message that makes the call first"
    ))
}

impl AnsweredCall {
    /// A call that no message of a provider's makes.
    fn plain() -> Self {
        Self {
            style: ToolStyle::OpenAi,
            name: String::new(),
        }
    }
}
