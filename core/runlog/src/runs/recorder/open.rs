//! [`OpenCalls`]: the tool calls of a context that await their results, and what may stand behind them.

use std::{borrow::Cow, collections::HashSet};

use runlog_model::{
    ContextEvent, ContextEventKind, DanglingFold, DanglingToolCall, NewContextEvent, RawJson,
    tool_calls_of,
};
use serde::Deserialize;

use super::RunRecorder;
use crate::{Error, Result, contexts::events, runs::index::Turn};

/// The most calls that an error names.
const NAMED_MAX: usize = 5;

/// The tool calls that await their results, in the order they were made.
#[derive(Clone, Default)]
pub(in crate::runs) struct OpenCalls(Vec<Open>);

#[derive(Clone)]
struct Open {
    /// `None` with the providers that give none.
    id: Option<String>,
    tool: String,
}

impl RunRecorder {
    /// Waits for its turn to write to the context.
    pub(super) async fn turn<'e>(
        &self,
        mut events: impl Iterator<Item = &'e NewContextEvent>,
    ) -> Turn<'_> {
        self.inner.order.turn(events.all(is_result)).await
    }

    /// The calls that are open where events are about to be written; `None` for results alone, which may always stand
    /// there.
    pub(super) async fn open_before<'e>(
        &self,
        mut events: impl Iterator<Item = &'e NewContextEvent>,
    ) -> Result<Option<OpenCalls>> {
        if events.all(is_result) {
            return Ok(None);
        }
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
            state.calls.open.clone()
        };
        match known {
            Some(open) => Ok(Some(open)),
            None => self.look_for_open().await.map(Some),
        }
    }

    /// Looks back to the last message that is no result: nothing before it can be open in a context that providers take.
    async fn look_for_open(&self) -> Result<OpenCalls> {
        let instance = self.state().run.instance_id;
        let mut turn = Vec::new();
        let collect = |event: &ContextEvent| match event.event_type {
            ContextEventKind::UserMessage | ContextEventKind::SystemMessage => Some(()),
            ContextEventKind::AssistantMessage => {
                turn.push(event.clone());
                Some(())
            }
            ContextEventKind::ToolCall | ContextEventKind::ToolResult => {
                let mut event = event.clone();
                if event.event_type == ContextEventKind::ToolResult {
                    // What a result says doesn't matter, and may be large.
                    event.content = RawJson::null();
                }
                turn.push(event);
                None
            }
        };
        self.inner
            .runs
            .store
            .contexts()
            .find_back(instance, &ContextEventKind::ALL, collect)
            .await?;
        let mut fold = DanglingFold::new();
        turn.iter().rev().try_for_each(|event| fold.push(event))?;
        Ok(OpenCalls::of(fold.finish()))
    }
}

impl OpenCalls {
    pub(in crate::runs) fn of(calls: Vec<DanglingToolCall>) -> Self {
        Self(
            calls
                .into_iter()
                .map(|call| Open {
                    id: call.id,
                    tool: call.name,
                })
                .collect(),
        )
    }

    /// Takes in an event that is about to be written.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a message that isn't a result, or has other content beside results,
    /// while calls are open, and for one that makes two calls of one id.
    pub(in crate::runs) fn take(&mut self, event: &NewContextEvent) -> Result<()> {
        let marked = |open: &Open| {
            event
                .meta
                .tools
                .iter()
                .any(|mark| mark.tool_call_id == open.id)
        };
        match event.kind {
            ContextEventKind::ToolResult => {
                let beside = Beside::results_of(event);
                if beside == Beside::Before {
                    return Err(Error::invalid(
                        "a message has other content before its tool results, which providers refuse: put the results first",
                    ));
                }
                for mark in &event.meta.tools {
                    if let Some(place) = self.0.iter().position(|open| open.id == mark.tool_call_id)
                    {
                        self.0.remove(place);
                    }
                }
                if beside == Beside::Behind && !self.0.is_empty() {
                    return Err(self.between());
                }
            }
            // The message before it has made it, unless it was appended by itself.
            ContextEventKind::ToolCall if self.0.iter().any(marked) => {}
            ContextEventKind::ToolCall => {
                let id = event
                    .meta
                    .tools
                    .first()
                    .and_then(|mark| mark.tool_call_id.clone());
                self.0.push(Open {
                    id,
                    tool: String::new(),
                });
            }
            _ if !self.0.is_empty() => return Err(self.between()),
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
                self.0.extend(calls.into_iter().map(|call| Open {
                    id: call.id,
                    tool: call.name,
                }));
            }
            ContextEventKind::UserMessage | ContextEventKind::SystemMessage => {}
        }
        Ok(())
    }

    fn between(&self) -> Error {
        let name = |open: &Open| match (&open.id, open.tool.as_str()) {
            (Some(id), "") => id.clone(),
            (Some(id), tool) => format!("{id} ({tool})"),
            (None, tool) => tool.to_owned(),
        };
        let mut named: Vec<String> = self.0.iter().take(NAMED_MAX).map(name).collect();
        if self.0.len() > NAMED_MAX {
            named.push(format!("and {} more", self.0.len() - NAMED_MAX));
        }
        Error::invalid(format!(
            "a message can't stand between tool calls and their results, which providers refuse, and these calls have \
             none: {}; record their results first, or close the context's dangling tool calls",
            named.join(", ")
        ))
    }
}

/// Whether an event is nothing but results of tool calls.
fn is_result(event: &NewContextEvent) -> bool {
    event.kind == ContextEventKind::ToolResult && Beside::results_of(event) == Beside::Nothing
}

/// What a message has beside its tool results: some providers have those in messages of the user's.
#[derive(PartialEq)]
enum Beside {
    Nothing,
    Before,
    Behind,
}

impl Beside {
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
        }
        const RESULT: &str = "tool_result";
        let text = event.content.as_str();
        // Results can be large, and most are a message each.
        if !text.contains(RESULT) {
            return Self::Nothing;
        }
        let Ok(Message { content }) = serde_json::from_str(text) else {
            return Self::Nothing;
        };
        let is_result = |part: &Part<'_>| part.kind == RESULT;
        let results = content.iter().filter(|part| is_result(part)).count();
        match content.iter().take_while(|part| is_result(part)).count() {
            first if first == content.len() || results == 0 => Self::Nothing,
            first if first == results => Self::Behind,
            _ => Self::Before,
        }
    }
}
