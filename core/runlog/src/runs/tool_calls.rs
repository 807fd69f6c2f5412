//! The tool calls of a run, with their results.

use runlog_model::{
    ContextEventKind, Page, RunId, ToolCall, ToolCallFold, ToolCallStatus, tool_call_label,
};
use serde::{Deserialize, Serialize};

use super::{
    Runs,
    events::{More, events_to_read},
    load::LoadedRun,
    turns::Turns,
};
use crate::{
    Result,
    journal::{
        cursor::{Cursor, Kind},
        page::check_limit,
    },
};

/// Which tool calls of a run to list, and how many.
///
/// ```
/// use runlog::{
///     NewRun, NewSession,
///     blocking::Store,
///     runs::{ListToolCalls, ToolCallStatus},
/// };
///
/// let store = Store::in_memory();
/// let run = store.runs().start(NewRun::in_new_session(NewSession::default(), "coder"))?;
/// let failed = ListToolCalls { status: Some(ToolCallStatus::Error), limit: 10, ..ListToolCalls::default() };
/// let page = store.runs().tool_calls(run.id(), &failed)?;
/// assert!(page.items.is_empty() && page.next.is_none());
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListToolCalls {
    /// Only calls of this tool; `None` is all. A call whose own record is redacted is of no tool here.
    pub tool_name: Option<String>,
    /// Only calls of this status; `None` is all.
    pub status: Option<ToolCallStatus>,
    /// At most so many.
    pub limit: usize,
    /// Where to go on: what the page before said comes next.
    pub cursor: Option<String>,
}

impl Default for ListToolCalls {
    fn default() -> Self {
        Self {
            tool_name: None,
            status: None,
            limit: 50,
            cursor: None,
        }
    }
}

impl Runs {
    /// One page of a run's tool calls, in the order in which they were made, which is that of its steps.
    ///
    /// # Errors
    /// As [`messages`](Self::messages).
    pub async fn tool_calls(&self, id: RunId, options: &ListToolCalls) -> Result<Page<ToolCall>> {
        check_limit(options.limit)?;
        let filter = (id, &options.tool_name, options.status);
        let cursor = Cursor::read(options.cursor.as_deref(), Kind::ToolCalls, &filter)?;
        let run = self.load(id).await?;
        if let Some(name) = &options.tool_name {
            let after = cursor.map(|cursor| cursor.second);
            let calls = self.calls_of_tool(&run, name, options, after).await?;
            return Ok(page_of(calls, options.limit, &filter));
        }
        if options.status == Some(ToolCallStatus::Error) {
            let calls = self.failed_calls(&run, options.limit, cursor).await?;
            return Ok(page_of(calls, options.limit, &filter));
        }
        // The fold begins at the message of the last returned call, or of the answer that it is an item of: what another item asked
        // for may be redacted.
        let (first, after) = match cursor {
            Some(cursor) if self.store.backend().redactions() > 0 => {
                let first = self.turn_before(&run, cursor.first + 1).await?;
                (first, cursor.second)
            }
            Some(cursor) => (cursor.first, cursor.second),
            None => (self.first_sequence(&run).await?, 0),
        };
        let mut fold = self.tool_call_fold(&run).await?;
        let wanted = options.limit.saturating_add(1);
        let admits = |call: &ToolCall| call.sequence_number > after && options.admits(call);
        let mut calls = Vec::new();
        let end = self
            .each_of_context(
                &run,
                first,
                events_to_read(options.limit),
                |event, owner| {
                    owner.push(event, &mut fold);
                    // Only matching calls are collected, because a run has no maximum length.
                    while calls.len() < wanted
                        && let Some(call) = fold.take_settled()
                    {
                        calls.extend(Some(call).filter(admits));
                    }
                    Ok(if calls.len() == wanted {
                        More::Unwanted
                    } else {
                        More::Wanted
                    })
                },
            )
            .await?;
        self.take_late_results(&run, end, &mut fold).await?;
        calls.extend(fold.finish().into_iter().filter(admits));
        calls.truncate(wanted);
        Ok(page_of(calls, options.limit, &filter))
    }

    /// One tool call of a run, by its id, with its whole input and output.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) when there is no such run; else those of reading the store.
    pub async fn tool_call(&self, id: RunId, call_id: u64) -> Result<Option<ToolCall>> {
        let run = self.load(id).await?;
        let event = self.event_at(&run, call_id).await?;
        let Some(event) = event.filter(|event| event.event_type == ContextEventKind::ToolCall)
        else {
            return Ok(None);
        };
        self.call_at(&run, &event, &mut Turns::default()).await
    }

    /// The run's calls of one tool that match the filters, after a sequence: one more than the page has. They are found
    /// by label, so the cost depends only on the calls of this tool.
    async fn calls_of_tool(
        &self,
        run: &LoadedRun,
        tool_name: &str,
        options: &ListToolCalls,
        after: Option<u64>,
    ) -> Result<Vec<ToolCall>> {
        let (label, wanted) = (
            tool_call_label(run.run.id, tool_name),
            options.limit.saturating_add(1),
        );
        let (mut calls, mut next) = (Vec::new(), self.position_after(run, after).await?);
        let mut turns = Turns::default();
        while let Some(first) = next.filter(|_| calls.len() < wanted) {
            let events;
            (events, next) = self.labelled_events(run, label, first, wanted).await?;
            for event in events.into_iter().filter(|event| run.owns(event)) {
                if calls.len() == wanted {
                    break;
                }
                if event.event_type != ContextEventKind::ToolCall {
                    continue;
                }
                let call = self.call_at(run, &event, &mut turns).await?;
                calls.extend(call.filter(|call| options.admits(call)));
            }
        }
        calls.truncate(wanted);
        Ok(calls)
    }

    /// Searches the events after a run for the results of calls that it left open: a tool may answer after a resume.
    pub(super) async fn take_late_results(
        &self,
        run: &LoadedRun,
        end: Option<u64>,
        fold: &mut ToolCallFold,
    ) -> Result<()> {
        let Some(first) = end.filter(|_| fold.is_open()) else {
            return Ok(());
        };
        let mut pages = self
            .store
            .contexts()
            .events(run.run.instance_id, first)
            .await?;
        while let Some(page) = pages.next_page().await? {
            page.iter().for_each(|event| fold.push_of_others(event));
            if !fold.is_open() {
                break;
            }
        }
        Ok(())
    }
}

impl ListToolCalls {
    fn admits(&self, call: &ToolCall) -> bool {
        self.tool_name
            .as_ref()
            .is_none_or(|name| call.tool_name == *name)
            && self.status.is_none_or(|status| call.status == status)
    }
}

/// A page of calls; `items` has one more if there is a next page.
fn page_of(mut items: Vec<ToolCall>, limit: usize, filter: &impl Serialize) -> Page<ToolCall> {
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|last| {
        let cursor = Cursor {
            first: last.message_sequence,
            second: last.sequence_number,
            ..Cursor::default()
        };
        cursor.encode(Kind::ToolCalls, filter)
    });
    Page { items, next }
}
