//! [`RunMessage`] and [`ToolCall`]: a run's part of its instance's context, as its history shows it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use serde::{Deserialize, Serialize};

use crate::{
    ContextEvent, ContextEventKind, Error, RawJson, Result, Role, RunId, ToolCallRequest,
    ToolCallStatus, ToolMark, ToolStyle,
    context::{dangling, message, placeholder::REDACTED},
};

/// One message of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunMessage {
    /// Its id: its position in the log.
    pub id: u64,
    /// The run it belongs to.
    pub run_id: RunId,
    /// Who it is from.
    pub role: Role,
    /// The whole message as it was sent to the model, byte for byte: tool calls with their ids and arguments too.
    pub content: RawJson,
    /// The step of the run; before the first one, the steps of the runs it was resumed from.
    pub step_number: u32,
    /// When it was recorded: milliseconds since 1970-01-01 UTC.
    #[serde(rename = "created_at")]
    pub created_at_ms: u64,
    /// Its sequence in the instance's context.
    pub sequence_number: u64,
}

impl RunMessage {
    /// The message that an event is; `None` for a tool_call, which is a record beside its message, and for an
    /// event of no run.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the event's content isn't a JSON object.
    pub fn of_event(event: &ContextEvent) -> Result<Option<Self>> {
        let (Some(run_id), Some(role)) = (event.run_id, event.role()) else {
            return Ok(None);
        };
        let Some(content) = event.message_json()? else {
            return Ok(None);
        };
        Ok(Some(Self {
            id: event.position,
            run_id,
            role,
            content,
            step_number: event.step_number.unwrap_or_default(),
            created_at_ms: event.created_at_ms,
            sequence_number: event.sequence_number,
        }))
    }
}

/// One invocation of a tool.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCall {
    /// Its id: the position of its event in the log.
    pub id: u64,
    /// The run it belongs to.
    pub run_id: RunId,
    /// The assistant message that asked for it.
    pub message_id: Option<u64>,
    /// The provider's id of the call, with those that give one.
    pub tool_call_id: Option<String>,
    /// The tool.
    pub tool_name: String,
    /// What it was called with. Arguments that the provider wrote as a string of JSON are given as that JSON; the input of a custom tool,
    /// which is a text, as that text.
    pub input: RawJson,
    /// Its output, or the error's details if it failed; `None` while there is no result.
    pub output: Option<RawJson>,
    /// How it ended. A result that is redacted has lost whether the tool failed: the call is completed.
    pub status: ToolCallStatus,
    /// How long the tool itself took, in milliseconds of wall clock, without the model's time.
    pub duration_ms: Option<u64>,
    /// The step of the run.
    pub step_number: u32,
    /// When the call was recorded: milliseconds since 1970-01-01 UTC.
    #[serde(rename = "created_at")]
    pub created_at_ms: u64,
    /// The sequence of its event in the instance's context.
    pub sequence_number: u64,
    /// The sequence of the message that asked for it, its own where that is unknown.
    #[serde(skip)]
    pub message_sequence: u64,
}

/// Folds a run's events, given in order, into its tool calls.
///
/// A result answers the newest call with its id that is open, by message; within one message, the first. So the fold
/// may start at any assistant message, and returns the same calls from there on. A redacted result has lost whose it was:
/// it is of the calls that no other result of its turn answers.
///
/// Others may record a result, too, during the run or after it: [`push_of_others`](Self::push_of_others).
#[derive(Clone, Debug, Default)]
pub struct ToolCallFold {
    calls: VecDeque<ToolCall>,
    /// How many calls were taken out before the first of these.
    taken: usize,
    /// The numbers of the calls without a result, counted from the first one that was folded.
    open: BTreeSet<usize>,
    /// The same, by the id of the call.
    open_by_id: HashMap<Option<String>, BTreeSet<usize>>,
    /// Position and sequence of the last assistant message.
    message: Option<(u64, u64)>,
    /// Its content.
    answer: Option<RawJson>,
    /// How many calls were recorded since that message.
    recorded: usize,
    /// The ids of the calls of the answer that they belong to, which may be of several items.
    of_answer: HashSet<Option<String>>,
    /// The form of the context, where the messages don't tell.
    style: Option<ToolStyle>,
    /// How many results were redacted since then: they have lost which calls they answered, which the others tell.
    redacted: usize,
    /// How many open calls of each id others have made: their next results of that id are for those.
    of_others: HashMap<Option<String>, usize>,
}

impl ToolCallFold {
    /// A fold of no events yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same fold, of a context in this form: where an answer is redacted, it doesn't tell.
    #[must_use]
    pub fn in_form(self, style: Option<ToolStyle>) -> Self {
        Self { style, ..self }
    }

    /// Takes the next event of the run.
    pub fn push(&mut self, event: &ContextEvent) {
        self.end_turn(event);
        match event.event_type {
            ContextEventKind::AssistantMessage => {
                if dangling::begins_another_answer(event) {
                    self.of_answer.clear();
                }
                self.message = Some((event.position, event.sequence_number));
                self.answer = Some(event.content.clone());
                self.recorded = 0;
            }
            ContextEventKind::ToolCall => self.call(event),
            ContextEventKind::ToolResult => self.result(event),
            ContextEventKind::SystemMessage | ContextEventKind::UserMessage => {}
        }
    }

    /// Takes the next event of the context that is of another run or of none: it may be the result of a call of this one.
    pub fn push_of_others(&mut self, event: &ContextEvent) {
        match event.event_type {
            ContextEventKind::ToolCall => {
                *self
                    .of_others
                    .entry(event.tool_call_id.clone())
                    .or_default() += 1
            }
            // A redacted result has lost the ids that it answered.
            ContextEventKind::ToolResult
                if event.redacted && self.of_others.values().all(|calls| *calls == 0) =>
            {
                self.result(event);
            }
            ContextEventKind::ToolResult => {
                let mut outputs = message::outputs_of(&event.content);
                for mark in &event.tool_results {
                    let given = outputs.take(mark.tool_call_id.as_ref());
                    match self
                        .of_others
                        .get_mut(&mark.tool_call_id)
                        .filter(|calls| **calls > 0)
                    {
                        Some(calls) => *calls -= 1,
                        None => self.answer(mark, given),
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether a call has no result yet.
    pub fn is_open(&self) -> bool {
        // Of how many calls a redacted result is that may be of several is known at the end of its turn.
        let answered = match self.redacted {
            redacted @ 1.. if self.has_a_message_each() => redacted,
            _ => 0,
        };
        self.open.len() > answered
    }

    /// The calls so far that weren't taken, in the order they were made.
    pub fn calls(&self) -> impl DoubleEndedIterator<Item = &ToolCall> {
        self.calls.iter()
    }

    /// Takes out the next call, where it has its result: no later event changes it.
    pub fn take_settled(&mut self) -> Option<ToolCall> {
        self.calls
            .front()
            .filter(|call| call.status != ToolCallStatus::Pending)?;
        self.taken += 1;
        self.calls.pop_front()
    }

    /// The calls that weren't taken, in the order they were made.
    pub fn finish(mut self) -> Vec<ToolCall> {
        self.settle_redacted();
        self.calls.into()
    }

    fn call(&mut self, event: &ContextEvent) {
        let Some(run_id) = event.run_id else { return };
        let request = if event.redacted {
            self.request_of_message()
        } else {
            message::plain_call(&event.content)
        };
        self.recorded += 1;
        let number = self.taken + self.calls.len();
        self.open.insert(number);
        let id = match event.redacted {
            true => request.as_ref().and_then(|request| request.id.clone()),
            false => event.tool_call_id.clone(),
        };
        self.of_answer.insert(id.clone());
        let same = self.open_by_id.entry(id.clone()).or_default();
        same.insert(number);
        self.calls.push_back(ToolCall {
            id: event.position,
            run_id,
            message_id: self.message.map(|(position, _)| position),
            tool_call_id: id,
            tool_name: request
                .as_ref()
                .map_or_else(|| REDACTED.to_owned(), |request| request.name.clone()),
            input: match request {
                _ if event.redacted => RawJson::string(REDACTED),
                Some(request) if request.is_text => request.arguments,
                Some(request) => input_of(request.arguments),
                None => RawJson::null(),
            },
            output: None,
            status: ToolCallStatus::Pending,
            duration_ms: None,
            step_number: event.step_number.unwrap_or_default(),
            created_at_ms: event.created_at_ms,
            sequence_number: event.sequence_number,
            message_sequence: self
                .message
                .map_or(event.sequence_number, |(_, sequence)| sequence),
        });
    }

    fn result(&mut self, event: &ContextEvent) {
        if event.redacted {
            self.redacted += 1;
            return;
        }
        // Nothing is read of what no call waits for.
        if self.open.is_empty() {
            return;
        }
        let mut outputs = message::outputs_of(&event.content);
        for mark in &event.tool_results {
            let given = outputs.take(mark.tool_call_id.as_ref());
            self.answer(mark, given);
        }
    }

    /// What the message asks for whose record comes next.
    fn request_of_message(&self) -> Option<ToolCallRequest> {
        let calls = message::tool_calls_of(self.answer.as_ref()?).ok()?;
        calls.into_iter().nth(self.recorded)
    }

    /// Whether each result is a message of its own, in the form of the last message that tells.
    fn has_a_message_each(&self) -> bool {
        let style = self.answer.as_ref().and_then(message::style_of);
        style
            .or(self.style)
            .is_none_or(dangling::has_a_message_each)
    }

    /// Ends a turn that had redacted results, if a message of the run begins another one.
    fn end_turn(&mut self, event: &ContextEvent) {
        if !event.redacted
            && event.event_type.is_message()
            && event.event_type != ContextEventKind::ToolResult
        {
            self.settle_redacted();
        }
    }

    /// Gives the redacted results to open calls, those that have no other one: to as many as there are, where each result is a
    /// message of its own, otherwise to all of the last message that has any.
    fn settle_redacted(&mut self) {
        let redacted = std::mem::take(&mut self.redacted);
        let has_a_message_each = redacted > 0 && self.has_a_message_each();
        let (mut closed, mut newest) = (0, None);
        while redacted > 0
            && let Some(number) = self.first_of_newest(&self.open)
        {
            let call = &self.calls[number - self.taken];
            let is_another = newest.is_some_and(|newest| newest != call.message_sequence);
            if closed >= redacted && (has_a_message_each || is_another) {
                break;
            }
            (closed, newest) = (closed + 1, Some(call.message_sequence));
            let id = call.tool_call_id.clone();
            if let Some(call) = self.close(number, &id) {
                call.status = ToolCallStatus::Completed;
                call.output = Some(RawJson::string(REDACTED));
            }
        }
    }

    fn answer(&mut self, mark: &ToolMark, (output, tool): (RawJson, Option<String>)) {
        let id = &mark.tool_call_id;
        // The id of a call is lost where its message and its record are redacted.
        let is_lost = !self.of_answer.contains(id)
            && !self.open_by_id.contains_key(id)
            && self.has_lost_an_id();
        let known = if is_lost { &None } else { id };
        let Some(call) = self.close_newest_of(known, tool.as_deref()) else {
            return;
        };
        call.status = if mark.is_error {
            ToolCallStatus::Error
        } else {
            ToolCallStatus::Completed
        };
        // As the tool gave it, not as the message says it.
        let given = mark.output_is_json.then(|| output.in_text()).flatten();
        call.output = Some(given.unwrap_or(output));
        call.duration_ms = mark.duration_ms;
    }

    /// Whether an open call has lost its id.
    fn has_lost_an_id(&self) -> bool {
        let without_id = self.open_by_id.get(&None).into_iter().flatten();
        let mut calls = without_id.map(|number| &self.calls[number - self.taken]);
        calls.any(|call| call.tool_name == REDACTED)
    }

    /// Closes the first open call of an id, of the newest message that has one; among those without an id, a call of the tool that the
    /// result names, if there is any.
    fn close_newest_of(
        &mut self,
        id: &Option<String>,
        tool: Option<&str>,
    ) -> Option<&mut ToolCall> {
        let number = {
            let mut open = self.of_newest(self.open_by_id.get(id)?)?;
            match id {
                Some(_) => open.next()?,
                None => {
                    let tool_of = |number| self.calls[number - self.taken].tool_name.as_str();
                    let calls = open.map(|number| (number, tool_of(number)));
                    message::place_without_id(calls, tool)?
                }
            }
        };
        self.close(number, id)
    }

    fn first_of_newest(&self, open: &BTreeSet<usize>) -> Option<usize> {
        self.of_newest(open)?.next()
    }

    /// Those of the newest message that has any.
    fn of_newest<'o>(
        &self,
        open: &'o BTreeSet<usize>,
    ) -> Option<impl Iterator<Item = usize> + use<'o>> {
        let newest = self.calls[open.last()? - self.taken].message_sequence;
        let before = |call: &ToolCall| call.message_sequence < newest;
        let first = self.taken + self.calls.partition_point(before);
        Some(open.range(first..).copied())
    }

    fn close(&mut self, number: usize, id: &Option<String>) -> Option<&mut ToolCall> {
        self.open.remove(&number);
        if let Some(same) = self.open_by_id.get_mut(id) {
            same.remove(&number);
            if same.is_empty() {
                self.open_by_id.remove(id);
            }
        }
        self.calls.get_mut(number - self.taken)
    }
}

/// Arguments as JSON: OpenAI writes them as a string that holds JSON.
fn input_of(arguments: RawJson) -> RawJson {
    #[derive(Deserialize)]
    struct Text(String);

    if !arguments.as_str().trim_start().starts_with('"') {
        return arguments;
    }
    let inner = arguments
        .to_value::<Text>()
        .and_then(|text| RawJson::parse(text.0));
    inner.unwrap_or(arguments)
}

/// The tool calls of a run's events.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) when an event belongs to no run.
pub fn tool_calls<'a>(events: impl IntoIterator<Item = &'a ContextEvent>) -> Result<Vec<ToolCall>> {
    let mut fold = ToolCallFold::new();
    for event in events {
        if event.run_id.is_none() {
            return Err(Error::invalid(format!(
                "event {} belongs to no run",
                event.sequence_number
            )));
        }
        fold.push(event);
    }
    Ok(fold.finish())
}

#[cfg(test)]
mod tests {
    use runlog_log::{Kind, Position, Record, Sequence, StreamId};
    use uuid::Uuid;

    use super::*;
    use crate::{EventOptions, InstanceId, NewContextEvent};

    fn run() -> RunId {
        RunId(Uuid::from_u128(7))
    }

    fn events(messages: &[(&str, EventOptions)]) -> Vec<ContextEvent> {
        let mut events = Vec::new();
        for (json, options) in messages {
            let options = EventOptions {
                run_id: Some(run()),
                step_number: Some(3),
                ..options.clone()
            };
            let of_message =
                NewContextEvent::of_message(RawJson::parse((*json).to_owned()).unwrap(), &options);
            for new in of_message.unwrap() {
                let sequence = events.len() as u64 + 1;
                let meta = new.encode_meta().unwrap();
                let record = Record {
                    stream: StreamId(Uuid::nil()),
                    position: Position(100 + sequence),
                    sequence: Sequence(sequence),
                    time_ms: 5,
                    kind: Kind(new.kind.byte()),
                    redacted: false,
                    lost: false,
                    meta: meta.into(),
                    payload: new.content.into_bytes(),
                };
                events.push(ContextEvent::decode(InstanceId(Uuid::nil()), &record).unwrap());
            }
        }
        events
    }

    const OPENAI: &str = r#"{"role":"assistant","content":null,"tool_calls":[
        {"id":"a","type":"function","function":{"name":"ls","arguments":"{\"path\": \"/\"}"}},
        {"id":"b","type":"function","function":{"name":"cat","arguments":"not json"}}]}"#;

    #[test]
    fn a_call_is_linked_to_its_message_and_its_result() {
        let timed = EventOptions {
            tool_duration_ms: Some(12),
            ..EventOptions::default()
        };
        let failed = EventOptions {
            tool_is_error: Some(true),
            ..EventOptions::default()
        };
        let events = events(&[
            (OPENAI, EventOptions::default()),
            (
                r#"{"role":"tool","tool_call_id":"b","content":{"code":2}}"#,
                failed,
            ),
            (r#"{"role":"tool","tool_call_id":"a","content":"x"}"#, timed),
        ]);
        let calls = tool_calls(&events).unwrap();
        let [a, b] = calls.as_slice() else {
            panic!("{calls:?}")
        };
        assert_eq!(
            (a.id, a.message_id, a.tool_name.as_str(), a.step_number),
            (102, Some(101), "ls", 3)
        );
        assert_eq!(a.input.as_str(), r#"{"path": "/"}"#);
        assert_eq!(
            (a.status, a.duration_ms),
            (ToolCallStatus::Completed, Some(12))
        );
        assert_eq!(a.output.as_ref().unwrap().as_str(), r#""x""#);
        assert_eq!(
            (b.status, b.input.as_str()),
            (ToolCallStatus::Error, r#""not json""#)
        );
        assert_eq!(b.output.as_ref().unwrap().as_str(), r#"{"code":2}"#);
    }

    #[test]
    fn anthropic_results_are_told_apart() {
        let events = events(&[
            (
                r#"{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"ls","input":{"p":1}},
                    {"type":"tool_use","id":"b","name":"ls","input":{}}]}"#,
                EventOptions::default(),
            ),
            (
                r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"b","is_error":true,"content":"no"},
                    {"type":"tool_result","tool_use_id":"a","content":[1]}]}"#,
                EventOptions::default(),
            ),
        ]);
        let calls = tool_calls(&events).unwrap();
        let found: Vec<_> = calls
            .iter()
            .map(|call| (call.output.as_ref().unwrap().as_str(), call.status))
            .collect();
        assert_eq!(
            found,
            [
                ("[1]", ToolCallStatus::Completed),
                (r#""no""#, ToolCallStatus::Error)
            ]
        );
    }

    #[test]
    fn a_redacted_result_is_that_of_all_calls_where_these_have_one_message() {
        let asks = r#"{"role":"model","parts":[{"functionCall":{"id":"a","name":"f","args":{}}},{"functionCall":{"id":"b","name":"f","args":{}}}]}"#;
        let answers = r#"{"role":"user","parts":[{"functionResponse":{"id":"a","name":"f","response":{}}},{"functionResponse":{"id":"b","name":"f","response":{}}}]}"#;
        let plain = EventOptions::default;
        let mut events = events(&[(asks, plain()), (asks, plain()), (answers, plain())]);
        events[6].redacted = true;
        let statuses: Vec<_> = tool_calls(&events)
            .unwrap()
            .into_iter()
            .map(|call| call.status)
            .collect();
        use ToolCallStatus::{Completed, Pending};
        assert_eq!(statuses, [Pending, Pending, Completed, Completed]);
    }

    #[test]
    fn a_fold_from_a_later_message_gives_the_same_calls() {
        let call = r#"{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}"#;
        let result = r#"{"role":"function","name":"f","content":"1"}"#;
        let plain = EventOptions::default;
        // The first call is never answered, and none has an id.
        let events = events(&[
            (call, plain()),
            (call, plain()),
            (result, plain()),
            (call, plain()),
        ]);
        let whole = tool_calls(&events).unwrap();
        assert_eq!(
            whole.iter().map(|call| call.status).collect::<Vec<_>>(),
            [
                ToolCallStatus::Pending,
                ToolCallStatus::Completed,
                ToolCallStatus::Pending
            ]
        );
        assert_eq!(tool_calls(&events[2..]).unwrap(), whole[1..]);
    }

    #[test]
    fn a_message_is_the_event_with_its_place() {
        let events = events(&[(OPENAI, EventOptions::default())]);
        let message = RunMessage::of_event(&events[0]).unwrap().unwrap();
        assert_eq!(
            (message.id, message.role, message.step_number),
            (101, Role::Assistant, 3)
        );
        assert_eq!(message.content.as_str(), OPENAI);
        assert_eq!(RunMessage::of_event(&events[1]).unwrap(), None);
    }
}
