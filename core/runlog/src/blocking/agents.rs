//! [`Agents`]: [`crate::agents::Agents`] for callers that wait.

use runlog_model::{AgentDefinition, AgentSummary, ListAgents, Page, Updates};

use crate::Result;

/// The definitions of agents. [`crate::agents::Agents`] is the same for callers that await.
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

    /// Defines an agent; its times are now, whatever they say. Durable when it returns.
    fn define(&self, definition: AgentDefinition) -> Result<AgentDefinition>;

    /// Changes some fields of a definition; runs that have begun are not concerned. Durable when it returns.
    fn update(
        &self,
        project: Option<&str>,
        name: &str,
        updates: &Updates,
    ) -> Result<AgentDefinition>;

    /// Sees to it that an agent is defined so: defines it, or changes it, or leaves it as it is. Durable when it
    /// returns.
    fn put(&self, definition: AgentDefinition) -> Result<AgentDefinition>;

    /// Deletes a definition: it is in no list any more, and its agent can't be spawned, started or resumed until it
    /// is defined again. Runs that are at work go on, and what the agent has done stays. Durable when it returns.
    fn delete(&self, project: Option<&str>, name: &str) -> Result<()>;

    /// The agent of this name in a project, or in none.
    fn get(&self, project: Option<&str>, name: &str) -> Result<Option<AgentDefinition>>;

    /// One page of a project's definitions, in the order of their names.
    fn list(&self, options: &ListAgents) -> Result<Page<AgentDefinition>>;

    /// The projects that have agents, in order, each with how many; first those of no project, `None`.
    fn projects(&self) -> Result<Vec<(Option<String>, usize)>>;

    /// What an agent of a project is told of the agents there are, itself included: all of them, whatever their
    /// visibility, without their prompts.
    fn list_available_agents(&self, project: Option<&str>) -> Result<Vec<AgentSummary>>;
}
