//! The tool calls of a run that its results answer: how the provider wrote them, and whether they have their result.
//!
//! Providers refuse a context with a result that answers no call, with two results of one call, or with a message
//! between a call and its result. Once recorded, it would make every later request fail, so the recorder refuses such a
//! result or message. It knows the calls that it recorded itself, as long as no one else writes to the context.
//! Otherwise, and for other calls, such as those of the run before a resume, it searches the context backwards.

use std::collections::HashSet;

use runlog_log::Sequence;
use runlog_model::{ContextEvent, ContextEventKind, EventOptions, NewContextEvent};

use super::{
    known_calls::{Call, Calls, End, Others, SEARCHED_MAX, Search, results, unknown},
    state::RunRecorder,
};
use crate::{
    Result,
    kernel::{records::context_stream, runs::Turn},
    runs::outcome::{AnsweredCall, ToolOutcome},
};

/// Calls and results that are about to be written. If this is dropped before the write is confirmed, they are
/// forgotten, and looked up in the context when needed.
pub(super) struct Taken<'a> {
    recorder: &'a RunRecorder,
    ids: Vec<String>,
    events: u64,
    /// Whether the recorder's state of open calls includes them already.
    is_open_updated: bool,
}

impl RunRecorder {
    /// The calls that results answer, in their order. A result of an open call without an id names its tool; of several calls of
    /// one tool it answers the first. With them the turn to write the results, if one had to be taken to know the calls.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the context has no such call.
    pub(super) async fn calls_of(
        &self,
        outcomes: &[ToolOutcome],
    ) -> Result<(Vec<(ToolOutcome, AnsweredCall)>, Option<Turn<'_>>)> {
        let mut answers = Vec::with_capacity(outcomes.len());
        let (mut turn, mut without_id) = (None, None);
        for outcome in outcomes {
            outcome.check()?;
            let id = &outcome.tool_call_id;
            // First among the calls without an id: for one of these, the whole context would be searched for a call whose id is the
            // name of its tool.
            let named = match self.is_known_to_be_open(id) {
                true => None,
                false => self.take_without_id(id, &mut without_id).await?,
            };
            let call = match named {
                Some(call) => call,
                None => match self.known_call(id, &mut turn, &mut without_id).await? {
                    Some(call) => call,
                    // If the run has ended, that error matters more.
                    None => return self.check_running().await.and(Err(unknown(id))),
                },
            };
            answers.push((outcome.clone(), call));
        }
        Ok((answers, turn))
    }

    /// The call with an id, if the context has it. Where it is unknown, or has its result, the message that makes it, or makes it
    /// again, may be waiting to be written: it is looked for once more behind all writes that were begun before. The turn is kept
    /// then, so that no later write comes before what the caller writes; so it is for a call whose record is to be added, which
    /// only one may do.
    async fn known_call<'a>(
        &'a self,
        id: &str,
        turn: &mut Option<Turn<'a>>,
        without_id: &mut Option<Vec<AnsweredCall>>,
    ) -> Result<Option<AnsweredCall>> {
        let before = self.context_end().await?;
        self.look_for(id).await?;
        let is_listed = |recorder: &Self| {
            let state = recorder.state();
            let known = state.calls.known.get(id);
            known.is_some_and(|known| !known.has_result && !known.is_unlisted)
        };
        if turn.is_none() && !is_listed(self) {
            *turn = Some(self.inner.order.turn(false).await);
            if self.context_end().await? != before {
                *without_id = None;
                if let Some(call) = self.take_without_id(id, without_id).await? {
                    return Ok(Some(call));
                }
                self.look_for(id).await?;
            }
        }
        let state = self.state();
        let known = state.calls.known.get(id);
        Ok(known.map(|known| known.call.clone()))
    }

    /// Whether a call is open as far as this recorder knows, without a look at the context.
    fn is_known_to_be_open(&self, id: &str) -> bool {
        let state = self.state();
        let known = state.calls.known.get(id);
        known.is_some_and(|known| !known.has_result)
    }

    /// Takes the first open call without an id of a tool out of those that there are.
    async fn take_without_id(
        &self,
        tool: &str,
        without_id: &mut Option<Vec<AnsweredCall>>,
    ) -> Result<Option<AnsweredCall>> {
        let open = match without_id {
            Some(open) => open,
            None => without_id.insert(self.open_without_id().await?),
        };
        let place = open.iter().position(|call| call.name == tool);
        Ok(place.map(|place| open.remove(place)))
    }

    /// The records of calls that answers are for, and of those made with them, where the context has only the message that makes them: a
    /// truncation or a copy ended behind it. Without their records they would be in no list.
    pub(super) fn unlisted_calls(
        &self,
        answers: &[(ToolOutcome, AnsweredCall)],
        options: &EventOptions,
    ) -> Result<Vec<NewContextEvent>> {
        let state = self.state();
        let mut events: Vec<NewContextEvent> = Vec::new();
        for (outcome, _) in answers {
            let id = &outcome.tool_call_id;
            let is_unlisted = |id: &String| {
                let known = state.calls.known.get(id);
                known.is_some_and(|call| call.is_unlisted && !call.has_result)
            };
            let is_there = |id: &String, events: &[NewContextEvent]| {
                let mut marks = events.iter().flat_map(|event| &event.meta.tools);
                marks.any(|mark| mark.tool_call_id.as_ref() == Some(id))
            };
            let Some(message) = state.calls.unlisted.get(id) else {
                continue;
            };
            if !is_unlisted(id) || is_there(id, &events) {
                continue;
            }
            let made = NewContextEvent::of_transcript(message.clone(), options)?;
            events.extend(made.into_iter().filter(|event| {
                let id = event.meta.tools.first();
                let id = id.and_then(|mark| mark.tool_call_id.as_ref());
                event.kind == ContextEventKind::ToolCall && id.is_some_and(is_unlisted)
            }));
        }
        Ok(events)
    }

    /// The open calls to which their provider gave no id.
    async fn open_without_id(&self) -> Result<Vec<AnsweredCall>> {
        let open = self.look_for_open().await?;
        let without_id = open.iter().filter(|call| call.id.is_none());
        Ok(without_id.map(AnsweredCall::from).collect())
    }

    /// Checks, before the work of a tool is done, that its result could be recorded now: the run is running, and the call
    /// has none yet. Returns how many open calls it may be: one, or of calls without ids, which their tool names, those of the tool.
    /// It reserves nothing: of two that look at once, both may go on.
    ///
    /// # Errors
    /// [`WrongStatus`](crate::ErrorKind::WrongStatus) when the run isn't running,
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the context has no such call,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when it has its result.
    ///
    /// ```
    /// use runlog::{ErrorKind, NewMessage, NewRun, NewSession, NewToolCall, RawJson, Store, runs::ToolOutcome};
    ///
    /// # pollster::block_on(async {
    /// let store = Store::in_memory();
    /// let run = store.runs().start(NewRun::in_new_session(NewSession::default(), "coder")).await?;
    /// let call = NewToolCall::new("call_1", "pay", "{}");
    /// run.record_message(NewMessage::assistant("").with_tool_calls([call])).await?;
    /// assert_eq!(run.check_tool_call("call_1").await?, 1); // now the work may be done
    /// run.record_tool_result(&ToolOutcome::completed("call_1", RawJson::null())).await?;
    /// let again = run.check_tool_call("call_1").await;
    /// assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
    /// # Ok::<(), runlog::Error>(()) }).unwrap();
    /// ```
    pub async fn check_tool_call(&self, tool_call_id: &str) -> Result<usize> {
        self.check_running().await?;
        if self.is_known_to_be_open(tool_call_id) {
            return Ok(1);
        }
        let without_id = self.open_without_id().await?.into_iter();
        let of_tool = without_id.filter(|call| call.name == tool_call_id).count();
        if of_tool > 0 {
            return Ok(of_tool);
        }
        self.check_unanswered(tool_call_id).await.map(|()| 1)
    }

    /// Checks that a call's result can be recorded.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the context has no such call,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) when it has its result.
    pub(crate) async fn check_unanswered(&self, id: &str) -> Result<()> {
        self.known_call(id, &mut None, &mut Some(Vec::new()))
            .await?;
        self.state().calls.check(id)
    }

    /// Applies the calls and results of events that are about to be written, up to the first one that is refused. The
    /// error is that of [`check_unanswered`](Self::check_unanswered) for one of the results, or
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for another message while calls are open.
    pub(super) async fn take_calls<'e>(
        &self,
        events: impl Iterator<Item = &'e NewContextEvent> + Clone,
    ) -> (Taken<'_>, Result<()>) {
        let mut taken = Taken {
            recorder: self,
            ids: Vec::new(),
            events: 0,
            is_open_updated: false,
        };
        let open = match self.open_before(events.clone()).await {
            Ok(open) => open,
            Err(error) => return (taken, Err(error)),
        };
        // Calls made by these events needn't be searched for: the context doesn't have them yet.
        let mut made = HashSet::new();
        for event in events.clone() {
            if event.kind == ContextEventKind::ToolCall {
                let ids = event.meta.tools.iter();
                made.extend(ids.filter_map(|mark| mark.tool_call_id.as_deref()));
            }
            for id in results(event) {
                if made.contains(id) {
                    continue;
                }
                if let Err(error) = self.look_for(id).await {
                    return (taken, Err(error));
                }
            }
        }
        let mut events = events;
        let taking = {
            let mut state = self.state();
            taken.is_open_updated = true;
            taken.events = events.clone().count() as u64;
            state.calls.under_way += taken.events;
            state.calls.open = open.or_else(|| state.calls.open.take());
            let calls = &mut state.calls;
            events.try_for_each(|event| {
                // Before the event's calls are added, because a refused message adds none.
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

    /// Looks something up in the known calls, after checking them against the end of the context.
    pub(super) async fn look_at_calls<T>(&self, look: impl FnOnce(&mut Calls) -> T) -> Result<T> {
        let last = self.context_end().await?;
        let is_only_one = self.inner.order.is_only_one();
        let mut state = self.state();
        state.calls.last_is(last, is_only_one);
        Ok(look(&mut state.calls))
    }

    async fn context_end(&self) -> Result<End> {
        let instance = self.state().run.instance_id;
        let backend = self.inner.runs.store.backend();
        let info = backend.stream(context_stream(instance)).await?;
        Ok(info.map(End::of).unwrap_or_default())
    }

    /// Ensures that a call is known if the context has it.
    async fn look_for(&self, id: &str) -> Result<()> {
        let (known, last) = self
            .look_at_calls(|calls| {
                let known = calls.known.get(id);
                let known = known.map(|call| (call.has_result, call.is_pending));
                (known, calls.last)
            })
            .await?;
        // If the known call has its result, there may be an older call with the same id that has none.
        if known.is_some_and(|(has_result, is_pending)| is_pending || !has_result) {
            return Ok(());
        }
        let instance = self.state().run.instance_id;
        let kinds = [
            ContextEventKind::AssistantMessage,
            ContextEventKind::ToolCall,
            ContextEventKind::ToolResult,
        ];
        let mut search = Search {
            id,
            passed: HashSet::new(),
            unlisted: None,
            others: Others::default(),
            results: 0,
            is_made: false,
            redacted_records: 0,
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
            .find_back(instance, Sequence::MAX, &kinds, look)
            .await?
            .flatten();
        let unlisted = search.unlisted.take();
        // A redacted result may be that of any call before it, and what was written meanwhile one that wasn't passed.
        let mut state = self.state();
        if !search.is_redacted && state.calls.last == last {
            for (id, call) in std::mem::take(&mut search.others.open) {
                state
                    .calls
                    .known
                    .entry(id)
                    .or_insert_with(|| Call::open(call));
            }
        }
        if let Some(call) = found.or_else(|| search.finish()) {
            for (id, other) in unlisted.iter().flat_map(|(message, calls)| {
                let calls = calls.iter().map(move |call| (call, message));
                calls.filter_map(|(call, message)| Some((call.id.clone()?, (call, message))))
            }) {
                let (request, message) = other;
                state.calls.unlisted.insert(id.clone(), message.clone());
                state.calls.known.entry(id).or_insert_with(|| Call {
                    call: AnsweredCall::from(request),
                    has_result: false,
                    is_pending: false,
                    is_unlisted: true,
                });
            }
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

impl Taken<'_> {
    /// To be called once they were written.
    pub(super) fn keep(mut self) {
        let ids = std::mem::take(&mut self.ids);
        self.is_open_updated = false;
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
        if self.is_open_updated || !self.ids.is_empty() {
            state.calls.open = None;
            self.ids
                .iter()
                .for_each(|id| drop(state.calls.known.remove(id)));
        }
    }
}
