//! Lines to agents, and their one encoder.

use runlog::{
    InstanceId, RawJson, RunId, SessionId,
    agents::{AgentSummary, SpawnResult},
    flows::RuntimeCommand,
};
use serde::Serialize;

/// The types of lines that only Runlog writes.
pub(super) const ONLY_TO_AGENT: [&str; 8] = [
    "ready",
    "ack",
    "described",
    "error",
    "agents",
    "spawned",
    "command",
    "stop",
];

/// A line to the agent.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToAgent<'a> {
    /// First and once.
    Hello(&'a Hello),
    /// A message of the context.
    Message {
        /// The sequence of its event.
        sequence: u64,
        message: &'a RawJson,
    },
    /// The context is complete.
    Ready(&'a Ready),
    /// Something was recorded.
    Ack(&'a Ack),
    /// A step began.
    Step(&'a Step),
    /// Its description of the run was recorded.
    Described {
        /// The line's own id, as JSON.
        id: Option<&'a RawJson>,
    },
    /// Something was refused.
    Error(&'a Refusal),
    /// The agents that can be spawned.
    Agents {
        /// The line's own id, as JSON.
        id: Option<&'a RawJson>,
        agents: &'a [AgentSummary],
    },
    /// The results of the agents that it spawned.
    Spawned {
        /// The line's own id, as JSON.
        id: Option<&'a RawJson>,
        /// One for each request, in order.
        results: &'a [SpawnResult],
    },
    /// A command that was sent to its run.
    Command { command: &'a RuntimeCommand },
    /// Runlog is stopping.
    Stop {
        /// Why.
        reason: &'a str,
    },
}

/// The identity of the agent and of its run.
#[derive(Serialize)]
pub(crate) struct Hello {
    /// The version of the protocol.
    pub(crate) protocol: u64,
    /// The version of Runlog.
    pub(crate) runlog: &'static str,
    pub(crate) session_id: SessionId,
    pub(crate) instance_id: InstanceId,
    /// The run that is recorded.
    pub(crate) run_id: RunId,
    /// The name of the agent.
    pub(crate) agent: String,
    /// `new`, `resumed`, `copied` or `overwritten`.
    pub(crate) started: &'static str,
    /// The context's last sequence.
    pub(crate) last_sequence: u64,
    /// The steps of the earlier runs that it resumes.
    pub(crate) step_count: u32,
    /// The steps that it may take; `None` is unlimited.
    pub(crate) max_steps: Option<u32>,
    /// The run that it resumes.
    pub(crate) resumed_from: Option<RunId>,
    /// The run that spawned it.
    pub(crate) parent_run_id: Option<RunId>,
    /// The task given when the run was started; `None` if none was given.
    pub(crate) task: Option<String>,
    /// The tools of its definition; `None` where the agent isn't defined.
    pub(crate) tools: Option<Vec<String>>,
}

/// The context is complete.
#[derive(Serialize)]
pub(crate) struct Ready {
    /// The tool calls without a result.
    pub(crate) dangling_tool_calls: Vec<Dangling>,
}

/// A tool call without a result.
#[derive(Serialize)]
pub(crate) struct Dangling {
    /// Its id.
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    /// The arguments as the provider wrote them.
    pub(crate) arguments: RawJson,
    /// The sequence of the call's event.
    pub(crate) sequence: u64,
}

/// Something is durable.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ack {
    /// The line's own id, as JSON.
    pub(crate) id: Option<RawJson>,
    /// The sequence of its first event.
    pub(crate) sequence: u64,
    /// The context's last sequence after it.
    pub(crate) last_sequence: u64,
    /// The step it belongs to, counted over all resumes.
    pub(crate) step: u32,
    /// Whether an earlier line had the same key, so that nothing was recorded now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) repeated: bool,
}

/// A step began.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Step {
    /// The line's own id, as JSON.
    pub(crate) id: Option<RawJson>,
    /// Its number, counted over all resumes.
    pub(crate) step: u32,
    /// How many may follow; `None` is unlimited.
    pub(crate) steps_left: Option<u32>,
}

impl ToAgent<'_> {
    /// The line, line feed included.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        for byte in &mut line {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        line.push(b'\n');
        line
    }
}

/// Why a line was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Refusal {
    /// The line's own id, as JSON.
    pub(crate) id: Option<RawJson>,
    /// The line of the agent's output, counted from 1.
    pub(crate) line: u64,
    /// One of the codes of the protocol.
    pub(crate) code: &'static str,
    /// What is wrong with it.
    pub(crate) message: String,
    /// Whether the refused line was a `done` line.
    #[serde(skip)]
    pub(crate) is_done: bool,
    /// Whether it is of a type that only Runlog writes.
    #[serde(skip)]
    pub(crate) is_echo: bool,
}

impl Refusal {
    /// The refusal of a line that is neither `done` nor of a type that only Runlog writes.
    pub(crate) fn new(id: Option<RawJson>, line: u64, code: &'static str, message: String) -> Self {
        Self {
            id,
            line,
            code,
            message,
            is_done: false,
            is_echo: false,
        }
    }
}
