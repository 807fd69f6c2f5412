//! [`AgentCatalog`]: the fold that lists and finds definitions of agents.

use std::{collections::BTreeMap, ops::Bound};

use super::{AgentCatalogEvent, AgentDefinition, AgentVisibility, DeletedAgent};
use crate::{Error, Result};

/// Which definitions to list, and how many.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListAgents {
    /// Those of this project; `None` is those of no project.
    pub project: Option<String>,
    /// Only those of this visibility; `None` is all.
    pub visibility: Option<AgentVisibility>,
    /// At most so many.
    pub limit: usize,
    /// Where to go on: the name that the page before ended with.
    pub after: Option<String>,
}

impl ListAgents {
    /// The first agents of a project.
    pub fn of(project: Option<&str>) -> Self {
        Self {
            project: project.map(str::to_owned),
            visibility: None,
            limit: 50,
            after: None,
        }
    }
}

/// Some definitions of a project, in the order of their names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentsPage {
    /// The definitions.
    pub agents: Vec<AgentDefinition>,
    /// What to list [after](ListAgents::after) next; `None` when this is the last page.
    pub next: Option<String>,
}

/// The definitions there are, folded from the events of their stream.
///
/// ```
/// use runlog_model::{AgentCatalog, AgentCatalogEvent, AgentDefinition, ListAgents};
///
/// let mut catalog = AgentCatalog::new();
/// let agent = AgentDefinition::new("coder", "Writes code.");
/// catalog.apply(1, AgentCatalogEvent::Defined(Box::new(agent.clone())))?;
/// assert_eq!(catalog.agent(None, "coder"), Some(&agent));
/// assert_eq!(catalog.list(&ListAgents::of(None)).agents, [agent]);
/// # Ok::<(), runlog_model::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct AgentCatalog {
    last_sequence: u64,
    projects: BTreeMap<Option<String>, BTreeMap<String, AgentDefinition>>,
}

impl AgentCatalog {
    /// A catalog of no agents.
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
        if sequence <= self.last_sequence {
            return Ok(());
        }
        let expected = self.last_sequence + 1;
        if sequence != expected {
            return Err(Error::damaged(format!(
                "agent event {expected} should come next, but {sequence} does"
            )));
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

    /// The agent of this name in a project.
    pub fn agent(&self, project: Option<&str>, name: &str) -> Option<&AgentDefinition> {
        self.project(project)?.get(name)
    }

    /// All agents of a project, in the order of their names.
    pub fn agents(&self, project: Option<&str>) -> impl Iterator<Item = &AgentDefinition> {
        self.project(project).into_iter().flat_map(BTreeMap::values)
    }

    /// One page of a project's agents.
    pub fn list(&self, options: &ListAgents) -> AgentsPage {
        let mut page = AgentsPage {
            agents: Vec::new(),
            next: None,
        };
        let Some(agents) = self.project(options.project.as_deref()) else {
            return page;
        };
        let first = options
            .after
            .as_deref()
            .map_or(Bound::Unbounded, Bound::Excluded);
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
            if page.agents.len() == options.limit {
                page.next = page.agents.last().map(|last| last.name.clone());
                break;
            }
            page.agents.push(agent.clone());
        }
        page
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
        let names = |page: &AgentsPage| {
            page.agents
                .iter()
                .map(|agent| agent.name.clone())
                .collect::<Vec<_>>()
        };
        let first = catalog.list(&ListAgents {
            limit: 2,
            ..ListAgents::of(Some("p"))
        });
        assert_eq!(
            (names(&first), first.next.as_deref()),
            (vec!["a".into(), "b".into()], Some("b"))
        );
        let second = catalog.list(&ListAgents {
            limit: 2,
            after: first.next,
            ..ListAgents::of(Some("p"))
        });
        assert_eq!((names(&second), second.next), (vec!["c".into()], None));
        assert_eq!(names(&catalog.list(&ListAgents::of(None))), ["a"]);
        let internal = ListAgents {
            visibility: Some(AgentVisibility::Internal),
            ..ListAgents::of(None)
        };
        assert!(catalog.list(&internal).agents.is_empty() && catalog.agent(None, "b").is_none());
    }

    proptest! {
        #[test]
        fn hostile_payloads_never_panic(kind in 20_u8..30, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = AgentCatalogEvent::decode(kind, &[1], &bytes);
        }
    }
}
