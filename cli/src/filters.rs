//! Which runs, flows, messages and tool calls to list: written once, as options of the command and as arguments of the
//! tools that `runlog mcp` serves. The comments are the help of both.

use runlog::{
    RunId, RunStatus,
    blocking::Store,
    flows::ListFlows,
    runs::{ListRunMessages, ListRuns, ListToolCalls, ToolCallStatus},
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{args::from_to, failure::Result, find};

/// How many items a page has unless it is said.
const LIMIT: usize = 50;

/// Which page of a list.
#[derive(clap::Args, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Page {
    /// How many to list at most
    #[arg(short = 'n', long, default_value_t = LIMIT, value_name = "N",
        value_parser = from_to::<usize>(1..=100_000))]
    #[schemars(range(min = 1))]
    pub(crate) limit: usize,
    /// Go on where the page before ended, with the same filters: its `next`
    #[arg(long, value_name = "C")]
    pub(crate) cursor: Option<String>,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            cursor: None,
        }
    }
}

/// Which runs.
#[derive(clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunFilter {
    /// Only runs of this status: running, paused, completed, failed, cancelled
    #[arg(long, value_name = "STATUS")]
    #[schemars(with = "Option<String>")]
    status: Option<RunStatus>,
    /// Only runs of this agent
    #[arg(long = "agent", value_name = "NAME")]
    agent_name: Option<String>,
    /// Only runs that this run spawned
    #[arg(long = "parent", value_name = "RUN")]
    parent_run_id: Option<String>,
    /// Only runs in this session
    #[arg(long = "session", value_name = "SESSION")]
    session_id: Option<String>,
    /// Only runs of this project
    #[arg(long)]
    project: Option<String>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) page: Page,
}

impl RunFilter {
    /// The options for this store; runs and sessions may be named by a prefix of their ids.
    pub(crate) fn options(self, store: &Store) -> Result<ListRuns> {
        let session = self.session_id.map(|text| find::session(store, &text));
        Ok(ListRuns {
            status: self.status,
            agent_name: self.agent_name,
            parent_run_id: parent(store, self.parent_run_id)?,
            session_id: session.transpose()?.map(|session| session.id),
            project: self.project,
            limit: self.page.limit,
            cursor: self.page.cursor,
        })
    }
}

/// Which flows.
#[derive(clap::Args, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowFilter {
    /// Only flows of this status, as their snapshots say it
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Only flows of runs that this run spawned
    #[arg(long = "parent", value_name = "RUN")]
    parent_run_id: Option<String>,
    /// Only flows that are to be resumed: not over, and nobody is known to be at work on them
    #[arg(long)]
    #[serde(default)]
    pub(crate) resumable: bool,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) page: Page,
}

impl FlowFilter {
    /// The options for this store.
    pub(crate) fn options(self, store: &Store) -> Result<ListFlows> {
        Ok(ListFlows {
            status: self.status,
            parent_run_id: parent(store, self.parent_run_id)?,
            resumable: self.resumable,
            limit: self.page.limit,
            cursor: self.page.cursor,
        })
    }
}

/// Which messages of a run.
#[derive(clap::Args, Deserialize, JsonSchema)]
pub(crate) struct MessageFilter {
    /// Only messages of this step
    #[arg(long = "step", value_name = "N")]
    step_number: Option<u32>,
    /// From the last message back to the first
    #[arg(long)]
    #[serde(default)]
    newest_first: bool,
}

impl MessageFilter {
    /// The options for this filter and page.
    pub(crate) fn on(self, page: Page) -> ListRunMessages {
        ListRunMessages {
            step_number: self.step_number,
            newest_first: self.newest_first,
            limit: page.limit,
            cursor: page.cursor,
        }
    }
}

/// Which tool calls of a run.
#[derive(clap::Args, Deserialize, JsonSchema)]
pub(crate) struct ToolCallFilter {
    /// Only calls of this tool
    #[arg(long = "tool", value_name = "NAME")]
    tool_name: Option<String>,
    /// Only calls of this status: pending, completed, error
    #[arg(long, value_name = "STATUS")]
    #[schemars(with = "Option<String>")]
    status: Option<ToolCallStatus>,
}

impl ToolCallFilter {
    /// The options for this filter and page.
    pub(crate) fn on(self, page: Page) -> ListToolCalls {
        ListToolCalls {
            tool_name: self.tool_name,
            status: self.status,
            limit: page.limit,
            cursor: page.cursor,
        }
    }
}

/// The run that is named as a parent; an error if it doesn't exist.
fn parent(store: &Store, text: Option<String>) -> Result<Option<RunId>> {
    text.map(|text| find::run(store, &text)).transpose()
}
