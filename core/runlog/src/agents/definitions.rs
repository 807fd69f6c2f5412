//! [`Agents`]: the definitions of the agents of each project.

use std::fmt;

use runlog_log::{Batch, Expected, Op, ReadOptions, Sequence, StreamId};
use runlog_model::{
    AgentCatalog, AgentCatalogEvent, AgentDefinition, AgentSummary, DeletedAgent, ListAgents, Page,
    Updates, kinds,
};

use crate::{
    Error, ErrorKind, Result, Store,
    journal::{
        cursor::{Kind as CursorKind, encode_name, read_name},
        follow::read_each,
        page::check_limit,
    },
    kernel::agents::AgentsFold,
};

/// The stream of every store that holds the agents' definitions.
pub const AGENTS_STREAM: StreamId = StreamId::from_bytes(*b"runlog:agents:01");

/// The definitions of agents. [`blocking::Agents`](crate::blocking::Agents) is the same for callers that wait.
///
/// A definition belongs to a project, or to none, and has a name that is unique there. Every change is an event of its
/// own; a run keeps the definition it was started with.
///
/// ```
/// use runlog::{AgentDefinition, RawJson, Store, chats::Updates};
///
/// # pollster::block_on(async {
/// let agents = Store::in_memory().agents();
/// let coder = AgentDefinition { max_steps: Some(50), ..AgentDefinition::new("coder", "Writes code.") };
/// agents.define(coder).await?;
/// agents.update(None, "coder", &Updates::new().with("description", RawJson::string("Writes Rust."))).await?;
/// assert_eq!(agents.list_available_agents(None).await?[0].description, "Writes Rust.");
/// # Ok::<(), runlog::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Agents {
    store: Store,
}

impl Store {
    /// The definitions of the agents of each project.
    pub fn agents(&self) -> Agents {
        Agents::new(self.clone())
    }
}

impl Agents {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    /// Defines an agent. Its times are set to now. Durable when it returns.
    ///
    /// # Errors
    /// [`AlreadyExists`](ErrorKind::AlreadyExists) when its project has an agent of this name,
    /// [`InvalidInput`](ErrorKind::InvalidInput) or [`TooLarge`](ErrorKind::TooLarge) for a field that is refused.
    pub async fn define(&self, definition: AgentDefinition) -> Result<AgentDefinition> {
        self.change(|catalog, now_ms| {
            let project = definition.project.as_deref();
            if catalog.agent(project, &definition.name).is_some() {
                return Err(Error::new(
                    ErrorKind::AlreadyExists,
                    format!(
                        "agent {:?} is defined already; update it, or choose another name",
                        definition.name
                    ),
                ));
            }
            definition.check_known(None)?;
            let definition = AgentDefinition {
                created_at_ms: now_ms,
                updated_at_ms: now_ms,
                ..definition.clone()
            };
            Ok(Some(AgentCatalogEvent::Defined(Box::new(definition))))
        })
        .await?;
        self.expect(definition.project.as_deref(), &definition.name)
            .await
    }

    /// Changes some fields of a definition; runs that have started are not affected. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such agent, [`InvalidInput`](ErrorKind::InvalidInput) or
    /// [`TooLarge`](ErrorKind::TooLarge) for a field that is refused or can't be changed.
    pub async fn update(
        &self,
        project: Option<&str>,
        name: &str,
        updates: &Updates,
    ) -> Result<AgentDefinition> {
        self.change(|catalog, now_ms| {
            let agent = catalog
                .agent(project, name)
                .ok_or_else(|| missing(project, name))?;
            let updated = AgentDefinition {
                updated_at_ms: now_ms,
                ..agent.with_updates(updates)?
            };
            Ok(Some(AgentCatalogEvent::Updated(Box::new(updated))))
        })
        .await?;
        self.expect(project, name).await
    }

    /// Defines the agent, or replaces its definition if it differs. Durable when it returns.
    ///
    /// # Errors
    /// As [`define`](Self::define), without [`AlreadyExists`](ErrorKind::AlreadyExists).
    pub async fn put(&self, definition: AgentDefinition) -> Result<AgentDefinition> {
        self.change(|catalog, now_ms| {
            let (created_at_ms, updated_at_ms) = (now_ms, now_ms);
            let found = catalog.agent(definition.project.as_deref(), &definition.name);
            definition.check_known(found)?;
            let Some(found) = found else {
                let definition = AgentDefinition {
                    created_at_ms,
                    updated_at_ms,
                    ..definition.clone()
                };
                return Ok(Some(AgentCatalogEvent::Defined(Box::new(definition))));
            };
            let (created_at_ms, updated_before) = (found.created_at_ms, found.updated_at_ms);
            let unchanged = AgentDefinition {
                created_at_ms,
                updated_at_ms: updated_before,
                ..definition.clone()
            } == *found;
            let updated = AgentDefinition {
                created_at_ms,
                updated_at_ms,
                ..definition.clone()
            };
            Ok((!unchanged).then(|| AgentCatalogEvent::Updated(Box::new(updated))))
        })
        .await?;
        self.expect(definition.project.as_deref(), &definition.name)
            .await
    }

    /// Deletes a definition: it is no longer listed, and its agent can't be spawned, started or resumed until it is
    /// defined again. Active runs continue, and the agent's history is kept. Durable when it returns.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound) when there is no such agent.
    pub async fn delete(&self, project: Option<&str>, name: &str) -> Result<()> {
        self.change(|catalog, at_ms| {
            catalog
                .agent(project, name)
                .ok_or_else(|| missing(project, name))?;
            let deleted = DeletedAgent {
                project: project.map(str::to_owned),
                name: name.to_owned(),
                at_ms,
            };
            Ok(Some(AgentCatalogEvent::Deleted(deleted)))
        })
        .await
    }

    /// The agent of this name in a project, or in none.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn get(&self, project: Option<&str>, name: &str) -> Result<Option<AgentDefinition>> {
        self.catch_up().await?;
        Ok(self.fold().locked().agent(project, name).cloned())
    }

    /// One page of a project's definitions, in the order of their names.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a limit of 0, or a cursor of another list; else those of reading the
    /// store.
    pub async fn list(&self, options: &ListAgents) -> Result<Page<AgentDefinition>> {
        check_limit(options.limit)?;
        let filter = (&options.project, options.visibility);
        let after = read_name(options.cursor.as_deref(), CursorKind::Agents, &filter)?;
        self.catch_up().await?;
        let (items, last) = self.fold().locked().list(options, after.as_deref());
        let next = last.map(|last| encode_name(&last, CursorKind::Agents, &filter));
        Ok(Page { items, next })
    }

    /// The projects that have agents, in order, each with how many; first those of no project, `None`.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn projects(&self) -> Result<Vec<(Option<String>, usize)>> {
        self.catch_up().await?;
        let fold = self.fold().locked();
        let projects = fold.projects();
        Ok(projects
            .map(|(project, agents)| (project.map(str::to_owned), agents))
            .collect())
    }

    /// The agents of a project as its agents see them: all of them, whatever their visibility, without their prompts.
    ///
    /// # Errors
    /// Those of reading the store.
    pub async fn list_available_agents(&self, project: Option<&str>) -> Result<Vec<AgentSummary>> {
        self.catch_up().await?;
        Ok(self
            .fold()
            .locked()
            .agents(project)
            .map(AgentDefinition::to_summary)
            .collect())
    }

    fn fold(&self) -> &AgentsFold {
        self.store.agents_fold()
    }

    /// The agent that was just changed.
    async fn expect(&self, project: Option<&str>, name: &str) -> Result<AgentDefinition> {
        self.get(project, name)
            .await?
            .ok_or_else(|| missing(project, name))
    }

    /// Catches up, decides what to write, and writes it unless a definition was changed in between; then it decides again.
    async fn change(
        &self,
        decide: impl Fn(&AgentCatalog, u64) -> Result<Option<AgentCatalogEvent>>,
    ) -> Result<()> {
        let backend = self.store.backend();
        let mut attempts = self.store.attempts(AGENTS_STREAM).await;
        loop {
            self.catch_up().await?;
            let (last, event) = {
                let catalog = self.fold().locked();
                (catalog.last_sequence(), decide(&catalog, backend.now_ms())?)
            };
            let Some(event) = event else { return Ok(()) };
            let encoded = event.encode()?;
            let expected = Expected::Last(Sequence(last));
            let append = Op::Append {
                stream: AGENTS_STREAM,
                expected,
                records: vec![encoded.record()],
            };
            match backend.commit(Batch::new(vec![append])).await {
                Ok(_) => return Ok(()),
                Err(error) => attempts.again(error).await?,
            }
        }
    }

    async fn catch_up(&self) -> Result<()> {
        let backend = self.store.backend();
        let Some(info) = backend.stream(AGENTS_STREAM).await? else {
            return Ok(());
        };
        let options = ReadOptions {
            first: Sequence(self.fold().locked().last_sequence()).next(),
            last: info.last_sequence,
            ..ReadOptions::default()
        };
        read_each(&**backend, AGENTS_STREAM, options, &mut |record| {
            // Applying an event that another task has applied already is a no-op. Only a repair redacts one, and only if it
            // can't be read.
            let applied = if record.redacted || record.kind.0 == kinds::LISTED_EVENT_LOST {
                self.fold().locked().pass_over(record.sequence.0)
            } else {
                AgentCatalogEvent::decode(record.kind.0, &record.meta, &record.payload)
                    .and_then(|event| self.fold().locked().apply(record.sequence.0, event))
            };
            applied.map_err(|error| {
                let message = format!("agent event {}: {error}", record.sequence);
                Error::new(error.kind(), message)
            })
        })
        .await
    }
}

fn missing(project: Option<&str>, name: &str) -> Error {
    let place = project.map_or_else(String::new, |project| format!(" in project {project:?}"));
    Error::not_found(format!(
        "no agent {name:?} is defined{place}; the list of available agents tells which are"
    ))
}

impl fmt::Debug for Agents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agents").finish_non_exhaustive()
    }
}
