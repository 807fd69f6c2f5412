//! [`Agents`]: [`crate::agents::Agents`] for callers that wait.

use pollster::block_on;
use runlog_model::{AgentDefinition, AgentSummary, ListAgents, Page, Updates};

use crate::Result;

/// The definitions of agents. [`crate::agents::Agents`] is the same for callers that await.
///
/// ```
/// use runlog::{AgentDefinition, agents::ListAgents, blocking::Store};
///
/// let agents = Store::in_memory().agents();
/// agents.define(AgentDefinition::new("coder", "Writes code."))?;
/// assert_eq!(agents.list(&ListAgents::of(None))?.agents[0].name, "coder");
/// assert!(agents.get(Some("another project"), "coder")?.is_none());
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Agents {
    inner: crate::agents::Agents,
}

impl Agents {
    pub(crate) fn new(inner: crate::agents::Agents) -> Self {
        Self { inner }
    }

    /// Defines an agent; its times are now, whatever they say. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::agents::Agents::define`].
    pub fn define(&self, definition: AgentDefinition) -> Result<AgentDefinition> {
        block_on(self.inner.define(definition))
    }

    /// Changes some fields of a definition. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::agents::Agents::update`].
    pub fn update(
        &self,
        project: Option<&str>,
        name: &str,
        updates: &Updates,
    ) -> Result<AgentDefinition> {
        block_on(self.inner.update(project, name, updates))
    }

    /// Sees to it that an agent is defined so. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::agents::Agents::put`].
    pub fn put(&self, definition: AgentDefinition) -> Result<AgentDefinition> {
        block_on(self.inner.put(definition))
    }

    /// Deletes a definition; runs that are at work go on. Durable when it returns.
    ///
    /// # Errors
    /// As [`crate::agents::Agents::delete`].
    pub fn delete(&self, project: Option<&str>, name: &str) -> Result<()> {
        block_on(self.inner.delete(project, name))
    }

    /// The agent of this name in a project, or in none.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn get(&self, project: Option<&str>, name: &str) -> Result<Option<AgentDefinition>> {
        block_on(self.inner.get(project, name))
    }

    /// One page of a project's definitions, in the order of their names.
    ///
    /// # Errors
    /// As [`crate::agents::Agents::list`].
    pub fn list(&self, options: &ListAgents) -> Result<Page<AgentDefinition>> {
        block_on(self.inner.list(options))
    }

    /// What an agent of a project is told of the agents there are.
    ///
    /// # Errors
    /// Those of reading the store.
    pub fn list_available_agents(&self, project: Option<&str>) -> Result<Vec<AgentSummary>> {
        block_on(self.inner.list_available_agents(project))
    }
}
