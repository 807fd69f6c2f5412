//! [`MessageFold`]: the fold of an instance's events into the messages of its context.

use std::collections::VecDeque;

use serde::{Serialize, Serializer};

use super::{
    ContextEvent, ContextEventKind, Role,
    dangling::{DanglingToolCall, begins_another_answer, has_a_message_each, results},
    message::{self, ToolStyle},
    placeholder,
};
use crate::{RawJson, Result};

/// One message of a context, exactly as it was sent to the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The sequence of its event.
    pub sequence_number: u64,
    /// Who it is from. [`Role::Tool`] for every message with tool results, whatever role its JSON names.
    pub role: Role,
    /// The message, byte for byte.
    pub json: RawJson,
}

/// Written as the message itself.
impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        self.json.serialize(serializer)
    }
}

/// Folds events, given in order from the first, into messages.
///
/// What was redacted has a placeholder, in the form of the messages around it, so that a provider takes the context still. A redacted
/// result has lost which calls it answered: the placeholder is given when the next message shows which calls no other result answers. A
/// redacted message has lost the tool calls that it made, and no provider takes a result without its call: these results are
/// left out.
#[derive(Clone, Debug, Default)]
pub struct MessageFold {
    /// The calls without a result so far.
    open: VecDeque<Open>,
    /// The sequences of redacted results since the last message that is none.
    redacted: Vec<u64>,
    /// The results behind the first of these, which wait for its placeholder.
    waiting: Vec<Message>,
    /// Whether the newest message of an assistant's was redacted.
    is_redacted: bool,
    /// How many records of calls came since then.
    records: usize,
    /// The newest message of an assistant's that wasn't; before there is one, the first message that wasn't. It tells the form of the
    /// context.
    answer: Option<RawJson>,
    /// The form of the context, where it is known otherwise.
    style: Option<ToolStyle>,
}

/// A call without a result.
#[derive(Clone, Debug)]
struct Open {
    id: Option<String>,
    /// The tool, where there is no id to tell it by.
    tool: String,
    /// Whether the record of the call was redacted, which has lost its id, and no message has it.
    is_record_redacted: bool,
    /// Whether the message that made it was redacted.
    is_hidden: bool,
}

impl MessageFold {
    /// A fold of no events yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, of a context in a provider's form: for the placeholders of redacted messages before any that tells the form.
    #[must_use]
    pub fn in_form(self, style: Option<ToolStyle>) -> Self {
        Self { style, ..self }
    }

    /// Adds what the next event is to the messages: one message, for a tool_call none, as for a result whose call was redacted.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when the event's content isn't a JSON object.
    pub fn push(&mut self, event: &ContextEvent, messages: &mut Vec<Message>) -> Result<()> {
        match event.event_type {
            ContextEventKind::ToolCall => {
                self.call(event);
                return Ok(());
            }
            ContextEventKind::ToolResult => return self.result(event, messages),
            ContextEventKind::AssistantMessage
            | ContextEventKind::UserMessage
            | ContextEventKind::SystemMessage => {}
        }
        if !self.open.is_empty() || !self.redacted.is_empty() {
            self.settle(false, messages);
            if begins_another_answer(event) {
                // They have their results by now, or never get one that a provider takes.
                self.open.clear();
            }
        }
        let is_answer = event.event_type == ContextEventKind::AssistantMessage;
        self.is_redacted = event.redacted && is_answer;
        self.records = 0;
        let Some(role) = event.role() else {
            return Ok(());
        };
        if event.redacted {
            let json = placeholder::redacted_in(self.form(), role);
            messages.push(message_of(event, role, json));
            return Ok(());
        }
        let json = event.message_json()?;
        if is_answer || self.answer.is_none() {
            self.answer.clone_from(&json);
        }
        messages.extend(json.map(|json| message_of(event, role, json)));
        Ok(())
    }

    /// Adds the messages that waited for what comes next.
    pub fn finish(mut self, messages: &mut Vec<Message>) {
        self.settle(true, messages);
    }

    fn call(&mut self, event: &ContextEvent) {
        let place = self.records;
        self.records += 1;
        let (mut id, mut tool) = (event.tool_call_id.clone(), None);
        let mut is_record_redacted = false;
        if event.redacted {
            // It has lost its id, which the message has still: records stand behind it in the order of its calls.
            let made = self.answer.as_ref().filter(|_| !self.is_redacted);
            let made = made.and_then(|json| message::tool_calls_of(json).ok());
            let call = made.and_then(|calls| calls.into_iter().nth(place));
            is_record_redacted = call.is_none();
            (id, tool) = call.map_or((None, None), |call| (call.id, Some(call.name)));
        } else if id.is_none() {
            tool = message::plain_call(&event.content).map(|call| call.name);
        }
        self.open.push_back(Open {
            is_record_redacted,
            id,
            tool: tool.unwrap_or_default(),
            is_hidden: self.is_redacted,
        });
    }

    fn result(&mut self, event: &ContextEvent, messages: &mut Vec<Message>) -> Result<()> {
        if event.redacted {
            self.redacted.push(event.sequence_number);
            return Ok(());
        }
        let (mut shown, mut hidden) = (0, 0);
        let mut tools = None;
        for mark in &event.tool_results {
            let place = self.place_of(mark.tool_call_id.as_ref(), || {
                let read = || message::tools_without_id(&event.content);
                tools.get_or_insert_with(read).pop_front().flatten()
            });
            match place.and_then(|place| self.open.remove(place)) {
                Some(call) if call.is_hidden => hidden += 1,
                _ => shown += 1,
            }
        }
        let json = match (shown, hidden) {
            // What else the message says stays. Where results are the user's, another message of the user's stands in their
            // place: two of the assistant's in a row are refused.
            (0, 1..) => message::without_results(&event.content).or_else(|| {
                let is_the_users =
                    matches!(self.form(), Some(ToolStyle::Gemini | ToolStyle::Bedrock));
                is_the_users.then(|| placeholder::redacted_in(self.form(), Role::User))
            }),
            _ => event.message_json()?,
        };
        let role = if shown == 0 && hidden > 0 {
            Role::User
        } else {
            Role::Tool
        };
        if let Some(json) = json {
            let into = if self.redacted.is_empty() {
                messages
            } else {
                &mut self.waiting
            };
            into.push(message_of(event, role, json));
        }
        Ok(())
    }

    /// The open call that a result answers.
    fn place_of(
        &self,
        id: Option<&String>,
        tool: impl FnOnce() -> Option<String>,
    ) -> Option<usize> {
        let place = |is_it: &dyn Fn(&Open) -> bool| self.open.iter().position(is_it);
        match id {
            Some(_) => place(&|call| call.id.as_ref() == id)
                .or_else(|| place(&|call| call.is_record_redacted)),
            None => {
                let open = self.open.iter().enumerate();
                let without_id = open
                    .filter(|(_, call)| call.id.is_none())
                    .map(|(place, call)| (place, call.tool.as_str()));
                message::place_without_id(without_id, tool().as_deref())
            }
        }
    }

    /// Gives redacted results their placeholders, those of the calls that no other result has answered: all of them before another
    /// message; at the end, where some may be open, as many as results were redacted, if each result is a message.
    fn settle(&mut self, is_end: bool, messages: &mut Vec<Message>) {
        let redacted = std::mem::take(&mut self.redacted);
        let Some(&last) = redacted.last() else {
            return;
        };
        let made = self.answer.as_ref();
        let made = made.and_then(|json| message::tool_calls_of(json).ok());
        let made = made.unwrap_or_default();
        let style = made.first().map(|call| call.style);
        let style = style.or(self.style).unwrap_or(ToolStyle::OpenAi);
        let count = match is_end && has_a_message_each(style) {
            true => redacted.len().min(self.open.len()),
            false => self.open.len(),
        };
        let answered: Vec<Open> = self.open.drain(..count).collect();
        let is_hidden = answered.iter().any(|call| call.is_hidden);
        let shown = answered
            .into_iter()
            .filter(|call| !call.is_hidden && !call.is_record_redacted);
        let calls: Vec<DanglingToolCall> = shown
            .map(|call| {
                let request = made
                    .iter()
                    .find(|made| made.id.is_some() && made.id == call.id);
                DanglingToolCall {
                    name: request.map_or(call.tool, |made| made.name.clone()),
                    id: call.id,
                    arguments: RawJson::null(),
                    sequence_number: 0,
                    style,
                }
            })
            .collect();
        let mut shown = results(&calls, placeholder::REDACTED, false);
        let mut role = Role::Tool;
        if shown.is_empty() && !is_hidden {
            shown.push(placeholder::redacted(Role::Tool, None));
        } else if shown.is_empty() && matches!(style, ToolStyle::Gemini | ToolStyle::Bedrock) {
            role = Role::User;
            shown.push(placeholder::redacted_in(Some(style), role));
        }
        let sequences = redacted.into_iter().chain(std::iter::repeat(last));
        messages.extend(
            shown
                .into_iter()
                .zip(sequences)
                .map(|(json, sequence_number)| Message {
                    sequence_number,
                    role,
                    json,
                }),
        );
        messages.append(&mut self.waiting);
    }

    fn form(&self) -> Option<ToolStyle> {
        let of_answer = self.answer.as_ref().and_then(message::style_of);
        of_answer.or(self.style)
    }
}

fn message_of(event: &ContextEvent, role: Role, json: RawJson) -> Message {
    Message {
        sequence_number: event.sequence_number,
        role,
        json,
    }
}

/// The messages of a context, in order and byte for byte as they were sent to the model.
///
/// ```
/// use runlog_log::{Kind, Position, Record, Sequence, StreamId};
/// use runlog_model::{EventOptions, InstanceId, NewContextEvent, RawJson, ContextEvent, messages};
///
/// let sent = RawJson::parse(r#"{ "role": "user", "content": "hello" }"#)?;
/// let new = NewContextEvent::of_message(sent.clone(), &EventOptions::default())?.remove(0);
/// // A store keeps three parts of an event, and gives them back with its sequence and position:
/// let instance: InstanceId = "0198c7e0-0000-7000-8000-000000000000".parse()?;
/// let record = Record {
///     kind: Kind(new.kind.byte()), meta: new.encode_meta()?.into(), payload: new.content.into_bytes(),
///     stream: StreamId(instance.as_uuid()), sequence: Sequence(1), position: Position(7), time_ms: 0, redacted: false, lost: false,
/// };
/// let events = [ContextEvent::decode(instance, &record)?];
/// assert_eq!(messages(&events)?[0].json, sent);
/// # Ok::<(), runlog_model::Error>(())
/// ```
///
/// # Errors
/// As [`MessageFold::push`].
pub fn messages<'a>(events: impl IntoIterator<Item = &'a ContextEvent>) -> Result<Vec<Message>> {
    let mut fold = MessageFold::new();
    let mut messages = Vec::new();
    for event in events {
        fold.push(event, &mut messages)?;
    }
    fold.finish(&mut messages);
    Ok(messages)
}

#[cfg(test)]
mod tests;
