//! [`AgentCatalog`]: the fold that lists and finds definitions of agents.

use std::{collections::BTreeMap, ops::Bound};

use serde::Deserialize;

use super::{AgentCatalogEvent, AgentDefinition, AgentVisibility, DeletedAgent};
use crate::{Error, Result};

/// Which definitions to list, and how many.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct ListAgents {
    /// Only definitions of this project; `None` lists those of no project.
    pub project: Option<String>,
    /// Only those of this visibility; `None` is all.
    pub visibility: Option<AgentVisibility>,
    /// The maximum number of definitions.
    pub limit: usize,
    /// Where to continue: the [`next`](crate::Page::next) of the previous page.
    pub cursor: Option<String>,
}

impl Default for ListAgents {
    fn default() -> Self {
        Self::of(None)
    }
}

impl ListAgents {
    /// The first agents of a project.
    pub fn of(project: Option<&str>) -> Self {
        Self {
            project: project.map(str::to_owned),
            visibility: None,
            limit: 50,
            cursor: None,
        }
    }
}

/// The existing definitions, folded from the events of their stream.
///
/// ```
/// use runlog_model::{AgentCatalog, AgentCatalogEvent, AgentDefinition, ListAgents};
///
/// let mut catalog = AgentCatalog::new();
/// let agent = AgentDefinition::new("coder", "Writes code.");
/// catalog.apply(1, AgentCatalogEvent::Defined(Box::new(agent.clone())))?;
/// assert_eq!(catalog.agent(None, "coder"), Some(&agent));
/// assert_eq!(catalog.list(&ListAgents::of(None), None), (vec![agent], None));
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AgentCatalog {
    last_sequence: u64,
    projects: BTreeMap<Option<String>, BTreeMap<String, AgentDefinition>>,
}

impl AgentCatalog {
    /// An empty catalog.
    pub fn new() -> Self {
        Self::default()
    }

    /// The sequence of the last event that was applied.
    pub fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// Applies the event at a sequence. One that was applied before changes nothing.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when it doesn't follow from those before it.
    pub fn apply(&mut self, sequence: u64, event: AgentCatalogEvent) -> Result<()> {
        if !self.is_next(sequence)? {
            return Ok(());
        }
        match event {
            AgentCatalogEvent::Defined(definition) | AgentCatalogEvent::Updated(definition) => {
                let agents = self.projects.entry(definition.project.clone()).or_default();
                agents.insert(definition.name.clone(), *definition);
            }
            AgentCatalogEvent::Deleted(DeletedAgent { project, name, .. }) => {
                if let Some(agents) = self.projects.get_mut(&project) {
                    agents.remove(&name);
                }
            }
        }
        self.last_sequence = sequence;
        Ok(())
    }

    /// Goes on without the event at a sequence, which is lost.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) when another event comes next.
    pub fn pass_over(&mut self, sequence: u64) -> Result<()> {
        if self.is_next(sequence)? {
            self.last_sequence = sequence;
        }
        Ok(())
    }

    /// Whether the event at a sequence is the next one; `false` if it was applied before.
    fn is_next(&self, sequence: u64) -> Result<bool> {
        let expected = self.last_sequence + 1;
        if sequence > expected {
            return Err(Error::damaged(format!(
                "agent event {expected} should come next, but {sequence} does"
            )));
        }
        Ok(sequence == expected)
    }

    /// The agent of this name in a project.
    pub fn agent(&self, project: Option<&str>, name: &str) -> Option<&AgentDefinition> {
        self.project(project)?.get(name)
    }

    /// All agents of a project, in the order of their names.
    pub fn agents(&self, project: Option<&str>) -> impl Iterator<Item = &AgentDefinition> {
        self.project(project).into_iter().flat_map(BTreeMap::values)
    }

    /// At most `limit` of a project's agents, by name, those after the name `after`; and the name after which the next
    /// page begins.
    pub fn list(
        &self,
        options: &ListAgents,
        after: Option<&str>,
    ) -> (Vec<AgentDefinition>, Option<String>) {
        let mut items = Vec::new();
        let Some(agents) = self.project(options.project.as_deref()) else {
            return (items, None);
        };
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        for agent in agents
            .range::<str, _>((first, Bound::Unbounded))
            .map(|(_, agent)| agent)
        {
            if options
                .visibility
                .is_some_and(|visibility| visibility != agent.visibility)
            {
                continue;
            }
            if items.len() == options.limit {
                let last = items.last().map(|last: &AgentDefinition| last.name.clone());
                return (items, last);
            }
            items.push(agent.clone());
        }
        (items, None)
    }

    /// The projects that have agents, in order, each with how many; first those of no project.
    pub fn projects(&self) -> impl Iterator<Item = (Option<&str>, usize)> {
        let projects = self
            .projects
            .iter()
            .filter(|(_, agents)| !agents.is_empty());
        projects.map(|(project, agents)| (project.as_deref(), agents.len()))
    }

    fn project(&self, project: Option<&str>) -> Option<&BTreeMap<String, AgentDefinition>> {
        self.projects.get(&project.map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ErrorKind;

    fn defined(project: Option<&str>, name: &str) -> AgentCatalogEvent {
        let agent = AgentDefinition {
            project: project.map(str::to_owned),
            ..AgentDefinition::new(name, "")
        };
        AgentCatalogEvent::Defined(Box::new(agent))
    }

    #[test]
    fn events_come_back_as_they_were_written() {
        let deleted = DeletedAgent {
            project: None,
            name: "b".into(),
            at_ms: 7,
        };
        for event in [
            defined(Some("p"), "a"),
            AgentCatalogEvent::Updated(Box::new(AgentDefinition::new("b", "c"))),
            AgentCatalogEvent::Deleted(deleted),
        ] {
            let encoded = event.encode().unwrap();
            assert_eq!(
                AgentCatalogEvent::decode(encoded.kind, &encoded.meta, &encoded.payload).unwrap(),
                event
            );
        }
        let unknown = AgentCatalogEvent::decode(27, &[1], b"{}").unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::UnsupportedVersion);
    }

    #[test]
    fn projects_are_apart_and_pages_follow_each_other() {
        let mut catalog = AgentCatalog::new();
        for (sequence, name) in (1..).zip(["c", "a", "b"]) {
            catalog.apply(sequence, defined(Some("p"), name)).unwrap();
        }
        catalog.apply(4, defined(None, "a")).unwrap();
        catalog.apply(4, defined(None, "again")).unwrap();
        assert_eq!(
            catalog.apply(6, defined(None, "z")).unwrap_err().kind(),
            ErrorKind::Damaged
        );
        let names = |agents: &[AgentDefinition]| {
            let names = agents.iter().map(|agent| agent.name.clone());
            names.collect::<Vec<_>>()
        };
        let two = ListAgents {
            limit: 2,
            ..ListAgents::of(Some("p"))
        };
        let (first, next) = catalog.list(&two, None);
        assert_eq!(
            (names(&first), next.as_deref()),
            (vec!["a".into(), "b".into()], Some("b"))
        );
        let (second, end) = catalog.list(&two, next.as_deref());
        assert_eq!((names(&second), end), (vec!["c".into()], None));
        let (of_none, _) = catalog.list(&ListAgents::of(None), None);
        assert_eq!(names(&of_none), ["a"]);
        let internal = ListAgents {
            visibility: Some(AgentVisibility::Internal),
            ..ListAgents::of(None)
        };
        let (internal, _) = catalog.list(&internal, None);
        assert!(internal.is_empty() && catalog.agent(None, "b").is_none());
    }

    proptest! {
        #[test]
        fn hostile_payloads_never_panic(kind in 20_u8..30, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = AgentCatalogEvent::decode(kind, &[1], &bytes);
        }
    }
}
