//! [`AgentCatalogEvent`]: the events of agent definitions.

use serde::{Deserialize, Serialize};

use super::AgentDefinition;
use crate::{
    Result,
    encoding::{Event, events},
};

events! {
    /// One entry of the catalog of agents.
    pub enum AgentCatalogEvent {
        /// An agent was defined.
        AGENT_DEFINED => Defined(definition: Box<AgentDefinition>),
        /// Its definition was changed, and is now this one.
        AGENT_UPDATED => Updated(definition: Box<AgentDefinition>),
        /// The agent isn't defined any more.
        AGENT_DELETED => Deleted(deleted: DeletedAgent),
    }
}

impl Event for AgentCatalogEvent {
    const NAME: &'static str = "an agent definition";

    fn check(&self) -> Result<()> {
        match self {
            Self::Defined(definition) | Self::Updated(definition) => definition.check(),
            Self::Deleted(_) => Ok(()),
        }
    }
}

/// Which definition was deleted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeletedAgent {
    /// The project that it belonged to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Its name.
    pub name: String,
    /// When: milliseconds since 1970-01-01 UTC.
    pub at_ms: u64,
}
