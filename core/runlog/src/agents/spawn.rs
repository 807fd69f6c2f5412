//! Spawning sub-agents: write their records, start their tasks, gather their results.

use super::{
    SpawnRequest, SpawnResult,
    active_run::{ActiveRun, Beginning},
    call::{Call, Place, Work},
    create::creation_ops,
    defect::Defect,
    plan::{Planned, What, stopped},
    report::call_message,
    spawned::{Began, ResultSender},
    stop::Ending,
    work::first,
};
use std::sync::Arc;

use futures_util::{StreamExt, future::Either, stream::FuturesUnordered};
use runlog_model::{AgentDefinition, RunId, RunStatus, RuntimeCommand, ToolStyle};
use tokio_util::sync::CancellationToken;

use crate::{
    Error, ErrorKind, Result,
    agents::inner::Inner,
    contexts::{AppendOptions, RawMessage},
    runs::{BatchExtras, Continuation, ResumeExtras, ResumeOptions, ResumedBy, RunRecorder},
};

/// The most children of one batch, and about the most bytes of it.
const CHILDREN_PER_BATCH: usize = 4_096;
const BYTES_PER_BATCH: usize = 4 << 20;

/// Signals between the task that spawns and the caller that waits for it.
#[derive(Clone)]
struct Signals {
    /// Set when the caller no longer waits for the results.
    unwanted: CancellationToken,
    /// Set when all children are written and their tasks are started.
    begun: CancellationToken,
}

/// A spawn that is written; its tasks are to be started next.
struct Written {
    call_id: String,
    places: Vec<Option<Place>>,
    works: Vec<Work>,
}

impl Inner {
    /// Spawns sub-agents of a run and waits for them. Without a `call_id` the call is recorded in the parent's context
    /// too.
    pub(super) async fn spawn_agents(
        self: &Arc<Self>,
        parent: &Arc<ActiveRun>,
        call_id: Option<String>,
        requests: Vec<SpawnRequest>,
    ) -> Result<Vec<SpawnResult>> {
        self.spawn_notifying(parent, call_id, requests, None).await
    }

    /// [`spawn_agents`](Self::spawn_agents) that also sends the run ids and each result as it arrives.
    pub(super) async fn spawn_notifying(
        self: &Arc<Self>,
        parent: &Arc<ActiveRun>,
        call_id: Option<String>,
        requests: Vec<SpawnRequest>,
        began: Option<Began>,
    ) -> Result<Vec<SpawnResult>> {
        if requests.is_empty() {
            if let Some(began) = began {
                began.notify(&[]);
            }
            return Ok(Vec::new());
        }
        let (inner, of) = (Arc::clone(self), Arc::clone(parent));
        let signals = Signals {
            unwanted: CancellationToken::new(),
            begun: CancellationToken::new(),
        };
        let task_signals = signals.clone();
        // In a task of its own: if the caller is dropped, every child is still started and every result recorded.
        let results = self.to_the_end(async move {
            let results = Arc::clone(&inner)
                .spawn_and_gather(&of, call_id, requests, task_signals, began)
                .await;
            inner.leave(&of);
            results
        });
        let stop = async {
            parent.token.cancelled().await;
            // Once begun, `spawn_and_gather` handles the cancellation itself, and returns after everything is recorded.
            if signals.begun.is_cancelled() {
                std::future::pending::<()>().await;
            }
        };
        let wanted = signals.unwanted.clone().drop_guard();
        let results = first(results, stop).await;
        drop(wanted.disarm());
        match results {
            Either::Left(results) => results?,
            Either::Right(()) => Err(stopped(parent.id())),
        }
    }

    async fn spawn_and_gather(
        self: Arc<Self>,
        parent: &Arc<ActiveRun>,
        call_id: Option<String>,
        requests: Vec<SpawnRequest>,
        signals: Signals,
        began: Option<Began>,
    ) -> Result<Vec<SpawnResult>> {
        let began_ms = self.now_ms();
        // Before it is checked whether the parent is to stop: whoever stops it either finds this spawn, or prevents it.
        let open = parent.open_spawn();
        // Checked first, so that no agent works for a result that couldn't be recorded.
        if let Some(id) = &call_id {
            parent.recorder.check_unanswered(id).await?;
        }
        let Written {
            call_id,
            places,
            works,
        } = self.write(parent, call_id, requests).await?;
        let children: Vec<_> = works.iter().map(|(live, ..)| Arc::clone(live)).collect();
        for (live, executor, timeout) in works {
            self.begin(live, executor, timeout, None);
        }
        let waiting = parent.wait_for_others();
        signals.begun.cancel();
        let ended_results = began.map(|began| began.notify(&places));
        let ended = async {
            match &ended_results {
                Some(ended_results) => send_ends(&places, ended_results).await,
                None => {
                    for child in &children {
                        child.ended.cancelled().await;
                    }
                }
            }
        };
        match first(
            signals.unwanted.run_until_cancelled(ended),
            parent.token.cancelled(),
        )
        .await
        {
            Either::Left(Some(())) => {}
            // The task that stops the parent stops the children too.
            _ if parent.token.is_cancelled() => {
                if parent.is_pausing() {
                    self.record_pausing(parent, &call_id, &places, began_ms)
                        .await?;
                }
                return Err(stopped(parent.id()));
            }
            // The caller was dropped: cancel the children.
            _ => {
                self.end(
                    children
                        .into_iter()
                        .map(|child| (child, Ending::Cancelled))
                        .collect(),
                )
                .await?
            }
        }
        let results = self.gather(parent, &call_id, places, began_ms).await;
        drop(open);
        waiting.over(&self.slots).await;
        results
    }

    /// Plans each request, and writes all of them.
    async fn write(
        self: &Arc<Self>,
        parent: &Arc<ActiveRun>,
        call_id: Option<String>,
        requests: Vec<SpawnRequest>,
    ) -> Result<Written> {
        let _pass = parent.spawn_guard().await;
        self.check(parent, requests.len()).await?;
        let id = call_id
            .clone()
            .unwrap_or_else(|| format!("call_{}", self.store.backend().new_id().simple()));
        let style = match self.options.tool_style {
            Some(style) => Some(style),
            None => {
                let contexts = self.store.contexts();
                contexts.style(parent.recorder.run().instance_id).await?
            }
        };
        let mut call = Call {
            parent,
            id,
            style,
            requests: &requests,
            is_recorded: call_id.is_some(),
            unrecorded: Vec::new(),
            places: requests.iter().map(|_| None).collect(),
            works: Vec::new(),
        };
        match self.write_call(&mut call).await {
            Ok(()) => Ok(Written {
                call_id: call.id,
                places: call.places,
                works: call.works,
            }),
            Err(error) => {
                // Children already written are not started. If their end can't be written, the next opening pauses them.
                let made: Vec<_> = call
                    .works
                    .into_iter()
                    .map(|(live, ..)| (live, Ending::Cancelled))
                    .collect();
                made.iter().for_each(|(live, _)| live.over.cancel());
                let _ = self.end(made).await;
                Err(error)
            }
        }
    }

    async fn write_call(self: &Arc<Self>, call: &mut Call<'_>) -> Result<()> {
        let run = call.parent.recorder.run();
        let (mut new, mut resumed, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (index, request) in call.requests.iter().enumerate() {
            match self.plan(&run, call.style, index, request).await {
                Ok(planned) => match planned.what {
                    What::Resumed(..) => resumed.push(planned),
                    What::New(ref child) => {
                        bytes += child.bytes();
                        new.push(planned);
                    }
                },
                Err(error) if is_fatal(&error) => return Err(error),
                Err(error) => call.refuse(index, &error),
            }
            if new.len() == CHILDREN_PER_BATCH || bytes >= BYTES_PER_BATCH {
                self.write_new(call, std::mem::take(&mut new)).await?;
                bytes = 0;
            }
        }
        if !new.is_empty() || !call.is_recorded || !call.unrecorded.is_empty() {
            self.write_new(call, new).await?;
        }
        for planned in resumed {
            self.write_resumed(call, planned).await?;
        }
        Ok(())
    }

    /// Creates new sub-agents, and records the requests refused so far, as one batch.
    async fn write_new(self: &Arc<Self>, call: &mut Call<'_>, planned: Vec<Planned>) -> Result<()> {
        let (mut children, mut rest) = (
            Vec::with_capacity(planned.len()),
            Vec::with_capacity(planned.len()),
        );
        for Planned {
            index,
            definition,
            executor,
            timeout,
            what,
        } in planned
        {
            if let What::New(child) = what {
                call.unrecorded
                    .push(call.spawned_run(index, child.run.id, timeout));
                children.push(*child);
                rest.push((index, definition, executor, timeout));
            }
        }
        let record = call.record(self.now_ms())?;
        let message = (!call.is_recorded).then(|| {
            call_message(
                call.style.unwrap_or(ToolStyle::OpenAi),
                &call.id,
                call.requests,
            )
        });
        let messages: Vec<RawMessage> = message
            .transpose()?
            .into_iter()
            .map(RawMessage::from)
            .collect();
        let _arriving = self.starting(children.iter().map(|child| child.run.id).collect());
        // Before the runs are in the log, so that a concurrent recovery doesn't mistake them for orphans.
        let runs = self.store.runs();
        let recorders = children
            .iter()
            .map(|child| runs.recorder_of_new(&child.run))
            .collect::<Result<Vec<_>>>()?;
        let mut ops = if children.is_empty() {
            Vec::new()
        } else {
            creation_ops(&children)
        };
        if self.is_broken(Defect::SplitsSpawn) {
            self.split_off(&mut ops).await?;
        }
        let unsaved = call.parent.space.unsaved(self.now_ms())?;
        let mut run_events = vec![record];
        run_events.extend(unsaved.iter().map(|unsaved| unsaved.record.clone()));
        let extras = BatchExtras {
            run_events: &run_events,
            ops: &ops,
            durability: None,
        };
        let recorded = call
            .parent
            .recorder
            .record_with(&messages, &AppendOptions::default(), &extras)
            .await;
        recorded.map_err(|error| {
            if messages.is_empty() {
                error
            } else {
                of_own_call(error)
            }
        })?;
        if let Some(unsaved) = &unsaved {
            call.parent.space.saved(unsaved);
        }
        call.is_recorded = true;
        call.unrecorded.clear();
        for (recorder, (index, definition, executor, timeout)) in recorders.into_iter().zip(rest) {
            let task = call
                .requests
                .get(index)
                .map(|request| request.task.clone())
                .unwrap_or_default();
            let live = self.join(call.parent, (recorder, definition, task), Vec::new());
            call.begin(index, live, executor, timeout);
        }
        self.store.runs().caught_up().await;
        Ok(())
    }

    /// Resumes a run as a sub-agent, as one batch. A refusal is returned to the caller, and not recorded.
    async fn write_resumed(self: &Arc<Self>, call: &mut Call<'_>, planned: Planned) -> Result<()> {
        let Planned {
            index,
            definition,
            executor,
            timeout,
            what: What::Resumed(id, task),
        } = planned
        else {
            return Ok(());
        };
        let new_id = RunId(self.store.backend().new_id());
        call.unrecorded
            .push(call.spawned_run(index, new_id, timeout));
        let record = call.record(self.now_ms())?;
        call.unrecorded.clear();
        let parent = ResumedBy {
            recorder: &call.parent.recorder,
            record: &record,
            allowed: &[RunStatus::Running],
        };
        let extras = ResumeExtras {
            parent: Some(parent),
            without_messages: true,
        };
        let options = ResumeOptions {
            message: Continuation::Task(task.clone()),
            max_steps: call
                .requests
                .get(index)
                .and_then(|request| request.steps_of(&definition)),
            max_total_steps: self.options.max_total_steps,
            id: Some(new_id),
            parent_run_id: Some(call.parent.id()),
            ..ResumeOptions::default()
        };
        let waiting = self.commands_left_by(id).await?;
        if let Some(brought) = self.space_brought(id, &call.parent.space).await? {
            call.parent.space.add_missing(&brought)?;
        }
        let asked = match task.is_empty() {
            true => self.task_of(id).await?,
            false => task.clone(),
        };
        let _arriving = self.starting(vec![new_id]);
        match self
            .store
            .runs()
            .resume_with_extras(id, &options, &extras)
            .await
        {
            Ok(resumed) => {
                let live = self.join(call.parent, (resumed.recorder, definition, asked), waiting);
                call.begin(index, live, executor, timeout);
                Ok(())
            }
            Err(error) if is_fatal(&error) => Err(error),
            Err(error) => {
                call.places[index] = Some(Place::Refused(call.refused(index, &error)));
                Ok(())
            }
        }
    }

    /// Adds a run to the tree, below its parent.
    pub(super) fn join(
        &self,
        parent: &Arc<ActiveRun>,
        (recorder, definition, task): (RunRecorder, Arc<AgentDefinition>, String),
        waiting: Vec<RuntimeCommand>,
    ) -> Arc<ActiveRun> {
        let recorder_id = recorder.id();
        let beginning = Beginning {
            recorder,
            definition: Some(definition),
            task,
            depth: parent.depth + 1,
            space: parent.space.clone(),
            inbox: self.inbox(recorder_id, waiting),
        };
        self.enter(ActiveRun::new(beginning, Some(parent)))
    }
}

/// Waits until all runs of a spawn have ended, and sends the result of each as it ends.
async fn send_ends(places: &[Option<Place>], ended_results: &ResultSender) {
    let of_runs = places.iter().enumerate().filter_map(|(index, place)| {
        let Some(Place::Spawned(live)) = place else {
            return None;
        };
        Some(async move {
            live.ended.cancelled().await;
            (index, live)
        })
    });
    let mut ends: FuturesUnordered<_> = of_runs.collect();
    while let Some((index, live)) = ends.next().await {
        // An error means that the receiver was dropped.
        let _ = ended_results.send((index, live.result()));
    }
}

/// Whether an error fails the whole call, not just the one request.
fn is_fatal(error: &Error) -> bool {
    use ErrorKind::{Closed, Damaged, Io, OutcomeUnknown, Poisoned, ReadOnly, StorageFull};
    matches!(
        error.kind(),
        Closed | Damaged | Io | OutcomeUnknown | Poisoned | ReadOnly | StorageFull
    )
}

/// Explains the error of a tool call that was recorded for code that spawns, not made by a model.
fn of_own_call(error: Error) -> Error {
    if error.kind() != ErrorKind::InvalidInput {
        return error;
    }
    let instead = "what code spawns is recorded as a tool call of its own: spawn all of it at once, or give the calls of \
                   one message";
    Error::with_source(
        ErrorKind::InvalidInput,
        format!("{error}; {instead}"),
        error,
    )
}
