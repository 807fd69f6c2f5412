//! Listing again what the catalogs lost: runs, and the agent instances of contexts.

use std::collections::HashSet;

use runlog_log::{Batch, Direction, Kind, ReadOptions, Sequence, StreamId};
use runlog_model::{
    AgentInstance, CatalogEvent, ContextEventKind, EncodedEvent, InstanceId, Run, RunCatalogEvent,
    RunId, RunStatus, Session, SessionId, kinds,
};

use super::{Runs, creation::listed_description, load::LoadedRun};
use crate::{
    ErrorKind, Result,
    kernel::{
        catalog::CATALOG_STREAM,
        records::{append, context_stream, run_stream},
        runs::RUNS_STREAM,
    },
};

/// How many events are written in one batch.
const EVENTS_PER_BATCH: usize = 500;
/// The name of an agent, where nothing tells it.
const UNKNOWN_AGENT: &str = "unknown";

/// What was listed again.
#[derive(Default)]
pub(crate) struct Relisted {
    pub(crate) runs: Vec<RunId>,
    pub(crate) instances: Vec<InstanceId>,
    /// Those that were listed for an instance.
    sessions: HashSet<SessionId>,
    run_events: Vec<EncodedEvent>,
    instance_events: Vec<EncodedEvent>,
}

impl Runs {
    /// Compares the lists of runs and instances with the streams of the store, and adds what they lack: runs as their own events
    /// tell, instances as their runs tell, or in a session of their own. It looks at every stream.
    ///
    /// # Errors
    /// Those of reading the store, except of a run whose own events are damaged: that one stays as it is listed.
    pub(crate) async fn relist(&self) -> Result<Relisted> {
        let mut all = Relisted::default();
        let streams = self.store.backend().maintenance().streams().await?;
        for stream in &streams {
            let StreamId(id) = stream.id;
            if let Some(run) = self.run_of(RunId(id)).await? {
                self.relist_run(&run, &mut all).await?;
                if self.lacks(run.instance_id).await? {
                    self.list_instance(instance_of(&run), &mut all).await?;
                }
            }
            self.append_events(&mut all, EVENTS_PER_BATCH).await?;
        }
        // Those that no run has recorded.
        self.append_events(&mut all, 1).await?;
        for stream in &streams {
            let instance = InstanceId(stream.id.0);
            if self.lacks(instance).await? && self.is_context(instance).await? {
                let unknown = AgentInstance {
                    id: instance,
                    session_id: SessionId(self.store.backend().new_id()),
                    agent_name: UNKNOWN_AGENT.to_owned(),
                    parent_instance_id: None,
                    created_at_ms: self.store.backend().now_ms(),
                };
                self.list_instance(unknown, &mut all).await?;
            }
            self.append_events(&mut all, EVENTS_PER_BATCH).await?;
        }
        self.append_events(&mut all, 1).await?;
        Ok(all)
    }

    /// Writes the events, if there are so many.
    async fn append_events(&self, all: &mut Relisted, count: usize) -> Result<()> {
        if all.run_events.len().max(all.instance_events.len()) < count {
            return Ok(());
        }
        let instances = std::mem::take(&mut all.instance_events);
        let runs = std::mem::take(&mut all.run_events);
        let lists = [(CATALOG_STREAM, &instances), (RUNS_STREAM, &runs)];
        let ops = lists.iter().filter(|(_, events)| !events.is_empty());
        let ops = ops
            .map(|(list, events)| append(*list, events.iter().map(EncodedEvent::record).collect()));
        let batch = Batch::new(ops.collect());
        self.store.backend().commit(batch).await?;
        Ok(())
    }

    /// The run whose stream this is; `None` if it isn't one, or can't be read.
    async fn run_of(&self, id: RunId) -> Result<Option<Run>> {
        match self.load(id).await {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
                Ok(None)
            }
            loaded => loaded.map(|LoadedRun { run, .. }| Some(run)),
        }
    }

    async fn lacks(&self, instance: InstanceId) -> Result<bool> {
        let found = self.store.get_instance(instance).await?;
        Ok(found.is_none())
    }

    /// Adds the event that lists an instance, and before it one that lists its session, if that isn't: where the catalog lost nothing, or
    /// what it lost can be read again, an instance without a session would end it.
    async fn list_instance(&self, instance: AgentInstance, all: &mut Relisted) -> Result<()> {
        let id = instance.session_id;
        // Several runs may tell of an instance, and of a session.
        if all.instances.contains(&instance.id) {
            return Ok(());
        }
        let catalog = &self.store.shared.catalog;
        let is_known = catalog
            .read(|catalog| catalog.session(id).is_some())
            .await?;
        if !is_known && all.sessions.insert(id) {
            let lost = Session::lost(id, instance.created_at_ms);
            all.instance_events
                .push(CatalogEvent::SessionCreated(lost).encode()?);
        }
        all.instances.push(instance.id);
        all.instance_events
            .push(CatalogEvent::InstanceCreated(instance).encode()?);
        Ok(())
    }

    /// Whether a stream is that of a context: whether its first record is an event of one.
    async fn is_context(&self, instance: InstanceId) -> Result<bool> {
        let first = ReadOptions {
            last: Sequence::FIRST,
            ..ReadOptions::default()
        };
        match self
            .store
            .backend()
            .read(context_stream(instance), first)
            .await
        {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Damaged) => {
                Ok(false)
            }
            page => Ok(page?
                .records
                .first()
                .is_some_and(|record| ContextEventKind::from_byte(record.kind.0).is_some())),
        }
    }

    /// Adds the events that list a run as it is, unless it is listed so.
    async fn relist_run(&self, run: &Run, all: &mut Relisted) -> Result<()> {
        let id = run.id;
        let (listed, described) = self
            .index()
            .read(|runs| (runs.run(id), runs.described(id)))
            .await?;
        let before = all.run_events.len();
        match listed {
            None => {
                let created = RunCatalogEvent::Created(Box::new(run.to_summary()));
                all.run_events.push(created.encode()?);
            }
            Some(listed) if listed.run.status == run.status => {}
            Some(_) => {
                let lasted_ms = match run.status {
                    RunStatus::Running => 0,
                    _ => run.duration_ms.unwrap_or(0),
                };
                let changed = RunCatalogEvent::StatusChanged {
                    id,
                    status: run.status,
                    step_count: run.step_count,
                    at_ms: run.created_at_ms.saturating_add(lasted_ms),
                };
                all.run_events.push(changed.encode()?);
            }
        }
        let newest = ReadOptions {
            direction: Direction::Backward,
            kinds: vec![Kind(kinds::RUN_DESCRIBED)],
            limit: 1,
            ..ReadOptions::default()
        };
        let page = match self.store.backend().read(run_stream(id), newest).await {
            // Which kind the lost record is of may not be known. The run is listed without its details then, and all others still.
            Err(error) if error.kind() == ErrorKind::Damaged => None,
            page => Some(page?),
        };
        if let Some(record) = page.as_ref().and_then(|page| page.records.first())
            && described.map(u64::from) != Some(record.sequence.0)
        {
            all.run_events
                .push(listed_description(id, record.sequence)?);
        }
        if all.run_events.len() > before {
            all.runs.push(id);
        }
        Ok(())
    }
}

fn instance_of(run: &Run) -> AgentInstance {
    AgentInstance {
        id: run.instance_id,
        session_id: run.session_id,
        agent_name: run.agent_name.clone(),
        parent_instance_id: None,
        created_at_ms: run.created_at_ms,
    }
}
