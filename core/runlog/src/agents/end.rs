//! [`AgentEnd`]: how the work of an executor ends.

use super::runtime::Boxed;

/// Whatever went wrong in an agent: the run fails with its text.
pub type AgentError = Box<dyn std::error::Error + Send + Sync>;

/// The execution of an agent.
pub type Execution = Boxed<'static, Result<AgentEnd, AgentError>>;

/// How an agent ended by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AgentEnd {
    /// It is done; with its final text.
    Completed(Option<String>),
    /// It stopped before it was done, for this reason, and can be resumed.
    Paused(String),
}

impl AgentEnd {
    /// It is done, with this final text.
    pub fn completed(summary: impl Into<String>) -> Self {
        Self::Completed(Some(summary.into()))
    }

    /// It stopped before it was done, and can be resumed.
    pub fn paused(reason: impl Into<String>) -> Self {
        Self::Paused(reason.into())
    }
}

impl From<()> for AgentEnd {
    fn from((): ()) -> Self {
        Self::Completed(None)
    }
}

impl From<String> for AgentEnd {
    fn from(summary: String) -> Self {
        Self::completed(summary)
    }
}

impl From<&str> for AgentEnd {
    fn from(summary: &str) -> Self {
        Self::completed(summary)
    }
}
