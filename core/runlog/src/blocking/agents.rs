//! [`Agents`]: the blocking [`crate::agents::Agents`].

use runlog_model::{AgentDefinition, AgentSummary, ListAgents, Page, Updates};

use crate::Result;

/// The definitions of agents. [`crate::agents::Agents`] is its async counterpart.
///
/// ```
/// use runlog::{AgentDefinition, agents::ListAgents, blocking::Store};
///
/// let agents = Store::in_memory().agents();
/// agents.define(AgentDefinition::new("coder", "Writes code."))?;
/// assert_eq!(agents.list(&ListAgents::of(None))?.items[0].name, "coder");
/// assert!(agents.get(Some("another project"), "coder")?.is_none());
/// # Ok::<(), runlog::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Agents {
    inner: crate::agents::Agents,
}

waiting! {
    Agents: crate::agents::Agents;

    /// Defines an agent. Its times are set to now. Durable when it returns.
    fn define(&self, definition: AgentDefinition) -> Result<AgentDefinition>;

    /// Changes some fields of a definition; runs that have started are not affected. Durable when it returns.
    fn update(
        &self,
        project: Option<&str>,
        name: &str,
        updates: &Updates,
    ) -> Result<AgentDefinition>;

    /// Defines the agent, or replaces its definition if it differs. Durable when it returns.
    fn put(&self, definition: AgentDefinition) -> Result<AgentDefinition>;

    /// Deletes a definition: it is no longer listed, and its agent can't be spawned, started or resumed until it is
    /// defined again. Active runs continue, and the agent's history is kept. Durable when it returns.
    fn delete(&self, project: Option<&str>, name: &str) -> Result<()>;

    /// The agent of this name in a project, or in none.
    fn get(&self, project: Option<&str>, name: &str) -> Result<Option<AgentDefinition>>;

    /// One page of a project's definitions, in the order of their names.
    fn list(&self, options: &ListAgents) -> Result<Page<AgentDefinition>>;

    /// The projects that have agents, in order, each with how many; first those of no project, `None`.
    fn projects(&self) -> Result<Vec<(Option<String>, usize)>>;

    /// The agents of a project as its agents see them: all of them, whatever their visibility, without their prompts.
    fn list_available_agents(&self, project: Option<&str>) -> Result<Vec<AgentSummary>>;
}
