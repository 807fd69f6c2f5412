//! [`OpenCalls`]: the tool calls of a context that await their results, and which events may follow them.

use std::{borrow::Cow, collections::HashSet};

use runlog_model::{
    ContextEventKind, DanglingToolCall, InOrder, NewContextEvent, ToolCallRequest, ToolMark,
    is_response_item, place_without_id, tool_calls_of, tools_without_id,
};
use serde::{Deserialize, de::IgnoredAny};

use crate::{Error, Result};

/// The most calls that an error names.
const NAMED_MAX: usize = 5;

/// The tool calls that await their results, in the order they were made.
#[derive(Default)]
pub(super) struct OpenCalls {
    calls: InOrder<Open>,
    /// How many are no items.
    others: usize,
}

struct Open {
    tool: String,
    /// Whether it is an item of an answer; other items of that answer may follow it.
    is_item: bool,
}

impl OpenCalls {
    pub(super) fn of(calls: &[DanglingToolCall]) -> Self {
        let mut open = Self::default();
        for call in calls {
            let is_item = call.style.is_item();
            open.add(call.id.clone(), call.name.clone(), is_item);
        }
        open
    }

    /// `id` is `None` with providers that set none.
    fn add(&mut self, id: Option<String>, tool: String, is_item: bool) {
        self.others += usize::from(!is_item);
        self.calls.push(id, Open { tool, is_item });
    }

    fn remove(&mut self, number: usize) {
        let removed = self.calls.remove(number);
        self.others -= usize::from(removed.is_some_and(|call| !call.is_item));
    }

    /// Applies an event that is about to be written.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a message that isn't a result, or has other content in
    /// addition to results, while calls are open; and for one with two calls of the same id.
    pub(super) fn take(&mut self, event: &NewContextEvent) -> Result<()> {
        let is_open = |mark: &ToolMark| self.calls.with_id(&mark.tool_call_id).next().is_some();
        match event.kind {
            ContextEventKind::ToolResult => {
                let other = OtherContent::results_of(event);
                if other == OtherContent::Before {
                    return Err(Error::invalid(
                        "a message has other content before its tool results, which providers refuse: put the results first",
                    ));
                }
                let mut tools = None;
                for mark in &event.meta.tools {
                    let number = match &mark.tool_call_id {
                        Some(_) => {
                            let mut open = self.calls.with_id(&mark.tool_call_id);
                            open.next().map(|(number, _)| number)
                        }
                        None => {
                            let tool = tools
                                .get_or_insert_with(|| tools_without_id(&event.content))
                                .pop_front();
                            self.without_id(tool.flatten().as_deref())
                        }
                    };
                    match number {
                        Some(number) => self.remove(number),
                        // One with an id is looked for in all of the context.
                        None if mark.tool_call_id.is_some() => {}
                        None => return Err(self.nameless()),
                    }
                }
                if other == OtherContent::Behind && !self.calls.is_empty() {
                    return Err(self.between());
                }
            }
            // The message before it has added the call, unless the call was appended without a message.
            ContextEventKind::ToolCall if event.meta.tools.iter().any(is_open) => {}
            ContextEventKind::ToolCall => {
                let id = event
                    .meta
                    .tools
                    .first()
                    .and_then(|mark| mark.tool_call_id.clone());
                self.add(id, String::new(), false);
            }
            _ if !self.calls.is_empty() && !self.continues_answer(event) => {
                return Err(self.between());
            }
            ContextEventKind::AssistantMessage => {
                let calls = tool_calls_of(&event.content).unwrap_or_default();
                let mut ids = HashSet::new();
                if let Some(id) = calls
                    .iter()
                    .filter_map(|call| call.id.as_deref())
                    .find(|id| !ids.insert(*id))
                {
                    let message = format!(
                        "the message makes two tool calls with the id {id:?}, and a result answers one"
                    );
                    return Err(Error::invalid(message));
                }
                let is_item = |call: &&ToolCallRequest| {
                    let mut open = self.calls.with_id(&call.id);
                    open.any(|(_, open)| open.is_item)
                };
                if let Some(call) = calls.iter().find(is_item) {
                    return Err(Error::invalid(format!(
                        "the tool call {:?} is made a second time, and its first has no result yet",
                        call.id.as_deref().unwrap_or(&call.name)
                    )));
                }
                for call in calls {
                    let is_item = call.style.is_item();
                    self.add(call.id, call.name, is_item);
                }
            }
            ContextEventKind::UserMessage | ContextEventKind::SystemMessage => {}
        }
        Ok(())
    }

    /// Whether an event is a further item of the answer with the calls: OpenAI's Responses API has each call as an item
    /// of its own, and the results after all of them.
    fn continues_answer(&self, event: &NewContextEvent) -> bool {
        event.kind == ContextEventKind::AssistantMessage
            && self.others == 0
            && is_response_item(&event.content)
    }

    /// The call without an id that a result of this tool, which names none, answers.
    fn without_id(&self, tool: Option<&str>) -> Option<usize> {
        let open = self.calls.with_id(&None);
        place_without_id(
            open.map(|(number, open)| (number, open.tool.as_str())),
            tool,
        )
    }

    /// A result without an id, where no call without one is open.
    fn nameless(&self) -> Error {
        let why = if self.calls.is_empty() {
            "no tool call is open".to_owned()
        } else {
            format!("these calls are open: {}", self.named())
        };
        Error::invalid(format!(
            "a tool result doesn't say which call it answers: {why}; name the call, as in \"tool_call_id\""
        ))
    }

    fn between(&self) -> Error {
        Error::invalid(format!(
            "a message can't stand between tool calls and their results, which providers refuse, and these calls have \
             none: {}; record their results first, or close them with the context's `close_dangling_tool_calls` \
             (in a shell `runlog run --close-tool-calls`)",
            self.named()
        ))
    }

    /// The open calls, as an error names them.
    fn named(&self) -> String {
        let name = |(id, open): (&Option<String>, &Open)| match (id, open.tool.as_str()) {
            (Some(id), "") => id.clone(),
            (Some(id), tool) => format!("{id} ({tool})"),
            (None, tool) => tool.to_owned(),
        };
        some_of(self.calls.len(), self.calls.iter().map(name)).join(", ")
    }
}

/// The names of calls as an error has them: the first few, and how many more there are.
pub(super) fn some_of(count: usize, names: impl Iterator<Item = String>) -> Vec<String> {
    let more = count.saturating_sub(NAMED_MAX);
    let mut some: Vec<String> = names.take(NAMED_MAX).collect();
    if more > 0 {
        some.push(format!("and {more} more"));
    }
    some
}

/// Whether an event contains only results of tool calls, each of which names its call.
pub(super) fn is_result(event: &NewContextEvent) -> bool {
    event.kind == ContextEventKind::ToolResult
        && event
            .meta
            .tools
            .iter()
            .all(|mark| mark.tool_call_id.is_some())
        && OtherContent::results_of(event) == OtherContent::Nothing
}

/// The other content of a message with tool results: some providers have results in user messages.
#[derive(PartialEq)]
enum OtherContent {
    Nothing,
    Before,
    Behind,
}

impl OtherContent {
    fn results_of(event: &NewContextEvent) -> Self {
        #[derive(Deserialize)]
        struct Message<'m> {
            #[serde(borrow)]
            content: Vec<Part<'m>>,
        }
        #[derive(Deserialize)]
        struct Part<'m> {
            #[serde(borrow, default, rename = "type")]
            kind: Cow<'m, str>,
            /// The result that a block of Bedrock's is.
            #[serde(default, rename = "toolResult")]
            converse: Option<IgnoredAny>,
        }
        const RESULT: &str = "tool_result";
        let text = event.content.as_str();
        // A quick check first: results can be large, and most are a message of their own.
        if !text.contains(RESULT) && !text.contains("toolResult") {
            return Self::Nothing;
        }
        let Ok(Message { content }) = serde_json::from_str(text) else {
            return Self::Nothing;
        };
        let is_result = |part: &Part<'_>| part.kind == RESULT || part.converse.is_some();
        let results = content.iter().filter(|part| is_result(part)).count();
        match content.iter().take_while(|part| is_result(part)).count() {
            first if first == content.len() || results == 0 => Self::Nothing,
            first if first == results => Self::Behind,
            _ => Self::Before,
        }
    }
}
