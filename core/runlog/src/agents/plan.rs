//! The plan of a spawn, made before anything is written: whether the run may spawn, and what each request needs.

use std::{sync::Arc, time::Duration};

use runlog_model::{AgentDefinition, Run, RunId, RunStatus, ToolStyle, max_steps};

use super::{
    SpawnRequest,
    active_run::ActiveRun,
    create::NewChild,
    inner::{AgentWork, Inner},
};
use crate::{Error, ErrorKind, Result};

/// The longest task: 16 MiB.
const TASK_BYTES_MAX: usize = 16 << 20;

/// A request whose agent is known.
pub(super) struct Planned {
    pub(super) index: usize,
    pub(super) definition: Arc<AgentDefinition>,
    pub(super) executor: Arc<dyn AgentWork>,
    pub(super) timeout: Option<Duration>,
    pub(super) what: What,
}

pub(super) enum What {
    New(Box<NewChild>),
    Resumed(RunId, String),
}

/// An error for a timeout that would stop an agent before it begins.
pub(super) fn check_timeout(timeout: Option<Duration>) -> Result<()> {
    match timeout {
        Some(Duration::ZERO) => Err(Error::invalid(
            "a timeout of 0 leaves no time to work; give more, or leave it out",
        )),
        _ => Ok(()),
    }
}

impl Inner {
    /// Checks that a run may spawn `count` sub-agents now.
    pub(super) async fn check(&self, parent: &ActiveRun, count: usize) -> Result<()> {
        let (run, options) = (parent.recorder.run(), &self.options);
        if count > options.spawn_max {
            let max = options.spawn_max;
            return Err(Error::too_large(format!(
                "{count} sub-agents are asked for at once, at most {max} are allowed; ask for fewer"
            )));
        }
        if parent.depth >= options.depth_max {
            let (depth, max) = (parent.depth + 1, options.depth_max);
            return Err(Error::new(
                ErrorKind::LimitReached,
                format!(
                    "run {} can't spawn sub-agents: they would be at depth {depth}, at most {max} is allowed; let it do the work itself",
                    run.id
                ),
            ));
        }
        if parent.token.is_cancelled() {
            return Err(stopped(run.id));
        }
        if run.status != RunStatus::Running {
            return Err(Error::new(
                ErrorKind::WrongStatus,
                format!(
                    "run {} is {}, and can't spawn sub-agents",
                    run.id, run.status
                ),
            ));
        }
        self.check_room(count)?;
        self.store.shared.catalog.check_live(run.session_id).await
    }

    /// Plans one request. Unless fatal, an error refuses this request alone.
    pub(super) async fn plan(
        &self,
        parent: &Run,
        style: Option<ToolStyle>,
        index: usize,
        request: &SpawnRequest,
    ) -> Result<Planned> {
        if let Some(why) = &request.unreadable {
            return Err(Error::invalid(why.clone()));
        }
        let (definition, executor) = self
            .agent(parent.project.as_deref(), &request.agent_name)
            .await?;
        check_timeout(request.timeout)?;
        max_steps::check(request.max_steps)?;
        if request.task.len() > TASK_BYTES_MAX {
            let length = request.task.len();
            return Err(Error::too_large(format!(
                "the task has {length} bytes, at most {TASK_BYTES_MAX} are allowed; shorten it"
            )));
        }
        let timeout = request
            .timeout
            .or(definition.default_timeout_ms.map(Duration::from_millis));
        let what = match request.resume_run_id {
            Some(id) => {
                self.check_resumable(parent, &definition, id).await?;
                What::Resumed(id, request.task.clone())
            }
            None if request.task.trim().is_empty() => {
                return Err(Error::invalid(
                    "the task is empty; say what the agent is to do",
                ));
            }
            None => {
                let backend = self.store.backend().as_ref();
                What::New(Box::new(NewChild::new(
                    backend,
                    parent,
                    &definition,
                    request,
                    style,
                )?))
            }
        };
        Ok(Planned {
            index,
            definition,
            executor,
            timeout,
            what,
        })
    }

    /// Checks most of what resuming checks, early enough for a refusal to be recorded.
    async fn check_resumable(
        &self,
        parent: &Run,
        definition: &AgentDefinition,
        id: RunId,
    ) -> Result<()> {
        let run = self.store.runs().get(id).await?;
        let run = run.ok_or_else(|| Error::not_found(format!("no run {id} to resume")))?;
        if run.project != parent.project {
            return Err(Error::invalid(format!(
                "run {id} belongs to another project, and can't be resumed from here"
            )));
        }
        if run.agent_name != definition.name {
            return Err(Error::invalid(format!(
                "run {id} is one of agent {:?}, not of {:?}; resume it as that",
                run.agent_name, definition.name
            )));
        }
        crate::runs::check_resumable(&run, self.options.max_total_steps, false)
    }
}

pub(super) fn stopped(run: RunId) -> Error {
    Error::new(
        ErrorKind::WrongStatus,
        format!(
            "run {run} is ending, and its sub-agents with it; where nobody stopped it, its function returned before it had \
             awaited them"
        ),
    )
}
