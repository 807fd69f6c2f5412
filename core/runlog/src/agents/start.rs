//! Starting an agent as the root of a tree, and resuming a paused one.

use std::{sync::Arc, time::Duration};

use runlog_model::{NewMessage, RunId};

use super::{
    StartAgent, StartPlace,
    active_run::{ActiveRun, Beginning},
    create::first_messages,
    plan::check_timeout,
};
use crate::{
    Error, ErrorKind, Result,
    agents::inner::Inner,
    kernel::new_session::NewInstance,
    runs::{Continuation, NewRun, ResumeExtras, ResumeOptions, RunPlace},
};

impl Inner {
    pub(super) async fn start(self: &Arc<Self>, start: StartAgent) -> Result<Arc<ActiveRun>> {
        let inner = Arc::clone(self);
        // Never dropped halfway, so that a run that is written is also started.
        self.to_the_end(async move { inner.start_now(start).await })
            .await?
    }

    async fn start_now(self: Arc<Self>, start: StartAgent) -> Result<Arc<ActiveRun>> {
        let StartAgent {
            agent_name,
            task,
            place,
            timeout,
            run_id,
            metadata,
        } = start;
        check_timeout(timeout)?;
        let project = self.project_of(&place).await?;
        let (definition, executor) = self.agent(project.as_deref(), &agent_name).await?;
        self.check_room(1)?;
        let mut messages = first_messages(&definition, &task);
        let mut style = self.options.tool_style;
        let place = match place {
            StartPlace::NewSession(new) => RunPlace::NewSession(new, agent_name),
            StartPlace::Session(id) => RunPlace::NewInstance(NewInstance::new(id, agent_name)),
            StartPlace::Instance(id) => {
                if self.store.contexts().last_sequence(id).await? > 0 {
                    messages = vec![NewMessage::user(&task)];
                }
                if style.is_none() {
                    style = self.store.contexts().style(id).await?;
                }
                RunPlace::Instance(id)
            }
        };
        let messages = messages
            .iter()
            .map(|message| message.to_json_in(style))
            .collect::<Result<_>>()?;
        if let Some(id) = run_id.filter(|id| self.is_arriving(*id)) {
            let message = format!("run {id} is just being started; give another id, or none");
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        let id = run_id.unwrap_or_else(|| RunId(self.store.backend().new_id()));
        let _arriving = self.starting(vec![id]);
        let new = NewRun {
            id: Some(id),
            agent_name: Some(definition.name.clone()),
            project,
            max_steps: definition.max_steps,
            metadata,
            messages,
            ..NewRun::at(place)
        };
        let recorder = self.store.runs().start(new).await?;
        let beginning = Beginning {
            recorder,
            definition: Some(Arc::clone(&definition)),
            task,
            depth: 0,
            space: self.new_space(id),
            inbox: self.inbox(id, Vec::new()),
        };
        let timeout = timeout.or(definition.default_timeout_ms.map(Duration::from_millis));
        let live = self.enter(ActiveRun::new(beginning, None));
        self.begin(Arc::clone(&live), executor, timeout, None);
        Ok(live)
    }

    async fn project_of(&self, place: &StartPlace) -> Result<Option<String>> {
        let session = match place {
            StartPlace::NewSession(new) => return Ok(new.project.clone()),
            StartPlace::Session(id) => *id,
            StartPlace::Instance(id) => self.store.known_instance(*id).await?.session_id,
        };
        let found = self.store.get_session(session).await?;
        found
            .map(|session| session.project)
            .ok_or_else(|| Error::not_found(format!("no session {session}")))
    }

    pub(super) async fn resume(
        self: &Arc<Self>,
        id: RunId,
        options: &ResumeOptions,
        timeout: Option<Duration>,
    ) -> Result<Arc<ActiveRun>> {
        let (inner, options) = (Arc::clone(self), options.clone());
        self.to_the_end(async move { inner.resume_now(id, options, timeout).await })
            .await?
    }

    async fn resume_now(
        self: Arc<Self>,
        id: RunId,
        mut options: ResumeOptions,
        timeout: Option<Duration>,
    ) -> Result<Arc<ActiveRun>> {
        check_timeout(timeout)?;
        let run = self
            .store
            .runs()
            .get(id)
            .await?
            .ok_or_else(|| Error::not_found(format!("no run {id}")))?;
        let (definition, executor) = self.agent(run.project.as_deref(), &run.agent_name).await?;
        self.check_room(1)?;
        options.max_steps = options.max_steps.or(definition.max_steps);
        options.max_total_steps = options.max_total_steps.min(self.options.max_total_steps);
        let task = match &options.message {
            Continuation::Message(message) => message.content.to_value().ok(),
            Continuation::Task(task) => Some(task.clone()),
            Continuation::Default | Continuation::Nothing => None,
        };
        let task = match task {
            Some(task) => task,
            None => self.task_of(id).await?,
        };
        let waiting = self.commands_left_by(id).await?;
        let space = self.space_of(id).await?;
        let new_id = *options
            .id
            .get_or_insert_with(|| RunId(self.store.backend().new_id()));
        let _arriving = self.starting(vec![new_id]);
        // Its agent reads the messages that it needs.
        let extras = ResumeExtras {
            without_messages: true,
            ..ResumeExtras::default()
        };
        let runs = self.store.runs();
        let resumed = runs.resume_with_extras(id, &options, &extras).await?;
        let beginning = Beginning {
            recorder: resumed.recorder,
            definition: Some(Arc::clone(&definition)),
            task,
            depth: self.depth_of(resumed.run.parent_run_id).await?,
            space,
            inbox: self.inbox(new_id, waiting),
        };
        let timeout = timeout.or(definition.default_timeout_ms.map(Duration::from_millis));
        let live = self.enter(ActiveRun::new(beginning, None));
        self.begin(Arc::clone(&live), executor, timeout, None);
        Ok(live)
    }
}
