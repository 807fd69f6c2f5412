//! Resuming the runs that a crash interrupted: each once, and those that waited for sub-agents with their results.

use super::{
    SpawnResult,
    active_run::{ActiveRun, Beginning},
    defect::Defect,
    inner::AgentWork,
    report::recorded_results,
    runtime::Boxed,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::join_all;
use runlog_log::{Kind, ReadOptions};
use runlog_model::{
    AgentDefinition, EncodedEvent, RawJson, Run, RunId, RunStatus, SpawnRecord, SpawnedAgent,
    kinds, pause_reason,
};

use crate::{
    Error, ErrorKind, Result,
    agents::inner::Inner,
    journal::follow::read_each,
    kernel::{inbox::Inbox, records::run_stream},
    runs::{Dangling, ResumeExtras, ResumeOptions, ResumedBy, ToolOutcome},
};

/// The outcomes of the runs that a crash interrupted.
#[derive(Debug, Default)]
pub struct ResumeReport {
    /// The runs that were resumed, by the id of the paused run, with their outcomes.
    pub resumed: Vec<(RunId, SpawnResult)>,
    /// The runs that were left paused, and why.
    pub left: Vec<(RunId, Error)>,
}

/// A run that a crash interrupted, and the spawns that it was waiting for.
struct InterruptedRun {
    run: Run,
    definition: Arc<AgentDefinition>,
    executor: Arc<dyn AgentWork>,
    calls: Vec<OpenCall>,
}

/// A spawn whose results aren't in the parent's context.
struct OpenCall {
    id: String,
    count: u32,
    /// The record of each request, by its index, with the newest run of it.
    agents: BTreeMap<u32, (SpawnedAgent, Option<Run>)>,
}

/// The place of a run below another that is resumed too.
struct ParentLink {
    parent: Arc<ActiveRun>,
    call_id: String,
    count: u32,
    agent: SpawnedAgent,
}

/// All runs to resume.
struct ResumeAll {
    inner: Arc<Inner>,
    interrupted: HashMap<RunId, InterruptedRun>,
    report: Mutex<ResumeReport>,
}

impl Inner {
    pub(super) async fn resume_all(self: Arc<Self>) -> Result<ResumeReport> {
        let reviving = Arc::clone(&self.store.shared.folds.reviving);
        let _alone = reviving.lock().await;
        // This also pauses the runs that this process left running, for example when their runtime was shut down.
        self.store.recover_runs().await?;
        let mut report = ResumeReport::default();
        let mut interrupted = HashMap::new();
        for id in self.store.runs().with_status(RunStatus::Paused).await? {
            // What is wrong with one run keeps no other from going on.
            match self.interrupted(id).await {
                Ok(Some(found)) => drop(interrupted.insert(id, found)),
                Ok(None) => {}
                Err(error) => report.left.push((id, error)),
            }
        }
        let below: HashSet<RunId> = interrupted
            .values()
            .flat_map(|interrupted| {
                interrupted
                    .calls
                    .iter()
                    .flat_map(|call| call.agents.values())
            })
            .filter_map(|(_, run)| run.as_ref().map(|run| run.id))
            .collect();
        let mut roots: Vec<RunId> = interrupted
            .keys()
            .copied()
            .filter(|id| !below.contains(id))
            .collect();
        runlog_log::order::sort(&mut roots);
        let resumption = ResumeAll {
            inner: Arc::clone(&self),
            interrupted,
            report: Mutex::new(report),
        };
        join_all(roots.into_iter().map(|id| resumption.resume_one(id, None))).await;
        let mut report = resumption
            .report
            .into_inner()
            .expect("nobody panics while the report is locked");
        runlog_log::order::sort_by_key(&mut report.resumed, |(id, _)| *id);
        Ok(report)
    }

    /// A paused run, if a crash interrupted it and nobody has resumed it.
    async fn interrupted(&self, id: RunId) -> Result<Option<InterruptedRun>> {
        let Some(run) = self.store.runs().get(id).await? else {
            return Ok(None);
        };
        let is_orphan =
            run.pause_reason.as_deref() == Some(pause_reason::ORPHANED) && run.resumed_by.is_none();
        if !is_orphan {
            return Ok(None);
        }
        let (definition, executor) = self.agent(run.project.as_deref(), &run.agent_name).await?;
        let calls = self.open_calls(&run).await?;
        Ok(Some(InterruptedRun {
            run,
            definition,
            executor,
            calls,
        }))
    }

    /// The spawns of a run whose results aren't in its context, each with the newest run of every request.
    async fn open_calls(&self, run: &Run) -> Result<Vec<OpenCall>> {
        let mut records: Vec<SpawnRecord> = Vec::new();
        let options = ReadOptions {
            kinds: vec![Kind(kinds::SPAWNED)],
            ..ReadOptions::default()
        };
        read_each(
            &**self.store.backend(),
            run_stream(run.id),
            options,
            &mut |record| {
                let record = SpawnRecord::decode(record.kind.0, &record.meta, &record.payload)?;
                records.push(record);
                Ok(())
            },
        )
        .await?;
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let context = self.store.context(run.instance_id).await?;
        let open: HashSet<String> = context
            .dangling_tool_calls()
            .await?
            .into_iter()
            .filter_map(|call| call.id)
            .collect();
        let mut calls: Vec<OpenCall> = Vec::new();
        for record in records
            .into_iter()
            .filter(|record| open.contains(&record.call_id))
        {
            let place = calls
                .iter()
                .position(|call| call.id == record.call_id)
                .unwrap_or_else(|| {
                    calls.push(OpenCall {
                        id: record.call_id.clone(),
                        count: record.count,
                        agents: BTreeMap::new(),
                    });
                    calls.len() - 1
                });
            for mut agent in record.agents {
                let newest = match agent.run_id {
                    Some(id) => self.newest(id).await,
                    None => Ok(None),
                };
                let newest = match newest {
                    // That is its result: whoever waits for it goes on with those of the others.
                    Err(error) if error.kind() == ErrorKind::Damaged => {
                        agent.error = Some(format!("its run can't be read: {error}"));
                        None
                    }
                    newest => newest?,
                };
                calls[place].agents.insert(agent.index, (agent, newest));
            }
        }
        Ok(calls)
    }

    /// The last run of a chain of resumes below the same parent. A run that another parent has resumed as its own
    /// sub-agent is waited for there.
    async fn newest(&self, id: RunId) -> Result<Option<Run>> {
        let Some(mut run) = self.store.runs().get(id).await? else {
            return Ok(None);
        };
        while let Some(by) = run.resumed_by {
            match self.store.runs().get(by).await? {
                Some(next) if next.parent_run_id == run.parent_run_id => run = next,
                _ => break,
            }
        }
        Ok(Some(run))
    }
}

impl ResumeAll {
    /// Resumes a run and those it waits for, and returns its outcome.
    fn resume_one(&self, id: RunId, below: Option<ParentLink>) -> Boxed<'_, SpawnResult> {
        Box::pin(async move {
            let resumed = match self.interrupted.get(&id) {
                Some(interrupted) => self.resume_below(interrupted, below.as_ref()).await,
                None => Err(Error::not_found(format!("run {id} can't be resumed"))),
            };
            let mut report = self
                .report
                .lock()
                .expect("nobody panics while the report is locked");
            match resumed {
                Ok(result) => {
                    report.resumed.push((id, result.clone()));
                    result
                }
                Err(error) => {
                    let run = self
                        .interrupted
                        .get(&id)
                        .map(|interrupted| interrupted.run.clone());
                    let mut result =
                        run.map_or_else(|| SpawnResult::refused("", ""), SpawnResult::of);
                    result.error = Some(format!("it could not be resumed: {error}"));
                    report.left.push((id, error));
                    result
                }
            }
        })
    }

    async fn resume_below(
        &self,
        interrupted: &InterruptedRun,
        below: Option<&ParentLink>,
    ) -> Result<SpawnResult> {
        let inner = &self.inner;
        let run = &interrupted.run;
        let parent = below.map(|below| &below.parent);
        // It is in the tree while the runs it waits for are resumed, so that it can be cancelled with them.
        let paused = Beginning {
            recorder: inner.store.runs().recorder(run.id).await?,
            definition: None,
            task: String::new(),
            depth: match parent {
                Some(parent) => parent.depth + 1,
                None => inner.depth_of(run.parent_run_id).await?,
            },
            space: match parent {
                Some(parent) => parent.space.clone(),
                None => inner.space_of(run.id).await?,
            },
            inbox: Inbox::unlisted(run.id, inner.options.inbox_max),
        };
        let paused = inner.enter(ActiveRun::new(paused, parent));
        paused.over.cancel();
        let resumed = self.resume_from(&paused, interrupted, below).await;
        inner.forget(&paused);
        resumed
    }

    async fn resume_from(
        &self,
        paused: &Arc<ActiveRun>,
        InterruptedRun {
            run,
            definition,
            executor,
            calls,
        }: &InterruptedRun,
        below: Option<&ParentLink>,
    ) -> Result<SpawnResult> {
        let inner = &self.inner;
        let outcomes = self.finish_calls(paused, calls).await?;
        let slots = Arc::clone(&inner.slots);
        let permit = paused
            .token
            .run_until_cancelled(slots.acquire_owned())
            .await;
        let Some(Ok(permit)) = permit else {
            return stopped(paused).await;
        };
        // All that can fail to be read is read before the new run is in the log: nobody would work on it.
        let waiting = inner.commands_left_by(run.id).await?;
        let task = inner.task_of(run.id).await?;
        let id = RunId(inner.store.backend().new_id());
        let record = below.map(|below| record_of_resumption(below, id, inner.now_ms()));
        let record = record.transpose()?;
        let parent = below.zip(record.as_ref()).map(|(below, record)| ResumedBy {
            recorder: &below.parent.recorder,
            record,
            allowed: &[RunStatus::Paused, RunStatus::Running],
        });
        let options = ResumeOptions {
            max_steps: run.max_steps.into_iter().chain(definition.max_steps).min(),
            max_total_steps: if inner.is_broken(Defect::LosesBudget) {
                u32::MAX
            } else {
                inner.options.max_total_steps
            },
            dangling: Dangling::Answer(outcomes),
            id: Some(id),
            ..ResumeOptions::default()
        };
        let starting = inner.starting(vec![id]);
        // A task that cancels the parent either finds the new run below it, or prevents its creation.
        let pass = match below {
            Some(below) => Some(below.parent.spawn_guard().await),
            None => None,
        };
        if paused.token.is_cancelled() {
            return stopped(paused).await;
        }
        let extras = ResumeExtras {
            parent,
            without_messages: true,
        };
        let resumed = inner
            .store
            .runs()
            .resume_with_extras(run.id, &options, &extras)
            .await?;
        let beginning = Beginning {
            recorder: resumed.recorder,
            definition: Some(Arc::clone(definition)),
            task,
            depth: paused.depth,
            space: paused.space.clone(),
            inbox: inner.inbox(id, waiting),
        };
        let live = inner.enter(ActiveRun::new(beginning, below.map(|below| &below.parent)));
        let timeout = below
            .and_then(|below| below.agent.timeout_ms)
            .or(definition.default_timeout_ms);
        if inner.is_broken(Defect::StartsTwice) {
            inner.begin(Arc::clone(&live), Arc::clone(executor), None, None);
        }
        inner.begin(
            Arc::clone(&live),
            Arc::clone(executor),
            timeout.map(Duration::from_millis),
            Some(permit),
        );
        drop((pass, starting));
        live.ended.cancelled().await;
        live.failure().map_or_else(|| Ok(live.result()), Err)
    }

    /// The outcomes of the calls that a run was interrupted in, once what they spawned has ended.
    async fn finish_calls(
        &self,
        paused: &Arc<ActiveRun>,
        calls: &[OpenCall],
    ) -> Result<Vec<ToolOutcome>> {
        let mut outcomes = Vec::new();
        for call in calls {
            let came = self.finish_call(paused, call).await?;
            let output = RawJson::string(&recorded_results(&came)?);
            outcomes.push(ToolOutcome::completed(&call.id, output));
        }
        Ok(outcomes)
    }

    /// Waits for a run's end, and returns its outcome: another task may have resumed it already.
    async fn over(&self, parent: &ActiveRun, run: &Run) -> Result<SpawnResult> {
        if run.status != RunStatus::Running {
            return Ok(SpawnResult::of(run.clone()));
        }
        let live = self.inner.arrived(run.id).await;
        if let Some(live) = &live {
            parent
                .token
                .run_until_cancelled(live.ended.cancelled())
                .await;
        }
        let now = self.inner.store.runs().get(run.id).await?;
        let failure = live.and_then(|live| live.failure());
        Ok(SpawnResult::ended(
            now.unwrap_or_else(|| run.clone()),
            failure.as_ref(),
        ))
    }

    /// Resumes the interrupted runs of a call, and returns the outcome of each request.
    async fn finish_call(
        &self,
        parent: &Arc<ActiveRun>,
        call: &OpenCall,
    ) -> Result<Vec<SpawnResult>> {
        let came = (0..call.count).map(|index| async move {
            let Some((agent, run)) = call.agents.get(&index) else {
                return Ok(SpawnResult::refused(
                    "",
                    "it was not spawned: the process ended before",
                ));
            };
            let Some(run) = run else {
                let error = agent
                    .error
                    .clone()
                    .unwrap_or_else(|| "its run is not there".to_owned());
                return Ok(SpawnResult::refused(&agent.agent_name, error));
            };
            if self.interrupted.contains_key(&run.id) {
                let (parent, agent) = (Arc::clone(parent), agent.clone());
                let below = ParentLink {
                    parent,
                    call_id: call.id.clone(),
                    count: call.count,
                    agent,
                };
                return Ok(self.resume_one(run.id, Some(below)).await);
            }
            self.over(parent, run).await
        });
        join_all(came).await.into_iter().collect()
    }
}

/// What the parent's stream says of a run that resumes one below it.
fn record_of_resumption(below: &ParentLink, id: RunId, at_ms: u64) -> Result<EncodedEvent> {
    SpawnRecord {
        call_id: below.call_id.clone(),
        count: below.count,
        agents: vec![SpawnedAgent {
            run_id: Some(id),
            error: None,
            ..below.agent.clone()
        }],
        at_ms,
    }
    .encode()
}

/// The outcome of a run that is asked to stop before it was resumed; an error if it is still paused as it was, for
/// example because another task resumed the run above it.
async fn stopped(paused: &ActiveRun) -> Result<SpawnResult> {
    paused.recorder.refresh().await?;
    let run = paused.recorder.run();
    if run.status == RunStatus::Paused && run.resumed_by.is_none() {
        let message = format!(
            "run {} was told to stop before it went on, and is paused as it was",
            run.id
        );
        return Err(Error::new(ErrorKind::WrongStatus, message));
    }
    Ok(paused.result())
}
