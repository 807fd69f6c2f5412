//! [`Calls`]: the tool calls that a recorder knows, and whether they have their results.

use std::collections::{BTreeMap, HashMap, HashSet};

use runlog_log::{Sequence, StreamInfo};
use runlog_model::{
    ContextEvent, ContextEventKind, NewContextEvent, RawJson, ResultForm, ToolCallRequest,
    ToolStyle, is_response_item, tool_calls_of,
};

use crate::{
    Error, ErrorKind, Result,
    runs::{open_calls::OpenCalls, outcome::AnsweredCall},
};

/// How far back the call of a result is searched for, in messages, calls and results. Providers require that a result
/// follows its call, so a call further away is none of this result.
pub(in crate::runs) const SEARCHED_MAX: u32 = 2_048;

/// The calls that a recorder knows, by their id.
#[derive(Default)]
pub(super) struct Calls {
    pub(super) known: HashMap<String, Call>,
    /// The calls that await their results; `None` where that isn't known.
    pub(super) open: Option<OpenCalls>,
    /// The last sequence of the context that this recorder has written or read.
    pub(super) last: Sequence,
    /// [`End::truncated`] then.
    pub(super) truncated: Option<u64>,
    /// Ranges that this recorder has written after that, by their first sequence: concurrent writes complete in any order.
    pub(super) written: BTreeMap<Sequence, Sequence>,
    /// How many events this recorder is writing now.
    pub(super) under_way: u64,
    /// The messages of calls that are unlisted, by the ids of these.
    pub(super) unlisted: HashMap<String, RawJson>,
}

/// Where a context ends.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct End {
    pub(super) last: Sequence,
    /// How many events were truncated so far, less those that are shared with the context it was forked from: it changes with each
    /// truncation.
    pub(super) truncated: u64,
}

impl End {
    pub(super) fn of(info: StreamInfo) -> Self {
        Self {
            last: info.last_sequence,
            truncated: info.appended.wrapping_sub(info.last_sequence.0),
        }
    }
}

#[derive(Clone)]
pub(super) struct Call {
    pub(super) call: AnsweredCall,
    pub(super) has_result: bool,
    /// Whether the call or its result is being written now.
    pub(super) is_pending: bool,
    /// Whether the context has its message only: a truncation or a copy ended between that and the record of the call, by which calls are
    /// listed.
    pub(super) is_unlisted: bool,
}

impl Call {
    /// A call that is listed, and awaits its result.
    pub(super) fn open(call: AnsweredCall) -> Self {
        Self {
            call,
            has_result: false,
            is_pending: false,
            is_unlisted: false,
        }
    }
}

impl Calls {
    /// Sets the end of the context. The known state is discarded if someone else wrote to the context.
    ///
    /// Pending writes of the only recorder of a context may be visible before they are confirmed, and must not count as
    /// someone else's. If someone has written without a recorder in the meantime, this recorder's writes leave a gap,
    /// and the state is discarded once they are done.
    pub(super) fn last_is(&mut self, end: End, is_only_one: bool) {
        let last = end.last;
        let confirmed: u64 = self
            .written
            .iter()
            .map(|(start, end)| end.0 - start.0)
            .sum();
        let own_end = if is_only_one {
            self.last.0 + confirmed + self.under_way
        } else {
            self.last.0
        };
        // A truncation may be followed by as many events of another writer's as it took.
        let is_truncated = self.truncated.replace(end.truncated) != Some(end.truncated);
        if is_truncated || !(self.last.0..=own_end).contains(&last.0) {
            self.last = last;
            self.written.clear();
            self.open = None;
            self.known.retain(|_, call| call.is_pending);
            self.unlisted.clear();
        }
    }

    /// Sets the end of the context after a write of `events` events by this recorder.
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

    pub(super) fn check(&self, id: &str) -> Result<()> {
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

    pub(super) fn take(&mut self, event: &NewContextEvent, taken: &mut Vec<String>) -> Result<()> {
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
                if !made.is_empty() && !is_response_item(&event.content) {
                    // Results come before the next calls; a later result's call is searched for in the context.
                    self.known.retain(|_, call| call.is_pending);
                }
            }
            ContextEventKind::ToolCall => {
                let id = event
                    .meta
                    .tools
                    .first()
                    .and_then(|mark| mark.tool_call_id.clone());
                if let Some(id) = &id
                    && let Some(call) = self.known.get_mut(id)
                    && call.is_unlisted
                {
                    // If the write fails, it is looked for again.
                    call.is_unlisted = false;
                    taken.push(id.clone());
                }
                made.extend(
                    id.filter(|id| !self.known.contains_key(id))
                        .map(|id| (id, AnsweredCall::plain())),
                );
            }
            _ => {
                let forms = ResultForm::all_in(&event.content);
                for id in results(event) {
                    self.check(id)?;
                    if let Some(call) = self.known.get_mut(id) {
                        call.call.check_form(id, &forms)?;
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
                    is_unlisted: false,
                },
            );
        }
        Ok(())
    }
}

/// The search for a call without a result, from the end of a context. Some providers reuse ids in each turn: results
/// that were passed belong to the next calls found.
pub(super) struct Search<'a> {
    pub(super) id: &'a str,
    /// The calls that were listed or answered since the message that is looked for.
    pub(super) passed: HashSet<String>,
    /// The message that makes the call, and the calls of it that are neither listed nor answered.
    pub(super) unlisted: Option<(RawJson, Vec<ToolCallRequest>)>,
    /// What was passed of other calls.
    pub(super) others: Others,
    pub(super) results: usize,
    pub(super) is_made: bool,
    /// How many records of calls since the message that is looked for were redacted.
    pub(super) redacted_records: usize,
    pub(super) is_answered: bool,
    pub(super) is_redacted: bool,
}

impl Search<'_> {
    pub(super) fn look(&mut self, event: &ContextEvent) -> Option<Call> {
        self.is_redacted |= event.redacted;
        match event.event_type {
            ContextEventKind::ToolResult => {
                let ids = event
                    .tool_results
                    .iter()
                    .filter_map(|mark| mark.tool_call_id.as_deref());
                self.passed.extend(ids.clone().map(str::to_owned));
                ids.clone().for_each(|id| self.others.pass_result(id));
                let mut ids = ids;
                self.results += usize::from(ids.any(|id| id == self.id));
                None
            }
            ContextEventKind::ToolCall => {
                self.is_made |= event.tool_call_id.as_deref() == Some(self.id);
                // It has lost its id, and isn't written once more.
                self.redacted_records += usize::from(event.redacted);
                self.passed.extend(event.tool_call_id.clone());
                self.others.listed.extend(event.tool_call_id.clone());
                None
            }
            ContextEventKind::AssistantMessage => {
                let calls = tool_calls_of(&event.content).unwrap_or_default();
                self.others.pass_message(&calls);
                let call = calls
                    .iter()
                    .find(|call| call.id.as_deref() == Some(self.id))
                    .map(AnsweredCall::from);
                // A call that isn't in the message before it was appended without a message.
                let call = call.or_else(|| self.is_made.then(AnsweredCall::plain))?;
                let is_unlisted = !self.is_made && self.redacted_records == 0;
                (self.is_made, self.redacted_records) = (false, 0);
                let mut found = self.without_result(call)?;
                if is_unlisted {
                    found.is_unlisted = true;
                    let is_passed = |call: &ToolCallRequest| {
                        let id = call.id.as_ref();
                        id.is_none_or(|id| self.passed.contains(id))
                    };
                    let unlisted = calls.into_iter().filter(|call| !is_passed(call)).collect();
                    self.unlisted = Some((event.content.clone(), unlisted));
                }
                Some(found)
            }
            _ => None,
        }
    }

    pub(super) fn without_result(&mut self, call: AnsweredCall) -> Option<Call> {
        if self.results == 0 {
            return Some(Call::open(call));
        }
        self.results -= 1;
        self.is_answered = true;
        None
    }

    /// The result when the beginning is reached. The calls of a redacted message can't be read any more.
    pub(super) fn finish(&mut self) -> Option<Call> {
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
            is_unlisted: false,
        };
        (has_result || self.is_redacted).then(call)
    }
}

/// The calls that a search passes beside the one that it looks for. Of the calls of a message the results mostly follow one
/// by one: those that are open are known then, and each isn't searched for anew.
#[derive(Default)]
pub(super) struct Others {
    /// How many results of an id belong to calls that weren't passed yet.
    results: HashMap<String, usize>,
    /// The calls that have their record, and whose message wasn't passed yet.
    listed: HashSet<String>,
    /// Those that have their record and no result.
    pub(super) open: Vec<(String, AnsweredCall)>,
}

impl Others {
    fn pass_result(&mut self, id: &str) {
        *self.results.entry(id.to_owned()).or_default() += 1;
    }

    fn pass_message(&mut self, calls: &[ToolCallRequest]) {
        for call in calls {
            let Some(id) = &call.id else { continue };
            let is_listed = self.listed.remove(id);
            match self.results.get_mut(id).filter(|left| **left > 0) {
                Some(left) => *left -= 1,
                None if is_listed => self.open.push((id.clone(), AnsweredCall::from(call))),
                None => {}
            }
        }
    }
}

/// The ids of the calls that an event answers.
pub(super) fn results(event: &NewContextEvent) -> impl Iterator<Item = &str> {
    let is_result = event.kind == ContextEventKind::ToolResult;
    let marks = event.meta.tools.iter().filter(move |_| is_result);
    marks.filter_map(|mark| mark.tool_call_id.as_deref())
}

pub(super) fn unknown(id: &str) -> Error {
    Error::invalid(format!(
        "the context has no tool call {id:?} for this result (the last {SEARCHED_MAX} events are searched); record the \
         assistant message that makes the call first"
    ))
}

impl AnsweredCall {
    /// Refuses a result in another form than that of its call, which the call's provider wouldn't take.
    fn check_form(&self, id: &str, given: &[ResultForm]) -> Result<()> {
        let wanted = self.style.result_form();
        let is_in_no_message = self.name.is_empty();
        // What isn't a message is put into the form of the call.
        let mut others = given.iter().filter(|given| **given != wanted);
        let Some(given) = others.next().filter(|_| !is_in_no_message) else {
            return Ok(());
        };
        Err(Error::invalid(format!(
            "the result of the tool call {id:?} is {}, in the form of its call, not {}; a tool result that is recorded as such, not as a \
             message, is written in the form of its call",
            wanted.name(),
            given.name()
        )))
    }

    /// A call that is in no provider's message.
    pub(super) fn plain() -> Self {
        Self {
            id: None,
            style: ToolStyle::OpenAi,
            name: String::new(),
        }
    }
}
